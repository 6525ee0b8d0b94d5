//! Loop that modifies volumes to another VolumeAttributesClass (upstream `pkg/modifycontroller`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_proto::csi::ControllerModifyVolumeRequest;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use substrate::mutant;
use tonic::Code;

use super::async_loop::{Common, Key};
use super::class::{self, Step};
use super::class_status;
use super::slow::SlowSet;
use crate::binder::object::{claim_phase, volume_name};
use crate::csi::RpcError;
use crate::kube::{Delta, Guard, Informer, Kind, ListParams, Outcome, WorkQueue, reference};
use crate::provisioner::persistent_volume::{MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE};

struct Modifier {
    common: Common,
    classes: Informer<VolumeAttributesClass>,
    memory: Mutex<Memory>,
}

struct Memory {
    slow: SlowSet,
    /// Claims on whose last attempt the driver may still be working.
    uncertain: BTreeSet<Key>,
}

/// Error: retry the claim after its backoff.
struct Again;

/// Runs the loop forever.
pub(super) async fn run(common: Common) {
    let classes = Informer::<VolumeAttributesClass>::start(&common.ctx, common.client.all(), ListParams::default());
    common.volumes.synced().await;
    common.claims.synced().await;
    classes.synced().await;
    let timers = &common.timers;
    let workers = timers.workers.resizer;
    let queue =
        WorkQueue::new(&common.ctx, timers.sidecar_retry_start, timers.sidecar_retry_max).named("csi-modifier-pvc");
    let slow = SlowSet::new(common.ctx.scaled(timers.sidecar_retry_max));
    // The result of an earlier process's call is unknown.
    let mut uncertain = BTreeSet::new();
    common.claims.each(|claim| {
        if class::recorded(claim).is_some_and(|(_, state)| state == "InProgress") {
            uncertain.insert(Common::key(claim));
        }
    });
    let mut changes = common.claims.subscribe();
    let (ctx, volumes) = (common.ctx.clone(), common.volumes.clone());
    let modifier = Arc::new(Modifier { common, classes, memory: Mutex::new(Memory { slow, uncertain }) });
    ctx.spawn(queue.clone().run(workers, move |key: Key| {
        let modifier = modifier.clone();
        async move { modifier.sync(&key).await }
    }));
    while let Some(delta) = changes.recv().await {
        match delta {
            Delta::Applied { old, new } => {
                let counts =
                    old.is_none_or(|old| class::is_news(&old, &new) && volumes.get("", volume_name(&old)).is_some());
                if counts {
                    queue.add(Common::key(&new));
                }
            }
            Delta::Deleted(gone) => queue.forget(&Common::key(&gone)),
        }
    }
}

impl Modifier {
    async fn sync(&self, key: &Key) -> Outcome {
        let Some(claim) = self.common.claims.get(&key.0, &key.1) else { return Outcome::Done };
        if volume_name(&claim).is_empty() {
            return Outcome::Done;
        }
        let Some(volume) = self.common.volumes.get("", volume_name(&claim)) else { return Outcome::Retry };
        let csi = volume.spec.as_ref().and_then(|s| s.csi.as_ref());
        if csi.is_none_or(|csi| csi.driver != self.common.driver.name) || claim_phase(&claim) != "Bound" {
            return Outcome::Done;
        }
        match self.modify(key, &claim, &volume).await {
            Ok(()) => Outcome::Done,
            Err(Again) => Outcome::Retry,
        }
    }

