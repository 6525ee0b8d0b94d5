//! Tests of the whole agent in simulation: the real driver and memory disk, a toy API server.

mod admission;
mod call_context;
mod ephemeral;
mod growth;
mod handlers;
mod heartbeat;
mod inline;
mod live;
mod logs;
mod lost;
#[cfg(any(debug_assertions, feature = "mutants"))]
mod mutants;
mod raw;
mod real;
mod removal;
mod restart;
mod starts;
mod toy;
mod volume_stats;

use std::sync::Arc;
use std::time::Duration;

use csi_disk::{Disk, MemoryDisks, Plug};
use csi_mock::node::NodeConfig;
use csi_mock::settings::Settings;
use substrate::json::{Text, Value, json};
use substrate::link::Link;
use substrate::world::{Options, simulate};
use substrate::{Process, World, WorldKind};

use super::*;
use crate::machine::events::WorkloadStarted;
use crate::machine::{self, MachineConfig, records};
use toy::Toy;

/// A node with its driver, and an API server.
struct Rig {
    world: World,
    toy: Toy,
    disk: Arc<dyn Disk>,
    node: Node,
    settings: Settings,
    _server: Process,
}

/// The processes of a node.
struct Node {
    machine: Process,
    driver: Process,
    kubelet: Process,
}

impl Node {
    /// Crashes all of them.
    fn crash(&self) {
        for process in [&self.kubelet, &self.driver, &self.machine] {
            process.crash();
        }
    }

    /// Restarts all of them.
    fn restart(&self) {
        self.crash();
        for process in [&self.machine, &self.driver, &self.kubelet] {
            process.restart();
        }
    }
}

/// Time that containers take to stop.
const STOPS: Duration = Duration::from_millis(300);
const VOLUME: &str = "kubernetes.io/csi/ebs.csi.aws.com^vol-1";

impl Rig {
    fn new(world: &World, disks: &MemoryDisks) -> Self {
        let (toy, disk) = (Toy::default(), disks.node("node-a"));
        let served = toy.clone();
        let server = Process::start(world, "fake-apiserver", move |ctx| {
            ctx.world().fabric().bind(&ctx, "apiserver", served.service());
            std::future::pending()
        });
        let settings = Settings::default();
        let node = Self::node_processes(world, &disk, &settings);
        Self { world: world.clone(), toy, disk, node, settings, _server: server }
    }

    /// Starts the machine's container runtime.
    fn machine_process(world: &World, disk: &Arc<dyn Disk>) -> Process {
        let disk = disk.clone();
        Process::start(world, "node-a", move |ctx| {
            let config = MachineConfig { container_stop: STOPS, ..MachineConfig::new("node-a", disk.clone()) };
            let runtime = machine::start(&ctx, config);
            ctx.world().fabric().bind(&ctx, "runtime-node-a", runtime);
            std::future::pending()
        })
    }

