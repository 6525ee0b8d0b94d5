//! harness.

pub mod scenario;
