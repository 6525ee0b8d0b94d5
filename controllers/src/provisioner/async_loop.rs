//! The async loop: queues of claims, of volumes, and of objects whose save failed.

mod capacity;
mod clones;
mod deletion;
mod snapshots;
mod sources;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::{CreateVolumeRequest, DeleteVolumeRequest, Volume};
use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, Secret as SecretObject, SecretReference,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use rand_core::Rng;
use substrate::HttpService;
use substrate::mutant;
use substrate::process::Ctx;
use tonic::{Code, Status};

use self::capacity::Publisher;
use super::decide;
use super::outcome::{self, State};
use super::parameters::Secret;
use super::persistent_volume::{Provisioner, persistent_volume};
use super::request::{Capabilities, Flags, PrepareError, Prepared, add_parameters, prepare, volume_name};
use super::source::Source;
use super::topology::{Cluster, Remembered, TopologyError, requirement};
use crate::Timers;
use crate::binder::annotations::SELECTED_NODE;
use crate::binder::object::{annotation, claim_class, remove_annotation, requested_bytes};
use crate::csi::{Connection, RpcError};
use crate::events::ProvisionerError;
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::metrics::{Metrics, families};

/// Name of the EFS driver (its `pkg/driver/driver.go`).
const EFS_DRIVER: &str = "efs.csi.aws.com";

/// Attempts at the DeleteVolume that removes a volume that is too small (`deleteVolumeRetryCount`).
const CLEANUP_TRIES: usize = 5;

/// Configuration of the provisioner.
#[derive(Clone)]
pub struct Config {
    /// The CSI driver's Identity and Controller services.
    pub csi: HttpService,
    /// Waits: `provisioner_timeout`, `sidecar_retry_start`, `sidecar_retry_max`.
    pub timers: Timers,
    /// `--default-fstype`; the EBS chart sets `ext4`.
    pub default_fs_type: String,
    /// `--extra-create-metadata`; the EBS chart sets it.
    pub extra_create_metadata: bool,
    /// `--strict-topology`.
    pub strict_topology: bool,
    /// `--immediate-topology`.
    pub immediate_topology: bool,
    /// `--controller-publish-readonly`.
    pub controller_publish_readonly: bool,
}

impl Config {
    /// Returns the flags of the EBS chart, and upstream's defaults for the others.
    pub fn new(csi: HttpService, timers: Timers) -> Self {
        Self {
            csi,
            timers,
            default_fs_type: "ext4".to_owned(),
            extra_create_metadata: true,
            strict_topology: false,
            immediate_topology: true,
            controller_publish_readonly: false,
        }
    }
}

/// Provisioner after its driver answered.
pub struct Reached {
    config: Config,
    driver: Driver,
}

impl Reached {
    /// Waits until the driver answers.
    pub async fn connect(ctx: &Ctx, config: Config) -> Self {
        let connection = Connection::new(ctx, config.csi.clone(), config.timers.provisioner_timeout);
        let driver = connection.driver().await;
        let driver = Driver { capabilities: Capabilities::from(&driver), name: driver.name, connection };
        let mut config = config;
        if driver.name == EFS_DRIVER {
            // The deployment of the EFS driver does not set `--default-fstype`.
            config.default_fs_type.clear();
        }
        Self { config, driver }
    }

    /// Returns the driver's name.
    pub fn driver(&self) -> &str {
        &self.driver.name
    }
}

