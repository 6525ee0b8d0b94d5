//! Names and paths of kubelet's volume side (upstream `csi_util.go`, `csi_block.go`).

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// In-tree plugin for CSI drivers; prefix of each unique volume name.
pub const PLUGIN_PREFIX: &str = "kubernetes.io/csi";
/// Directory name of the plugin: `kubernetes.io/csi` with `~` instead of `/`.
const PLUGIN_DIR: &str = "kubernetes.io~csi";
/// Metadata file that kubelet writes beside a staging or target path and reads after a restart.
pub const VOL_DATA: &str = "vol_data.json";

/// Unique name of a volume in node status: `kubernetes.io/csi/<driver>^<handle>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeName(String);

impl VolumeName {
    /// Builds the name of the volume `handle` of `driver`.
    pub fn new(driver: &str, handle: &str) -> Self {
        Self(format!("{PLUGIN_PREFIX}/{driver}^{handle}"))
    }

    /// Builds the name of an inline volume of pod `uid`. It is unique to the pod.
    pub fn of_pod(uid: &str, volume: &str) -> Self {
        Self(format!("{PLUGIN_PREFIX}/{uid}-{volume}"))
    }

    /// Builds the name of a volume that is a path of the machine.
    pub fn of_machine(plugin: &str, pv: &str) -> Self {
        Self(format!("{plugin}/{pv}"))
    }

    /// Builds a placeholder name for a volume of which only the directory is known (`cleanupMounts`).
    pub fn of_directory(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for VolumeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the name of the VolumeAttachment of `handle` on `node`: `csi-` and the hex SHA-256 of handle, driver and
/// node.
pub fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    format!(
        "csi-{}",
        hex::encode(Sha256::new().chain_update(handle).chain_update(driver).chain_update(node).finalize())
    )
}

/// Returns the handle that kubelet generates for an inline volume of pod `uid` (`makeVolumeHandle`).
pub fn inline_handle(uid: &str, volume: &str) -> String {
    format!("csi-{}", hex::encode(Sha256::new().chain_update(uid).chain_update(volume).finalize()))
}

/// Paths below one kubelet root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    root: PathBuf,
}

impl Paths {
    /// Paths below `root` (upstream `/var/lib/kubelet`).
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory of a volume's staging data: `plugins/kubernetes.io/csi/<driver>/<sha256(handle)>`.
    pub fn staging_dir(&self, driver: &str, handle: &str) -> PathBuf {
        self.drivers().join(driver).join(hex::encode(Sha256::digest(handle)))
    }

    /// Staging path of a volume: `globalmount` in its staging directory.
    pub fn staging_target_path(&self, driver: &str, handle: &str) -> PathBuf {
        self.staging_dir(driver, handle).join("globalmount")
    }

    /// Returns the parent of all drivers' staging directories.
    pub fn drivers(&self) -> PathBuf {
        self.root.join("plugins").join(PLUGIN_PREFIX)
    }

