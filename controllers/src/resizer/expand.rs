//! Loop that expands volumes (upstream `controller.go`, `expand_and_recover.go`).

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::{CapacityRange, ControllerExpandVolumeRequest};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use substrate::mutant;
use tonic::Code;

use super::async_loop::{Common, Key, object_name};
use super::size;
use super::size_status;
use super::slow::SlowSet;
use crate::binder::object::{requested_bytes, volume_name};
use crate::binder::quantity;
use crate::csi::{RpcError, volume_capability};
use crate::kube::{Delta, Guard, Kind, Outcome, WorkQueue, reference};

struct Resizer {
    common: Common,
    /// True if the driver's controller has EXPAND_VOLUME. Otherwise only nodes expand, and the controller is not
    /// called.
    controller_expands: bool,
    memory: Mutex<Memory>,
}

struct Memory {
    slow: SlowSet,
    /// Claims whose last attempt ended with a final error.
    final_errors: BTreeSet<Key>,
}

/// Reason to retry a claim.
enum Trouble {
    /// Retry after its backoff.
    Again,
    /// Retry after this time.
    After(Duration),
}

/// Runs the loop forever.
pub(super) async fn run(common: Common, controller_expands: bool) {
    common.volumes.synced().await;
    common.claims.synced().await;
    let timers = &common.timers;
    let workers = timers.workers.resizer;
    let queue =
        WorkQueue::new(&common.ctx, timers.sidecar_retry_start, timers.sidecar_retry_max).named("csi-resizer-pvc");
    let slow = SlowSet::new(common.ctx.scaled(timers.sidecar_retry_max));
    let mut changes = common.claims.subscribe();
    let ctx = common.ctx.clone();
    let misses_old = mutant!(ctx, "growth-before-start-missed");
    let misses_failures = mutant!(ctx, "failed-node-expansion-not-resumed");
    let misses_rest = mutant!(ctx, "growth-behind-node-expansion-missed");
    let misses_less = mutant!(ctx, "reduced-request-not-news");
    let memory = Mutex::new(Memory { slow, final_errors: BTreeSet::new() });
    let resizer = Arc::new(Resizer { common, controller_expands, memory });
    ctx.spawn(queue.clone().run(workers, move |key: Key| {
        let resizer = resizer.clone();
        async move { resizer.sync(&key).await }
    }));
    while let Some(delta) = changes.recv().await {
        match delta {
            Delta::Applied { old, new } => {
                let is_missed = |old: &PersistentVolumeClaim| {
                    let stage = size::stage(&new);
                    misses_failures && stage == "NodeResizeInfeasible" && size::stage(old) != stage
                        || misses_rest && requested_bytes(old) == requested_bytes(&new)
                        || misses_less && requested_bytes(old) > requested_bytes(&new)
                };
                if old.map_or(!misses_old, |old| size::is_news(&old, &new) && !is_missed(&old)) {
                    queue.add(Common::key(&new));
                }
            }
            Delta::Deleted(gone) => queue.forget(&Common::key(&gone)),
        }
    }
}

impl Resizer {
    async fn sync(&self, key: &Key) -> Outcome {
        let Some(claim) = self.common.claims.get(&key.0, &key.1) else { return Outcome::Done };
        if volume_name(&claim).is_empty() {
            return Outcome::Done;
        }
        // The claim's event may have arrived before its volume's.
        let Some(volume) = self.common.volumes.get("", volume_name(&claim)) else { return Outcome::Retry };
        let asks_for_more = match mutant!(self.common.ctx, "sizes-compared-as-text") {
            true => size::asks_for_more_as_text(&claim),
            false => size::asks_for_more(&claim),
        };
        if !asks_for_more || !size::is_ours(&claim, &volume, &self.common.driver.name) {
            return Outcome::Done;
        }
        match self.expand(key, claim, &volume).await {
            Ok(()) => Outcome::Done,
            Err(Trouble::Again) => Outcome::Retry,
            Err(Trouble::After(delay)) => Outcome::After(delay),
        }
    }

