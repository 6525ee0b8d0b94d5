//! Paths of a volume by its specification.

use std::path::PathBuf;

use csi_disk::Mapping;

use crate::node_agent::names::Paths;
use crate::node_agent::volume_manager::VolumeSpec;

impl Paths {
    /// Returns the staging path of a volume.
    pub(super) fn staging_of(&self, spec: &VolumeSpec) -> PathBuf {
        if spec.is_inline() {
            // An inline volume is not staged: its driver gets no staging path.
            PathBuf::new()
        } else if spec.block {
            self.device_staging_path(&spec.pv)
        } else {
            self.staging_target_path(&spec.driver, &spec.handle)
        }
    }

    /// Returns the target path of a volume for a pod.
    pub(crate) fn target_of(&self, uid: &str, spec: &VolumeSpec) -> PathBuf {
        if spec.block { self.device_publish_path(uid, &spec.pv) } else { self.target_path(uid, &spec.pv) }
    }

    pub(crate) fn mapping_of(&self, uid: &str, spec: &VolumeSpec) -> Mapping {
        Mapping {
            volume: spec.handle.clone(),
            device: self.target_of(uid, spec),
            global: self.global_map_path(uid, &spec.pv),
            link: self.device_link(uid, &spec.pv),
        }
    }
}