    /// Makes one attempt (`modify`).
    async fn modify(&self, key: &Key, claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Result<(), Again> {
        if self.is_delayed(key, claim) {
            return Err(Again);
        }
        let uncertain = self.memory().uncertain.contains(key);
        match class::step(claim, uncertain) {
            Step::Nothing => Ok(()),
            Step::RollBack => self.roll_back(claim).await,
            Step::GoOn(target) => {
                let class = self.class(claim, &target).ok_or(Again)?;
                self.call(key, claim, volume, &class).await
            }
            Step::Begin(target) => {
                let Some(class) = self.class(claim, &target) else {
                    return self.write(claim, &class_status::pending(claim)).await.map(drop);
                };
                let marked = class_status::in_progress(claim, self.common.ctx.now().wall);
                let claim = self.write(claim, &marked).await?;
                let message = format!("external resizer is modifying volume {} with vac {target}", claim.name());
                self.event(&claim, "Normal", "VolumeModify", message);
                self.call(key, &claim, volume, &class).await
            }
        }
    }

    /// Returns true shortly after an infeasible answer of the driver (`delayModificationIfRecentlyInfeasible`).
    fn is_delayed(&self, key: &Key, claim: &PersistentVolumeClaim) -> bool {
        let now = self.common.ctx.now().mono;
        let mut memory = self.memory();
        let wanted = claim.spec.as_ref().and_then(|s| s.volume_attributes_class_name.as_deref());
        let stays = mutant!(self.common.ctx, "infeasible-class-blocks-next");
        let Some((_, state)) = class::recorded(claim).filter(|(target, _)| stays || Some(*target) == wanted) else {
            memory.slow.remove(key);
            return false;
        };
        let slow = memory.slow.remaining(key, now).is_some();
        if state == "Infeasible" || mutant!(self.common.ctx, "unfinished-modification-delayed") {
            memory.slow.add(key, now);
        }
        slow
    }

    async fn roll_back(&self, claim: &PersistentVolumeClaim) -> Result<(), Again> {
        if !class_status::is_modifying(claim) {
            return Ok(());
        }
        self.event(claim, "Normal", "VolumeModifyCanceled", "Cancelled modify.".to_owned());
        let new = class_status::rolled_back(claim);
        self.common.patch_claim(claim, &new, Guard::None).await.map(drop).map_err(|_| Again)
    }

    fn class(&self, claim: &PersistentVolumeClaim, name: &str) -> Option<Arc<VolumeAttributesClass>> {
        let class = self.classes.get("", name);
        if class.is_none() {
            self.event(claim, "Warning", "VolumeModifyFailed", format!("VAC {name:?} does not exist."));
        }
        class
    }

    /// Calls the driver and records the result (`controllerModifyVolumeWithTarget`).
    async fn call(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        class: &VolumeAttributesClass,
    ) -> Result<(), Again> {
        if mutant!(self.common.ctx, "class-told-not-asked") {
            return self.complete(claim, volume, class).await;
        }
        let Err(error) = self.ask(volume, class).await else { return self.complete(claim, volume, class).await };
        let Some(code) = error.code() else { return Err(Again) };
        let mut message = error.to_string();
        if error.is_final() && !mutant!(self.common.ctx, "refused-class-not-let-go") {
            self.memory().uncertain.remove(key);
        } else {
            self.memory().uncertain.insert(key.clone());
            message.push_str(". Still modifying to VAC ");
            message.push_str(class.name());
        }
        let infeasible = code == Code::InvalidArgument;
        let failed = class_status::failed(claim, &error, infeasible, self.common.ctx.now().wall);
        let written = self.write(claim, &failed).await?;
        if infeasible {
            let now = self.common.ctx.now().mono;
            self.memory().slow.add(key, now);
        }
        self.event(&written, "Warning", "VolumeModifyFailed", message);
        Err(Again)
    }

    /// Calls ControllerModifyVolume.
    async fn ask(&self, volume: &PersistentVolume, class: &VolumeAttributesClass) -> Result<(), RpcError> {
        let csi = volume.spec.as_ref().and_then(|s| s.csi.as_ref());
        let csi = csi.filter(|csi| !csi.volume_handle.is_empty()).ok_or_else(|| "empty volume handle".to_owned())?;
        let named = |key| volume.annotation(key).filter(|name| !name.is_empty());
        let expand = csi.controller_expand_secret_ref.as_ref();
        let secret = match (named(MODIFY_SECRET_NAMESPACE), named(MODIFY_SECRET_NAME)) {
            (Some(namespace), Some(name)) => Some((namespace, name)),
            _ => expand.map(|s| (s.namespace.as_deref().unwrap_or_default(), s.name.as_deref().unwrap_or_default())),
        };
        let secrets = match secret {
            Some((namespace, name)) => self.common.secret(namespace, name).await?,
            None => BTreeMap::new(),
        };
        let request = ControllerModifyVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            secrets,
            mutable_parameters: class.parameters.clone().unwrap_or_default(),
        };
        let driver = &self.common.connection;
        driver.call(driver.controller().controller_modify_volume(request)).await.map(drop)
    }

    /// Patches the volume first, so that a crash leaves the claim stale, not the volume.
    async fn complete(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        class: &VolumeAttributesClass,
    ) -> Result<(), Again> {
        let mut new = class_status::completed(claim);
        let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
        if mutant!(self.common.ctx, "latest-class-told")
            && let (Some(status), Some(wanted)) = (&mut new.status, wanted)
        {
            status.current_volume_attributes_class_name = Some(wanted);
        }
        let mut modified = volume.clone();
        modified.spec.get_or_insert_default().volume_attributes_class_name =
            new.status.as_ref().and_then(|s| s.current_volume_attributes_class_name.clone());
        if mutant!(self.common.ctx, "claim-completed-before-volume") {
            self.common.patch_claim(claim, &new, Guard::None).await.map_err(|_| Again)?;
        }
        if !mutant!(self.common.ctx, "volume-class-not-written") {
            self.common.patch_volume(volume, &modified).await.map_err(|_| Again)?;
        }
        let claim = self.common.patch_claim(claim, &new, Guard::None).await.map_err(|_| Again)?;
        let message =
            format!("external resizer modified volume {} with vac {} successfully", claim.name(), class.name());
        self.event(&claim, "Normal", "VolumeModifySuccessful", message);
        Ok(())
    }

    async fn write(
        &self,
        old: &PersistentVolumeClaim,
        new: &PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolumeClaim>, Again> {
        self.common.patch_claim(old, new, Guard::ResourceVersion).await.map_err(|_| Again)
    }

    fn event(&self, claim: &PersistentVolumeClaim, kind: &str, reason: &str, message: String) {
        self.common.recorder.event(reference(claim), kind, reason, message);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}
