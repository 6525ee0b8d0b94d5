//! Lists in JSON, built from the encoded objects.

use substrate::json::{Value, json};

use crate::kinds::Kind;
use crate::text;

/// Bytes around the items of a list. Items of a built-in kind have no apiVersion and kind, which Go infers from the
/// list. In an encoded object they come first, so an item is the rest of the object's bytes. For Go, lists of custom
/// kinds are maps: sorted, and with complete items.
#[derive(Debug)]
pub struct Frame {
    before: Vec<u8>,
    own: Vec<u8>,
    after: Vec<u8>,
}

impl Frame {
    /// Builds the frame of a list of objects of `kind`.
    pub fn of(kind: &Kind, meta: &Value) -> Self {
        let (name, version) = (json!(kind.list_kind()), json!(kind.api_version()));
        if kind.custom.is_none() {
            let own = format!("{{\"kind\":\"{}\",\"apiVersion\":{version},", kind.kind).into();
            let mut before = format!("{{\"kind\":{name},\"apiVersion\":{version},\"metadata\":").into_bytes();
            text::struct_fields("meta/v1.ListMeta", meta, &mut before);
            before.extend_from_slice(b",\"items\":[");
            return Self { before, own, after: b"]}".to_vec() };
        }
        let mut meta = meta.clone();
        if let Some(fields) = meta.as_object_mut() {
            // Go's list of maps always has it.
            fields.entry("continue").or_insert_with(|| "".into());
        }
        let mut after = format!("],\"kind\":{name},\"metadata\":").into_bytes();
        text::write(&meta, &mut after);
        after.push(b'}');
        Self { before: format!("{{\"apiVersion\":{version},\"items\":[").into(), own: Vec::new(), after }
    }

    /// Returns the bytes before the items.
    pub fn before(&self) -> &[u8] {
        &self.before
    }

    /// Returns the bytes after the items.
    pub fn after(&self) -> &[u8] {
        &self.after
    }

    /// Returns an encoded object as an item: its first bytes, and the rest.
    pub fn item<'i>(&self, object: &'i [u8]) -> (&'static [u8], &'i [u8]) {
        match object.strip_prefix(&self.own[..]) {
            Some(rest) if !self.own.is_empty() => (b"{", rest),
            _ => (b"", object),
        }
    }
}
