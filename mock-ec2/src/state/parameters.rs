//! The parameters of each action.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::Ec2Error;
use super::filter::Filter;
use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::options::LaunchOptions;
use super::page::PageRequest;
use super::snapshot::Snapshot;

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
    /// The image.
    pub image_id: String,
    /// The type.
    pub instance_type: String,
    /// Fewest instances.
    pub min_count: u64,
    /// Most instances; this many are started.
    pub max_count: u64,
    /// The zone; that of the subnet, or the first one, when absent.
    pub zone: Option<String>,
    /// The zone by id.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The subnet; that of the zone when absent.
    #[serde(default)]
    pub subnet: Option<String>,
    /// The security groups, by id.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The security groups, by name.
    #[serde(default)]
    pub group_names: Vec<String>,
    /// Network interfaces of each instance; one when none is asked for.
    #[serde(default)]
    pub interfaces: u32,
    /// The disks.
    #[serde(default)]
    pub devices: Vec<LaunchDevice>,
    /// What else the instances shall be.
    #[serde(default)]
    pub options: LaunchOptions,
    /// Tags of the instances.
    pub tags: BTreeMap<String, String>,
    /// Tags of their volumes.
    pub volume_tags: BTreeMap<String, String>,
    /// Makes repeated requests one request.
    pub client_token: Option<String>,
}

/// One `BlockDeviceMapping` of RunInstances.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchDevice {
    /// The device name.
    pub device: String,
    /// Whether what the image maps there is left out.
    pub no_device: bool,
    /// The volume.
    pub disk: Option<LaunchDisk>,
}

/// The volume of one `BlockDeviceMapping`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchDisk {
    /// Whether it goes with the instance; it does when nothing is said.
    pub delete_on_termination: Option<bool>,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// The type's name.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// The snapshot to restore.
    pub snapshot_id: Option<SnapshotId>,
    /// Whether to encrypt.
    pub encrypted: Option<bool>,
    /// The key to encrypt with.
    pub kms_key_id: Option<String>,
    /// How fast its blocks are brought here, in MiB/s.
    pub initialization_rate: Option<u64>,
    /// The EBS card.
    pub ebs_card_index: Option<u32>,
}

/// Parameters of DescribeInstanceAttribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeInstanceAttribute {
    /// The instance.
    pub instance: InstanceId,
    /// One of [`super::attributes::ATTRIBUTES`].
    pub attribute: &'static str,
}

/// Parameters of ModifyInstanceAttribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifyInstanceAttribute {
    /// The instance.
    pub instance: InstanceId,
    /// The one change.
    pub change: InstanceChange,
}

/// A change of one attribute of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceChange {
    /// Devices, and whether the volume of each goes with the instance.
    DeleteOnTermination(Vec<(String, bool)>),
    /// `disableApiStop`.
    DisableApiStop(bool),
    /// `disableApiTermination`.
    DisableApiTermination(bool),
    /// `ebsOptimized`.
    EbsOptimized(bool),
    /// The security groups, by id.
    Groups(Vec<String>),
    /// `instanceType`.
    InstanceType(String),
    /// `instanceInitiatedShutdownBehavior`.
    ShutdownTerminates(bool),
    /// `sourceDestCheck`.
    SourceDestCheck(bool),
    /// `userData`, in base64.
    UserData(String),
}

/// An attribute of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAttribute {
    /// `createVolumePermission`.
    CreateVolumePermission,
    /// `productCodes`.
    ProductCodes,
}

/// Parameters of ModifySnapshotAttribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifySnapshotAttribute {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Accounts, and whether each may make volumes of it.
    pub accounts: Vec<(String, bool)>,
    /// Whether everybody may.
    pub everybody: Option<bool>,
}

/// Parameters of RestoreSnapshotTier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSnapshotTier {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// For how many days.
    pub days: Option<u64>,
    /// For good.
    pub permanent: bool,
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
    /// Something of the default network, or an image.
    Other(String),
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
    /// Its region.
    pub source_region: String,
    /// What the copy is for.
    pub description: String,
    /// Whether to encrypt; an encrypted snapshot stays so.
    pub encrypted: bool,
    /// The key to encrypt with.
    pub kms_key_id: Option<String>,
    /// Minutes in which the copy shall be complete.
    pub completion_minutes: Option<u64>,
    /// The source, if it is of another region: that region's answer.
    pub foreign: Option<Result<Arc<Snapshot>, Ec2Error>>,
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
