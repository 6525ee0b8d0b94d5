//! What can be asked of the machine, and what it answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::filter::Filter;
use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::instance::{Instance, InstanceState};
use super::instance_types::InstanceType;
use super::modification::Modification;
use super::page::PageRequest;
use super::snapshot::{Snapshot, SnapshotLock};
use super::volume::{Attachment, Volume};
use super::zone::Zone;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// What to do.
    pub action: Action,
    /// Only say whether it would be done.
    pub dry_run: bool,
    /// The fault that keeps the transition which the action starts from ending.
    pub stick: Option<Stick>,
}

/// A fault that holds a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stick {
    /// The fault's name.
    pub fault: String,
    /// The state in which it holds.
    pub state: String,
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
    /// CopySnapshot.
    CopySnapshot(CopySnapshot),
    /// CopyVolumes.
    CopyVolumes(CopyVolumes),
    /// CreateSnapshot.
    CreateSnapshot(CreateSnapshot),
    /// CreateSnapshots.
    CreateSnapshots(CreateSnapshots),
    /// CreateTags.
    CreateTags(CreateTags),
    /// CreateVolume.
    CreateVolume(CreateVolume),
    /// DeleteSnapshot.
    DeleteSnapshot(SnapshotId),
    /// DeleteTags.
    DeleteTags(DeleteTags),
    /// DeleteVolume.
    DeleteVolume(VolumeId),
    /// DescribeAvailabilityZones.
    DescribeAvailabilityZones(DescribeAvailabilityZones),
    /// DescribeInstanceStatus.
    DescribeInstanceStatus(DescribeInstanceStatus),
    /// DescribeInstanceTypes.
    DescribeInstanceTypes(DescribeInstanceTypes),
    /// DescribeInstances.
    DescribeInstances(DescribeInstances),
    /// DescribeRegions.
    DescribeRegions(DescribeRegions),
    /// DescribeSnapshots.
    DescribeSnapshots(DescribeSnapshots),
    /// DescribeTags.
    DescribeTags(DescribeTags),
    /// DescribeVolumeAttribute.
    DescribeVolumeAttribute(DescribeVolumeAttribute),
    /// DescribeVolumeStatus.
    DescribeVolumeStatus(DescribeVolumeStatus),
    /// DescribeVolumes.
    DescribeVolumes(DescribeVolumes),
    /// DescribeVolumesModifications.
    DescribeVolumesModifications(DescribeVolumesModifications),
    /// DetachVolume.
    DetachVolume(DetachVolume),
    /// EnableFastSnapshotRestores.
    EnableFastSnapshotRestores(EnableFastSnapshotRestores),
    /// LockSnapshot.
    LockSnapshot(LockSnapshot),
    /// ModifyVolume.
    ModifyVolume(ModifyVolume),
    /// ModifyVolumeAttribute.
    ModifyVolumeAttribute(ModifyVolumeAttribute),
    /// RebootInstances.
    RebootInstances(Vec<InstanceId>),
    /// RunInstances.
    RunInstances(RunInstances),
    /// StartInstances.
    StartInstances(Vec<InstanceId>),
    /// StopInstances.
    StopInstances(StopInstances),
    /// TerminateInstances.
    TerminateInstances(Vec<InstanceId>),
}

/// Every action's name, in the order of the alphabet.
pub const ACTIONS: &[&str] = &[
    "AttachVolume",
    "CopySnapshot",
    "CopyVolumes",
    "CreateSnapshot",
    "CreateSnapshots",
    "CreateTags",
    "CreateVolume",
    "DeleteSnapshot",
    "DeleteTags",
    "DeleteVolume",
    "DescribeAvailabilityZones",
    "DescribeInstanceStatus",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeRegions",
    "DescribeSnapshots",
    "DescribeTags",
    "DescribeVolumeAttribute",
    "DescribeVolumeStatus",
    "DescribeVolumes",
    "DescribeVolumesModifications",
    "DetachVolume",
    "EnableFastSnapshotRestores",
    "LockSnapshot",
    "ModifyVolume",
    "ModifyVolumeAttribute",
    "RebootInstances",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
];

