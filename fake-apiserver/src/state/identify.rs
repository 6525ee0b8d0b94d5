//! Compares an object with the URL of its request, and completes it.

use substrate::json::Value;

use super::status::Status;
use super::value::{self, name, resource_version, text};
use super::{FieldError, view};
use crate::kinds::{self, Kind};

/// kube-apiserver's name of its type registry in messages.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Returns the stored kind and form of an object of a served kind.
pub(super) fn stored(served: &Kind, object: Value) -> (&Kind, Value) {
    if served.is_view() { (kinds::stored(served), view::from_view(served, &object)) } else { (served, object) }
}

/// Checks and completes a review: an object of a kind that is answered and not stored.
///
/// # Errors
/// 400 if the object is of another kind.
pub fn identify_review(kind: &Kind, namespace: Option<&str>, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request(format!("the body of the request must be a {}", kind.kind)));
    }
    identify(kind, namespace, None, object)
}

/// Checks that the body is of the kind, namespace and name of the URL, and fills in what it leaves out.
pub(super) fn identify(
    kind: &Kind,
    namespace: Option<&str>,
    expected: Option<&str>,
    object: &mut Value,
) -> Result<(), Status> {
    let api_version = kind.api_version();
    check_type(kind, &api_version, object)?;
    let sent_namespace = value::namespace(object);
    if namespace.is_some_and(|n| !sent_namespace.is_empty() && n != sent_namespace) {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    if let Some(expected) = expected {
        let sent = name(object);
        if !sent.is_empty() && sent != expected {
            return Err(Status::bad_request(format!(
                "the name of the object ({sent}) does not match the name on the URL ({expected})"
            )));
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion", api_version.into());
        fields.insert("kind", kind.kind.into());
    }
    let metadata = value::metadata(object);
    match namespace {
        Some(namespace) => metadata.insert("namespace", namespace.into()),
        // Cluster-scoped objects have none, even if one was sent.
        None => metadata.remove("namespace"),
    };
    if let Some(expected) = expected {
        metadata.insert("name", expected.into());
    }
    Ok(())
}

/// Refuses, with 400, an object without the name that its URL has (apiserver `handlers.checkName`).
pub(super) fn check_named(object: &Value, expected: &str) -> Result<(), Status> {
    if !name(object).is_empty() {
        return Ok(());
    }
    let why = format!("the name of the object ({expected} based on URL) was undeterminable: name must be provided");
    Err(Status::bad_request(why))
}

/// Refuses an object whose type differs from that of the URL.
fn check_type(kind: &Kind, api_version: &str, object: &Value) -> Result<(), Status> {
    let sent_version = sent(object, "apiVersion").unwrap_or(api_version);
    let sent_kind = sent(object, "kind").unwrap_or(kind.kind);
    let (same_version, same_kind) = (sent_version == api_version, sent_kind == kind.kind);
    if same_version && same_kind {
        return Ok(());
    }
    let other_version =
        format!("the API version in the data ({sent_version}) does not match the expected API version ({api_version})");
    if kind.custom.is_some() {
        if !same_version {
            return Err(Status::bad_request(other_version));
        }
        let error = FieldError::invalid("kind", &sent_kind.into(), format!("must be {}", kind.kind));
        return Err(Status::invalid(kind, name(object), vec![error]));
    }
    match converts_not(kind, object) {
        None => Err(Status::bad_request(other_version)),
        Some(why) => {
            let version = sent_version.split_once('/').map_or(sent_version, |(_, version)| version);
            let shown = format!("{sent_kind} in version {version:?} cannot be handled as a {}: {why}", kind.kind);
            Err(Status::bad_request(shown))
        }
    }
}

/// Returns a field of the type that an object names; `None` if it is empty.
fn sent<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    Some(text(object, &[field])).filter(|sent| !sent.is_empty())
}

/// Returns the reason why an object of the type that it names cannot be decoded as a built-in kind, in Go's words;
/// `None` if it can, perhaps in another version.
pub(super) fn converts_not(kind: &Kind, object: &Value) -> Option<String> {
    let api_version = kind.api_version();
    let sent_version = sent(object, "apiVersion").unwrap_or(&api_version);
    let sent_kind = sent(object, "kind").unwrap_or(kind.kind);
    if kind.custom.is_some() || (sent_version == api_version && sent_kind == kind.kind) {
        return None;
    }
    let version = sent_version.split_once('/').map_or(sent_version, |(_, version)| version);
    match kinds::find_kind(sent_version, sent_kind) {
        Some(_) if sent_kind == kind.kind => None,
        // Go's types: that of the version, and the internal one, whose package is named after the first part of the
        // group.
        Some(_) => {
            let package = if kind.group.is_empty() { "core" } else { kind.group };
            let package = package.split('.').next().unwrap_or_default();
            Some(format!("converting ({version}.{sent_kind}) to ({package}.{}): unknown conversion", kind.kind))
        }
        None => Some(format!("no kind {sent_kind:?} is registered for version {sent_version:?} in scheme {SCHEME:?}")),
    }
}

/// Returns true if `metadata.resourceVersion` is missing or `"0"`: upstream's storage treats both as no revision.
pub(super) fn names_no_revision(object: &Value) -> bool {
    let sent = resource_version(object);
    sent.is_empty() || sent.parse() == Ok(0_u64)
}