/// Runs the provisioner forever. `client` is the sidecar's own (user agent `csi-provisioner`).
pub async fn run(ctx: Ctx, client: Client, reached: Reached) {
    let Reached { config, driver } = reached;
    let mut rng = ctx.rng("provisioner");
    let identity = format!("{}-{}-{}", ctx.now().wall.as_millisecond(), rng.next_u32() % 10_000, driver.name);
    // Host name and a unique suffix, like the event source of the library.
    let component = format!("{}_{}_{}", driver.name, ctx.name(), substrate::ids::uuid(&mut rng));
    let sources = Sources {
        claims: Informer::start(&ctx, client.all(), ListParams::default()),
        volumes: Informer::start(&ctx, client.all(), ListParams::default()),
        classes: Informer::start(&ctx, client.all(), ListParams::default()),
        nodes: Informer::start(&ctx, client.all(), ListParams::default()),
        csi_nodes: Informer::start(&ctx, client.all(), ListParams::default()),
        attachments: Informer::start(&ctx, client.all(), ListParams::default()),
    };
    sources.claims.synced().await;
    sources.volumes.synced().await;
    sources.classes.synced().await;
    sources.nodes.synced().await;
    sources.csi_nodes.synced().await;
    sources.attachments.synced().await;

    let capacity = Publisher::start(&ctx, &client, &config.timers, &driver, &sources);
    let (base, max) = (config.timers.sidecar_retry_start, config.timers.sidecar_retry_max);
    let controller = Arc::new(Controller {
        recorder: EventRecorder::new(&client, &component),
        claims: WorkQueue::new(&ctx, base, max).named("claims"),
        volumes: WorkQueue::new(&ctx, base, max).named("volumes"),
        unsaved: WorkQueue::new(&ctx, base, max).named("unsavedpvs"),
        state: Mutex::default(),
        flags: Flags {
            default_fs_type: config.default_fs_type.clone(),
            extra_create_metadata: config.extra_create_metadata,
            volume_name_prefix: "pvc".to_owned(),
        },
        metrics: Metrics::of(&ctx),
        ctx: ctx.clone(),
        client,
        config,
        driver,
        identity,
        sources,
        capacity,
    });
    if controller.driver.capabilities.clone_volume {
        ctx.spawn(clones::run(controller.clone()));
    }
    if controller.driver.capabilities.create_delete_snapshot {
        ctx.spawn(snapshots::run(controller.clone()));
    }
    let (mut claims, mut volumes) = (controller.sources.claims.subscribe(), controller.sources.volumes.subscribe());
    let workers = controller.config.timers.workers.provisioner;
    let worker = controller.clone();
    ctx.spawn(controller.claims.clone().run(workers, move |uid| worker.clone().claim(uid)));
    let worker = controller.clone();
    ctx.spawn(controller.volumes.clone().run(workers, move |name| worker.clone().volume(name)));
    let worker = controller.clone();
    ctx.spawn(controller.unsaved.clone().run(workers, move |name| worker.clone().save_again(name)));
    loop {
        tokio::select! { biased;
            Some(delta) = volumes.recv() => controller.volume_changed(&delta),
            Some(delta) = claims.recv() => controller.claim_changed(&delta),
        }
    }
}

struct Driver {
    connection: Connection,
    name: String,
    capabilities: Capabilities,
}

struct Sources {
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    classes: Informer<StorageClass>,
    nodes: Informer<Node>,
    csi_nodes: Informer<CSINode>,
    attachments: Informer<VolumeAttachment>,
}

#[derive(Default)]
struct Memory {
    /// Cached claims by uid.
    claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// Claims whose volume the driver may still be creating; they outlive their object.
    in_progress: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    topology: BTreeMap<String, Remembered>,
    /// Claims that failed permanently, with their class's uid and the end of the delay.
    infeasible: BTreeMap<String, (String, Duration)>,
    /// Objects whose creation failed; retried.
    unsaved: BTreeMap<String, Box<PersistentVolume>>,
}

/// Labels of a claim's metrics: its class, and the kind of its source.
fn labels(claim: &PersistentVolumeClaim) -> [&str; 2] {
    let source = claim.spec.as_ref().and_then(|spec| spec.data_source.as_ref());
    [claim_class(claim), source.map_or("", |source| source.kind.as_str())]
}

struct Controller {
    ctx: Ctx,
    metrics: Metrics,
    client: Client,
    config: Config,
    flags: Flags,
    driver: Driver,
    identity: String,
    recorder: EventRecorder,
    sources: Sources,
    claims: WorkQueue<String>,
    volumes: WorkQueue<String>,
    unsaved: WorkQueue<String>,
    state: Mutex<Memory>,
    /// Publishes the driver's capacity; None without `--enable-capacity`.
    capacity: Option<Arc<Publisher>>,
}

