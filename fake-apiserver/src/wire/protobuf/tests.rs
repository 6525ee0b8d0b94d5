use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use substrate::json::{Map, Value, json};

use super::*;
use crate::kinds;
use crate::kinds::schema::{self, Shape, Type};

/// Creates an object of a struct with a distinct value in every field.
fn full(of: &Type, seed: &mut i32, depth: usize) -> Value {
    let fields: Map = of
        .fields
        .iter()
        // JSON schemas contain themselves.
        .filter(|f| !f.numbers.is_empty() && (depth < 12 || !is_struct(&f.shape)))
        .map(|f| (f.name.to_owned(), value(&f.shape, seed, depth)))
        .collect();
    Value::Object(fields)
}

fn is_struct(shape: &Shape) -> bool {
    match shape {
        Shape::Ref(_) | Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings => true,
        Shape::List(element) | Shape::Map(element) => is_struct(element),
        _ => false,
    }
}

fn value(shape: &Shape, seed: &mut i32, depth: usize) -> Value {
    *seed += 1;
    let n = *seed;
    match shape {
        Shape::String => format!("text {n}").into(),
        Shape::Boolean => true.into(),
        Shape::Int32 => (-n).into(),
        Shape::Int64 => (i64::from(n) << 32).into(),
        Shape::Number => (f64::from(n) + 0.5).into(),
        Shape::Time => jiff::Timestamp::from_second(n.into()).unwrap().to_string().into(),
        Shape::MicroTime => format!("2026-01-01T00:00:00.{:06}Z", n % 1_000_000).into(),
        Shape::Quantity => format!("{n}Mi").into(),
        Shape::IntOrString if n % 2 == 0 => n.into(),
        Shape::IntOrString => format!("{n}%").into(),
        Shape::Bytes => STANDARD.encode(n.to_le_bytes()).into(),
        Shape::Any => json!({"f:metadata": {".": {}, "n": n}}),
        Shape::Ref(of) => full(of.get(), seed, if of.name().contains("JSONSchema") { depth + 6 } else { depth + 1 }),
        Shape::Custom(_) => json!({}),
        Shape::SchemaOrBool if n % 2 == 0 => (n % 4 == 0).into(),
        Shape::SchemaOrStrings if n % 2 == 0 => json!(["a", "b"]),
        Shape::SchemaOrList if n % 2 == 0 => json!([{"type": "string"}, {"maximum": 1.5}]),
        Shape::SchemaOrBool | Shape::SchemaOrList | Shape::SchemaOrStrings => json!({"type": format!("{n}")}),
        Shape::List(element) => json!([value(element, seed, depth), value(element, seed, depth)]),
        Shape::Map(values) => {
            let (a, b) = (value(values, seed, depth), value(values, seed, depth));
            json!({ (format!("key {n}")): a, "": b })
        }
    }
}

fn there_and_back(api_version: &str, kind: &str, object: &Value) -> Value {
    let message = encode(api_version, kind, object).unwrap();
    decode(&envelope(api_version, kind, &message), ("", "")).unwrap()
}

#[test]
fn every_field_of_every_kind_survives_both_ways() {
    let mut seed = 0;
    for kind in kinds::discoverable() {
        let api_version = kind.api_version();
        let mut object = full(schema::of(kind).unwrap(), &mut seed, 0);
        object["apiVersion"] = api_version.as_str().into();
        object["kind"] = kind.kind.into();
        for template in
            object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten()
        {
            template["apiVersion"] = "v1".into();
            template["kind"] = "PersistentVolumeClaim".into();
        }
        assert_eq!(there_and_back(&api_version, kind.kind, &object), object, "{kind:?}");
    }
    assert!(seed > 1000, "{seed} values");
}

/// Removes nulls, which Go writes for unset times and nil lists.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Returns recorded objects of a real server, each in JSON and in protobuf.
fn recorded() -> Vec<(String, String, Value, Vec<u8>)> {
    let mut vectors = Vec::new();
    for line in include_str!("../../../testdata/protobuf-vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| vector[name].as_str().unwrap().to_owned();
        let bytes = STANDARD.decode(text("protobuf")).unwrap();
        vectors.push((text("groupVersion"), text("kind"), without_nulls(&vector["json"]), bytes));
    }
    assert_eq!(vectors.len(), 39);
    vectors
}

#[test]
fn the_bytes_of_a_real_server_are_the_objects_that_it_shows_in_json() {
    for (api_version, kind, object, bytes) in recorded() {
        assert_eq!(decode(&bytes, ("", "")).unwrap(), object, "{api_version} {kind}");
        assert_eq!(there_and_back(&api_version, &kind, &object), object, "{api_version} {kind}");
    }
}

