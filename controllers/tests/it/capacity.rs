//! Published capacity: csi-provisioner with the API server, the driver and the cloud.

use std::future::pending;
use std::time::Duration;

use controllers::kube::{Client, DeleteParams, Kind};
use controllers::{LoopsConfig, Timers};
use csi_mock::capabilities::Capabilities;
use csi_mock::controller::ControllerConfig;
use csi_mock::settings::Settings;
use fake_apiserver::Apiserver;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use mock_ec2::Ec2;
use substrate::fault::Fault;
use substrate::json::{Value, from_value, json};
use substrate::link::Link;
use substrate::{Process, World};

use crate::common::{DRIVER, S, in_simulation};

const ZONE: &str = "topology.kubernetes.io/zone";
const NAMESPACE: &str = "kube-system";

/// A control plane of csi-provisioner only, with a class that waits and a class that binds at once.
struct Bench {
    world: World,
    client: Client,
    settings: Settings,
}

impl Bench {
    /// Starts the servers and the driver, with 10 GiB in each zone. The provisioner does not run yet.
    async fn new(world: World, capabilities: &str) -> Self {
        let ec2 = Ec2::new(&world.seed().child("ec2"), mock_ec2::Config::default()).expect("a cloud");
        Process::start(&world, "mock-ec2", move |ctx| {
            let service = ec2.start(&ctx);
            ctx.world().fabric().bind(&ctx, "ec2", service);
            pending()
        });
        let apiserver = Apiserver::new(world.seed(), fake_apiserver::Config::default());
        Process::start(&world, "fake-apiserver", move |ctx| {
            let service = apiserver.start(&ctx);
            ctx.world().fabric().bind(&ctx, "apiserver", service);
            pending()
        });
        let settings = Settings::new(capabilities.parse::<Capabilities>().expect("capabilities"));
        settings.set_capacity_gib(Some(10));
        let of_driver = settings.clone();
        Process::start(&world, "csi-controller", move |ctx| {
            let mut config = ControllerConfig::new(Link::connect(&ctx, "ec2"));
            config.settings = of_driver.clone();
            let service = csi_mock::controller::start(&ctx, config);
            ctx.world().fabric().bind(&ctx, "csi-controller", service);
            pending()
        });
        let user = Process::start(&world, "user", |_| pending());
        let ctx = user.ctx().expect("runs");
        let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "test");
        let bench = Self { world, client, settings };
        for (name, mode) in [("gp3", "WaitForFirstConsumer"), ("at-once", "Immediate")] {
            let class = json!({ "metadata": { "name": name }, "provisioner": DRIVER, "volumeBindingMode": mode });
            bench.create::<StorageClass>(class).await;
        }
        bench
    }

    /// Starts the provisioner.
    fn provisioner(&self, timers: Timers) -> Process {
        let config = LoopsConfig { timers, ..LoopsConfig::default() };
        Process::start(&self.world, "csi-provisioner", move |ctx| {
            let (apiserver, csi) = (Link::connect(&ctx, "apiserver"), Link::connect(&ctx, "csi-controller"));
            controllers::run(ctx, "csi-provisioner", apiserver, Some(csi), config.clone())
        })
    }

    async fn create<K: Kind>(&self, object: Value) {
        self.client.all::<K>().create(&from_value(object).expect("an object")).await.expect("created");
    }

    /// Creates a node on which the driver runs, with these topology keys.
    async fn node(&self, name: &str, zone: &str, keys: Value) {
        self.create::<Node>(json!({ "metadata": { "name": name, "labels": { ZONE: zone } } })).await;
        let driver = json!({ "name": DRIVER, "nodeID": name, "topologyKeys": keys });
        self.create::<CSINode>(json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } })).await;
    }

    async fn objects(&self) -> Vec<CSIStorageCapacity> {
        self.client.namespaced(NAMESPACE).list(&Default::default()).await.expect("a list").items
    }

    /// Returns zone, class and capacity of each object, in order.
    async fn published(&self) -> Vec<String> {
        let shown = |object: &CSIStorageCapacity| {
            let labels = object.node_topology.as_ref().and_then(|topology| topology.match_labels.as_ref());
            let zone = labels.and_then(|labels| labels.get(ZONE)).map_or("everywhere", String::as_str);
            let capacity = object.capacity.as_ref().map_or("none", |capacity| capacity.0.as_str());
            format!("{zone} {} {capacity}", object.storage_class_name)
        };
        let mut all: Vec<String> = self.objects().await.iter().map(shown).collect();
        all.sort();
        all
    }

    async fn names(&self) -> Vec<String> {
        self.objects().await.iter().map(|object| object.name().to_owned()).collect()
    }

    async fn sleep(&self, time: Duration) {
        self.world.clock().sleep_until(self.world.clock().mono() + time).await;
    }

    async fn until(&self, limit: Duration, expected: &[&str]) {
        let deadline = self.world.clock().mono() + limit;
        loop {
            let published = self.published().await;
            if published == expected {
                return;
            }
            let tail = || self.world.trace().tail(40).join("\n");
            assert!(self.world.clock().mono() < deadline, "not within {limit:?}: {published:?}\n{}", tail());
            self.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Creates an object with the label of this manager.
    async fn earlier(&self, name: &str, zone: &str, class: &str, manager: &str) {
        let labels = json!({ "csi.storage.k8s.io/drivername": DRIVER, "csi.storage.k8s.io/managed-by": manager });
        self.create::<CSIStorageCapacity>(json!({
            "metadata": { "namespace": NAMESPACE, "name": name, "labels": labels },
            "storageClassName": class,
            "nodeTopology": { "matchLabels": { ZONE: zone } },
            "capacity": "1Gi",
        }))
        .await;
    }
}

fn enabled() -> Timers {
    Timers { enable_capacity: true, ..Timers::default() }
}

#[test]
fn zones_have_objects_that_follow_polls_classes_and_nodes() {
    in_simulation(1, |world| async move {
        let bench = Bench::new(world, "+GET_CAPACITY").await;
        bench.node("a1", "us-east-1a", json!([ZONE])).await;
        bench.node("a2", "us-east-1a", json!([ZONE])).await;
        bench.provisioner(enabled());
        bench.until(S(10), &["us-east-1a gp3 10Gi"]).await;
        bench.node("b1", "us-east-1b", json!([ZONE])).await;
        bench.until(S(10), &["us-east-1a gp3 10Gi", "us-east-1b gp3 10Gi"]).await;
        bench.settings.set_capacity_gib(Some(5));
        bench.until(S(65), &["us-east-1a gp3 5Gi", "us-east-1b gp3 5Gi"]).await;
        // Another program deletes an object: it is created again.
        let name = bench.names().await.remove(0);
        let objects = bench.client.namespaced::<CSIStorageCapacity>(NAMESPACE);
        objects.delete(&name, &DeleteParams::default()).await.expect("deleted");
        bench.until(S(10), &["us-east-1a gp3 5Gi", "us-east-1b gp3 5Gi"]).await;
        bench.client.all::<CSINode>().delete("b1", &DeleteParams::default()).await.expect("deleted");
        bench.until(S(10), &["us-east-1a gp3 5Gi"]).await;
        bench.client.all::<StorageClass>().delete("gp3", &DeleteParams::default()).await.expect("deleted");
        bench.until(S(10), &[]).await;
    });
}

#[test]
fn objects_of_an_earlier_provisioner_are_taken_over_or_deleted() {
    in_simulation(1, |world| async move {
        let bench = Bench::new(world, "+GET_CAPACITY").await;
        bench.node("a1", "us-east-1a", json!([ZONE])).await;
        let ours = "external-provisioner";
        for (name, zone, class, manager) in [
            ("duplicate", "us-east-1a", "gp3", ours),
            ("first", "us-east-1a", "gp3", ours),
            ("of-old-class", "us-east-1a", "io2", ours),
            ("of-old-zone", "us-east-1c", "gp3", ours),
            ("of-a-person", "us-east-1c", "gp3", "manual"),
        ] {
            bench.earlier(name, zone, class, manager).await;
        }
        let provisioner = bench.provisioner(enabled());
        let expected = ["us-east-1a gp3 10Gi", "us-east-1c gp3 1Gi"];
        bench.until(S(10), &expected).await;
        // The first of two objects by name is kept.
        assert_eq!(bench.names().await, ["duplicate", "of-a-person"]);
        provisioner.restart();
        bench.sleep(S(90)).await;
        assert_eq!(bench.names().await, ["duplicate", "of-a-person"]);
        assert_eq!(bench.published().await, expected);
    });
}

#[test]
fn an_error_of_the_driver_keeps_the_value_and_is_retried() {
    in_simulation(1, |world| async move {
        let bench = Bench::new(world, "+GET_CAPACITY").await;
        bench.node("a1", "us-east-1a", json!([ZONE])).await;
        bench.provisioner(enabled());
        bench.until(S(10), &["us-east-1a gp3 10Gi"]).await;
        let fault = json!({
            "name": "fails", "match": { "plane": "csi", "op": "GetCapacity" },
            "when": { "first": 4 }, "effect": { "grpc": "INTERNAL" },
        });
        let fault: Fault = from_value(fault).expect("a fault");
        bench.world.faults().add(bench.world.clock().mono(), fault).expect("in force");
        bench.settings.set_capacity_gib(Some(5));
        // The next poll fails at most a minute later, and its first retry a second after that.
        bench.sleep(S(62)).await;
        assert_eq!(bench.published().await, ["us-east-1a gp3 10Gi"]);
        // Retries after 1, 2, 4 and 8 seconds.
        bench.until(S(30), &["us-east-1a gp3 5Gi"]).await;
    });
}

#[test]
fn a_new_volume_refreshes_its_topology_at_once() {
    in_simulation(1, |world| async move {
        let bench = Bench::new(world, "+GET_CAPACITY").await;
        bench.node("a1", "us-east-1a", json!([ZONE])).await;
        bench.provisioner(Timers { capacity_for_immediate_binding: true, ..enabled() });
        bench.until(S(10), &["us-east-1a at-once 10Gi", "us-east-1a gp3 10Gi"]).await;
        let annotations = json!({ "volume.kubernetes.io/storage-provisioner": DRIVER });
        bench
            .create::<PersistentVolumeClaim>(json!({
                "metadata": { "namespace": "default", "name": "data", "annotations": annotations },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "at-once",
                    "resources": { "requests": { "storage": "4Gi" } },
                },
            }))
            .await;
        bench.until(S(10), &["us-east-1a at-once 6Gi", "us-east-1a gp3 6Gi"]).await;
        let volumes = bench.client.all::<PersistentVolume>().list(&Default::default()).await.expect("a list");
        assert_eq!(volumes.items.len(), 1);
    });
}