impl Action {
    /// The action's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AttachVolume(_) => "AttachVolume",
            Self::CopySnapshot(_) => "CopySnapshot",
            Self::CopyVolumes(_) => "CopyVolumes",
            Self::CreateSnapshot(_) => "CreateSnapshot",
            Self::CreateSnapshots(_) => "CreateSnapshots",
            Self::CreateTags(_) => "CreateTags",
            Self::CreateVolume(_) => "CreateVolume",
            Self::DeleteSnapshot(_) => "DeleteSnapshot",
            Self::DeleteTags(_) => "DeleteTags",
            Self::DeleteVolume(_) => "DeleteVolume",
            Self::DescribeAvailabilityZones(_) => "DescribeAvailabilityZones",
            Self::DescribeInstanceStatus(_) => "DescribeInstanceStatus",
            Self::DescribeInstanceTypes(_) => "DescribeInstanceTypes",
            Self::DescribeInstances(_) => "DescribeInstances",
            Self::DescribeRegions(_) => "DescribeRegions",
            Self::DescribeSnapshots(_) => "DescribeSnapshots",
            Self::DescribeTags(_) => "DescribeTags",
            Self::DescribeVolumeAttribute(_) => "DescribeVolumeAttribute",
            Self::DescribeVolumeStatus(_) => "DescribeVolumeStatus",
            Self::DescribeVolumes(_) => "DescribeVolumes",
            Self::DescribeVolumesModifications(_) => "DescribeVolumesModifications",
            Self::DetachVolume(_) => "DetachVolume",
            Self::EnableFastSnapshotRestores(_) => "EnableFastSnapshotRestores",
            Self::LockSnapshot(_) => "LockSnapshot",
            Self::ModifyVolume(_) => "ModifyVolume",
            Self::ModifyVolumeAttribute(_) => "ModifyVolumeAttribute",
            Self::RebootInstances(_) => "RebootInstances",
            Self::RunInstances(_) => "RunInstances",
            Self::StartInstances(_) => "StartInstances",
            Self::StopInstances(_) => "StopInstances",
            Self::TerminateInstances(_) => "TerminateInstances",
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
            Self::CopyVolumes(c) => vec![&c.source],
            Self::CreateSnapshot(c) => vec![&c.volume],
            Self::DescribeVolumeAttribute(d) => vec![&d.volume],
            Self::DescribeVolumeStatus(d) => d.ids.iter().collect(),
            Self::DescribeVolumesModifications(d) => d.ids.iter().collect(),
            Self::DetachVolume(d) => vec![&d.volume],
            Self::DeleteVolume(volume) => vec![volume],
            Self::DescribeVolumes(d) => d.ids.iter().collect(),
            Self::ModifyVolume(m) => vec![&m.volume],
            Self::ModifyVolumeAttribute(m) => vec![&m.volume],
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
            Self::CreateSnapshots(c) => vec![&c.instance],
            Self::DetachVolume(d) => d.instance.iter().collect(),
            Self::DescribeInstances(d) => d.ids.iter().collect(),
            Self::DescribeInstanceStatus(d) => d.ids.iter().collect(),
            Self::RebootInstances(ids) | Self::StartInstances(ids) | Self::TerminateInstances(ids) => {
                ids.iter().collect()
            }
            Self::StopInstances(s) => s.ids.iter().collect(),
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Instance(i) = r { Some(i) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The snapshots that the request names.
    pub fn snapshots(&self) -> Vec<&SnapshotId> {
        match self {
            Self::CopySnapshot(c) => vec![&c.source],
            Self::CreateVolume(c) => c.snapshot_id.iter().collect(),
            Self::DeleteSnapshot(snapshot) => vec![snapshot],
            Self::DescribeSnapshots(d) => d.ids.iter().collect(),
            Self::EnableFastSnapshotRestores(e) => e.snapshots.iter().collect(),
            Self::LockSnapshot(l) => vec![&l.snapshot],
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Snapshot(s) = r { Some(s) } else { None }).collect()
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
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    pub snapshot_id: Option<SnapshotId>,
    /// How fast its blocks are brought here, in MiB/s.
    pub initialization_rate: Option<u64>,
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
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    /// A snapshot.
    Snapshot(SnapshotId),
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

/// Parameters of ModifyVolume; what is absent stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ModifyVolume {
    /// The volume.
    pub volume: VolumeId,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// The type's name.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// Whether several instances may hold it.
    pub multi_attach: Option<bool>,
}

/// Parameters of the Describe actions that list things of volumes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeOfVolumes {
    /// Of these only; an error when one is missing.
    pub ids: Vec<VolumeId>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeVolumesModifications.
pub type DescribeVolumesModifications = DescribeOfVolumes;

/// Parameters of DescribeVolumeStatus.
pub type DescribeVolumeStatus = DescribeOfVolumes;

/// Parameters of CreateSnapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSnapshot {
    /// The volume.
    pub volume: VolumeId,
    /// What it is for.
    pub description: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of CreateSnapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSnapshots {
    /// The instance whose volumes are meant.
    pub instance: InstanceId,
    /// Not its root volume.
    pub exclude_root: bool,
    /// Not these data volumes.
    pub exclude: Vec<VolumeId>,
    /// What they are for.
    pub description: String,
    /// Whether each snapshot gets the tags of its volume.
    pub copy_tags: bool,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of CopySnapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct CopySnapshot {
    /// The snapshot to copy.
    pub source: SnapshotId,
    /// Its region, which must be this one.
    pub source_region: String,
    /// What the copy is for.
    pub description: String,
    /// Whether to encrypt; an encrypted snapshot stays so.
    pub encrypted: bool,
    /// The key to encrypt with.
    pub kms_key_id: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of DescribeSnapshots.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeSnapshots {
    /// These only; an error when one is missing.
    pub ids: Vec<SnapshotId>,
    /// Of these owners only: account ids, `self` or `amazon`.
    pub owners: Vec<String>,
    /// That these may restore only: account ids, `self` or `all`.
    pub restorable_by: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of CopyVolumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyVolumes {
    /// The volume to copy.
    pub source: VolumeId,
    /// Size in GiB; that of the source when absent.
    pub size_gib: Option<u64>,
    /// The type's name; that of the source when absent.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// Whether several instances may hold it.
    pub multi_attach: bool,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Makes repeated requests one request.
    pub client_token: Option<String>,
}

/// Parameters of EnableFastSnapshotRestores.
#[derive(Clone, Debug, PartialEq)]
pub struct EnableFastSnapshotRestores {
    /// The zones, by name.
    pub zones: Vec<String>,
    /// The snapshots.
    pub snapshots: Vec<SnapshotId>,
}

/// Parameters of LockSnapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct LockSnapshot {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// `governance` or `compliance`.
    pub mode: String,
    /// Hours in which a compliance lock can still be taken back.
    pub cool_off_hours: Option<u64>,
    /// Days.
    pub duration_days: Option<u64>,
    /// When it ends; instead of days.
    pub expiration: Option<String>,
}

/// Parameters of StopInstances.
#[derive(Clone, Debug, PartialEq)]
pub struct StopInstances {
    /// The instances.
    pub ids: Vec<InstanceId>,
    /// Do not wait for the guest.
    pub force: bool,
}

/// Parameters of DescribeInstanceStatus.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstanceStatus {
    /// These only; an error when one is missing.
    pub ids: Vec<InstanceId>,
    /// Also those that do not run.
    pub all: bool,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeTags.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeTags {
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeRegions.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeRegions {
    /// These only; an error when one is missing.
    pub names: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
}

/// An attribute of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAttribute {
    /// `autoEnableIO`.
    AutoEnableIo,
    /// `productCodes`.
    ProductCodes,
}

/// Parameters of DescribeVolumeAttribute.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeVolumeAttribute {
    /// The volume.
    pub volume: VolumeId,
    /// The attribute.
    pub attribute: VolumeAttribute,
}

/// Parameters of ModifyVolumeAttribute.
#[derive(Clone, Debug, PartialEq)]
pub struct ModifyVolumeAttribute {
    /// The volume.
    pub volume: VolumeId,
    /// The new value of `autoEnableIO`.
    pub auto_enable_io: Option<bool>,
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
    /// Its network and subnet.
    pub network: (String, String),
}

/// A snapshot and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotReply {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// How much has arrived, in percent.
    pub percent: u64,
}

/// A modification and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct ModificationReply {
    /// The volume.
    pub volume: VolumeId,
    /// Its latest modification.
    pub modification: Modification,
    /// How far it has come, in percent.
    pub percent: u64,
}

/// The health of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeStatusReply {
    /// The volume.
    pub volume: Arc<Volume>,
    /// How many percent of its blocks are here, and how many seconds the rest takes; nothing when all are.
    pub initializing: Option<(u64, u64)>,
}

