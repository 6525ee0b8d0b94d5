//! Identity of an object: the fields by which clients know it. Writes cannot change them.

use substrate::json::Value;

use super::object::key;
use super::value::{name, namespace, text};
use crate::kinds::Kind;

/// Paths of the fields of the identity.
const FIELDS: [&[&str]; 6] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "creationTimestamp"],
];

/// Returns the path of the first identity field in which `new` differs from `old`.
pub fn changed(old: &Value, new: &Value) -> Option<String> {
    FIELDS.iter().find(|path| text(old, path) != text(new, path)).map(|path| path.join("."))
}

/// Returns true if an object's key matches its own name, namespace and type.
pub fn stands_at(kind: &Kind, at: &str, object: &Value) -> bool {
    let (name, namespace) = (name(object), namespace(object));
    let namespace = (!namespace.is_empty()).then_some(namespace);
    !name.is_empty()
        && *key(namespace, name) == *at
        && kind.namespaced == namespace.is_some()
        && text(object, &["kind"]) == kind.kind
        && text(object, &["apiVersion"]) == kind.api_version()
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use crate::kinds;

    #[test]
    fn each_field_of_the_identity_is_seen_to_change() {
        let old = json!({"apiVersion": "v1", "kind": "Pod", "metadata":
            {"name": "a", "namespace": "d", "uid": "u", "creationTimestamp": "t", "labels": {"a": "b"}}});
        assert_eq!(changed(&old, &old), None);
        for path in FIELDS {
            let mut new = old.clone();
            match path {
                [field] => new[*field] = "x".into(),
                [_, field] => drop(new["metadata"].as_object_mut().unwrap().remove(field)),
                _ => unreachable!(),
            }
            assert_eq!(changed(&old, &new), Some(path.join(".")));
        }
        assert!(stands_at(kinds::find("", "v1", "pods").unwrap(), "d/a", &old));
        assert!(!stands_at(kinds::find("", "v1", "pods").unwrap(), "d/b", &old));
        assert!(!stands_at(kinds::find("", "v1", "nodes").unwrap(), "d/a", &old));
    }
}
