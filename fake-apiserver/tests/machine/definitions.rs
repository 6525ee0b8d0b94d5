//! Custom kinds, from the commit that defines them to the commit that removes the last of their objects.

use fake_apiserver::kinds::KindRef;
use fake_apiserver::state::ListOptions;
use fake_apiserver::state::selector::Selector;

use super::*;

fn definition() -> Value {
    json!({
        "metadata": {"name": "backups.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "backups", "kind": "Backup", "shortNames": ["bk"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.copies", "statusReplicasPath": ".status.copies", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Copies", "type": "integer", "jsonPath": ".spec.copies"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["source"],
                            "properties": {
                                "source": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "source is immutable"}]},
                                "copies": {"type": "integer", "default": 1, "minimum": 1},
                                "hooks": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "run": {"type": "string"}}}},
                            },
                            "x-kubernetes-validations": [{"rule": "self.copies < 10 || self.source.startsWith('big-')", "message": "too many copies"}],
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

fn defined() -> (Machine, KindRef) {
    let mut m = Machine::new();
    m.create("customresourcedefinitions", definition()).unwrap();
    let kind = m.store.find_kind("example.com", "v1", "backups").unwrap();
    (m, kind)
}

impl Machine {
    fn make(&mut self, kind: &KindRef, object: Value) -> Answer {
        let options = WriteOptions::default();
        self.apply(Command::Create { kind: kind.clone(), namespace: Some("default".into()), object, options })
            .map(Self::answer)
    }

    fn change(&mut self, kind: &KindRef, part: Part, object: Value) -> Answer {
        let target =
            Target { kind: kind.clone(), namespace: Some("default".into()), name: value::name(&object).into(), part };
        self.apply(Command::Update { target, object, options: WriteOptions::default() }).map(Self::answer)
    }
}

fn backup(spec: Value) -> Value {
    json!({"metadata": {"name": "b"}, "spec": spec})
}

#[test]
fn a_definition_is_served_at_once_and_says_so() {
    let (m, kind) = defined();
    let reported = m.get("customresourcedefinitions", "backups.example.com").unwrap();
    let states: Vec<_> = reported["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].as_str(), c["status"].as_str()))
        .collect();
    assert_eq!(states, [(Some("NamesAccepted"), Some("True")), (Some("Established"), Some("True"))]);
    assert_eq!(
        (&reported["status"]["storedVersions"], &reported["status"]["acceptedNames"]["singular"]),
        (&json!(["v1"]), &json!("backup"))
    );
    assert_eq!(
        (kind.api_version().as_str(), kind.singular, kind.short_names),
        ("example.com/v1", "backup", &["bk"][..])
    );
    assert_eq!(m.store.find_kind("example.com", "v2", "backups"), None);
}

#[test]
fn objects_are_pruned_defaulted_and_validated() {
    let (mut m, kind) = defined();
    let made = m
        .make(
            &kind,
            json!({"metadata": {"name": "b"}, "extra": 1, "spec": {"source": "a", "odd": 1}, "status": {"x": 1}}),
        )
        .unwrap();
    assert_eq!(
        (&made["spec"], made.get("extra"), made.get("status")),
        (&json!({"source": "a", "copies": 1}), None, None)
    );
    assert_eq!((&made["metadata"]["generation"], &made["apiVersion"]), (&json!(1), &json!("example.com/v1")));
    for (spec, wanted) in [
        (json!({}), "spec.source: Required value"),
        (json!({"source": 1}), "spec.source: Invalid value: \"integer\": spec.source in body must be of type string"),
        (json!({"source": "a", "copies": 0}), "should be greater than or equal to 1"),
        (json!({"source": "a", "copies": 10}), "spec: Invalid value: too many copies"),
        (
            json!({"source": "a", "hooks": [{"name": "x"}, {"name": "x"}]}),
            "spec.hooks[1]: Duplicate value: {\"name\":\"x\"}",
        ),
    ] {
        let refused = m.make(&kind, backup(spec)).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(wanted), "{}", refused.message);
    }
    assert!(m.make(&kind, json!({"metadata": {"name": "big"}, "spec": {"source": "big-a", "copies": 10}})).is_ok());
}