#[test]
fn unset_fields_differ_from_zero_values() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a", "namespace": ""},
        "spec": {"storageClassName": "", "volumeName": "", "resources": {}}, "status": {}});
    assert_eq!(
        there_and_back("v1", "PersistentVolumeClaim", &claim),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
            "spec": {"storageClassName": "", "resources": {}}, "status": {}})
    );
    let pod = json!({"spec": {"hostNetwork": false, "enableServiceLinks": false, "priority": 0,
            "containers": [{"name": "", "stdin": false, "livenessProbe": {"httpGet": {"port": 0}}}]},
        "status": {"containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "started": false}]}});
    assert_eq!(
        there_and_back("v1", "Pod", &pod),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"enableServiceLinks": false, "priority": 0,
                "containers": [{"name": "", "livenessProbe": {"httpGet": {"port": 0}}}]},
            "status": {"containerStatuses": [{"name": "c", "ready": false, "restartCount": 0, "started": false}]}})
    );
    let attachment = json!({"status": {"attached": false}});
    assert_eq!(there_and_back("storage.k8s.io/v1", "VolumeAttachment", &attachment)["status"]["attached"], false);
}

/// A ConfigMap with `{name: "a"}` in its metadata and fields that no version has.
const CONFIG: &[u8] = b"\x0a\x03\x0a\x01a\xfa\x3f\x02hi\xf8\x3f\x05";

#[test]
fn the_type_comes_from_the_envelope_or_else_from_the_request() {
    let bare = envelope("", "", CONFIG);
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(decode(&bare, ("v1", "ConfigMap")), Ok(wanted));
    let options = envelope("storage.k8s.io/v1", "DeleteOptions", b"\x08\x00\x12\x03\x0a\x01u\x2a\x03All");
    assert_eq!(
        decode(&options, ("v1", "DeleteOptions")),
        Ok(json!({"apiVersion": "storage.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"}, "dryRun": ["All"]}))
    );
}

#[test]
fn an_invalid_object_is_refused_by_name() {
    let refused = |bytes: &[u8]| decode(bytes, ("v1", "ConfigMap")).unwrap_err().to_string();
    assert!(refused(b"{}").starts_with("provided data does not appear to be a protobuf message"));
    assert_eq!(refused(&envelope("v9", "Thing", b"")), "no kind \"Thing\" is registered for version \"v9\"");
    assert_eq!(refused(&envelope("v1", "ConfigMap", b"\x0a\x09a")), "unexpected end of the message");
    assert_eq!(refused(&envelope("v1", "ConfigMap", b"\x08\x01")), "metadata: wrong wire type");
    assert_eq!(refused(b"k8s\0\x1a\x04gzip"), "content encoding \"gzip\" is not understood");
}

#[test]
fn invalid_utf_8_is_replaced_as_in_json() {
    let map = decode(&envelope("v1", "ConfigMap", b"\x0a\x03\x0a\x01\xff\x12\x07\x0a\x02k\xff\x12\x01\xe2"), ("", ""))
        .unwrap();
    assert_eq!((&map["metadata"]["name"], &map["data"]), (&json!("\u{fffd}"), &json!({"k\u{fffd}": "\u{fffd}"})));
}

#[test]
fn lists_of_numbers_may_be_packed_and_messages_may_come_in_pieces() {
    // spec.securityContext.supplementalGroups 7 and 300 packed, then 9 alone, in a second part of the spec.
    let spec = b"\x12\x07\x72\x05\x22\x03\x07\xac\x02\x12\x06\x72\x04\x20\x09\x20\x00";
    let pod = decode(&envelope("v1", "Pod", spec), ("", "")).unwrap();
    assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([7, 300, 9, 0]));
}

#[test]
fn watch_events_are_framed_by_their_length() {
    let frame = watch_event("ADDED", b"object");
    assert_eq!(&frame[..], b"\0\0\0\x11\x0a\x05ADDED\x12\x08\x0a\x06object");
}

proptest! {
    #[test]
    fn no_bytes_upset_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..kinds::all().len()) {
        let kind = &kinds::all()[kind];
        let _ = decode(&bytes, ("v1", "Pod"));
        let _ = decode(&envelope(&kind.api_version(), kind.kind, &bytes), ("", ""));
    }

    #[test]
    fn no_damage_to_an_object_upsets_the_decoder(
        kind in 0..kinds::all().len(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let kind = &kinds::all()[kind];
        let message = encode(&kind.api_version(), kind.kind, &full(schema::of(kind).unwrap(), &mut 0, 0)).unwrap();
        let mut bytes = envelope(&kind.api_version(), kind.kind, &message).to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode(&bytes, ("v1", "Pod"));
        let _ = decode(&bytes[..end.index(bytes.len())], ("v1", "Pod"));
    }

    /// A decoded object is encoded to bytes that decode to the same object.
    #[test]
    fn decoding_settles(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(object) = decode(&envelope("v1", "PersistentVolumeClaim", &bytes), ("", "")) {
            prop_assert_eq!(there_and_back("v1", "PersistentVolumeClaim", &object), object);
        }
    }
}
