//! Filters for events.

use fake_apiserver::cel::{CelValue, Expression};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use substrate::fault::wild;

/// A condition on events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Filter {
    /// Events of this kind, which may end with `*`.
    Kind(String),
    /// Events of this process, which may end with `*`.
    Process(String),
    /// Events that name this object, volume, node or pod.
    Object(String),
    /// Events for which this CEL expression about `event` is true.
    Cel(String),
    /// Events at which an invariant is violated.
    Violation,
}

/// Input of a filter.
pub(super) struct Seen<'a> {
    pub line: &'a Value,
    /// Violation at the event.
    pub violation: Option<&'a str>,
}

impl Filter {
    /// Parses `kind csi.*`, `process csi-attacher`, `object pvc/data`, `cel EXPRESSION` or `violation`.
    pub fn read(text: &str) -> Result<Self, String> {
        let (word, rest) = text.trim().split_once(' ').map_or((text.trim(), ""), |(word, rest)| (word, rest.trim()));
        let named = |what: &str| match rest {
            "" => Err(format!("`{word}`: say which, as in `{word} {what}`")),
            rest => Ok(rest.to_owned()),
        };
        match word {
            "kind" => named("csi.*").and_then(known_kind).map(Self::Kind),
            "process" => named("csi-attacher").map(Self::Process),
            "object" => named("pvc/data").map(Self::Object),
            "cel" => {
                let text = named("'event.kind == \"csi.done\"'")?;
                let text = text.trim_matches('\'').to_owned();
                let expression = Expression::compile(&text)?;
                match expression.unknown_variable(&["event"]) {
                    Some(other) => Err(format!("`{other}` is not known here: an expression is about `event`")),
                    None => Ok(Self::Cel(text)),
                }
            }
            "violation" => Ok(Self::Violation),
            // As in gdb, a location alone is enough.
            _ if rest.is_empty() && word.contains('/') => Ok(Self::Object(word.to_owned())),
            _ if rest.is_empty() && crate::events::all().iter().any(|kind| wild(word, kind.kind)) => {
                Ok(Self::Kind(word.to_owned()))
            }
            _ => Err(format!("`{word}`: say `kind`, `process`, `object`, `cel` or `violation`, and which")),
        }
    }

    /// Returns true if the event matches.
    pub fn is(&self, seen: &Seen<'_>) -> bool {
        let text = |key: &str| seen.line[key].as_str().unwrap_or_default();
        match self {
            Self::Kind(kind) => wild(kind, text("kind")),
            Self::Process(process) => wild(process, text("process")),
            Self::Object(object) => names(seen.line, object),
            Self::Cel(source) => is_true(source, seen.line),
            Self::Violation => seen.violation.is_some(),
        }
    }

    /// Filter as it is typed.
    pub fn text(&self) -> String {
        match self {
            Self::Kind(kind) => format!("kind {kind}"),
            Self::Process(process) => format!("process {process}"),
            Self::Object(object) => format!("object {object}"),
            Self::Cel(source) => format!("cel {source}"),
            Self::Violation => "violation".to_owned(),
        }
    }
}

fn known_kind(pattern: String) -> Result<String, String> {
    let all = crate::events::all();
    if all.iter().any(|kind| wild(&pattern, kind.kind)) {
        return Ok(pattern);
    }
    let near = all.iter().max_by(|one, other| {
        strsim::jaro_winkler(&pattern, one.kind).total_cmp(&strsim::jaro_winkler(&pattern, other.kind))
    });
    Err(format!("no event is of the kind `{pattern}`; did you mean {}?", near.map_or("", |kind| kind.kind)))
}

fn is_true(source: &str, line: &Value) -> bool {
    let Ok(event) = substrate::json::to_value(line) else { return false };
    // Evaluation fails if this kind of event lacks the field; the event does not match then.
    let value = Expression::compile(source).and_then(|expression| expression.evaluate(&[("event", &event)]));
    matches!(value, Ok(CelValue::Bool(true)))
}

