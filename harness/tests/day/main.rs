//! `mooring up` and the commands around it, as real processes: a home of its own for each test, directories as disks.

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
