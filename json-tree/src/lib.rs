//! A JSON tree for many small objects: like [`serde_json::Value`], in less memory and time.
//!
//! ```
//! use json_tree::json;
//!
//! let mut pod = json!({"spec": {"containers": []}, "metadata": {"name": "web"}});
//! pod["spec"]["nodeName"] = json!("node-a");
//! assert_eq!(pod["spec"]["nodeName"].as_str(), Some("node-a"));
//! assert_eq!(pod.pointer("/metadata/name"), Some(&json!("web")));
//! assert_eq!(pod.to_string(), r#"{"metadata":{"name":"web"},"spec":{"containers":[],"nodeName":"node-a"}}"#);
//! ```
//!
//! # Why
//!
//! A Kubernetes object is a tree of many maps with few members and short names, and an API server reads, copies,
//! changes and writes such trees all the time. `serde_json` gives each map a B-tree node with room for eleven members,
//! and each name and string its own allocation. Here a map is a sorted vector. A string of up to 23 bytes is stored in
//! place, and a longer one is shared by all copies.
//!
//! `cargo bench -p json-tree` measures both with recorded objects of a real API server, and prints the ratios. Reading
//! takes two thirds of `serde_json`'s time, a copy a third to a quarter, a copy that is changed and compared half.
//! Writing takes as long or slightly longer. (Five objects of 3 kB each, on a machine with two busy cores.)
//!
//! # Interface
//!
//! Names and behaviour of the methods are those of `serde_json`: [`Value`], [`Map`], [`json!`], [`to_value`],
//! [`from_value`], `value["spec"]["nodeName"]`, `pointer`. Members are sorted by name, so that equal trees give equal
//! text. A property test compares the two. [`read`] also reports duplicate names in an object, which an API server must
//! warn of.
//!
//! [`Value`] and [`Map`] are in `value` and `map`; `read` and `write` are serde's two sides, `convert` has comparisons
//! and conversions, `index` the brackets, `macros` [`json!`].
//!
//! # Limits
//!
//! - Inserting in the middle of a map of `n` members takes `n` moves. Objects with thousands of members need a B-tree.
//! - Numbers are [`serde_json::Number`], and `serde_json` parses and writes the text: this crate has no parser.
//! - As in `serde_json`, text that is nested more than 128 deep is refused.
//!
//! # Use
//!
//! It is the tree of *objects of the API*: in the API server's store, patches and answers, in the control loops'
//! caches, and in what the harness reads from a cluster. `serde_json::Value` stays
//!
//! - at the edges of other libraries that have it in their types: `json-patch` (the RFC 6902 patches of the API server
//!   and of its webhooks), `serde-saphyr` and the CEL interpreter behind scenario files;
//! - for small documents that are not objects of the API and are built once: answers of the admin APIs, the envelopes
//!   of `--output json`, ready files, reports, JSON Schema, details of a violation;
//! - in clients of tests, which must not use the tree to check the tree.

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

/// A string of the tree: a name or a text. Strings of up to 23 bytes need no allocation; longer ones are shared by
/// their copies.
pub type Text = smol_str::SmolStr;

/// Deserializes `value` as a `T`.
///
/// # Errors
/// The part of the value that does not fit `T`.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.into())
}
