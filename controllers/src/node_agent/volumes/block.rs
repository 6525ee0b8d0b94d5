//! Raw devices: the kubelet's own steps beside the driver's calls (upstream `csi_block.go`, `volumepathhandler`).
//!
//! The agent binds a published device once more below its own directory, links it from the pod's directory, and holds
//! it open until it is unpublished. Otherwise the device could vanish while the pod has only its name, and another
//! device could get its number. A restarted agent finds the link, maps the device again and so opens it again.
//! Meanwhile the pod's container holds it open.

use k8s_openapi::api::core::v1::Pod;

use super::context::VolumeContext;
use super::reconstruct::recorded;
use super::step::{disk_error, volume_data};
use crate::kube::reference;
use crate::node_agent::events::Mapped;
use crate::node_agent::names::VOL_DATA;
use crate::node_agent::volume_manager::{StepError, Task, VolumeSpec};

/// Writes the device's vol_data.json before the first call to the driver.
pub(super) async fn remember(room: &VolumeContext, spec: &VolumeSpec) -> Result<(), StepError> {
    let dir = room.paths.device_data_dir(&spec.pv);
    room.config.disk.make_dir(&dir).await.map_err(|e| disk_error(&e))?;
    // Upstream's block mapper, unlike its mounter, writes no lifecycle mode: raw devices are persistent.
    let data = volume_data(room, spec, "")?;
    room.config.disk.write(&dir.join(VOL_DATA), &data).await.map_err(|e| disk_error(&e))
}

/// Maps a published device for a pod and opens it.
pub(super) async fn map(room: &VolumeContext, uid: &str, task: &Task) -> Result<(), StepError> {
    let spec = &task.spec;
    let device = room.config.disk.map(&room.paths.mapping_of(uid, spec)).await;
    room.devices.put(uid, &spec.name, Some(device.map_err(|e| disk_error(&e))?));
    let global = room.paths.global_map_dir(&spec.pv);
    let link = room.paths.pod_devices(uid);
    for (what, path) in [("globalMapPath", global), ("volumeMapPath", link)] {
        if let Some(pod) = &task.pod {
            let message = format!("MapVolume.MapPodDevice succeeded for volume {:?} {what} {path:?}", spec.pv);
            room.recorder.event(reference::<Pod>(pod), "Normal", "SuccessfulMountVolume", message);
        }
    }
    room.ctx.emit(Mapped {
        node: room.config.name(),
        pod: task.pod_name.as_str().into(),
        volume: spec.handle.as_str().into(),
    });
    Ok(())
}

/// Fails if the device's vol_data.json is lost (`NewBlockVolumeUnmapper`).
pub(super) async fn known(room: &VolumeContext, spec: &VolumeSpec) -> Result<(), StepError> {
    let dir = room.paths.device_data_dir(&spec.pv);
    let lost = |why| format!("kubernetes.io/csi: unmapper failed to load volume data file [{}]: {why}", dir.display());
    recorded(&room.config.disk, &dir).await?.map(drop).map_err(|why| StepError::NoRecord(lost(why)))
}

/// Closes a device and unmaps it from a pod.
pub(super) async fn unmap(room: &VolumeContext, uid: &str, spec: &VolumeSpec) -> Result<(), StepError> {
    known(room, spec).await?;
    room.devices.put(uid, &spec.name, None);
    room.config.disk.unmap(&room.paths.mapping_of(uid, spec)).await.map_err(|e| disk_error(&e))
}

/// Fails if a pod still has the device (`GetDeviceBindMountRefs`).
pub(super) async fn unreferenced(room: &VolumeContext, spec: &VolumeSpec) -> Result<(), StepError> {
    let dir = room.paths.global_map_dir(&spec.pv);
    let names = room.config.disk.list_dir(&dir).await.map_err(|e| disk_error(&e))?.unwrap_or_default();
    if names.is_empty() {
        return Ok(());
    }
    let paths: Vec<_> = names.iter().map(|name| dir.join(name).display().to_string()).collect();
    Err(StepError::Transient(format!("the device {dir:?} is still referenced from other Pods [{}]", paths.join(" "))))
}

/// Removes the files of an unstaged device (`cleanupOrphanDeviceFiles`). If the device is still published for a pod, all
/// files stay: a restarted agent needs the device's vol_data.json to find the pod's device.
pub(super) async fn clear(room: &VolumeContext, spec: &VolumeSpec) {
    let (disk, paths) = (&room.config.disk, &room.paths);
    // Upstream only logs a failure here. The next attempt finds the files again.
    for dir in [paths.device_publish_dir(&spec.pv), paths.device_staging_path(&spec.pv)] {
        if disk.remove_dir(&dir).await.is_err() {
            return;
        }
    }
    let _ = disk.remove_file(&paths.device_data_dir(&spec.pv).join(VOL_DATA)).await;
    for dir in [paths.device_data_dir(&spec.pv), paths.global_map_dir(&spec.pv), paths.device_dir(&spec.pv)] {
        let _ = disk.remove_dir(&dir).await;
    }
}
