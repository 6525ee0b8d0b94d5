//! What the machine answers.

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
    /// Where it is in the network.
    pub network: Network,
}

/// The place of an instance in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The id of its VPC.
    pub vpc: String,
    /// The id of its subnet.
    pub subnet: String,
    /// The id of its security group, which is the default one.
    pub group: String,
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
    /// What is told of it, or code and text of an error.
    pub outcome: Result<Vec<Named>, (String, String)>,
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
    /// Of actions whose answer is told as it stands.
    Fields(Vec<Named>),
    /// An image that was made, and its snapshots.
    ImageMade {
        /// The image.
        id: String,
        /// Its snapshots.
        snapshots: Vec<Arc<Snapshot>>,
    },
    /// Of the actions that list what can only be listed.
    Entries {
        /// The kind.
        kind: Kind,
        /// One page.
        entries: Vec<Entry>,
        /// Where it ended, unless it is the last.
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
