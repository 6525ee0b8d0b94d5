//! Claims: each one is bound if it can be, to a volume that satisfies it, and has its size.

use csi_mock::efs::EFS_DRIVER_NAME;
use fake_apiserver::events::{Claim, Volume};

use super::{Applied, Comparison};
use crate::model::Stored;
use crate::spec::object::Kind;

impl Comparison<'_> {
    /// Compares each claim with its manifest, and its size with its request.
    pub(super) fn claims(&mut self) {
        let (model, applied_objects) = (self.model, self.applied_objects);
        for (key, claim) in model.objects.claims() {
            let applied = applied_objects.of(Kind::claim(), key);
            let volume = claim.state.volume.as_deref().and_then(|name| model.objects.volume(name));
            let handle = volume.and_then(|pv| pv.state.handle.as_deref());
            let differs = applied.and_then(|applied| self.unlike_its_manifest(claim, applied));
            let differs = differs.or_else(|| match volume {
                Some(pv) if claim.state.phase.as_deref() == Some("Bound") => self.unlike_its_volume(key, claim, pv),
                Some(_) => None,
                None => applied.and_then(|applied| self.unbound(claim, applied)),
            });
            self.judge(handle, differs.map(|differs| format!("pvc/{key} {differs}")));
        }
    }

    fn unlike_its_manifest(&self, claim: &Stored<Claim>, applied: &Applied) -> Option<String> {
        if applied.manifest.is_null() {
            return None;
        }
        if claim.state.deleting {
            return Some("is being deleted, and its user did not ask for that".to_owned());
        }
        let (has, wants) = (&claim.spec, applied.details.spec.as_deref().cloned().unwrap_or_default());
        let what = if has.access_modes != wants.access_modes {
            "access modes"
        } else if has.block != wants.block {
            "volume mode"
        } else if has.request != wants.request {
            "size"
        } else if wants.class.is_some() && has.class != wants.class {
            "StorageClass"
        } else if has.attributes_class != wants.attributes_class {
            "VolumeAttributesClass"
        } else {
            return None;
        };
        Some(format!("asks for another {what} than its manifest"))
    }

    /// Returns the difference between a bound claim and its volume.
    fn unlike_its_volume(&self, key: &str, claim: &Stored<Claim>, pv: &Stored<Volume>) -> Option<String> {
        if pv.state.claim.as_deref() != Some(key) {
            let of = pv.state.claim.as_deref().unwrap_or("no claim");
            return Some(format!("is Bound, and its PersistentVolume belongs to {of}"));
        }
        let (request, handle) = (claim.spec.request?, pv.state.handle.as_deref()?);
        if !self.applied_objects.have(&["csi-resizer", "csi-mock"]) || self.cannot_grow(handle) {
            return None;
        }
        // A node expands a filesystem only while a pod can write to it.
        let name = key.split_once('/').map_or(key, |(_, name)| name);
        let mut users = self.model.objects.users(key).map(|(_, pod)| pod);
        let has_writer = users.any(|pod| {
            let writes = !pv.spec.read_only && !pod.spec.read_only_claims.iter().any(|claim| claim == name);
            writes && pod.state.phase.as_deref() == Some("Running")
        });
        if let Some(capacity) = pv.spec.capacity.filter(|capacity| *capacity < request) {
            // external-resizer requests a larger size only after a node has finished the previous expansion
            // (`NodeResizePending`).
            let waits_for_node = claim.spec.capacity.is_some_and(|filesystem| filesystem < capacity) && !has_writer;
            return (!waits_for_node)
                .then(|| format!("asks for {request} bytes, and its PersistentVolume has {capacity}"));
        }
        let capacity = claim.spec.capacity.filter(|_| has_writer)?;
        if capacity < request {
            return Some(format!("asks for {request} bytes, and its status says {capacity}, with a pod that runs"));
        }
        if let Some(of_volume) = pv.spec.capacity.filter(|of_volume| capacity < *of_volume) {
            return Some(format!("has a PersistentVolume of {of_volume} bytes, and its status says {capacity}"));
        }
        let filesystem = self.model.objects.filesystem(handle).filter(|has| *has < capacity && !pv.spec.block)?;
        Some(format!("has a filesystem of {filesystem} bytes, and its status says {capacity}"))
    }

    fn cannot_grow(&self, handle: &str) -> bool {
        ["ControllerExpandVolume", "NodeExpandVolume"].iter().any(|rpc| self.present.is_refused(rpc, handle))
    }

    /// Returns the reason why a claim without a volume should have one.
    fn unbound(&self, claim: &Stored<Claim>, applied: &Applied) -> Option<String> {
        if claim.state.phase.as_deref() == Some("Lost") || !self.can_provision(claim, applied) {
            return None;
        }
        let (class, mode) = self.class(claim)?;
        let why = match (&claim.spec.selected_node, mode) {
            (Some(node), _) => format!("and the scheduler chose {node} for it"),
            (None, "WaitForFirstConsumer") => return None,
            (None, _) => format!("and its StorageClass {class} binds at once"),
        };
        Some(format!("has no volume, {why}"))
    }

    /// Returns the StorageClass of a claim and its binding mode, if its manifest is known and names our driver.
    pub(super) fn class(&self, claim: &Stored<Claim>) -> Option<(String, &str)> {
        let name = claim.spec.class.as_deref()?;
        let class = self.applied_objects.manifest("StorageClass", name)?;
        let provisioner = class["provisioner"].as_str().unwrap_or_default();
        let mut drivers = self.present.drivers.values().flat_map(|node| &node.drivers);
        let mut is_second = || provisioner == EFS_DRIVER_NAME && drivers.any(|driver| driver.name == provisioner);
        (provisioner == self.applied_objects.driver() || is_second())
            .then(|| (name.to_owned(), class["volumeBindingMode"].as_str().unwrap_or("Immediate")))
    }

    /// Returns true if a volume can be provisioned for a claim: all components run, the claim names neither a source
    /// nor a volume, and the driver has not refused it.
    pub(super) fn can_provision(&self, claim: &Stored<Claim>, applied: &Applied) -> bool {
        let spec = &applied.manifest["spec"];
        let named = ["dataSource", "dataSourceRef", "volumeName", "selector"];
        self.applied_objects.have(&["persistentvolume-binder-controller", "csi-provisioner", "csi-mock"])
            && self.class(claim).is_some()
            && !applied.manifest.is_null()
            && named.iter().all(|field| spec[*field].is_null())
            && !self.present.is_refused("CreateVolume", &applied.uid)
    }
}
