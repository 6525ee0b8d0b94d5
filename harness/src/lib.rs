//! harness.

pub mod invariants;
pub mod output;
pub mod scenario;
pub mod timeline;
