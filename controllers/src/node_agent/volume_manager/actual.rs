//! The actual state of world: what is attached, staged and published on this node, as far as kubelet knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::names::VolumeName;
use super::spec::VolumeSpec;

/// Whether a controller attaches the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachability {
    /// Yes.
    True,
    /// No.
    False,
    /// Not known yet: found on disk, node status not read since.
    Uncertain,
}

/// How far a mount, global or of a pod, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Not mounted.
    NotMounted,
    /// It may be mounted: a call ended without a final answer, or it was found on disk.
    Uncertain,
    /// Mounted.
    Mounted,
}

/// A volume that is attached to this node.
#[derive(Clone, Debug)]
pub struct AttachedVolume {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// Whether a controller attaches it.
    pub attachable: Attachability,
    /// The global mount: NodeStage.
    pub device: MountState,
    /// The global mount was found on disk and not confirmed since.
    pub device_reconstructed: bool,
    /// How large the filesystem is known to be, in bytes; 0 when nobody knows.
    pub size: i64,
    /// The driver cannot expand it while it is in use.
    pub expansion_refused: bool,
    /// The pods' mounts, by uid: NodePublish.
    pub pods: BTreeMap<String, MountedPod>,
}

/// A pod's mount of a volume. [`MountState::NotMounted`] is never stored: the entry goes instead.
#[derive(Clone, Debug)]
pub struct MountedPod {
    /// How far it has come.
    pub state: MountState,
    /// It was found on disk and not confirmed since.
    pub reconstructed: bool,
    /// It must be published once more (`remountRequired`).
    pub remount: bool,
    /// A raw device that is, or may be, mapped for the pod: only an unmap ends that, no answer of the driver does.
    pub mapped: bool,
    /// The name in the pod's `spec.volumes`, when a pod was seen.
    pub volume_in_pod: String,
    /// `<namespace>/<name>` of the pod; empty when the mount was found on disk.
    pub pod: String,
}

/// Volume → device → pods.
#[derive(Clone, Debug, Default)]
pub struct ActualStateOfWorld {
    volumes: BTreeMap<VolumeName, AttachedVolume>,
}

impl ActualStateOfWorld {
    /// The volume, when it is attached.
    pub fn get(&self, name: &VolumeName) -> Option<&AttachedVolume> {
        self.volumes.get(name)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, name: &VolumeName) -> Option<&mut AttachedVolume> {
        self.volumes.get_mut(name)
    }

    /// A pod's mount of a volume, to change it; none without a pod.
    pub fn pod_mut(&mut self, name: &VolumeName, uid: Option<&str>) -> Option<&mut MountedPod> {
        self.volumes.get_mut(name)?.pods.get_mut(uid?)
    }

    /// All volumes in order of their names.
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

    /// How a pod's mount stands.
    pub fn mount_state(&self, name: &VolumeName, uid: &str) -> MountState {
        self.volumes.get(name).and_then(|v| v.pods.get(uid)).map_or(MountState::NotMounted, |p| p.state)
    }

    /// Whether a pod that wants the volume lacks it, or must have it published once more.
    pub fn must_mount(&self, name: &VolumeName, uid: &str) -> bool {
        let pod = self.volumes.get(name).and_then(|v| v.pods.get(uid));
        pod.is_none_or(|p| p.state != MountState::Mounted || p.remount)
    }

    /// Whether the filesystem, which is in use, is smaller than `size` bytes and may grow.
    pub fn may_grow(&self, name: &VolumeName, size: i64) -> bool {
        self.volumes.get(name).is_some_and(|v| v.size != 0 && v.size < size && !v.expansion_refused)
    }

    /// Whether a pod other than `uid` has, or may have, the volume mounted.
    pub fn is_mounted_elsewhere(&self, name: &VolumeName, uid: &str) -> bool {
        self.volumes.get(name).is_some_and(|v| v.pods.keys().any(|other| other != uid))
    }
}
