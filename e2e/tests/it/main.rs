//! Suites with real programs and clients. One binary, which links once, and whose tests share the processors while
//! others wait.

mod command_line;
mod compose;
mod containers;
mod determinism;
mod documents;
mod ec2_boto3;
mod ec2_cli;
mod ec2_tools;
mod envtest;
mod examples;
mod examples_more;
mod kubernetes_python;
mod live_clients;
mod logs;
mod playbooks;
mod scenarios;
mod up;
