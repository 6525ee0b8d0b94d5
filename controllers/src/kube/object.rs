//! Common parts of all objects.

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Capacity for nearly every object path, so that it is allocated once.
const USUAL_PATH: usize = 160;

/// An API type with metadata that can be listed, watched and written.
pub trait Kind:
    Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// Returns the object's name; empty only before the server has generated one.
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns the object's namespace; empty for cluster-scoped kinds.
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// Returns the object's uid; empty only before it was created.
    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Returns the revision of this state of the object.
    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    /// Returns true if deletion was requested.
    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Returns the value of an annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata().annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str> {
        self.metadata().labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns true if the finalizer is present.
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata().finalizers.as_ref().is_some_and(|all| all.iter().any(|f| f == finalizer))
    }

    /// Returns the path of the resource, without object name: `/apis/storage.k8s.io/v1/volumeattachments`.
    fn path(namespace: Option<&str>) -> String {
        let mut path = String::with_capacity(USUAL_PATH);
        if Self::GROUP.is_empty() {
            path.push_str("/api/");
        } else {
            path.push_str("/apis/");
            path.push_str(Self::GROUP);
            path.push('/');
        }
        path.push_str(Self::VERSION);
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(Self::URL_PATH_SEGMENT);
        path
    }
}

impl<K> Kind for K where
    K: Resource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

/// Returns a reference to `object`, for events (client-go `tools/reference`).
pub fn reference<K: Kind>(object: &K) -> ObjectReference {
    let metadata = object.metadata();
    ObjectReference {
        api_version: Some(K::API_VERSION.to_owned()),
        kind: Some(K::KIND.to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Converts a timestamp to the precision of API objects: whole seconds.
pub fn time(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
