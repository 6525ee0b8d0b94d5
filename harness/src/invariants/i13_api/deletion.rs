//! Deletion: a deletionTimestamp is neither taken back nor postponed, and only a deletion sets it. A terminating object
//! gets no finalizers, and goes with its last one. No object goes with finalizers, and no pod before the end of its
//! grace period.
//!
//! The finalizers of the garbage collector are exempt at a DELETE, which sets and removes them by its propagation
//! policy. Namespaces have finalizers in their spec; `Contract::check_namespace` judges them by their content. A
//! definition is removed by the server itself after its objects.

use substrate::json::Value;

use super::write::{Write, finalizers, meta, number};

/// Finalizers that a DELETE sets and removes.
const OF_COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    let old = write.old.as_deref()?;
    match write.new.as_deref() {
        Some(new) => changed(write, old, new),
        None => removed(write, old),
    }
}

fn changed(write: &Write<'_>, old: &Value, new: &Value) -> Option<String> {
    let (was, is) = (meta(old, "deletionTimestamp"), meta(new, "deletionTimestamp"));
    if !was.is_empty() && is.is_empty() {
        return Some("is no longer being deleted".to_owned());
    }
    if !was.is_empty() && is > was {
        return Some(format!("is to go at {is}, and before it was to go at {was}"));
    }
    let grace = |object: &Value| number(object, "deletionGracePeriodSeconds");
    if let (false, Some(was), Some(is)) = (was.is_empty(), grace(old), grace(new))
        && is > was
    {
        return Some(format!("has a grace period of {is} seconds, and before it had {was}"));
    }
    if was.is_empty() && !is.is_empty() && write.resource() != "namespaces" && grace(new).is_none() {
        return Some("is being deleted without deletionGracePeriodSeconds".to_owned());
    }
    if !write.is_update() {
        return None;
    }
    if was.is_empty() && !is.is_empty() {
        return Some(format!("is being deleted, and the request was not a deletion ({})", write.verb));
    }
    if was.is_empty() {
        return None;
    }
    if let Some(added) = finalizers(new).iter().find(|finalizer| !finalizers(old).contains(finalizer)) {
        return Some(format!("is being deleted and got the finalizer {added}"));
    }
    let goes = finalizers(new).is_empty() && grace(new).unwrap_or(0) == 0 && write.resource() != "namespaces";
    goes.then(|| "is being deleted, has no finalizers, and stays".to_owned())
}

fn removed(write: &Write<'_>, old: &Value) -> Option<String> {
    if write.resource() == "pods" && number(old, "deletionGracePeriodSeconds") != Some(0) {
        return Some("was removed before its grace period ended".to_owned());
    }
    if matches!(write.resource(), "namespaces" | "customresourcedefinitions") {
        return None;
    }
    if write.is_update() {
        return meta(old, "deletionTimestamp").is_empty().then(|| "was removed and not deleted".to_owned());
    }
    if !matches!(write.verb, "delete" | "deletecollection" | "create") {
        return None;
    }
    let kept = finalizers(old).iter().find(|finalizer| !OF_COLLECTOR.iter().any(|own| *finalizer == own))?;
    Some(format!("was removed with the finalizer {kept}"))
}
