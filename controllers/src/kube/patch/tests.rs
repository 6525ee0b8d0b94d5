//! Cases of upstream's tables (`strategicpatch/patch_test.go`, `evanphx/json-patch`), and patches of the kinds used
//! here.

use std::collections::BTreeSet;

use fake_apiserver::kinds::{self, schema};
use fake_apiserver::patch::{PatchKind, apply};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use proptest::prelude::*;
use rstest::rstest;
use substrate::json::{Map, from_value, json};

use super::types::{Field, List, Type, Unset};
use super::*;

static ITEM_TYPE: Type =
    Type { name: "item", fields: &[list("mergingList", List::By { key: "name", retain_keys: false }, &INNER_TYPE)] };
static INNER_TYPE: Type = Type { name: "inner item", fields: &[] };
static MERGE_ITEM: Type = Type {
    name: "merge item",
    fields: &[
        list("mergingList", List::By { key: "name", retain_keys: false }, &ITEM_TYPE),
        list("retainKeysMergingList", List::By { key: "name", retain_keys: true }, &ITEM_TYPE),
        Field { list: List::Set, ..field("mergingIntList") },
    ],
};

const fn field(name: &'static str) -> Field {
    Field { name, list: List::Replace, unset: Unset::Absent, of: None }
}

const fn list(name: &'static str, list: List, of: &'static Type) -> Field {
    Field { list, of: Some(of), ..field(name) }
}