#[test]
fn a_driver_without_topology_has_one_object_for_all_nodes() {
    in_simulation(1, |world| async move {
        let bench = Bench::new(world, "+GET_CAPACITY,-VOLUME_ACCESSIBILITY_CONSTRAINTS").await;
        bench.node("a1", "us-east-1a", Value::Null).await;
        bench.node("b1", "us-east-1b", Value::Null).await;
        bench.provisioner(enabled());
        bench.sleep(S(10)).await;
        let (names, published) = (bench.names().await, bench.published().await);
        assert_eq!(names.len(), 1);
        assert!(published[0].starts_with("everywhere gp3 "), "{published:?}");
        bench.sleep(S(130)).await;
        assert_eq!((bench.names().await, bench.published().await), (names, published));
    });
}

#[test]
fn nothing_is_published_without_the_flag_or_the_capability() {
    for (capabilities, timers) in [("+GET_CAPACITY", Timers::default()), ("ebs", enabled())] {
        in_simulation(1, |world| async move {
            let bench = Bench::new(world, capabilities).await;
            bench.node("a1", "us-east-1a", json!([ZONE])).await;
            bench.provisioner(timers);
            bench.sleep(S(130)).await;
            assert!(bench.objects().await.is_empty(), "{capabilities}");
        });
    }
}
