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
    /// The instance; optional if the volume has one attachment.
    pub instance: Option<InstanceId>,
    /// The device name; if given, it must be the attachment's.
    pub device: Option<String>,
    /// If set, the detach does not wait for the instance.
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
    /// Name of the volume type. Default: gp2.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// If set, the volume is encrypted.
    pub encrypted: Option<bool>,
    /// Encryption key.
    pub kms_key_id: Option<String>,
    /// If set, Multi-Attach is enabled.
    pub multi_attach: bool,
    /// The snapshot to restore.
    pub snapshot_id: Option<SnapshotId>,
    /// Rate at which its blocks are loaded, in MiB/s.
    pub initialization_rate: Option<u64>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Idempotency token.
    pub client_token: Option<String>,
}

/// Parameters of DescribeVolumes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeVolumes {
    /// If set, only these; a missing one is an error.
    pub ids: Vec<VolumeId>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeInstances.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstances {
    /// If set, only these; a missing one is an error.
    pub ids: Vec<InstanceId>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeInstanceTypes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstanceTypes {
    /// If set, only these; a missing one is an error.
    pub names: Vec<String>,
    /// Filters.
    pub filters: Vec<Filter>,
    /// The page.
    pub page: PageRequest,
}

/// Parameters of DescribeAvailabilityZones.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeAvailabilityZones {
    /// If set, only these, by name; a missing one is an error.
    pub names: Vec<String>,
    /// If set, only these, by id.
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
    /// Smallest number of instances.
    pub min_count: u64,
    /// Largest number of instances; this many are started.
    pub max_count: u64,
    /// The zone. Default: that of the subnet, else the first.
    pub zone: Option<String>,
    /// The zone by id.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The subnet. Default: that of the zone.
    #[serde(default)]
    pub subnet: Option<String>,
    /// The security groups, by id.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The security groups, by name.
    #[serde(default)]
    pub group_names: Vec<String>,
    /// Number of network interfaces of each instance. Default: one.
    #[serde(default)]
    pub interfaces: u32,
    /// The disks.
    #[serde(default)]
    pub devices: Vec<LaunchDevice>,
    /// Further options of the instances.
    #[serde(default)]
    pub options: LaunchOptions,
    /// Tags of the instances.
    pub tags: BTreeMap<String, String>,
    /// Tags of their volumes.
    pub volume_tags: BTreeMap<String, String>,
    /// Tags of their network interfaces.
    #[serde(default)]
    pub interface_tags: BTreeMap<String, String>,
    /// Idempotency token.
    pub client_token: Option<String>,
}

/// One `BlockDeviceMapping` of RunInstances.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchDevice {
    /// The device name.
    pub device: String,
    /// If set, the image's mapping of this device is dropped.
    pub no_device: bool,
    /// The volume.
    pub disk: Option<LaunchDisk>,
}

/// The volume of one `BlockDeviceMapping`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchDisk {
    /// If set, the volume is deleted with the instance. Default: true.
    pub delete_on_termination: Option<bool>,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// Name of the volume type.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// The snapshot to restore.
    pub snapshot_id: Option<SnapshotId>,
    /// If set, the volume is encrypted.
    pub encrypted: Option<bool>,
    /// Encryption key.
    pub kms_key_id: Option<String>,
    /// Rate at which its blocks are loaded, in MiB/s.
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

/// New `deleteOnTermination` of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceChange {
    /// The device.
    pub device: String,
    /// The volume that must be there, if named.
    pub volume: Option<VolumeId>,
    /// True if the volume is deleted with the instance.
    pub goes: bool,
}

/// A change of one attribute of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceChange {
    /// `deleteOnTermination` of devices.
    DeleteOnTermination(Vec<DeviceChange>),
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
    /// Accounts, each with true if it may create volumes from the snapshot.
    pub accounts: Vec<(String, bool)>,
    /// New permission of all accounts.
    pub everybody: Option<bool>,
}

/// Parameters of RestoreSnapshotTier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSnapshotTier {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Number of days.
    pub days: Option<u64>,
    /// If set, restored permanently.
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
    /// A resource of the default network, or an image.
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
    /// Keys with the value that the tag must have; empty for all tags.
    pub tags: BTreeMap<String, Option<String>>,
}

/// Parameters of ModifyVolume; absent fields stay unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct ModifyVolume {
    /// The volume.
    pub volume: VolumeId,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// Name of the volume type.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// New state of Multi-Attach.
    pub multi_attach: Option<bool>,
}

/// Parameters of the Describe actions on volumes.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeOfVolumes {
    /// If set, only of these; a missing one is an error.
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
    /// Description.
    pub description: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of CreateSnapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSnapshots {
    /// The instance.
    pub instance: InstanceId,
    /// If set, its root volume is excluded.
    pub exclude_root: bool,
    /// Excluded data volumes.
    pub exclude: Vec<VolumeId>,
    /// Description.
    pub description: String,
    /// If set, each snapshot gets the tags of its volume.
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
    /// Description.
    pub description: String,
    /// If set, the copy is encrypted. A copy of an encrypted snapshot always is.
    pub encrypted: bool,
    /// Encryption key.
    pub kms_key_id: Option<String>,
    /// Minutes after which the copy must be complete.
    pub completion_minutes: Option<u64>,
    /// Source in another region: that region's answer.
    pub foreign: Option<Result<Arc<Snapshot>, Ec2Error>>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// Parameters of DescribeSnapshots.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeSnapshots {
    /// If set, only these; a missing one is an error.
    pub ids: Vec<SnapshotId>,
    /// Owners: account ids, `self` or `amazon`.
    pub owners: Vec<String>,
    /// Users with restore permission: account ids, `self` or `all`.
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
    /// Size in GiB. Default: that of the source.
    pub size_gib: Option<u64>,
    /// Name of the volume type. Default: gp2.
    pub volume_type: Option<String>,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// If set, the copy of an unencrypted volume is encrypted.
    pub encrypted: Option<bool>,
    /// Key of the copy. Default: that of the source.
    pub kms_key_id: Option<String>,
    /// If set, Multi-Attach is enabled.
    pub multi_attach: bool,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Idempotency token.
    pub client_token: Option<String>,
}

/// Parameters of EnableFastSnapshotRestores.
#[derive(Clone, Debug, PartialEq)]
pub struct EnableFastSnapshotRestores {
    /// The zones, by name.
    pub zones: Vec<String>,
    /// The zones, by id.
    pub zone_ids: Vec<String>,
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
    /// Hours in which a compliance lock can still be reverted.
    pub cool_off_hours: Option<u64>,
    /// Days.
    pub duration_days: Option<u64>,
    /// End time, as an alternative to days.
    pub expiration: Option<String>,
}

/// Parameters of StopInstances.
#[derive(Clone, Debug, PartialEq)]
pub struct StopInstances {
    /// The instances.
    pub ids: Vec<InstanceId>,
    /// If set, the stop does not wait for the guest.
    pub force: bool,
}

/// Parameters of DescribeInstanceStatus.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DescribeInstanceStatus {
    /// If set, only these; a missing one is an error.
    pub ids: Vec<InstanceId>,
    /// If set, includes instances that are not running.
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
    /// If set, only these; a missing one is an error.
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
