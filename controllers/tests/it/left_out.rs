//! Each loop left out alone: the others wait quietly, and when the loop comes, the cluster ends like a whole one.
//!
//! The test plays kubelet: it makes pods that are placed run, completes pods of Jobs, and removes deleted pods.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use controllers::LOOPS;
use controllers::kube::{Kind, ListParams};
use controllers::snapshot::VolumeSnapshot;
use controllers::snapshot::objects::VolumeSnapshotClass;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment, VolumeAttributesClass};
use rstest::rstest;
use substrate::World;
use substrate::json::{Value, from_value, json, to_value};

use crate::common::{DRIVER, Rig, S, edit, edit_status, in_simulation, rewrite};

/// Begin and end of the time in which the other loops wait, in seconds. Evictions from a silent node are over by then.
const QUIET: (u64, u64) = (480, 600);
/// Time at which the end is compared, in seconds: the longest way is again that of an eviction.
const END: u64 = 1_260;
/// Maximum number of reads and of writes of a client that waits. The garbage collector asks for the kinds every 30 s, the
/// autoscaler looks at its target every 15 s, and the scheduler tries again and reports it.
const WAITING: (usize, usize) = (150, 6);

async fn create<K: Kind>(rig: &Rig, name: &str, mut object: Value) {
    object["metadata"]["name"] = name.into();
    if !K::KIND.ends_with("Class") {
        object["metadata"]["namespace"] = "default".into();
    }
    rig.client.all::<K>().create(&from_value(object).expect("an object")).await.expect("created");
}

fn template(app: &str, more: Value) -> Value {
    let mut spec = json!({ "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }] }] });
    for (field, value) in more.as_object().expect("fields") {
        spec[field.as_str()] = value.clone();
    }
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

fn claim(class: &str) -> Value {
    json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": { "requests": { "storage": "1Gi" } } })
}

fn uses(claim: &str) -> Value {
    json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] })
}

