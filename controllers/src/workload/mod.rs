//! Parts that the workload loops of kube-controller-manager share (`pkg/controller`, `pkg/controller/history`).

pub(crate) mod aggregate;
pub(crate) mod availability;
pub(crate) mod consistency;
pub(crate) mod controller_ref;
pub(crate) mod expectations;
mod go_dump;
pub(crate) mod hash;
pub(crate) mod history;
pub(crate) mod pod_control;
pub(crate) mod pod_template;
pub(crate) mod ranking;
pub(crate) mod ref_manager;
pub(crate) mod related;
pub(crate) mod retry;
pub(crate) mod scaled;

/// Namespace and name of an object, the item of work queues.
pub(crate) type Key = (String, String);

/// Returns the key of an object.
pub(crate) fn key<K: crate::kube::Kind>(object: &K) -> Key {
    (object.namespace().to_owned(), object.name().to_owned())
}

/// Returns a counter of a status as Go encodes it with `omitempty`: zero is absent.
pub(crate) fn counter(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}
