use substrate::json::json;

use super::*;

#[test]
fn revisions_come_from_one_counter_without_gaps() {
    let mut m = Machine::new();
    let first = m.store.revision();
    for (i, plural, object) in [(1, "configmaps", config("a")), (2, "nodes", json!({"metadata": {"name": "n"}}))] {
        let object = m.create(plural, object).unwrap();
        assert_eq!(object["metadata"]["resourceVersion"], (first + i).to_string());
    }
}

#[test]
fn only_the_server_sets_system_fields() {
    let mut m = Machine::new();
    m.now = Duration::from_millis(90_500);
    let sent = json!({"metadata": {"name": "n", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "generation": 7}});
    let node = m.create("nodes", sent).unwrap();
    assert_eq!(node["metadata"]["creationTimestamp"], "2026-01-01T00:01:30Z");
    assert_ne!(node["metadata"]["uid"], "mine");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        assert!(node["metadata"].get(field).is_none(), "{field}");
    }
}

#[test]
fn the_same_seed_gives_the_same_names_and_uids() {
    let run = || {
        let mut m = Machine::new();
        m.create("pods", json!({"metadata": {"generateName": "p-"}, "spec": pod("")["spec"]})).unwrap()
    };
    assert_eq!(run(), run());
    let name = value::name(&run()).to_owned();
    assert!(name.starts_with("p-") && name.len() == 7, "{name}");
}

#[test]
fn a_long_generate_name_is_cut() {
    let mut m = Machine::new();
    let object = json!({"metadata": {"generateName": "a".repeat(80)}});
    assert_eq!(value::name(&m.create("configmaps", object).unwrap()).len(), 63);
}

#[test]
fn a_name_is_taken_once() {
    let mut m = Machine::new();
    m.create("storageclasses", class("gp3")).unwrap();
    let status = m.create("storageclasses", class("gp3")).unwrap_err();
    assert_eq!((status.code, status.reason), (409, "AlreadyExists"));
    assert_eq!(status.message, "storageclasses.storage.k8s.io \"gp3\" already exists");
}

#[test]
fn a_dry_run_leaves_nothing() {
    let mut m = Machine::new();
    let before = m.store.revision();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let command = Command::Create { kind: kind("storageclasses").into(), namespace: None, object: class("c"), options };
    let object = Machine::answer(m.apply(command).unwrap());
    assert_eq!(object["reclaimPolicy"], "Delete");
    assert!(object["metadata"].get("resourceVersion").is_none());
    assert_eq!((m.store.revision(), m.get("storageclasses", "c")), (before, None));
}

#[test]
fn bad_bodies_are_refused_with_the_field_named() {
    let mut m = Machine::new();
    for (plural, object, code, part) in [
        ("pods", json!([]), 400, "cannot unmarshal array"),
        (
            "pods",
            json!({"metadata": {"name": "p", "labels": {"a": 1}}}),
            400,
            "struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "pods",
            json!({"kind": "Node", "metadata": {"name": "p"}}),
            400,
            "converting (v1.Node) to (core.Pod): unknown conversion",
        ),
        ("pods", json!({"metadata": {"name": "p", "namespace": "other"}}), 400, "namespace"),
        ("pods", json!({"metadata": {"name": "p"}}), 422, "spec.containers: Required value"),
        ("pods", json!({"spec": {}}), 422, "metadata.name: Required value: name or generateName is required"),
        ("configmaps", config("A_b"), 422, "metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain"),
        ("csistoragecapacities", config("#%123-invalid-name"), 422, "metadata.name"),
        ("storageclasses", json!({"metadata": {"name": "c"}}), 422, "provisioner: Required value"),
        ("volumeattachments", json!({"metadata": {"name": "v"}, "spec": {}}), 422, "spec.attacher: Required value"),
        (
            "persistentvolumes",
            json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["X"],
            "capacity": {"storage": "1"}}}),
            422,
            "spec.accessModes: Unsupported value: \"X\": supported values:",
        ),
        (
            "persistentvolumeclaims",
            json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1 Gi"}}}}),
            400,
            "quantities must match",
        ),
        ("configmaps", json!({"metadata": {"name": "c", "finalizers": ["x"]}}), 422, "neither a standard finalizer"),
        ("configmaps", json!({"metadata": {"name": "c", "resourceVersion": "1"}}), 500, "should not be set"),
    ] {
        let before = m.store.revision();
        let status = m.create(plural, object).unwrap_err();
        assert_eq!(status.code, code, "{plural}: {}", status.message);
        assert!(status.message.contains(part), "{plural}: {}", status.message);
        assert_eq!(m.store.revision(), before);
    }
}

