//! Warnings about accepted objects (the strategies' `WarningsOnCreate` and `WarningsOnUpdate`).

use http::header;
use rstest::rstest;
use substrate::body::{call, full};

use super::*;

async fn send(client: &client::Client, method: Method, uri: &str, object: &Value) -> (u16, Vec<String>) {
    let request = http::Request::builder().method(method).uri(uri).header("content-type", "application/json");
    let response = call(client.service(), request.body(full(object.to_string())).unwrap()).await.unwrap();
    let read = |w: &http::HeaderValue| {
        serde_json::from_str::<String>(w.to_str().unwrap().strip_prefix("299 - ").unwrap()).unwrap()
    };
    (response.status().as_u16(), response.headers().get_all(header::WARNING).iter().map(read).collect())
}

fn with(mut object: Value, at: &str, value: Value) -> Value {
    *object.pointer_mut(at).unwrap() = value;
    object
}

fn volume(spec: Value) -> Value {
    let mut volume = json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
    }});
    for (key, value) in spec.as_object().unwrap() {
        volume["spec"][key] = value.clone();
    }
    volume
}

/// Returns a pod with these fields in its spec.
fn pod_with(spec: Value) -> Value {
    let mut pod = pod("p");
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn container(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    for (key, value) in fields.as_object().unwrap() {
        container[key] = value.clone();
    }
    pod_with(json!({"containers": [container]}))
}

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

#[test]
fn a_failed_answer_warns_too() {
    in_simulation(|client| async move {
        let limits = json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Mi"}}]}});
        assert_eq!(client.post("/api/v1/namespaces/default/limitranges", limits).await.0, 201);
        let mut old = with(
            claim("c"),
            "/metadata",
            json!({"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "gp2"}}),
        );
        let annotation = "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \
                          \"storageClassName\" attribute instead";
        // Valid, but refused by admission.
        let (code, warnings) = send(&client, Method::POST, CLAIMS, &old).await;
        assert_eq!((code, warnings.as_slice()), (403, &[annotation.to_owned()][..]));
        // Field validation comes first; the other warnings are not computed for an invalid object.
        old["spec"]["colour"] = "red".into();
        old["spec"]["accessModes"] = json!([]);
        let (code, warnings) = send(&client, Method::POST, CLAIMS, &old).await;
        assert_eq!((code, warnings.as_slice()), (422, &["unknown field \"spec.colour\"".to_owned()][..]));
        client.post(CONFIGS, config("taken")).await;
        let again = json!({"metadata": {"name": "taken"}, "dta": {}});
        for (method, uri, code) in [
            (Method::POST, CONFIGS.to_owned(), 409),
            (Method::PUT, format!("{CONFIGS}/none"), 400),
            (Method::PUT, format!("{CONFIGS}/taken?dryRun=x"), 422),
        ] {
            let (found, warnings) = send(&client, method.clone(), &uri, &again).await;
            let wanted: &[String] = if code == 422 { &[] } else { &["unknown field \"dta\"".to_owned()] };
            assert_eq!((found, warnings.as_slice()), (code, wanted), "{method} {uri}");
        }
        let stale = json!({"metadata": {"name": "taken", "resourceVersion": "1"}, "dta": {}});
        let (code, warnings) = send(&client, Method::PUT, &format!("{CONFIGS}/taken"), &stale).await;
        assert_eq!((code, warnings.len()), (409, 1));
        let endpoints = "/api/v1/namespaces/default/endpoints/none";
        assert_eq!(send(&client, Method::GET, endpoints, &json!({})).await.1.len(), 1);
    });
}

#[rstest]
#[case::nothing(CLAIMS, claim("c"), &[])]
#[case::old_class(
    CLAIMS,
    with(claim("c"), "/metadata", json!({"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "gp2"}})),
    &["metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead"]
)]
#[case::part_of_a_byte(
    CLAIMS,
    with(claim("c"), "/spec/resources", json!({"requests": {"storage": "1500m"}, "limits": {"storage": "2"}})),
    &["spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"]
)]
#[case::recycle(
    VOLUMES,
    volume(json!({
        "persistentVolumeReclaimPolicy": "Recycle",
        "csi": null,
        "nfs": {"server": "s", "path": "/"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}},
    })),
    &[
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ]
)]
#[case::old_plugin(
    VOLUMES,
    volume(json!({"csi": null, "rbd": {"monitors": ["m"], "image": "i"}})),
    &["spec.rbd: deprecated in v1.28, non-functional in v1.31+"]
)]
#[case::class(
    CLASSES,
    json!({"metadata": {"name": "c"}, "provisioner": "ebs.csi.aws.com", "allowedTopologies": [
        {"matchLabelExpressions": [{"key": "beta.kubernetes.io/arch", "values": ["arm64"]}]}]}),
    &["allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use \"kubernetes.io/arch\" instead"]
)]
#[case::driver(
    DRIVERS,
    json!({"metadata": {"name": "d.example.com"}, "spec": {"tokenRequests": [{"audience": "a"}]}}),
    &["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"]
)]
#[case::pod_name(
    PODS,
    with(pod("p"), "/metadata/name", json!("a.b")),
    &["metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"]
)]
#[case::node_labels(
    PODS,
    pod_with(json!({
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}},
    })),
    &[
        "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/region is deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
    ]
)]
#[case::volumes(
    PODS,
    pod_with(json!({"volumes": [
        {"name": "git", "gitRepo": {"repository": "r"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "0.1"}}}}}},
        {"name": "files", "configMap": {"name": "m", "items": [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}, {"key": "c", "path": "xy"}]}},
        {"name": "all", "projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "a", "path": "token"}]}},
            {"serviceAccountToken": {"path": "token"}}]}},
    ]})),
    &[
        "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "spec.volumes[1].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \"100m\" is invalid, must be an integer",
        "volume \"files\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\"",
        "volume \"all\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token\" (Secret \"s\")",
    ]
)]
#[case::container(
    PODS,
    container(json!({
        "resources": {"limits": {"memory": "500m"}},
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}],
        "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 80, "hostPort": 8080}, {"containerPort": 80}],
    })),
    &[
        "spec.containers[0].resources.limits[memory]: fractional byte value \"500m\" is invalid, must be an integer",
        "spec.containers[0].resources.requests[memory]: fractional byte value \"500m\" is invalid, must be an integer",
        "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        "spec.containers[0].ports[2]: duplicate port definition with spec.containers[0].ports[0]",
        "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
    ]
)]
#[case::secrets(
    PODS,
    pod_with(json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]})),
    &[
        "spec.imagePullSecrets[1].name: duplicate name \"a\"",
        "spec.imagePullSecrets[2].name: invalid empty name \"\"",
    ]
)]
#[case::template(
    SETS,
    json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s",
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_with(json!({
            "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "terminationGracePeriodSeconds": -1}))["spec"]},
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1m"}}}}],
    }}),
    &[
        "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"1m\" is invalid, must be an integer",
    ]
)]
fn a_new_object_is_warned_of(#[case] uri: &'static str, #[case] object: Value, #[case] expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    in_simulation(|client| async move {
        assert_eq!(send(&client, Method::POST, uri, &object).await, (201, expected));
    });
}

