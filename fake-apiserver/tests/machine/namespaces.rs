use substrate::json::json;

use super::*;

fn create_in(m: &mut Machine, namespace: &str, plural: &str, object: Value) -> Answer {
    let (kind, namespace) = (kind(plural), Some(namespace.to_owned()));
    m.apply(Command::Create { kind: kind.into(), namespace, object, options: WriteOptions::default() })
        .map(Machine::answer)
}

#[test]
fn a_cluster_begins_with_its_namespaces_and_service_accounts() {
    let m = Machine::new();
    let names = |plural: &str| -> Vec<String> {
        m.store.all(kind(plural)).map(|o| format!("{}/{}", value::namespace(&o.value), value::name(&o.value))).collect()
    };
    assert_eq!(names("namespaces"), ["/default", "/kube-node-lease", "/kube-public", "/kube-system"]);
    assert_eq!(
        names("serviceaccounts"),
        ["default/default", "kube-node-lease/default", "kube-public/default", "kube-system/default"]
    );
}

#[test]
fn a_cluster_begins_with_what_its_own_components_look_for() {
    let mut m = Machine::new();
    let service = m.get("services", "kubernetes").unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
    let range = m.get("servicecidrs", "kubernetes").unwrap();
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
    assert_eq!(range["status"]["conditions"][0]["type"], "Ready");
    let priority = |m: &Machine, name: &str| m.get("priorityclasses", name).unwrap()["value"].clone();
    assert_eq!(priority(&m, "system-cluster-critical"), 2_000_000_000);
    assert_eq!(priority(&m, "system-node-critical"), 2_000_001_000);
    let authentication = m.store.get(kind("configmaps"), "kube-system/extension-apiserver-authentication").unwrap();
    assert_eq!(authentication.value["data"]["requestheader-username-headers"], "[\"X-Remote-User\"]");
    // Existing objects are neither duplicated nor overwritten.
    let revision = m.store.revision();
    m.store.bootstrap(Now::at(Duration::ZERO));
    assert_eq!(m.store.revision(), revision);
    // The CA of client certificates is published when it is known, and after a reset.
    let authority = |m: &Machine| {
        let config = m.store.get(kind("configmaps"), "kube-system/extension-apiserver-authentication").unwrap();
        ["client-ca-file", "requestheader-client-ca-file"].map(|field| config.value["data"][field].clone())
    };
    assert_eq!(authority(&m), [Value::Null, Value::Null]);
    m.store.trust(Now::at(Duration::ZERO), "PEM");
    m.store.reset(Now::at(Duration::ZERO));
    assert_eq!(authority(&m), ["PEM", "PEM"]);
}

#[test]
fn a_namespace_goes_with_the_last_of_its_content() {
    let mut m = Machine::new();
    m.create("namespaces", json!({"metadata": {"name": "x"}})).unwrap();
    create_in(&mut m, "x", "configmaps", config("c")).unwrap();
    create_in(&mut m, "x", "persistentvolumeclaims", claim("held")).unwrap();
    let namespace = m.delete("namespaces", "x", DeleteOptions::default()).unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert!(m.store.get(kind("configmaps"), "x/c").is_none());
    assert!(m.store.get(kind("serviceaccounts"), "x/default").is_none());
    let status = create_in(&mut m, "x", "configmaps", config("late")).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            403,
            "configmaps \"late\" is forbidden: unable to create new content in namespace x because it is being terminated"
        )
    );
    assert_eq!(status.details.causes[0].reason, "NamespaceTerminating");
    m.commits();
    let mut target = Machine::target("persistentvolumeclaims", "held", Part::Main);
    target.namespace = Some("x".to_owned());
    let patch = json!({"metadata": {"finalizers": null}});
    let (patch_kind, options) = (PatchKind::Merge, WriteOptions::default());
    m.apply(Command::Patch { target, patch_kind, patch, options }).unwrap();
    assert_eq!(m.commits(), ["DELETED persistentvolumeclaims/x/held", "DELETED namespaces/x"]);
}