    /// Starts machine, driver and agent.
    fn node_processes(world: &World, disk: &Arc<dyn Disk>, settings: &Settings) -> Node {
        let machine = Self::machine_process(world, disk);
        let (driver_disk, settings) = (disk.clone(), settings.clone());
        let driver = Process::start(world, "node-a/csi-node", move |ctx| {
            let config = NodeConfig::new("node-a", "i-1", "us-east-1a", driver_disk.clone());
            let driver = csi_mock::node::start(&ctx, NodeConfig { settings: settings.clone(), ..config });
            ctx.world().fabric().bind(&ctx, "csi-node-a", driver);
            let registrar = csi_mock::registration::start(&ctx, "ebs.csi.aws.com", "csi-node-a");
            ctx.world().fabric().bind(&ctx, "csi-registration-node-a", registrar);
            std::future::pending()
        });
        let (disk, socket) = (disk.clone(), RegistrationSocket::default());
        socket.create();
        let kubelet = Process::start(world, "node-a/kubelet", move |ctx| {
            let plugins = Plugins::Known(vec![KnownPlugin {
                registration: Link::connect(&ctx, "csi-registration-node-a"),
                csi: Link::connect(&ctx, "csi-node-a"),
                socket: socket.clone(),
            }]);
            let runtime = Link::connect(&ctx, "runtime-node-a");
            let disk = csi_disk::faulty(&ctx, disk.clone());
            let config = NodeAgentConfig::new("node-a", "i-1", "us-east-1a", disk, plugins, runtime.clone());
            ctx.world().fabric().bind(&ctx, "kubelet-node-a", service(&ctx, &config.logs, runtime));
            let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "kubelet");
            run(ctx, client, config)
        });
        Node { machine, driver, kubelet }
    }

    /// Waits until `probe` returns true, at most `seconds`, and in real time at most 90 seconds. Returns the time it took.
    async fn until(&self, what: &str, seconds: u64, probe: impl Fn() -> bool) -> Duration {
        let seconds = if self.world.kind() == WorldKind::Live { 90 } else { seconds };
        let begun = self.world.clock().mono();
        while !probe() {
            let waited = self.world.clock().mono() - begun;
            assert!(waited < Duration::from_secs(seconds), "{what}: not within {seconds} s\n{}", self.tail());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.world.clock().mono() - begun
    }

    fn tail(&self) -> String {
        self.world.trace().tail(30).join("\n")
    }

    fn count(&self, kind: &str) -> usize {
        self.world.trace().events().iter().filter(|e| e.kind() == kind).count()
    }

    fn calls(&self, rpc: &str) -> usize {
        let events = self.world.trace().events();
        events.iter().filter_map(|e| e.get::<csi_mock::events::CsiCall>()).filter(|call| call.rpc == rpc).count()
    }

    fn kinds(&self) -> Vec<Text> {
        let wanted = ["disk.", "workload.", "node-agent.mounted", "node-agent.unmounted"];
        let lines = self.world.trace().lines();
        let mut kinds: Vec<_> = lines
            .into_iter()
            .map(|line| line.kind)
            .filter(|k| wanted.iter().any(|w| k.starts_with(w)) && k != "workload.synced")
            .collect();
        kinds.dedup();
        kinds
    }

    /// Returns the number of records that the last started writer found, and whether they were valid.
    fn found(&self) -> Option<(u64, bool)> {
        let events = self.world.trace().events();
        events.iter().rev().find_map(|e| e.get::<WorkloadStarted>()).map(|e| (e.records_found, e.verified))
    }

    fn node(&self) -> Value {
        self.toy.get("nodes", "", "node-a")
    }

    fn ready(&self) -> bool {
        let node = self.node();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    }

    fn in_use(&self) -> bool {
        self.node()["status"]["volumesInUse"] == json!([VOLUME])
    }

    async fn plug(&self) {
        let plug = Plug {
            volume: "vol-1".to_owned(),
            device: "/dev/xvdaa".to_owned(),
            file: "vol-1".to_owned(),
            size_bytes: 1 << 30,
        };
        self.disk.plug(&plug).await.expect("plugged");
    }

    fn claim_and_pod(&self, pod: &str) {
        self.toy.put(
            "persistentvolumes",
            "",
            json!({
                "metadata": { "name": "pv-1" },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": { "namespace": "default", "name": "data", "uid": "c1" },
                    "csi": { "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4" },
                },
            }),
        );
        self.toy.put(
            "persistentvolumeclaims",
            "default",
            json!({
                "metadata": { "name": "data", "uid": "c1" },
                "spec": { "volumeName": "pv-1" }, "status": { "phase": "Bound" },
            }),
        );
        self.toy.put(
            "volumeattachments",
            "",
            json!({
                "metadata": { "name": names::attachment_name("vol-1", "ebs.csi.aws.com", "node-a") },
                "spec": { "attacher": "ebs.csi.aws.com", "nodeName": "node-a", "source": {} },
                "status": { "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdaa" } },
            }),
        );
        self.toy.put(
            "pods",
            "default",
            json!({
                "metadata": { "name": pod, "uid": format!("uid-of-{pod}") },
                "spec": {
                    "nodeName": "node-a", "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "app", "image": "busybox",
                        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    }],
                    "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
                },
                "status": { "phase": "Pending" },
            }),
        );
    }

    fn attach(&self) {
        let attached = json!({ "status": { "volumesAttached": [{ "name": VOLUME, "devicePath": "" }] } });
        self.toy.patch("nodes", "", "node-a", &attached);
    }

    fn pod_phase(&self, pod: &str) -> Value {
        self.toy.get("pods", "default", pod)["status"]["phase"].clone()
    }

    /// Starts `pod`, and waits until it is Running.
    async fn run_pod(&self, pod: &str) {
        self.plug().await;
        self.claim_and_pod(pod);
        self.until("volumesInUse", 11, || self.in_use()).await;
        self.attach();
        self.until("running", 5, || self.pod_phase(pod) == "Running").await;
    }

    /// Deletes `pod` as a user does.
    fn delete_gracefully(&self, pod: &str) {
        let mark = json!({ "metadata": {
            "deletionTimestamp": "2026-01-01T00:10:00Z", "deletionGracePeriodSeconds": 30 } });
        self.toy.patch("pods", "default", pod, &mark);
    }
}

