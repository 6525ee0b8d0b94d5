//! The JSON tree that the server works on: what [`serde_json::Value`] is, made for many small objects.
//!
//! A Kubernetes object is a tree of many maps with few members and short names. `serde_json` gives each map a B-tree
//! node with room for eleven members and each name and text an allocation of its own; here a map is a sorted vector,
//! and a string of up to 23 bytes lies in its place while a longer one is shared by all copies. The names and the
//! behaviour of the methods are those of `serde_json`, and members are in the order of their names.

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

pub use crate::json_tree as json;

/// A string of the tree: a name or a text. Up to 23 bytes take no allocation, longer ones are shared by their copies.
pub type Text = smol_str::SmolStr;

/// Reads `value` as a `T`.
///
/// # Errors
/// What of the value `T` does not take.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(value.into())
}
