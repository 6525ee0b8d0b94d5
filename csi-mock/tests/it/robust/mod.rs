//! Robustness of the driver: many callers at once, a crash at every point of every call, faults of every kind.

mod catalogue;
mod concurrency;
mod faults;
mod malformed;
mod mutants;
mod restart;