#[test]
fn changes_follow_rules_and_count_generations() {
    let (mut m, kind) = defined();
    let made = m.make(&kind, backup(json!({"source": "a"}))).unwrap();
    let mut other = made.clone();
    other["spec"]["source"] = "b".into();
    assert!(m.change(&kind, Part::Main, other).unwrap_err().message.contains("source is immutable"));
    let mut more = made.clone();
    more["spec"]["copies"] = json!(2);
    more["status"] = json!({"copies": 9});
    let more = m.change(&kind, Part::Main, more).unwrap();
    assert_eq!((&more["metadata"]["generation"], more.get("status")), (&json!(2), None));
    let mut reported = more.clone();
    reported["status"] = json!({"copies": 2, "selector": "a=b"});
    reported["spec"]["copies"] = json!(7);
    let reported = m.change(&kind, Part::Status, reported).unwrap();
    assert_eq!(
        (&reported["spec"]["copies"], &reported["status"]["copies"], &reported["metadata"]["generation"]),
        (&json!(2), &json!(2), &json!(2))
    );
    let scale =
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "b"}, "spec": {"replicas": 3}});
    let scaled = m.change(&kind, Part::Scale, scale).unwrap();
    assert_eq!(
        (&scaled["spec"]["replicas"], &scaled["status"]),
        (&json!(3), &json!({"replicas": 2, "selector": "a=b"}))
    );
    let unconditional = backup(json!({"source": "a"}));
    assert!(
        m.change(&kind, Part::Main, unconditional).unwrap_err().message.contains("must be specified for an update")
    );
}

#[test]
fn a_definition_goes_with_its_last_object() {
    let (mut m, kind) = defined();
    m.make(&kind, json!({"metadata": {"name": "b", "finalizers": ["example.com/hold"]}, "spec": {"source": "a"}}))
        .unwrap();
    m.delete("customresourcedefinitions", "backups.example.com", DeleteOptions::default()).unwrap();
    let waiting = m.get("customresourcedefinitions", "backups.example.com").unwrap();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let held = m.store.get(&kind, "default/b").unwrap().value.clone();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let mut released = held;
    released["metadata"]["finalizers"] = json!([]);
    m.change(&kind, Part::Main, released).unwrap();
    assert_eq!(m.get("customresourcedefinitions", "backups.example.com"), None);
    assert_eq!(m.store.find_kind("example.com", "v1", "backups"), None);
}

#[test]
fn a_namespace_takes_its_custom_objects_with_it() {
    let (mut m, kind) = defined();
    m.create("namespaces", json!({"metadata": {"name": "work"}})).unwrap();
    let options = WriteOptions::default();
    m.apply(Command::Create {
        kind: kind.clone(),
        namespace: Some("work".into()),
        object: backup(json!({"source": "a"})),
        options,
    })
    .unwrap();
    m.delete("namespaces", "work", DeleteOptions::default()).unwrap();
    assert!(m.store.get(&kind, "work/b").is_none() && m.get("namespaces", "work").is_none());
}

