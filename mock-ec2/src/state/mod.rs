//! The pure machine.

pub mod latency;
