//! Conditions of a terminating namespace: what is left in it (kube-controller-manager
//! `pkg/controller/namespace/deletion`). A namespace that goes at once gets none.

use std::collections::BTreeMap;

use substrate::Now;
use substrate::json::{Value, json};

use super::Store;
use super::dangling::is_same;
use super::key_range::{prefix, within};
use super::object::{Object, key};
use super::value::{self, list};
use crate::kinds;

/// Conditions, with reason and message while they are false.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (CONTENT, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

impl Store {
    /// Updates the conditions of a terminating namespace that is not empty.
    pub(super) fn report_content(&mut self, now: Now, namespace: &str) {
        let Some(found) = self.get(kinds::NAMESPACES, namespace).map(Object::unfolded) else { return };
        // As long as there are pods, upstream does not look at the rest.
        let left = if self.holds_any(kinds::PODS, namespace) { BTreeMap::new() } else { self.left(namespace) };
        let mut conditions = list(&found.value, &["status", "conditions"]).to_vec();
        let mut is_changed = false;
        for (of, reason, message) in CONDITIONS {
            let (status, reason, message) = match left.get(of) {
                Some(message) if of == CONTENT => ("True", "SomeResourcesRemain", message.as_str()),
                Some(message) => ("True", "SomeFinalizersRemain", message.as_str()),
                None => ("False", reason, message),
            };
            let mut reported = json!({
                "type": of, "status": status, "lastTransitionTime": value::time(now.wall), "reason": reason,
                "message": message,
            });
            match conditions.iter_mut().find(|condition| condition["type"] == of) {
                Some(known) if is_same(known, &reported) => {}
                Some(known) => {
                    if known["status"] == status {
                        reported["lastTransitionTime"] = known["lastTransitionTime"].clone();
                    }
                    *known = reported;
                    is_changed = true;
                }
                None => {
                    conditions.push(reported);
                    is_changed = true;
                }
            }
        }
        if !is_changed {
            return;
        }
        let mut object: Value = found.value.clone();
        if let Some(status) = value::map_mut(&mut object, "status") {
            status.insert("conditions", conditions.into());
        }
        self.put(now, kinds::NAMESPACES, key(None, namespace), object);
    }

    /// Returns the conditions that are true, with their messages.
    fn left(&self, namespace: &str) -> BTreeMap<&'static str, String> {
        let prefix = prefix(Some(namespace));
        let (mut resources, mut finalizers) = (Vec::new(), BTreeMap::<String, usize>::new());
        for kind in self.stored_kinds().into_iter().filter(|kind| kind.namespaced) {
            let mut count = 0;
            for (_, object) in within(self.kind_store(&kind).objects(), &prefix, &prefix) {
                count += 1;
                for finalizer in value::finalizers(&object.value).iter().filter_map(Value::as_str) {
                    *finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
            if count > 0 {
                resources.push(format!("{}.{} has {count} resource instances", kind.plural, kind.group));
            }
        }
        resources.sort();
        let mut left = BTreeMap::new();
        if !resources.is_empty() {
            left.insert(CONTENT, format!("Some resources are remaining: {}", resources.join(", ")));
        }
        if !finalizers.is_empty() {
            let each = finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
            let each = each.collect::<Vec<_>>().join(", ");
            left.insert(FINALIZERS, format!("Some content in the namespace has finalizers remaining: {each}"));
        }
        left
    }
}
