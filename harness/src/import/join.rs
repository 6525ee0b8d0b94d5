//! Objects and cloud as one state: the instance of each node, the volumes, and their attachments.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value, json};

use super::cloud::{Cloud, Instance};
use super::note::Note;
use super::objects::Objects;
use super::state::State;

const DRIVER: &str = "ebs.csi.aws.com";
/// Zone and type of a node without its own.
const ZONE: &str = "us-east-1a";
const INSTANCE_TYPE: &str = "m5.large";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Joins objects and cloud.
///
/// # Errors
/// If there is no node, or the zones are of several regions.
pub(super) fn join(mut objects: Objects, mut cloud: Cloud, notes: &mut Vec<Note>) -> Result<State, String> {
    let nodes = nodes(&objects, &cloud, notes);
    if nodes.is_empty() {
        return Err("there is no node in it: add the output of `kubectl get nodes -o yaml`".to_owned());
    }
    let by_instance: BTreeMap<String, String> = nodes
        .iter()
        .filter_map(|node| Some((node["instance"].as_str()?.to_owned(), node["name"].as_str()?.to_owned())))
        .collect();
    for (id, instance) in &cloud.instances {
        if !by_instance.contains_key(id) {
            let message = format!("left out: no node is on this {}", instance.instance_type);
            notes.push(Note { object: id.clone(), message });
        }
    }
    drop_roots(&mut cloud, notes);
    make_missing(&objects, &mut cloud, &nodes, notes);
    for (id, volume) in &mut cloud.volumes {
        release_unknown(id, volume, &by_instance, notes);
    }
    warn_of_strangers(&objects, &nodes, notes);
    for name in missing_namespaces(&objects) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        objects.0.insert((0, String::new(), name), namespace);
    }
    let volumes: Vec<Value> = cloud.volumes.into_values().collect();
    let zones: BTreeSet<&str> = nodes.iter().chain(&volumes).filter_map(|one| one["zone"].as_str()).collect();
    let regions: BTreeSet<&str> =
        zones.iter().map(|zone| zone.trim_end_matches(|c: char| c.is_ascii_lowercase())).collect();
    if regions.len() > 1 {
        let regions: Vec<&str> = regions.into_iter().collect();
        return Err(format!("zones are of several regions, {}; import one region", regions.join(" and ")));
    }
    let zones = zones.into_iter().map(str::to_owned).collect();
    Ok(State { nodes, zones, volumes, objects: objects.0.into_values().collect() })
}

fn label<'a>(node: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| node["metadata"]["labels"][*key].as_str())
}

