//! Stand-in pods of a whole cluster in virtual time.

use std::time::Duration;

use serde_json::{Value, json};
use substrate::World;
use substrate::json::Value as Tree;
use substrate::world::{Options, simulate};

use crate::cluster::defaults;
use crate::cluster::{Checks, Cluster, ClusterSpec};
use crate::spec::Manifest;
use crate::spec::object::{Kind, ObjectRef};

const CONTROLLER: &str = "kube-system/ebs-csi-controller-control-plane";

/// Runs `test` in a cluster of two nodes, one minute after its start.
fn in_cluster<T>(test: impl AsyncFnOnce(World, Cluster) -> T) -> T {
    simulate(Options::default(), async |world| {
        let spec = ClusterSpec { mirrors: true, ..ClusterSpec::of_nodes(2) };
        let cluster = Cluster::simulate(&world, spec).unwrap();
        defaults::apply(cluster.objects(), cluster.spec()).await.unwrap();
        seconds(60).await;
        test(world, cluster).await
    })
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

async fn apply(cluster: &Cluster, word: &str, name: &str, spec: Value) {
    let kind = Kind::of_word(word).unwrap();
    let value = json!({ "apiVersion": kind.api_version(), "kind": kind.kind(),
        "metadata": { "name": name, "namespace": "default" }, "spec": spec });
    let object = ObjectRef::new(kind, Some("default"), name);
    cluster.objects().apply(&Manifest { object, value }).await.unwrap();
}

/// Creates a claim and a pod that uses it.
async fn use_a_volume(cluster: &Cluster) {
    let requests = json!({ "requests": { "storage": "1Gi" } });
    apply(cluster, "pvc", "data", json!({ "accessModes": ["ReadWriteOnce"], "resources": requests })).await;
    let mounts = json!([{ "name": "data", "mountPath": "/data" }]);
    let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
    let containers = json!([{ "name": "w", "image": "mooring/writer", "volumeMounts": mounts }]);
    apply(cluster, "pod", "web", json!({ "containers": containers, "volumes": volumes })).await;
    seconds(60).await;
}

async fn pod(cluster: &Cluster, key: &str) -> Option<Tree> {
    let (namespace, name) = key.split_once('/').unwrap();
    cluster.objects().get(&ObjectRef::new(Kind::pod(), Some(namespace), name)).await.unwrap()
}

/// Returns true if a pod is ready, and the number of restarts of each of its containers.
async fn readiness(cluster: &Cluster, key: &str) -> (bool, Vec<u64>) {
    let pod = pod(cluster, key).await.unwrap();
    let ready = pod["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
    let restarts = pod["status"]["containerStatuses"].as_array().unwrap().iter();
    (ready["status"] == "True", restarts.map(|c| c["restartCount"].as_u64().unwrap()).collect())
}

#[test]
fn the_log_of_a_container_is_what_its_component_did() {
    in_cluster(async |_, cluster| {
        use_a_volume(&cluster).await;
        let read = async |pod: &str, query: &str| cluster.objects().logs(&format!("kube-system/{pod}"), query).await;
        let controller = CONTROLLER.strip_prefix("kube-system/").unwrap();
        let attacher = read(controller, "container=csi-attacher").await.unwrap();
        let published =
            |line: &str| line.contains(r#"rpc="ControllerPublishVolume""#) && line.contains(r#"volume="vol-"#);
        assert!(attacher.lines().any(|l| published(l) && l.contains("csi.asked] ")), "{attacher}");
        assert!(attacher.lines().any(|l| published(l) && l.contains("csi.answered] ") && l.contains(r#"code="OK""#)));
        assert!(!attacher.contains("CreateVolume"), "{attacher}");
        let last = read(controller, "container=csi-attacher&tailLines=1&timestamps=true").await.unwrap();
        assert_eq!(last.lines().count(), 1);
        assert!(last.starts_with("2026-01-01T00:0") && last.contains(attacher.lines().last().unwrap()), "{last}");
        let plugin = read(controller, "container=ebs-plugin").await.unwrap();
        assert!(
            plugin.contains(r#"ec2.answered] "A request of the driver to the cloud ended" action="AttachVolume""#),
            "{plugin}"
        );
        let binder = read("kube-controller-manager-control-plane", "").await.unwrap();
        assert!(binder.contains("ad.attach] "), "{binder}");
        let node = pod(&cluster, "default/web").await.unwrap()["spec"]["nodeName"].as_str().unwrap().to_owned();
        let staged = read(&format!("ebs-csi-node-{node}"), "container=ebs-plugin").await.unwrap();
        assert!(staged.contains("NodeStageVolume") && staged.contains("disk.staged] "), "{staged}");
        let registrar = read(&format!("ebs-csi-node-{node}"), "container=node-driver-registrar").await.unwrap();
        assert!(registrar.contains("csi.registration] ") && !registrar.contains("NodeStageVolume"), "{registrar}");
        let refused = read(controller, "container=csi-attacher&previous=true").await.unwrap_err().to_string();
        assert!(refused.contains("previous terminated container \"csi-attacher\""), "{refused}");
    });
}

#[test]
fn a_pod_is_as_its_processes_are() {
    in_cluster(async |_, cluster| {
        assert_eq!(readiness(&cluster, CONTROLLER).await, (true, vec![0; 4]));
        cluster.crash("csi-attacher").await.unwrap();
        seconds(1).await;
        assert_eq!(readiness(&cluster, CONTROLLER).await, (false, vec![0; 4]));
        cluster.restart("csi-attacher").await.unwrap();
        seconds(1).await;
        assert_eq!(readiness(&cluster, CONTROLLER).await, (true, vec![0, 0, 1, 0]));
        let before = cluster.objects().logs(CONTROLLER, "container=csi-attacher&previous=true").await.unwrap();
        assert!(before.contains("incarnation=1") && !before.contains("process.crashed"), "{before}");
        let now = cluster.objects().logs(CONTROLLER, "container=csi-attacher").await.unwrap();
        assert!(now.contains("incarnation=2") && !now.contains("incarnation=1"), "{now}");
    });
}

/// Otherwise the node agent would start them, and pod GC would remove those whose node has no object.
#[test]
fn no_loop_starts_places_or_removes_them() {
    in_cluster(async |world, cluster| {
        let uid = async |key: &str| pod(&cluster, key).await.unwrap()["metadata"]["uid"].clone();
        let keys = [CONTROLLER, "kube-system/kube-scheduler-control-plane", "kube-system/ebs-csi-node-node-a"];
        let mut before = Vec::new();
        for key in keys {
            before.push(uid(key).await);
        }
        seconds(300).await;
        for (key, before) in keys.iter().zip(before) {
            assert_eq!(uid(key).await, before, "{key}");
            assert!(readiness(&cluster, key).await.0, "{key}");
        }
        let lines = world.trace().lines();
        let spoken: Vec<String> = lines
            .iter()
            .filter(|l| l.kind == "k8s.event")
            .map(|l| l.text())
            .filter(|l| l.contains("kube-system"))
            .collect();
        assert!(spoken.is_empty(), "{spoken:?}");
    });
}

#[test]
fn the_invariants_wait_for_none_of_them_and_take_none_for_a_leftover() {
    in_cluster(async |world, cluster| {
        let checks = Checks::begin(&world);
        use_a_volume(&cluster).await;
        let all = cluster.objects().list(Kind::pod()).await.unwrap();
        assert!(all.iter().filter(|pod| pod["metadata"]["namespace"] == "kube-system").count() > 3);
        for (word, name) in [("pod", "web"), ("pvc", "data")] {
            let object = ObjectRef::new(Kind::of_word(word).unwrap(), Some("default"), name);
            cluster.objects().delete(&object, None).await.unwrap();
        }
        let asked = serde_json::from_value(json!({ "rest": true, "empty": true })).unwrap();
        let report = checks.look(&cluster, asked).await.unwrap();
        assert_eq!((&report["total"], &report["violations"]), (&json!(0), &json!([])), "{report}");
        assert!(report["leftovers"].as_object().unwrap().values().all(|list| list == &json!([])), "{report}");
        assert!(report["checked"]["I3"].as_u64() >= Some(2) && report["checked"]["I5"] == 1, "{report}");
        // A crashed node must be restarted first.
        cluster.crash("node-a").await.unwrap();
        let asked = serde_json::from_value(json!({ "rest": true })).unwrap();
        assert!(checks.look(&cluster, asked).await.unwrap_err().starts_with("node-a was crashed"));
    });
}

#[test]
fn a_deleted_pod_is_recreated_unless_its_node_is_gone() {
    in_cluster(async |_, cluster| {
        let node_pod = "kube-system/ebs-csi-node-node-a";
        let delete = async |object: ObjectRef| cluster.objects().delete(&object, None).await.unwrap();
        let uid = pod(&cluster, CONTROLLER).await.unwrap()["metadata"]["uid"].clone();
        let (namespace, name) = CONTROLLER.split_once('/').unwrap();
        delete(ObjectRef::new(Kind::pod(), Some(namespace), name)).await;
        seconds(2).await;
        let again = pod(&cluster, CONTROLLER).await.unwrap();
        assert_ne!(again["metadata"]["uid"], uid);
        assert!(readiness(&cluster, CONTROLLER).await.0);
        // The log comes from the process itself.
        assert!(!cluster.objects().logs(CONTROLLER, "container=ebs-plugin").await.unwrap().is_empty());
        cluster.crash("node-a").await.unwrap();
        seconds(1).await;
        let refused = cluster.objects().logs(node_pod, "container=ebs-plugin").await.unwrap_err().to_string();
        assert!(refused.ends_with("connect: connection refused"), "{refused}");
        assert!(readiness(&cluster, node_pod).await.0, "no process of the node runs yet");
        delete(ObjectRef::new(Kind::node(), None, "node-a")).await;
        seconds(2).await;
        assert_eq!(pod(&cluster, node_pod).await, None);
        cluster.restart("node-a").await.unwrap();
        seconds(30).await;
        assert_eq!(readiness(&cluster, node_pod).await, (true, vec![1, 1]));
    });
}

#[test]
fn an_object_that_no_loop_works_on_gets_an_event() {
    in_cluster(async |_, cluster| {
        let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        apply(&cluster, "ingress", "web", json!({ "defaultBackend": backend })).await;
        seconds(2).await;
        let events = cluster.objects().list(Kind::event()).await.unwrap();
        let reported: Vec<&Tree> = events.iter().filter(|e| e["reason"] == "NoController").collect();
        assert_eq!(reported.len(), 1);
        let about = &reported[0]["involvedObject"];
        assert_eq!(
            ["kind", "name", "apiVersion"].map(|key| about[key].as_str().unwrap_or_default()),
            ["Ingress", "web", "networking.k8s.io/v1"]
        );
        assert!(
            about["uid"].is_string() && reported[0]["message"].as_str().unwrap().contains("no traffic reaches it"),
            "{}",
            reported[0]
        );
    });
}

#[test]
fn without_them_there_are_none() {
    simulate(Options::default(), async |world| {
        let cluster = Cluster::simulate(&world, ClusterSpec::of_nodes(1)).unwrap();
        seconds(10).await;
        assert!(cluster.objects().list(Kind::pod()).await.unwrap().is_empty());
        assert!(world.trace().lines().iter().all(|line| &*line.process != "mirror"));
    });
}
