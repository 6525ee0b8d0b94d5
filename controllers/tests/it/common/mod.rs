//! A simulated cluster with minimal kubelets: they only post leases.

#![allow(dead_code, reason = "some are only for tests of seeded bugs")]

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use controllers::kube::{Api, Client, DeleteParams, Guard, Kind, Patched, time};
use controllers::{Election, LOOPS, LoopsConfig, PROCESSES, runs};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use mock_ec2::{Config, Ec2, InstanceSpec};
use serde::de::DeserializeOwned;
use substrate::body::{Body, HttpService, call};
use substrate::json::{Value, json};
use substrate::link::Link;
use substrate::world::{Options, simulate};
use substrate::{Line, Process, World};
use tokio::sync::Notify;

pub const DRIVER: &str = "ebs.csi.aws.com";
pub const S: fn(u64) -> Duration = Duration::from_secs;

/// Changing request, as the API server received it.
#[derive(Clone, Debug)]
pub struct Written {
    pub ms: u64,
    pub agent: String,
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Patch type, such as `strategic-merge-patch+json`.
    pub kind: String,
    pub body: Value,
}

type Writes = Arc<Mutex<Vec<Written>>>;

/// Number of reads of each user agent.
type Reads = Arc<Mutex<BTreeMap<String, usize>>>;

