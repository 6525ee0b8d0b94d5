//! Parts of an object's manifest.

use substrate::json::{Text, Value};

pub(super) fn word(value: &Value) -> Option<Text> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn words<'a>(list: &'a Value, word: impl Fn(&'a Value) -> Option<Text>) -> Vec<Text> {
    list.as_array().into_iter().flatten().filter_map(word).collect()
}

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn has_finalizer(object: &Value, name: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|finalizer| finalizer == name))
}

/// Returns the claim of a pod's volume, if the volume is ephemeral.
pub(super) fn ephemeral_claim(pod: &Value, volume: &Value) -> Option<Text> {
    let name = volume["name"].as_str().filter(|_| !volume["ephemeral"].is_null())?;
    Some([pod["metadata"]["name"].as_str()?, "-", name].into_iter().collect())
}

/// Returns the uid of the owner that controls an object.
pub(super) fn controller(object: &Value) -> Option<Text> {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    word(&owners.find(|owner| owner["controller"] == true)?["uid"])
}
