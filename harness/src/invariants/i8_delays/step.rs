//! Steps of volumes, snapshots and other objects, and the longest pause before each.

use std::time::Duration;

/// A step that is to come: of a volume, of a snapshot (`Content` to `Drop`), or of another object (`Verdict`, `Observed` to
/// `Leave`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Create,
    Store,
    Bind,
    Publish,
    Attached,
    Report,
    Stage,
    Mount,
    Start,
    Unstage,
    Detach,
    Unpublish,
    Detached,
    Delete,
    Remove,
    Grow,
    Capacity,
    NodeGrow,
    ClaimCapacity,
    Verdict,
    Content,
    Snapshot,
    Ready,
    Erase,
    Drop,
    Observed,
    Scaled,
    Collect,
    Free,
    Stop,
    Leave,
    Attach,
}

impl Step {
    /// Returns the text of the step and of the one before it, and the longest pause between them. Steps of a kubelet or of
    /// attach-detach may wait for a report of the node, each 10 s, and for repeated attempts. A kubelet looks at the size of
    /// the volumes of its pods each 60 to 90 s.
    pub fn facts(self) -> (&'static str, &'static str, Duration) {
        let [short, long, pods] = [10, 45, 180].map(Duration::from_secs);
        match self {
            Self::Create => ("CreateVolume was called", "the scheduler selected a node for its claim", short),
            Self::Store => ("its PersistentVolume was created", "CreateVolume answered OK", short),
            Self::Bind => ("its claim was bound", "its PersistentVolume was created", short),
            Self::Publish => ("ControllerPublishVolume was called", "its VolumeAttachment was created", short),
            Self::Attached => ("its VolumeAttachment was attached", "ControllerPublishVolume answered OK", short),
            Self::Report => ("the Node listed it in volumesAttached", "its VolumeAttachment was attached", long),
            Self::Stage => ("NodeStageVolume was called", "the Node listed it in volumesAttached", long),
            Self::Mount => ("NodePublishVolume was called", "NodeStageVolume answered OK", short),
            Self::Start => ("a container of its pod started", "the last volume of the pod was mounted", long),
            Self::Unstage => ("NodeUnstageVolume was called", "the last NodeUnpublishVolume answered OK", short),
            Self::Detach => ("its VolumeAttachment was deleted", "NodeUnstageVolume answered OK", long),
            Self::Unpublish => ("ControllerUnpublishVolume was called", "its VolumeAttachment was deleted", short),
            Self::Detached => ("its VolumeAttachment went", "ControllerUnpublishVolume answered OK", short),
            Self::Delete => ("DeleteVolume was called", "its PersistentVolume was released", long),
            Self::Remove => ("its PersistentVolume went", "DeleteVolume answered OK", short),
            Self::Grow => ("ControllerExpandVolume was called", "its claim requested more", short),
            Self::Capacity => ("its PersistentVolume grew", "ControllerExpandVolume answered OK", short),
            Self::NodeGrow => ("NodeExpandVolume was called", "its PersistentVolume grew", pods),
            Self::ClaimCapacity => ("its claim had the new size", "NodeExpandVolume answered OK", short),
            Self::Verdict => ("kube-scheduler wrote its first verdict", "the pod was created", short),
            Self::Content => ("its VolumeSnapshotContent was created", "the VolumeSnapshot was created", short),
            Self::Snapshot => ("CreateSnapshot was called", "its VolumeSnapshotContent was created", short),
            Self::Ready => ("its VolumeSnapshot was ready to use", "its VolumeSnapshotContent was", short),
            Self::Erase => ("DeleteSnapshot was called", "its VolumeSnapshotContent was to be deleted", short),
            Self::Observed => ("its controller had acted on its newest spec", "the spec changed", short),
            Self::Scaled => ("its number of pods was as asked", "it differed", short),
            Self::Collect => ("it was deleted", "its only owner went", long),
            Self::Free => ("it went", "its last pod went", short),
            Self::Stop => ("its containers had ended", "the end of its grace period", long),
            Self::Leave => ("it went", "its containers ended and its volumes were unmounted", long),
            Self::Attach => ("its VolumeAttachment was created", "its pod was bound to the node", short),
            Self::Drop => ("its VolumeSnapshotContent went", "DeleteSnapshot was called", long),
        }
    }

    /// Returns true if the step can wait for a free worker or for its turn. A kubelet acts on all its volumes and pods at once.
    pub fn has_queue(self) -> bool {
        let of_kubelet =
            matches!(self, Self::Stage | Self::Mount | Self::Start | Self::Unstage | Self::Stop | Self::Leave);
        !of_kubelet && !matches!(self, Self::NodeGrow | Self::ClaimCapacity)
    }

    /// Returns true if a VolumeAttachment that goes takes the step with it.
    pub fn is_of_attachment(self) -> bool {
        matches!(self, Self::Publish | Self::Attached | Self::Report | Self::Detach | Self::Unpublish)
    }

    /// Returns true if the step is not one of a volume.
    pub fn is_of_object(self) -> bool {
        let of_object =
            [Self::Verdict, Self::Observed, Self::Scaled, Self::Collect, Self::Free, Self::Stop, Self::Leave];
        self.is_of_snapshot() || of_object.contains(&self)
    }

    /// Returns true if the step is one of a snapshot.
    pub fn is_of_snapshot(self) -> bool {
        matches!(self, Self::Content | Self::Snapshot | Self::Ready | Self::Erase | Self::Drop)
    }
}
