//! Objects as a real server stored them: decoding must know every field and change nothing.

use fake_apiserver::state::shape;

use super::*;

#[test]
fn objects_of_a_real_server_decode_to_themselves() {
    let mut seen = 0;
    for line in include_str!("../../testdata/protobuf-vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let (group_version, name) = (vector["groupVersion"].as_str().unwrap(), vector["kind"].as_str().unwrap());
        let Some(kind) = kinds::find_kind(group_version, name) else { continue };
        let recorded = match &vector["json"] {
            Value::String(text) => serde_json::from_str(text).unwrap(),
            tree => tree.clone(),
        };
        let mut object = recorded.clone();
        shape::decode_strictly(kind, &mut object).unwrap_or_else(|status| panic!("{group_version} {name}: {status}"));
        assert_eq!(object, without_nulls(&recorded), "{group_version} {name}");
        seen += 1;
    }
    assert_eq!(seen, 39, "every recorded object is of a served kind");
}

/// Removes nulls, which Go writes for unset times.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect()
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
