//! Connects to the driver, fills the queue, does what [`super::plan`] says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::{CapacityRange, ControllerExpandVolumeRequest, ControllerModifyVolumeRequest};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret, SecretReference};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use substrate::body::HttpService;
use substrate::process::Ctx;
use tonic::{Code, Status};

use super::driver::{Driver, Introduction};
use super::patches;
use super::plan::{self, Modify, Resize};
use crate::csi::{RpcError, volume_capability};
use crate::binder::quantity;
use crate::kube::reference;
use crate::kube::{Api, ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, Outcome, Patch, WorkQueue};
use crate::timers::Timers;

/// `--workers`.
const WORKERS: usize = 10;
/// How long a claim waits that the driver said can never be done; the claim itself may change meanwhile.
const INFEASIBLE: Duration = Duration::from_secs(300);

/// Namespace and name of a claim.
type Key = (String, String);

/// external-resizer beside a driver that it has reached.
pub struct Reached {
    driver: Driver,
    known: Introduction,
}

impl Reached {
    /// Waits until the driver whose controller socket is `csi` answers.
    pub async fn connect(ctx: &Ctx, csi: HttpService, timers: &Timers) -> Self {
        let driver = Driver::new(ctx, csi, timers.resizer_timeout);
        let known = driver.connect().await;
        Self { driver, known }
    }

    /// The driver's name.
    pub fn driver(&self) -> &str {
        &self.known.name
    }
}

/// Runs external-resizer for ever.
pub async fn run(ctx: Ctx, client: Client, reached: Reached, timers: Timers) {
    let Reached { driver, known } = reached;
    let claims = Informer::<PersistentVolumeClaim>::start(&ctx, client.all(), ListParams::default());
    let volumes = Informer::<PersistentVolume>::start(&ctx, client.all(), ListParams::default());
    claims.synced().await;
    volumes.synced().await;
    let recorder = EventRecorder::new(&client, &format!("external-resizer {}", known.name));
    let resizer = Arc::new(Resizer {
        ctx: ctx.clone(),
        client,
        driver,
        known,
        recorder,
        claims: claims.clone(),
        volumes: volumes.clone(),
    });
    let queue = WorkQueue::new(&ctx, timers.sidecar_retry_start, timers.sidecar_retry_max);
    let worker = resizer.clone();
    ctx.spawn(queue.clone().run(WORKERS, move |key: Key| {
        let worker = worker.clone();
        async move { worker.sync(&key).await }
    }));
    let mut changes = claims.subscribe();
    while let Some(delta) = changes.recv().await {
        match delta {
            Delta::Applied { old, new } => {
                if old.is_none_or(|old| is_news(&old, &new)) && asks(&new) {
                    let key = (new.namespace().to_owned(), new.name().to_owned());
                    // A new wish does not wait for the end of an old one's backoff.
                    queue.forget(&key);
                    queue.add(key);
                }
            }
            Delta::Deleted(gone) => queue.forget(&(gone.namespace().to_owned(), gone.name().to_owned())),
        }
    }
}

/// Whether anything changed that is not the resizer's own writing down of what it does.
fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    let told = |claim: &PersistentVolumeClaim| {
        let status = claim.status.clone().unwrap_or_default();
        (status.phase, status.capacity, status.current_volume_attributes_class_name)
    };
    old.spec != new.spec || told(old) != told(new)
}

/// Whether a claim may need anything; its volume is looked at when it is its turn.
fn asks(claim: &PersistentVolumeClaim) -> bool {
    plan::modify(claim) != Modify::Nothing
        || plan::resize(claim, &PersistentVolume::default()) != Resize::Nothing
        || claim.status.as_ref().is_some_and(|s| s.allocated_resources.is_some())
}

struct Resizer {
    ctx: Ctx,
    client: Client,
    driver: Driver,
    known: Introduction,
    recorder: EventRecorder,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
}