#[test]
fn a_change_of_a_volume_is_warned_of_and_one_of_a_pod_or_of_a_status_is_not() {
    in_simulation(|client| async move {
        let old = json!({"volume.beta.kubernetes.io/mount-options": "discard"});
        let object = with(volume(json!({})), "/metadata", json!({"name": "v", "annotations": old}));
        let reported = ["metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use \"mountOptions\" attribute instead".to_owned()];
        assert_eq!(send(&client, Method::POST, VOLUMES, &object).await.1, reported);
        let uri = format!("{VOLUMES}/v");
        assert_eq!(send(&client, Method::PUT, &uri, &object).await, (200, reported.to_vec()));
        assert_eq!(send(&client, Method::PUT, &format!("{uri}/status"), &object).await, (200, vec![]));
        let pod = pod_with(json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}));
        assert_eq!(send(&client, Method::POST, PODS, &pod).await.1.len(), 1);
        let (_, mut pod) = client.get(&format!("{PODS}/p")).await;
        pod["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(send(&client, Method::PUT, &format!("{PODS}/p"), &pod).await, (200, vec![]));
    });
}

#[test]
fn a_finalizer_of_a_custom_object_that_names_no_domain_is_warned_of_once() {
    in_simulation(|client| async move {
        let definition = json!({"metadata": {"name": "gadgets.shop.example.com"}, "spec": {
            "group": "shop.example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }});
        let (code, answer) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        assert_eq!(code, 201, "{answer}");
        let uri = "/apis/shop.example.com/v1/gadgets";
        let gadget = |finalizers: Value| json!({"apiVersion": "shop.example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "finalizers": finalizers}});
        let why = |finalizer: &str, path: &str| {
            format!(
                "metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
            )
        };
        let first = gadget(json!(["mine", "a.example.com", "a.example.com/x", "orphan"]));
        let (code, warnings) = send(&client, Method::POST, uri, &first).await;
        assert_eq!((code, warnings), (201, vec![why("a.example.com", " including a path (/)"), why("mine", "")]));
        let (_, mut stored) = client.get(&format!("{uri}/g")).await;
        stored["metadata"]["finalizers"] = json!(["mine", "yours"]);
        let (code, warnings) = send(&client, Method::PUT, &format!("{uri}/g"), &stored).await;
        assert_eq!((code, warnings), (200, vec![why("yours", "")]));
    });
}

#[test]
fn a_deprecated_version_is_warned_of_at_every_use() {
    in_simulation(|client| async move {
        let version = |name: &str, fields: Value| {
            let mut version = json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}});
            version.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            version
        };
        let definition = json!({"metadata": {"name": "gadgets.shop.example.com"}, "spec": {
            "group": "shop.example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [
                version("v1beta1", json!({"deprecated": true})),
                version("v1alpha1", json!({"deprecated": true, "deprecationWarning": "it will go"})),
                version("v1", json!({})),
                version("v1beta2", json!({})),
                version("v2", json!({"deprecated": true})),
            ],
        }});
        let (code, answer) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        assert_eq!(code, 201, "{answer}");
        for (version, expected) in [
            ("v1", None),
            ("v1beta1", Some("shop.example.com/v1beta1 Gadget is deprecated; use shop.example.com/v1 Gadget")),
            ("v1alpha1", Some("it will go")),
            ("v2", Some("shop.example.com/v2 Gadget is deprecated")),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            let uri = format!("/apis/shop.example.com/{version}/gadgets");
            assert_eq!(send(&client, Method::GET, &uri, &json!({})).await, (200, expected.clone()));
            assert_eq!(send(&client, Method::GET, &format!("{uri}/none"), &json!({})).await, (404, expected.clone()));
            let gadget = json!({"metadata": {"name": version, "finalizers": ["mine"]}});
            let (code, warnings) = send(&client, Method::POST, &uri, &gadget).await;
            assert_eq!((code, &warnings[..expected.len()], warnings.len()), (201, &expected[..], expected.len() + 1));
        }
        let endpoints = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned();
        let uri = "/api/v1/namespaces/default/endpoints";
        assert_eq!(send(&client, Method::GET, uri, &json!({})).await, (200, vec![endpoints]));
        let statuses = "v1 ComponentStatus is deprecated in v1.19+".to_owned();
        assert_eq!(send(&client, Method::GET, "/api/v1/componentstatuses", &json!({})).await, (200, vec![statuses]));
    });
}

#[test]
fn an_object_that_nothing_works_on_is_taken_with_a_warning_when_it_is_created() {
    let unserved = |group: &str, kind: &str| ((group, kind) == ("apps", "StatefulSet")).then(|| "no loop".to_owned());
    let config = fake_apiserver::Config { unserved: Some(std::sync::Arc::new(unserved)), ..Default::default() };
    let labels = json!({"a": "b"});
    let containers = json!([{"name": "c", "image": "i"}]);
    let set = json!({"metadata": {"name": "db"}, "spec": {"selector": {"matchLabels": labels}, "serviceName": "db",
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
    let reported = vec!["no loop".to_owned()];
    client::in_simulation_with(config, |client| async move {
        assert_eq!(send(&client, Method::POST, &format!("{SETS}?dryRun=All"), &set).await, (201, reported.clone()));
        assert_eq!(send(&client, Method::POST, SETS, &set).await, (201, reported));
        // An update does not warn again.
        assert_eq!(send(&client, Method::PUT, &format!("{SETS}/db"), &set).await, (200, Vec::new()));
        assert_eq!(send(&client, Method::POST, CLAIMS, &claim("c")).await, (201, Vec::new()));
    });
}

/// Sends a request with another User-Agent.
async fn as_agent(client: &client::Client, agent: &str, method: Method, uri: &str, body: Value) -> u16 {
    let body = substrate::body::full(body.to_string());
    let request = http::Request::builder().method(method).uri(uri).header("user-agent", agent.to_owned());
    let request = request.header("content-type", "application/json").body(body).unwrap();
    client.request(request).await.0
}

#[test]
fn a_client_that_watches_a_kind_and_writes_it_works_on_it() {
    let unserved = |group: &str, kind: &str| ((group, kind) == ("apps", "StatefulSet")).then(|| "nothing".to_owned());
    let config = fake_apiserver::Config { unserved: Some(std::sync::Arc::new(unserved)), ..Default::default() };
    let set = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "db",
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    client::in_simulation_with(config, |client| async move {
        let all = "/apis/apps/v1/statefulsets?watch=true";
        let watch = async |agent: &str, accept: &str| {
            let request =
                http::Request::get(all).header("user-agent", agent.to_owned()).header("accept", accept.to_owned());
            let request = request.body(substrate::body::full("")).unwrap();
            let response = substrate::body::call(client.service(), request).await.unwrap();
            assert_eq!(response.status(), 200);
            response
        };
        let warned = async |name: &str| send(&client, Method::POST, SETS, &set(name)).await.1.len();
        assert_eq!(warned("a").await, 1);
        // A client that only watches, like a scheduler; one that only writes; and people with kubectl.
        let _scheduler = watch("scheduler/1", "application/json").await;
        let _kubectl = watch("kubectl/1", "application/json").await;
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let _collector = watch("collector/1", metadata).await;
        let status = json!({"metadata": {"name": "a"}, "status": {"replicas": 0}});
        for agent in ["other/1", "kubectl/1", "collector/1"] {
            let uri = format!("{SETS}/a/status");
            let (_, mut stored) = client.get(&format!("{SETS}/a")).await;
            stored["status"] = status["status"].clone();
            assert_eq!(as_agent(&client, agent, Method::PUT, &uri, stored).await, 200);
        }
        assert_eq!(warned("b").await, 1);
        let controller = watch("other/1", "application/json").await;
        assert_eq!(warned("c").await, 0);
        // Once it is gone, the kind has no controller again.
        drop(controller);
        assert_eq!(warned("d").await, 1);
    });
}
