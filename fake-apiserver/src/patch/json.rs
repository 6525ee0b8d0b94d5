//! JSON patch (RFC 6902).

use std::borrow::Cow;

use json_patch::{AddOperation, PatchOperation};
use substrate::json::{self, Value};

use super::PatchError;
use crate::go_json::word;

/// Maximum number of operations in one patch (upstream's handlers/patch.go `maxJSONPatchOperations`).
const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of bytes that the copies of one patch may add; upstream uses the limit of a request body, 3 MiB.
const MAX_COPIED_BYTES: usize = 3 << 20;

pub(super) fn apply(patch: &Value, target: &Value) -> Result<Value, PatchError> {
    let list = read(patch).map_err(|why| PatchError::Malformed(format!("error decoding patch: json: {why}")))?;
    if list.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations { limit: MAX_OPERATIONS, got: list.len() });
    }
    let mut operations = Vec::with_capacity(list.len());
    for operation in list {
        operations.push(json::from_value::<PatchOperation>(whole(operation)).map_err(|_| PatchError::Inapplicable)?);
    }
    let mut patched = serde_json::Value::from(target.clone());
    let mut copied = 0;
    for operation in &operations {
        if let PatchOperation::Copy(copy) = operation
            && let Some(source) = patched.pointer(copy.from.as_str())
        {
            // Copies of copies double the size: without a limit, a small body could fill the memory.
            copied += source.to_string().len();
            if copied > MAX_COPIED_BYTES {
                return Err(PatchError::CopyTooLarge { limit: MAX_COPIED_BYTES, size: copied });
            }
        }
        // In Go's implementation a missing value is equal to null, and clients test for that before they add a first
        // finalizer.
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
            && patched.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        let operation = lenient(operation, &patched);
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&*operation))
            .map_err(|_| PatchError::Inapplicable)?;
    }
    Ok(patched.into())
}

/// Returns the operations of a patch, if Go can decode them: objects whose `op`, `path` and `from` are strings.
fn read(patch: &Value) -> Result<&[Value], String> {
    let list = match patch {
        Value::Array(list) => list.as_slice(),
        Value::Null => &[],
        other => return Err(format!("cannot unmarshal {} into Go value of type []handlers.jsonPatchOp", word(other))),
    };
    for operation in list {
        if !operation.is_object() && !operation.is_null() {
            return Err(format!("cannot unmarshal {} into Go value of type handlers.jsonPatchOp", word(operation)));
        }
        for field in ["op", "path", "from"] {
            if let Some(other) = operation.get(field).filter(|text| !text.is_string() && !text.is_null()) {
                return Err(format!(
                    "cannot unmarshal {} into Go struct field jsonPatchOp.{field} of type string",
                    word(other)
                ));
            }
        }
    }
    Ok(list)
}

/// Adds a null value to an operation without a value, as Go does.
fn whole(operation: &Value) -> Value {
    let mut operation = operation.clone();
    if let Some(fields) = operation.as_object_mut()
        && fields.get("op").is_some_and(|op| ["add", "replace", "test"].iter().any(|with| op == with))
    {
        fields.entry("value").or_insert(Value::Null);
    }
    operation
}

