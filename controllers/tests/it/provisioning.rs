//! Binder, provisioner, scheduler and protection together, with the API server, the driver and the cloud.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]

use std::time::Duration;

use controllers::kube::{Client, DeleteParams, Guard, Kind};
use controllers::{Timers, binder, protection, provisioner, scheduler};
use csi_mock::controller::ControllerConfig;
use fake_apiserver::Apiserver;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment, VolumeAttributesClass};
use mock_ec2::Ec2;
use serde::de::DeserializeOwned;
use substrate::fault::Fault;
use substrate::json::{Value, json};
use substrate::link::Link;
use substrate::process::{Ctx, Process};
use substrate::trace::Line;
use substrate::world::{Options, World, simulate};

const DRIVER: &str = "ebs.csi.aws.com";
const ZONE: &str = "topology.ebs.csi.aws.com/zone";

/// Control plane without nodes: the test writes the Node and CSINode objects.
struct Cluster {
    world: World,
    controllers: Process,
    user: Client,
    now: Ctx,
}

impl Cluster {
    async fn start(world: World, nodes: usize) -> Self {
        let ec2 = Ec2::new(&world.seed().child("ec2"), mock_ec2::Config::default()).unwrap();
        Process::start(&world, "mock-ec2", move |ctx| {
            let service = ec2.start(&ctx);
            ctx.world().fabric().bind(&ctx, "ec2", service);
            std::future::pending()
        });
        let apiserver = Apiserver::new(world.seed(), fake_apiserver::Config::default());
        Process::start(&world, "fake-apiserver", move |ctx| {
            let service = apiserver.start(&ctx);
            ctx.world().fabric().bind(&ctx, "apiserver", service);
            std::future::pending()
        });
        Process::start(&world, "csi-controller", move |ctx| {
            let service = csi_mock::controller::start(&ctx, ControllerConfig::new(Link::connect(&ctx, "ec2")));
            ctx.world().fabric().bind(&ctx, "csi-controller", service);
            std::future::pending()
        });
        let controllers = Process::start(&world, "controllers", |ctx| async move {
            let client = |agent: &str| Client::new(&ctx, Link::connect(&ctx, "apiserver"), agent);
            let manager = client("kube-controller-manager");
            ctx.spawn(binder::run(ctx.clone(), manager.clone(), Timers::default()));
            ctx.spawn(protection::claim::run(ctx.clone(), manager.clone()));
            ctx.spawn(protection::volume::run(ctx.clone(), manager.clone()));
            ctx.spawn(protection::attributes_class::run(ctx.clone(), manager));
            let config = scheduler::Config::new(Timers::default());
            ctx.spawn(scheduler::run(ctx.clone(), client("kube-scheduler"), config));
            let csi = Link::connect(&ctx, "csi-controller");
            let config = provisioner::Config::new(csi, Timers::default());
            let reached = provisioner::Reached::connect(&ctx, config).await;
            provisioner::run(ctx.clone(), client("csi-provisioner"), reached).await;
        });
        let (handle, inbox) = tokio::sync::oneshot::channel();
        let handle = std::sync::Arc::new(parking_lot::Mutex::new(Some(handle)));
        Process::start(&world, "user", move |ctx| {
            if let Some(handle) = handle.lock().take() {
                let _ = handle.send(ctx);
            }
            std::future::pending()
        });
        let now = inbox.await.unwrap();
        let user = Client::new(&now, Link::connect(&now, "apiserver"), "kubectl");
        let cluster = Self { world, controllers, user, now };
        for i in 0..nodes {
            cluster.node(i).await;
        }
        cluster
            .create::<StorageClass>(json!({
                "metadata": { "name": "gp3" },
                "provisioner": DRIVER,
                "reclaimPolicy": "Delete",
                "volumeBindingMode": "WaitForFirstConsumer",
            }))
            .await;
        cluster
    }

    async fn create<K: Kind + DeserializeOwned>(&self, object: Value) -> K {
        let created = self.user.all::<K>().create(&substrate::json::from_value(object).unwrap()).await.unwrap();
        K::clone(&created)
    }