/// Returns the nodes of the scenario.
fn nodes(objects: &Objects, cloud: &Cloud, notes: &mut Vec<Note>) -> Vec<Value> {
    let mut nodes = Vec::new();
    for node in objects.of("Node") {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let mut note = |message: String| notes.push(Note { object: format!("Node {name}"), message });
        let id = instance_of(node, name, objects, cloud);
        let instance = id.as_ref().and_then(|id| cloud.instances.get(id)).cloned().unwrap_or_default();
        let Instance { instance_type, zone, .. } = instance;
        let mut made = Map::from_iter([("name".to_owned(), Value::from(name))]);
        let labelled = label(node, &["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]);
        let zone = Some(zone.as_str()).filter(|zone| !zone.is_empty()).or(labelled);
        if zone.is_none() {
            note(format!("its zone is unknown: {ZONE} is used"));
        }
        made.insert("zone".to_owned(), zone.unwrap_or(ZONE).into());
        let labelled = label(node, &["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"]);
        let kind = Some(instance_type.as_str()).filter(|kind| !kind.is_empty()).or(labelled);
        match kind {
            Some(kind) if mock_ec2::is_instance_type(kind) => {
                made.insert("instance-type".to_owned(), kind.into());
            }
            Some(kind) => note(format!("its type {kind} is unknown: {INSTANCE_TYPE} is used")),
            None => note(format!("its type is unknown: {INSTANCE_TYPE} is used")),
        }
        match id {
            Some(id) => drop(made.insert("instance".to_owned(), id.into())),
            None => note("its instance is not known: the cloud gives it one".to_owned()),
        }
        nodes.push(Value::Object(made));
    }
    nodes
}

/// Returns the id of a node's instance: from its providerID, its name in the cloud, or the node id of the driver.
fn instance_of(node: &Value, name: &str, objects: &Objects, cloud: &Cloud) -> Option<String> {
    let provider = node["spec"]["providerID"].as_str().and_then(|id| id.rsplit('/').next());
    let named = || cloud.instances.iter().find(|(_, i)| i.names.iter().any(|n| n == name)).map(|(id, _)| id.as_str());
    let driver = || {
        let csi = objects.of("CSINode").find(|csi| csi["metadata"]["name"] == name)?;
        let mut drivers = csi["spec"]["drivers"].as_array()?.iter();
        drivers.find(|driver| driver["name"] == DRIVER)?["nodeID"].as_str()
    };
    let found = provider.filter(|id| mock_ec2::is_instance_id(id)).or_else(named).or_else(driver);
    found.filter(|id| mock_ec2::is_instance_id(id)).map(str::to_owned)
}

fn drop_roots(cloud: &mut Cloud, notes: &mut Vec<Note>) {
    let is_root_device = |a: &Value| matches!(a["device"].as_str(), Some("/dev/xvda" | "/dev/sda1" | "/dev/sda"));
    cloud.volumes.retain(|id, volume| {
        let mut attachments = volume["attachments"].as_array().into_iter().flatten();
        let is_root = cloud.roots.contains(id) || attachments.any(is_root_device);
        if is_root {
            let message =
                "left out: an instance boots from it, and each instance has a root volume of its own".to_owned();
            notes.push(Note { object: id.clone(), message });
        }
        !is_root
    });
}

/// Creates the volumes of PersistentVolumes that are missing in the cloud's answers.
fn make_missing(objects: &Objects, cloud: &mut Cloud, nodes: &[Value], notes: &mut Vec<Note>) {
    for volume in objects.of("PersistentVolume") {
        let spec = &volume["spec"];
        let handle = spec["csi"]["volumeHandle"].as_str().unwrap_or_default();
        if spec["csi"]["driver"] != DRIVER || cloud.volumes.contains_key(handle) {
            continue;
        }
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        let object = format!("PersistentVolume {name}");
        if !mock_ec2::is_volume_id(handle) {
            notes.push(Note {
                object,
                message: format!("`{handle}` is not a volume id, so it has no volume in the cloud"),
            });
            continue;
        }
        let first = nodes.first().and_then(|node| node["zone"].as_str()).unwrap_or(ZONE);
        let zone = zone_of(volume).unwrap_or(first);
        let size = spec["capacity"]["storage"].as_str().map_or(1, gib);
        let message =
            format!("{handle} is not among the volumes of the files; it is made, {size} GiB of gp3 in {zone}");
        notes.push(Note { object, message });
        let mut made = json!({ "id": handle, "size": size, "zone": zone, "type": "gp3" });
        let holders: Vec<Value> = attachments_of(objects, name, nodes);
        if !holders.is_empty() {
            made["attachments"] = holders.into();
        }
        cloud.volumes.insert(handle.to_owned(), made);
    }
}

/// Converts a quantity to whole GiB, at least one.
fn gib(quantity: &str) -> u64 {
    let milli = controllers::binder::quantity::milli(&Quantity(quantity.to_owned())).unwrap_or(0);
    u64::try_from(milli.unsigned_abs().div_ceil(1000 << 30)).unwrap_or(u64::MAX).max(1)
}

/// Returns the zone that a PersistentVolume requires of nodes.
fn zone_of(volume: &Value) -> Option<&str> {
    let terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array()?;
    let expressions = terms.iter().flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    let mut zones = expressions.filter(|e| e["key"].as_str().is_some_and(|key| key.ends_with("/zone")));
    zones.next()?["values"][0].as_str()
}

/// Returns the attachments of VolumeAttachments that are attached.
fn attachments_of(objects: &Objects, volume: &str, nodes: &[Value]) -> Vec<Value> {
    let of = |attachment: &&Value| {
        attachment["spec"]["source"]["persistentVolumeName"] == volume && attachment["status"]["attached"] == true
    };
    let made = |attachment: &Value| {
        let node = nodes.iter().find(|node| node["name"] == attachment["spec"]["nodeName"])?;
        let device = attachment["status"]["attachmentMetadata"]["devicePath"].as_str()?;
        Some(json!({ "instance": node["instance"].as_str()?, "device": device }))
    };
    // A gp3 volume is attached to one instance only.
    objects.of("VolumeAttachment").filter(of).filter_map(made).take(1).collect()
}

/// Drops attachments to instances that do not belong to a node.
fn release_unknown(id: &str, volume: &mut Value, nodes: &BTreeMap<String, String>, notes: &mut Vec<Note>) {
    let Some(attachments) = volume.get_mut("attachments").and_then(Value::as_array_mut) else { return };
    attachments.retain(|attachment| {
        let instance = attachment["instance"].as_str().unwrap_or_default();
        let is_known = nodes.contains_key(instance);
        if !is_known {
            let message = format!("begins without its attachment to {instance}, which is not a node");
            notes.push(Note { object: id.to_owned(), message });
        }
        is_known
    });
    if attachments.is_empty()
        && let Some(volume) = volume.as_object_mut()
    {
        volume.remove("attachments");
    }
}

/// Adds a note for each object that refers to a missing node.
fn warn_of_strangers(objects: &Objects, nodes: &[Value], notes: &mut Vec<Note>) {
    let known: BTreeSet<&str> = nodes.iter().filter_map(|node| node["name"].as_str()).collect();
    for kind in ["Pod", "VolumeAttachment"] {
        for object in objects.of(kind) {
            let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
            if node.is_empty() || known.contains(node) {
                continue;
            }
            let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
            let place = namespace.as_str().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let object = format!("{kind} {place}{}", name.as_str().unwrap_or_default());
            notes.push(Note { object, message: format!("its node {node} is not in the files") });
        }
    }
}

/// Returns namespaces of objects that are missing in the files.
fn missing_namespaces(objects: &Objects) -> BTreeSet<String> {
    let named: BTreeSet<&String> = objects.0.keys().map(|(_, namespace, _)| namespace).collect();
    let there: BTreeSet<&str> = objects.of("Namespace").filter_map(|n| n["metadata"]["name"].as_str()).collect();
    let is_missing =
        |name: &&String| !name.is_empty() && !NAMESPACES.contains(&name.as_str()) && !there.contains(name.as_str());
    named.into_iter().filter(is_missing).cloned().collect()
}
