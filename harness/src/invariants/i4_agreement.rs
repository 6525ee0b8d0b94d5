//! I4: at quiescence the cloud, Kubernetes and the nodes agree on the attachments and the mounts.
//!
//! The comparison covers, by volume and node: attachments in the cloud; VolumeAttachments with `attached: true`;
//! `status.volumesAttached` and `status.volumesInUse` of the nodes; existing devices and mounts; and the volumes that
//! the driver reported as staged. Attachments of volumes that Kubernetes never knew are ignored, because others
//! made them.

use std::collections::{BTreeMap, BTreeSet};

use csi_disk::{Mount, MountKind};
use csi_mock::efs::is_handle;
use fake_apiserver::events::Node;
use substrate::json::Text;

use super::{StoredObjects, Symptom};
use crate::model::{RunModel, VolumeOnNode};

/// Actual state, read from the cloud and from the disks, not from the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machines {
    /// Volume and instance of each attachment in the cloud with the state `attached`, except root volumes.
    pub cloud: Vec<(String, String)>,
    /// Each volume in the cloud, except root volumes.
    pub volumes: BTreeMap<String, Made>,
    /// Handle of the volume of each access point of EFS.
    pub access_points: BTreeSet<String>,
    /// By node: the volumes whose devices are plugged in.
    pub devices: BTreeMap<String, BTreeSet<String>>,
    /// By node: the volumes whose filesystem is staged.
    pub staged: BTreeMap<String, BTreeSet<String>>,
    /// By node: all mounts.
    pub mounts: BTreeMap<String, Vec<Mount>>,
    /// Objects as the API server stores them, and volumes as the cloud has them.
    pub stored: StoredObjects,
}

/// Size and parameters of a volume in the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Size in GiB.
    pub size_gib: u64,
    /// Type, IOPS, throughput and encryption, by the names of the driver's parameters.
    pub parameters: BTreeMap<&'static str, String>,
}

/// A volume on a node about which two sources disagree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disagreement {
    /// The volume's handle; `None` if the machines cannot be read.
    pub volume: Option<String>,
    /// The node's name; `None` if the machines cannot be read.
    pub node: Option<String>,
    /// The difference, in one sentence.
    pub message: String,
    /// The difference, as a type.
    pub symptom: Symptom,
}

impl Disagreement {
    /// Creates the disagreement that says that the machines cannot be read.
    pub fn unread(why: String) -> Self {
        Self { volume: None, node: None, message: why, symptom: Symptom::Disagreement }
    }
}

/// Sources of attachments, as a message names them.
const CLOUD: &str = "attached in the cloud";
const OBJECT: &str = "attached by its VolumeAttachment";
const LISTED: &str = "in status.volumesAttached of the node";

type Pairs = BTreeSet<VolumeOnNode>;

/// Returns all differences, and the number of compared attachments.
pub(super) fn compare(model: &RunModel, machines: &Machines) -> (Vec<Disagreement>, u64) {
    let handles: BTreeSet<&str> = model.objects.volumes().map(|(_, pv)| pv.handle()).collect();
    let known = |volume: &str| handles.contains(volume);
    let cloud: Pairs = machines
        .cloud
        .iter()
        .filter(|(volume, _)| known(volume))
        .map(|(volume, instance)| model.place(volume.as_str(), instance))
        .collect();
    let objects: Pairs = model
        .objects
        .attachments
        .values()
        .filter(|va| va.state.attached)
        .filter_map(|va| Some(VolumeOnNode::new(model.objects.volume(va.pv())?.handle(), va.node())))
        .collect();
    let of_nodes = |list: fn(&Node) -> &[Text]| -> Pairs {
        let pairs = model.objects.nodes.iter().flat_map(|(node, object)| {
            let names = list(&object.state).iter();
            names.filter_map(move |name| Some(VolumeOnNode::new(name.split_once('^')?.1, node.clone())))
        });
        pairs.collect()
    };
    let (attached, in_use) = (of_nodes(|n| &n.volumes_attached), of_nodes(|n| &n.volumes_in_use));
    let here = |by_node: &BTreeMap<String, BTreeSet<String>>| -> Pairs {
        let pairs = by_node
            .iter()
            .flat_map(|(node, volumes)| volumes.iter().map(|v| VolumeOnNode::new(v.as_str(), node.as_str())));
        pairs.filter(|pair| known(&pair.volume)).collect()
    };
    let (devices, mounted) = (here(&machines.devices), here(&machines.staged));
    let holds = model.holds.iter().filter(|(key, hold)| hold.state().is_some() && known(&key.volume));
    // A shared file system is mounted without a device, and kubelet does not report it as in use.
    let (shares, holds): (Vec<_>, Vec<_>) = holds.partition(|(key, _)| is_handle(&key.volume));
    let shares: Pairs = shares.into_iter().map(|(key, _)| key.clone()).collect();
    let on_nodes = machines.mounts.iter().flat_map(|(node, mounts)| {
        let shares = mounts.iter().filter(|mount| mount.kind == MountKind::Share && known(&mount.volume));
        shares.map(move |mount| VolumeOnNode::new(mount.volume.as_str(), node.as_str()))
    });
    let shares_mounted: Pairs = on_nodes.collect();
    let holds = holds.into_iter();
    let held: Pairs = holds.clone().map(|(key, _)| key.clone()).collect();
    let with_filesystem: Pairs = holds.filter(|(_, hold)| !hold.raw).map(|(key, _)| key.clone()).collect();
    let compared = cloud.iter().chain(&objects).chain(&attached).collect::<BTreeSet<_>>().len() as u64;
    let mut wording = Vec::new();
    let mut same = |one: &str, a: &Pairs, other: &str, b: &Pairs| {
        let mut differ = |VolumeOnNode { volume, node }: &VolumeOnNode, is: &str, is_not: &str| {
            let message = format!("{volume} on {node} is {is}, and not {is_not}");
            let symptom = match (is, is_not) {
                (CLOUD, OBJECT) => Symptom::AttachedInCloudOnly,
                (LISTED, OBJECT) => Symptom::ListedAsAttachedOnly,
                _ => Symptom::Disagreement,
            };
            let (volume, node) = (Some(volume.to_string()), Some(node.to_string()));
            wording.push(Disagreement { volume, node, message, symptom });
        };
        a.difference(b).for_each(|pair| differ(pair, one, other));
        b.difference(a).for_each(|pair| differ(pair, other, one));
    };
    same(CLOUD, &cloud, OBJECT, &objects);
    same(OBJECT, &objects, LISTED, &attached);
    same(CLOUD, &cloud, "plugged in as a device", &devices);
    let by_word = "staged or published by the word of the driver";
    same("mounted on the node", &mounted, by_word, &with_filesystem);
    same("mounted on the node", &shares_mounted, "published by the word of the driver", &shares);
    same(by_word, &held, "in status.volumesInUse of the node", &in_use);
    (wording, compared)
}
