//! Metadata of objects of any kind (client-go `metadata`): the garbage collector works on all kinds, including custom
//! ones.

use std::sync::Arc;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Deserializer};
use substrate::json::{Value, json};
use substrate::process::Ctx;
use tokio::sync::mpsc;

use super::api::{ObjectList, escape};
use super::client::Client;
use super::error::ApiError;
use super::informer::{Cache, Cached, Change, Object, Reads, owned};
use super::memo::decode;

/// Metadata of an object, as far as the garbage collector reads it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Uid.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Revision of this state.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// Time at which deletion was requested, as the server writes it.
    pub deletion_timestamp: Option<String>,
    /// Finalizers.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    /// Owners.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// Reads `null` as the default: custom objects may carry it.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl Metadata {
    /// Returns true if deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns true if the object has the finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|f| f == finalizer)
    }
}

#[derive(Debug, Deserialize)]
struct Partial {
    metadata: Metadata,
}

impl Cached for Partial {
    fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[derive(Deserialize)]
struct PartialList {
    #[serde(default)]
    metadata: Metadata,
    items: Vec<Partial>,
}

/// One resource of the API: `/apis/apps/v1` and `deployments`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourcePath {
    /// Path of the group and version.
    pub root: String,
    /// Plural name.
    pub plural: String,
}

impl ResourcePath {
    fn collection(&self) -> String {
        format!("{}/{}", self.root, self.plural)
    }

    fn item(&self, namespace: &str, name: &str) -> String {
        let mut path = self.root.clone();
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path.push('/');
        escape(&mut path, name);
        path
    }
}

/// Treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// Returns the word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// A change of one object's metadata.
#[derive(Clone, Debug)]
pub enum MetadataDelta {
    /// The object is new (`old` absent) or changed.
    Applied {
        /// The state before, if there was one.
        old: Option<Arc<Metadata>>,
        /// The state now.
        new: Arc<Metadata>,
    },
    /// The object is gone; its last known state.
    Deleted(Arc<Metadata>),
}

/// A cache of the metadata of one resource, not shared. It stops when its future from [`MetadataInformer::start`] is
/// dropped.
pub struct MetadataInformer {
    cache: Arc<Cache>,
    changes: mpsc::UnboundedReceiver<Change>,
}

fn metadata(object: &Object) -> Option<Arc<Metadata>> {
    owned::<Partial>(object).map(|object| Arc::new(object.metadata.clone()))
}

impl MetadataInformer {
    /// Returns a cache, and the future that keeps it up to date.
    pub fn start(ctx: &Ctx, client: &Client, resource: &ResourcePath) -> (Self, impl Future<Output = ()> + use<>) {
        let reads = Reads {
            kind: "PartialObjectMetadata",
            one: |memo, bytes| memo.object::<Partial>(bytes).map(|object| object as Object),
            list: |bytes| {
                let list: PartialList = decode(bytes).map_err(|e| ApiError::Decode(e.to_string()))?;
                let items = list.items.into_iter().map(|object| Arc::new(object) as Object).collect();
                Ok(ObjectList { items, resource_version: list.metadata.resource_version })
            },
        };
        let (cache, keep) = Cache::alone(ctx, client, resource.collection(), reads);
        let changes = cache.subscribe();
        (Self { cache, changes }, keep)
    }

    /// Waits for the first list.
    pub fn synced(&self) -> impl Future<Output = ()> + use<> {
        let cache = self.cache.clone();
        async move { cache.synced().await }
    }

    /// Waits for the next change; None when the cache is gone.
    pub async fn recv(&mut self) -> Option<MetadataDelta> {
        loop {
            let change = match self.changes.recv().await? {
                Change::Applied { old, new } => {
                    let old = old.as_ref().and_then(metadata);
                    metadata(&new).map(|new| MetadataDelta::Applied { old, new })
                }
                Change::Deleted(object) => metadata(&object).map(MetadataDelta::Deleted),
            };
            if change.is_some() {
                return change;
            }
        }
    }
}

