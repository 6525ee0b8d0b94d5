//! The same agent with the API server of this workspace: real validation, admission, strategic merges and graceful
//! deletion.

use fake_apiserver::{Apiserver, Config};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use substrate::Ctx;

use super::*;
use crate::kube::{ApiError, DeleteParams, Guard, Kind, Patched};

/// Client of a test that acts as the user and as all controllers.
pub(super) struct Hand {
    pub client: Client,
    pub ctx: Ctx,
}

impl Hand {
    pub async fn create<K: Kind>(&self, namespace: &str, object: Value) -> K {
        let object: K = substrate::json::from_value(object).expect("an object");
        let api = if namespace.is_empty() { self.client.all() } else { self.client.namespaced(namespace) };
        let created = api.create(&object).await.unwrap_or_else(|e| panic!("create {}: {e}", K::KIND));
        K::clone(&created)
    }

    /// Sets fields of an object's status.
    async fn status<K: Patched>(&self, namespace: &str, name: &str, status: Value) {
        let api = if namespace.is_empty() { self.client.all::<K>() } else { self.client.namespaced(namespace) };
        let old = api.get(name).await.unwrap_or_else(|e| panic!("get {} {name}: {e}", K::KIND));
        let mut tree = substrate::json::to_value(&*old).expect("an object");
        for (field, value) in status.as_object().expect("an object").iter() {
            tree["status"][field.as_str()] = value.clone();
        }
        let new = substrate::json::from_value(tree).expect("an object");
        let patched = api.strategic_patch_status(&old, &new, Guard::None).await;
        patched.unwrap_or_else(|e| panic!("patch {} {name}: {e}", K::KIND));
    }

    async fn node(&self) -> Node {
        Node::clone(&*self.client.all().get("node-a").await.expect("the node"))
    }

    async fn in_use(&self) -> Vec<String> {
        self.node().await.status.and_then(|s| s.volumes_in_use).unwrap_or_default()
    }

