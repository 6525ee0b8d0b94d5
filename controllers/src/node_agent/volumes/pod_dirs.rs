//! Removal of pod directories. Like kubelet, it removes only empty directories without a mount. It never unmounts, and
//! removes no file.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::disk::DiskError;

use crate::node_agent::agent::Agent;
use crate::node_agent::volume_manager::VolumeSpec;
/// Interval of kubelet's housekeeping (`housekeepingPeriod`).
pub(crate) const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Removes the directory of a volume that could not be cleaned up, if it is empty and has no mount
/// (`removeOrphanedPodVolumeDirs`), then the pod's empty directories.
pub(super) async fn remove_orphan(agent: &Arc<Agent>, uid: &str, spec: &VolumeSpec) {
    if mounted_below(agent, uid).await {
        return;
    }
    let disk = &agent.config.disk;
    for dir in [agent.paths.target_of(uid, spec), agent.paths.volume_dir(uid, &spec.pv)] {
        // An administrator must remove a directory with content, as in upstream.
        if disk.remove_dir(&dir).await.is_err() {
            return;
        }
    }
    if !agent.pods.lock().knows(uid) {
        remove_pod_dirs(agent, uid).await;
    }
}

/// Removes directories that a failed operation created for a pod after the pod had given them up. Repeats at kubelet's
/// housekeeping interval (`cleanupOrphanedPodDirs`).
pub(super) async fn remove_late_dirs(agent: Arc<Agent>, uid: String) {
    loop {
        agent.ctx.sleep(HOUSEKEEPING).await;
        if agent.pods.lock().wants(&uid) {
            return;
        }
        if !agent.pods.lock().knows(&uid) {
            break;
        }
    }
    if !mounted_below(&agent, &uid).await {
        remove_pod_dirs(&agent, &uid).await;
    }
}

/// Returns true if there is any mount below a pod's directory, known or unknown to the volume manager. A disk that does
/// not answer counts as a mount (`podVolumesExist`).
pub(crate) async fn mounted_below(agent: &Agent, uid: &str) -> bool {
    let pod = agent.paths.pod(uid);
    agent.config.disk.mounts().await.map_or(true, |mounts| mounts.iter().any(|m| m.path.starts_with(&pod)))
}

/// Removes a pod's empty directories. Retries a failure in the background at kubelet's housekeeping interval
/// (`cleanupOrphanedPodDirs`).
pub(crate) async fn remove_pod_dirs(agent: &Arc<Agent>, uid: &str) {
    if remove_empty(agent, uid).await.is_err() {
        let (agent, uid) = (agent.clone(), uid.to_owned());
        agent.ctx.clone().spawn(async move {
            agent.ctx.sleep(HOUSEKEEPING).await;
            while remove_empty(&agent, &uid).await.is_err() {
                agent.ctx.sleep(HOUSEKEEPING).await;
            }
        });
    }
}

/// Removes a pod's directories, up to the first that is not empty.
async fn remove_empty(agent: &Agent, uid: &str) -> Result<(), DiskError> {
    let (disk, volumes) = (&agent.config.disk, agent.paths.pod_volumes(uid));
    if !remove_if_empty(agent, &volumes).await? {
        // Directories that were created for a volume and never filled (`removeOrphanedPodVolumeDirs`).
        for pv in disk.list_dir(&volumes).await?.unwrap_or_default() {
            for dir in [volumes.join(&pv).join("mount"), volumes.join(&pv)] {
                if !remove_if_empty(agent, &dir).await? {
                    return Ok(());
                }
            }
        }
    }
    for dir in agent.paths.pod_dirs(uid) {
        if !remove_if_empty(agent, &dir).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Removes a directory if it is empty and has no mount. Returns true if it is gone.
async fn remove_if_empty(agent: &Agent, dir: &Path) -> Result<bool, DiskError> {
    match agent.config.disk.remove_dir(dir).await {
        Err(DiskError::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(DiskError::Busy { .. }) => Ok(false),
        removed => removed.map(|()| true),
    }
}
