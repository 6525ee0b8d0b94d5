//! What a user does with kubectl: objects as they are written, over the API server's wire.

use std::fmt;
use std::str::FromStr;

use fake_apiserver::kinds::{self, Kind};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use substrate::body::{call, collect, full};
use substrate::{BoxError, HttpService};

/// The most bytes that are read of one answer.
const ANSWER_LIMIT: usize = 64 << 20;

/// An object's address as people write it: `pod/web`, `pod/team-a/web`, `node/node-a`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The kind's plural, as in URLs.
    pub plural: &'static str,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectRef {
    /// The kind.
    ///
    /// # Errors
    /// Never for a parsed reference; the table of kinds does not change.
    pub fn kind(&self) -> Result<&'static Kind, ObjectError> {
        kinds::all()
            .iter()
            .find(|k| k.plural == self.plural && k.group != "events.k8s.io")
            .ok_or_else(|| ObjectError::UnknownKind(self.plural.to_owned()))
    }

    /// `namespace/name`, or the name alone: the form in which the trace names objects.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    fn path(&self) -> Result<String, ObjectError> {
        Ok(format!("{}/{}", collection(self.kind()?, &self.namespace), self.name))
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.plural, self.key())
    }
}

impl FromStr for ObjectRef {
    type Err = ObjectError;

    fn from_str(text: &str) -> Result<Self, ObjectError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, None, name),
            [kind, namespace, name] => (kind, Some(namespace), name),
            _ => return Err(ObjectError::BadReference(text.to_owned())),
        };
        if kind.is_empty() || name.is_empty() || namespace == Some("") {
            return Err(ObjectError::BadReference(text.to_owned()));
        }
        let found = find_kind(kind).ok_or_else(|| ObjectError::UnknownKind(kind.to_owned()))?;
        let namespace = match (found.namespaced, namespace) {
            (true, ns) => ns.unwrap_or("default").to_owned(),
            (false, None) => String::new(),
            (false, Some(_)) => return Err(ObjectError::ClusterScoped(found.kind)),
        };
        Ok(Self { plural: found.plural, namespace, name: name.to_owned() })
    }
}

/// The kind that `word` means to kubectl: kind, plural, singular or short name, in any case.
pub fn find_kind(word: &str) -> Option<&'static Kind> {
    let word = word.to_ascii_lowercase();
    kinds::all().iter().filter(|k| k.group != "events.k8s.io").find(|k| {
        k.plural == word || k.singular == word || k.kind.to_ascii_lowercase() == word || k.short_names.contains(&word.as_str())
    })
}

/// What goes wrong with objects.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum ObjectError {
    /// `{0}` is not an object: write kind/name or kind/namespace/name
    BadReference(String),
    /// the API server has no kind `{0}`
    UnknownKind(String),
    /// {0} is cluster-scoped: write kind/name without a namespace
    ClusterScoped(&'static str),
    /// manifest: {0} is missing
    Missing(&'static str),
    /// {message}
    Status {
        /// The HTTP code.
        code: u16,
        /// The Status' reason.
        reason: String,
        /// The Status' message.
        message: String,
    },
    /// the API server does not answer: {0}
    Transport(BoxError),
}

impl ObjectError {
    /// Whether the API server says that the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, .. })
    }
}

/// The user's client.
#[derive(Clone)]
pub struct Objects {
    service: HttpService,
}

impl Objects {
    /// A client of the API server behind `service`.
    pub fn new(service: HttpService) -> Self {
        Self { service }
    }

    /// Creates `manifest`, or brings what exists to it with a merge patch, as a simple `kubectl apply`.
    ///
    /// # Errors
    /// What the API server says, or that the manifest names no kind or no name.
    pub async fn apply(&self, manifest: &Value) -> Result<Value, ObjectError> {
        let (kind, namespace, name) = address(manifest)?;
        let collection = collection(kind, &namespace);
        match self.send(Method::POST, &collection, Some(("application/json", manifest))).await {
            Err(ObjectError::Status { code: 409, reason, .. }) if reason == "AlreadyExists" => {
                let path = format!("{collection}/{name}");
                self.send(Method::PATCH, &path, Some(("application/merge-patch+json", manifest))).await
            }
            other => other,
        }
    }

