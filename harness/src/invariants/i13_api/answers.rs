//! Answers: a get shows the stored object, or finds none if there is none. A write answers with the object that it
//! stored, or with the stored one if it changed nothing. An object that a write removed has no finalizers. An object
//! whose delete was accepted is gone or being deleted.
//!
//! Custom objects are compared by their revisions alone, because a definition can add fields to stored objects. A get
//! that a fault made stale is not judged, nor the object in the answer of a delete, nor a dry run.

use std::sync::Arc;

use fake_apiserver::events::ObjectShown;

use super::write::finalizers;
use super::{Checked, Contract, Id};

impl Contract {
    /// Checks the answer of a get or a write.
    pub(super) fn on_shown(&self, shown: &ObjectShown, checked: &mut Checked) -> Option<String> {
        if shown.stale || self.complete != Some(true) || shown.rv.is_some() && shown.held.get().is_none() {
            return None;
        }
        checked.add(Id::I13, 1);
        let resource = (shown.group.clone().unwrap_or_default(), shown.resource.clone());
        let entry = self.kinds.get(&resource).and_then(|kind| kind.get(&shown.object));
        let (thing, verb) = (format!("{}/{}", shown.resource, shown.object), &shown.verb);
        let is_get = verb == "get";
        match (shown.held.get(), entry) {
            (None, None) => None,
            (None, Some(entry)) if verb == "delete" => {
                // The server creates the default service account of a namespace again at once.
                let value = entry.object.as_ref().filter(|_| entry.rv <= shown.before)?.value.read();
                let stays = value["metadata"]["deletionTimestamp"].is_null();
                stays.then(|| format!("{thing} was deleted, and it stays without a deletionTimestamp"))
            }
            (None, Some(entry)) => Some(format!("{thing} is at revision {}, and a get did not find it", entry.rv)),
            (Some(_), None) if is_get => Some(format!("{thing} does not exist, and a get found it")),
            (Some(held), None) => {
                let value = held.value.read();
                let kept = finalizers(&value).first()?;
                Some(format!("{thing} was removed by a {verb} that left the finalizer {kept}"))
            }
            (Some(held), Some(entry)) => {
                // The server itself can write an object again within a request, as the status of a definition.
                let is_rewritten = !is_get && held.revision > shown.before && held.revision < entry.rv;
                if held.revision != entry.rv && !is_rewritten {
                    let (rv, is) = (held.revision, entry.rv);
                    return Some(format!("{thing} is at revision {is}, and a {verb} was answered with revision {rv}"));
                }
                let stored = entry.object.as_ref().filter(|_| shown.group.is_none() && !is_rewritten)?;
                let is_same = Arc::ptr_eq(stored, held) || stored.json() == held.json();
                (!is_same).then(|| format!("{thing} was shown by a {verb} with other content than is stored"))
            }
        }
    }
}
