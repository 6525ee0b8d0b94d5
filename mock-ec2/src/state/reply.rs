//! Answers of the machine.

use std::sync::Arc;

use super::ids::{InstanceId, SnapshotId, VolumeId};
use super::instance::{Instance, InstanceState};
use super::instance_types::InstanceType;
use super::kinds::Kind;
use super::listing::{Entry, Named};
use super::modification::Modification;
use super::parameters::VolumeAttribute;
use super::snapshot::{Snapshot, SnapshotLock};
use super::volume::{Attachment, Volume};
use super::zone::Zone;

/// Attachment with the ids of its volume and instance.
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
    /// Its place in the network.
    pub network: Network,
}

/// Place of an instance in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The id of its VPC.
    pub vpc: String,
    /// The id of its subnet.
    pub subnet: String,
    /// The id of its security group, which is the default one.
    pub group: String,
}

/// Snapshot with its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotReply {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Progress in percent.
    pub percent: u64,
}

/// Modification with its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct ModificationReply {
    /// The volume.
    pub volume: VolumeId,
    /// Its latest modification.
    pub modification: Modification,
    /// Progress in percent.
    pub percent: u64,
}

/// Health of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeStatusReply {
    /// The volume.
    pub volume: Arc<Volume>,
    /// Loaded blocks in percent, and seconds until the rest is loaded; None once all are loaded.
    pub initializing: Option<(u64, u64)>,
}

/// Fast restore of one snapshot in one zone, or its error.
#[derive(Clone, Debug, PartialEq)]
pub struct FastRestoreReply {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The zone.
    pub zone: String,
    /// Its fields, or code and text of an error.
    pub outcome: Result<Vec<Named>, (String, String)>,
}

/// Tag with its resource.
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
    /// Key of its position in pages: id and key.
    pub position: String,
}

/// Answer of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Of actions with a flat answer.
    Fields(Vec<Named>),
    /// A new image and its snapshots.
    ImageMade {
        /// The image.
        id: String,
        /// Its snapshots.
        snapshots: Vec<Arc<Snapshot>>,
    },
    /// Of the actions that only list things.
    Entries {
        /// The kind.
        kind: Kind,
        /// One page.
        entries: Vec<Entry>,
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of AttachVolume and DetachVolume.
    Attachment(AttachmentReply),
    /// Of DeleteVolume, CreateTags, DeleteTags.
    Done,
    /// Of DescribeInstances.
    Instances {
        /// One page.
        instances: Vec<InstanceReply>,
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeInstanceTypes.
    InstanceTypes {
        /// One page.
        types: Vec<InstanceType>,
        /// End of the page, unless it is the last.
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
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of CopyVolumes.
    CopiedVolumes(Vec<Arc<Volume>>),
    /// Of EnableFastSnapshotRestores.
    FastRestores(Vec<FastRestoreReply>),
    /// Of StartInstances, StopInstances and TerminateInstances: previous and current state.
    InstanceChanges {
        /// The instances.
        changes: Vec<(InstanceId, InstanceState, InstanceState)>,
    },
    /// Of DescribeInstanceStatus.
    InstanceStatuses {
        /// One page.
        instances: Vec<Arc<Instance>>,
        /// End of the page, unless it is the last.
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
        /// End of the page, unless it is the last.
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
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeTags.
    Tags {
        /// One page.
        tags: Vec<TagReply>,
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeVolumeAttribute.
    VolumeAttribute(Arc<Volume>, VolumeAttribute),
    /// Of DescribeVolumeStatus.
    VolumeStatuses {
        /// One page.
        statuses: Vec<VolumeStatusReply>,
        /// End of the page, unless it is the last.
        next_token: Option<String>,
    },
    /// Of DescribeAvailabilityZones.
    Zones(Vec<Zone>),
}
