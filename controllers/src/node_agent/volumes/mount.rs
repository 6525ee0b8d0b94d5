//! Staging and publishing of a volume, with the metadata beside it.

use std::path::Path;
use std::sync::Arc;

use csi_disk::{DiskError, GroupChange};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::CSIDriverSpec;

use super::attachment::publish_context;
use super::block;
use super::context::VolumeContext;
use super::machine_path;
use super::pod_facts::{always_gives_group, fs_group, gives_group, pod_info, secrets, tokens};
use super::reconstruct::VolumeData;
use super::step::{disk_error, driver, encoded, volume_data};
use super::unmount::clear;
use crate::kube::reference;
use crate::node_agent::names::vol_data_path;
use crate::node_agent::plugins::csi::Carried;
use crate::node_agent::volume_manager::{StepError, Task, VolumeSpec};

/// Writes the metadata of a volume. If that fails and the volume is not mounted, removes its directory again
/// (`MountDevice`, `NewMounter`).
async fn write_data(room: &VolumeContext, beside: &Path, data: &[u8], is_mounted: bool) -> Result<(), StepError> {
    let written = room.config.disk.write(&vol_data_path(beside), data).await;
    if written.is_err() && !is_mounted {
        // Upstream only logs a failed removal: the write is retried.
        let _ = clear(room, beside).await;
    }
    written.map_err(|e| disk_error(&e))
}

pub(super) async fn stage(room: &VolumeContext, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    if spec.path_of_machine().is_some() {
        return Ok(());
    }
    let driver = driver(room, spec, "attacher.MountDevice failed to create newCsiDriverClient")?;
    if spec.block && !driver.stage_unstage {
        return Ok(());
    }
    let staging_secret = spec.csi().and_then(|c| c.node_stage_secret_ref.as_ref());
    let carried = Carried {
        publish_context: publish_context(room, task).await?,
        secrets: secrets(room, "NodeStageSecretRef", staging_secret).await?,
        group: task.pod.as_ref().and_then(|pod| group_of(room, pod)),
        ..Carried::default()
    };
    let staging = room.paths.staging_of(spec);
    room.config.disk.make_dir(&staging).await.map_err(|e| disk_error(&e))?;
    if spec.block {
        block::remember(room, spec).await?;
        let result = driver.stage(spec, &staging, carried).await;
        if matches!(result, Err(StepError::Final(_))) {
            block::clear(room, spec).await;
        }
        return result;
    }
    let data = VolumeData {
        spec_vol_id: String::new(),
        volume_handle: spec.handle.clone(),
        driver_name: spec.driver.clone(),
        node_name: String::new(),
        attachment_id: String::new(),
        volume_lifecycle_mode: String::new(),
    };
    if !substrate::mutant!(room.ctx, "staging-record-not-written") {
        write_data(room, &staging, &encoded(&data)?, false).await?;
    }
    if !driver.stage_unstage {
        // The metadata stays: the tear-down needs it (`MountDevice`).
        return Ok(());
    }
    let plain;
    let spec = if substrate::mutant!(room.ctx, "mount-options-dropped") {
        plain = Arc::new(VolumeSpec { mount_options: Vec::new(), ..VolumeSpec::clone(spec) });
        &plain
    } else if substrate::mutant!(room.ctx, "fs-type-not-passed") {
        plain = Arc::new(VolumeSpec { fs_type: String::new(), ..VolumeSpec::clone(spec) });
        &plain
    } else {
        spec
    };
    let result = driver.stage(spec, &staging, carried).await;
    if matches!(result, Err(StepError::Final(_))) {
        // Upstream only logs a failed removal: the failed call is retried.
        let _ = clear(room, &staging).await;
    }
    result
}

