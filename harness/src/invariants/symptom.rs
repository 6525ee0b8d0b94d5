//! Symptoms at the end of a run, as types. Declared deviations and missing acts refer to these, never to a message.

use serde::Serialize;

/// The observation of a violation at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Symptom {
    /// A node is not Ready.
    NodeNotReady,
    /// A Ready node keeps a taint of the node controllers.
    NodeTainted,
    /// A pod that is being deleted exists.
    PodTerminating,
    /// A pod on a node has not started.
    PodNotStarted,
    /// A VolumeAttachment that is being deleted exists.
    AwaitsDetach,
    /// A VolumeAttachment is not attached.
    AwaitsAttach,
    /// A VolumeAttachment of an unused volume is not being deleted.
    AttachmentUnwanted,
    /// An unused volume is published.
    AwaitsUnpublish,
    /// An unused volume is staged.
    AwaitsUnstage,
    /// An attachment in the cloud is between two states.
    AwaitsCloud,
    /// A call is open.
    AwaitsAnswer,
    /// A claim that is being deleted exists.
    ClaimKept,
    /// An object, or a cluster, changes forever.
    NeverRests,
    /// The cloud has an attachment that no VolumeAttachment has.
    AttachedInCloudOnly,
    /// `status.volumesAttached` has a volume that no VolumeAttachment has.
    ListedAsAttachedOnly,
    /// Two sources disagree in another way.
    Disagreement,
    /// An object or volume differs from its manifest.
    NotAsAsked,
    /// A mount in a pod's directory is left over.
    PodMountLeft,
    /// Another mount is left over.
    MountLeft,
    /// A block device is left over.
    DeviceLeft,
    /// An attachment in the cloud is left over.
    CloudAttachmentLeft,
    /// A VolumeAttachment is left over.
    VolumeAttachmentLeft,
    /// A staging or target directory is left over.
    DirectoryLeft,
    /// A finalizer is left over.
    FinalizerLeft,
    /// A PersistentVolume is left over.
    PersistentVolumeLeft,
    /// A volume in the cloud is left over.
    CloudVolumeLeft,
    /// A call failed, and its caller made no Event.
    FailureNotReported,
    /// A control loop that starts in a cluster at rest has work to do.
    WorkForgotten,
    /// A step timed out while it waited for an object.
    WaitsInVain,
}