/// Wraps `service`, records writes and counts reads.
fn recorded(world: &World, service: HttpService, writes: &Writes, reads: &Reads) -> HttpService {
    let (clock, writes, reads) = (world.clock().clone(), writes.clone(), reads.clone());
    HttpService::new(move |mut request| {
        let header = |request: &http::Request<Body>, name| {
            request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        if request.method() == http::Method::GET {
            *reads.lock().entry(header(&request, http::header::USER_AGENT)).or_default() += 1;
        } else {
            let body = request.body_mut().take_document(1 << 20).unwrap_or_default();
            let header = |name| header(&request, name);
            let written = Written {
                ms: clock.mono().as_millis() as u64,
                agent: header(http::header::USER_AGENT),
                method: request.method().to_string(),
                path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
                kind: header(http::header::CONTENT_TYPE).trim_start_matches("application/").to_owned(),
                body: body.clone(),
            };
            writes.lock().push(written);
            if !body.is_null() {
                *request.body_mut() = Body::document(body);
            }
        }
        call(service.clone(), request)
    })
}

pub struct Rig {
    writes: Writes,
    reads: Reads,
    pub world: World,
    pub client: Client,
    pub controllers: Vec<Process>,
    kubelets: Vec<Process>,
    servers: Vec<Process>,
    _user: Process,
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

/// Runs `process` under the name `name`. When it loses the lease, it crashes and restarts a second later.
fn replica(
    world: &World,
    process: &'static str,
    name: &str,
    without: &BTreeSet<String>,
    election: Option<Election>,
) -> Process {
    let config = LoopsConfig { without: without.clone(), election, ..LoopsConfig::default() };
    let ended = Arc::new(Notify::new());
    let reported = ended.clone();
    let replica = Process::start(world, name, move |ctx| {
        let (apiserver, csi) = (Link::connect(&ctx, "apiserver"), Link::connect(&ctx, "csi-controller"));
        let (config, ended) = (config.clone(), ended.clone());
        async move {
            controllers::run(ctx, process, apiserver, Some(csi), config).await;
            ended.notify_one();
        }
    });
    let kubelet = replica.clone();
    Process::start(world, &format!("kubelet of {name}"), move |ctx| {
        let (reported, replica) = (reported.clone(), kubelet.clone());
        async move {
            loop {
                reported.notified().await;
                replica.crash();
                ctx.sleep(S(1)).await;
                replica.restart();
            }
        }
    });
    replica
}

impl Rig {
    /// Starts a cluster without the garbage collector, which watches every kind, and without the loops of workloads: in
    /// most tests no object has an owner.
    pub async fn new(world: &World, nodes: &[&str], without: &[&str]) -> Self {
        let others = controllers::WORKLOADS.iter().copied().chain([controllers::GARBAGE_COLLECTOR]);
        let without: Vec<&str> = without.iter().copied().chain(others).collect();
        Self::with_all_loops(world, nodes, &without).await
    }

    /// Starts a cluster with all loops except those in `without`, without the kinds and loops of snapshots, and without the
    /// loops of rare workloads.
    pub async fn with_all_loops(world: &World, nodes: &[&str], without: &[&str]) -> Self {
        let left_out = [controllers::SNAPSHOT_CONTROLLER, controllers::SNAPSHOTTER, controllers::TTL];
        let others = controllers::RARE_WORKLOADS.iter().map(|(_, name)| *name).chain(left_out);
        let without: Vec<&str> = without.iter().copied().chain(others).collect();
        Self::start(world, nodes, &without, json!({})).await
    }

    /// Starts a cluster with the kinds and loops of snapshots, without a scheduler and without the garbage collector.
    pub async fn with_snapshots(world: &World, nodes: &[&str], without: &[&str]) -> Self {
        let others = ["kube-scheduler", controllers::GARBAGE_COLLECTOR, controllers::TTL];
        let others = controllers::RARE_WORKLOADS.iter().map(|(_, name)| *name).chain(others);
        let without: Vec<&str> = without.iter().copied().chain(others).collect();
        let definitions: Vec<Value> = controllers::snapshot::definitions().expect("definitions");
        let begin = json!({ "customresourcedefinitions.apiextensions.k8s.io": definitions });
        Self::start(world, nodes, &without, begin).await
    }

    /// Starts a cluster with the kinds of snapshots and with every loop except those in `without`.
    pub async fn whole(world: &World, nodes: &[&str], without: &[&str]) -> Self {
        let definitions: Vec<Value> = controllers::snapshot::definitions().expect("definitions");
        let begin = json!({ "customresourcedefinitions.apiextensions.k8s.io": definitions });
        Self::start(world, nodes, without, begin).await
    }

    async fn start(world: &World, nodes: &[&str], without: &[&str], begin: Value) -> Self {
        let instances = nodes.iter().map(|name| InstanceSpec::new(*name, "us-east-1a")).collect();
        let config = Config { instances, ..Config::default() };
        let ec2 = Ec2::new(&world.seed().child("ec2"), config).expect("a cloud");
        let cloud = ec2.clone();
        let mut servers = vec![Process::start(world, "mock-ec2", move |ctx| {
            let service = cloud.start(&ctx);
            ctx.world().fabric().bind(&ctx, "ec2", service);
            pending()
        })];
        let apiserver = fake_apiserver::Apiserver::new(world.seed(), fake_apiserver::Config::default());
        let (writes, reads) = (Writes::default(), Reads::default());
        let kept = (writes.clone(), reads.clone());
        servers.push(Process::start(world, "fake-apiserver", move |ctx| {
            if begin != json!({}) {
                apiserver.open_with(&ctx, &begin).expect("the initial objects");
            }
            let service = recorded(ctx.world(), apiserver.start(&ctx), &kept.0, &kept.1);
            ctx.world().fabric().bind(&ctx, "apiserver", service);
            pending()
        }));
        servers.push(Process::start(world, "csi-controller", |ctx| {
            let config = csi_mock::controller::ControllerConfig::new(Link::connect(&ctx, "ec2"));
            let service = csi_mock::controller::start(&ctx, config);
            ctx.world().fabric().bind(&ctx, "csi-controller", service);
            pending()
        }));
        let without: BTreeSet<String> = without.iter().map(|name| (*name).to_owned()).collect();
        let controllers = PROCESSES
            .iter()
            .filter(|process| runs(process, &without))
            .map(|process| replica(world, process, process, &without, None))
            .collect();
        let user = Process::start(world, "user", |_| pending());
        let ctx = user.ctx().expect("runs");
        let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "test");
        let world = world.clone();
        let mut rig = Self { writes, reads, world, client, controllers, kubelets: Vec::new(), servers, _user: user };
        for instance in ec2.instances() {
            rig.node(&instance.name, &instance.id).await;
        }
        let class = json!({ "metadata": { "name": "ebs" }, "provisioner": DRIVER, "volumeBindingMode": "Immediate" });
        rig.client.all::<StorageClass>().create(&object(class)).await.expect("a class");
        rig
    }

    async fn node(&mut self, name: &str, instance: &str) {
        let labels = json!({
            "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a",
            "topology.ebs.csi.aws.com/zone": "us-east-1a",
        });
        let annotations = json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" });
        let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
        self.client.all::<Node>().create(&object(json!({ "metadata": metadata }))).await.expect("a node");
        let ready = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": time(self.world.clock().wall()) });
        self.patch_node_status(name, json!({ "conditions": [ready] })).await;
        let driver = json!({ "name": DRIVER, "nodeID": instance, "topologyKeys": ["topology.ebs.csi.aws.com/zone"] });
        let csi_node = json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } });
        self.client.all::<CSINode>().create(&object(csi_node)).await.expect("a CSINode");
        let node = name.to_owned();
        self.kubelets.push(Process::start(&self.world, name, move |ctx| {
            let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "kubelet");
            let node = node.clone();
            async move {
                let leases = client.namespaced::<Lease>("kube-node-lease");
                let spec = json!({ "renewTime": MicroTime(ctx.now().wall) });
                let lease = object(json!({ "metadata": { "name": node }, "spec": spec }));
                let mut lease = leases.create(&lease).await.expect("a lease");
                loop {
                    ctx.sleep(S(10)).await;
                    let mut renewed = Lease::clone(&lease);
                    renewed.spec.get_or_insert_default().renew_time = Some(MicroTime(ctx.now().wall));
                    lease = leases.replace(&renewed).await.expect("a renewal");
                }
            }
        }));
    }

    /// Starts another replica of `process`, as `identity`.
    pub fn replica(&self, process: &'static str, identity: &str) -> Process {
        replica(&self.world, process, identity, &BTreeSet::new(), Some(Election::new(identity)))
    }

    pub fn crash_controllers(&self) {
        self.controllers.iter().for_each(Process::crash);
    }

    pub fn restart_controllers(&self) {
        self.controllers.iter().for_each(Process::restart);
    }

    pub fn crash(&self, node: &str) {
        self.kubelets.iter().find(|p| &**p.name() == node).expect("a node").crash();
    }

    /// Crashes a server permanently: `mock-ec2`, `fake-apiserver` or `csi-controller`.
    pub fn crash_server(&self, name: &str) {
        self.servers.iter().find(|p| &**p.name() == name).expect("a server").crash();
    }

    /// Sets fields of a node's status; conditions are set one by one.
    pub async fn patch_node_status(&self, name: &str, status: Value) {
        edit_status(&self.client.all::<Node>(), name, status).await;
    }

    /// Reports volumesInUse as the kubelet of `node`.
    pub async fn in_use(&self, node: &str, volumes: &[String]) {
        self.patch_node_status(node, json!({ "volumesInUse": volumes })).await;
    }

    pub async fn claim(&self, name: &str) {
        let claim = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "ebs", "resources": { "requests": { "storage": "1Gi" } },
        } });
        self.client.namespaced::<PersistentVolumeClaim>("default").create(&object(claim)).await.expect("a claim");
        self.until(S(30), "the claim is bound", || async {
            let claim = self.client.namespaced::<PersistentVolumeClaim>("default").get(name).await.expect("the claim");
            claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound")
        })
        .await;
    }

    /// Creates a running pod on `node` with the claim.
    pub async fn pod(&self, name: &str, node: &str, claim: &str) {
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim } });
        let pod = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": {
            "nodeName": node, "containers": [{ "name": "c", "image": "i" }], "volumes": [volume],
        } });
        self.pods().create(&object(pod)).await.expect("a pod");
        let container = json!({ "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } });
        let ready = json!({ "type": "Ready", "status": "True" });
        let status = json!({ "phase": "Running", "conditions": [ready], "containerStatuses": [container] });
        edit_status(&self.pods(), name, status).await;
    }

    pub async fn force_delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams::force()).await.expect("deleted");
    }

    pub fn pods(&self) -> Api<Pod> {
        self.client.namespaced("default")
    }

    pub async fn attached(&self, node: &str) -> Vec<String> {
        let node = self.client.all::<Node>().get(node).await.expect("the node");
        let volumes = node.status.iter().flat_map(|s| s.volumes_attached.iter().flatten());
        volumes.map(|v| v.name.clone()).collect()
    }

    pub async fn until_attached(&self, node: &str, limit: Duration) -> Vec<String> {
        self.until(limit, "a volume is attached", || async { !self.attached(node).await.is_empty() }).await;
        self.attached(node).await
    }

    pub async fn attachments(&self) -> Vec<VolumeAttachment> {
        self.client.all().list(&Default::default()).await.expect("a list").items
    }

    pub async fn sleep(&self, d: Duration) {
        self.world.clock().sleep_until(self.world.clock().mono() + d).await;
    }

    pub async fn until<F: Future<Output = bool>>(&self, limit: Duration, what: &str, holds: impl Fn() -> F) {
        let deadline = self.world.clock().mono() + limit;
        while !holds().await {
            assert!(self.world.clock().mono() < deadline, "not within {limit:?}: {what}\n{}", self.tail());
            self.sleep(Duration::from_millis(100)).await;
        }
    }

    fn tail(&self) -> String {
        self.world.trace().tail(60).join("\n")
    }

    pub fn seconds(&self) -> f64 {
        self.world.clock().mono().as_secs_f64()
    }

    pub fn events(&self, kind: &str) -> Vec<Line> {
        self.world.trace().lines().into_iter().filter(|e| e.kind == kind).collect()
    }

    /// Returns the texts of the Kubernetes events of one reason.
    pub fn messages(&self, reason: &str) -> Vec<String> {
        let events = self.events("k8s.event");
        let of = events.iter().filter(|e| e.str("reason") == Some(reason));
        of.filter_map(|e| e.str("message").map(str::to_owned)).collect()
    }

    /// Returns the writes since `from` whose path contains `part`.
    pub fn written(&self, from: u64, part: &str) -> Vec<Written> {
        let all = self.writes.lock();
        all.iter().filter(|w| w.ms >= from && w.path.contains(part)).cloned().collect()
    }

    /// Returns the number of reads of each user agent so far.
    pub fn reads(&self) -> BTreeMap<String, usize> {
        self.reads.lock().clone()
    }

    /// Starts the loop `name`, which the cluster was started without, in a process of its own.
    pub fn start_late(&self, name: &'static str) -> Process {
        let without = LOOPS.iter().filter(|other| **other != name).map(|other| (*other).to_owned()).collect();
        let process = PROCESSES.iter().find(|process| runs(process, &without)).expect("a process has the loop");
        replica(&self.world, process, &format!("late {name}"), &without, None)
    }

    /// Returns milliseconds since the start.
    pub fn now_ms(&self) -> u64 {
        self.world.clock().mono().as_millis() as u64
    }

    /// Returns the times, in seconds, of the trace events of one kind.
    pub fn times(&self, kind: &str) -> Vec<f64> {
        self.events(kind).iter().map(|e| e.ms as f64 / 1000.0).collect()
    }
}