/// A change of an object's metadata that the garbage collector writes.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataPatch {
    /// Strategic merge patch that removes the references to these owners from the dependent with this uid
    /// (`GenerateDeleteOwnerRefStrategicMergeBytes`).
    RemoveOwners {
        /// Uid of the dependent.
        uid: String,
        /// Uids of its former owners.
        owners: Vec<String>,
    },
    /// Strategic merge patch that sets these references (`unblockOwnerReferencesStrategicMergePatch`).
    SetOwners {
        /// Uid of the dependent.
        uid: String,
        /// References that are written.
        owners: Vec<OwnerReference>,
    },
    /// JSON merge patch of all owner references, for kinds without strategic merge.
    ReplaceOwners {
        /// Revision that is replaced.
        resource_version: String,
        /// All references afterwards.
        owners: Vec<OwnerReference>,
    },
    /// JSON merge patch of all finalizers.
    ReplaceFinalizers {
        /// Revision that is replaced.
        resource_version: String,
        /// All finalizers afterwards.
        finalizers: Vec<String>,
    },
}

/// Encodes a list as Go does: `null` if it is empty.
fn nullable<T: serde::Serialize>(items: &[T]) -> Value {
    if items.is_empty() { Value::Null } else { json!(items) }
}

impl MetadataPatch {
    fn content(&self) -> (&'static str, Value) {
        const STRATEGIC: &str = "application/strategic-merge-patch+json";
        const MERGE: &str = "application/merge-patch+json";
        match self {
            Self::RemoveOwners { uid, owners } => {
                let owners: Vec<Value> =
                    owners.iter().map(|owner| json!({ "$patch": "delete", "uid": owner })).collect();
                (STRATEGIC, json!({ "metadata": { "uid": uid, "ownerReferences": owners } }))
            }
            // Go leaves out an empty list.
            Self::SetOwners { uid, owners } if owners.is_empty() => (STRATEGIC, json!({ "metadata": { "uid": uid } })),
            Self::SetOwners { uid, owners } => {
                (STRATEGIC, json!({ "metadata": { "uid": uid, "ownerReferences": owners } }))
            }
            Self::ReplaceOwners { resource_version, owners } => (
                MERGE,
                json!({ "metadata": { "resourceVersion": resource_version, "ownerReferences": nullable(owners) } }),
            ),
            Self::ReplaceFinalizers { resource_version, finalizers } => (
                MERGE,
                json!({ "metadata": { "resourceVersion": resource_version, "finalizers": nullable(finalizers) } }),
            ),
        }
    }
}

impl Client {
    /// Reads an object's metadata.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn metadata(&self, resource: &ResourcePath, namespace: &str, name: &str) -> Result<Metadata, ApiError> {
        let answer = self.request(Method::GET, &resource.item(namespace, name), None).await?;
        decode::<Partial>(&answer).map(|object| object.metadata).map_err(|e| ApiError::Decode(e.to_string()))
    }

    /// Patches an object's metadata.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_metadata(
        &self,
        resource: &ResourcePath,
        namespace: &str,
        name: &str,
        patch: &MetadataPatch,
    ) -> Result<(), ApiError> {
        let path = resource.item(namespace, name);
        self.request(Method::PATCH, &path, Some(patch.content())).await.map(drop)
    }

    /// Deletes an object with this uid, and with this revision if given.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn delete_object(
        &self,
        resource: &ResourcePath,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
        propagation: Propagation,
    ) -> Result<(), ApiError> {
        let mut preconditions = json!({ "uid": uid });
        if let Some(version) = resource_version {
            preconditions["resourceVersion"] = version.into();
        }
        let options = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": preconditions,
            "propagationPolicy": propagation.word(),
        });
        let path = resource.item(namespace, name);
        self.request(Method::DELETE, &path, Some(("application/json", options))).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_with_nulls_is_read() {
        let text =
            br#"{"metadata":{"name":"a","uid":"u","finalizers":null,"ownerReferences":null,"labels":{"x":"y"}}}"#;
        let read = decode::<Partial>(text).expect("readable").metadata;
        assert_eq!((read.name.as_str(), read.finalizers.len(), read.is_deleting()), ("a", 0, false));
    }

    #[test]
    fn a_path_has_the_namespace_of_its_object() {
        let pods = ResourcePath { root: "/api/v1".into(), plural: "pods".into() };
        assert_eq!(pods.item("default", "web"), "/api/v1/namespaces/default/pods/web");
        let roles = ResourcePath { root: "/apis/rbac.authorization.k8s.io/v1".into(), plural: "clusterroles".into() };
        assert_eq!(roles.item("", "system:node"), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
    }

    #[test]
    fn the_last_finalizer_is_removed_by_null() {
        let patch = MetadataPatch::ReplaceFinalizers { resource_version: "7".into(), finalizers: Vec::new() };
        assert_eq!(patch.content().1, json!({ "metadata": { "resourceVersion": "7", "finalizers": null } }));
    }
}
