//! `mooring up` and the commands for a Mooring that is up, as processes. Each test has its own home directory, and
//! directories serve as disks.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

mod checks;
mod collect;
mod env;
mod faults;
mod home;
mod kubeconfig;
mod logs;
mod names;
mod ports;
mod reset;
mod waits;
