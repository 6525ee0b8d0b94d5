//! Initial state of a cluster.

use std::collections::BTreeMap;

use fake_apiserver::state::qualified;
use serde_json::Value;

use mock_ec2::VolumeSpec;

use super::Manifest;

/// Initial state of a cluster, from an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Begin {
    /// Volumes of the cloud, with their attachments.
    pub volumes: Vec<VolumeSpec>,
    /// Objects as stored in the API server: with uids, times and statuses.
    pub objects: Vec<Manifest>,
}

impl Begin {
    /// True if there is no initial state.
    pub fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.objects.is_empty()
    }

    /// Region of the volumes. None if there are no volumes.
    pub fn region(&self) -> Option<String> {
        let zone = &self.volumes.first()?.zone;
        Some(zone.trim_end_matches(|c: char| c.is_ascii_lowercase()).to_owned()).filter(|region| !region.is_empty())
    }

    /// True if the cluster began with this volume and no PersistentVolume refers to it: such a volume is never deleted.
    pub fn has_loose(&self, volume: &str) -> bool {
        let handle = |manifest: &Manifest| manifest.value["spec"]["csi"]["volumeHandle"] == volume;
        self.volumes.iter().any(|spec| spec.id == volume) && !self.objects.iter().any(handle)
    }

    /// Objects by resource, `pods` or `volumeattachments.storage.k8s.io`, each with its namespace.
    pub fn resources(&self) -> BTreeMap<String, Vec<Value>> {
        let mut resources: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for manifest in &self.objects {
            let mut value = manifest.value.clone();
            if let Some(namespace) = &manifest.object.namespace {
                value["metadata"]["namespace"] = namespace.as_str().into();
            }
            resources.entry(qualified(manifest.object.kind.table())).or_default().push(value);
        }
        resources
    }
}