/// Reason why an attempt created no volume.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
enum Failure {
    /// {0}
    Prepare(PrepareError),
    /// error generating accessibility requirements: {0}
    Topology(TopologyError),
    /// error getting handle for DataSource Type {0} by Name {1}: {2}
    Source(&'static str, String, String),
    /// {0}
    Other(String),
    /// {0}
    Rpc(String, Code),
    /// created volume capacity {0} less than requested capacity {1}{2}
    TooSmall(i64, i64, String),
    /// volume content source missing{0}
    NoSource(String),
}

impl Controller {
    fn claim_changed(&self, delta: &Delta<PersistentVolumeClaim>) {
        match delta {
            Delta::Applied { new, .. } => {
                self.state().claims.insert(new.uid().to_owned(), new.clone());
                // An item in backoff is retried anyway.
                if self.claims.requeues(&new.uid().to_owned()) == 0 {
                    self.claims.add(new.uid().to_owned());
                }
            }
            // A claim whose volume may be under creation is in `in_progress` and in the queue.
            Delta::Deleted(claim) => drop(self.state().claims.remove(claim.uid())),
        }
    }

    fn volume_changed(&self, delta: &Delta<PersistentVolume>) {
        match delta {
            Delta::Applied { new, .. } => {
                let name = new.name().to_owned();
                if self.volumes.requeues(&name) == 0 && decide::is_ours(new, &self.driver.name) {
                    self.volumes.add(name);
                }
            }
            Delta::Deleted(volume) => self.volumes.forget(&volume.name().to_owned()),
        }
    }

    async fn claim(self: Arc<Self>, uid: String) -> Outcome {
        let claim = {
            let state = self.state();
            state.claims.get(&uid).or_else(|| state.in_progress.get(&uid)).cloned()
        };
        let Some(claim) = claim else { return Outcome::Done };
        let class = self.sources.classes.get("", claim_class(&claim));
        if self.is_delayed(&uid, class.as_deref()) {
            return Outcome::Retry;
        }
        let class = match decide::should_provision(&claim, &self.driver.name, class.as_deref()) {
            Err(_) => return Outcome::Retry,
            Ok(true) => class,
            Ok(false) => None,
        };
        let Some(class) = class else {
            self.state().in_progress.remove(&uid);
            return Outcome::Done;
        };
        let key = self.topology_key(&claim);
        let (state, outcome) = self.provision(&claim, &class).await;
        let mut memory = self.state();
        match state {
            State::Finished | State::Reschedule => drop(memory.in_progress.remove(&uid)),
            State::InBackground => drop(memory.in_progress.insert(uid.clone(), claim)),
            State::NoChange => {}
        }
        let remembers = state == State::Reschedule && mutant!(self.ctx, "former-zone-remembered");
        if matches!(state, State::Finished | State::Reschedule) && !remembers {
            memory.topology.remove(&key);
        }
        outcome
    }

    fn is_delayed(&self, uid: &str, class: Option<&StorageClass>) -> bool {
        let mut state = self.state();
        let Some((class_uid, until)) = state.infeasible.get(uid).cloned() else { return false };
        // A new class of the same name may be feasible.
        let is_new = class.is_some_and(|class| class.uid() != class_uid);
        if is_new && !mutant!(self.ctx, "infeasible-class-remembered") || self.ctx.now().mono >= until {
            state.infeasible.remove(uid);
            return false;
        }
        true
    }

