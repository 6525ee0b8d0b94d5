//! Robustness of the driver: many callers at once, a crash at every point of every call, faults of every kind.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

#[path = "../sanity/bench.rs"]
mod bench;
mod catalogue;
mod concurrency;
mod faults;
mod malformed;
mod mutants;
mod restart;