    /// Makes one attempt (`expandAndRecover`).
    async fn expand(
        &self,
        key: &Key,
        claim: Arc<PersistentVolumeClaim>,
        volume: &PersistentVolume,
    ) -> Result<(), Trouble> {
        let now = self.common.ctx.now();
        let (slow, final_error) = {
            let mut memory = self.memory();
            let slow = memory.slow.remaining(key, now.mono);
            if size::stage(&claim) == "ControllerResizeInfeasible" {
                memory.slow.add(key, now.mono);
            }
            (slow, memory.final_errors.contains(key))
        };
        let target = size::target(&claim, volume, final_error, self.controller_expands);
        let Some(mut target) = target else { return Ok(()) };
        if mutant!(self.common.ctx, "resize-target-kept")
            && let Some(earlier) = size::allocated(&claim)
        {
            target = earlier.clone();
        }
        let same = |allocated| quantity::value(allocated) == quantity::value(&target);
        let begins = !size::allocated(&claim).is_some_and(same);
        let is_hasty = mutant!(self.common.ctx, "infeasible-expansion-not-delayed");
        if let Some(remaining) = slow.filter(|_| !begins && !is_hasty) {
            // The queue scales it again.
            return Err(Trouble::After(remaining.mul_f64(self.common.ctx.world().scale().factor())));
        }
        let marked = size_status::in_progress(&claim, &target, begins, now.wall);
        let claim = self.write_claim(&claim, &marked, Guard::ResourceVersion).await.map_err(|_| Trouble::Again)?;
        let message = format!("External resizer is resizing volume {}", volume.name());
        self.event(&claim, "Normal", "Resizing", message);
        self.call(key, &claim, volume, &target).await.map_err(|error| {
            self.event(&claim, "Warning", "VolumeResizeFailed", error);
            Trouble::Again
        })
    }