fn in_simulation<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    simulate(Options::default(), test);
}

#[test]
fn a_node_registers_becomes_ready_and_renews_its_lease() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let took = rig.until("ready", 1, || rig.ready()).await;
        assert!(took < Duration::from_millis(200), "{took:?}");
        rig.until("registered", 1, || rig.count("node-agent.registered") == 1).await;
        let csi_node = rig.toy.get("csinodes", "", "node-a");
        assert_eq!(csi_node["spec"]["drivers"][0]["nodeID"], "i-1");
        assert_eq!(csi_node["metadata"]["ownerReferences"][0]["uid"], rig.node()["metadata"]["uid"]);
        let node = rig.node();
        assert_eq!(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"], r#"{"ebs.csi.aws.com":"i-1"}"#);
        assert_eq!(node["metadata"]["labels"]["topology.ebs.csi.aws.com/zone"], "us-east-1a");
        let lease = || rig.toy.get("leases", "kube-node-lease", "node-a");
        let first = lease();
        assert_eq!(first["spec"]["leaseDurationSeconds"], 40);
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_ne!(lease()["spec"]["renewTime"], first["spec"]["renewTime"]);
        assert_eq!(lease()["metadata"]["ownerReferences"][0]["kind"], "Node");
        // An idle node writes no status until the next full report.
        let version = rig.node()["metadata"]["resourceVersion"].clone();
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(rig.node()["metadata"]["resourceVersion"], version);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_ne!(rig.node()["metadata"]["resourceVersion"], version, "a full report after five minutes");
    });
}

#[test]
fn a_pod_gets_its_volume_runs_writes_and_leaves_nothing_behind() {
    in_simulation(async |world| {
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.until("records", 15, || rig.count("workload.synced") == 10).await;
        let status = rig.toy.get("pods", "default", "p")["status"].clone();
        assert!(status["podIP"].is_string() && status["startTime"].is_string());
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        assert_eq!(
            rig.kinds(),
            [
                "disk.staged",
                "disk.published",
                "node-agent.mounted",
                "workload.started",
                "workload.stopped",
                "disk.unpublished",
                "node-agent.unmounted",
                "disk.unstaged",
            ]
        );
        // The device is gone, but the volume leaves volumesInUse only at the next status tick.
        assert!(rig.in_use());
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert!(rig.disk.mounts().await.expect("mounts").is_empty());
        for dir in ["/var/lib/kubelet/pods", "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com"] {
            let left = rig.disk.list_dir(dir.as_ref()).await.expect("a listing").unwrap_or_default();
            assert!(left.is_empty(), "{dir}: {left:?}");
        }
        let file = disks.durable("vol-1", machine::FILE).expect("the file");
        assert_eq!(records::Chain::verify(&file).map(|c| c.last), Ok(10));
        let events = rig.toy.events().join("\n");
        for event in [
            "Pulled Container image \"busybox\"",
            "Created Container created",
            "Started Container started",
            "Killing Stopping container app",
        ] {
            assert!(events.contains(event), "{event} is not in\n{events}");
        }
    });
}

