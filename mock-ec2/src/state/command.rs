//! What can be asked of the machine, and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filter::Filter;
use super::ids::{InstanceId, VolumeId};
use super::instance::Instance;
use super::instance_types::InstanceType;
use super::page::PageRequest;
use super::volume::{Attachment, Volume};
use super::zone::Zone;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// What to do.
    pub action: Action,
    /// Only say whether it would be done.
    pub dry_run: bool,
    /// The name of a fault that keeps the transition which the action starts from ending.
    pub stick: Option<String>,
}

impl From<Action> for Command {
    fn from(action: Action) -> Self {
        Self { action, dry_run: false, stick: None }
    }
}

/// The actions, with their parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// AttachVolume.
    AttachVolume(AttachVolume),
    /// CreateTags.
    CreateTags(CreateTags),
    /// CreateVolume.
    CreateVolume(CreateVolume),
    /// DeleteTags.
    DeleteTags(DeleteTags),
    /// DeleteVolume.
    DeleteVolume(VolumeId),
    /// DescribeAvailabilityZones.
    DescribeAvailabilityZones(DescribeAvailabilityZones),
    /// DescribeInstances.
    DescribeInstances(DescribeInstances),
    /// DescribeInstanceTypes.
    DescribeInstanceTypes(DescribeInstanceTypes),
    /// DescribeVolumes.
    DescribeVolumes(DescribeVolumes),
    /// DetachVolume.
    DetachVolume(DetachVolume),
    /// RunInstances.
    RunInstances(RunInstances),
}

/// Every action's name, in the order of the alphabet.
pub const ACTIONS: &[&str] = &[
    "AttachVolume",
    "CreateTags",
    "CreateVolume",
    "DeleteTags",
    "DeleteVolume",
    "DescribeAvailabilityZones",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeVolumes",
    "DetachVolume",
    "RunInstances",
];

impl Action {
    /// The action's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AttachVolume(_) => "AttachVolume",
            Self::CreateTags(_) => "CreateTags",
            Self::CreateVolume(_) => "CreateVolume",
            Self::DeleteTags(_) => "DeleteTags",
            Self::DeleteVolume(_) => "DeleteVolume",
            Self::DescribeAvailabilityZones(_) => "DescribeAvailabilityZones",
            Self::DescribeInstances(_) => "DescribeInstances",
            Self::DescribeInstanceTypes(_) => "DescribeInstanceTypes",
            Self::DescribeVolumes(_) => "DescribeVolumes",
            Self::DetachVolume(_) => "DetachVolume",
            Self::RunInstances(_) => "RunInstances",
        }
    }

    /// Whether the action changes nothing.
    pub fn reads_only(&self) -> bool {
        self.name().starts_with("Describe")
    }

    /// The volumes that the request names.
    pub fn volumes(&self) -> Vec<&VolumeId> {
        match self {
            Self::AttachVolume(a) => vec![&a.volume],
            Self::DetachVolume(d) => vec![&d.volume],
            Self::DeleteVolume(volume) => vec![volume],
            Self::DescribeVolumes(d) => d.ids.iter().collect(),
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Volume(v) = r { Some(v) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The instances that the request names.
    pub fn instances(&self) -> Vec<&InstanceId> {
        match self {
            Self::AttachVolume(a) => vec![&a.instance],
            Self::DetachVolume(d) => d.instance.iter().collect(),
            Self::DescribeInstances(d) => d.ids.iter().collect(),
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Instance(i) = r { Some(i) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Parameters of AttachVolume.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachVolume {
    /// The volume.
    pub volume: VolumeId,
    /// The instance.
    pub instance: InstanceId,
    /// The device name.
    pub device: String,
    /// The EBS card.
    pub ebs_card_index: Option<u32>,
}

/// Parameters of DetachVolume.
#[derive(Clone, Debug, PartialEq)]
pub struct DetachVolume {
    /// The volume.
    pub volume: VolumeId,
    /// The instance; may be left out when the volume has one attachment.
    pub instance: Option<InstanceId>,
    /// The device name, which must then be the attachment's.
    pub device: Option<String>,
    /// Do not wait for the instance.
    pub force: bool,
}

/// Parameters of CreateVolume.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CreateVolume {
    /// The zone by name.
    pub zone: Option<String>,
    /// The zone by id.
    pub zone_id: Option<String>,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// The type's name; gp2 when absent.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// Whether to encrypt.
    pub encrypted: Option<bool>,
    /// The key to encrypt with.
    pub kms_key_id: Option<String>,
    /// Whether several instances may hold it.
    pub multi_attach: bool,
    /// The snapshot to restore.
    pub snapshot_id: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Makes repeated requests one request.
    pub client_token: Option<String>,
}

/// Parameters of DescribeVolumes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeVolumes {
    /// These only; an error when one is missing.
    pub ids: Vec<VolumeId>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeInstances.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstances {
    /// These only; an error when one is missing.
    pub ids: Vec<InstanceId>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeInstanceTypes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstanceTypes {
    /// These only; an error when one is missing.
    pub names: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeAvailabilityZones.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeAvailabilityZones {
    /// These only, by name; an error when one is missing.
    pub names: Vec<String>,
    /// These only, by id.
    pub ids: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
}

/// Parameters of RunInstances.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RunInstances {
    /// The image; any text.
    pub image_id: String,
    /// The type.
    pub instance_type: String,
    /// Fewest instances.
    pub min_count: u64,
    /// Most instances; this many are started.
    pub max_count: u64,
    /// The zone; the first one when absent.
    pub zone: Option<String>,
    /// Tags of the instances.
    pub tags: BTreeMap<String, String>,
    /// Tags of their volumes.
    pub volume_tags: BTreeMap<String, String>,
    /// Makes repeated requests one request.
    pub client_token: Option<String>,
}

/// A resource that can have tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceId {
    /// A volume.
    Volume(VolumeId),
    /// An instance.
    Instance(InstanceId),
}

/// Parameters of CreateTags.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTags {
    /// The resources.
    pub resources: Vec<ResourceId>,
    /// The tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of DeleteTags.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteTags {
    /// The resources.
    pub resources: Vec<ResourceId>,
    /// Keys, with the value that the tag must have to go; all tags when empty.
    pub tags: BTreeMap<String, Option<String>>,
}

/// One attachment with the names of both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachmentReply {
    /// The volume.
    pub volume: VolumeId,
    /// The instance.
    pub instance: InstanceId,
    /// The attachment.
    pub attachment: Attachment,
}

/// An instance and the volumes in its block device mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceReply {
    /// The instance.
    pub instance: Arc<Instance>,
    /// The attachments in its mapping, in the order of slots.
    pub mapping: Vec<AttachmentReply>,
}

/// What the machine answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of AttachVolume and DetachVolume.
    Attachment(AttachmentReply),
    /// Of DeleteVolume, CreateTags, DeleteTags.
    Done,
    /// Of DescribeInstances.
    Instances {
        /// One page.
        instances: Vec<InstanceReply>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeInstanceTypes.
    InstanceTypes {
        /// One page.
        types: Vec<InstanceType>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of RunInstances.
    Reservation(Vec<InstanceReply>),
    /// Of CreateVolume.
    Volume(Arc<Volume>),
    /// Of DescribeVolumes.
    Volumes {
        /// One page.
        volumes: Vec<Arc<Volume>>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeAvailabilityZones.
    Zones(Vec<Zone>),
}