/// Fast restore of one snapshot in one zone, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct FastRestoreReply {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The zone.
    pub zone: String,
    /// When it was asked for, or code and text of an error.
    pub outcome: Result<jiff::Timestamp, (String, String)>,
}

/// A tag and what carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct TagReply {
    /// The id of the resource.
    pub resource: String,
    /// `instance`, `snapshot` or `volume`.
    pub kind: &'static str,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// What pages go by: id and key.
    pub position: String,
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
    /// Of CopyVolumes.
    CopiedVolumes(Vec<Arc<Volume>>),
    /// Of EnableFastSnapshotRestores.
    FastRestores(Vec<FastRestoreReply>),
    /// Of StartInstances, StopInstances and TerminateInstances: state before, and now.
    InstanceChanges {
        /// The instances.
        changes: Vec<(InstanceId, InstanceState, InstanceState)>,
    },
    /// Of DescribeInstanceStatus.
    InstanceStatuses {
        /// One page.
        instances: Vec<Arc<Instance>>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of LockSnapshot: the snapshot, its lock, and the lock's state.
    Lock(SnapshotId, SnapshotLock, &'static str),
    /// Of ModifyVolume.
    Modification(Box<ModificationReply>),
    /// Of DescribeVolumesModifications.
    Modifications {
        /// One page.
        modifications: Vec<ModificationReply>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeRegions.
    Regions(Vec<String>),
    /// Of CreateSnapshot.
    Snapshot(SnapshotReply),
    /// Of CreateSnapshots.
    SnapshotsMade(Vec<SnapshotReply>),
    /// Of CopySnapshot.
    SnapshotCopied(Arc<Snapshot>),
    /// Of DescribeSnapshots.
    Snapshots {
        /// One page.
        snapshots: Vec<SnapshotReply>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeTags.
    Tags {
        /// One page.
        tags: Vec<TagReply>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeVolumeAttribute.
    VolumeAttribute(Arc<Volume>, VolumeAttribute),
    /// Of DescribeVolumeStatus.
    VolumeStatuses {
        /// One page.
        statuses: Vec<VolumeStatusReply>,
        /// Where it ended, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeAvailabilityZones.
    Zones(Vec<Zone>),
}
