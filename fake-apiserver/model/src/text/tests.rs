use proptest::prelude::*;
use substrate::json::json;

use super::*;
use crate::kinds;

fn written(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    String::from_utf8(out).unwrap()
}

fn of_its_type(value: &Value) -> String {
    let mut out = Vec::new();
    document(value, &mut out);
    String::from_utf8(out).unwrap()
}

/// Adds the escapes of Go's encoder that serde_json does not have.
fn as_go(text: &str) -> String {
    let escapes =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    escapes.iter().fold(text.to_owned(), |text, (c, escape)| text.replace(*c, escape))
}

#[test]
fn every_character_is_written_as_go_writes_it() {
    for c in (0..0x300).chain(0x2020..0x2030).filter_map(char::from_u32) {
        for place in 0..10 {
            let value = json!(format!("{}{c}{}", "a".repeat(place), "b".repeat(9 - place)));
            assert_eq!(written(&value), as_go(&value.to_string()), "{c:?}");
        }
    }
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    for (number, text) in [
        (1.0, "1"),
        (-0.5, "-0.5"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (1.5e-9, "1.5e-9"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (-2.5e100, "-2.5e+100"),
    ] {
        assert_eq!(written(&json!(number)), text);
    }
    assert_eq!(written(&json!([i64::MIN, u64::MAX])), "[-9223372036854775808,18446744073709551615]");
}

#[test]
fn members_stand_in_the_order_of_the_struct() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"b": "<", "a": "&"}, "labels": {}, "name": "p"},
        "spec": {"containers": [{"image": "i", "name": "c", "resources": {"requests": {"memory": "1", "cpu": "1"}}}],
            "volumes": [{"emptyDir": {}, "name": "v"}]}, "status": {"phase": "Running"}});
    assert_eq!(
        of_its_type(&pod),
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"labels\":{},\"annotations\":{\"a\":\"\\u0026\",\"b\":\"\\u003c\"}},\
         \"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}],\"containers\":[{\"name\":\"c\",\"image\":\"i\",\
         \"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1\"}}}]},\"status\":{\"phase\":\"Running\"}}"
    );
    let custom = json!({"kind": "Car", "apiVersion": "e.com/v1", "spec": {"b": 1, "a": 2}, "metadata": {"name": "c", "labels": {}}});
    assert_eq!(of_its_type(&custom), custom.to_string());
}

#[test]
fn fields_of_managers_stand_in_the_order_of_their_paths() {
    let of = |port: u32| format!("k:{{\"containerPort\":{port},\"protocol\":\"TCP\"}}");
    let ports = json!({(of(8080)): {}, (of(80)): {}, (of(443)): {}, ".": {}});
    let names = json!({"k:{\"name\":\"a\"}": {}, "k:{\"name\":\"a b\"}": {}, "k:{\"name\":\"a1\"}": {}, "k:{\"name\":\"a12\"}": {}});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": [
        {"fieldsV1": {"f:ports": ports, "f:env": names, "f:v": {"v:10": {}, "v:9": {}}}, "manager": "m"}]}});
    let text = of_its_type(&object);
    let ordered = |parts: &[String]| {
        let places: Vec<usize> = parts.iter().map(|part| text.find(&json!(part).to_string()).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    };
    ordered(&[".".to_owned(), of(80), of(443), of(8080)]);
    ordered(&["a", "a b", "a1", "a12"].map(|name| format!("k:{{\"name\":\"{name}\"}}")));
    ordered(&["v:9", "v:10"].map(str::to_owned));
    assert!(text.find("\"manager\"").unwrap() < text.find("\"fieldsV1\"").unwrap());
}

/// Escapes characters outside ASCII as the recording does.
fn in_ascii(text: &str) -> String {
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
    text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(c) }).collect()
}

/// Compares with the bytes of a real server, apart from the spaces that the recording has between tokens.
#[test]
fn recorded_objects_are_written_as_they_came() {
    let mut compared = 0;
    for line in include_str!("../../../testdata/protobuf-vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let (version, name) = (vector["groupVersion"].as_str().unwrap(), vector["kind"].as_str().unwrap());
        let (_, rest) = line.split_once("\"json\": ").unwrap();
        let (recorded, _) = rest.rsplit_once(", \"protobuf\"").unwrap();
        let text = of_its_type(&vector["json"]);
        let lines = |text: &str| String::from_utf8(indent(text.as_bytes())).unwrap();
        assert_eq!(lines(&in_ascii(&text)), lines(&as_go(recorded)), "{version} {name}");
        assert!(kinds::find_kind(version, name).is_some());
        compared += 1;
    }
    assert!(compared > 30);
}

#[test]
fn no_struct_has_more_fields_than_there_are_places() {
    assert!(kinds::schema::types().all(|of| of.fields.len() <= 64));
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,12}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((n, a), (m, b))| n == m && same(a, b))
        }
        _ => a == b,
    }
}

proptest! {
    #[test]
    fn every_tree_is_read_as_it_was_written(value in tree()) {
        let text = written(&value);
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert!(same(&read, &value), "{} {}", text, value);
        let read: Value = serde_json::from_slice(&indent(text.as_bytes())).unwrap();
        prop_assert!(same(&read, &value), "indented");
    }

    /// Includes documents that do not match their type.
    #[test]
    fn every_document_is_written_whole(spec in tree(), status in tree(), metadata in tree()) {
        let value = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": status, "metadata": metadata});
        let read: Value = serde_json::from_str(&of_its_type(&value)).unwrap();
        prop_assert!(same(&read, &value));
    }
}
