//! Go's zero values for unset fields, in a server that keeps objects as a real one does.

use super::*;

fn machine() -> Machine {
    let mut m = Machine::new();
    m.store.track_managers();
    m
}

fn csi_node() -> Value {
    json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "i"}]}})
}

fn event() -> Value {
    json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R"})
}

#[test]
fn a_write_that_changes_nothing_is_none_with_or_without_what_is_not_set() {
    for (plural, object) in [
        ("pods", pod("p")),
        ("csinodes", csi_node()),
        ("events", event()),
        ("persistentvolumeclaims", claim("c")),
        ("persistentvolumes", volume("v")),
        ("volumeattachments", attachment("a")),
        ("storageclasses", class("s")),
        ("clusterroles", json!({"metadata": {"name": "r"}})),
        ("leases", json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "n"}})),
        ("nodes", json!({"metadata": {"name": "n"}})),
    ] {
        let mut m = machine();
        m.commits();
        let made = m.create(plural, object.clone()).unwrap();
        let name = value::name(&made).to_owned();
        assert_eq!(m.commits().len(), 1, "{plural}");
        assert_eq!(m.get(plural, &name).as_ref(), Some(&made), "{plural}: the answer is what is kept");
        let mut bare = made.clone();
        fake_apiserver::state::shape::decode_strictly(kind(plural), &mut bare).unwrap();
        for sent in [made.clone(), bare] {
            assert_eq!(m.put(plural, sent, Part::Main).unwrap(), made, "{plural}");
        }
        assert_eq!(m.patch(plural, &name, Part::Main, json!({"metadata": {"labels": null}})).unwrap(), made);
        assert_eq!(m.commits(), Vec::<String>::new(), "{plural}");
        let marked = m.patch(plural, &name, Part::Main, json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        assert_eq!(
            (m.commits().len(), marked["metadata"]["generation"].as_i64()),
            (1, made["metadata"]["generation"].as_i64()),
            "{plural}"
        );
    }
}

#[test]
fn an_unset_field_can_be_set_by_any_patch() {
    let mut m = machine();
    let made = m.create("clusterroles", json!({"metadata": {"name": "r"}})).unwrap();
    assert!(made.as_object().unwrap().contains_key("rules") && made["rules"].is_null());
    let rules = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
    for patch_kind in [PatchKind::Merge, PatchKind::Strategic] {
        let target = Machine::target("clusterroles", "r", Part::Main);
        let patch = |patch: &Value| Command::Patch {
            target: target.clone(),
            patch_kind,
            patch: patch.clone(),
            options: WriteOptions::default(),
        };
        assert_eq!(Machine::answer(m.apply(patch(&rules)).unwrap())["rules"], rules["rules"]);
        assert!(Machine::answer(m.apply(patch(&json!({"rules": null}))).unwrap())["rules"].is_null());
    }
    m.create("events", event()).unwrap();
    let reported =
        m.patch("events", "e", Part::Main, json!({"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"})).unwrap();
    assert_eq!((&reported["lastTimestamp"], &reported["eventTime"]), (&json!("2026-01-01T00:00:00Z"), &Value::Null));
}
