//! What can be asked of the machine: the actions, and what each is about.

use super::ids::{InstanceId, SnapshotId, VolumeId};
pub use super::parameters::*;
pub use super::reply::*;

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
