//! The tree behaves like `serde_json`'s.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Map, Value, from_value, json, to_value};

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,30}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec(("[a-f/~0-9]{0,2}", inner), 0..14)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A number stays the same over repeated reading and writing.
#[test]
fn a_fraction_is_read_as_the_double_that_is_nearest() {
    for text in
        ["123456789012345680000", "1.2345678901234568e+20", "0.1", "2.2250738585072011e-308", "9007199254740993.0"]
    {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value.as_f64(), Some(text.parse().unwrap()), "{text}");
    }
}

proptest! {
    #[test]
    fn a_tree_is_read_written_and_converted_as_serde_json_does(theirs in tree()) {
        let text = theirs.to_string();
        let ours = Value::from(theirs.clone());
        prop_assert_eq!(&ours.to_string(), &text);
        prop_assert_eq!(&format!("{ours:#}"), &format!("{theirs:#}"));
        prop_assert_eq!(&to_value(&theirs).unwrap(), &ours);
        let (again, theirs_again): (Value, serde_json::Value) = (
            serde_json::from_str(&text).unwrap(),
            serde_json::from_str(&text).unwrap(),
        );
        prop_assert_eq!(&again, &ours);
        prop_assert_eq!(serde_json::Value::from(again), theirs_again);
        prop_assert_eq!(serde_json::Value::from(ours), theirs);
    }

    #[test]
    fn a_pointer_leads_where_it_leads_in_serde_json(theirs in tree(), pointer in "(/[a-f~01]{0,2}){0,3}|a") {
        let mut ours = Value::from(theirs.clone());
        prop_assert_eq!(ours.pointer(&pointer).map(ToString::to_string), theirs.pointer(&pointer).map(ToString::to_string));
        let there = ours.pointer(&pointer).cloned();
        prop_assert_eq!(ours.pointer_mut(&pointer).cloned(), there);
    }

    /// Compares with a map of the standard library under any operations.
    #[test]
    fn an_object_is_a_map_in_order(steps in prop::collection::vec((0..8u8, "[a-m]{1,2}", any::<u8>()), 0..60)) {
        let (mut ours, mut model) = (Map::new(), BTreeMap::<String, u8>::new());
        for (step, name, value) in steps {
            let key = name.as_str();
            let put = |old: Option<u8>| old.map(Value::from);
            match step {
                0 | 1 => prop_assert_eq!(ours.insert(key, value.into()), put(model.insert(key.to_owned(), value))),
                2 => prop_assert_eq!(ours.remove(&name), put(model.remove(&name))),
                3 => {
                    let there = ours.entry(name.as_str()).or_insert(value.into()).clone();
                    prop_assert_eq!(there, *model.entry(name).or_insert(value));
                }
                4 => {
                    ours.retain(|_, v| *v != value);
                    model.retain(|_, v| *v != value);
                }
                5 => {
                    ours.extend([(name.as_str(), Value::from(value)), ("m", value.into())]);
                    model.extend([(name, value), ("m".to_owned(), value)]);
                }
                6 => {
                    let many: Vec<String> = ('a'..='m').step_by(1 + usize::from(value % 4)).map(|c| c.to_string()).collect();
                    ours.append(&mut many.iter().map(|name| (name.as_str(), value.into())).collect());
                    model.extend(many.into_iter().map(|name| (name, value)));
                }
                _ => {
                    let many: Vec<String> = ('a'..='m').step_by(1 + usize::from(value % 4)).map(|c| c.to_string()).collect();
                    ours.remove_all(&many.iter().map(Into::into).collect());
                    model.retain(|name, _| !many.contains(name));
                }
            }
            prop_assert!(ours.iter().map(|(k, v)| (k.to_string(), v.clone())).eq(model.iter().map(|(k, v)| (k.clone(), (*v).into()))));
            for name in ["a", "c", "m", "mm"] {
                prop_assert_eq!(ours.get(name).cloned(), put(model.get(name).copied()));
            }
        }
    }
}

#[test]
fn of_members_with_one_name_the_last_stays() {
    let read: Value = serde_json::from_str(r#"{"b": 1, "a": 2, "b": 3, "a": 4, "b": 5}"#).unwrap();
    assert_eq!(read.to_string(), r#"{"a":4,"b":5}"#);
    assert_eq!(Map::from_iter([("a", json!(1)), ("a", json!(2))])["a"], 2);
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(serde_json::from_str::<Value>(&deep).unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn the_macro_builds_the_same_value() {
    let name = String::from("n");
    let none: Option<u8> = None;
    let ours = json!({
        "null": null, "list": [null, {"a": [1, -2, 2.5]}, [], {}, name.len() + 1, "x"], (name.clone()): none, "text": &name,
        "expression": if name.is_empty() { "empty" } else { "full" }, "map": BTreeMap::from([("k", true)]),
    });
    let theirs = serde_json::json!({
        "null": null, "list": [null, {"a": [1, -2, 2.5]}, [], {}, 2, "x"], "n": null, "text": "n",
        "expression": "full", "map": {"k": true},
    });
    assert_eq!(serde_json::Value::from(ours), theirs);
    assert_eq!((json!(null), json!([]), json!({})), (Value::Null, Value::Array(vec![]), Value::Object(Map::new())));
}

#[test]
fn an_index_reads_null_where_nothing_is_and_makes_members() {
    let mut value = json!({"a": [{"b": 1}]});
    assert_eq!(value["a"][0]["b"], 1);
    assert!(value["x"]["y"][7].is_null() && value["a"]["b"].is_null());
    value["n"]["m"] = json!("text");
    assert_eq!(value["n"]["m"], "text");
}

#[test]
fn typed_values_go_through_it_unchanged() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Unit,
        One(u8),
        Two(u8, String),
        Named { a: i64 },
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Typed {
        shapes: Vec<Shape>,
        map: BTreeMap<u8, Option<f32>>,
        pair: (char, ()),
    }
    let typed = Typed {
        shapes: vec![Shape::Unit, Shape::One(1), Shape::Two(2, "b".to_owned()), Shape::Named { a: -1 }],
        map: BTreeMap::from([(1, None), (2, Some(0.5))]),
        pair: ('c', ()),
    };
    let tree = to_value(&typed).unwrap();
    assert_eq!(tree.to_string(), serde_json::to_value(&typed).unwrap().to_string());
    assert_eq!(from_value::<Typed>(tree).unwrap(), typed);
    assert!(to_value(&BTreeMap::from([(vec![1], 1)])).is_err());
}