/// Creates an object for each loop to work on.
async fn begin(rig: &Rig) {
    let select = |app: &str| json!({ "matchLabels": { "app": app } });
    rewrite(&rig.client.all::<StorageClass>(), "ebs", |class| class.allow_volume_expansion = Some(true)).await;
    let late = json!({ "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "metadata": {} });
    create::<StorageClass>(rig, "late", late).await;
    create::<VolumeSnapshotClass>(rig, "snap", json!({ "driver": DRIVER, "deletionPolicy": "Delete" })).await;
    create::<VolumeAttributesClass>(rig, "gold", json!({ "driverName": DRIVER, "parameters": { "type": "gp3" } }))
        .await;
    for (name, class) in [("data", "ebs"), ("first-consumer", "late"), ("unused", "ebs")] {
        create::<PersistentVolumeClaim>(rig, name, json!({ "spec": claim(class) })).await;
    }
    for (name, node, volumes) in
        [("on-a", "node-a", uses("data")), ("on-b", "node-b", json!({})), ("on-c", "node-c", json!({}))]
    {
        let mut pod = template("bare", volumes);
        pod["spec"]["nodeName"] = node.into();
        create::<Pod>(rig, name, pod).await;
    }
    create::<Pod>(rig, "placed", template("bare", uses("first-consumer"))).await;
    let ephemeral =
        json!({ "volumes": [{ "name": "own", "ephemeral": { "volumeClaimTemplate": { "spec": claim("ebs") } } }] });
    create::<Pod>(rig, "ephemeral", template("bare", ephemeral)).await;
    let deployment =
        |app: &str| json!({ "spec": { "replicas": 2, "selector": select(app), "template": template(app, json!({})) } });
    create::<Deployment>(rig, "web", deployment("web")).await;
    create::<Deployment>(rig, "owner", deployment("owner")).await;
    create::<ReplicaSet>(rig, "set", deployment("set")).await;
    create::<DaemonSet>(
        rig,
        "daemon",
        json!({ "spec": { "selector": select("daemon"), "template": template("daemon", json!({ "nodeSelector": { "runs": "daemons" } })) } }),
    )
    .await;
    let claims = json!([{ "metadata": { "name": "own" }, "spec": claim("ebs") }]);
    let stateful = json!({ "replicas": 2, "serviceName": "db", "selector": select("db"), "template": template("db", json!({})), "volumeClaimTemplates": claims });
    create::<StatefulSet>(rig, "db", json!({ "spec": stateful })).await;
    create::<ReplicationController>(
        rig,
        "rc",
        json!({ "spec": { "replicas": 1, "selector": { "app": "rc" }, "template": template("rc", json!({})) } }),
    )
    .await;
    let job =
        json!({ "template": template("job", json!({ "restartPolicy": "Never" })), "ttlSecondsAfterFinished": 60 });
    create::<Job>(rig, "once", json!({ "spec": job })).await;
    create::<CronJob>(rig, "hourly", json!({ "spec": { "schedule": "5 0 * * *", "jobTemplate": { "spec": job } } }))
        .await;
    create::<PodDisruptionBudget>(rig, "web", json!({ "spec": { "minAvailable": 1, "selector": select("web") } }))
        .await;
    create::<Service>(rig, "web", json!({ "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] } })).await;
    create::<Service>(rig, "by-hand", json!({ "spec": { "ports": [{ "port": 80 }] } })).await;
    let addresses = json!([{ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "port": 80 }] }]);
    create::<Endpoints>(rig, "by-hand", json!({ "subsets": addresses })).await;
    let target = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set" });
    create::<HorizontalPodAutoscaler>(
        rig,
        "set",
        json!({ "spec": { "minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": target } }),
    )
    .await;
    let source = json!({ "persistentVolumeClaimName": "data" });
    create::<VolumeSnapshot>(rig, "s", json!({ "spec": { "volumeSnapshotClassName": "snap", "source": source } }))
        .await;
}

/// Acts of a user a minute later.
async fn go_on(rig: &Rig) {
    let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
    claims.delete("unused", &Default::default()).await.expect("deleted");
    rig.client.all::<VolumeAttributesClass>().delete("gold", &Default::default()).await.expect("deleted");
    rig.client.namespaced::<Deployment>("default").delete("owner", &Default::default()).await.expect("deleted");
    rig.crash("node-b");
    rig.crash("node-c");
    rig.client.all::<Node>().delete("node-c", &Default::default()).await.expect("deleted");
}

/// Makes placed pods run, completes pods of Jobs, and removes deleted pods of nodes whose kubelet runs.
async fn kubelet(rig: &Rig) {
    for pod in rig.pods().list(&ListParams::default()).await.expect("a list").items {
        let spec = pod.spec.as_ref().expect("a spec");
        let node = spec.node_name.as_deref().unwrap_or_default();
        if node != "node-a" {
            continue;
        }
        if pod.is_deleting() {
            rig.force_delete(pod.name()).await;
            continue;
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        if phase != "Pending" {
            continue;
        }
        let (phase, ready) =
            if spec.restart_policy.as_deref() == Some("Never") { ("Succeeded", "False") } else { ("Running", "True") };
        let at = controllers::kube::time(rig.world.clock().wall());
        let ready = json!({ "type": "Ready", "status": ready, "lastTransitionTime": at });
        let ip = "10.0.0.1";
        let status = json!({ "phase": phase, "conditions": [ready], "podIP": ip, "podIPs": [{ "ip": ip }] });
        edit_status(&rig.pods(), pod.name(), status).await;
    }
}

/// Asks for a larger volume, once the claim is bound.
async fn grow(rig: &Rig) {
    let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
    let claim = claims.get("data").await.expect("the claim");
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return;
    }
    let more = from_value(json!({ "requests": { "storage": "2Gi" } })).expect("resources");
    edit(&claims, "data", |claim| claim.spec.get_or_insert_default().resources = Some(more)).await;
}

async fn until(rig: &Rig, second: u64) {
    while rig.seconds() < second as f64 {
        kubelet(rig).await;
        grow(rig).await;
        rig.sleep(S(5)).await;
    }
}

/// Returns what of the objects of a kind is the same in two runs: names without their random part, and `fields`.
async fn kept<K: Kind>(rig: &Rig, fields: &[&str]) -> Vec<String> {
    let objects = rig.client.all::<K>().list(&ListParams::default()).await.expect("a list").items;
    let mut lines: Vec<String> = objects
        .iter()
        .map(|object| {
            let tree = to_value(object).expect("an object");
            let name = object.name();
            let random = tree["metadata"]["generateName"].as_str().map(|stem| format!("{stem}*"));
            let name = random.unwrap_or_else(|| {
                if name.contains("pvc-") || name.starts_with("csi-") { "*".to_owned() } else { name.to_owned() }
            });
            let values: Vec<String> =
                fields.iter().map(|field| tree.pointer(field).unwrap_or(&Value::Null).to_string()).collect();
            format!("{} {name} {}", K::KIND, values.join(" "))
        })
        .collect();
    lines.sort();
    lines
}

async fn end(rig: &Rig) -> Vec<String> {
    let replicas = ["/spec/replicas", "/status/replicas", "/status/readyReplicas", "/status/observedGeneration"];
    let parts = [
        kept::<Pod>(rig, &["/status/phase"]).await,
        kept::<Node>(
            rig,
            &[
                "/spec/taints/0/key",
                "/spec/taints/1/key",
                "/spec/taints/2/key",
                "/metadata/annotations/node.alpha.kubernetes.io~1ttl",
            ],
        )
        .await,
        kept::<PersistentVolumeClaim>(rig, &["/status/phase", "/status/capacity/storage", "/metadata/finalizers"])
            .await,
        kept::<PersistentVolume>(
            rig,
            &["/status/phase", "/spec/claimRef/name", "/spec/capacity/storage", "/metadata/finalizers"],
        )
        .await,
        kept::<VolumeAttachment>(rig, &["/status/attached", "/spec/nodeName"]).await,
        kept::<VolumeAttributesClass>(rig, &["/metadata/finalizers"]).await,
        kept::<VolumeSnapshot>(rig, &["/status/readyToUse", "/metadata/finalizers"]).await,
        kept::<Deployment>(rig, &replicas).await,
        kept::<ReplicaSet>(rig, &replicas).await,
        kept::<StatefulSet>(rig, &replicas).await,
        kept::<ReplicationController>(rig, &replicas).await,
        kept::<DaemonSet>(rig, &["/status/desiredNumberScheduled", "/status/numberReady"]).await,
        kept::<Job>(rig, &["/status/succeeded"]).await,
        kept::<CronJob>(rig, &["/status/lastScheduleTime"]).await,
        kept::<PodDisruptionBudget>(rig, &["/status/currentHealthy", "/status/disruptionsAllowed"]).await,
        kept::<Endpoints>(rig, &["/subsets/0/addresses/0/ip", "/subsets/0/addresses/1/ip"]).await,
        kept::<EndpointSlice>(rig, &["/endpoints/0/addresses", "/endpoints/1/addresses", "/metadata/labels"]).await,
        kept::<HorizontalPodAutoscaler>(rig, &["/status/currentReplicas", "/status/desiredReplicas"]).await,
    ];
    parts.concat()
}

/// Runs the story without a loop, which comes after [`QUIET`]. Returns the end, and the requests of each user agent while
/// the others waited.
async fn story(world: World, without: Option<&'static str>) -> (Vec<String>, BTreeMap<String, (usize, usize)>) {
    let rig = Rig::whole(&world, &["node-a", "node-b", "node-c"], &without.into_iter().collect::<Vec<_>>()).await;
    for node in ["node-a", "node-b", "node-c"] {
        let room = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
        rig.patch_node_status(node, json!({ "capacity": room, "allocatable": room })).await;
        // The other two are only for pods that name them.
        if node == "node-a" {
            edit(&rig.client.all::<Node>(), node, |object| {
                object.metadata.labels.get_or_insert_default().insert("runs".to_owned(), "daemons".to_owned());
            })
            .await;
        } else {
            edit(&rig.client.all::<Node>(), node, |object| {
                object.spec.get_or_insert_default().unschedulable = Some(true);
            })
            .await;
        }
    }
    begin(&rig).await;
    until(&rig, 60).await;
    go_on(&rig).await;
    until(&rig, QUIET.0).await;
    let (before, from) = (rig.reads(), rig.now_ms());
    until(&rig, QUIET.1).await;
    let mut requests: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (agent, reads) in rig.reads() {
        requests.entry(agent.clone()).or_default().0 = reads - before.get(&agent).copied().unwrap_or_default();
    }
    for write in rig.written(from, "") {
        requests.entry(write.agent).or_default().1 += 1;
    }
    requests.retain(|agent, _| agent != "test" && agent != "kubelet");
    let late = without.map(|name| rig.start_late(name));
    until(&rig, END).await;
    drop(late);
    (end(&rig).await, requests)
}

/// Returns the end of the cluster that has every loop.
fn whole() -> &'static [String] {
    static WHOLE: OnceLock<Vec<String>> = OnceLock::new();
    WHOLE.get_or_init(|| in_simulation(21, async |world| story(world, None).await).0)
}

/// Four tests, because they run side by side.
#[rstest]
fn the_others_wait_for_a_loop_that_is_left_out(#[values(0, 1, 2, 3)] part: usize) {
    for name in LOOPS.iter().skip(part).step_by(4) {
        let (end, requests) = in_simulation(21, async |world| story(world, Some(name)).await);
        let busy: Vec<_> =
            requests.iter().filter(|(_, (reads, writes))| (*reads, *writes) > WAITING || *writes > WAITING.1).collect();
        assert!(busy.is_empty(), "without {name}, these do not wait: {busy:?}");
        let missing: Vec<_> = whole().iter().filter(|line| !end.contains(line)).collect();
        let added: Vec<_> = end.iter().filter(|line| !whole().contains(line)).collect();
        assert!(missing.is_empty() && added.is_empty(), "{name} came late: missing {missing:#?}, instead {added:#?}");
    }
}

#[test]
fn the_story_has_work_for_each_kind_of_loop() {
    let end = whole().join("\n");
    for line in [
        "Pod db-* \"Running\"",
        "Pod ephemeral \"Running\"",
        "Pod placed \"Running\"",
        "\"2Gi\"",
        "VolumeSnapshot s true",
        "Deployment web 2 2 2",
        "ReplicaSet set 3",
        "\"node.kubernetes.io/unreachable\"",
        "PodDisruptionBudget web 2 1",
        "EndpointSlice by-hand-*",
        "VolumeAttachment * true \"node-a\"",
    ] {
        assert!(end.contains(line), "{line} is missing in\n{end}");
    }
    for line in ["on-c", "unused", "owner", "gold", "\nJob"] {
        assert!(!end.contains(line), "{line} is still in\n{end}");
    }
}
