//! Removal of pod directories. Like kubelet, it removes only empty directories without a mount. It never unmounts, and
//! removes no file.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_disk::DiskError;

use super::context::VolumeContext;
use crate::node_agent::volume_manager::VolumeSpec;
/// Interval of kubelet's housekeeping (`housekeepingPeriod`).
pub(crate) const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Removes empty directories that an earlier kubelet left of deleted pods (`cleanupOrphanedPodDirs`). Directories with
/// volumes are removed when the volumes are unmounted.
pub(crate) async fn remove_orphaned_dirs(room: Arc<VolumeContext>) {
    let uids = loop {
        match room.config.disk.list_dir(&room.paths.pods()).await {
            Ok(uids) => break uids.unwrap_or_default(),
            Err(_) => room.ctx.sleep(HOUSEKEEPING).await,
        }
    };
    for uid in uids {
        if !room.pods.lock().knows(&uid) && !mounted_below(&room, &uid).await {
            remove_pod_dirs(&room, &uid).await;
        }
    }
}

/// Removes the directory of a volume that could not be cleaned up, if it is empty and has no mount
/// (`removeOrphanedPodVolumeDirs`), then the pod's empty directories.
pub(super) async fn remove_orphan(room: &Arc<VolumeContext>, uid: &str, spec: &VolumeSpec) {
    if mounted_below(room, uid).await {
        return;
    }
    let disk = &room.config.disk;
    for dir in [room.paths.target_of(uid, spec), room.paths.volume_dir(uid, &spec.pv)] {
        // An administrator must remove a directory with content, as in upstream.
        if disk.remove_dir(&dir).await.is_err() {
            return;
        }
    }
    if !room.pods.lock().knows(uid) {
        remove_pod_dirs(room, uid).await;
    }
}

/// Removes directories that a failed operation created for a pod after the pod had given them up. Repeats at kubelet's
/// housekeeping interval (`cleanupOrphanedPodDirs`).
pub(super) async fn remove_late_dirs(room: Arc<VolumeContext>, uid: String) {
    loop {
        room.ctx.sleep(HOUSEKEEPING).await;
        if room.pods.lock().wants(&uid) {
            return;
        }
        if !room.pods.lock().knows(&uid) {
            break;
        }
    }
    if !mounted_below(&room, &uid).await {
        remove_pod_dirs(&room, &uid).await;
    }
}

/// Returns true if there is any mount below a pod's directory, known or unknown to the volume manager. A disk that does
/// not answer counts as a mount (`podVolumesExist`).
pub(crate) async fn mounted_below(room: &VolumeContext, uid: &str) -> bool {
    let pod = room.paths.pod(uid);
    room.config.disk.mounts().await.map_or(true, |mounts| mounts.iter().any(|m| m.path.starts_with(&pod)))
}

/// Removes a pod's empty directories. Retries a failure in the background at kubelet's housekeeping interval
/// (`cleanupOrphanedPodDirs`).
pub(crate) async fn remove_pod_dirs(room: &Arc<VolumeContext>, uid: &str) {
    if remove_empty(room, uid).await.is_err() {
        let (room, uid) = (room.clone(), uid.to_owned());
        room.ctx.clone().spawn(async move {
            room.ctx.sleep(HOUSEKEEPING).await;
            while remove_empty(&room, &uid).await.is_err() {
                room.ctx.sleep(HOUSEKEEPING).await;
            }
        });
    }
}

/// Removes a pod's directories, up to the first that is not empty.
async fn remove_empty(room: &VolumeContext, uid: &str) -> Result<(), DiskError> {
    let (disk, volumes) = (&room.config.disk, room.paths.pod_volumes(uid));
    if !remove_if_empty(room, &volumes).await? {
        // Directories that were created for a volume and never filled (`removeOrphanedPodVolumeDirs`).
        for pv in disk.list_dir(&volumes).await?.unwrap_or_default() {
            for dir in [volumes.join(&pv).join("mount"), volumes.join(&pv)] {
                if !remove_if_empty(room, &dir).await? {
                    return Ok(());
                }
            }
        }
    }
    for dir in room.paths.pod_dirs(uid) {
        if !remove_if_empty(room, &dir).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Removes a directory if it is empty and has no mount. Returns true if it is gone.
async fn remove_if_empty(room: &VolumeContext, dir: &Path) -> Result<bool, DiskError> {
    match room.config.disk.remove_dir(dir).await {
        Err(DiskError::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(DiskError::Busy { .. }) => Ok(false),
        removed => removed.map(|()| true),
    }
}