    /// Returns the parent of all pods' directories.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Directory of one pod.
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    /// Returns the parent of a pod's CSI filesystem volumes.
    pub fn pod_volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(PLUGIN_DIR)
    }

    /// Returns the directory of a pod's volume: holds the target path and [`VOL_DATA`].
    pub fn volume_dir(&self, uid: &str, pv: &str) -> PathBuf {
        self.pod_volumes(uid).join(pv)
    }

    /// Target path of a volume for a pod. The driver creates the last component.
    pub fn target_path(&self, uid: &str, pv: &str) -> PathBuf {
        self.volume_dir(uid, pv).join("mount")
    }

    /// Directories of a pod that can be removed after its volumes are gone, innermost first.
    pub fn pod_dirs(&self, uid: &str) -> [PathBuf; 5] {
        let pod = self.pod(uid);
        [self.pod_volumes(uid), pod.join("volumes"), self.pod_devices(uid), pod.join("volumeDevices"), pod]
    }

    /// Parent of all raw-device directories, except the links of pods.
    fn devices(&self) -> PathBuf {
        self.drivers().join("volumeDevices")
    }

    /// Agent's directory of a raw device: `data` with [`VOL_DATA`], and `dev`.
    pub fn device_dir(&self, pv: &str) -> PathBuf {
        self.devices().join(pv)
    }

    /// Returns the directory of a raw device's [`VOL_DATA`].
    pub fn device_data_dir(&self, pv: &str) -> PathBuf {
        self.device_dir(pv).join("data")
    }

    /// Parent of a raw device's additional binds, one for each pod (upstream's global map path).
    pub fn global_map_dir(&self, pv: &str) -> PathBuf {
        self.device_dir(pv).join("dev")
    }

    /// Path at which a raw device is bound for a pod.
    pub fn global_map_path(&self, uid: &str, pv: &str) -> PathBuf {
        self.global_map_dir(pv).join(uid)
    }

    /// Parent of the staging paths of raw devices.
    pub fn staged_devices(&self) -> PathBuf {
        self.devices().join("staging")
    }

    /// Staging path of a raw device.
    pub fn device_staging_path(&self, pv: &str) -> PathBuf {
        self.staged_devices().join(pv)
    }

    /// Returns the parent of a raw device's target paths.
    pub fn device_publish_dir(&self, pv: &str) -> PathBuf {
        self.devices().join("publish").join(pv)
    }

    /// Target path of a raw device for a pod. The driver creates the file.
    pub fn device_publish_path(&self, uid: &str, pv: &str) -> PathBuf {
        self.device_publish_dir(pv).join(uid)
    }

    /// Splits a [`Paths::device_publish_path`] into PersistentVolume and pod.
    pub fn published_device(&self, path: &Path) -> Option<(String, String)> {
        let mut parts = path.strip_prefix(self.devices().join("publish")).ok()?.iter();
        let part = |part: Option<&std::ffi::OsStr>| Some(part?.to_str()?.to_owned());
        Some((part(parts.next())?, part(parts.next())?))
    }

    /// Parent of a pod's links to raw devices.
    pub fn pod_devices(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumeDevices").join(PLUGIN_DIR)
    }

    /// Returns a pod's link to a raw device.
    pub fn device_link(&self, uid: &str, pv: &str) -> PathBuf {
        self.pod_devices(uid).join(pv)
    }
}

/// Returns the metadata file beside `path`, a staging or target path.
pub fn vol_data_path(path: &Path) -> PathBuf {
    path.with_file_name(VOL_DATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_names_join_driver_and_handle_with_a_caret() {
        assert_eq!(VolumeName::new("ebs.csi.aws.com", "vol-1").as_str(), "kubernetes.io/csi/ebs.csi.aws.com^vol-1");
    }

    #[test]
    fn attachment_names_are_the_hash_of_handle_driver_and_node() {
        let name = attachment_name("h", "d", "n");
        assert_eq!(name, format!("csi-{}", hex::encode(Sha256::digest(b"hdn"))));
    }

    #[test]
    fn paths_are_those_of_upstream() {
        let paths = Paths::new("/var/lib/kubelet");
        assert_eq!(
            paths.target_path("u1", "pvc-1").to_str(),
            Some("/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pvc-1/mount")
        );
        let staged = paths.staging_target_path("d", "h");
        let hash = hex::encode(Sha256::digest(b"h"));
        assert_eq!(
            staged.to_str(),
            Some(format!("/var/lib/kubelet/plugins/kubernetes.io/csi/d/{hash}/globalmount").as_str())
        );
        let devices = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices";
        let published = Some(("pv".to_owned(), "u1".to_owned()));
        assert_eq!(paths.published_device(&paths.device_publish_path("u1", "pv")), published);
        assert_eq!(paths.published_device(&paths.global_map_path("u1", "pv")), None);
        for (path, upstream) in [
            (paths.device_staging_path("pv"), format!("{devices}/staging/pv")),
            (paths.device_publish_path("u1", "pv"), format!("{devices}/publish/pv/u1")),
            (paths.global_map_path("u1", "pv"), format!("{devices}/pv/dev/u1")),
            (paths.device_data_dir("pv"), format!("{devices}/pv/data")),
            (paths.device_link("u1", "pv"), "/var/lib/kubelet/pods/u1/volumeDevices/kubernetes.io~csi/pv".to_owned()),
        ] {
            assert_eq!(path.to_str(), Some(&*upstream));
        }
        assert_eq!(
            vol_data_path(&staged).to_str(),
            Some(format!("/var/lib/kubelet/plugins/kubernetes.io/csi/d/{hash}/vol_data.json").as_str())
        );
    }
}
