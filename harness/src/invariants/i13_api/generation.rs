//! Generation: it starts at 1, and never becomes smaller. An update counts one if the content besides the status
//! changed. The beginning of a deletion counts one (upstream's `BeforeDelete`). Nothing else counts.
//!
//! Only kinds whose upstream strategy counts the whole spec are judged by their content. The annotations of a
//! Deployment count upstream, so a Deployment with changed annotations is not judged. Neither is a custom object whose
//! status changed by a write of the object: upstream counts it, because the kind has no status subresource.

use super::write::{Write, content, meta, number};

/// Resources whose generation starts at 1 and counts changes of the spec.
const COUNTED: &[&str] = &[
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "ingresses",
    "jobs",
    "networkpolicies",
    "poddisruptionbudgets",
    "pods",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
];

/// Checks a write.
pub(super) fn check(write: &Write<'_>) -> Option<String> {
    let new = write.new.as_deref()?;
    let is = number(new, "generation").unwrap_or(0);
    let is_counted = write.is_custom() || COUNTED.contains(&write.resource());
    let Some(old) = write.old.as_deref() else {
        let starts = !is_counted || write.asked.is_none() || is == 1;
        return (!starts).then(|| format!("was created with the generation {is}"));
    };
    let was = number(old, "generation").unwrap_or(0);
    if is < was || is > was + 1 {
        return Some(format!("went from generation {was} to {is}"));
    }
    if was == 0 || !is_counted {
        return None;
    }
    if meta(old, "deletionTimestamp").is_empty() && !meta(new, "deletionTimestamp").is_empty() {
        return (is != was + 1).then(|| format!("is being deleted, and its generation {is} does not count it"));
    }
    let counts = match write.subresource()? {
        "" if write.is_update() => {
            let is_annotated = old["metadata"]["annotations"] != new["metadata"]["annotations"];
            let is_status = old["status"] != new["status"];
            if write.resource() == "deployments" && is_annotated || write.is_custom() && is_status {
                return None;
            }
            content(old, new, &["status"]).is_some()
        }
        "status" | "approval" => false,
        _ => return None,
    };
    match (counts, is > was) {
        (true, false) => Some(format!("has a new spec, and its generation is still {is}")),
        (false, true) => Some(format!("has the same spec, and its generation went from {was} to {is}")),
        _ => None,
    }
}
