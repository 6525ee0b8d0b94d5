//! Writes to the API server as a scenario expects them (`expect: {writes: …}`): in order and field by field.
//!
//! `expected` has the format of the lines, `shown` brings a recorded write into that format, and `compare` describes the
//! differences. `cluster::write_recorder` records. `docs/writes.md` has the format for users.

mod compare;
mod expected;
mod shown;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use compare::compare;
pub use expected::{Elsewhere, Expected, Line, expected};
pub use shown::{Names, Shown};

/// Recorded request that changes an object.
#[derive(Clone, Debug, Default)]
pub struct Write {
    /// The User-Agent.
    pub agent: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The media type of the body.
    pub media: String,
    /// The body.
    pub body: Value,
    /// For a PUT, the object before it.
    pub before: Value,
    /// The HTTP status of the reply, 0 until it arrives.
    pub status: u16,
    /// The body of the reply.
    pub answer: Value,
}