    async fn node(&self, i: usize) {
        let name = format!("node-{i:03}");
        let zone = ["us-east-1a", "us-east-1b", "us-east-1c"][i % 3];
        self.create::<Node>(json!({
            "metadata": { "name": name, "labels": { ZONE: zone, "topology.kubernetes.io/zone": zone } },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
        }))
        .await;
        // Admission taints a new node until the node lifecycle controller has seen it Ready.
        let nodes = self.user.all::<Node>();
        let tainted = nodes.get(&name).await.unwrap();
        let mut ready = Node::clone(&tainted);
        ready.spec.get_or_insert_default().taints = None;
        nodes.merge_patch(&tainted, &ready, Guard::None).await.unwrap();
        self.create::<CSINode>(json!({
            "metadata": { "name": name },
            "spec": { "drivers": [{
                "name": DRIVER, "nodeID": format!("i-{i:017x}"), "topologyKeys": [ZONE], "allocatable": { "count": 25 },
            }] },
        }))
        .await;
    }

    async fn claim(&self, name: &str) {
        self.create::<PersistentVolumeClaim>(json!({
            "metadata": { "namespace": "default", "name": name },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "resources": { "requests": { "storage": "4Gi" } },
            },
        }))
        .await;
    }

    async fn pod(&self, name: &str, claim: &str) {
        self.create::<Pod>(json!({
            "metadata": { "namespace": "default", "name": name },
            "spec": {
                "containers": [{ "name": "c", "image": "busybox" }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
            },
        }))
        .await;
    }

    async fn get<K: Kind>(&self, name: &str) -> Option<K> {
        let api = self.user.all::<K>();
        let list = api.list(&Default::default()).await.unwrap();
        list.items.into_iter().find(|object| object.name() == name)
    }

    /// Waits in virtual time, at most `limit` seconds.
    async fn until<K: Kind>(&self, what: &str, name: &str, limit: u64, test: impl Fn(Option<&K>) -> bool) {
        for _ in 0..limit * 10 {
            if test(self.get::<K>(name).await.as_ref()) {
                return;
            }
            self.now.sleep(Duration::from_millis(100)).await;
        }
        let tail = self.world.trace().tail(40).join("\n");
        panic!("{what} within {limit} s; the last lines:\n{tail}");
    }

    async fn bound(&self, name: &str, limit: u64) {
        self.until::<PersistentVolumeClaim>("the claim is Bound", name, limit, |claim| {
            claim.and_then(|c| c.status.as_ref()).and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
    }

    async fn scheduled(&self, name: &str, limit: u64) -> String {
        self.until::<Pod>("the pod is scheduled", name, limit, |pod| node_of(pod).is_some()).await;
        node_of(self.get::<Pod>(name).await.as_ref()).unwrap()
    }

    fn fault(&self, fault: Value) {
        let fault: Fault = substrate::json::from_value(fault).unwrap();
        self.world.faults().add(self.now.now().mono, fault).unwrap();
    }

    fn events(&self) -> Vec<Line> {
        self.world.trace().lines()
    }

    /// Returns the reasons of recorded Events about an object.
    fn reasons(&self, object: &str) -> Vec<String> {
        let about = |e: &&Line| e.kind == "k8s.event" && e.str("object") == Some(object);
        self.events().iter().filter(about).filter_map(|e| e.str("reason").map(str::to_owned)).collect()
    }

    fn messages(&self, reason: &str) -> Vec<String> {
        let about = |e: &&Line| e.kind == "k8s.event" && e.str("reason") == Some(reason);
        self.events().iter().filter(about).filter_map(|e| e.str("message").map(str::to_owned)).collect()
    }
}

fn node_of(pod: Option<&Pod>) -> Option<String> {
    pod?.spec.as_ref()?.node_name.clone()
}

fn in_simulation<F: Future<Output = ()>>(options: Options, nodes: usize, test: impl FnOnce(Cluster) -> F) {
    simulate(options, |world| async move {
        let cluster = Cluster::start(world, nodes).await;
        test(cluster).await;
    });
}

#[test]
fn a_claim_and_a_pod_become_a_volume_in_the_pods_zone_and_are_cleaned_up() {
    in_simulation(Options::default(), 3, |cluster| async move {
        cluster.claim("data").await;
        cluster.now.sleep(Duration::from_millis(100)).await;
        cluster.pod("web", "data").await;
        cluster.bound("data", 10).await;
        let node = cluster.scheduled("web", 10).await;
        assert_eq!(node, "node-000");

        let claim = cluster.get::<PersistentVolumeClaim>("data").await.unwrap();
        let volume = claim.spec.as_ref().unwrap().volume_name.clone().unwrap();
        assert_eq!(volume, format!("pvc-{}", claim.uid()));
        let volume = cluster.get::<PersistentVolume>(&volume).await.unwrap();
        let written = substrate::json::to_value(&volume).unwrap();
        let spec = &written["spec"];
        assert_eq!(spec["capacity"]["storage"], "4Gi");
        assert_eq!(spec["csi"]["fsType"], "ext4");
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Delete");
        assert_eq!(spec["claimRef"]["uid"], json!(claim.uid()));
        let zone = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"];
        assert!(zone.to_string().contains("us-east-1a"), "{zone}");
        assert_eq!(volume.annotation("pv.kubernetes.io/provisioned-by"), Some(DRIVER));
        assert!(volume.annotation("pv.kubernetes.io/bound-by-controller").is_none());
        assert!(volume.has_finalizer("external-provisioner.volume.kubernetes.io/finalizer"));

        let claim_reasons = cluster.reasons("persistentvolumeclaim/default/data");
        for expected in ["WaitForFirstConsumer", "ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"] {
            assert!(claim_reasons.iter().any(|r| r == expected), "{expected} in {claim_reasons:?}");
        }
        assert_eq!(cluster.reasons("pod/default/web"), ["Scheduled"]);
        assert_eq!(cluster.messages("Scheduled"), ["Successfully assigned default/web to node-000"]);

        // The claim stays while its pod exists, the volume until the driver has deleted its own.
        let claims = cluster.user.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.unwrap();
        cluster.now.sleep(Duration::from_secs(5)).await;
        assert!(cluster.get::<PersistentVolumeClaim>("data").await.is_some());
        let attachment = json!({
            "metadata": { "name": "csi-1" },
            "spec": { "attacher": DRIVER, "nodeName": node, "source": { "persistentVolumeName": volume.name() } },
        });
        cluster.create::<VolumeAttachment>(attachment).await;
        cluster.user.namespaced::<Pod>("default").delete("web", &DeleteParams::force()).await.unwrap();
        cluster.until::<PersistentVolumeClaim>("the claim is gone", "data", 5, |claim| claim.is_none()).await;
        cluster.now.sleep(Duration::from_secs(1)).await;
        let still = format!("persistentvolume {} is still attached to node node-000", volume.name());
        assert_eq!(cluster.messages("VolumeFailedDelete").first(), Some(&still));
        let attachments = cluster.user.all::<VolumeAttachment>();
        attachments.delete("csi-1", &DeleteParams::default()).await.unwrap();
        cluster.until::<PersistentVolume>("the volume is gone", volume.name(), 30, |v| v.is_none()).await;
        let deleted = |e: &Line| e.kind == "ec2.volume" && e.str("state") == Some("deleted");
        assert_eq!(cluster.events().iter().filter(|e| deleted(e)).count(), 1);
    });
}

#[test]
fn without_room_on_the_chosen_node_the_scheduler_chooses_again() {
    in_simulation(Options::default(), 3, |cluster| async move {
        cluster.fault(json!({
            "name": "no-room",
            "match": { "plane": "csi", "op": "CreateVolume" },
            "when": { "first": 1 },
            "effect": { "grpc": "RESOURCE_EXHAUSTED" },
        }));
        cluster.claim("data").await;
        cluster.pod("web", "data").await;
        cluster.bound("data", 30).await;
        cluster.scheduled("web", 30).await;
        let failed = cluster.messages("ProvisioningFailed");
        assert!(failed[0].starts_with("rpc error: code = ResourceExhausted desc = "), "{failed:?}");
        // The scheduler may hear of the pod before its claim.
        let mut failed = cluster.messages("FailedScheduling");
        failed.retain(|message| !message.contains("persistentvolumeclaim \"data\" not found"));
        assert_eq!(
            failed,
            ["running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"data\""]
        );
    });
}

/// Regression of sig-storage-lib-external-provisioner#121 (`provisionClaimOperation`).
#[test]
fn a_selected_node_that_is_gone_is_taken_back() {
    in_simulation(Options::default(), 2, |cluster| async move {
        cluster.claim("data").await;
        let claims = cluster.user.namespaced::<PersistentVolumeClaim>("default");
        let old = claims.get("data").await.unwrap();
        let mut gone = PersistentVolumeClaim::clone(&old);
        let annotations = gone.metadata.annotations.get_or_insert_default();
        annotations.insert("volume.kubernetes.io/selected-node".to_owned(), "node-gone".to_owned());
        claims.merge_patch(&old, &gone, Guard::None).await.unwrap();
        cluster.pod("web", "data").await;
        cluster.bound("data", 30).await;
        cluster.scheduled("web", 30).await;
        assert_eq!(cluster.messages("ProvisioningFailed"), ["node \"node-gone\" not found"]);
        assert_eq!(cluster.messages("Provisioning").len(), 1, "nothing is begun for a node that is gone");
    });
}

#[test]
fn an_infeasible_request_is_reported_once_and_retried_after_5_minutes() {
    in_simulation(Options::default(), 1, |cluster| async move {
        cluster.fault(json!({
            "name": "infeasible",
            "match": { "plane": "csi", "op": "CreateVolume" },
            "when": { "first": 1 },
            "effect": { "grpc": "INVALID_ARGUMENT" },
        }));
        cluster.claim("data").await;
        cluster.pod("web", "data").await;
        cluster.now.sleep(Duration::from_secs(240)).await;
        let failed = cluster.messages("ProvisioningFailed");
        let start = "Volume provisioning failed with infeasible error. Retries will be delayed. rpc error: code = \
                     InvalidArgument desc = ";
        assert!(failed.len() == 1 && failed[0].starts_with(start), "{failed:?}");
        cluster.bound("data", 400).await;
        cluster.scheduled("web", 10).await;
    });
}

#[test]
fn a_driver_that_hangs_is_left_after_the_timeout_and_asked_again() {
    in_simulation(Options::default(), 1, |cluster| async move {
        cluster.fault(json!({
            "name": "hangs",
            "match": { "plane": "csi", "op": "CreateVolume" },
            "when": { "first": 1 },
            "effect": { "hang": true },
        }));
        cluster.claim("data").await;
        cluster.pod("web", "data").await;
        cluster.bound("data", 120).await;
        let failed = cluster.messages("ProvisioningFailed");
        assert_eq!(failed[0], "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
        let volumes = cluster.user.all::<PersistentVolume>().list(&Default::default()).await.unwrap();
        assert_eq!(volumes.items.len(), 1);
    });
}

#[test]
fn a_claim_deleted_while_its_volume_is_in_the_making_leaks_nothing() {
    in_simulation(Options::default(), 1, |cluster| async move {
        cluster.fault(json!({
            "name": "the-answer-is-lost",
            "match": { "plane": "csi", "op": "CreateVolume" },
            "when": { "first": 1 },
            "effect": { "grpc": "ABORTED" },
            "at": "after_effect",
        }));
        cluster.claim("data").await;
        cluster.pod("web", "data").await;
        let failed = |e: &Line| e.kind == "k8s.event" && e.str("reason") == Some("ProvisioningFailed");
        while !cluster.events().iter().any(failed) {
            cluster.now.sleep(Duration::from_millis(50)).await;
        }
        cluster.user.namespaced::<Pod>("default").delete("web", &DeleteParams::force()).await.unwrap();
        let claims = cluster.user.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.unwrap();
        cluster.until::<PersistentVolumeClaim>("the claim is gone", "data", 5, |claim| claim.is_none()).await;
        cluster.now.sleep(Duration::from_secs(60)).await;
        assert!(cluster.user.all::<PersistentVolume>().list(&Default::default()).await.unwrap().items.is_empty());
        let count = |state: &str| {
            cluster.events().iter().filter(|e| e.kind == "ec2.volume" && e.str("state") == Some(state)).count()
        };
        assert_eq!((count("available"), count("deleted")), (1, 1));
    });
}

#[test]
fn controllers_that_crash_at_any_moment_converge() {
    for ms in (40..1400).step_by(60) {
        in_simulation(Options::default(), 3, |cluster| async move {
            cluster.claim("data").await;
            cluster.pod("web", "data").await;
            cluster.now.sleep(Duration::from_millis(ms)).await;
            cluster.controllers.restart();
            cluster.bound("data", 40).await;
            cluster.scheduled("web", 40).await;
            let volumes = cluster.user.all::<PersistentVolume>().list(&Default::default()).await.unwrap();
            assert_eq!(volumes.items.len(), 1, "crash after {ms} ms");
            let made = |e: &&Line| e.kind == "ec2.volume" && e.str("state") == Some("available");
            assert_eq!(cluster.events().iter().filter(made).count(), 1, "crash after {ms} ms");
        });
    }
}

#[test]
fn a_pod_without_a_place_says_why_and_goes_when_there_is_one() {
    in_simulation(Options::default(), 0, |cluster| async move {
        cluster.node(0).await;
        let nodes = cluster.user.all::<Node>();
        let mut node = Node::clone(&*nodes.get("node-000").await.unwrap());
        node.spec.get_or_insert_default().unschedulable = Some(true);
        nodes.replace(&node).await.unwrap();
        cluster.now.sleep(Duration::from_secs(1)).await;
        cluster.claim("data").await;
        cluster.pod("web", "data").await;
        cluster.now.sleep(Duration::from_secs(3)).await;
        let message = "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption: \
                       0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        assert_eq!(cluster.messages("FailedScheduling"), [message]);
        let pod = cluster.get::<Pod>("web").await.unwrap();
        let condition =
            pod.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "PodScheduled").unwrap();
        assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("False", Some("Unschedulable")));
        assert_eq!(condition.message.as_deref(), Some(message));
        let mut node = Node::clone(&*nodes.get("node-000").await.unwrap());
        node.spec.get_or_insert_default().unschedulable = None;
        nodes.replace(&node).await.unwrap();
        cluster.scheduled("web", 10).await;
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed: u64| {
        let mut lines = Vec::new();
        let options = Options { seed, level: substrate::Level::Trace, ..Options::default() };
        simulate(options, |world| async {
            let cluster = Cluster::start(world, 3).await;
            for i in 0..5 {
                cluster.claim(&format!("c{i}")).await;
                cluster.pod(&format!("p{i}"), &format!("c{i}")).await;
            }
            cluster.now.sleep(Duration::from_secs(20)).await;
            lines = cluster.events().iter().map(Line::text).collect();
        });
        lines
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn many_claims_and_pods_settle() {
    in_simulation(Options::default(), 100, |cluster| async move {
        for i in 0..200 {
            cluster.claim(&format!("c{i:03}")).await;
            cluster.pod(&format!("p{i:03}"), &format!("c{i:03}")).await;
        }
        cluster.now.sleep(Duration::from_secs(60)).await;
        let pods = cluster.user.all::<Pod>().list(&Default::default()).await.unwrap();
        assert_eq!(pods.items.iter().filter(|pod| node_of(Some(pod)).is_some()).count(), 200);
        // A pod may arrive before its claim; no other failure is allowed.
        let failed = cluster.messages("FailedScheduling");
        assert!(
            failed.iter().all(|why| why.contains("persistentvolumeclaim") && why.contains("not found")),
            "{failed:?}"
        );
    });
}

#[test]
fn a_volume_attributes_class_goes_when_nothing_names_it_any_more() {
    in_simulation(Options::default(), 1, |cluster| async move {
        for name in ["idle", "named"] {
            cluster
                .create::<VolumeAttributesClass>(json!({
                    "metadata": { "name": name }, "driverName": DRIVER, "parameters": { "type": "gp3" },
                }))
                .await;
        }
        cluster
            .create::<PersistentVolumeClaim>(json!({
                "metadata": { "namespace": "default", "name": "data" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "gp3",
                    "volumeAttributesClassName": "named",
                    "resources": { "requests": { "storage": "4Gi" } },
                },
            }))
            .await;
        let classes = cluster.user.all::<VolumeAttributesClass>();
        for name in ["idle", "named"] {
            classes.delete(name, &DeleteParams::default()).await.unwrap();
        }
        let gone = |class: Option<&VolumeAttributesClass>| class.is_none();
        cluster.until("the idle class is gone", "idle", 5, gone).await;
        cluster.now.sleep(Duration::from_secs(60)).await;
        assert!(cluster.get::<VolumeAttributesClass>("named").await.is_some(), "a claim names it");
        let claims = cluster.user.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.unwrap();
        cluster.until("the class is gone with its claim", "named", 5, gone).await;
    });
}
