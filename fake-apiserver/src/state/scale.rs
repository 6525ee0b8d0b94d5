//! The `scale` subresource: an `autoscaling/v1` Scale over the replicas of a workload (`registry/apps/*/storage`).

use substrate::Now;
use substrate::json::{Map, Value, json};

use super::command::{Reply, Stage, Target, WriteOptions};
use super::matching::Attributes;
use super::status::Status;
use super::update::{refused, take_type};
use super::value::{self, at, text};
use super::write::Write;
use super::{FieldError, Store};
use crate::kinds::Kind;
use crate::patch::{self, PatchKind};

/// Paths of the fields that a Scale shows.
struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    /// A label selector: an object for built-in kinds, a string for custom ones; `None` if the kind has none.
    selector: Option<Vec<String>>,
}

fn paths(kind: &Kind) -> Paths {
    if let Some(scale) = kind.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
        return Paths { spec: scale.spec.clone(), status: scale.status.clone(), selector: scale.selector.clone() };
    }
    let path = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
    Paths {
        spec: path("spec", "replicas"),
        status: path("status", "replicas"),
        selector: Some(path("spec", "selector")),
    }
}

fn find<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    at(object, &path)
}

/// Returns the Scale of an object.
///
/// # Errors
/// 400 if the replicas are not a number.
pub fn scale_of(kind: &Kind, object: &Value) -> Result<Value, Status> {
    let paths = paths(kind);
    let number = |path: &[String]| match find(object, path) {
        None | Some(Value::Null) => Ok(0),
        Some(found) => {
            found.as_i64().ok_or_else(|| Status::bad_request(format!(".{}: is not a whole number", path.join("."))))
        }
    };
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(found) = at(object, &["metadata", field]) {
            metadata.insert(field, found.clone());
        }
    }
    let mut spec = Map::new();
    let replicas = number(&paths.spec)?;
    if replicas != 0 {
        spec.insert("replicas", replicas.into());
    }
    let mut status = Map::new();
    status.insert("replicas", number(&paths.status)?.into());
    let selector = paths.selector.and_then(|path| find(object, &path).map(selector_text)).unwrap_or_default();
    if !selector.is_empty() {
        status.insert("selector", selector.into());
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}))
}

/// Returns a label selector in the form of a query.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    // The selector of a ReplicationController is a plain map.
    let is_map = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_map { selector } else { &selector["matchLabels"] };
    let mut terms: Vec<(&str, String)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in value::list(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = value::list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let term = match text(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, term));
    }
    // Upstream sorts by the key alone (`ByKey` of apimachinery's labels).
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

impl Store {
    /// Handles PUT of a Scale.
    pub(super) fn update_scale(
        &mut self,
        now: Now,
        target: &Target,
        scale: &Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let kind = &target.kind;
        let old = self.existing(target)?;
        let request = Attributes {
            kind,
            subresource: "scale",
            named: &target.name,
            operation: "UPDATE",
            namespace: target.namespace.as_deref(),
            object: scale,
            old: &scale_of(kind, &old.value)?,
        };
        // Webhooks run after policies: their Scale replaces the one that was sent.
        let mutated = options.mutated.as_deref();
        if mutated.is_some_and(|mutated| mutated.revision != old.revision) {
            return Err(Status::modified(kind, &target.name));
        }
        let request = Attributes { object: mutated.map_or(scale, |mutated| &mutated.object), ..request };
        let changed = self.mutated(&request, mutated.is_some())?;
        let scale = changed.as_ref().unwrap_or(request.object);
        if options.stage == Stage::Mutated {
            return Ok(Reply::Document(200, scale.clone()));
        }
        let sent = text(scale, &["kind"]);
        if sent != "Scale" {
            return Err(Status::bad_request(format!("the body must be a Scale, not {sent}")));
        }
        let replicas = match at(scale, &["spec", "replicas"]) {
            None | Some(Value::Null) => 0,
            Some(sent) => {
                sent.as_i64().ok_or_else(|| Status::bad_request("Scale.spec.replicas: is not a whole number"))?
            }
        };
        if replicas < 0 || i32::try_from(replicas).is_err() {
            let error = FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
            return Err(Status::invalid_type("Scale", "autoscaling", &target.name, vec![error]));
        }
        let mut object = old.value.clone();
        for field in ["resourceVersion", "uid"] {
            // A precondition, if it is sent.
            let sent = text(scale, &["metadata", field]);
            if field == "uid" && !sent.is_empty() && sent != value::uid(&old.value) {
                let why = format!(
                    "Precondition failed: UID in precondition: {sent}, UID in object meta: {}",
                    value::uid(&old.value)
                );
                return Err(Status::conflict(kind, &target.name, &why));
            }
            let sent = if self.defects.takes_stale_scales && field == "resourceVersion" { "" } else { sent };
            value::metadata(&mut object).insert(field, sent.into());
        }
        put_number(&mut object, &paths(kind).spec, replicas);
        self.check_policies(&Attributes {
            kind,
            subresource: "scale",
            named: &target.name,
            operation: "UPDATE",
            namespace: target.namespace.as_deref(),
            object: &scale_of(kind, &object)?,
            old: &scale_of(kind, &old.value)?,
        })?;
        match self.write(Write::of(target, old, object, options, now))? {
            Reply::Object(object) => Ok(Reply::Document(200, scale_of(kind, &object.value)?)),
            other => Ok(other),
        }
    }

    /// Handles PATCH of a Scale.
    pub(super) fn patch_scale(
        &mut self,
        now: Now,
        target: &Target,
        patch_kind: PatchKind,
        patch: Value,
        options: WriteOptions,
    ) -> Result<Reply, Status> {
        let kind = &target.kind;
        let old = self.existing(target)?;
        let mut before = scale_of(kind, &old.value)?;
        let version = value::metadata(&mut before).remove("resourceVersion");
        let mut scale = patch::apply(kind, patch_kind, patch, &before).map_err(|error| refused(&error))?;
        if patch_kind == PatchKind::Strategic {
            take_type(&mut scale, "autoscaling/v1", "Scale");
        }
        // A version in the patch is a precondition; without one the present version is used.
        value::metadata(&mut scale).entry("resourceVersion").or_insert_with(|| version.unwrap_or_default());
        self.update_scale(now, target, &scale, options)
    }
}

/// Sets the number at `path` and creates missing maps.
fn put_number(object: &mut Value, path: &[String], number: i64) {
    let mut slot = object;
    for step in path {
        if !slot.is_object() {
            *slot = json!({});
        }
        let Some(map) = slot.as_object_mut() else { return };
        slot = map.entry(step).or_insert(Value::Null);
    }
    *slot = number.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_in_a_query() {
        let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]},
            {"key": "c", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector), "a in (x,y),b=1,!c");
        assert_eq!(selector_text(&json!({"app": "web"})), "app=web");
    }
}
