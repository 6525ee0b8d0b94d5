//! `patch`: patches an object of any kind, or a subresource of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("patch", Of::Map(&PATCH), "Patches an object of any kind, or a subresource of it.")
    .like(&[
        "- patch: {object: node/node-b, with: {metadata: {labels: {disk: fast}}}}",
        "- patch: {object: node/node-b, type: json, with: [{op: add, path: /metadata/labels/disk, value: fast}]}",
        "- patch: {object: node/node-b, subresource: status, type: strategic, with: {status: {phase: Running}}}",
        "- patch: {object: pod/web, with: {spec: {nodeName: node-b}}, fails: Invalid}",
    ]);

static PATCH: Map = Map {
    name: "patch",
    about: "A patch of an object.",
    keys: &[
        must("object", Of::Object, "The object."),
        may("subresource", Of::Text, "The subresource, such as status; the object itself when absent."),
        may("type", Of::Words(PATCHES), "The kind of patch; `merge` when absent."),
        must(
            "with",
            Of::Either(&[
                (Of::Part, "A part of the object, with `type: merge` and `type: strategic`."),
                (Of::List(&Of::Part), "A list of operations, with `type: json`."),
            ]),
            "The patch.",
        ),
        may(
            "fails",
            Of::Either(&[
                (Of::Whole(400, Some(599)), "Its HTTP code."),
                (Of::Words(REASONS), "The reason of its Status."),
            ]),
            "The error that the patch must get; it must succeed when absent.",
        ),
    ],
};

const PATCHES: &[Word] = &[
    ("merge", "A part of the object; null removes a field (RFC 7396)."),
    ("json", "A list of operations (RFC 6902)."),
    ("strategic", "Kubernetes' own format, which merges lists by their keys."),
];

/// Reasons of a Status (apimachinery `StatusReason`).
pub(super) const REASONS: &[Word] = &[
    ("BadRequest", "400: the request is not valid."),
    ("Unauthorized", "401: the caller is not authenticated."),
    ("Forbidden", "403: the object may not be changed like this."),
    ("NotFound", "404: the object does not exist."),
    ("MethodNotAllowed", "405: the resource has no such verb."),
    ("NotAcceptable", "406: the requested media type is not supported."),
    ("AlreadyExists", "409: an object of this name exists."),
    ("Conflict", "409: the object has changed."),
    ("Gone", "410: the object no longer exists."),
    ("Expired", "410: the revision is too old."),
    ("RequestEntityTooLarge", "413: the body is too long."),
    ("UnsupportedMediaType", "415: the media type of the body is not supported."),
    ("Invalid", "422: a field has an invalid value."),
    ("TooManyRequests", "429: try later."),
    ("InternalError", "500: the server failed."),
    ("ServiceUnavailable", "503: the server is not ready."),
    ("Timeout", "504: it took too long."),
];

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    object: Spanned<String>,
    subresource: Option<Spanned<String>>,
    r#type: Option<Spanned<PatchType>>,
    with: Spanned<Value>,
    fails: Option<Spanned<Value>>,
}

/// A patch of an object of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    pub object: ObjectRef,
    pub subresource: Option<String>,
    pub r#type: PatchType,
    pub with: Value,
    pub fails: Option<Refused>,
}

/// Kinds of patches, except server-side apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatchType {
    /// RFC 7396.
    #[default]
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes' own kind, which knows the merge keys of lists.
    Strategic,
}

/// A refusal of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Code(u16),
    Reason(String),
}

pub(super) fn lower(patch: Spanned<Written>, steps: &mut Steps<'_>) -> Checked<Action> {
    let patch = patch.value;
    let object = steps.object(&patch.object)?;
    let kind = object.kind;
    if let Some(name) = &patch.subresource {
        let patched = || kind.subresources().filter(|sub| sub.verbs.contains(&"patch")).map(|sub| sub.name);
        if !patched().any(|known| known == name.value) {
            let message = format!("a {} has no subresource `{}` to patch", kind.kind(), name.value);
            let known: Vec<&str> = patched().collect();
            let help = suggest(name, known.into_iter(), "subresources to patch");
            return Err(Mistake::new(name.place, message, "this subresource").help(help));
        }
    }
    let r#type = patch.r#type.as_ref().map_or_else(PatchType::default, |t| t.value);
    if r#type == PatchType::Strategic && kind.is_custom() {
        let place = patch.r#type.map_or(patch.object.place, |t| t.place);
        let message = "custom kinds take no strategic merge patch";
        return Err(Mistake::new(place, message, "this type").help("write `type: merge` or `type: json`"));
    }
    match (&patch.with.value, r#type) {
        (Value::Array(_), PatchType::Json) | (Value::Object(_), PatchType::Merge | PatchType::Strategic) => {}
        (_, PatchType::Json) => {
            let help = "write `with: [{op: replace, path: /spec/…, value: …}]`";
            return Err(Mistake::new(patch.with.place, "a JSON patch is a list of operations", "here").help(help));
        }
        _ => {
            let help = "write what it shall look like, or `type: json` for a list of operations";
            return Err(Mistake::new(patch.with.place, "this patch is a part of an object", "here").help(help));
        }
    }
    let fails = patch.fails.map(refused).transpose()?;
    let subresource = patch.subresource.map(|name| name.value);
    Ok(Action::Patch(Box::new(Patch { object, subresource, r#type, with: patch.with.value, fails })))
}

/// Parses `422` or `Invalid`.
pub(super) fn refused(fails: Spanned<Value>) -> Checked<Refused> {
    match &fails.value {
        Value::Number(n) => match n.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n)) {
            Some(code) => Ok(Refused::Code(code)),
            None => Err(Mistake::new(fails.place, format!("{n} is not the status of a refusal"), "400 to 599")),
        },
        Value::String(reason) if names(REASONS).any(|known| known == reason) => Ok(Refused::Reason(reason.clone())),
        other => {
            let word = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
            let help = suggest(&word, names(REASONS), "reasons");
            Err(Mistake::new(fails.place, format!("`{word}` is not a reason of a refusal"), "here").help(help))
        }
    }
}

pub(super) fn summary(patch: &Patch) -> Summary {
    Summary::change(patch.to_string()).of(&patch.object)
}

impl PatchType {
    /// Content-Type of the request.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch ")?;
        if let Some(subresource) = &self.subresource {
            write!(f, "{subresource} of ")?;
        }
        self.object.fmt(f)?;
        match &self.fails {
            Some(refused) => write!(f, ", which is refused as {refused}"),
            None => Ok(()),
        }
    }
}

impl Refused {
    /// Returns true for this code and reason of a Status.
    pub fn is(&self, code: u16, reason: &str) -> bool {
        match self {
            Self::Code(wanted) => *wanted == code,
            Self::Reason(wanted) => wanted == reason,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => code.fmt(f),
            Self::Reason(reason) => f.write_str(reason),
        }
    }
}
