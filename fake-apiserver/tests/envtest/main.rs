//! `kube-apiserver` and `etcd` as controller-runtime's envtest starts them: its flags, its certificates, its health checks.

#![cfg(test)]

mod access;
mod client;
mod custom;
mod mistakes;
mod namespaces;
mod pair;
mod restart;
mod start;
mod webhook;
