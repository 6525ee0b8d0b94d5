//! Failures in the words of apimachinery (`pkg/api/errors`): code, reason, message and details of a `Status`.

use substrate::json::{Map, Value, json};

use crate::fields::{FieldError, FieldFault};
use crate::kinds::Kind;

/// A failure as the client sees it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// Machine-readable reason; empty if upstream has none.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// Object and causes.
    pub details: Box<Details>,
    /// Token with which an expired list can continue, inconsistently.
    pub continue_token: String,
}

/// The `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The resource, or the kind for an invalid object.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The causes.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense.
    pub retry_after_seconds: Option<u32>,
    /// If set, `details` is written even if it is empty, as in generic failures.
    pub is_written: bool,
    /// Warnings for the headers of the answer.
    pub warnings: Vec<String>,
}

/// One cause in the details of a [`Status`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// Path of the field; empty if the cause is not about one.
    pub field: String,
}

impl FieldError {
    /// Converts a field error to a cause of a `Status`.
    pub fn into_cause(self) -> Cause {
        let reason = match self.fault {
            FieldFault::Invalid(_) => "FieldValueInvalid",
            FieldFault::Required => "FieldValueRequired",
            FieldFault::Forbidden => "FieldValueForbidden",
            FieldFault::NotSupported(_) => "FieldValueNotSupported",
            FieldFault::Duplicate(_) => "FieldValueDuplicate",
            FieldFault::NotFound(_) => "FieldValueNotFound",
            FieldFault::TooLong => "FieldValueTooLong",
            FieldFault::TooMany(_) => "FieldValueTooMany",
            FieldFault::TypeInvalid(_) => "FieldValueTypeInvalid",
        };
        Cause { reason, message: self.body(), field: self.field }
    }
}

/// Returns `resource.group`, the name of a resource in messages.
pub fn qualified(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.plural.to_owned() } else { format!("{}.{}", kind.plural, kind.group) }
}

impl Status {
    /// Creates a failure without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Box::default(), continue_token: String::new() }
    }

    fn about(code: u16, reason: &'static str, kind: &Kind, name: &str, message: String) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: kind.group.to_owned(),
            kind: kind.plural.to_owned(),
            ..Details::default()
        };
        Self { code, reason, message, details: Box::new(details), continue_token: String::new() }
    }

    /// Creates a 404: the object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::about(404, "NotFound", kind, name, format!("{} \"{name}\" not found", qualified(kind)))
    }

    /// Creates a generic failure (`NewGenericServerResponse`).
    pub fn generic(code: u16, reason: &'static str, message: &str) -> Self {
        let mut status = Self::new(code, reason, message);
        status.details.is_written = true;
        status
    }

    /// Creates a 404: the path does not exist.
    pub fn no_such_resource() -> Self {
        Self::generic(404, "NotFound", "the server could not find the requested resource")
    }

    /// Creates a 405: the path exists, but not with this method.
    pub fn method_not_allowed() -> Self {
        Self::generic(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// Creates a 405: the kind does not have this verb (`NewMethodNotSupported`).
    pub fn unsupported(kind: &Kind, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", qualified(kind));
        Self::about(405, "MethodNotAllowed", kind, "", message)
    }

    /// Creates a 409: the name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::about(409, "AlreadyExists", kind, name, format!("{} \"{name}\" already exists", qualified(kind)))
    }

    /// Creates a 409 with its own explanation.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(kind));
        Self::about(409, "Conflict", kind, name, message)
    }

    /// Creates a 409 that names a type, with its group, instead of a resource, as upstream does for some preconditions.
    pub fn conflict_of(qualified: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut status = Self::new(409, "Conflict", message);
        let (kind, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        (status.details.name, status.details.kind, status.details.group) = (name.into(), kind.into(), group.into());
        status
    }

    /// Creates a 409: the resourceVersion is not the stored one.
    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    /// Creates the 409 of a binding, which names its subresource.
    pub fn binding_conflict(name: &str, why: &str) -> Self {
        let mut status =
            Self::new(409, "Conflict", format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}"));
        name.clone_into(&mut status.details.name);
        "pods/binding".clone_into(&mut status.details.kind);
        status
    }

    /// Creates the 403 of an admission step.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let name_part = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        Self::about(403, "Forbidden", kind, name, format!("{}{name_part} is forbidden: {why}", qualified(kind)))
    }

    /// Creates a 429: a disruption budget does not allow an eviction. `retry` is in seconds, 0 for none.
    pub fn disrupted(why: String, retry: u32) -> Self {
        let mut status =
            Self::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
        status.details.causes = vec![Cause { reason: "DisruptionBudget", message: why, field: String::new() }];
        status.details.retry_after_seconds = (retry > 0).then_some(retry);
        status
    }

    /// Creates a 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Creates a 422 with an error for each invalid field.
    pub fn invalid(kind: &Kind, name: &str, errors: Vec<FieldError>) -> Self {
        Self::invalid_type(kind.kind, kind.group, name, errors)
    }

    /// Creates a 422 for an object that is not of a served kind, such as options.
    pub fn invalid_type(kind: &str, group: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for text in errors.iter().map(ToString::to_string) {
            // As `ErrorList.ToAggregate`; the causes keep repeated errors.
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let shown = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut status = Self::new(422, "Invalid", format!("{shown} \"{name}\" is invalid: {all}"));
        *status.details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.into_iter().map(FieldError::into_cause).collect(),
            ..Details::default()
        };
        status
    }

    /// Creates a 410: the revision is no longer in the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Creates a 504: a wait has timed out (`NewTimeoutError`).
    pub fn timeout(why: &str) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {why}"))
    }

    /// Creates a 504: the revision lies in the future.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let mut status = Self::timeout(&format!("Too large resource version: {wanted}, current: {current}"));
        status.details.causes = vec![Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }];
        status.details.retry_after_seconds = Some(1);
        status
    }

    /// Creates a 415: the body has an unknown media type.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Creates a 413: the body is larger than this server accepts.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// Returns the `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": if self.continue_token.is_empty() { json!({}) } else { json!({"continue": self.continue_token}) },
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if let Some(fields) = status.as_object_mut() {
            if !self.reason.is_empty() {
                fields.insert("reason", self.reason.into());
            }
            let details = self.details.to_map();
            if !details.is_empty() || self.details.is_written {
                fields.insert("details", Value::Object(details));
            }
        }
        status
    }
}

impl Details {
    fn to_map(&self) -> Map {
        let mut map = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                map.insert(key, text.as_str().into());
            }
        }
        if !self.causes.is_empty() {
            map.insert("causes", self.causes.iter().map(Cause::to_value).collect());
        }
        if let Some(seconds) = self.retry_after_seconds {
            map.insert("retryAfterSeconds", seconds.into());
        }
        map
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("reason", self.reason.into());
        map.insert("message", self.message.as_str().into());
        if !self.field.is_empty() {
            map.insert("field", self.field.as_str().into());
        }
        Value::Object(map)
    }
}

/// Returns a `Status` of success. It has no `code`; upstream writes one only for bindings and evictions (201).
pub fn success(kind: &Kind, name: &str, uid: &str) -> Value {
    let details = Details {
        name: name.to_owned(),
        group: kind.group.to_owned(),
        kind: kind.plural.to_owned(),
        uid: uid.to_owned(),
        ..Details::default()
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.to_map()})
}

/// Returns the `Status` that answers a binding or an eviction.
pub fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