fn map(value: Value) -> Map {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

#[rstest]
#[case::nothing_changes(json!({ "name": "1" }), json!({ "name": "1" }), json!({}))]
#[case::a_field_is_added(json!({ "name": "1" }), json!({ "name": "1", "value": 1 }), json!({ "value": 1 }))]
#[case::a_field_is_added_and_one_goes(json!({ "name": "1" }), json!({ "value": 1 }), json!({ "name": null, "value": 1 }))]
#[case::a_field_of_a_nested_map_goes(
    json!({ "simpleMap": { "key1": 1, "key2": 1 } }),
    json!({ "simpleMap": { "key1": 1 } }),
    json!({ "simpleMap": { "key2": null } }),
)]
#[case::a_type_changes(json!({ "a": [1] }), json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1 } }))]
#[case::a_list_without_strategy_is_replaced(
    json!({ "nonMergingList": [1, 2] }),
    json!({ "nonMergingList": [2, 3] }),
    json!({ "nonMergingList": [2, 3] }),
)]
#[case::scalars_go(
    json!({ "mergingIntList": [1, 2, 3] }),
    json!({ "mergingIntList": [1, 2] }),
    json!({ "$setElementOrder/mergingIntList": [1, 2], "$deleteFromPrimitiveList/mergingIntList": [3] }),
)]
#[case::scalars_come_and_go(
    json!({ "mergingIntList": [1, 2, 3] }),
    json!({ "mergingIntList": [1, 2, 4] }),
    json!({
        "$setElementOrder/mergingIntList": [1, 2, 4],
        "$deleteFromPrimitiveList/mergingIntList": [3],
        "mergingIntList": [4],
    }),
)]
#[case::all_scalars_go(
    json!({ "mergingIntList": [1, 2] }),
    json!({ "mergingIntList": [] }),
    json!({ "mergingIntList": null }),
)]
#[case::the_first_scalar_comes(json!({}), json!({ "mergingIntList": [1] }), json!({ "mergingIntList": [1] }))]
#[case::scalars_change_places(
    json!({ "mergingIntList": [1, 2, 3] }),
    json!({ "mergingIntList": [3, 1, 2] }),
    json!({ "$setElementOrder/mergingIntList": [3, 1, 2] }),
)]
#[case::an_entry_comes(
    json!({ "mergingList": [{ "name": 1 }] }),
    json!({ "mergingList": [{ "name": 2, "value": 2 }, { "name": 1 }] }),
    json!({
        "$setElementOrder/mergingList": [{ "name": 2 }, { "name": 1 }],
        "mergingList": [{ "name": 2, "value": 2 }],
    }),
)]
#[case::the_first_entry_comes(
    json!({ "mergingList": [] }),
    json!({ "mergingList": [{ "name": 1 }] }),
    json!({ "mergingList": [{ "name": 1 }] }),
)]
#[case::an_entry_goes_and_the_order_changes(
    json!({ "mergingList": [{ "name": 1 }, { "name": 3, "value": 3 }, { "name": 2, "value": 2 }] }),
    json!({ "mergingList": [{ "name": 2, "value": 2 }, { "name": 1 }] }),
    json!({
        "$setElementOrder/mergingList": [{ "name": 2 }, { "name": 1 }],
        "mergingList": [{ "name": 3, "$patch": "delete" }],
    }),
)]
#[case::an_entry_comes_and_one_goes(
    json!({ "mergingList": [{ "name": 1 }, { "name": 3, "value": 3 }, { "name": 2, "value": 2 }] }),
    json!({ "mergingList": [{ "name": 4, "value": 4 }, { "name": 2, "value": 2 }, { "name": 1 }] }),
    json!({
        "$setElementOrder/mergingList": [{ "name": 4 }, { "name": 2 }, { "name": 1 }],
        "mergingList": [{ "name": 4, "value": 4 }, { "name": 3, "$patch": "delete" }],
    }),
)]
#[case::entries_change_places(
    json!({ "mergingList": [{ "name": 1 }, { "name": 3, "value": 3 }, { "name": 2 }] }),
    json!({ "mergingList": [{ "name": 2 }, { "name": 3, "value": 3 }, { "name": 1 }] }),
    json!({ "$setElementOrder/mergingList": [{ "name": 2 }, { "name": 3 }, { "name": 1 }] }),
)]
#[case::a_field_of_an_entry_goes(
    json!({ "mergingList": [{ "name": 1 }, { "name": 2, "value": 2, "other": "x" }] }),
    json!({ "mergingList": [{ "name": 1 }, { "name": 2, "value": 2 }] }),
    json!({
        "$setElementOrder/mergingList": [{ "name": 1 }, { "name": 2 }],
        "mergingList": [{ "name": 2, "other": null }],
    }),
)]
#[case::a_list_within_an_entry_merges(
    json!({ "mergingList": [{ "name": 1, "mergingList": [{ "name": 1 }, { "name": 2, "value": 2 }] }] }),
    json!({ "mergingList": [{ "name": 1, "mergingList": [{ "name": 1, "value": 1 }, { "name": 2, "value": 2 }] }] }),
    json!({
        "$setElementOrder/mergingList": [{ "name": 1 }],
        "mergingList": [{
            "name": 1,
            "$setElementOrder/mergingList": [{ "name": 1 }, { "name": 2 }],
            "mergingList": [{ "name": 1, "value": 1 }],
        }],
    }),
)]
#[case::retain_keys_of_a_changed_entry(
    json!({ "retainKeysMergingList": [{ "name": "bar" }, { "name": "foo", "value": "old" }] }),
    json!({ "retainKeysMergingList": [{ "name": "bar" }, { "name": "foo", "value": "new" }] }),
    json!({
        "$setElementOrder/retainKeysMergingList": [{ "name": "bar" }, { "name": "foo" }],
        "retainKeysMergingList": [{ "$retainKeys": ["name", "value"], "name": "foo", "value": "new" }],
    }),
)]
#[case::retain_keys_of_an_entry_that_loses_a_field(
    json!({ "retainKeysMergingList": [{ "name": "bar" }, { "name": "foo", "value": "a" }] }),
    json!({ "retainKeysMergingList": [{ "name": "bar" }, { "name": "foo" }] }),
    json!({
        "$setElementOrder/retainKeysMergingList": [{ "name": "bar" }, { "name": "foo" }],
        "retainKeysMergingList": [{ "$retainKeys": ["name"], "name": "foo", "value": null }],
    }),
)]
fn a_strategic_merge_patch_is_what_go_makes(#[case] old: Value, #[case] new: Value, #[case] expected: Value) {
    let patch = strategic::between(&map(old), map(new), Some(&MERGE_ITEM)).expect("keys");
    assert_eq!(Value::Object(patch), expected);
}

