//! Unpublishing and unstaging of a volume, and removal of its directories.

use std::path::Path;

use csi_disk::{Mount, MountKind};

use super::block;
use super::context::VolumeContext;
use super::reconstruct::recorded;
use super::step::{disk_error, driver};
use crate::node_agent::names::vol_data_path;
use crate::node_agent::volume_manager::{StepError, VolumeSpec};

/// Unpublishes a volume and removes its directory. The metadata in the directory names the driver and the volume of a
/// filesystem. Without it only an administrator can help (`NewUnmounter`).
pub(super) async fn unpublish(room: &VolumeContext, uid: &str, spec: &VolumeSpec) -> Result<(), StepError> {
    if spec.path_of_machine().is_some() {
        return Ok(());
    }
    let target = room.paths.target_of(uid, spec);
    if spec.block {
        let driver = driver(room, spec, "Unmounter.TearDownAt failed to get CSI client")?;
        return driver.unpublish(&spec.handle, &target).await;
    }
    let directory = room.paths.volume_dir(uid, &spec.pv);
    let lost =
        |why| format!("kubernetes.io/csi: unmounter failed to load volume data file [{}]: {why}", target.display());
    let data = recorded(&room.config.disk, &directory).await?.map_err(|why| StepError::NoRecord(lost(why)))?;
    let known = VolumeSpec::reconstructed(&data.driver_name, &data.volume_handle, &spec.pv, false);
    let driver = driver(room, &known, "Unmounter.TearDownAt failed to get CSI client")?;
    driver.unpublish(&known.handle, &target).await?;
    clear(room, &target).await
}

/// Unstages a volume and removes its staging path. A filesystem without metadata is left as it is (`UnmountDevice`).
pub(super) async fn unstage(room: &VolumeContext, spec: &VolumeSpec) -> Result<(), StepError> {
    if spec.path_of_machine().is_some() {
        return Ok(());
    }
    let staging = room.paths.staging_of(spec);
    if spec.block {
        block::known(room, spec).await?;
        block::unreferenced(room, spec).await?;
        let driver = driver(room, spec, "attacher.UnmountDevice failed to create newCsiDriverClient")?;
        if driver.stage_unstage {
            driver.unstage(&spec.handle, &staging).await?;
        }
        block::clear(room, spec).await;
        return Ok(());
    }
    let mounts = room.config.disk.mounts().await.map_err(|e| disk_error(&e))?;
    let references = device_mount_refs(&mounts, &spec.handle, &staging);
    if !references.is_empty() && !substrate::mutant!(room.ctx, "mount-references-ignored") {
        return Err(StepError::Transient(format!(
            "GetDeviceMountRefs check failed: the device mount path {:?} is still mounted by other references [{}]",
            staging.display().to_string(),
            references.join(" ")
        )));
    }
    let directory = staging.parent().unwrap_or(&staging);
    if recorded(&room.config.disk, directory).await?.is_err() {
        return Ok(());
    }
    let driver = driver(room, spec, "attacher.UnmountDevice failed to create newCsiDriverClient")?;
    if driver.stage_unstage {
        driver.unstage(&spec.handle, &staging).await?;
    }
    clear(room, &staging).await
}

/// Returns the mounts of a volume outside its staging path (`GetDeviceMountRefs`). The disk knows staging mounts of
/// Mooring's driver only; those of other drivers count as targets.
fn device_mount_refs(mounts: &[Mount], volume: &str, staging: &Path) -> Vec<String> {
    let elsewhere = |m: &&Mount| m.volume == volume && m.kind == MountKind::Target && m.path != staging;
    mounts.iter().filter(elsewhere).map(|m| m.path.display().to_string()).collect()
}

/// Removes a staging or target path, the metadata beside it and their directory (`removeMountDir`). A failed removal
/// fails the operation, which is retried.
pub(super) async fn clear(room: &VolumeContext, path: &Path) -> Result<(), StepError> {
    let disk = &room.config.disk;
    if substrate::mutant!(room.ctx, "removal-failures-ignored") {
        let _ = disk.remove_dir(path).await;
        let _ = disk.remove_file(&vol_data_path(path)).await;
        return Ok(());
    }
    disk.remove_dir(path).await.map_err(|e| disk_error(&e))?;
    disk.remove_file(&vol_data_path(path)).await.map_err(|e| disk_error(&e))?;
    match path.parent() {
        Some(parent) => disk.remove_dir(parent).await.map_err(|e| disk_error(&e)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staging_mount_of_a_driver_that_the_disk_does_not_know_is_no_reference() {
        let mount = |volume: &str, path: &str, kind| Mount {
            volume: volume.to_owned(),
            path: path.into(),
            kind,
            readonly: false,
            group: None,
        };
        let staged = mount("vol-1", "/k/globalmount", MountKind::Target);
        let other = mount("vol-2", "/k/pods/b/mount", MountKind::Target);
        let staging = Path::new("/k/globalmount");
        assert_eq!(device_mount_refs(&[staged.clone(), other.clone()], "vol-1", staging), Vec::<String>::new());
        let target = mount("vol-1", "/k/pods/a/mount", MountKind::Target);
        assert_eq!(device_mount_refs(&[staged, target, other], "vol-1", staging), ["/k/pods/a/mount"]);
    }
}
