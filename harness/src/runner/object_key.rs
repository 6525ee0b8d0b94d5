//! Keys of objects.

/// Key that identifies an object among others of its kind.
pub(super) fn key(object: &substrate::json::Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    metadata["namespace"].as_str().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}
