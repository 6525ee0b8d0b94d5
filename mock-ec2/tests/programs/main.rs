//! The `mock-ec2` program.
//!
//! Its tests are apart from those of `tests/it/`: until a new child runs its program, it holds the open files of the
//! tests beside it, with their locks. A test that closes a state file and opens it again would find it locked.

#[path = "../common/mod.rs"]
mod common;

mod connections;
mod durability;
mod program;
mod regions;
mod restart;
