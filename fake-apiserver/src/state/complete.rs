//! Zero values that a Go server writes for unset fields: fields whose tags lack `omitempty`, and structs, for which
//! `omitempty` has no effect. So an Event has `eventTime: null`, a CSINode driver `topologyKeys: null` and a container
//! `resources: {}`.

use substrate::json::{Map, Value, json};

use crate::kinds::Kind;
use crate::kinds::schema::{self, Field, Shape, Type, Unset};

/// ObjectMeta. None of its fields is written when unset.
const METADATA: &str = "meta/v1.ObjectMeta";

/// Adds the zero values of unset fields to an object. Custom kinds are kept as sent.
pub fn complete(kind: &Kind, object: &mut Value) {
    if kind.custom.is_some() {
        return;
    }
    if let (Some(of), Some(map)) = (schema::built_in(kind), object.as_object_mut()) {
        fields(of, map);
    }
}

fn fields(of: &'static Type, map: &mut Map) {
    if of.name == METADATA {
        return;
    }
    for (key, value) in map.iter_mut() {
        if matches!(value, Value::Object(_) | Value::Array(_))
            && let Some(field) = of.field(key)
        {
            below(&field.shape, value);
            // protobuf does not distinguish an empty list from an unset one. Definitions are stored as JSON, which
            // does.
            if field.unset == Some(Unset::Null) && is_empty(&field.shape, value) && !of.name.starts_with("api") {
                *value = Value::Null;
            }
        }
    }
    for (field, unset) in of.unset() {
        if !map.contains_key(&field.name) {
            map.insert(field.name.clone(), written(field, unset));
        }
    }
}

/// Returns the fields of a struct that are written when unset, with their zero values.
pub(super) fn unset(of: &Type) -> impl Iterator<Item = (&str, Value)> {
    let written_of = (of.name != METADATA).then_some(of).into_iter().flat_map(Type::unset);
    written_of.map(|(field, unset)| (&*field.name, written(field, unset)))
}

fn is_empty(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::List(_), Value::Array(list)) => list.is_empty(),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

fn below(shape: &'static Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Ref(of), Value::Object(map)) => fields(of.get(), map),
        (Shape::List(element), Value::Array(list)) => list.iter_mut().for_each(|value| below(element, value)),
        (Shape::Map(values), Value::Object(map)) => map.values_mut().for_each(|value| below(values, value)),
        _ => {}
    }
}

fn written(field: &Field, unset: Unset) -> Value {
    if unset == Unset::Null {
        return Value::Null;
    }
    match &field.shape {
        Shape::String => "".into(),
        Shape::Boolean => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => 0.into(),
        Shape::Quantity => "0".into(),
        Shape::Ref(of) => {
            let mut map = Map::new();
            fields(of.get(), &mut map);
            Value::Object(map)
        }
        // All other shapes are null when unset.
        _ => json!(null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn completed(group: &str, plural: &str, mut object: Value) -> Value {
        complete(kinds::find(group, "v1", plural).unwrap(), &mut object);
        object
    }

    #[test]
    fn fields_without_omitempty_are_set() {
        let event = completed("", "events", json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}}));
        assert_eq!(
            event,
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "source": {}, "eventTime": null,
                "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": "", "reportingInstance": ""})
        );
        let node =
            completed("storage.k8s.io", "csinodes", json!({"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}));
        assert_eq!(node["spec"]["drivers"], json!([{"name": "d", "nodeID": "n", "topologyKeys": null}]));
        assert_eq!(completed("rbac.authorization.k8s.io", "clusterroles", json!({}))["rules"], Value::Null);
        let pod = json!({"spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let pod = completed("", "pods", pod);
        assert_eq!(pod["spec"]["containers"][0], json!({"name": "c", "env": [{"name": "A"}], "resources": {}}));
        let condition = json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null});
        assert_eq!(pod["status"]["conditions"][0], condition);
        // Since 1.34 the creationTimestamp of a template is omitted.
        let set = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}});
        let set = completed("apps", "deployments", set);
        assert_eq!(set["spec"]["template"]["metadata"], json!({"labels": {"a": "b"}}));
        assert_eq!(
            (&set["spec"]["selector"], &set["spec"]["strategy"], &set["status"]),
            (&Value::Null, &json!({}), &json!({}))
        );
    }

    /// Takes objects of a real server, removes the zero values, and expects `complete` to restore them.
    #[test]
    fn objects_of_a_real_server_become_what_they_were() {
        for line in include_str!("../../testdata/protobuf-vectors.jsonl").lines() {
            let vector: Value = serde_json::from_str(line).unwrap();
            let (group_version, name) = (vector["groupVersion"].as_str().unwrap(), vector["kind"].as_str().unwrap());
            let kind = kinds::find_kind(group_version, name).unwrap();
            let recorded: Value = match &vector["json"] {
                Value::String(text) => serde_json::from_str(text).unwrap(),
                tree => tree.clone(),
            };
            let mut object = recorded.clone();
            complete(kind, &mut object);
            assert_eq!(object, recorded, "{group_version} {name}: something is added");
            super::super::shape::decode_strictly(kind, &mut object).unwrap();
            complete(kind, &mut object);
            assert_eq!(object, recorded, "{group_version} {name}");
        }
    }

    #[test]
    fn completion_is_idempotent() {
        for kind in kinds::all() {
            let mut once = json!({"metadata": {"name": "a"}});
            complete(kind, &mut once);
            let mut twice = once.clone();
            complete(kind, &mut twice);
            assert_eq!(once, twice, "{}", kind.kind);
        }
    }
}
