//! No input makes the machine panic, and invalid objects are not stored.

use fake_apiserver::state::selector::Selector;
use fake_apiserver::state::{ListOptions, Version};
use proptest::prelude::*;
use substrate::json::json;

use super::*;

/// Generates JSON with keys of real objects.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9:./ -]{0,12}".prop_map(Value::from),
        Just(json!("2026-01-01T00:00:00Z")),
        Just(json!("1Gi")),
    ];
    let key = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("status"),
        Just("name"),
        Just("finalizers"),
        Just("labels"),
        Just("containers"),
        Just("volumes"),
        Just("tolerations"),
        Just("resources"),
        Just("requests"),
        Just("storage"),
        Just("drivers"),
        Just("conditions"),
        Just("csi"),
        Just("capacity"),
        Just("accessModes"),
        Just("deletionTimestamp"),
        Just("ownerReferences"),
        Just("nodeAffinity"),
        Just("phase"),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

fn any_kind() -> impl Strategy<Value = &'static Kind> {
    (0..kinds::all().len()).prop_map(|i| &kinds::all()[i])
}

proptest! {
    #[test]
    fn any_body_is_stored_or_refused(kind in any_kind(), sent in tree(), patch in tree(), status in any::<bool>()) {
        let mut m = Machine::new();
        let namespace = kind.namespaced.then(|| "default".to_owned());
        let mut named = sent.clone();
        if let Some(metadata) = named.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("name", "x".into());
        }
        for object in [sent, named, config("x"), pod("x"), volume("x"), claim("x")] {
            let create = Command::Create { kind: kind.into(), namespace: namespace.clone(), object, options: WriteOptions::default() };
            let before = m.store.revision();
            match m.apply(create) {
                Ok(_) => prop_assert!(m.store.revision() > before),
                Err(_) => prop_assert_eq!(m.store.revision(), before),
            }
        }
        let part = if status { Part::Status } else { Part::Main };
        let target = Target { kind: kind.into(), namespace, name: "x".to_owned(), part };
        for patch_kind in [PatchKind::Merge, PatchKind::Strategic, PatchKind::Json] {
            let options = WriteOptions::default();
            drop(m.apply(Command::Patch { target: target.clone(), patch_kind, patch: patch.clone(), options }));
        }
        drop(m.apply(Command::Update { target: target.clone(), object: patch.clone(), options: WriteOptions::default() }));
        drop(m.apply(Command::Bind { namespace: "default".into(), name: "x".into(), binding: patch.clone(), dry_run: false }));
        drop(m.apply(Command::Evict { namespace: "default".into(), name: "x".into(), eviction: patch.clone(), dry_run: true }));
        drop(m.apply(Command::Delete { target, options: DeleteOptions::parse(&patch).unwrap_or_default() }));
    }

    #[test]
    fn any_selector_token_or_version_is_read_or_refused(
        kind in any_kind(), labels in "[a-z!=<>(), ./]{0,20}|\\PC{0,20}", fields in "[a-zA-Z.!=,\\\\]{0,30}|\\PC{0,20}",
        token in "[A-Za-z0-9_-]{0,60}|\\PC{0,20}", version in "[0-9]{0,50}|\\PC{0,10}",
    ) {
        let m = Machine::new();
        let selector = Selector::parse(kind, &labels, &fields);
        prop_assert!(selector.as_ref().map_or_else(|e| e.code == 400, |_| true));
        let options = ListOptions { token, limit: 1, ..ListOptions::default() };
        if let Err(status) = m.store.list(kind, None, &selector.unwrap_or_default(), &options) {
            prop_assert!(matches!(status.code, 400 | 410 | 504), "{status:?}");
        }
        drop(Version::parse(&version));
    }
}

#[test]
fn a_store_of_folded_objects_is_the_same_as_one_of_trees() {
    let (mut trees, mut folded) = (Machine::new(), Machine::with(Limits { folds: true, ..Limits::default() }));
    for m in [&mut trees, &mut folded] {
        m.create("nodes", json!({"metadata": {"name": "n"}})).unwrap();
        for i in 0..20 {
            let node = if i % 2 == 0 { "n" } else { "" };
            let labels = json!({"app": format!("a{}", i % 3), "other": ""});
            let pod = json!({"metadata": {"name": format!("p{i:02}"), "labels": labels},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
            m.create("pods", pod).unwrap();
        }
        for i in 0..5 {
            let target = Target {
                kind: kind("pods").into(),
                namespace: Some("default".into()),
                name: format!("p{i:02}"),
                part: Part::Status,
            };
            let patch = json!({"status": {"phase": "Running"}});
            let (patch_kind, options) = (PatchKind::Merge, WriteOptions::default());
            m.apply(Command::Patch { target, patch_kind, patch, options }).unwrap();
        }
        let target = Target {
            kind: kind("pods").into(),
            namespace: Some("default".into()),
            name: "p03".into(),
            part: Part::Main,
        };
        m.apply(Command::Delete { target, options: DeleteOptions::default() }).unwrap();
    }
    let names = |m: &Machine, labels: &str, fields: &str| -> Vec<String> {
        let selector = Selector::parse(kind("pods"), labels, fields).unwrap();
        let listed = m.store.list(kind("pods"), None, &selector, &ListOptions::default()).unwrap();
        listed.items.iter().map(|object| String::from_utf8(object.json().to_vec()).unwrap()).collect()
    };
    for (labels, fields, count) in [
        ("", "", 19),
        ("app=a1", "", 7),
        ("app in (a0,a2),other", "", 12),
        ("app notin (a0)", "spec.nodeName=n", 6),
        ("other=", "spec.nodeName!=n", 9),
        ("!nothing", "status.phase=Running", 4),
        ("", "status.phase!=Running,spec.nodeName=n", 7),
        ("", "metadata.name=p07", 1),
        ("", "spec.restartPolicy=Always,spec.nodeName=", 9),
    ] {
        let found = names(&folded, labels, fields);
        assert_eq!((found.len(), &found), (count, &names(&trees, labels, fields)), "{labels} {fields}");
    }
}
