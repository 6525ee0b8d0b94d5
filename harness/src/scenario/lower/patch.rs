//! Checks patches of objects and of their subresources.

use serde_json::Value;

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::acts::{Patch, PatchType, Refused};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;
use crate::scenario::source_span::Spanned;
use crate::suggestions::suggest;

/// Reasons of a Status (apimachinery `StatusReason`).
const REASONS: [&str; 17] = [
    "BadRequest",
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "MethodNotAllowed",
    "NotAcceptable",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Expired",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "Invalid",
    "TooManyRequests",
    "InternalError",
    "ServiceUnavailable",
    "Timeout",
];

impl Steps<'_> {
    pub(super) fn patch(&self, patch: doc::Patch) -> Checked<Patch> {
        let object = self.object(&patch.object)?;
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
        Ok(Patch { object, subresource, r#type, with: patch.with.value, fails })
    }
}

/// Parses `422` or `Invalid`.
fn refused(fails: Spanned<Value>) -> Checked<Refused> {
    match &fails.value {
        Value::Number(n) => match n.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n)) {
            Some(code) => Ok(Refused::Code(code)),
            None => Err(Mistake::new(fails.place, format!("{n} is not the status of a refusal"), "400 to 599")),
        },
        Value::String(reason) if REASONS.contains(&reason.as_str()) => Ok(Refused::Reason(reason.clone())),
        other => {
            let word = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
            let help = suggest(&word, REASONS.into_iter(), "reasons");
            Err(Mistake::new(fails.place, format!("`{word}` is not a reason of a refusal"), "here").help(help))
        }
    }
}
