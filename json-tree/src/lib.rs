//! A tree of JSON made for many small objects: what [`serde_json::Value`] is, in less memory and time.
//!
//! # Why
//!
//! A Kubernetes object is a tree of many maps with few members and short names, and an API server reads, copies,
//! changes and writes such trees all day. `serde_json` gives each map a B-tree node with room for eleven members and
//! each name and text an allocation of its own. Here a map is a sorted vector, and a string of up to 23 bytes lies in its
//! place while a longer one is shared by all copies.
//!
//! `cargo bench -p json-tree` measures both on objects that were recorded of a real API server, and prints the ratios:
//! to read takes two thirds of `serde_json`'s time, a copy a third to a quarter, a copy that is changed and compared half,
//! to write as long or a little longer. (Five objects of 3 kB each, on a machine with two busy cores.)
//!
//! # What it is
//!
//! The names and the behaviour of the methods are those of `serde_json`: [`Value`], [`Map`], [`json!`], [`to_value`],
//! [`from_value`], `value["spec"]["nodeName"]`, `pointer`. Members are in the order of their names, so that the same
//! tree is the same text. A property test holds the two against each other. [`read`] also says whether an object names
//! a member twice, which an API server must warn of.
//!
//! # Limits
//!
//! - A map of `n` members takes `n` moves to insert in its middle. Objects with thousands of members are for a B-tree.
//! - Numbers are [`serde_json::Number`], and text is parsed and written by `serde_json`: this is a tree and no parser.
//! - As there, a text that is nested more than 128 deep is refused.
//!
//! # Where it is used, and where it is not
//!
//! It is the tree of *objects of the API*: the API server's store, patches and answers, the control loops' caches,
//! what the harness reads of a cluster. `serde_json::Value` stays
//!
//! - at the edges of other libraries that have it in their types: `json-patch` (the RFC 6902 patches of the API server
//!   and of its webhooks), `serde-saphyr` and the CEL interpreter behind scenario files;
//! - for documents that are no objects of the API, are small and are made once: answers of the admin APIs, the
//!   envelopes of `--output json`, ready files, reports, JSON Schema, details of a violation;
//! - in clients of tests, which must not judge the tree by itself.

mod convert;
mod index;
mod macros;
mod map;
mod read;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub use index::Index;
pub use map::{Entry, Map};
pub use read::read;
pub use serde_json::Number;
pub use value::Value;
pub use write::to_value;

/// A string of the tree: a name or a text. Up to 23 bytes take no allocation, longer ones are shared by their copies.
pub type Text = smol_str::SmolStr;

/// Reads `value` as a `T`.
///
/// # Errors
/// What of the value `T` does not take.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.into())
}
