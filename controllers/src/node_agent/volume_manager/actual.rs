//! The actual state of world: volumes attached, staged and published on this node, as far as kubelet knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::names::VolumeName;
use super::spec::VolumeSpec;

/// Attachability of a volume: True if a controller attaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachability {
    /// Yes.
    True,
    /// No.
    False,
    /// Unknown: found on disk, and node status not read since.
    Uncertain,
}

/// State of a mount: global, or of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Not mounted.
    NotMounted,
    /// Possibly mounted: a call ended without a final answer, or the mount was found on disk.
    Uncertain,
    /// Mounted.
    Mounted,
}

/// A volume that is attached to this node.
#[derive(Clone, Debug)]
pub struct AttachedVolume {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// Attachability.
    pub attachable: Attachability,
    /// The global mount: NodeStage.
    pub device: MountState,
    /// True if the global mount was found on disk and has not been confirmed since.
    pub device_reconstructed: bool,
    /// Known size of the filesystem in bytes; 0 if unknown.
    pub size: i64,
    /// True if the driver cannot expand the volume while it is in use.
    pub expansion_refused: bool,
    /// The pods' mounts, by uid: NodePublish.
    pub pods: BTreeMap<String, MountedPod>,
}

/// Mount of a volume for a pod. [`MountState::NotMounted`] is never stored: the entry is removed instead.
#[derive(Clone, Debug)]
pub struct MountedPod {
    /// State of the mount.
    pub state: MountState,
    /// True if the mount was found on disk and has not been confirmed since.
    pub reconstructed: bool,
    /// True if the volume must be published again (`remountRequired`).
    pub remount: bool,
    /// True if a raw device is, or may be, mapped for the pod. Only an unmap clears it, no answer of the driver does.
    pub mapped: bool,
    /// `<namespace>/<name>` of the pod; empty if the mount was found on disk.
    pub pod: String,
}

/// Volume → device → pods.
#[derive(Clone, Debug, Default)]
pub struct ActualStateOfWorld {
    volumes: BTreeMap<VolumeName, AttachedVolume>,
}

impl ActualStateOfWorld {
    /// Returns the volume, if it is attached.
    pub fn get(&self, name: &VolumeName) -> Option<&AttachedVolume> {
        self.volumes.get(name)
    }

    /// Returns the volume for a change.
    pub fn get_mut(&mut self, name: &VolumeName) -> Option<&mut AttachedVolume> {
        self.volumes.get_mut(name)
    }

    /// Returns a pod's mount for a change; None without a pod.
    pub fn pod_mut(&mut self, name: &VolumeName, uid: Option<&str>) -> Option<&mut MountedPod> {
        self.volumes.get_mut(name)?.pods.get_mut(uid?)
    }

    /// Iterates over all volumes in order of their names.
    pub fn volumes(&self) -> impl Iterator<Item = (&VolumeName, &AttachedVolume)> {
        self.volumes.iter()
    }

    /// Marks a volume as attached.
    pub fn mark_attached(&mut self, spec: Arc<VolumeSpec>, attachable: Attachability) -> &mut AttachedVolume {
        self.volumes.entry(spec.name.clone()).or_insert_with(|| AttachedVolume {
            spec,
            attachable,
            device: MountState::NotMounted,
            device_reconstructed: false,
            size: 0,
            expansion_refused: false,
            pods: BTreeMap::new(),
        })
    }

    /// Forgets a volume.
    pub fn mark_detached(&mut self, name: &VolumeName) {
        self.volumes.remove(name);
    }

    /// Returns the state of a pod's mount.
    pub fn mount_state(&self, name: &VolumeName, uid: &str) -> MountState {
        self.volumes.get(name).and_then(|v| v.pods.get(uid)).map_or(MountState::NotMounted, |p| p.state)
    }

    /// Returns true if a pod lacks the volume, or must have it published again.
    pub fn must_mount(&self, name: &VolumeName, uid: &str) -> bool {
        let pod = self.volumes.get(name).and_then(|v| v.pods.get(uid));
        pod.is_none_or(|p| p.state != MountState::Mounted || p.remount)
    }

    /// Returns true if the filesystem of a volume in use is smaller than `size` bytes and may grow.
    pub fn may_grow(&self, name: &VolumeName, size: i64) -> bool {
        self.volumes.get(name).is_some_and(|v| v.size != 0 && v.size < size && !v.expansion_refused)
    }

    /// Returns true if a pod other than `uid` has, or may have, the volume mounted.
    pub fn is_mounted_elsewhere(&self, name: &VolumeName, uid: &str) -> bool {
        self.volumes.get(name).is_some_and(|v| v.pods.keys().any(|other| other != uid))
    }
}
