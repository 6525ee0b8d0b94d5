//! Creation (apiserver `registry/rest/create.go`, `registry/generic/registry/store.go`).

use substrate::Now;
use substrate::json::Value;

use super::command::{Reply, WriteOptions};
use super::status::Status;
use super::value::{self, name, text};
use super::write::Write;
use super::{Store, shape, view};
use crate::kinds::{self, Kind};

impl Store {
    pub(super) fn create(
        &mut self,
        now: Now,
        served: &Kind,
        namespace: Option<&str>,
        mut object: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let unknown = shape::decode(served, &mut object)?;
        self.judge_fields(&options, unknown).map_err(|why| shape::refusal(served, why))?;
        identify(served, namespace, None, &mut object)?;
        let (_, mut object) = stored(served, object);
        // Nobody has managed what is not there yet.
        value::metadata(&mut object).remove("managedFields");
        self.write(Write::new(served, namespace, object, options, now))
    }
}

/// The stored kind and form of an object of a served kind.
pub(super) fn stored(served: &Kind, object: Value) -> (&Kind, Value) {
    if served.is_view() { (kinds::stored(served), view::from_view(served, &object)) } else { (served, object) }
}

/// Checks and completes a review: an object of a kind that is answered and not kept.
///
/// # Errors
/// 400 for what is of another kind.
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
    let (sent_version, sent_kind) = (text(object, &["apiVersion"]), text(object, &["kind"]));
    if (!sent_version.is_empty() && sent_version != api_version) || (!sent_kind.is_empty() && sent_kind != kind.kind) {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): expected {api_version}, Kind={}, \
             got {sent_version}, Kind={sent_kind}",
            kind.kind, kind.kind
        )));
    }
    let sent_namespace = value::namespace(object);
    if !sent_namespace.is_empty() && namespace.is_some_and(|n| n != sent_namespace) {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
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
        // Cluster-scoped objects have none, whatever was sent.
        None => metadata.remove("namespace"),
    };
    if let Some(expected) = expected {
        metadata.insert("name", expected.into());
    }
    Ok(())
}
