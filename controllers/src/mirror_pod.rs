//! Pods that represent a process of this program, like kubelet's mirror pods of static pods. They exist only for
//! display: no kubelet starts them, and only their creator places or removes them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use serde_json::Value;

use crate::kube::{Api, ApiError, Client, DeleteParams, Kind, ListParams};

/// Annotation of mirror pods: `kubectl drain` skips them.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation with the source of a pod that does not come from the API.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// Value of both for a pod that represents a process of this program.
pub const MOORING: &str = "mooring";

/// Returns true if `pod` represents a process of this program. The loops ignore it.
pub fn is_stand_in(pod: &Pod) -> bool {
    pod.annotation(MIRROR).is_some() && pod.annotation(SOURCE) == Some(MOORING)
}

/// API of the pods in one namespace that represent processes, and of the nodes. Their large encoders and decoders are
/// compiled in this crate, not in the caller's.
#[derive(Clone, Debug)]
pub struct StandIns {
    pods: Api<Pod>,
    nodes: Api<Node>,
}

impl StandIns {
    /// Returns the API of `namespace`.
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self { pods: client.namespaced(namespace), nodes: client.all() }
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, ApiError>> {
        Box::pin(async { Ok(self.nodes.list(&ListParams::default()).await?.items) })
    }

    /// Returns all pods of the namespace, including others'.
    pub fn pods(&self) -> BoxFuture<'_, Result<Vec<Pod>, ApiError>> {
        Box::pin(async { Ok(self.pods.list(&ListParams::default()).await?.items) })
    }

    /// Creates a pod.
    pub fn create<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, Result<Arc<Pod>, ApiError>> {
        Box::pin(self.pods.create(pod))
    }

    /// Replaces a pod's status.
    pub fn replace_status<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, Result<Arc<Pod>, ApiError>> {
        Box::pin(self.pods.replace_status(pod))
    }

    /// Removes a pod at once.
    pub fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move { self.pods.delete(name, &DeleteParams::force()).await })
    }
}

/// Decodes a pod.
///
/// # Errors
/// The invalid field.
pub fn pod_of(object: &Value) -> Result<Pod, serde_json::Error> {
    // Decoded from text, because that decoder is already compiled.
    crate::kube::decode(object.to_string().as_bytes())
}

/// Decodes the status of a pod.
///
/// # Errors
/// The invalid field.
pub fn status_of(status: Value) -> Result<PodStatus, serde_json::Error> {
    let object = Value::Object([("status".to_owned(), status)].into_iter().collect());
    Ok(pod_of(&object)?.status.unwrap_or_default())
}
