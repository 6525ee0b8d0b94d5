//! Removes files from the disks of nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use controllers::node_agent::names::{Paths, VOL_DATA, vol_data_path};
use csi_disk::{Disk, DiskError};

use super::{Failure, Run};
use crate::events::VolumeRecordRemoved;
use crate::scenario::steps::node_file::{File, NodeFile};

/// Maximum number of files in a report.
const SHOWN: usize = 20;

impl Run<'_> {
    pub(super) async fn node_file(&self, step: &NodeFile) -> Result<(), Failure> {
        let expected = format!("there is something to do for: {step}");
        let node = &step.node;
        let (Some(disk), Some(root)) = (self.cluster.disk(node), self.cluster.root(node)) else {
            return Err(self.failure(expected, format!("{node} has no disk")));
        };
        let removed = match &step.file {
            File::RegistrationSocket => {
                let removed = self.cluster.remove_registration_socket(node);
                return removed.map_err(|seen| self.failure(expected, seen));
            }
            File::Path(path) => {
                let path = root.join(path);
                let volume = recorded_in(disk, &path).await;
                let removed = remove(disk, &[path]).await;
                if let (Ok(true), Some(volume)) = (&removed, volume) {
                    self.record_removed(node, &volume);
                }
                removed
            }
            File::VolData(object, beside) => {
                let volume = self.known_volume(object).await?;
                let paths = Paths::new(root);
                let mut candidates = Vec::new();
                if beside.is_staging() {
                    candidates.push(vol_data_path(&paths.staging_target_path(&volume.driver, &volume.handle)));
                    candidates.push(paths.device_data_dir(&volume.pv).join(VOL_DATA));
                }
                if beside.is_pods() {
                    let pods = disk.list_dir(&paths.pods()).await;
                    let pods = pods.map_err(|e| self.failure(&*expected, e.to_string()))?.unwrap_or_default();
                    let of_pod = |uid: String| vol_data_path(&paths.target_path(&uid, &volume.pv));
                    candidates.extend(pods.into_iter().map(of_pod));
                }
                let removed = remove(disk, &candidates).await;
                if matches!(removed, Ok(true)) {
                    self.record_removed(node, &volume.handle);
                }
                removed
            }
        };
        match removed {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.failure(expected, files(disk, root).await)),
            Err(error) => Err(self.failure(expected, error.to_string())),
        }
    }

    fn record_removed(&self, node: &str, volume: &str) {
        let trace = self.cluster.world().trace();
        trace.info(&Arc::from("scenario"), VolumeRecordRemoved { node: node.into(), volume: volume.into() });
    }
}

/// Returns the handle of the volume whose `vol_data.json` the file is.
async fn recorded_in(disk: &Arc<dyn Disk>, file: &Path) -> Option<String> {
    file.ends_with(VOL_DATA).then_some(())?;
    let data: serde_json::Value = serde_json::from_slice(&disk.read(file).await.ok()??).ok()?;
    data["volumeHandle"].as_str().map(str::to_owned)
}

/// Removes the existing ones of `files`. Returns true if there were any.
async fn remove(disk: &Arc<dyn Disk>, files: &[PathBuf]) -> Result<bool, DiskError> {
    let mut found = false;
    for file in files {
        let (Some(parent), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
            continue;
        };
        let names = disk.list_dir(parent).await?.unwrap_or_default();
        if names.iter().any(|known| known == name) {
            disk.remove_file(file).await?;
            found = true;
        }
    }
    Ok(found)
}

/// Lists the files below `root` for a report.
async fn files(disk: &Arc<dyn Disk>, root: &Path) -> String {
    let mut directories = vec![root.to_owned()];
    let mut found = Vec::new();
    // Mounted filesystems belong to volumes, not to the node.
    let mounts: Vec<PathBuf> = disk.mounts().await.unwrap_or_default().into_iter().map(|m| m.path).collect();
    while let Some(directory) = directories.pop().filter(|_| found.len() <= SHOWN) {
        let mut names = disk.list_dir(&directory).await.ok().flatten().unwrap_or_default();
        names.sort();
        for name in names.into_iter().rev() {
            let path = directory.join(name);
            if mounts.contains(&path) {
                continue;
            }
            match disk.list_dir(&path).await {
                Ok(Some(_)) => directories.push(path),
                _ => found.push(path),
            }
        }
    }
    found.sort();
    let below = |path: &PathBuf| path.strip_prefix(root).unwrap_or(path).display().to_string();
    match found.as_slice() {
        [] => "there is no such file, and no other below kubelet's directory".to_owned(),
        found => {
            let more = if found.len() > SHOWN { ", …" } else { "" };
            let shown: Vec<String> = found.iter().take(SHOWN).map(below).collect();
            format!("there is no such file; below kubelet's directory there are {}{more}", shown.join(", "))
        }
    }
}
