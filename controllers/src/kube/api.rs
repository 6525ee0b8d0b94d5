//! API verbs of one kind.

use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use substrate::json::{self, Value, json};

use super::client::Client;
use super::error::ApiError;
use super::memo;
use super::object::Kind;
use super::patch::{Guard, Patch, Patched};
use super::watch::{WatchParams, WatchStream};

/// Selection of objects for a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListParams {
    /// Field selector, as in `spec.nodeName=node-a`.
    pub field_selector: Option<String>,
    /// Label selector, as in `app=db`.
    pub label_selector: Option<String>,
}

impl ListParams {
    /// Selects objects whose fields match.
    pub fn fields(selector: impl Into<String>) -> Self {
        Self { field_selector: Some(selector.into()), label_selector: None }
    }

    pub(super) fn query(&self, query: &mut Query) {
        if let Some(selector) = &self.field_selector {
            query.add("fieldSelector", selector);
        }
        if let Some(selector) = &self.label_selector {
            query.add("labelSelector", selector);
        }
    }
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Grace period of a pod in seconds. Default: the pod's own. 0 removes the object at once.
    pub grace_period_seconds: Option<i64>,
    /// Precondition: refuse (409) an object with another uid.
    pub uid: Option<String>,
}

impl DeleteParams {
    /// Removes the object at once.
    pub fn force() -> Self {
        Self { grace_period_seconds: Some(0), uid: None }
    }
}

/// One consistent list.
#[derive(Clone, Debug)]
pub struct ObjectList<K> {
    /// The objects.
    pub items: Vec<K>,
    /// Revision of the list, to watch from.
    pub resource_version: String,
}

/// Verbs on one kind, in one namespace or all. Cheap to clone.
#[derive(Debug)]
pub struct Api<K> {
    client: Client,
    namespace: Option<String>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), namespace: self.namespace.clone(), kind: PhantomData }
    }
}

impl<K: Kind> Api<K> {
    pub(super) fn new(client: Client, namespace: Option<String>) -> Self {
        Self { client, namespace, kind: PhantomData }
    }