/// Reads an object, changes it and writes it whole. Retries if the object was changed meanwhile.
pub async fn rewrite<K: Kind>(api: &Api<K>, name: &str, change: impl Fn(&mut K)) {
    loop {
        let mut object = K::clone(&*api.get(name).await.expect("exists"));
        change(&mut object);
        match api.replace(&object).await {
            Err(error) if error.is_conflict() => {}
            answer => {
                answer.expect("written");
                return;
            }
        }
    }
}

pub async fn edit<K: Patched>(api: &Api<K>, name: &str, change: impl FnOnce(&mut K)) -> Arc<K> {
    let old = api.get(name).await.expect("the object");
    let mut new = K::clone(&old);
    change(&mut new);
    api.merge_patch(&old, &new, Guard::None).await.expect("patched").unwrap_or(old)
}

/// Sets fields of an object's status; conditions are set one by one.
pub async fn edit_status<K: Patched>(api: &Api<K>, name: &str, status: Value) {
    let old = api.get(name).await.expect("the object");
    let mut tree = substrate::json::to_value(&*old).expect("an object");
    let Value::Object(members) = status else { panic!("no status: {status}") };
    for (field, value) in members {
        let slot = &mut tree["status"][field.as_str()];
        match (slot.as_array_mut(), value) {
            (Some(present), Value::Array(new)) if field == "conditions" => {
                present.retain(|c| !new.iter().any(|new| new["type"] == c["type"]));
                present.extend(new);
            }
            (_, value) => *slot = value,
        }
    }
    api.strategic_patch_status(&old, &object(tree), Guard::None).await.expect("a status");
}

/// Runs `test` in a simulated world.
pub fn in_simulation<F: Future<Output = T>, T>(seed: u64, test: impl FnOnce(World) -> F) -> T {
    simulate(Options { seed, ..Options::default() }, test)
}

/// Runs `test` in a simulated world with the seeded bugs `mutants`.
pub fn mutated<F: Future<Output = T>, T>(mutants: &[&str], test: impl FnOnce(World) -> F) -> T {
    let mutants = mutants.iter().map(|name| (*name).to_owned()).collect();
    simulate(Options { mutants, ..Options::default() }, test)
}

/// Returns an object's name for a listing.
pub fn name<K: Kind>(object: &K) -> String {
    object.name().to_owned()
}