#[test]
fn versions_are_views_of_the_stored_one() {
    let mut m = Machine::new();
    let mut two = definition();
    let mut beta = two["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    two["spec"]["versions"].as_array_mut().unwrap().push(beta);
    m.create("customresourcedefinitions", two).unwrap();
    let beta = m.store.find_kind("example.com", "v1beta1", "backups").unwrap();
    let stored = m.store.find_kind("example.com", "v1", "backups").unwrap();
    assert!(beta.is_view() && kinds::stored_ref(&beta) == stored);
    m.make(&beta, json!({"apiVersion": "example.com/v1beta1", "kind": "Backup", "metadata": {"name": "b"}, "spec": {"source": "a"}})).unwrap();
    assert_eq!(m.store.get(&stored, "default/b").unwrap().value["apiVersion"], "example.com/v1");
}

#[test]
fn an_invalid_definition_is_refused_with_its_field() {
    let mut m = Machine::new();
    let with = |path: &str, value: Value| {
        let mut changed = definition();
        *changed.pointer_mut(path).unwrap() = value;
        changed
    };
    for (object, wanted) in [
        (with("/metadata/name", json!("other.example.com")), "metadata.name"),
        (with("/spec/group", json!("apps")), "is a group of the server itself"),
        (with("/spec/scope", json!("Galaxy")), "spec.scope: Unsupported value"),
        (with("/spec/versions/0/storage", json!(false)), "exactly one version marked as storage"),
        (with("/spec/versions/0/schema/openAPIV3Schema/type", json!("string")), "must be object at the root"),
        (
            with("/spec/versions/0/schema/openAPIV3Schema/properties/status", json!({})),
            "must not be empty for specified object fields",
        ),
        (
            with(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule",
                json!("quantities(self.source).sign() > 0"),
            ),
            "undeclared reference to",
        ),
        (
            with(
                "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations/0/rule",
                json!("quantity(self.source).sign() > '0'"),
            ),
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        (with("/spec/versions/0/additionalPrinterColumns/0/jsonPath", json!(".spec[")), "jsonPath"),
    ] {
        let refused = m.create("customresourcedefinitions", object).unwrap_err();
        assert!(refused.code == 422 && refused.message.contains(wanted), "{}", refused.message);
    }
}

/// Serves the definitions of the external snapshotter, recorded from a real server.
#[test]
fn recorded_definitions_are_served() {
    let mut m = Machine::new();
    let mut served = 0;
    for line in include_str!("../../testdata/protobuf-vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        if vector["kind"] == "CustomResourceDefinition" {
            let mut object = vector["json"].clone();
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let spec = object["spec"].clone();
            m.create("customresourcedefinitions", object).unwrap();
            let word = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap().to_owned();
            assert!(m.store.find_kind(&word("/group"), &word("/versions/0/name"), &word("/names/plural")).is_some());
            served += 1;
        }
    }
    assert_eq!(served, 2);
}

#[test]
fn objects_are_selected_by_the_fields_that_the_definition_names() {
    let mut m = Machine::new();
    let mut selectable = definition();
    selectable["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.source"}, {"jsonPath": ".spec.copies"}]);
    m.create("customresourcedefinitions", selectable).unwrap();
    let kind = m.store.find_kind("example.com", "v1", "backups").unwrap();
    for (name, source) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut object = backup(json!({"source": source}));
        object["metadata"]["name"] = name.into();
        m.make(&kind, object).unwrap();
    }
    let names = |fields: &str| -> Vec<String> {
        let selector = Selector::parse(&kind, "", fields).unwrap();
        let listed = m.store.list(&kind, Some("default"), &selector, &ListOptions::default()).unwrap();
        listed.items.iter().map(|object| value::name(&object.value).to_owned()).collect()
    };
    assert_eq!(names("spec.source=x"), ["a", "c"]);
    assert_eq!(names("spec.source!=x,spec.copies=1"), ["b"]);
    assert_eq!(Selector::parse(&kind, "", "spec.hooks=x").unwrap_err().code, 400);
}

#[test]
fn fields_that_nothing_can_be_selected_by_are_refused() {
    for (path, why) in [
        ("", "Required value"),
        ("spec.source", "is an invalid path"),
        (".spec.nothing", "is an invalid path"),
        (".spec.hooks", "must point to a field of type string"),
    ] {
        let mut bad = definition();
        bad["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": path}]);
        let status = Machine::new().create("customresourcedefinitions", bad).unwrap_err();
        assert!(status.message.contains(why), "{path}: {}", status.message);
    }
    let mut twice = definition();
    twice["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.source"}, {"jsonPath": ".spec.source"}]);
    assert!(Machine::new().create("customresourcedefinitions", twice).unwrap_err().message.contains("Duplicate value"));
}