    /// Returns its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn collection(&self) -> String {
        K::path(self.namespace.as_deref())
    }

    fn object(&self, bytes: &Bytes) -> Result<Arc<K>, ApiError> {
        self.client.shared().memo.object(bytes).map_err(|e| ApiError::Decode(e.to_string()))
    }

    fn item(&self, name: &str, subresource: &str) -> String {
        let mut path = self.collection();
        path.push('/');
        escape(&mut path, name);
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        }
        path
    }

    /// Reads an object live (no cache).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn get(&self, name: &str) -> Result<Arc<K>, ApiError> {
        self.object(&self.client.request(Method::GET, &self.item(name, ""), None).await?)
    }

    /// Reads an object that the server may take from its cache (`resourceVersion=0`).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn get_cached(&self, name: &str) -> Result<Arc<K>, ApiError> {
        let mut query = Query::new(self.item(name, ""));
        query.add("resourceVersion", "0");
        self.object(&self.client.request(Method::GET, &query.0, None).await?)
    }

    /// Lists objects consistently (no cache).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>, ApiError> {
        self.list_at(params, None).await
    }

    /// Lists objects like an informer: `resourceVersion=0` lets the server answer from its cache.
    pub(super) async fn list_at(&self, params: &ListParams, version: Option<&str>) -> Result<ObjectList<K>, ApiError> {
        read_list(&request_list(&self.client, self.collection(), params, version).await?)
    }

    /// Creates an object. The name may be empty if `generateName` is set.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn create(&self, object: &K) -> Result<Arc<K>, ApiError> {
        let path = match (&self.namespace, object.namespace()) {
            (None, namespace) if !namespace.is_empty() => K::path(Some(namespace)),
            _ => self.collection(),
        };
        self.object(&self.client.request(Method::POST, &path, Some(encode(object)?)).await?)
    }

    /// Creates an object without decoding the answer.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub(crate) fn create_unread(&self, object: &K) -> impl Future<Output = Result<(), ApiError>> + use<K> {
        // Encoded at once, so that the future does not hold the object.
        let request =
            encode(object).map(|content| self.client.request(Method::POST, &self.collection(), Some(content)));
        async move { request?.await.map(drop) }
    }

    /// Creates an object from hand-built JSON, which must be of this kind.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub(crate) async fn create_written(&self, object: Value) -> Result<(), ApiError> {
        self.client.request(Method::POST, &self.collection(), Some(("application/json", object))).await.map(drop)
    }

    /// Patches an object without decoding the answer.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub(crate) async fn patch_unread(&self, name: &str, patch: &Patch) -> Result<(), ApiError> {
        self.client.request(Method::PATCH, &self.item(name, ""), Some(patch.content())).await.map(drop)
    }

    /// Patches the status subresource without decoding the answer.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub(crate) async fn patch_status_unread(&self, name: &str, patch: &Patch) -> Result<(), ApiError> {
        self.client.request(Method::PATCH, &self.item(name, "status"), Some(patch.content())).await.map(drop)
    }

    /// Replaces an object; the server checks the resourceVersion in `object` (409).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn replace(&self, object: &K) -> Result<Arc<K>, ApiError> {
        self.put(object, "").await
    }

    /// Replaces an object by hand-built JSON, which must be of this kind and have the name `name`.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub(crate) async fn replace_written(&self, name: &str, object: Value) -> Result<Arc<K>, ApiError> {
        let content = ("application/json", object);
        self.object(&self.client.request(Method::PUT, &self.item(name, ""), Some(content)).await?)
    }

    /// Replaces the status subresource; the server checks the resourceVersion in `object` (409).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn replace_status(&self, object: &K) -> Result<Arc<K>, ApiError> {
        self.put(object, "status").await
    }

    /// Returns the path of an object. If the API spans all namespaces, uses the object's namespace.
    fn of(&self, object: &K, subresource: &str) -> String {
        match (&self.namespace, object.namespace()) {
            (None, namespace) if !namespace.is_empty() => {
                self.client.namespaced::<K>(namespace).item(object.name(), subresource)
            }
            _ => self.item(object.name(), subresource),
        }
    }

    async fn put(&self, object: &K, subresource: &str) -> Result<Arc<K>, ApiError> {
        let path = self.of(object, subresource);
        self.object(&self.client.request(Method::PUT, &path, Some(encode(object)?)).await?)
    }

    /// Sends a merge patch (RFC 7386) from `old` to `new`, unless it is empty.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn merge_patch(&self, old: &K, new: &K, guard: Guard) -> Result<Option<Arc<K>>, ApiError>
    where
        K: Patched,
    {
        self.send_change(old, Patch::merge(old, new), guard, "").await
    }

    /// Sends a merge patch to the status subresource, unless it is empty.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn merge_patch_status(&self, old: &K, new: &K, guard: Guard) -> Result<Option<Arc<K>>, ApiError>
    where
        K: Patched,
    {
        self.send_change(old, Patch::merge(old, new), guard, "status").await
    }

    /// Sends a strategic merge patch from `old` to `new`, unless it is empty.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn strategic_patch(&self, old: &K, new: &K, guard: Guard) -> Result<Option<Arc<K>>, ApiError>
    where
        K: Patched,
    {
        self.send_change(old, Patch::strategic(old, new), guard, "").await
    }

    /// Sends a strategic merge patch to the status subresource, unless it is empty.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn strategic_patch_status(&self, old: &K, new: &K, guard: Guard) -> Result<Option<Arc<K>>, ApiError>
    where
        K: Patched,
    {
        self.send_change(old, Patch::strategic(old, new), guard, "status").await
    }

    /// Sends a computed change of `object`. The future holds neither the object nor the patch.
    fn send_change(
        &self,
        object: &K,
        patch: Result<Patch, ApiError>,
        guard: Guard,
        subresource: &str,
    ) -> impl Future<Output = Result<Option<Arc<K>>, ApiError>> + use<K> {
        let request = patch.map(|patch| {
            (!patch.is_empty()).then(|| {
                let content = patch.guarded(object, guard).into_content();
                self.client.request(Method::PATCH, &self.of(object, subresource), Some(content))
            })
        });
        let api = self.clone();
        async move {
            match request? {
                Some(answer) => api.object(&answer.await?).map(Some),
                None => Ok(None),
            }
        }
    }

    /// Patches an object.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<Arc<K>, ApiError> {
        self.object(&self.client.request(Method::PATCH, &self.item(name, ""), Some(patch.content())).await?)
    }

    /// Patches the status subresource.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn patch_status(&self, name: &str, patch: &Patch) -> Result<Arc<K>, ApiError> {
        self.object(&self.client.request(Method::PATCH, &self.item(name, "status"), Some(patch.content())).await?)
    }

    /// Deletes an object. It may remain with a deletionTimestamp while it has finalizers or a grace period.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<(), ApiError> {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": K::API_VERSION });
        if let Some(seconds) = params.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(uid) = &params.uid {
            options["preconditions"] = json!({ "uid": uid });
        }
        let content = ("application/json", options);
        self.client.request(Method::DELETE, &self.item(name, ""), Some(content)).await?;
        Ok(())
    }

    /// Opens a watch. Prefer an [`Informer`](super::Informer).
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream<K>, ApiError> {
        WatchStream::open(&self.client, &params.path(self.collection())).await
    }

    /// Assigns pod `name` to `node` by the `binding` subresource, as the scheduler does.
    ///
    /// # Errors
    /// The server's refusal, or no answer.
    pub async fn bind(&self, name: &str, uid: &str, node: &str) -> Result<(), ApiError> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name, "namespace": self.namespace, "uid": uid },
            "target": { "kind": "Node", "name": node },
        });
        let content = ("application/json", binding);
        self.client.request(Method::POST, &self.item(name, "binding"), Some(content)).await?;
        Ok(())
    }
}

