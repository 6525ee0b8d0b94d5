//! Steps that the content of objects shows: those of snapshots, workloads, dependents, claims and pods. The content is in
//! events for observers of the same OS process, so clusters of containers are not checked.

use fake_apiserver::events::ObjectStored;
use substrate::json::Value;

use super::super::{Checked, Found};
use super::{Delays, Step};

/// A change of an object.
pub(super) struct Change<'a> {
    /// Kind in lower case and key, as in Events.
    pub object: String,
    /// Namespace and name.
    pub key: &'a str,
    /// None for a new object.
    pub old: Option<&'a Value>,
    /// None for one that is gone.
    pub new: Option<&'a Value>,
    /// Time in milliseconds.
    pub ms: u64,
}

impl Change<'_> {
    /// Returns the object, unless it is gone or being deleted.
    pub fn kept(&self) -> Option<&Value> {
        self.new.filter(|new| !is_deleting(new))
    }

    /// Returns true if the condition begins to hold.
    pub fn becomes(&self, holds: impl Fn(&Value) -> bool) -> bool {
        self.new.is_some_and(&holds) && !self.old.is_some_and(&holds)
    }
}

impl Delays {
    /// Checks a change of an object.
    pub(super) fn on_stored(&mut self, checked: &mut Checked, stored: &ObjectStored, ms: u64) -> Option<Found> {
        let event = stored.change.get().filter(|_| !stored.dry_run)?;
        let (old, new) = (event.old.as_ref().map(|o| o.value.read()), event.new.as_ref().map(|o| o.value.read()));
        let object = format!("{}/{}", event.kind.kind.to_lowercase(), event.key);
        let change = Change { object, key: &event.key, old: old.as_deref(), new: new.as_deref(), ms };
        let dependents = self.on_dependent(checked, &change);
        let step = match event.kind.plural {
            "volumesnapshots" => self.on_snapshot(checked, &change),
            "volumesnapshotcontents" => self.on_content(checked, &change),
            "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "poddisruptionbudgets" => {
                self.on_workload(checked, &change)
            }
            "jobs" | "persistentvolumes" => self.on_other(checked, &change),
            "persistentvolumeclaims" => self.on_claim(&change),
            "pods" => self.on_pod_end(checked, &change),
            "nodes" => self.on_node(&change),
            _ => None,
        };
        step.or(dependents)
    }

    /// Begins a step while the condition holds, and ends it when it no longer does. A deletion drops it.
    pub(super) fn until(
        &mut self,
        checked: &mut Checked,
        change: &Change<'_>,
        step: Step,
        waits: impl Fn(&Value) -> bool,
    ) -> Option<Found> {
        match change.kept() {
            Some(new) if waits(new) => self.begin(step, &change.object, "", change.ms),
            Some(_) => return self.end(checked, (step, &change.object, ""), change.ms),
            None => drop(self.due.remove(&(step, change.object.as_str().into(), "".into()))),
        }
        None
    }
}

/// Returns true if the object is being deleted.
pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns a text of an object.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().fold(object, |value, key| &value[*key]).as_str()
}