    /// Makes one attempt to provision a claim (`provisionClaimOperation`).
    async fn provision(&self, claim: &Arc<PersistentVolumeClaim>, class: &StorageClass) -> (State, Outcome) {
        let began = self.ctx.now().mono;
        let name = volume_name(&self.flags.volume_name_prefix, claim);
        if self.sources.volumes.get("", &name).is_some() {
            return (State::Finished, Outcome::Done);
        }
        let object = Arc::new(reference(&**claim));
        let node = annotation(&claim.metadata, SELECTED_NODE);
        if let Some(node) = node.filter(|node| !node.is_empty() && self.node_is_gone(Some(node))) {
            self.recorder.event(object, "Warning", "ProvisioningFailed", format!("node {node:?} not found"));
            return self.reschedule(claim).await;
        }
        let key = format!("{}/{}", claim.namespace(), claim.name());
        let message = format!("External provisioner is provisioning volume for claim {key:?}");
        self.recorder.event(object.clone(), "Normal", "Provisioning", message);
        let (failure, state) = match self.create(claim, class).await {
            Ok((prepared, volume)) => {
                let provisioner = Provisioner {
                    driver: &self.driver.name,
                    identity: &self.identity,
                    topology: self.driver.capabilities.topology,
                    controller_publish_readonly: self.config.controller_publish_readonly,
                };
                let mut volume = persistent_volume(claim, class, &prepared, &volume, provisioner);
                if let Some(spec) = &mut volume.spec {
                    if mutant!(self.ctx, "class-mount-options-dropped") {
                        spec.mount_options = None;
                    }
                    if mutant!(self.ctx, "fs-type-dropped")
                        && let Some(csi) = &mut spec.csi
                    {
                        csi.fs_type = None;
                    }
                    if mutant!(self.ctx, "access-modes-dropped") {
                        spec.access_modes = Some(vec!["ReadWriteOnce".to_owned()]);
                    }
                    if mutant!(self.ctx, "node-affinity-not-written") {
                        spec.node_affinity = None;
                    }
                    if mutant!(self.ctx, "reclaim-policy-dropped") {
                        spec.persistent_volume_reclaim_policy = Some("Delete".to_owned());
                    }
                }
                if let Some(capacity) = &self.capacity {
                    capacity.volume_created(&volume, class);
                }
                self.save(Box::new(volume)).await;
                let took = self.ctx.now().mono.saturating_sub(began);
                self.metrics.observe(&families::PROVISION_SECONDS, &labels(claim), took);
                self.metrics.count(&families::PROVISION_TOTAL, &labels(claim));
                return (State::Finished, Outcome::Done);
            }
            Err(failed) => failed,
        };
        if let Some(capacity) = &self.capacity {
            capacity.creation_failed(state, class);
        }
        if let Failure::Prepare(PrepareError::Populator(_)) = failure {
            let message = "Assuming an external populator will provision the volume";
            self.recorder.event(object.clone(), "Normal", "Provisioning", message);
            return (State::Finished, Outcome::Done);
        }
        self.metrics.count(&families::PROVISION_FAILED, &labels(claim));
        if let Failure::Rpc(_, code) = failure
            && outcome::infeasible(code)
        {
            let until = self.ctx.now().mono + self.ctx.scaled(self.config.timers.sidecar_retry_max);
            self.state().infeasible.insert(claim.uid().to_owned(), (class.uid().to_owned(), until));
            let message =
                format!("Volume provisioning failed with infeasible error. Retries will be delayed. {failure}");
            self.recorder.event(object.clone(), "Warning", "ProvisioningFailed", message);
            return (State::Finished, Outcome::Retry);
        }
        self.recorder.event(object.clone(), "Warning", "ProvisioningFailed", failure.to_string());
        if state == State::Reschedule {
            return self.reschedule(claim).await;
        }
        if state == State::Finished && mutant!(self.ctx, "failed-creation-not-retried") {
            return (state, Outcome::Done);
        }
        (state, Outcome::Retry)
    }

    /// Removes the selected node, so that the scheduler chooses again (`rescheduleProvisioning`).
    async fn reschedule(&self, claim: &PersistentVolumeClaim) -> (State, Outcome) {
        if mutant!(self.ctx, "selected-node-kept") {
            return (State::Finished, Outcome::Retry);
        }
        let mut changed = claim.clone();
        remove_annotation(&mut changed.metadata, SELECTED_NODE);
        match self.client.all().replace(&changed).await {
            Ok(_) => (State::Reschedule, Outcome::Done),
            Err(_) if mutant!(self.ctx, "failed-reschedule-not-retried") => (State::Finished, Outcome::Done),
            Err(_) => (State::Finished, Outcome::Retry),
        }
    }