/// Requests the JSON of a list.
pub(super) fn request_list(
    client: &Client,
    collection: String,
    params: &ListParams,
    version: Option<&str>,
) -> BoxFuture<'static, Result<Bytes, ApiError>> {
    let mut query = Query::new(collection);
    params.query(&mut query);
    if let Some(version) = version {
        query.add("resourceVersion", version);
    }
    let client = client.clone();
    Box::pin(async move { client.request(Method::GET, &query.0, None).await })
}

/// Parses a list.
pub(super) fn read_list<K: Kind>(answer: &[u8]) -> Result<ObjectList<K>, ApiError> {
    let list: RawList<K> = decode(answer)?;
    Ok(ObjectList { items: list.items, resource_version: list.metadata.resource_version })
}

#[derive(Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
struct RawList<K> {
    #[serde(default)]
    metadata: RawListMeta,
    items: Vec<K>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawListMeta {
    #[serde(default)]
    resource_version: String,
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    memo::decode(bytes).map_err(|e| ApiError::Decode(e.to_string()))
}

fn encode<K: Kind>(object: &K) -> Result<(&'static str, Value), ApiError> {
    let value = json::to_value(object).map_err(|e| ApiError::Encode(format!("{}: {e}", K::KIND)))?;
    Ok(("application/json", value))
}

/// Path with its query.
pub(crate) struct Query(pub(crate) String);

impl Query {
    pub(crate) fn new(path: String) -> Self {
        Self(path)
    }

    pub(crate) fn add(&mut self, key: &str, value: &str) {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(key);
        self.0.push('=');
        escape(&mut self.0, value);
    }
}

pub(super) fn escape(out: &mut String, text: &str) {
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(b)),
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{b:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::storage::v1::VolumeAttachment;

    use super::*;

    #[test]
    fn paths_follow_group_and_scope() {
        assert_eq!(VolumeAttachment::path(None), "/apis/storage.k8s.io/v1/volumeattachments");
        assert_eq!(Pod::path(Some("default")), "/api/v1/namespaces/default/pods");
    }

    #[test]
    fn selectors_are_escaped() {
        let mut query = Query::new("/api/v1/pods".to_owned());
        ListParams::fields("spec.nodeName=node-a,status.phase!=Failed").query(&mut query);
        assert_eq!(query.0, "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a%2Cstatus.phase%21%3DFailed");
    }
}
