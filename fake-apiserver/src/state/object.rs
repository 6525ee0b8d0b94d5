//! One stored object: its tree and its bytes, made once per revision and shared by every reader and watcher.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use super::{text, value};

/// Most objects are smaller, so that their encoding takes one allocation.
const USUAL_BYTES: usize = 4096;

/// An object at one revision.
#[derive(Debug)]
pub struct Object {
    /// The tree.
    pub value: Value,
    /// The tree as JSON.
    pub json: Bytes,
    /// The revision that wrote it.
    pub revision: u64,
    protobuf: OnceLock<Bytes>,
}

impl Object {
    /// Encodes `value`, which is given `revision` as its resourceVersion.
    pub fn new(mut value: Value, revision: u64) -> Arc<Self> {
        value::metadata(&mut value).insert("resourceVersion".into(), revision.to_string().into());
        Self::at(value, revision)
    }

    /// Encodes `value` as it is, under `revision`.
    pub fn at(value: Value, revision: u64) -> Arc<Self> {
        let json = encode(&value);
        Arc::new(Self { value, json, revision, protobuf: OnceLock::new() })
    }

    /// The bytes of its protobuf message; `encode` makes them at the first call.
    pub fn protobuf(&self, encode: impl FnOnce(&Value) -> Bytes) -> &Bytes {
        self.protobuf.get_or_init(|| encode(&self.value))
    }

    /// Encodes the result of a dry run: it has no revision.
    pub fn transient(value: Value) -> Arc<Self> {
        Self::at(value, 0)
    }
}

/// A tree as JSON bytes.
pub fn encode(value: &Value) -> Bytes {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    text::write(value, &mut bytes);
    // Objects live long: none keeps more memory than it needs.
    bytes.shrink_to_fit();
    bytes.into()
}

/// Where an object stands within its kind: `namespace/name`, or `name`. Its byte order is the order of lists (R9).
pub type Key = Arc<str>;

/// The key of an object.
pub fn key(namespace: Option<&str>, name: &str) -> Key {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// The name in a key.
pub fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}
