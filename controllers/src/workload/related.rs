//! Controllers that a change of a pod concerns (`addPod`, `updatePod` and `deletePod` of the workload loops).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};

use super::controller_ref::controller_of;
use crate::binder::selectors::label_selector_matches;
use crate::kube::{Delta, Informer, Kind};

/// Kind with a selector of its pods.
pub(crate) trait Selecting: Kind {
    /// Returns the selector.
    fn selector(&self) -> Option<&LabelSelector>;

    /// Returns true if it selects `object`. An empty selector selects nothing.
    fn selects<K: Kind>(&self, object: &K) -> bool {
        self.selector().is_some_and(|selector| {
            let is_empty = selector.match_labels.as_ref().is_none_or(|all| all.is_empty())
                && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
            !is_empty && label_selector_matches(selector, object.metadata().labels.as_ref())
        })
    }
}

macro_rules! selecting {
    ($($kind:ty),+) => {$(
        impl Selecting for $kind {
            fn selector(&self) -> Option<&LabelSelector> {
                self.spec.as_ref().map(|spec| &spec.selector)
            }
        }
    )+};
}

selecting!(DaemonSet, Deployment, ReplicaSet, StatefulSet);

impl Selecting for Job {
    fn selector(&self) -> Option<&LabelSelector> {
        self.spec.as_ref()?.selector.as_ref()
    }
}

impl Selecting for ReplicationController {
    /// Returns none: the selector of this kind is not of that type, so [`selects`](Self::selects) reads it.
    fn selector(&self) -> Option<&LabelSelector> {
        None
    }

    fn selects<K: Kind>(&self, object: &K) -> bool {
        let wanted = self.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        wanted.is_some_and(|wanted| {
            let has = |(name, value): (&String, &String)| object.label(name) == Some(value.as_str());
            !wanted.is_empty() && wanted.iter().all(has)
        })
    }
}

/// Kind of a change, for the controller's expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A new object of the controller.
    Created,
    /// A change of an object of the controller, or an orphan that it may adopt.
    Changed,
    /// An object of the controller was deleted, or its deletion was requested.
    Deleted,
}

/// Returns the controller of kind `O` that a reference names, if its uid is the same (`resolveControllerRef`).
pub(crate) fn resolve<O: Kind>(owners: &Informer<O>, namespace: &str, reference: &OwnerReference) -> Option<Arc<O>> {
    if reference.kind != O::KIND {
        return None;
    }
    owners.get(namespace, &reference.name).filter(|owner| owner.uid() == reference.uid)
}

/// Returns the controllers that a change concerns, in the order in which upstream queues them. `deletes` makes a
/// requested deletion count as a deletion.
pub(crate) fn concerned<O: Selecting, K: Kind>(
    delta: &Delta<K>,
    owners: &Informer<O>,
    deletes: bool,
) -> Vec<(Arc<O>, Seen)> {
    let of = |object: &K| {
        let reference = controller_of(object.metadata())?;
        resolve(owners, object.namespace(), reference)
    };
    let (old, new) = match delta {
        Delta::Deleted(object) => return of(object).map(|owner| (owner, Seen::Deleted)).into_iter().collect(),
        Delta::Applied { old, new } => (old.as_deref(), new),
    };
    let Some(old) = old else {
        if new.is_deleting() {
            return of(new).map(|owner| (owner, Seen::Deleted)).into_iter().collect();
        }
        return match controller_of(new.metadata()) {
            Some(_) => of(new).map(|owner| (owner, Seen::Created)).into_iter().collect(),
            None => adopters(owners, &**new),
        };
    };
    if old.resource_version() == new.resource_version() {
        return Vec::new();
    }
    let labels_changed = old.metadata().labels != new.metadata().labels;
    let mut found = Vec::new();
    if deletes && new.is_deleting() {
        found.extend(of(new).map(|owner| (owner, Seen::Deleted)));
        if labels_changed {
            found.extend(of(old).map(|owner| (owner, Seen::Deleted)));
        }
        return found;
    }
    let reference_changed = controller_of(old.metadata()) != controller_of(new.metadata());
    if reference_changed {
        found.extend(of(old).map(|owner| (owner, Seen::Changed)));
    }
    if controller_of(new.metadata()).is_some() {
        found.extend(of(new).map(|owner| (owner, Seen::Changed)));
    } else if labels_changed || reference_changed {
        found.extend(adopters(owners, &**new));
    }
    found
}

/// Returns the controllers that may adopt an orphan.
fn adopters<O: Selecting, K: Kind>(owners: &Informer<O>, orphan: &K) -> Vec<(Arc<O>, Seen)> {
    let all = owners.list_in(orphan.namespace()).into_iter();
    all.filter(|owner| owner.selects(orphan)).map(|owner| (owner, Seen::Changed)).collect()
}