/// Evaluates a CEL expression about `event`.
///
/// # Errors
/// Returns the reason if the expression cannot be evaluated.
pub(super) fn evaluated(source: &str, line: &Value) -> Result<String, String> {
    let expression = Expression::compile(source)?;
    if let Some(other) = expression.unknown_variable(&["event"]) {
        return Err(format!("`{other}` is not known here: an expression is about `event`"));
    }
    let event = substrate::json::to_value(line).map_err(|e| e.to_string())?;
    Ok(match expression.evaluate(&[("event", &event)])? {
        CelValue::Bool(value) => value.to_string(),
        CelValue::Int(value) => value.to_string(),
        CelValue::UInt(value) => value.to_string(),
        CelValue::Float(value) => value.to_string(),
        CelValue::String(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}

/// Returns true if an event names `object`, by kind and name or by name alone.
fn names(line: &Value, object: &str) -> bool {
    let (kind, name) = object.split_once('/').map_or((None, object), |(kind, name)| (Some(kind), name));
    let kind = kind.and_then(crate::search::replay::kind_of);
    let Value::Object(fields) = line else { return false };
    // An API object is named by resource and key, everything else by one word.
    let own = |text: &str| wild(name, text) || text.rsplit('/').next().is_some_and(|last| wild(name, last));
    if let (Some(kind), Some(resource)) = (kind, line["resource"].as_str()) {
        if resource == kind.resource() {
            return line["object"].as_str().is_some_and(own);
        }
        // Commits of other objects that refer to it: a pod to its claims, a volume to its claim, an attachment and a
        // claim to their volume.
        let named: Vec<&Value> = match kind.short() {
            "pvc" => line["pod"]["claims"].as_array().into_iter().flatten().chain([&line["pv"]["claim"]]).collect(),
            "pv" => vec![&line["volumeattachment"]["pv"], &line["pvc"]["volume"]],
            _ => Vec::new(),
        };
        return named.into_iter().filter_map(Value::as_str).any(own);
    }
    let rest = fields
        .iter()
        .filter(|(key, _)| !["kind", "process", "n", "ms", "verb", "user", "type"].contains(&key.as_str()));
    rest.map(|(_, value)| value).any(|value| any(value, &own))
}

fn any(value: &Value, own: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => own(text),
        Value::Array(list) => list.iter().any(|value| any(value, own)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is(filter: &str, line: &Value) -> bool {
        Filter::read(filter).unwrap().is(&Seen { line, violation: None })
    }

    #[test]
    fn events_are_meant_by_kind_process_object_and_expression() {
        let done = json!({ "n": 1, "ms": 2, "process": "node-a/csi-node", "kind": "csi.done", "code": "INTERNAL", "volume": "vol-1" });
        let claim = json!({ "n": 1, "ms": 2, "process": "fake-apiserver", "kind": "api.commit", "resource": "persistentvolumeclaims", "object": "default/data" });
        for filter in
            ["kind csi.*", "process node-a/*", "object vol-1", "cel event.kind == \"csi.done\" && event.code != \"OK\""]
        {
            assert!(is(filter, &done), "{filter}");
            assert!(!is(filter, &claim), "{filter}");
        }
        for filter in ["object pvc/data", "object data", "kind api.commit"] {
            assert!(is(filter, &claim), "{filter}");
        }
        assert!(!is("object pod/data", &claim) && !is("violation", &done));
    }

    #[test]
    fn an_invalid_filter_is_refused_with_advice() {
        for (text, expected) in [
            ("kind csi.dnoe", "did you mean csi.done?"),
            ("kind", "as in `kind csi.*`"),
            ("cel evnt.kind == \"x\"", "`evnt` is not known here"),
            ("when x", "say `kind`, `process`, `object`, `cel` or `violation`"),
        ] {
            let error = Filter::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