#[test]
fn a_rebooted_node_brings_its_pods_back_and_their_records_verify() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.until("records", 10, || rig.count("workload.synced") == 3).await;
        rig.node.crash();
        rig.disk.crash().await.expect("crashed");
        tokio::time::sleep(Duration::from_secs(20)).await;
        rig.plug().await;
        rig.node.restart();
        rig.until("second start", 15, || rig.count("workload.started") == 2).await;
        assert_eq!(rig.found(), Some((3, true)));
        assert_eq!(rig.pod_phase("p"), "Running");
    });
}

#[test]
fn a_restarted_agent_takes_down_what_a_pod_that_is_gone_left_behind() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.crash();
        rig.toy.delete("pods", "default", "p");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.disk.mounts().await.expect("mounts").len(), 2);
        rig.node.restart();
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert!(rig.disk.mounts().await.expect("mounts").is_empty());
        let left = rig.disk.list_dir("/var/lib/kubelet/pods".as_ref()).await.expect("a listing");
        assert_eq!(left.unwrap_or_default(), Vec::<String>::new());
    });
}

#[test]
fn a_pod_that_is_removed_at_once_is_still_torn_down() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.toy.delete("pods", "default", "p");
        rig.until("unstaged", 2, || rig.count("disk.unstaged") == 1).await;
        assert_eq!(rig.count("workload.stopped"), 1);
    });
}

#[test]
fn an_unbound_claim_is_reported_and_retried() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.plug().await;
        rig.claim_and_pod("p");
        rig.toy.patch("persistentvolumeclaims", "default", "data", &json!({ "status": { "phase": "Pending" } }));
        let message = "FailedMount Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
                       failed to process volumes=[data]: error processing PVC default/data: PVC is not bound";
        rig.until("the event", 2, || rig.toy.events().iter().any(|e| e == message)).await;
        rig.toy.patch("persistentvolumeclaims", "default", "data", &json!({ "status": { "phase": "Bound" } }));
        // The next sync comes after 10 to 15 seconds, and the next status tick after that.
        rig.until("volumesInUse", 30, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
    });
}

#[test]
fn a_corrupt_history_is_found_and_not_touched() {
    in_simulation(async |world| {
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.until("records", 10, || rig.count("workload.synced") == 2).await;
        let path = rig.disk.mounts().await.expect("mounts").into_iter().map(|m| m.path).find(|p| p.ends_with("mount"));
        let file = path.expect("a target").join(machine::FILE);
        rig.disk.append(&file, b"9 intruder 00\n").await.expect("appended");
        rig.disk.sync(&file).await.expect("synced");
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        rig.run_pod("q").await;
        rig.until("corrupt", 1, || rig.count("workload.corrupt") == 1).await;
        let synced = rig.count("workload.synced");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(rig.count("workload.synced"), synced);
    });
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = || {
        simulate(Options { level: substrate::Level::Trace, ..Options::default() }, async |world| {
            let rig = Rig::new(&world, &MemoryDisks::new());
            rig.until("ready", 1, || rig.ready()).await;
            rig.run_pod("p").await;
            tokio::time::sleep(Duration::from_secs(30)).await;
            world.trace().lines().iter().map(substrate::Line::text).collect::<Vec<_>>()
        })
    };
    let (first, second) = (run(), run());
    assert!(first.len() > 100);
    assert_eq!(first, second);
}
