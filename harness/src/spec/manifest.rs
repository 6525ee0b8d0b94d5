//! A Kubernetes object as it is sent to the API server.

use serde_json::Value;

use super::ObjectRef;

/// A Kubernetes object as it is sent to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Name of the object, with the namespace filled in.
    pub object: ObjectRef,
    /// Unchanged manifest. A map `{saved: NAME}` in it stands for an id that an earlier step saved.
    pub value: Value,
}