#[test]
fn unknown_fields_are_dropped_or_in_strict_mode_refused() {
    let mut m = Machine::new();
    let mut object = class("c");
    object["parametres"] = json!({"a": "b"});
    let options = WriteOptions { fields: FieldValidation::Strict, ..WriteOptions::default() };
    let create = |options| Command::Create {
        kind: kind("storageclasses").into(),
        namespace: None,
        object: object.clone(),
        options,
    };
    let status = m.apply(create(options)).unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains("strict decoding error: unknown field \"parametres\""), "{}", status.message);
    let stored = Machine::answer(m.apply(create(WriteOptions::default())).unwrap());
    assert!(stored.get("parametres").is_none());
}

#[test]
fn defaults_are_those_that_controllers_rely_on() {
    let mut m = Machine::new();
    let at = |object: &Value, pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    for (plural, object, expected) in [
        (
            "persistentvolumes",
            volume("v"),
            vec![
                ("/spec/persistentVolumeReclaimPolicy", json!("Retain")),
                ("/spec/volumeMode", json!("Filesystem")),
                ("/status/phase", json!("Pending")),
                ("/status/lastPhaseTransitionTime", json!("2026-01-01T00:00:00Z")),
                ("/metadata/finalizers", json!(["kubernetes.io/pv-protection"])),
            ],
        ),
        (
            "persistentvolumeclaims",
            claim("c"),
            vec![
                ("/spec/volumeMode", json!("Filesystem")),
                ("/status/phase", json!("Pending")),
                ("/metadata/finalizers", json!(["kubernetes.io/pvc-protection"])),
            ],
        ),
        (
            "storageclasses",
            class("c"),
            vec![("/reclaimPolicy", json!("Delete")), ("/volumeBindingMode", json!("Immediate"))],
        ),
        (
            "csidrivers",
            json!({"metadata": {"name": "d"}, "spec": {}}),
            vec![
                ("/spec/attachRequired", json!(true)),
                ("/spec/volumeLifecycleModes", json!(["Persistent"])),
                ("/spec/fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
            ],
        ),
        ("volumeattachments", attachment("a"), vec![("/status/attached", json!(false))]),
        (
            "nodes",
            json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}),
            vec![
                ("/status/allocatable/cpu", json!("2")),
                ("/spec/taints", json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])),
            ],
        ),
        (
            "namespaces",
            json!({"metadata": {"name": "x"}}),
            vec![
                ("/status/phase", json!("Active")),
                ("/spec/finalizers", json!(["kubernetes"])),
                ("/metadata/labels/kubernetes.io~1metadata.name", json!("x")),
            ],
        ),
        ("secrets", json!({"metadata": {"name": "s"}}), vec![("/type", json!("Opaque"))]),
        (
            "pods",
            pod("p"),
            vec![
                ("/status", json!({"phase": "Pending", "qosClass": "BestEffort"})),
                ("/spec/serviceAccountName", json!("default")),
                ("/spec/terminationGracePeriodSeconds", json!(30)),
                ("/metadata/generation", json!(1)),
            ],
        ),
    ] {
        let object = m.create(plural, object).unwrap();
        for (pointer, value) in expected {
            assert_eq!(at(&object, pointer), value, "{plural} {pointer}");
        }
    }
}

#[test]
fn an_event_ends_an_hour_after_its_last_write() {
    // Compaction is off, so nothing else is due.
    let mut m = Machine::with(Limits { compaction: Duration::ZERO, ..Limits::default() });
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "name": "p"}});
    m.create("events", event).unwrap();
    m.now = Duration::from_secs(1800);
    m.patch("events", "e", Part::Main, json!({"count": 2})).unwrap();
    m.now = Duration::from_secs(3600);
    m.store.tick(Now::at(m.now));
    assert!(m.get("events", "e").is_some());
    m.now = Duration::from_secs(5400);
    assert_eq!(m.store.next_deadline(), Some(m.now));
    m.store.tick(Now::at(m.now));
    assert!(m.get("events", "e").is_none());
}

#[test]
fn an_update_does_not_warn_of_old_content() {
    let mut m = Machine::new();
    let mut old = class("c");
    old["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "beta.kubernetes.io/arch", "values": ["arm64"]}]}]);
    m.create("storageclasses", old.clone()).unwrap();
    m.create("configmaps", config("a")).unwrap();
    assert_eq!(m.store.take_warnings(), Vec::<String>::new());
    old["metadata"]["name"] = "d".into();
    m.create("storageclasses", old).unwrap();
    assert_eq!(m.store.take_warnings().len(), 1);
}