#[test]
fn the_pods_of_a_namespace_go_first_and_its_conditions_say_what_is_left() {
    let mut m = Machine::new();
    m.create("namespaces", json!({"metadata": {"name": "x"}})).unwrap();
    let held = |mut object: Value| {
        object["metadata"]["finalizers"] = json!(["a/b"]);
        object
    };
    create_in(&mut m, "x", "configmaps", held(config("c"))).unwrap();
    create_in(&mut m, "x", "pods", held(pod("p"))).unwrap();
    m.delete("namespaces", "x", DeleteOptions::default()).unwrap();
    let release = |m: &mut Machine, plural: &str, name: &str| {
        let mut target = Machine::target(plural, name, Part::Main);
        target.namespace = Some("x".to_owned());
        let patch = json!({"metadata": {"finalizers": null}});
        let (patch_kind, options) = (PatchKind::Merge, WriteOptions::default());
        m.apply(Command::Patch { target, patch_kind, patch, options }).unwrap();
    };
    let is_going = |m: &Machine| {
        let config = m.store.get(kind("configmaps"), "x/c").unwrap();
        config.value["metadata"].get("deletionTimestamp").is_some()
    };
    let conditions = |m: &Machine| -> Vec<(String, String)> {
        let namespace = m.get("namespaces", "x").unwrap();
        let conditions = namespace["status"]["conditions"].as_array().unwrap().iter();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        conditions.map(|condition| (text(condition, "status"), text(condition, "message"))).collect()
    };
    assert!(!is_going(&m));
    let reported = conditions(&m);
    assert!(reported.len() == 5 && reported.iter().all(|(status, _)| status == "False"), "{reported:?}");
    release(&mut m, "pods", "p");
    assert!(is_going(&m));
    let is = |message: &str| ("True".to_owned(), message.to_owned());
    assert_eq!(
        conditions(&m)[3..],
        [
            is("Some resources are remaining: configmaps. has 1 resource instances"),
            is("Some content in the namespace has finalizers remaining: a/b in 1 resource instances")
        ]
    );
    release(&mut m, "configmaps", "c");
    assert_eq!(m.get("namespaces", "x"), None);
}

#[test]
fn an_empty_namespace_goes_at_once_and_its_own_finalizer_holds_it() {
    let mut m = Machine::new();
    m.create("namespaces", json!({"metadata": {"name": "x"}})).unwrap();
    m.delete("namespaces", "x", DeleteOptions::default()).unwrap();
    assert_eq!(m.get("namespaces", "x"), None);
    m.create("namespaces", json!({"metadata": {"name": "y"}, "spec": {"finalizers": ["a/b"]}})).unwrap();
    m.delete("namespaces", "y", DeleteOptions::default()).unwrap();
    let mut left = m.get("namespaces", "y").unwrap();
    assert_eq!(left["spec"]["finalizers"], json!(["a/b"]));
    left["spec"]["finalizers"] = json!([]);
    m.put("namespaces", left, Part::Finalize).unwrap();
    assert_eq!(m.get("namespaces", "y"), None);
}

#[test]
fn namespaces_that_a_cluster_needs_stay() {
    let mut m = Machine::new();
    let status = m.delete("namespaces", "kube-system", DeleteOptions::default()).unwrap_err();
    assert_eq!(status.message, "namespaces \"kube-system\" is forbidden: this namespace may not be deleted");
}

#[test]
fn the_default_service_account_comes_back() {
    let mut m = Machine::new();
    m.delete("serviceaccounts", "default", DeleteOptions::default()).unwrap();
    assert!(m.get("serviceaccounts", "default").is_some());
}

#[test]
fn every_namespace_gets_the_certificate_of_the_server() {
    let mut m = Machine::new();
    let of = |m: &Machine, namespace: &str| {
        let found = m.store.get(kind("configmaps"), &key(Some(namespace), "kube-root-ca.crt"));
        found.map(|config| config.value["data"]["ca.crt"].as_str().unwrap().to_owned())
    };
    assert_eq!(of(&m, "default"), None, "a server without a certificate has no clients");
    m.store.publish_root_ca(None);
    m.store.trust(Now::at(Duration::ZERO), "PEM");
    m.create("namespaces", json!({"metadata": {"name": "new"}})).unwrap();
    for namespace in ["default", "kube-system", "new"] {
        assert_eq!(of(&m, namespace).as_deref(), Some("PEM"), "{namespace}");
    }
    m.delete("configmaps", "kube-root-ca.crt", DeleteOptions::default()).unwrap();
    assert_eq!(of(&m, "default").as_deref(), Some("PEM"));
    let mut changed = m.get("configmaps", "kube-root-ca.crt").unwrap();
    changed["data"] = json!({"ca.crt": "", "more": "x"});
    m.put("configmaps", changed, Part::Main).unwrap();
    assert_eq!(m.get("configmaps", "kube-root-ca.crt").unwrap()["data"], json!({"ca.crt": "PEM"}));
    m.delete("namespaces", "new", DeleteOptions::default()).unwrap();
    assert_eq!((of(&m, "new"), m.get("namespaces", "new")), (None, None), "a namespace that goes is left empty");
}
