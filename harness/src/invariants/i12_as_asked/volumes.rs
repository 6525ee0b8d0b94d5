//! Provisioned volumes: the cloud has them with the parameters of their class, and deletes or keeps them as their
//! reclaim policy says.

use csi_mock::efs::is_handle;
use fake_apiserver::events::Volume;

use super::Comparison;
use crate::invariants::{Made, parameters};
use crate::model::Stored;

impl Comparison<'_> {
    /// Compares each provisioned PersistentVolume with its claim and with the cloud.
    pub(super) fn volumes(&mut self) {
        let model = self.model;
        let provisioned = model.objects.volumes().filter(|(name, _)| self.present.provisioned.contains(*name));
        for (name, pv) in provisioned.collect::<Vec<_>>() {
            let Some((handle, claim)) = pv.state.handle.as_deref().zip(pv.state.claim.as_deref()) else { continue };
            let is_claimed =
                model.objects.claim(claim).is_some_and(|claim| claim.state.volume.as_deref() == Some(name));
            let differs = if self.applied_objects.has_touched(handle) {
                continue;
            } else if is_claimed || pv.state.reclaim.is_some() {
                self.unlike_its_class(pv, handle, is_claimed)
            } else {
                self.is_left(claim)
            };
            self.judge(Some(handle), differs.map(|differs| format!("persistentvolume/{name} {differs}")));
        }
    }

    /// Returns the difference between a volume and its class, if the volume still has its claim or the reclaim policy
    /// Retain.
    fn unlike_its_class(&self, pv: &Stored<Volume>, handle: &str, is_claimed: bool) -> Option<String> {
        let wanted = if is_claimed { "Bound" } else { "Released" };
        let phase = pv.state.phase.as_deref().unwrap_or_default();
        if phase != wanted && self.applied_objects.have(&["persistentvolume-binder-controller"]) {
            let why = if is_claimed { "and its claim is bound to it" } else { "and its claim is gone" };
            return Some(format!("is {phase}, {why}"));
        }
        if is_handle(handle) {
            // A shared file system has neither a size nor a type.
            let is_lost = !self.machines.access_points.contains(handle);
            return is_lost.then(|| format!("is {phase}, and EFS has no {handle}"));
        }
        let Some(cloud) = self.machines.volumes.get(handle) else {
            return Some(format!("is {phase}, and the cloud has no {handle}"));
        };
        if let Some(bytes) = pv.spec.capacity.filter(|bytes| *bytes > cloud.size_gib << 30) {
            return Some(format!("has {bytes} bytes, and {handle} has {} GiB in the cloud", cloud.size_gib));
        }
        let claim = self.model.objects.claim(pv.state.claim.as_deref()?).filter(|_| is_claimed)?;
        if let Some(class) = &claim.spec.attributes_class {
            let manifest = self.applied_objects.manifest("VolumeAttributesClass", class)?;
            if !self.applied_objects.have(&["csi-resizer"]) || self.present.is_refused("ControllerModifyVolume", handle)
            {
                return None;
            }
            let parameters = manifest["parameters"].as_object()?;
            let parameters = parameters.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
            let differs = unlike(cloud, parameters)?;
            return Some(format!("{differs}, and its VolumeAttributesClass {class} asks for another"));
        }
        let name = claim.spec.class.as_deref()?;
        let differs = self
            .model
            .objects
            .class(name)
            .iter()
            .map(|class| unlike(cloud, class.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str()))));
        let differs = differs.collect::<Option<Vec<_>>>()?.into_iter().next_back()?;
        Some(format!("{differs}, and its StorageClass {name} asks for another"))
    }

    fn is_left(&self, claim: &str) -> Option<String> {
        let runs = self.applied_objects.have(&["persistentvolume-binder-controller", "csi-provisioner", "csi-mock"]);
        runs.then(|| format!("is there, and its claim {claim} is gone, with the reclaim policy Delete"))
    }
}

/// Returns the first parameter with another value in the cloud, as the beginning of a sentence.
fn unlike<'a>(cloud: &Made, mut parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    parameters.find_map(|(key, wanted)| {
        let key = key.to_lowercase();
        let of = (cloud.parameters.get("type")?.as_str(), cloud.size_gib);
        let has = cloud.parameters.get(key.as_str()).filter(|has| !parameters::has_served(of, &key, has, wanted))?;
        Some(format!("has the {key} {has} in the cloud"))
    })
}
