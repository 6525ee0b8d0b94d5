//! Forms of objects at rest: the marks that each component leaves on nodes, volumes, claims and attachments, and on the
//! volumes of the cloud. These checks detect a lost write even if nothing else depends on it.

use std::collections::BTreeMap;

use csi_mock::efs::{EFS_DRIVER_NAME, is_handle};
use serde_json::Value as Json;
use substrate::json::Value;

use super::Comparison;
use crate::spec::object::Kind;

mod binding;
mod daemons;
mod endpoints;
mod quotas;
mod registration;
mod running;
mod snapshots;
#[cfg(test)]
mod tests;
mod workloads;

/// Objects of the API server as they are stored, and the volumes of the cloud by its admin API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredObjects {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Attachment information of each node's drivers.
    pub csi_nodes: Vec<Value>,
    /// PersistentVolumes.
    pub volumes: Vec<Value>,
    /// Pods.
    pub pods: Vec<Value>,
    /// Claims.
    pub claims: Vec<Value>,
    /// VolumeAttachments.
    pub attachments: Vec<Value>,
    /// StatefulSets, ReplicaSets, Deployments, Jobs and disruption budgets, each with its resource.
    pub workloads: Vec<(&'static str, Value)>,
    /// Objects of kinds that only few clusters have, by resource. A resource is absent if none was listed.
    pub rare: BTreeMap<&'static str, Vec<Value>>,
    /// Volumes of the cloud.
    pub cloud: Vec<Json>,
    /// Snapshots of the cloud.
    pub cloud_snapshots: Vec<Json>,
}

impl StoredObjects {
    /// Returns the objects of a rare resource that are not being deleted.
    fn rare(&self, resource: &str) -> impl Iterator<Item = &Value> {
        self.all_rare(resource).filter(|object| is_there(object))
    }

    /// Returns all objects of a rare resource.
    fn all_rare(&self, resource: &str) -> impl Iterator<Item = &Value> {
        self.rare.get(resource).into_iter().flatten()
    }
}

