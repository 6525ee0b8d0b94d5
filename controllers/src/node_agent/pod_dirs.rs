//! The directories of pods, as far as kubelet removes them: those that are empty, in which nothing is mounted. It never
//! unmounts, and removes no file.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_mock::disk::DiskError;

use super::agent::Agent;
use super::volume_manager::VolumeSpec;
/// How often kubelet keeps house (`housekeepingPeriod`).
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(2);

/// Removes the directory of a volume that could not be cleaned up, when nothing is mounted there and nothing is in it
/// (`removeOrphanedPodVolumeDirs`), then the pod's as far as they are empty.
pub(super) async fn remove_orphan(agent: &Arc<Agent>, uid: &str, spec: &VolumeSpec) {
    if mounted_below(agent, uid).await {
        return;
    }
    let disk = &agent.config.disk;
    for dir in [agent.target_path(uid, spec), agent.paths.volume_dir(uid, &spec.pv)] {
        // What is not empty stays for an administrator, as upstream leaves it.
        if disk.remove_dir(&dir).await.is_err() {
            return;
        }
    }
    if !agent.pods().knows(uid) {
        remove_pod_dirs(agent, uid).await;
    }
}

/// Removes what an operation that failed has made of a pod's directories after the pod had given them up: kubelet keeps
/// house every two seconds (`cleanupOrphanedPodDirs`).
pub(super) async fn remove_late_dirs(agent: Arc<Agent>, uid: String) {
    loop {
        agent.ctx.sleep(HOUSEKEEPING).await;
        if agent.pods().wants(&uid) {
            return;
        }
        if !agent.pods().knows(&uid) {
            break;
        }
    }
    if !mounted_below(&agent, &uid).await {
        remove_pod_dirs(&agent, &uid).await;
    }
}

/// Whether anything is mounted below a pod's directory, whoever knows of it. A disk that does not answer may have such a
/// mount (`podVolumesExist`).
pub(super) async fn mounted_below(agent: &Agent, uid: &str) -> bool {
    let pod = agent.paths.pod(uid);
    agent.config.disk.mounts().await.map_or(true, |mounts| mounts.iter().any(|m| m.path.starts_with(&pod)))
}

/// Removes a pod's directories as far as they are empty. What fails is tried again as often as kubelet keeps house
/// (`cleanupOrphanedPodDirs`), and keeps nobody waiting.
pub(super) async fn remove_pod_dirs(agent: &Arc<Agent>, uid: &str) {
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

/// Removes a pod's directories up to the first that is not empty.
async fn remove_empty(agent: &Agent, uid: &str) -> Result<(), DiskError> {
    let (disk, volumes) = (&agent.config.disk, agent.paths.pod_volumes(uid));
    if !remove_if_empty(agent, &volumes).await? {
        // What was made for a volume and never filled (`removeOrphanedPodVolumeDirs`).
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

/// Removes a directory unless something is in it, or mounted there; true when it is gone.
async fn remove_if_empty(agent: &Agent, dir: &Path) -> Result<bool, DiskError> {
    match agent.config.disk.remove_dir(dir).await {
        Err(DiskError::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(DiskError::Busy { .. }) => Ok(false),
        removed => removed.map(|()| true),
    }
}
