//! I5: nothing leaks. Leftovers at quiescence, after every created object was deleted.

use std::path::Path;

use serde::Serialize;

use super::Symptom;

/// Leftovers, each by a name that a user can search for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leftovers {
    /// Volumes that the cloud still has.
    pub cloud_volumes: Vec<String>,
    /// Access points that EFS still has, as volume handles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access_points: Vec<String>,
    /// Attachments that the cloud still has, as `vol-… on i-…`.
    pub cloud_attachments: Vec<String>,
    /// VolumeAttachment objects.
    pub volume_attachments: Vec<String>,
    /// PersistentVolume objects.
    pub persistent_volumes: Vec<String>,
    /// Objects that are being deleted and wait for a finalizer, as `pvc/data: kubernetes.io/pvc-protection`.
    pub finalizers: Vec<String>,
    /// Mounts, as `node-a: /path`.
    pub mounts: Vec<String>,
    /// Block devices that are still plugged in, as `node-a: /dev/xvdaa`.
    pub devices: Vec<String>,
    /// Staging and target directories, as `node-a: /path`.
    pub directories: Vec<String>,
}

impl Leftovers {
    /// Returns true if there are no leftovers.
    pub fn is_empty(&self) -> bool {
        self.kinds().iter().all(|(_, _, list)| list.is_empty())
    }

    fn kinds(&self) -> [(Symptom, &'static str, &[String]); 9] {
        let of_pods = self.mounts.iter().any(|mount| mount.contains("/pods/"));
        let mount = if of_pods { Symptom::PodMountLeft } else { Symptom::MountLeft };
        [
            (Symptom::CloudVolumeLeft, "cloud volume", &self.cloud_volumes),
            (Symptom::CloudVolumeLeft, "access point", &self.access_points),
            (Symptom::CloudAttachmentLeft, "cloud attachment", &self.cloud_attachments),
            (Symptom::VolumeAttachmentLeft, "VolumeAttachment", &self.volume_attachments),
            (Symptom::PersistentVolumeLeft, "PersistentVolume", &self.persistent_volumes),
            (Symptom::FinalizerLeft, "finalizer", &self.finalizers),
            (mount, "mount", &self.mounts),
            (Symptom::DeviceLeft, "device", &self.devices),
            (Symptom::DirectoryLeft, "directory", &self.directories),
        ]
    }

    /// Returns the directories for which `volume_of` gives a volume, each with its node and the volume; and all other
    /// leftovers.
    pub(super) fn split<V>(&self, volume_of: impl Fn(&str, &Path) -> Option<V>) -> (Vec<(String, String, V)>, Self) {
        let mut others = Self { directories: Vec::new(), ..self.clone() };
        let mut found = Vec::new();
        for directory in &self.directories {
            let (node, path) = directory.split_once(": ").unwrap_or_default();
            match volume_of(node, Path::new(path)) {
                Some(volume) => found.push((directory.clone(), node.to_owned(), volume)),
                None => others.directories.push(directory.clone()),
            }
        }
        (found, others)
    }

    /// Returns one sentence for each kind of leftover, with the leftovers.
    pub(super) fn sentences(&self) -> Vec<(Symptom, String, Vec<String>)> {
        let left = |(symptom, kind, list): &(Symptom, &str, &[String])| match list {
            [] => None,
            [one] => {
                let article = if kind.starts_with('a') { "an" } else { "a" };
                Some((*symptom, format!("{article} {kind} is left over: {one}"), list.to_vec()))
            }
            many => {
                let shown = many.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = if many.len() > 5 { ", …" } else { "" };
                Some((*symptom, format!("{} {}: {shown}{more}", many.len(), plural(kind)), list.to_vec()))
            }
        };
        self.kinds().iter().filter_map(left).collect()
    }
}

fn plural(kind: &str) -> String {
    let stem = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
    format!("{stem} are left over")
}