/// Taints that node-lifecycle removes from a node that is Ready.
const OF_LOST_NODES: &[&str] = &["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// Conditions of a claim that the end of an expansion or modification removes.
const UNDER_WAY: &[&str] = &[
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
    "ModifyingVolume",
    "ModifyVolumeError",
];

impl Comparison<'_> {
    /// Compares each stored object with the form that its components give it.
    pub(super) fn forms(&mut self) {
        let stored = &self.machines.stored;
        for node in &stored.nodes {
            let differs = self.form_of_node(node);
            self.judge(None, differs.map(|differs| format!("node/{} {differs}", name(node))));
        }
        for pv in stored.volumes.iter().filter(|pv| is_there(pv)) {
            let handle = pv["spec"]["csi"]["volumeHandle"].as_str();
            if handle.is_some_and(|handle| self.applied_objects.has_touched(handle)) {
                continue;
            }
            let differs = self.form_of_volume(pv).or_else(|| self.form_in_cloud(pv));
            self.judge(handle, differs.map(|differs| format!("persistentvolume/{} {differs}", name(pv))));
        }
        for claim in stored.claims.iter().filter(|claim| is_there(claim)) {
            let differs = self.form_of_claim(claim);
            let key = format!("{}/{}", text(&claim["metadata"]["namespace"]), name(claim));
            self.judge(None, differs.map(|differs| format!("pvc/{key} {differs}")));
        }
        for pod in stored.pods.iter().filter(|pod| is_there(pod)) {
            for volume in list(&pod["spec"]["volumes"]).iter().filter(|volume| !volume["ephemeral"].is_null()) {
                let differs = self.form_of_ephemeral(pod, volume);
                self.judge(None, differs);
            }
        }
        for attachment in stored.attachments.iter().filter(|attachment| is_there(attachment)) {
            let differs = self.form_of_attachment(attachment);
            self.judge(None, differs.map(|differs| format!("volumeattachment/{} {differs}", name(attachment))));
        }
        self.workloads();
    }

    /// Compares states that loops derive from other objects with these objects.
    pub(super) fn states(&mut self) {
        self.bindings();
        self.running();
        self.quotas();
        self.endpoint_slices();
        self.snapshots();
        self.daemons();
        self.registrations();
    }

    fn form_of_node(&self, node: &Value) -> Option<String> {
        let conditions = list(&node["status"]["conditions"]);
        let ready = conditions.iter().find(|c| c["type"] == "Ready").map(|c| text(&c["status"]))?;
        let taints = list(&node["spec"]["taints"]);
        if !self.applied_objects.have(&["node-lifecycle-controller"]) || ready != "True" {
            return None;
        }
        let left = taints.iter().map(|taint| text(&taint["key"])).find(|key| OF_LOST_NODES.contains(key));
        if let Some(key) = left {
            return Some(format!("is Ready, and has the taint {key}"));
        }
        let cordoned = node["spec"]["unschedulable"].as_bool().unwrap_or(false);
        let tainted = taints.iter().any(|taint| text(&taint["key"]) == "node.kubernetes.io/unschedulable");
        match (cordoned, tainted) {
            (true, false) => Some("is cordoned, and has no taint node.kubernetes.io/unschedulable".to_owned()),
            (false, true) => Some("is not cordoned, and has the taint node.kubernetes.io/unschedulable".to_owned()),
            _ => None,
        }
    }

    fn form_of_volume(&self, pv: &Value) -> Option<String> {
        if self.has_all(&["persistentvolume-protection-controller"])
            && !has_finalizer(pv, "kubernetes.io/pv-protection")
        {
            return Some("lacks the finalizer kubernetes.io/pv-protection".to_owned());
        }
        if !self.present.provisioned.contains(name(pv)) || !self.has_all(&["csi-provisioner", "csi-mock"]) {
            return None;
        }
        let is_share = is_handle(text(&pv["spec"]["csi"]["volumeHandle"]));
        let driver = if is_share { EFS_DRIVER_NAME } else { self.applied_objects.driver() };
        if text(&pv["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"]) != driver
            && !self.applied_objects.has_patched(Kind::volume(), name(pv), "metadata")
        {
            return Some(format!("lacks the annotation pv.kubernetes.io/provisioned-by: {driver}"));
        }
        let deletes = text(&pv["spec"]["persistentVolumeReclaimPolicy"]) == "Delete";
        let held = has_finalizer(pv, "external-provisioner.volume.kubernetes.io/finalizer");
        if deletes && !held {
            return Some("has the reclaim policy Delete, and lacks the finalizer of the provisioner".to_owned());
        }
        let keys = self.machines.stored.csi_nodes.iter().flat_map(|node| list(&node["spec"]["drivers"]));
        let topology = keys.filter(|of| text(&of["name"]) == driver).flat_map(|of| list(&of["topologyKeys"])).next();
        if topology.is_some()
            && !is_share
            && list(&pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]).is_empty()
        {
            return Some("has no nodeAffinity, and its driver has volumes in zones".to_owned());
        }
        let identity = &pv["spec"]["csi"]["volumeAttributes"]["storage.kubernetes.io/csiProvisionerIdentity"];
        identity.is_null().then(|| "lacks the volume attribute csiProvisionerIdentity".to_owned())
    }

    /// Compares a provisioned volume with its tags in the cloud.
    fn form_in_cloud(&self, pv: &Value) -> Option<String> {
        if !self.present.provisioned.contains(name(pv)) || !self.has_all(&["csi-mock"]) {
            return None;
        }
        let handle = text(&pv["spec"]["csi"]["volumeHandle"]);
        let cloud = self.machines.stored.cloud.iter().find(|volume| volume["id"] == handle)?;
        let claim = &pv["spec"]["claimRef"];
        let wanted = [
            ("kubernetes.io/created-for/pv/name", name(pv)),
            ("kubernetes.io/created-for/pvc/name", text(&claim["name"])),
            ("kubernetes.io/created-for/pvc/namespace", text(&claim["namespace"])),
            ("ebs.csi.aws.com/cluster", "true"),
        ];
        let has = |key: &str| cloud["tags"][key].as_str();
        let (key, value) = wanted.into_iter().find(|(key, value)| has(key) != Some(*value))?;
        Some(format!("is {handle}, which lacks the tag {key}={value} in the cloud"))
    }

    fn form_of_claim(&self, claim: &Value) -> Option<String> {
        let (spec, status) = (&claim["spec"], &claim["status"]);
        let protected = has_finalizer(claim, "kubernetes.io/pvc-protection");
        if self.has_all(&["persistentvolumeclaim-protection-controller"]) && !protected {
            return Some("lacks the finalizer kubernetes.io/pvc-protection".to_owned());
        }
        let owners = list(&claim["metadata"]["ownerReferences"]);
        let is_owner = |pod: &&Value| owners.iter().any(|owner| owner["uid"] == pod["metadata"]["uid"]);
        let of_pods = !owners.is_empty() && owners.iter().all(|owner| text(&owner["kind"]) == "Pod");
        if of_pods
            && self.has_all(&["garbage-collector-controller"])
            && !self.machines.stored.pods.iter().any(|pod| is_owner(&pod))
        {
            return Some(format!("exists, and its owner pod/{} is gone", text(&owners[0]["name"])));
        }
        if text(&status["phase"]) != "Bound" || !self.has_all(&["persistentvolume-binder-controller"]) {
            return None;
        }
        if text(&claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"]) != "yes" {
            return Some("is Bound, and lacks the annotation pv.kubernetes.io/bind-completed".to_owned());
        }
        let Some(pv) = self.machines.stored.volumes.iter().find(|pv| name(pv) == text(&spec["volumeName"])) else {
            return Some("is Bound, and its PersistentVolume does not exist".to_owned());
        };
        let by_binder = text(&pv["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"]) == "yes";
        let mut selected = spec["selector"]["matchLabels"].as_object().into_iter().flatten();
        if let Some((key, value)) = selected.find(|(key, value)| pv["metadata"]["labels"][key.as_str()] != **value)
            && by_binder
        {
            return Some(format!(
                "selects volumes with the label {key}={}, which its PersistentVolume lacks",
                text(value)
            ));
        }
        if status["accessModes"] != pv["spec"]["accessModes"] {
            return Some("has other access modes in its status than its PersistentVolume".to_owned());
        }
        if !self.has_all(&["csi-resizer", "kubelet", "csi-mock"]) {
            return None;
        }
        if text(&status["capacity"]["storage"]) != text(&spec["resources"]["requests"]["storage"]) {
            return None;
        }
        let class = text(&spec["volumeAttributesClassName"]);
        if text(&status["currentVolumeAttributesClassName"]) != class {
            return None;
        }
        if text(&pv["spec"]["volumeAttributesClassName"]) != class {
            return Some(format!("has the VolumeAttributesClass `{class}`, and its PersistentVolume has another"));
        }
        // A claim that names no class again keeps the result of its last modification (csi-resizer, `rolledBack`).
        let is_taken_back = class.is_empty() && status["modifyVolumeStatus"].is_object();
        let may_stay = |of: &&str| is_taken_back && *of == "ModifyVolumeError";
        let conditions = list(&status["conditions"]).iter().map(|condition| text(&condition["type"]));
        let left = conditions.filter(|of| UNDER_WAY.contains(of)).find(|of| !may_stay(of));
        if let Some(left) = left {
            return Some(format!("has its size and class, and the condition {left}"));
        }
        let state = status["allocatedResourceStatuses"].as_object().filter(|states| !states.is_empty())?;
        Some(format!("has its size, and {} allocatedResourceStatuses", state.len()))
    }

    /// Compares the claim of a generic ephemeral volume with its template.
    fn form_of_ephemeral(&self, pod: &Value, volume: &Value) -> Option<String> {
        let ended = ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]));
        if ended || !self.has_all(&["ephemeral-volume-controller"]) {
            return None;
        }
        let (namespace, claim) = (&pod["metadata"]["namespace"], format!("{}-{}", name(pod), text(&volume["name"])));
        let wanted = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        let mut claims = self.machines.stored.claims.iter().filter(|of| of["metadata"]["namespace"] == *namespace);
        let Some(found) = claims.find(|of| name(of) == claim) else {
            return Some(format!("pod/{} has an ephemeral volume, and pvc/{claim} does not exist", name(pod)));
        };
        // A user may have changed the claim since, for example its size.
        let key = format!("{}/{claim}", text(namespace));
        if self.applied_objects.of(Kind::claim(), &key).is_some() {
            return None;
        }
        let has_patched = |field: &str| self.applied_objects.has_patched(Kind::claim(), &key, field);
        let metadata = &volume["ephemeral"]["volumeClaimTemplate"]["metadata"];
        let mut given = ["labels", "annotations"].into_iter().flat_map(|field| {
            let entries = metadata[field].as_object().into_iter().flatten();
            entries.map(move |(key, value)| (field, key, value))
        });
        if let Some((field, key, _)) =
            given.find(|(field, key, value)| found["metadata"][*field][key.as_str()] != **value)
            && !has_patched("metadata")
        {
            return Some(format!("pvc/{claim} lacks `{key}` of the {field} in the template of its pod/{}", name(pod)));
        }
        let differs = ["accessModes", "resources", "storageClassName", "volumeMode"]
            .into_iter()
            .find(|field| !wanted[*field].is_null() && found["spec"][*field] != wanted[*field])
            .filter(|_| !has_patched("spec"))?;
        Some(format!("pvc/{claim} asks for other {differs} than the template of its pod/{}", name(pod)))
    }

    fn form_of_attachment(&self, attachment: &Value) -> Option<String> {
        let (spec, status) = (&attachment["spec"], &attachment["status"]);
        let driver = self.applied_objects.driver();
        let ours = text(&spec["attacher"]) == driver && status["attached"].as_bool() == Some(true);
        if !ours || !self.has_all(&["csi-attacher", "csi-mock"]) {
            return None;
        }
        let finalizer = format!("external-attacher/{}", driver.replace('.', "-"));
        if !has_finalizer(attachment, &finalizer) {
            return Some(format!("is attached, and lacks the finalizer {finalizer}"));
        }
        let pv = text(&spec["source"]["persistentVolumeName"]);
        let pv = self.machines.stored.volumes.iter().find(|volume| name(volume) == pv)?;
        if is_there(pv) && !has_finalizer(pv, &finalizer) {
            return Some(format!("is attached, and its PersistentVolume lacks the finalizer {finalizer}"));
        }
        let instance = &attachment["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"];
        let handle = text(&pv["spec"]["csi"]["volumeHandle"]);
        if self.present.falsified.contains(handle) {
            return None;
        }
        let cloud = self.machines.stored.cloud.iter().find(|volume| volume["id"] == handle)?;
        let device = cloud["attachments"][text(instance)]["device"].as_str()?;
        let path = text(&status["attachmentMetadata"]["devicePath"]);
        (path != device).then(|| format!("names the device `{path}`, and {handle} is attached as {device}"))
    }

    fn has_all(&self, components: &[&str]) -> bool {
        self.applied_objects.have(components)
    }
}

/// Returns true if an object is not being deleted.
fn is_there(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// Returns a text; an absent one is empty, as in Go.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Returns the items of a list; an absent one is empty, as in Go.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |items| &items[..])
}

/// Returns the name of an object with its namespace.
fn key(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), name(object))
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    list(&object["metadata"]["finalizers"]).iter().any(|has| text(has) == finalizer)
}
