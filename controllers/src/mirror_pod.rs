//! Pods that stand for a process of this program, as kubelet's mirror pods stand for static ones: an object to look at,
//! which nobody starts, places or removes but whoever made it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use serde_json::Value;

use crate::kube::{Api, ApiError, Client, DeleteParams, Kind, ListParams};

/// The annotation of mirror pods: kubectl leaves them where they are when it drains a node.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation that says where a pod comes from that is no object of the API first.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// What both say of a pod that stands for a process of this program.
pub const MOORING: &str = "mooring";

/// Whether `pod` stands for a process of this program. Loops do not count it.
pub fn is_stand_in(pod: &Pod) -> bool {
    pod.annotation(MIRROR).is_some() && pod.annotation(SOURCE) == Some(MOORING)
}

/// The pods of one namespace that stand for processes, and the nodes that they are on: what whoever keeps them asks of
/// the API server. The readers and writers of these objects are large; they are compiled here and not again there.
#[derive(Clone, Debug)]
pub struct StandIns {
    pods: Api<Pod>,
    nodes: Api<Node>,
}

impl StandIns {
    /// Those of `namespace`.
    pub fn new(client: &Client, namespace: &str) -> Self {
        Self { pods: client.namespaced(namespace), nodes: client.all() }
    }

    /// All nodes.
    pub fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, ApiError>> {
        Box::pin(async { Ok(self.nodes.list(&ListParams::default()).await?.items) })
    }

    /// All pods of the namespace, whoever made them.
    pub fn pods(&self) -> BoxFuture<'_, Result<Vec<Pod>, ApiError>> {
        Box::pin(async { Ok(self.pods.list(&ListParams::default()).await?.items) })
    }

    /// POST of a pod.
    pub fn create<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, Result<Arc<Pod>, ApiError>> {
        Box::pin(self.pods.create(pod))
    }

    /// PUT of a pod's status.
    pub fn replace_status<'a>(&'a self, pod: &'a Pod) -> BoxFuture<'a, Result<Arc<Pod>, ApiError>> {
        Box::pin(self.pods.replace_status(pod))
    }

    /// Removes a pod at once.
    pub fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move { self.pods.delete(name, &DeleteParams::force()).await })
    }
}

/// The pod that `object` is.
///
/// # Errors
/// The field that does not fit.
pub fn pod_of(object: &Value) -> Result<Pod, serde_json::Error> {
    // As text, for which its reader is there already.
    crate::kube::decode(object.to_string().as_bytes())
}

/// The status of a pod that `status` is.
///
/// # Errors
/// The field that does not fit.
pub fn status_of(status: Value) -> Result<PodStatus, serde_json::Error> {
    let object = Value::Object([("status".to_owned(), status)].into_iter().collect());
    Ok(pod_of(&object)?.status.unwrap_or_default())
}