    /// Reads an object; nothing when it does not exist.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, ObjectError> {
        match self.send(Method::GET, &object.path()?, None).await {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Lists all objects of a kind, given by its plural, in all namespaces.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn list(&self, plural: &str) -> Result<Vec<Value>, ObjectError> {
        let kind = find_kind(plural).ok_or_else(|| ObjectError::UnknownKind(plural.to_owned()))?;
        let mut list = self.send(Method::GET, &collection(kind, ""), None).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Merge-patches an object.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn patch(&self, object: &ObjectRef, patch: &Value) -> Result<Value, ObjectError> {
        self.send(Method::PATCH, &object.path()?, Some(("application/merge-patch+json", patch))).await
    }

    /// Deletes an object; with `grace` of zero it is gone at once, whatever the node says.
    ///
    /// # Errors
    /// What the API server says; an object that does not exist is no error.
    pub async fn delete(&self, object: &ObjectRef, grace_seconds: Option<i64>) -> Result<(), ObjectError> {
        let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        match self.send(Method::DELETE, &object.path()?, Some(("application/json", &options))).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value, ObjectError> {
        let transport = |e: BoxError| ObjectError::Transport(e);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("user-agent", "mooring-scenario")
            .header("accept", "application/json");
        if let Some((content_type, _)) = body {
            request = request.header("content-type", content_type);
        }
        let bytes = body.map(|(_, value)| value.to_string()).unwrap_or_default();
        let request = request.body(full(bytes)).map_err(|e| transport(e.into()))?;
        let response = call(self.service.clone(), request).await.map_err(transport)?;
        let status = response.status();
        let bytes = collect(response.into_body(), ANSWER_LIMIT).await.map_err(transport)?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() { Ok(value) } else { Err(status_error(status, &value, &bytes)) }
    }
}

fn status_error(status: StatusCode, value: &Value, bytes: &[u8]) -> ObjectError {
    let message = value["message"].as_str().map_or_else(|| String::from_utf8_lossy(bytes).into_owned(), str::to_owned);
    let reason = value["reason"].as_str().unwrap_or_default().to_owned();
    ObjectError::Status { code: status.as_u16(), reason, message }
}

fn collection(kind: &Kind, namespace: &str) -> String {
    let root = if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/{}", kind.group, kind.version) };
    if namespace.is_empty() { format!("{root}/{}", kind.plural) } else { format!("{root}/namespaces/{namespace}/{}", kind.plural) }
}

/// Kind, namespace and name of a manifest.
fn address(manifest: &Value) -> Result<(&'static Kind, String, String), ObjectError> {
    let word = manifest["kind"].as_str().ok_or(ObjectError::Missing("kind"))?;
    let api_version = manifest["apiVersion"].as_str().ok_or(ObjectError::Missing("apiVersion"))?;
    let name = manifest["metadata"]["name"].as_str().ok_or(ObjectError::Missing("metadata.name"))?;
    let kind = kinds::all()
        .iter()
        .find(|k| k.kind == word && k.api_version() == api_version)
        .ok_or_else(|| ObjectError::UnknownKind(format!("{word} in {api_version}")))?;
    let namespace = if kind.namespaced { manifest["metadata"]["namespace"].as_str().unwrap_or("default") } else { "" };
    Ok((kind, namespace.to_owned(), name.to_owned()))
}

/// The reference of a manifest.
///
/// # Errors
/// When it names no kind that the API server serves, or no name.
pub fn reference(manifest: &Value) -> Result<ObjectRef, ObjectError> {
    let (kind, namespace, name) = address(manifest)?;
    Ok(ObjectRef { plural: kind.plural, namespace, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_kubectl_reads_them() {
        for (text, shown) in [
            ("pod/web", "pods/default/web"),
            ("po/team/web", "pods/team/web"),
            ("PersistentVolumeClaim/data", "persistentvolumeclaims/default/data"),
            ("pvc/data", "persistentvolumeclaims/default/data"),
            ("node/node-a", "nodes/node-a"),
        ] {
            assert_eq!(text.parse::<ObjectRef>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn bad_references_say_what_to_write() {
        for (text, message) in [
            ("web", "`web` is not an object: write kind/name or kind/namespace/name"),
            ("pod//web", "`pod//web` is not an object: write kind/name or kind/namespace/name"),
            ("pot/web", "the API server has no kind `pot`"),
            ("node/x/y", "Node is cluster-scoped: write kind/name without a namespace"),
        ] {
            assert_eq!(text.parse::<ObjectRef>().unwrap_err().to_string(), message);
        }
    }
}
