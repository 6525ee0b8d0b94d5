//! The desired state of world: volumes that the pods of this node want.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::super::names::VolumeName;
use super::spec::VolumeSpec;

/// A volume that at least one pod wants.
#[derive(Clone, Debug)]
pub struct DesiredVolume {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// True if a controller must attach it (CSIDriver.spec.attachRequired).
    pub attachable: bool,
    /// True if node status has listed it in volumesInUse since it is wanted.
    pub reported_in_use: bool,
    /// The pods that want it, by uid.
    pub pods: BTreeMap<String, DesiredMount>,
}

/// Size of a volume according to its API objects, in bytes; 0 if unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// `spec.capacity` of the volume.
    pub volume: i64,
    /// `status.capacity` of the claim, which follows once the filesystem has grown too.
    pub claim: i64,
}

/// A pod's use of a volume.
#[derive(Clone, Debug)]
pub struct DesiredMount {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Names in the pod's `spec.volumes`. Several names can refer to one volume (kubernetes#122140).
    pub volumes_in_pod: BTreeSet<String>,
    /// `persistentVolumeClaim.readOnly`.
    pub readonly: bool,
    /// Size of the volume at the last lookup.
    pub sizes: Sizes,
}

/// Volume → pods.
#[derive(Clone, Debug, Default)]
pub struct DesiredStateOfWorld {
    volumes: BTreeMap<VolumeName, DesiredVolume>,
    /// Pod uid → errors of looking up its volumes.
    errors: BTreeMap<String, BTreeSet<String>>,
}

impl DesiredStateOfWorld {
    /// Adds a pod's use of a volume. A volume that is already wanted keeps its fields, except that it stops being
    /// attachable when its driver does (kubernetes#89173).
    pub fn add(&mut self, spec: Arc<VolumeSpec>, attachable: bool, uid: &str, mount: DesiredMount) {
        let volume = self.volumes.entry(spec.name.clone()).or_insert_with(|| DesiredVolume {
            spec,
            attachable,
            reported_in_use: false,
            pods: BTreeMap::new(),
        });
        volume.attachable &= attachable;
        match volume.pods.entry(uid.to_owned()) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                known.sizes = mount.sizes;
                known.volumes_in_pod.extend(mount.volumes_in_pod);
            }
            Entry::Vacant(new) => drop(new.insert(mount)),
        }
    }

    /// Drops pods that are not in `wanted`, then volumes without pods. Returns true after a change.
    pub fn retain_pods(&mut self, wanted: &BTreeSet<String>) -> bool {
        let mut changed = false;
        self.volumes.retain(|_, volume| {
            let before = volume.pods.len();
            volume.pods.retain(|uid, _| wanted.contains(uid));
            changed |= volume.pods.len() != before;
            !volume.pods.is_empty()
        });
        self.errors.retain(|uid, _| wanted.contains(uid));
        changed
    }

    /// Returns the volume, if a pod wants it.
    pub fn get(&self, name: &VolumeName) -> Option<&DesiredVolume> {
        self.volumes.get(name)
    }

    /// Returns true if `uid` wants the volume.
    pub fn pod_wants(&self, name: &VolumeName, uid: &str) -> bool {
        self.volumes.get(name).is_some_and(|v| v.pods.contains_key(uid))
    }

    /// Returns the volumes that `uid` wants, by their names in the pod's `spec.volumes`.
    pub fn of_pod<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = (&'a str, &'a VolumeName)> {
        let wanted = self.volumes.iter().filter_map(move |(name, v)| Some((name, v.pods.get(uid)?)));
        wanted.flat_map(|(name, mount)| mount.volumes_in_pod.iter().map(move |in_pod| (in_pod.as_str(), name)))
    }

    /// Returns true if `uid` wants the volume of this PersistentVolume, or the inline volume of this name.
    pub fn has_spec(&self, uid: &str, pv: &str) -> bool {
        self.volumes.values().any(|v| v.spec.pv == pv && v.pods.contains_key(uid))
    }

    /// Iterates over all volumes in order of their names.
    pub fn volumes(&self) -> impl Iterator<Item = (&VolumeName, &DesiredVolume)> {
        self.volumes.iter()
    }

    /// Records the volumes that a Node object lists as in use.
    pub fn mark_reported_in_use(&mut self, listed: &BTreeSet<&str>) -> bool {
        let mut changed = false;
        for (name, volume) in &mut self.volumes {
            let reported = listed.contains(name.as_str());
            changed |= volume.reported_in_use != reported;
            volume.reported_in_use = reported;
        }
        changed
    }

    /// Keeps a lookup error of a pod until it is taken.
    pub fn add_error(&mut self, uid: &str, error: String) {
        self.errors.entry(uid.to_owned()).or_default().insert(error);
    }

    /// Takes the errors of a pod.
    pub fn take_errors(&mut self, uid: &str) -> Vec<String> {
        self.errors.remove(uid).map(|errors| errors.into_iter().collect()).unwrap_or_default()
    }

    /// Returns true if a pod has lookup errors.
    pub fn has_errors(&self, uid: &str) -> bool {
        self.errors.contains_key(uid)
    }
}