pub(super) async fn publish(room: &VolumeContext, uid: &str, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    if let Some(done) = machine_path::set_up(spec) {
        return done;
    }
    let driver = driver(room, spec, "mounter.SetUpAt failed to get CSI client")?;
    room.drivers_of_cluster.synced().await;
    let object = room.drivers_of_cluster.get("", &spec.driver);
    supports(object.as_ref().map(|d| &d.spec), spec)?;
    let carried = carried_to_pod(room, task, object.as_ref().map(|d| &d.spec)).await?;
    let mut other = None;
    if substrate::mutant!(room.ctx, "published-for-another-pod") {
        other = room.pods.lock().wanted().0.into_iter().find(|other| other != uid);
    }
    let uid = other.as_deref().unwrap_or(uid);
    let (staging, target) = (room.paths.staging_of(spec), room.paths.target_of(uid, spec));
    let of_volume = spec.readonly && !substrate::mutant!(room.ctx, "read-only-volume-ignored");
    let readonly = (task.readonly || of_volume) && !substrate::mutant!(room.ctx, "read-only-not-passed");
    if spec.block {
        block::remember(room, spec).await?;
        let parent = room.paths.device_publish_dir(&spec.pv);
        room.config.disk.make_dir(&parent).await.map_err(|e| disk_error(&e))?;
        return driver.publish(spec, (&staging, &target), readonly, carried).await;
    }
    room.config.disk.make_dir(&room.paths.volume_dir(uid, &spec.pv)).await.map_err(|e| disk_error(&e))?;
    // A pod that has the volume keeps it even if a repeated publish fails.
    let is_mounted = room.volumes.lock().is_mounted(uid, &spec.name);
    let data = volume_data(room, spec, spec.life_cycle.word())?;
    let writes_late = substrate::mutant!(room.ctx, "volume-data-after-mount");
    if !writes_late {
        write_data(room, &target, &data, is_mounted).await?;
    }
    let group = carried.group.filter(|_| !driver.mount_group);
    let result = driver.publish(spec, (&staging, &target), readonly, carried).await;
    if matches!(result, Err(StepError::Final(_))) && !is_mounted {
        // Upstream only logs a failed removal: the failed call is retried.
        let _ = clear(room, &target).await;
    }
    result?;
    if writes_late {
        write_data(room, &target, &data, true).await?;
    }
    let policy = object.as_ref().and_then(|d| d.spec.fs_group_policy.as_deref());
    let anyway = !readonly && substrate::mutant!(room.ctx, "group-policy-ignored");
    match group.filter(|_| anyway || gives_group(policy, spec, readonly)) {
        Some(group) => give(room, task, &target, group).await,
        None => Ok(()),
    }
}

/// Checks that the driver supports the volume's lifecycle mode (`supportsVolumeLifecycleMode`).
fn supports(driver: Option<&CSIDriverSpec>, spec: &VolumeSpec) -> Result<(), StepError> {
    let (mode, name) = (spec.life_cycle.word(), &spec.driver);
    let why = match driver {
        None if !spec.is_inline() => return Ok(()),
        None => "no CSIDriver object".to_owned(),
        Some(driver) => {
            let modes = driver.volume_lifecycle_modes.clone().unwrap_or_default();
            // The API server sets the default when the object is created.
            if modes.iter().any(|m| m == mode) || modes.is_empty() && !spec.is_inline() {
                return Ok(());
            }
            let modes: Vec<String> = modes.iter().map(|m| format!("{m:?}")).collect();
            format!("only supports [{}]", modes.join(" "))
        }
    };
    Err(StepError::Transient(format!(
        "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode {mode:?} not supported by \
         driver {name} ({why})"
    )))
}

/// Returns the group that a pod's volumes get.
fn group_of(room: &VolumeContext, pod: &Pod) -> Option<u32> {
    fs_group(pod).filter(|_| !substrate::mutant!(room.ctx, "group-not-given"))
}

/// Returns the fields of NodePublishVolume for a pod.
async fn carried_to_pod(
    room: &VolumeContext,
    task: &Task,
    driver: Option<&CSIDriverSpec>,
) -> Result<Carried, StepError> {
    let spec = &task.spec;
    let secret = spec.publish_secret();
    let mut carried = Carried {
        publish_context: publish_context(room, task).await?,
        secrets: secrets(room, "NodePublishSecretRef", secret).await?,
        ..Carried::default()
    };
    // Upstream's block mapper sends no pod facts.
    let (Some(pod), false) = (&task.pod, spec.block) else { return Ok(carried) };
    carried.group = group_of(room, pod);
    let Some(driver) = driver else { return Ok(carried) };
    if driver.pod_info_on_mount == Some(true) {
        carried.volume_context.extend(pod_info(pod, spec));
    }
    let tokens = tokens(room, driver, pod).await?;
    let secretly = driver.service_account_token_in_secrets == Some(true);
    if secretly { &mut carried.secrets } else { &mut carried.volume_context }.extend(tokens);
    Ok(carried)
}

/// Gives a published volume to the pod's group (`SetVolumeOwnership`). On a disk that cannot change the group, the pod
/// gets an event and runs anyway: the modelled workload does not depend on it.
async fn give(room: &VolumeContext, task: &Task, target: &Path, group: u32) -> Result<(), StepError> {
    let always = task.pod.as_ref().is_none_or(|pod| always_gives_group(pod));
    let error = match room.config.disk.give(target, GroupChange { group, always }).await {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if let (DiskError::Unsupported { .. }, Some(pod)) = (&error, &task.pod) {
        let message = format!("fsGroup {group} is not applied to volume {:?}: {error}", task.spec.pv);
        room.recorder.event(reference::<Pod>(pod), "Warning", "FSGroupNotApplied", message);
        return Ok(());
    }
    // The mount exists already, so it must be unmounted with the pod.
    Err(StepError::Uncertain(format!("applyFSGroup failed for vol {}: {error}", task.spec.handle)))
}
