//! The driver: its services in process, its suites, and the `csi-mock` program. One binary, which links once.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod bench;
mod controller;
mod csimock;
mod efs;
mod node;
mod plug;
mod program;
mod robust;
mod sanity;
mod support;