/// Why an item must be tried again.
enum Trouble {
    /// After its backoff.
    Again,
    /// Not soon.
    Infeasible,
}

impl From<ApiError> for Trouble {
    fn from(_: ApiError) -> Self {
        Self::Again
    }
}

fn is_infeasible(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::OutOfRange | Code::NotFound)
}

impl Resizer {
    async fn sync(&self, (namespace, name): &Key) -> Outcome {
        let Some(claim) = self.claims.get(namespace, name) else { return Outcome::Done };
        let bound = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default();
        let Some(volume) = self.volumes.get("", bound) else {
            // The claim may have been faster than its volume.
            return if bound.is_empty() { Outcome::Done } else { Outcome::Retry };
        };
        if claim.is_deleting() || !plan::is_ours(&claim, &volume, &self.known.name) {
            return Outcome::Done;
        }
        match self.work(&claim, &volume).await {
            Ok(()) => Outcome::Done,
            Err(Trouble::Again) => Outcome::Retry,
            Err(Trouble::Infeasible) => Outcome::After(INFEASIBLE),
        }
    }

    async fn work(&self, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), Trouble> {
        if self.known.expand {
            match plan::resize(claim, volume) {
                Resize::Nothing => {}
                Resize::Forget => self.forget_earlier_size(volume).await?,
                Resize::Expand { to, recorded } => self.expand(claim, volume, (to, recorded)).await?,
            }
        }
        if !self.known.modify {
            return Ok(());
        }
        match plan::modify(claim) {
            Modify::Nothing => Ok(()),
            Modify::Cancel => {
                self.patch(claim, &patches::modified(None)).await?;
                let message = "external resizer canceled the modification of the volume";
                self.event(claim, "Normal", "VolumeModifyCanceled", message.to_owned());
                Ok(())
            }
            Modify::To { class, recorded } => self.modify(claim, volume, (&class, recorded)).await,
        }
    }

    fn event(&self, claim: &PersistentVolumeClaim, kind: &str, reason: &str, message: String) {
        self.recorder.event(reference(claim), kind, reason, message);
    }

    fn api(&self, claim: &PersistentVolumeClaim) -> Api<PersistentVolumeClaim> {
        self.client.namespaced(claim.namespace())
    }

    async fn patch(&self, claim: &PersistentVolumeClaim, patch: &Patch) -> Result<(), Trouble> {
        Ok(self.api(claim).patch_status(claim.name(), patch).await.map(drop)?)
    }

    async fn forget_earlier_size(&self, volume: &PersistentVolume) -> Result<(), Trouble> {
        let patch = patches::forget_earlier_size();
        Ok(self.client.all::<PersistentVolume>().patch(volume.name(), &patch).await.map(drop)?)
    }

