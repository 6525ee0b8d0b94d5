//! Pods: a pod is on a node if one has room for its volumes, and a running pod has its volumes.

use std::collections::BTreeSet;

use fake_apiserver::events::{Pod, Volume};
use substrate::json::Value;

use super::{Applied, Comparison};
use crate::invariants::i9_mounts::only_reads;
use crate::model::{ClaimKey, Stored, claims_of};
use crate::spec::object::Kind;

/// Fields in which a pod has requirements for the scheduler besides its volumes.
const PLACED_BY: &[&str] =
    &["affinity", "nodeSelector", "nodeName", "schedulerName", "schedulingGates", "topologySpreadConstraints"];

impl Comparison<'_> {
    /// Compares each pod that a user applied with its manifest.
    pub(super) fn pods(&mut self) {
        let (model, applied_objects) = (self.model, self.applied_objects);
        for (key, pod) in model.objects.pods().filter(|(_, pod)| !pod.state.deleting) {
            let Some(applied) = applied_objects.of(Kind::pod(), key).filter(|applied| !applied.manifest.is_null())
            else {
                continue;
            };
            match (&pod.state.node, pod.state.phase.as_deref()) {
                (Some(node), Some("Running")) => self.volumes_of(key, pod, applied, node),
                (None, _) => {
                    let differs = self.unplaced(key, pod, applied);
                    self.judge(None, differs.map(|differs| format!("pod/{key} {differs}")));
                }
                _ => {}
            }
        }
    }

    /// Compares the volumes of a running pod with the mounts of its node.
    fn volumes_of(&mut self, key: &str, pod: &Stored<Pod>, applied: &Applied, node: &str) {
        let Some(mounts) = self.machines.mounts.get(node) else { return };
        let namespace = key.split_once('/').map_or("default", |(namespace, _)| namespace);
        for name in used_claims(&applied.manifest["spec"]) {
            let claim = self.model.objects.claim(&format!("{namespace}/{name}"));
            let pv = claim.and_then(|claim| self.model.objects.volume(claim.state.volume.as_deref()?));
            let Some((pv, handle)) = pv.and_then(|pv| Some((pv, pv.state.handle.as_deref()?))) else { continue };
            let mut of_pod = mounts.iter().filter(|mount| mount.path.to_string_lossy().contains(&applied.uid));
            let mount = of_pod.find(|mount| mount.volume == handle);
            let only_reads =
                pv.spec.read_only || only_reads(pv) || pod.spec.read_only_claims.iter().any(|claim| *claim == name);
            let differs = match mount {
                None => Some("runs on {node} without {handle}, the volume of its claim {name}"),
                Some(mount) if mount.kind.is_raw() && !pv.spec.block => {
                    Some("has {handle} on {node} as a raw device, and its claim {name} asks for a filesystem")
                }
                Some(mount) if !mount.kind.is_raw() && pv.spec.block => {
                    Some("has {handle} on {node} as a filesystem, and its claim {name} asks for a raw device")
                }
                Some(mount) if !pv.spec.block && mount.readonly && !only_reads => {
                    Some("can only read {handle} on {node}, and asks to write")
                }
                Some(mount) if !pv.spec.block && !mount.readonly && only_reads => {
                    Some("can write {handle} on {node}, and may only read")
                }
                Some(mount) if !only_reads && self.is_of_another_group(&applied.manifest, pv, mount.group) => {
                    Some("runs on {node}, and the files of {handle} are not of its fsGroup")
                }
                Some(_) => None,
            };
            let fill = |text: &str| text.replace("{handle}", handle).replace("{node}", node).replace("{name}", &name);
            self.judge(Some(handle), differs.map(|differs| format!("pod/{key} {}", fill(differs))));
        }
    }

    /// Returns true if kubelet must give the volume to the pod's fsGroup, but the files belong to `group`. Without a
    /// policy in the CSIDriver, kubelet does so for volumes that have a filesystem type and one writing node.
    fn is_of_another_group(&self, manifest: &Value, pv: &Stored<Volume>, group: Option<u32>) -> bool {
        let wanted = manifest["spec"]["securityContext"]["fsGroup"].as_u64();
        let Some((wanted, group)) = wanted.zip(group.map(u64::from)) else { return false };
        let policy = self.applied_objects.manifest("CSIDriver", self.applied_objects.driver());
        let policy = policy.and_then(|driver| driver["spec"]["fsGroupPolicy"].as_str());
        let modes = &pv.state.access_modes;
        let once = modes.iter().any(|mode| ["ReadWriteOnce", "ReadWriteOncePod"].contains(&mode.as_str()));
        let gives = match policy.unwrap_or("ReadWriteOnceWithFSType") {
            "File" => true,
            "ReadWriteOnceWithFSType" => once && pv.spec.fs_type.is_some(),
            _ => false,
        };
        let is_known = self.applied_objects.have(&["kubelet"]) && !self.applied_objects.has_patched_driver();
        gives && is_known && wanted != group
    }

    /// Returns the reason why a pod without a node should have one.
    fn unplaced(&self, key: &str, pod: &Stored<Pod>, applied: &Applied) -> Option<String> {
        let spec = &applied.manifest["spec"];
        let is_plain = PLACED_BY.iter().all(|field| spec[*field].is_null()) && asks_for_nothing_else(spec);
        if !is_plain || !self.applied_objects.have(&["kube-scheduler", "csi-mock", "kubelet"]) {
            return None;
        }
        let mut zones: Option<BTreeSet<&str>> = None;
        let mut volumes = BTreeSet::new();
        for of in claims_of(key, &pod.state) {
            let claim = self.model.objects.claim(&of).filter(|claim| !claim.state.deleting)?;
            let alone = claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
            if alone && self.model.objects.users(&of).any(|(user, _)| **user != *key) {
                return None;
            }
            if let Some(pv) = claim.state.volume.as_deref().and_then(|name| self.model.objects.volume(name)) {
                if !pv.spec.zones.is_empty() {
                    let of_pv: BTreeSet<&str> = pv.spec.zones.iter().map(|zone| zone.as_str()).collect();
                    zones = Some(zones.map_or(of_pv.clone(), |zones| zones.intersection(&of_pv).copied().collect()));
                }
            } else {
                let applied = self.applied_objects.of(Kind::claim(), &of)?;
                let class = claim.spec.class.as_deref()?;
                let is_free = self.model.objects.class(class).iter().all(|class| class.zones.is_empty());
                if !is_free || !self.can_provision(claim, applied) || self.class(claim)?.1 != "WaitForFirstConsumer" {
                    return None;
                }
            }
            volumes.insert(of);
        }
        let mut nodes = self.model.objects.nodes.iter().filter(|(_, node)| node.state.ready.as_deref() == Some("True"));
        let (node, _) = nodes.find(|(node, _)| {
            let zone = self.model.objects.zone(node).map(|zone| zone.as_str());
            let is_in = zones.as_ref().is_none_or(|zones| zone.is_some_and(|zone| zones.contains(zone)));
            is_in && self.is_open(node) && self.has_room(node, &volumes)
        })?;
        Some(format!("is on no node, and {node} has room for it and its volumes"))
    }

    /// Returns true if a node has no taint, was not cordoned by the user, and has the driver.
    fn is_open(&self, node: &str) -> bool {
        let is_tainted = self.model.objects.nodes.get(node).is_some_and(|node| !node.state.taints.is_empty());
        let drivers = self.present.drivers.get(node).map(|csi| csi.drivers.as_slice()).unwrap_or_default();
        let has_driver = drivers.iter().any(|driver| driver.name == self.applied_objects.driver());
        !is_tainted && !self.applied_objects.has_cordoned(node) && has_driver
    }

    /// Returns true if the node's volume limit allows these claims beside those of its pods.
    fn has_room(&self, node: &str, claims: &BTreeSet<ClaimKey>) -> bool {
        let drivers = self.present.drivers.get(node).map(|csi| csi.drivers.as_slice()).unwrap_or_default();
        let driver = drivers.iter().find(|driver| driver.name == self.applied_objects.driver());
        let Some(limit) = driver.and_then(|driver| driver.limit) else { return true };
        let mut all = claims.clone();
        for (key, pod) in self.model.objects.pods().filter(|(_, pod)| pod.state.node.as_deref() == Some(node)) {
            all.extend(claims_of(key, &pod.state));
        }
        all.len() as u64 <= limit
    }
}

/// Returns the claims of the volumes that a container of the pod mounts.
fn used_claims(spec: &Value) -> BTreeSet<String> {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(spec, field));
    let mounted: BTreeSet<String> = containers
        .flat_map(|container| ["volumeMounts", "volumeDevices"].into_iter().flat_map(move |f| list(&container, f)))
        .filter_map(|mount| mount["name"].as_str().map(str::to_owned))
        .collect();
    let volumes = list(spec, "volumes");
    let volumes = volumes.iter().filter(|volume| volume["name"].as_str().is_some_and(|name| mounted.contains(name)));
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)).collect()
}

/// Returns true if a pod requests neither resources, nor host ports, nor inline or ephemeral volumes.
fn asks_for_nothing_else(spec: &Value) -> bool {
    let list = |of: &Value, field: &str| of[field].as_array().cloned().unwrap_or_default();
    let volumes = list(spec, "volumes").iter().all(|v| v["csi"].is_null() && v["ephemeral"].is_null());
    let mut containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(spec, field));
    let needs = |c: &Value| !c["resources"].is_null() || list(c, "ports").iter().any(|p| !p["hostPort"].is_null());
    volumes && !containers.any(|container| needs(&container))
}