    async fn create(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        class: &StorageClass,
    ) -> Result<(Prepared, Volume), (Failure, State)> {
        let capabilities = self.driver.capabilities;
        let mut prepared =
            prepare(claim, class, capabilities, &self.flags).map_err(|e| (Failure::Prepare(e), State::Finished))?;
        if let Some(source) = &prepared.source {
            let found = self
                .content(claim, class, source)
                .await
                .map_err(|e| (Failure::Source(source.kind(), source.name().to_owned(), e), State::NoChange))?;
            prepared.request.volume_content_source = Some(found);
            self.hold(claim, source).await.map_err(|e| (Failure::Other(e), State::NoChange))?;
        }
        let node = annotation(&claim.metadata, SELECTED_NODE).filter(|node| !node.is_empty());
        let asks_topology = node.is_some() || self.config.immediate_topology || class.allowed_topologies.is_some();
        if capabilities.topology && asks_topology && !mutant!(self.ctx, "zone-not-passed") {
            prepared.request.accessibility_requirements = self.topology(claim, class, node).map_err(|e| {
                // Without the node there is no topology: let the scheduler choose another node.
                let gone = matches!(e, TopologyError::NoCsiNode(_)) && self.node_is_gone(node);
                (Failure::Topology(e), if gone { State::Reschedule } else { State::NoChange })
            })?;
        }
        add_parameters(&mut prepared, claim, class, &self.flags).map_err(|e| {
            let state = if matches!(e, PrepareError::Secret(_)) { State::NoChange } else { State::Finished };
            (Failure::Prepare(e), state)
        })?;
        if let Some(secret) = prepared.secrets.get(&Secret::Provisioner) {
            prepared.request.secrets =
                self.credentials(secret).await.map_err(|e| (Failure::Other(e), State::NoChange))?;
        }
        if let Some(name) = &prepared.attributes_class
            && !mutant!(self.ctx, "creation-without-attributes")
        {
            prepared.request.mutable_parameters = self.mutable_parameters(name).await?;
        }
        let mut request = prepared.request.clone();
        if mutant!(self.ctx, "provision-under-new-name") {
            request.name += &format!("-{}", self.ctx.now().mono.as_millis());
        }
        let volume = self.create_volume(request).await.map_err(|e| {
            let code = e.code().unwrap_or(Code::Unknown);
            let mut state = outcome::classify(code, capabilities.topology && node.is_some());
            if state == State::InBackground && self.forgets_creation(code) {
                state = State::Finished;
            }
            (Failure::Rpc(e.to_string(), code), state)
        })?;
        let requested = requested_bytes(claim);
        if volume.capacity_bytes != 0 && volume.capacity_bytes < requested {
            let orphan = self.orphaned(&volume.volume_id, &prepared, "Cleanup").await;
            let failure = Failure::TooSmall(volume.capacity_bytes, requested, orphan);
            // Retried in the background, in the hope that the next DeleteVolume succeeds.
            return Err((failure, State::InBackground));
        }
        let has_source = claim.spec.as_ref().is_some_and(|s| s.data_source.is_some());
        if has_source && volume.content_source.is_none() {
            let orphan = self.orphaned(&volume.volume_id, &prepared, "cleanup").await;
            return Err((Failure::NoSource(orphan), State::InBackground));
        }
        if let Some(Source::Snapshot(name)) = &prepared.source
            && let Err(e) = self.release_snapshot(claim.namespace(), name).await
        {
            self.trace("release", name, &e);
        }
        Ok((prepared, volume))
    }

    fn topology(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        node: Option<&str>,
    ) -> Result<Option<csi_proto::csi::TopologyRequirement>, TopologyError> {
        let cluster = Cluster {
            node: &|name| self.sources.nodes.get("", name),
            csi_node: &|name| self.sources.csi_nodes.get("", name),
            nodes: &|| self.sources.nodes.list(),
            csi_nodes: &|| self.sources.csi_nodes.list(),
        };
        let mut state = self.state();
        let remembered = state.topology.entry(self.topology_key(claim)).or_default();
        let allowed = self.allowed_topologies(class);
        let ids = (claim.name(), claim.uid());
        requirement(&self.driver.name, ids, &allowed, node, self.config.strict_topology, &cluster, remembered)
    }