#[test]
fn an_entry_without_its_key_is_refused() {
    let old = map(json!({ "mergingList": [{ "name": 1 }] }));
    let new = map(json!({ "mergingList": [{ "value": 2 }] }));
    let error = strategic::between(&old, new, Some(&MERGE_ITEM)).expect_err("no key");
    assert_eq!(
        error.to_string(),
        "mergingList: an entry has no name: set it, entries of this list are told apart by it"
    );
}

#[rstest]
#[case::a_text(json!({ "title": "hello" }), json!({ "title": "goodbye" }), json!({ "title": "goodbye" }))]
#[case::a_list_is_one_value(json!({ "a": [1, 2, 3] }), json!({ "a": [1, 2] }), json!({ "a": [1, 2] }))]
#[case::another_order_is_another_list(json!({ "a": [1, 2] }), json!({ "a": [2, 1] }), json!({ "a": [2, 1] }))]
#[case::a_nested_member_goes(json!({ "a": { "b": 1, "c": 2 } }), json!({ "a": { "b": 1 } }), json!({ "a": { "c": null } }))]
#[case::null_to_null(json!({ "a": null }), json!({ "a": null }), json!({}))]
#[case::a_type_changes(json!({ "a": "1" }), json!({ "a": 1 }), json!({ "a": 1 }))]
#[case::equal(json!({ "a": { "b": [{ "c": 1 }] } }), json!({ "a": { "b": [{ "c": 1 }] } }), json!({}))]
fn a_merge_patch_is_what_go_makes(#[case] old: Value, #[case] new: Value, #[case] expected: Value) {
    assert_eq!(Value::Object(merge::between(&map(old), map(new), None)), expected);
}

fn object<K: Kind>(value: Value) -> K {
    from_value(value).expect("an object")
}

fn pod(conditions: Value) -> Pod {
    object(json!({
        "metadata": { "name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7" },
        "spec": { "containers": [{ "name": "c" }] },
        "status": { "phase": "Running", "conditions": conditions },
    }))
}

#[test]
fn a_new_condition_comes_with_the_nulls_of_its_go_type() {
    let ready = json!({ "type": "Ready", "status": "True" });
    let old = pod(json!([ready.clone()]));
    let new = pod(json!([ready, { "type": "DisruptionTarget", "status": "True", "reason": "r" }]));
    let patch = Patch::strategic(&old, &new).expect("a patch").guarded(&old, Guard::Uid);
    let expected = json!({
        "metadata": { "uid": "u" },
        "status": {
            "$setElementOrder/conditions": [{ "type": "Ready" }, { "type": "DisruptionTarget" }],
            "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "r",
                "lastProbeTime": null,
                "lastTransitionTime": null,
            }],
        },
    });
    assert_eq!(patch.content(), ("application/strategic-merge-patch+json", expected));
}

#[test]
fn a_guard_is_no_change() {
    let patch = Patch::strategic(&pod(json!([])), &pod(json!([]))).expect("a patch");
    assert!(patch.is_empty());
    let guarded = patch.guarded(&pod(json!([])), Guard::ResourceVersion);
    assert_eq!(guarded.value(), &json!({ "metadata": { "resourceVersion": "7" } }));
}

#[test]
fn an_empty_omitempty_field_is_null_in_a_patch() {
    let node = |attached: Value, annotations: Value| -> Node {
        let metadata = json!({ "name": "n", "annotations": annotations, "finalizers": [] });
        object(json!({ "metadata": metadata, "status": { "volumesAttached": attached } }))
    };
    let old = node(json!([{ "name": "v", "devicePath": "" }]), json!({ "a": "b" }));
    let patch = Patch::strategic(&old, &node(json!([]), json!({}))).expect("a patch");
    let expected = json!({ "metadata": { "annotations": null }, "status": { "volumesAttached": null } });
    assert_eq!(patch.value(), &expected);
}

