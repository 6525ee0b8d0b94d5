//! Lists in JSON, made of the bytes of their objects.

use bytes::{BufMut, Bytes, BytesMut};
use substrate::json::{Value, json};

use crate::kinds::Kind;
use crate::text;

/// A list of objects of `kind`. Items of a built-in kind do not say their type, which Go knows from that of the list;
/// Go writes it first, so the rest of an item is that of its own bytes. Lists of custom kinds are maps to Go: sorted,
/// with items that say all.
pub fn json(kind: &Kind, meta: &Value, items: impl Iterator<Item = Bytes>) -> Bytes {
    let version = kind.api_version();
    let (name, version) = (json!(kind.list_kind()), json!(version));
    if kind.custom.is_none() {
        let own = format!("{{\"kind\":\"{}\",\"apiVersion\":{version},", kind.kind);
        let before = written(|out| text::struct_fields("meta/v1.ListMeta", meta, out));
        let before = [format!("{{\"kind\":{name},\"apiVersion\":{version},\"metadata\":").as_bytes(), &before].concat();
        return joined(&before, own.as_bytes(), items, b"}");
    }
    let mut meta = meta.clone();
    if let Some(fields) = meta.as_object_mut() {
        // Go's list of maps always says it.
        fields.entry("continue").or_insert_with(|| "".into());
    }
    let after =
        [format!(",\"kind\":{name},\"metadata\":").as_bytes(), &written(|out| text::write(&meta, out)), b"}"].concat();
    joined(format!("{{\"apiVersion\":{version}").as_bytes(), b"", items, &after)
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// `before`, the items without what they begin with where that is `own`, and `after`.
fn joined(before: &[u8], own: &[u8], items: impl Iterator<Item = Bytes>, after: &[u8]) -> Bytes {
    let items: Vec<Bytes> = items.collect();
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut list = BytesMut::with_capacity(before.len() + size + after.len() + 16);
    list.put_slice(before);
    list.put_slice(b",\"items\":[");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            list.put_u8(b',');
        }
        match item.strip_prefix(own) {
            Some(rest) if !own.is_empty() => {
                list.put_u8(b'{');
                list.put_slice(rest);
            }
            _ => list.put_slice(item),
        }
    }
    list.put_u8(b']');
    list.put_slice(after);
    list.freeze()
}