    fn node_is_gone(&self, node: Option<&str>) -> bool {
        node.is_some_and(|node| self.sources.nodes.get("", node).is_none())
    }

    async fn create_volume(&self, request: CreateVolumeRequest) -> Result<Volume, RpcError> {
        let driver = &self.driver.connection;
        let answer = driver.call(driver.controller().create_volume(request)).await?;
        answer.volume.ok_or_else(|| Status::internal("CreateVolume returned no volume").into())
    }

    async fn delete_volume(&self, volume_id: &str, secrets: BTreeMap<String, String>) -> Result<(), RpcError> {
        let driver = &self.driver.connection;
        let request = DeleteVolumeRequest { volume_id: volume_id.to_owned(), secrets };
        driver.call(driver.controller().delete_volume(request)).await.map(drop)
    }

    /// Deletes a wrong volume. Returns a text if that fails.
    async fn orphaned(&self, volume_id: &str, prepared: &Prepared, what: &str) -> String {
        match self.clean_up(volume_id, prepared).await {
            Ok(()) => String::new(),
            Err(e) => format!(". {what} of volume {} failed, volume is orphaned: {e}", prepared.request.name),
        }
    }

    async fn clean_up(&self, volume_id: &str, prepared: &Prepared) -> Result<(), RpcError> {
        let mut last = Ok(());
        for _ in 0..CLEANUP_TRIES {
            last = self.delete_volume(volume_id, prepared.request.secrets.clone()).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn credentials(&self, secret: &SecretReference) -> Result<BTreeMap<String, String>, String> {
        let name = secret.name.as_deref().unwrap_or_default();
        let namespace = secret.namespace.as_deref().unwrap_or_default();
        let object = self.client.namespaced::<SecretObject>(namespace).get(name).await;
        let object = object.map_err(|e| format!("error getting secret {name} in namespace {namespace}: {e}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(object.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))).collect())
    }

    /// Creates the object. Retries a failure forever, from memory (`volume_store.go`).
    async fn save(&self, volume: Box<PersistentVolume>) {
        if let Err(volume) = self.try_save(volume).await
            && !mutant!(self.ctx, "failed-save-dropped")
        {
            let name = volume.name().to_owned();
            self.state().unsaved.insert(name.clone(), volume);
            self.unsaved.add(name);
        }
    }

    async fn save_again(self: Arc<Self>, name: String) -> Outcome {
        let Some(volume) = self.state().unsaved.remove(&name) else { return Outcome::Done };
        match self.try_save(volume).await {
            Ok(()) => Outcome::Done,
            Err(volume) => {
                self.state().unsaved.insert(name, volume);
                Outcome::Retry
            }
        }
    }

    async fn try_save(&self, volume: Box<PersistentVolume>) -> Result<(), Box<PersistentVolume>> {
        match self.client.all::<PersistentVolume>().create_unread(&volume).await {
            Ok(_) => {}
            Err(e) if e.is_already_exists() => {}
            Err(e) => {
                self.trace("save", volume.name(), &e);
                return Err(volume);
            }
        }
        let uid = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()).and_then(|r| r.uid.as_deref());
        let claim = self.state().claims.get(uid.unwrap_or_default()).cloned();
        if let Some(claim) = claim.filter(|_| !mutant!(self.ctx, "provisioning-not-told")) {
            let message = format!("Successfully provisioned volume {}", volume.name());
            self.recorder.event(reference(&*claim), "Normal", "ProvisioningSucceeded", message);
        }
        Ok(())
    }

    fn trace(&self, what: &str, object: &str, error: &ApiError) {
        self.ctx.trace().emit_lazily(self.ctx.name(), || ProvisionerError {
            what: what.into(),
            object: object.into(),
            error: error.to_string(),
        });
    }

    fn state(&self) -> MutexGuard<'_, Memory> {
        self.state.lock()
    }
}