    /// Calls the driver and records the result (`callResizeOnPlugin`).
    async fn call(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        target: &Quantity,
    ) -> Result<(), String> {
        let early;
        let volume = if mutant!(self.common.ctx, "size-before-expansion") {
            early = self.write_size(volume, target).await?;
            &*early
        } else {
            volume
        };
        let (mut size, node_expands) = match self.resize(volume, target).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.refused(key, claim, volume, &error).await),
        };
        if mutant!(self.common.ctx, "answered-size-ignored") {
            size = target.clone();
        }
        {
            let mut memory = self.memory();
            memory.final_errors.remove(key);
            memory.slow.remove(key);
        }
        if !mutant!(self.common.ctx, "volume-size-not-written") {
            self.write_size(volume, &size).await?;
        }
        if node_expands && !mutant!(self.common.ctx, "node-expansion-not-asked") {
            let new = size_status::node_pending(claim, self.common.ctx.now().wall);
            self.write_claim(claim, &new, Guard::ResourceVersion)
                .await
                .map_err(|e| format!("mark PVC {:?} as node expansion required failed: {e}", object_name(claim)))?;
            let message = "Require file system resize of volume on node";
            self.event(claim, "Normal", "FileSystemResizeRequired", message.to_owned());
        } else {
            let mut new = size_status::finished(claim, &size);
            if mutant!(self.common.ctx, "resizing-condition-kept") {
                let conditions = claim.status.as_ref().and_then(|status| status.conditions.clone());
                new.status.get_or_insert_default().conditions = conditions;
            }
            self.write_claim(claim, &new, Guard::ResourceVersion)
                .await
                .map_err(|e| format!("mark PVC {:?} as resize finished failed: {e}", object_name(claim)))?;
            self.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded".to_owned());
        }
        Ok(())
    }

    /// Writes the volume's size to its object.
    async fn write_size(&self, volume: &PersistentVolume, size: &Quantity) -> Result<Arc<PersistentVolume>, String> {
        let mut new = volume.clone();
        let capacity = new.spec.get_or_insert_default().capacity.get_or_insert_default();
        capacity.insert("storage".to_owned(), size.clone());
        self.write_volume(volume, &new).await.map_err(|e| {
            let name = volume.name();
            format!("error updating pv {name:?} by resizer: updating capacity of PV {name:?} to {} failed: {e}", size.0)
        })
    }

    /// Calls ControllerExpandVolume. Returns the size, and true if a node must expand the volume too. A driver that
    /// expands only on nodes is not called (`trivialResizer`).
    async fn resize(&self, volume: &PersistentVolume, target: &Quantity) -> Result<(Quantity, bool), RpcError> {
        if !self.controller_expands {
            return Ok((target.clone(), true));
        }
        let spec = volume.spec.clone().unwrap_or_default();
        let csi = spec.csi.as_ref().ok_or_else(|| format!("volume {} is not migrated to CSI", volume.name()))?;
        if csi.volume_handle.is_empty() {
            return Err(RpcError::Other("empty volume handle".to_owned()));
        }
        let secrets = match &csi.controller_expand_secret_ref {
            Some(secret) => {
                let (namespace, name) = (secret.namespace.as_deref(), secret.name.as_deref());
                self.common.secret(namespace.unwrap_or_default(), name.unwrap_or_default()).await?
            }
            None => BTreeMap::new(),
        };
        let multi_writer =
            self.common.driver.can(csi_proto::csi::controller_service_capability::rpc::Type::SingleNodeMultiWriter);
        let capability = volume_capability(&spec, multi_writer)
            .map_err(|e| format!("failed to get capabilities of volume {} with {e}", volume.name()))?;
        let request = ControllerExpandVolumeRequest {
            volume_id: csi.volume_handle.clone(),
            capacity_range: Some(CapacityRange { required_bytes: quantity::value(target), limit_bytes: 0 }),
            secrets,
            volume_capability: Some(capability),
        };
        let driver = &self.common.connection;
        let answer = driver.call(driver.controller().controller_expand_volume(request)).await?;
        Ok((quantity::bytes(answer.capacity_bytes), answer.node_expansion_required))
    }

    /// Records a failure of the driver, and returns its text.
    async fn refused(
        &self,
        key: &Key,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        error: &RpcError,
    ) -> String {
        let infeasible = is_infeasible(error);
        {
            let mut memory = self.memory();
            if error.is_final() {
                memory.final_errors.insert(key.clone());
            } else {
                memory.final_errors.remove(key);
            }
            if !infeasible {
                memory.slow.remove(key);
            }
        }
        if error.is_final() {
            let new = size_status::failed(claim, &error.to_string(), infeasible, self.common.ctx.now().wall);
            // Without a precondition, so that a stale copy of the claim does not lose the driver's error.
            if let Err(e) = self.write_claim(claim, &new, Guard::None).await {
                let name = object_name(claim);
                return format!(
                    "resizing failed in controller with {error} but failed to update PVC {name} with: \
                     mark PVC {name:?} as controller expansion failed, errored with: {e}"
                );
            }
        }
        format!("resize volume {:?} by resizer {:?} failed: {error}", volume.name(), self.common.driver.name)
    }

    async fn write_claim(
        &self,
        old: &PersistentVolumeClaim,
        new: &PersistentVolumeClaim,
        guard: Guard,
    ) -> Result<Arc<PersistentVolumeClaim>, String> {
        let written = self.common.patch_claim(old, new, guard).await?;
        self.common.claims.update(&written);
        Ok(written)
    }

    async fn write_volume(
        &self,
        old: &PersistentVolume,
        new: &PersistentVolume,
    ) -> Result<Arc<PersistentVolume>, String> {
        let written = self.common.patch_volume(old, new).await?;
        self.common.volumes.update(&written);
        Ok(written)
    }

    fn event(&self, claim: &PersistentVolumeClaim, kind: &str, reason: &str, message: String) {
        self.common.recorder.event(reference(claim), kind, reason, message);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }
}

/// Returns true if a retry cannot help (`IsInfeasibleError`).
fn is_infeasible(error: &RpcError) -> bool {
    matches!(error.code(), Some(Code::InvalidArgument | Code::OutOfRange | Code::NotFound))
}