    pub async fn until(&self, what: &str, seconds: u64, probe: impl AsyncFn() -> bool) {
        let deadline = self.ctx.now().mono + Duration::from_secs(seconds);
        while !probe().await {
            let trace = self.ctx.trace().tail(30).join("\n");
            assert!(self.ctx.now().mono < deadline, "{what}: not within {seconds} s\n{trace}");
            self.ctx.sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ready(&self) -> bool {
        let node: Result<Arc<Node>, ApiError> = self.client.all().get("node-a").await;
        let conditions = node.ok().and_then(|n| n.status.clone()).and_then(|s| s.conditions).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    }

    /// Waits until the driver is registered.
    pub async fn registered(&self) {
        self.until("ready", 2, async || self.ready().await).await;
        self.until("driver", 2, async || {
            self.client.all::<CSINode>().get("node-a").await.is_ok_and(|n| n.spec.drivers.len() == 1)
        })
        .await;
    }

    async fn pod(&self) -> Option<Pod> {
        match self.client.namespaced("default").get("p").await {
            Ok(pod) => Some(Pod::clone(&pod)),
            Err(e) if e.is_not_found() => None,
            Err(e) => panic!("get pod: {e}"),
        }
    }
}

/// Starts a pod with a volume. `csi` and `spec` add to the volume and the pod.
pub(super) async fn bring_up(hand: &Hand, disk: &Arc<dyn Disk>, csi: Value, spec: Value) {
    let mut volume = json!({ "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4" });
    let mut pod = json!({
        "nodeName": "node-a",
        "containers": [{ "name": "app", "image": "busybox",
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
        "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
    });
    for (object, more) in [(&mut volume, csi), (&mut pod, spec)] {
        object.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    }
    hand.registered().await;
    let labels = hand.node().await.metadata.labels.unwrap_or_default();
    assert_eq!(labels["topology.ebs.csi.aws.com/zone"], "us-east-1a");

    let claim: PersistentVolumeClaim = hand
        .create(
            "default",
            json!({
                "metadata": { "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "storageClassName": "",
                    "resources": { "requests": { "storage": "1Gi" } },
                },
            }),
        )
        .await;
    hand.create::<PersistentVolume>(
        "",
        json!({
            "metadata": { "name": "pv-1" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": claim.metadata.uid },
                "csi": volume,
            },
        }),
    )
    .await;
    hand.status::<PersistentVolumeClaim>("default", "data", json!({ "phase": "Bound" })).await;
    hand.create::<Pod>(
        "default",
        json!({
            "metadata": { "name": "p" }, "spec": pod,
        }),
    )
    .await;
    hand.until("volumesInUse", 11, async || hand.in_use().await == [VOLUME]).await;

    let name = names::attachment_name("vol-1", "ebs.csi.aws.com", "node-a");
    hand.create::<VolumeAttachment>(
        "",
        json!({
            "metadata": { "name": name },
            "spec": { "attacher": "ebs.csi.aws.com", "nodeName": "node-a",
                "source": { "persistentVolumeName": "pv-1" } },
        }),
    )
    .await;
    let plug = Plug {
        volume: "vol-1".to_owned(),
        device: "/dev/xvdaa".to_owned(),
        file: "vol-1".to_owned(),
        size_bytes: 1 << 30,
    };
    disk.plug(&plug).await.expect("plugged");
    let attached = json!({ "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdaa" } });
    hand.status::<VolumeAttachment>("", &name, attached).await;
    hand.status::<Node>("", "node-a", json!({ "volumesAttached": [{ "name": VOLUME, "devicePath": "" }] })).await;
    let running = async || {
        let status = hand.pod().await.and_then(|p| p.status).unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        status.phase.as_deref() == Some("Running")
            && conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    hand.until("running", 3, running).await;
}

async fn lifecycle(hand: &Hand, disk: &Arc<dyn Disk>) {
    bring_up(hand, disk, Value::Null, Value::Null).await;
    hand.ctx.sleep(Duration::from_secs(5)).await;
    hand.client.namespaced::<Pod>("default").delete("p", &DeleteParams::default()).await.expect("deleted");
    hand.until("the pod is gone", 3, async || hand.pod().await.is_none()).await;
    hand.until("not in use", 11, async || hand.in_use().await.is_empty()).await;
    assert!(disk.mounts().await.expect("mounts").is_empty());
}

/// Runs a test on a node with this disk, whose driver has `capabilities`.
pub(super) fn with_hand(disks: &MemoryDisks, capabilities: &str, tell: impl AsyncFnOnce(Hand, Arc<dyn Disk>)) {
    simulate(Options::default(), async |world| {
        let apiserver = Apiserver::new(world.seed(), Config::default());
        let server = Process::start(&world, "fake-apiserver", move |ctx| {
            ctx.world().fabric().bind(&ctx, "apiserver", apiserver.start(&ctx));
            std::future::pending()
        });
        let disk = disks.node("node-a");
        let settings = Settings::new(capabilities.parse().expect("capabilities"));
        let node = Rig::node_processes(&world, &disk, &settings);
        // The process serves only as the client's caller.
        let process = Process::start(&world, "hand", |_| std::future::pending());
        let ctx = process.ctx().expect("it runs");
        let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "test");
        tell(Hand { client, ctx }, disk).await;
        drop((server, node, process));
    });
}

#[test]
fn a_pod_comes_and_goes() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| lifecycle(&hand, &disk).await);
}

#[test]
fn the_kubelet_restores_a_pod_status_others_wrote() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| {
        bring_up(&hand, &disk, Value::Null, Value::Null).await;
        let scheduled = async || {
            let conditions = hand.pod().await.and_then(|p| p.status).and_then(|s| s.conditions).unwrap_or_default();
            conditions.into_iter().find(|c| c.type_ == "PodScheduled").expect("a condition")
        };
        let reported = json!([
            { "type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "no answer" },
            { "type": "example.com/gate", "status": "True" },
        ]);
        hand.status::<Pod>("default", "p", json!({ "conditions": reported, "phase": "Pending" })).await;
        assert_eq!(scheduled().await.reason.as_deref(), Some("SchedulerError"));
        hand.until("it is as kubelet says", 11, async || scheduled().await.status == "True").await;
        let condition = scheduled().await;
        assert_eq!((condition.reason, condition.message), (None, None));
        let status = hand.pod().await.and_then(|p| p.status).expect("a status");
        assert_eq!(status.phase.as_deref(), Some("Running"));
        // Fields of other writers stay.
        assert!(status.conditions.iter().flatten().any(|c| c.type_ == "example.com/gate"));
    });
}