    async fn secrets(&self, reference: Option<&SecretReference>) -> Result<BTreeMap<String, String>, Trouble> {
        let Some(reference) = reference else { return Ok(BTreeMap::new()) };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let secret =
            self.client.namespaced::<Secret>(namespace).get(reference.name.as_deref().unwrap_or_default()).await?;
        let text = |bytes: &k8s_openapi::ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
        Ok(secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    async fn expand(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        (to, recorded): (i64, bool),
    ) -> Result<(), Trouble> {
        let Some(spec) = &volume.spec else { return Ok(()) };
        let Some(csi) = &spec.csi else { return Ok(()) };
        let now = || self.ctx.now().wall;
        if !recorded {
            self.patch(claim, &patches::expanding(&quantity::bytes(to), now())).await?;
        }
        let message = format!("External resizer is resizing volume {}", volume.name());
        self.event(claim, "Normal", "Resizing", message);
        let request = ControllerExpandVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            capacity_range: Some(CapacityRange { required_bytes: to, limit_bytes: 0 }),
            secrets: self.secrets(csi.controller_expand_secret_ref.as_ref()).await?,
            // Modes that CSI does not know are the attacher's to complain about.
            volume_capability: volume_capability(spec, self.known.multi_writer).ok(),
        };
        let answer = match self.driver.expand(request).await {
            Ok(answer) => answer,
            Err(status) => return self.expansion_failed(claim, volume, status).await,
        };
        let size = quantity::bytes(answer.capacity_bytes.max(to));
        let before = spec.capacity.as_ref().and_then(|c| c.get("storage"));
        let before = match volume.annotation(plan::PRE_RESIZE_CAPACITY) {
            Some(earlier) => Some(k8s_openapi::apimachinery::pkg::api::resource::Quantity(earlier.to_owned())),
            None => before.cloned(),
        };
        let patch = patches::volume_size(&size, before.as_ref());
        self.client.all::<PersistentVolume>().patch(volume.name(), &patch).await?;
        if answer.node_expansion_required {
            self.patch(claim, &patches::node_pending(&size, now())).await?;
            let message = "Require file system resize of volume on node";
            self.event(claim, "Normal", "FileSystemResizeRequired", message.to_owned());
        } else {
            self.patch(claim, &patches::expanded(&size)).await?;
            self.forget_earlier_size(volume).await?;
            self.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded".to_owned());
        }
        Ok(())
    }

    async fn expansion_failed(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        status: Status,
    ) -> Result<(), Trouble> {
        let infeasible = is_infeasible(status.code());
        let error = RpcError::from(status);
        let message = format!("resize volume \"{}\" by resizer \"{}\" failed: {error}", volume.name(), self.known.name);
        self.patch(claim, &patches::expansion_failed(&message, infeasible, self.ctx.now().wall)).await?;
        self.event(claim, "Warning", "VolumeResizeFailed", message);
        Err(if infeasible { Trouble::Infeasible } else { Trouble::Again })
    }

    async fn modify(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        (name, recorded): (&str, bool),
    ) -> Result<(), Trouble> {
        let now = || self.ctx.now().wall;
        let class = match self.client.all::<VolumeAttributesClass>().get(name).await {
            Ok(class) => class,
            Err(error) if error.is_not_found() => {
                self.patch(claim, &patches::modifying(name, "Pending", None, now())).await?;
                self.event(claim, "Warning", "VolumeModifyFailed", format!("VAC {name} does not exist."));
                return Err(Trouble::Again);
            }
            Err(error) => return Err(error.into()),
        };
        if class.driver_name != self.known.name {
            return Ok(());
        }
        let Some(csi) = volume.spec.as_ref().and_then(|s| s.csi.as_ref()) else { return Ok(()) };
        if !recorded {
            self.patch(claim, &patches::modifying(name, "InProgress", None, now())).await?;
        }
        let message = format!("external resizer is modifying volume {} with vac {name}", claim.name());
        self.event(claim, "Normal", "VolumeModify", message);
        let request = ControllerModifyVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            secrets: BTreeMap::new(),
            mutable_parameters: class.parameters.clone().unwrap_or_default(),
        };
        if let Err(status) = self.driver.modify(request).await {
            let infeasible = is_infeasible(status.code());
            let code = format!("{:?}", status.code());
            let error = RpcError::from(status).to_string();
            let state = if infeasible { "Infeasible" } else { "InProgress" };
            self.patch(claim, &patches::modifying(name, state, Some((&code, &error)), now())).await?;
            self.event(claim, "Warning", "VolumeModifyFailed", error);
            return Err(if infeasible { Trouble::Infeasible } else { Trouble::Again });
        }
        self.client.all::<PersistentVolume>().patch(volume.name(), &patches::volume_class(name)).await?;
        self.patch(claim, &patches::modified(Some(name))).await?;
        let message = format!("external resizer modified volume {} with vac {name} successfully", claim.name());
        self.event(claim, "Normal", "VolumeModifySuccessful", message);
        Ok(())
    }
}