#[test]
fn a_finalizer_that_goes_is_named() {
    let volume = |finalizers: Value| -> PersistentVolume {
        object(json!({ "metadata": { "name": "v", "finalizers": finalizers } }))
    };
    let (old, new) = (volume(json!(["a", "b"])), volume(json!(["b"])));
    let patch = Patch::strategic(&old, &new).expect("a patch");
    let expected = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": ["a"],
        "$setElementOrder/finalizers": ["b"],
    } });
    assert_eq!(patch.value(), &expected);
    let patch = Patch::merge(&old, &new).expect("a patch");
    assert_eq!(patch.value(), &json!({ "metadata": { "finalizers": ["b"] } }));
}

#[test]
fn an_error_that_is_gone_is_null_and_one_that_never_was_is_not_named() {
    let attachment = |status: Value| -> VolumeAttachment {
        let spec = json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "v" } });
        object(json!({ "metadata": { "name": "a" }, "spec": spec, "status": status }))
    };
    let attached = attachment(json!({ "attached": true, "attachmentMetadata": {} }));
    let patch = Patch::merge(&attachment(json!({ "attached": false })), &attached).expect("a patch");
    assert_eq!(patch.value(), &json!({ "status": { "attached": true } }));
    let failed = attachment(json!({ "attached": false, "attachError": { "message": "m" } }));
    let patch = Patch::merge(&failed, &attached).expect("a patch");
    assert_eq!(patch.value(), &json!({ "status": { "attached": true, "attachError": null } }));
}

#[test]
fn a_repeated_event_is_patched_with_its_count() {
    let event = |count: i32, last: &str| -> Event {
        object(json!({
            "metadata": { "name": "e", "namespace": "default" },
            "involvedObject": { "name": "p" },
            "count": count,
            "lastTimestamp": last,
        }))
    };
    let patch = Patch::strategic(&event(1, "2026-01-01T00:00:00Z"), &event(2, "2026-01-01T00:00:09Z"));
    assert_eq!(patch.expect("a patch").value(), &json!({ "count": 2, "lastTimestamp": "2026-01-01T00:00:09Z" }));
}

#[test]
fn the_operations_of_a_json_patch_are_in_its_order() {
    let path = "/metadata/finalizers/0".to_owned();
    let test = Operation::Test { path: path.clone(), value: "f".into() };
    let patch = Patch::json(&[test, Operation::Remove { path }]);
    let expected = json!([
        { "op": "test", "path": "/metadata/finalizers/0", "value": "f" },
        { "op": "remove", "path": "/metadata/finalizers/0" },
    ]);
    assert_eq!(patch.content(), ("application/json-patch+json", expected));
    let guarded = patch.guarded(&pod(json!([])), Guard::Uid);
    assert_eq!(guarded.value()[0], json!({ "op": "test", "path": "/metadata/uid", "value": "u" }));
}

/// Collects the types of the table, from its kinds downward.
fn table() -> Vec<&'static Type> {
    let roots = [
        Pod::TYPE,
        Node::TYPE,
        PersistentVolume::TYPE,
        PersistentVolumeClaim::TYPE,
        VolumeAttachment::TYPE,
        Event::TYPE,
        k8s_openapi::api::events::v1::Event::TYPE,
        k8s_openapi::api::coordination::v1::Lease::TYPE,
    ];
    let mut all: Vec<&Type> = roots.into_iter().flatten().collect();
    let mut at = 0;
    while let Some(of) = all.get(at).copied() {
        for below in of.fields.iter().filter_map(|field| field.of) {
            if !all.iter().any(|known| known.name == below.name) {
                all.push(below);
            }
        }
        at += 1;
    }
    all
}

