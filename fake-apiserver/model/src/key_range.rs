//! Ranges of keys.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::object::{Key, Object};

/// Returns the common prefix of a namespace's keys; empty for all namespaces and for cluster-scoped kinds.
pub fn prefix(namespace: Option<&str>) -> String {
    namespace.map(|n| format!("{n}/")).unwrap_or_default()
}

/// Returns the objects whose key begins with `prefix`, from `start` on.
pub fn within<'a>(
    objects: &'a OrdMap<Key, Arc<Object>>,
    prefix: &'a str,
    start: &str,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Object>)> {
    objects
        .range::<_, str>((Bound::Included(start), Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}