/// Turns a replace of a missing member into an add, as Go's implementation does. external-snapshotter starts
/// annotations and errors this way.
fn lenient<'a>(operation: &'a PatchOperation, target: &serde_json::Value) -> Cow<'a, PatchOperation> {
    if let PatchOperation::Replace(replace) = operation
        && let Some((parent, _)) = replace.path.as_str().rsplit_once('/')
        && target.pointer(parent).is_some_and(serde_json::Value::is_object)
        && target.pointer(replace.path.as_str()).is_none()
    {
        let add = AddOperation { path: replace.path.clone(), value: replace.value.clone() };
        return Cow::Owned(PatchOperation::Add(add));
    }
    Cow::Borrowed(operation)
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    fn pv() -> Value {
        json!({"metadata": {"name": "pv", "finalizers": ["kubernetes.io/pv-protection", "external-attacher/ebs"]}})
    }

    #[test]
    fn the_attachers_finalizer_patches_work() {
        let added = apply(&json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "x"}]), &pv()).unwrap();
        assert_eq!(added["metadata"]["finalizers"][2], "x");
        let removed = apply(
            &json!([{"op": "test", "path": "/metadata/finalizers/1", "value": "external-attacher/ebs"},
                    {"op": "remove", "path": "/metadata/finalizers/1"}]),
            &pv(),
        )
        .unwrap();
        assert_eq!(removed["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    }

    #[test]
    fn a_failed_test_or_a_missing_path_is_422_and_changes_nothing() {
        for patch in [
            json!([{"op": "add", "path": "/a", "value": 1}, {"op": "test", "path": "/metadata/name", "value": "other"}]),
            json!([{"op": "remove", "path": "/metadata/labels/x"}]),
            json!([{"op": "replace", "path": "/spec/taints", "value": []}]),
        ] {
            assert_eq!(apply(&patch, &pv()).unwrap_err().code(), 422, "{patch}");
        }
    }

    #[test]
    fn a_member_that_is_not_there_is_replaced_all_the_same() {
        let patch = json!([{"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}},
            {"op": "replace", "path": "/metadata/annotations/c~1d", "value": "e"}]);
        assert_eq!(apply(&patch, &pv()).unwrap()["metadata"]["annotations"], json!({"a": "b", "c/d": "e"}));
        for path in ["/status/error", "/metadata/finalizers/7", "/metadata/name/x"] {
            let patch = json!([{"op": "replace", "path": path, "value": 1}]);
            assert_eq!(apply(&patch, &pv()).unwrap_err().code(), 422, "{path}");
        }
    }

    #[test]
    fn null_is_found_where_there_is_nothing() {
        let patch = json!([{"op": "test", "path": "/metadata/labels", "value": null},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
        assert_eq!(apply(&patch, &pv()).unwrap()["metadata"]["labels"]["a"], "b");
        let there = json!([{"op": "test", "path": "/metadata/name", "value": null}]);
        assert_eq!(apply(&there, &pv()).unwrap_err().code(), 422);
    }

    #[test]
    fn an_invalid_patch_is_400_as_upstream() {
        for (patch, why) in [
            (json!({}), "object into Go value of type []handlers.jsonPatchOp"),
            (json!("x"), "string into Go value of type []handlers.jsonPatchOp"),
            (json!([1]), "number into Go value of type handlers.jsonPatchOp"),
            (json!([{"op": 1, "path": "/a"}]), "number into Go struct field jsonPatchOp.op of type string"),
            (json!([{"op": "add", "path": []}]), "array into Go struct field jsonPatchOp.path of type string"),
        ] {
            let error = apply(&patch, &pv()).unwrap_err();
            let text = format!("error decoding patch: json: cannot unmarshal {why}");
            assert_eq!((error.code(), error.to_string()), (400, text), "{patch}");
        }
    }

    #[test]
    fn an_operation_that_does_not_exist_is_422_and_a_missing_value_is_null() {
        for patch in [
            json!([{"op": "shout", "path": "/a"}]),
            json!([{"path": "/a"}]),
            json!([{"op": "add", "value": 1}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([null]),
        ] {
            let error = apply(&patch, &pv()).unwrap_err();
            let text = "the server rejected our request due to an error in our request";
            assert_eq!((error.code(), error.to_string().as_str()), (422, text), "{patch}");
        }
        let added = apply(&json!([{"op": "add", "path": "/a"}]), &pv()).unwrap();
        assert_eq!(added["a"], Value::Null);
        assert!(added.as_object().unwrap().contains_key("a"));
    }

    #[test]
    fn ten_thousand_operations_are_the_limit() {
        let test = json!({"op": "test", "path": "/metadata/name", "value": "pv"});
        assert!(apply(&Value::Array(vec![test.clone(); 10_000]), &pv()).is_ok());
        let error = apply(&Value::Array(vec![test; 10_001]), &pv()).unwrap_err();
        assert_eq!((error.code(), error.reason()), (413, "RequestEntityTooLarge"));
    }

    #[test]
    fn copies_that_double_are_stopped() {
        let mut list = vec![json!({"op": "add", "path": "/a", "value": {"text": "0123456789"}})];
        list.extend((0..60).map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a/{i}")})));
        assert_eq!(apply(&Value::Array(list), &pv()).unwrap_err().code(), 413);
    }
}