#[test]
fn the_table_says_what_the_api_server_knows_of_go() {
    let mut lists = 0;
    for of in table() {
        let server = schema::find(of.name).unwrap_or_else(|| panic!("{} is not a type of the server", of.name));
        let known: BTreeSet<&str> = server.fields.iter().map(|field| field.name.as_str()).collect();
        for field in of.fields {
            assert!(known.contains(field.name), "{}.{} is not a field", of.name, field.name);
        }
        for field in &server.fields {
            let ours = of.field(&field.name);
            let expected = match (field.merge, field.merge_key) {
                (false, _) => List::Replace,
                (true, None) => List::Set,
                (true, Some(key)) => List::By { key, retain_keys: field.retain_keys },
            };
            assert_eq!(ours.map_or(List::Replace, |f| f.list), expected, "{}.{}", of.name, field.name);
            lists += usize::from(field.merge);
            let ours = ours.map_or(Unset::Absent, |f| f.unset);
            // k8s-openapi types always write their mandatory scalars and objects.
            let list = matches!(field.shape, schema::Shape::List(_));
            match field.unset {
                None => assert_eq!(ours, Unset::Absent, "{}.{}", of.name, field.name),
                Some(_) if list => assert_eq!(ours, Unset::Always, "{}.{}", of.name, field.name),
                Some(schema::Unset::Null) => assert_eq!(ours, Unset::Null, "{}.{}", of.name, field.name),
                Some(schema::Unset::Zero) => {
                    assert!(matches!(ours, Unset::Absent | Unset::Empty), "{}.{}", of.name, field.name);
                }
            }
        }
    }
    assert!(lists > 20, "{lists} lists that merge");
}

fn texts(of: &'static str, most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set(of, 0..most).prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle()
}

fn status() -> impl Strategy<Value = Value> {
    let condition = ("[a-e]", "(True|False)", prop::option::of("[xy]"), prop::option::of(0..3_i64));
    let conditions = prop::collection::vec(condition, 0..5).prop_map(|all| {
        let mut seen = BTreeSet::new();
        let of = |(kind, status, reason, at): (String, String, Option<String>, Option<i64>)| {
            let at = at.map(|at| format!("2026-01-01T00:00:0{at}Z"));
            let value = json!({ "type": kind, "status": status });
            let mut members = map(value);
            members.extend(reason.map(|reason| ("reason", reason.into())));
            members.extend(at.map(|at| ("lastTransitionTime", at.into())));
            Value::Object(members)
        };
        all.into_iter().filter(|(kind, ..)| seen.insert(kind.clone())).map(of).collect::<Value>()
    });
    (conditions, texts("[a-d]", 4), prop::option::of("(Running|Failed)")).prop_map(|(conditions, finalizers, phase)| {
        let mut status = map(json!({ "conditions": conditions }));
        status.extend(phase.map(|phase| ("phase", phase.into())));
        let metadata = json!({ "name": "p", "uid": "u", "finalizers": finalizers });
        json!({ "metadata": metadata, "spec": { "containers": [] }, "status": status })
    })
}

proptest! {
    #[test]
    fn the_server_makes_the_new_object_of_the_old_one_and_the_patch(old in status(), new in status()) {
        let (old, new) = (object::<Pod>(old), object::<Pod>(new));
        let server = kinds::find("", "v1", "pods").expect("pods");
        let tree = |pod: &Pod| substrate::json::to_value(pod).expect("a pod");
        for (kind, patch) in [
            (PatchKind::Strategic, Patch::strategic(&old, &new)),
            (PatchKind::Merge, Patch::merge(&old, &new)),
        ] {
            let patch = patch.expect("a patch");
            let patched = apply(server, kind, patch.value().clone(), &tree(&old)).expect("applied");
            let patched = object::<Pod>(patched);
            let rest = Patch::strategic(&patched, &new).expect("a patch");
            prop_assert!(rest.is_empty(), "{} leaves {}", patch.value(), rest.value());
        }
    }
}
