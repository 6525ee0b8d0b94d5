//! Commands to the machine: the actions and their subjects.

pub use super::account::Encryption;
pub use super::groups::{GroupRequest, PlacementGroup};
use super::ids::{InstanceId, SnapshotId, VolumeId};
pub use super::images::{CreateImage, ImageRequest, RegisterImage};
pub use super::listing::Listing;
pub use super::options::MetadataChange;
pub use super::own_key::KeyRequest;
pub use super::own_network::NetworkRequest;
pub use super::parameters::*;
pub use super::public_access::{BlockRequest, PublicAccess};
pub use super::recycle::RestoreRequest;
pub use super::replace_root::ReplaceRoot;
pub use super::reply::*;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The action.
    pub action: Action,
    /// If set, the request is validated but not performed.
    pub dry_run: bool,
    /// Fault that holds the transition which the action starts.
    pub stick: Option<Stick>,
}

/// Fault that holds a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stick {
    /// Name of the fault.
    pub fault: String,
    /// State in which it holds the transition.
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
    /// DescribeInstanceAttribute.
    DescribeInstanceAttribute(DescribeInstanceAttribute),
    /// DescribeSnapshotAttribute.
    DescribeSnapshotAttribute(SnapshotId, SnapshotAttribute),
    /// DescribeVpcAttribute: the VPC and the attribute.
    DescribeVpcAttribute(String, &'static str),
    /// DisableFastSnapshotRestores.
    DisableFastSnapshotRestores(EnableFastSnapshotRestores),
    /// EnableVolumeIO.
    EnableVolumeIo(VolumeId),
    /// GetCallerIdentity of STS.
    GetCallerIdentity,
    /// Encryption by default.
    Encryption(Encryption),
    /// One of the actions on placement groups.
    Group(GroupRequest),
    /// One of the actions on images of the account.
    Image(ImageRequest),
    /// One of the actions on key pairs.
    Key(KeyRequest),
    /// One of the actions on VPCs and subnets.
    Network(NetworkRequest),
    /// One of the actions on the block of public access to snapshots.
    PublicAccess(BlockRequest),
    /// CreateReplaceRootVolumeTask.
    ReplaceRoot(ReplaceRoot),
    /// One of the actions that restore from the recycle bin.
    Restore(RestoreRequest),
    /// One of the actions that only list things.
    List(Listing),
    /// ModifyInstanceAttribute.
    ModifyInstanceAttribute(ModifyInstanceAttribute),
    /// ModifyInstanceMetadataOptions.
    ModifyInstanceMetadataOptions(InstanceId, MetadataChange),
    /// ModifySnapshotAttribute.
    ModifySnapshotAttribute(ModifySnapshotAttribute),
    /// ModifySnapshotTier: the snapshot and the tier.
    ModifySnapshotTier(SnapshotId, Option<String>),
    /// MonitorInstances.
    MonitorInstances(Vec<InstanceId>),
    /// ResetSnapshotAttribute.
    ResetSnapshotAttribute(SnapshotId),
    /// RestoreSnapshotTier.
    RestoreSnapshotTier(RestoreSnapshotTier),
    /// UnlockSnapshot.
    UnlockSnapshot(SnapshotId),
    /// UnmonitorInstances.
    UnmonitorInstances(Vec<InstanceId>),
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

/// Name of each action, in alphabetical order.
pub const ACTIONS: &[&str] = &[
    "AttachVolume",
    "CopySnapshot",
    "CopyVolumes",
    "CreateImage",
    "CreateKeyPair",
    "CreatePlacementGroup",
    "CreateReplaceRootVolumeTask",
    "CreateSnapshot",
    "CreateSnapshots",
    "CreateSubnet",
    "CreateTags",
    "CreateVolume",
    "CreateVpc",
    "DeleteKeyPair",
    "DeletePlacementGroup",
    "DeleteSnapshot",
    "DeleteSubnet",
    "DeleteTags",
    "DeleteVolume",
    "DeleteVpc",
    "DeregisterImage",
    "DescribeAccountAttributes",
    "DescribeAddresses",
    "DescribeAutoScalingGroups",
    "DescribeAvailabilityZones",
    "DescribeDhcpOptions",
    "DescribeFastSnapshotRestores",
    "DescribeImages",
    "DescribeInstanceAttribute",
    "DescribeInstanceCreditSpecifications",
    "DescribeInstanceStatus",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeInternetGateways",
    "DescribeKeyPairs",
    "DescribeLaunchConfigurations",
    "DescribeLaunchTemplates",
    "DescribeLockedSnapshots",
    "DescribeNatGateways",
    "DescribeNetworkAcls",
    "DescribeNetworkInterfaces",
    "DescribePlacementGroups",
    "DescribeRegions",
    "DescribeReplaceRootVolumeTasks",
    "DescribeReservedInstances",
    "DescribeRouteTables",
    "DescribeSecurityGroups",
    "DescribeSnapshotAttribute",
    "DescribeSnapshotTierStatus",
    "DescribeSnapshots",
    "DescribeSubnets",
    "DescribeTags",
    "DescribeVolumeAttribute",
    "DescribeVolumeStatus",
    "DescribeVolumes",
    "DescribeVolumesModifications",
    "DescribeVpcAttribute",
    "DescribeVpcEndpoints",
    "DescribeVpcs",
    "DetachVolume",
    "DisableEbsEncryptionByDefault",
    "DisableFastSnapshotRestores",
    "DisableSnapshotBlockPublicAccess",
    "EnableEbsEncryptionByDefault",
    "EnableFastSnapshotRestores",
    "EnableSnapshotBlockPublicAccess",
    "EnableVolumeIO",
    "GetCallerIdentity",
    "GetEbsDefaultKmsKeyId",
    "GetEbsEncryptionByDefault",
    "GetSnapshotBlockPublicAccessState",
    "ImportKeyPair",
    "ListSnapshotsInRecycleBin",
    "ListVolumesInRecycleBin",
    "LockSnapshot",
    "ModifyEbsDefaultKmsKeyId",
    "ModifyInstanceAttribute",
    "ModifyInstanceMetadataOptions",
    "ModifySnapshotAttribute",
    "ModifySnapshotTier",
    "ModifyVolume",
    "ModifyVolumeAttribute",
    "MonitorInstances",
    "RebootInstances",
    "RegisterImage",
    "ResetEbsDefaultKmsKeyId",
    "ResetSnapshotAttribute",
    "RestoreSnapshotFromRecycleBin",
    "RestoreSnapshotTier",
    "RestoreVolumeFromRecycleBin",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
    "UnlockSnapshot",
    "UnmonitorInstances",
];

/// Returns true if the action `name` changes nothing.
pub fn reads_only(name: &str) -> bool {
    ["Describe", "Get", "List"].iter().any(|verb| name.starts_with(verb))
}

impl Action {
    /// Returns the action's name on the wire.
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
            Self::DescribeInstanceAttribute(_) => "DescribeInstanceAttribute",
            Self::DescribeSnapshotAttribute(..) => "DescribeSnapshotAttribute",
            Self::DescribeVpcAttribute(..) => "DescribeVpcAttribute",
            Self::DisableFastSnapshotRestores(_) => "DisableFastSnapshotRestores",
            Self::EnableVolumeIo(_) => "EnableVolumeIO",
            Self::GetCallerIdentity => "GetCallerIdentity",
            Self::Encryption(e) => e.action(),
            Self::Group(g) => g.action(),
            Self::Image(i) => i.action(),
            Self::Key(k) => k.action(),
            Self::Network(n) => n.action(),
            Self::PublicAccess(b) => b.action(),
            Self::ReplaceRoot(_) => "CreateReplaceRootVolumeTask",
            Self::Restore(r) => r.action(),
            Self::List(l) => l.kind.shape().action,
            Self::ModifyInstanceAttribute(_) => "ModifyInstanceAttribute",
            Self::ModifyInstanceMetadataOptions(..) => "ModifyInstanceMetadataOptions",
            Self::ModifySnapshotAttribute(_) => "ModifySnapshotAttribute",
            Self::ModifySnapshotTier(..) => "ModifySnapshotTier",
            Self::MonitorInstances(_) => "MonitorInstances",
            Self::ResetSnapshotAttribute(_) => "ResetSnapshotAttribute",
            Self::RestoreSnapshotTier(_) => "RestoreSnapshotTier",
            Self::UnlockSnapshot(_) => "UnlockSnapshot",
            Self::UnmonitorInstances(_) => "UnmonitorInstances",
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

    /// Returns true if the action changes nothing.
    pub fn reads_only(&self) -> bool {
        reads_only(self.name())
    }

    /// Returns the volumes that the request names.
    pub fn volumes(&self) -> Vec<&VolumeId> {
        match self {
            Self::AttachVolume(a) => vec![&a.volume],
            Self::CopyVolumes(c) => vec![&c.source],
            Self::CreateSnapshot(c) => vec![&c.volume],
            Self::DescribeVolumeAttribute(d) => vec![&d.volume],
            Self::DescribeVolumeStatus(d) => d.ids.iter().collect(),
            Self::DescribeVolumesModifications(d) => d.ids.iter().collect(),
            Self::DetachVolume(d) => vec![&d.volume],
            Self::DeleteVolume(volume)
            | Self::EnableVolumeIo(volume)
            | Self::Restore(RestoreRequest::Volume(volume)) => vec![volume],
            Self::DescribeVolumes(d) => d.ids.iter().collect(),
            Self::ModifyVolume(m) => vec![&m.volume],
            Self::ModifyVolumeAttribute(m) => vec![&m.volume],
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Volume(v) = r { Some(v) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the instances that the request names.
    pub fn instances(&self) -> Vec<&InstanceId> {
        match self {
            Self::AttachVolume(a) => vec![&a.instance],
            Self::CreateSnapshots(c) => vec![&c.instance],
            Self::Image(ImageRequest::Create(c)) => vec![&c.instance],
            Self::ReplaceRoot(r) => vec![&r.instance],
            Self::DescribeInstanceAttribute(d) => vec![&d.instance],
            Self::ModifyInstanceAttribute(m) => vec![&m.instance],
            Self::ModifyInstanceMetadataOptions(instance, _) => vec![instance],
            Self::MonitorInstances(ids) | Self::UnmonitorInstances(ids) => ids.iter().collect(),
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

    /// Returns the snapshots that the request names.
    pub fn snapshots(&self) -> Vec<&SnapshotId> {
        match self {
            Self::CopySnapshot(c) => vec![&c.source],
            Self::CreateVolume(c) => c.snapshot_id.iter().collect(),
            Self::DeleteSnapshot(snapshot)
            | Self::DescribeSnapshotAttribute(snapshot, _)
            | Self::ModifySnapshotTier(snapshot, _)
            | Self::ResetSnapshotAttribute(snapshot)
            | Self::Restore(RestoreRequest::Snapshot(snapshot))
            | Self::UnlockSnapshot(snapshot) => vec![snapshot],
            Self::ModifySnapshotAttribute(m) => vec![&m.snapshot],
            Self::ReplaceRoot(r) => r.snapshot.iter().collect(),
            Self::RestoreSnapshotTier(r) => vec![&r.snapshot],
            Self::RunInstances(r) => r.devices.iter().filter_map(|d| d.disk.as_ref()?.snapshot_id.as_ref()).collect(),
            Self::DescribeSnapshots(d) => d.ids.iter().collect(),
            Self::Image(ImageRequest::Register(r)) => {
                r.devices.iter().filter_map(|d| d.disk.as_ref()?.snapshot_id.as_ref()).collect()
            }
            Self::EnableFastSnapshotRestores(e) | Self::DisableFastSnapshotRestores(e) => e.snapshots.iter().collect(),
            Self::LockSnapshot(l) => vec![&l.snapshot],
            Self::CreateTags(CreateTags { resources, .. }) | Self::DeleteTags(DeleteTags { resources, .. }) => {
                resources.iter().filter_map(|r| if let ResourceId::Snapshot(s) = r { Some(s) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }
}
