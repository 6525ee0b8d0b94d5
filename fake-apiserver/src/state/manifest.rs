//! Validation of a manifest without a store: fields, types and values, by the same schemas and rules as a write.

use substrate::json::Value;

use super::{shape, strategy, value};
use crate::kinds::schema::{self, Shape, Type};
use crate::kinds::{self, Kind};

/// An error in a field of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Path of the field, such as `spec.containers[0].image`; empty for the whole manifest.
    pub field: String,
    /// The error, in upstream's words.
    pub message: String,
    /// For an unknown field, the fields that are allowed beside it.
    pub known: Vec<String>,
}

/// Returns the errors of an object that is to be created in `namespace`, as far as they do not depend on other objects.
/// For a part of an object (`whole` is false), only unknown fields and values of a wrong type.
pub fn check(kind: &Kind, namespace: Option<&str>, mut object: Value, whole: bool) -> Vec<ManifestError> {
    let unknown = match shape::unmarshal(kind, &mut object) {
        Ok(unknown) => unknown,
        Err(shape::Mistyped { field, message }) => return vec![ManifestError { field, message, known: Vec::new() }],
    };
    if !unknown.is_empty() {
        let wrong = |field: String| {
            let message = format!("{} has no field \"{field}\"", kind.kind);
            ManifestError { known: beside(kind, &field), message, field }
        };
        return unknown.into_iter().map(wrong).collect();
    }
    if !whole {
        return Vec::new();
    }
    let stored = kinds::stored(kind);
    if let Some(namespace) = namespace {
        value::metadata(&mut object).insert("namespace", namespace.into());
    }
    strategy::default(stored, &mut object);
    let errors = strategy::validate(stored, &object).into_iter();
    errors.map(|error| ManifestError { message: error.body(), field: error.field, known: Vec::new() }).collect()
}

/// Returns the fields that are allowed where `path` is.
fn beside(kind: &Kind, path: &str) -> Vec<String> {
    let Some(mut of) = schema::of(kind) else { return Vec::new() };
    let mut parts: Vec<&str> = path.split('.').collect();
    parts.pop();
    for part in parts {
        let name = part.split('[').next().unwrap_or(part);
        match of.field(name).and_then(|field| inner(&field.shape)) {
            Some(next) => of = next,
            None => return Vec::new(),
        }
    }
    of.fields.iter().map(|field| field.name.to_string()).collect()
}

fn inner(shape: &Shape) -> Option<&Type> {
    match shape {
        Shape::Ref(of) => Some(of.get()),
        Shape::Custom(of) => Some(of),
        Shape::List(element) | Shape::Map(element) => inner(element),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn claim(spec: Value) -> Vec<ManifestError> {
        let kind = kinds::find("", "v1", "persistentvolumeclaims").unwrap();
        check(
            kind,
            Some("default"),
            json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" }, "spec": spec }),
            true,
        )
    }

    #[test]
    fn an_invalid_manifest_names_its_field() {
        let good = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        assert_eq!(claim(good.clone()), []);
        let mut typo = good.clone();
        typo["storageClasName"] = "gp3".into();
        let wrong = claim(typo);
        assert_eq!((wrong[0].field.as_str(), wrong.len()), ("spec.storageClasName", 1));
        assert!(wrong[0].known.contains(&"storageClassName".to_owned()), "{wrong:?}");
        let mut mistyped = good.clone();
        mistyped["accessModes"] = "ReadWriteOnce".into();
        assert_eq!(claim(mistyped)[0].field, "spec.accessModes");
        let mut missing = good;
        missing["resources"] = json!({});
        let wrong = claim(missing);
        assert_eq!((wrong[0].field.as_str(), wrong[0].message.as_str()), ("spec.resources[storage]", "Required value"));
    }
}
