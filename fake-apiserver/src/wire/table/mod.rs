//! The Table representation: the columns that kubectl prints, computed by the server.
//!
//! Columns and cells are those of upstream's printers (pkg/printers/internalversion).

mod age;
mod cells;
mod columns;
mod network;
mod pod;
mod policy;
mod workload;

use std::borrow::Borrow;

use jiff::Timestamp;
use substrate::json::{Map, Value, json};

use super::negotiate::IncludeObject;
use crate::kinds::Kind;

/// Returns a `meta.k8s.io/v1` Table of `objects`, which are of `kind`. `list_meta` is the list's metadata
/// (resourceVersion, continue, remainingItemCount), or for a single object its resourceVersion. Ages are relative to
/// `now`.
pub fn table<T: Borrow<Value>>(
    kind: &Kind,
    objects: impl Iterator<Item = T>,
    list_meta: Value,
    now: Timestamp,
    include_object: IncludeObject,
) -> Value {
    let rows: Vec<Value> = objects.map(|object| row(kind, object.borrow(), now, include_object)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": columns(kind),
        "rows": rows,
    })
}

/// Returns the column definitions of a Table of `kind`.
pub fn columns(kind: &Kind) -> Value {
    columns::of(kind).iter().map(columns::Column::definition).collect()
}

fn row(kind: &Kind, object: &Value, now: Timestamp, include_object: IncludeObject) -> Value {
    let mut row = Map::new();
    row.insert("cells", cells::of(kind, object, now).into());
    if kind.plural == "pods"
        && let Some(condition) = pod::row_condition(object)
    {
        row.insert("conditions", json!([condition]));
    }
    include(&mut row, object, include_object);
    Value::Object(row)
}

/// Adds the wanted part of an object to its row.
fn include(row: &mut Map, object: &Value, include_object: IncludeObject) {
    match include_object {
        IncludeObject::None => {}
        IncludeObject::Metadata => {
            row.insert("object", partial_metadata(object));
        }
        IncludeObject::Object => {
            row.insert("object", object.clone());
        }
    }
}

/// Returns the Table of a Scale (`printScale`).
pub fn scale(scale: &Value, now: Timestamp, include_object: IncludeObject) -> Value {
    let replicas = |of: &str| Value::from(scale[of]["replicas"].as_i64().unwrap_or(0));
    let (name, age) = (scale["metadata"]["name"].clone(), age::since(&scale["metadata"]["creationTimestamp"], now));
    let mut row = Map::new();
    row.insert("cells", vec![name, replicas("spec"), replicas("status"), age.into()].into());
    include(&mut row, scale, include_object);
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": columns::SCALE.iter().map(columns::Column::definition).collect::<Vec<_>>(),
        "rows": [Value::Object(row)],
    })
}

/// Returns the `PartialObjectMetadata` of an object.
pub fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Returns the `PartialObjectMetadataList` of objects; `list_meta` as for [`table`].
pub fn partial_metadata_list<T: Borrow<Value>>(objects: impl Iterator<Item = T>, list_meta: Value) -> Value {
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "items": objects.map(|object| partial_metadata(object.borrow())).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
