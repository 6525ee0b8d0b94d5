//! Operations of the volume manager and their steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::super::names::VolumeName;
use super::desired::Sizes;
use super::spec::VolumeSpec;
use crate::pending::OperationKey;

/// Operation that the reconciler can start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Verify that the attach-detach controller has attached the volume.
    VerifyControllerAttached {
        /// The volume.
        volume: VolumeName,
    },
    /// Stage the volume if needed, then publish it to a pod.
    Mount {
        /// The volume.
        volume: VolumeName,
        /// The pod.
        uid: String,
    },
    /// Unpublish the volume from a pod.
    Unmount {
        /// The volume.
        volume: VolumeName,
        /// The pod.
        uid: String,
    },
    /// Take down a volume that could not be reconstructed after a restart. Runs once, without a retry.
    CleanUp {
        /// Placeholder name of the volume.
        volume: VolumeName,
        /// The pod.
        uid: String,
    },
    /// Grow the filesystem of a volume in use.
    Expand {
        /// The volume.
        volume: VolumeName,
    },
    /// Unstage the volume.
    UnmountDevice {
        /// The volume.
        volume: VolumeName,
    },
}

impl Operation {
    /// Returns the key. A mount or a device operation excludes all others of the volume; unmounts of different pods may
    /// run in parallel (upstream `operation_executor`).
    pub fn key(&self) -> OperationKey {
        match self {
            Self::Unmount { volume, uid } | Self::CleanUp { volume, uid } => {
                OperationKey::for_pod(volume.as_str(), uid)
            }
            other => OperationKey::volume(other.volume().as_str()),
        }
    }

    /// Returns upstream's operation name, which differs for raw devices (`block`). Backoff applies per name.
    pub fn name(&self, block: bool) -> &'static str {
        match self {
            Self::VerifyControllerAttached { .. } => "verify_controller_attached_volume",
            Self::Mount { .. } if block => "map_volume",
            Self::Mount { .. } => "volume_mount",
            Self::Unmount { .. } if block => "unmap_volume",
            Self::Unmount { .. } | Self::CleanUp { .. } => "volume_unmount",
            Self::Expand { .. } => "volume_fs_resize",
            Self::UnmountDevice { .. } if block => "unmap_device",
            Self::UnmountDevice { .. } => "unmount_device",
        }
    }

    /// Returns the volume.
    pub fn volume(&self) -> &VolumeName {
        match self {
            Self::VerifyControllerAttached { volume }
            | Self::Mount { volume, .. }
            | Self::Unmount { volume, .. }
            | Self::CleanUp { volume, .. }
            | Self::Expand { volume }
            | Self::UnmountDevice { volume } => volume,
        }
    }

    /// Returns the pod, if the operation has one.
    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Mount { uid, .. } | Self::Unmount { uid, .. } | Self::CleanUp { uid, .. } => Some(uid),
            _ => None,
        }
    }
}

/// Object of a running operation, as it was at its start.
#[derive(Clone, Debug)]
pub struct Task {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// True if a controller attaches the volume.
    pub attachable: bool,
    /// The pod, for mount operations.
    pub pod: Option<Arc<Pod>>,
    /// `<namespace>/<name>` of the pod; empty if unknown.
    pub pod_name: String,
    /// True if the pod mounts it read-only.
    pub readonly: bool,
    /// Size of the volume according to its API objects.
    pub sizes: Sizes,
}

impl Task {
    /// Describes work on a volume without a pod.
    pub fn of(spec: Arc<VolumeSpec>) -> Self {
        Self { spec, attachable: false, pod: None, pod_name: String::new(), readonly: false, sizes: Sizes::default() }
    }
}

/// Facts about the node that a volume's affinity is matched against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its labels, if the node is known and has labels.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

/// One action of the async loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Live GET of the Node: `status.volumesAttached` must list the volume.
    VerifyControllerAttached,
    /// One GET of the VolumeAttachment: it must be attached (kubernetes#124398).
    WaitForAttach,
    /// NodeStageVolume.
    Stage,
    /// NodeExpandVolume: before a volume is published, after a raw device is mapped, or while pods use the volume.
    Expand,
    /// NodePublishVolume.
    Publish,
    /// MapBlockVolume: opens a published raw device and maps it for the pod.
    Map,
    /// UnmapBlockVolume: closes it again.
    Unmap,
    /// NodeUnpublishVolume.
    Unpublish,
    /// NodeUnpublishVolume of a volume of which only the directory is known.
    CleanUp,
    /// NodeUnstageVolume.
    Unstage,
}

impl Step {
    /// Returns upstream's name for the failure of this step. Raw devices (`block`) have their own names.
    pub fn what(self, block: bool) -> &'static str {
        match (self, block) {
            (Self::VerifyControllerAttached, _) => "VerifyControllerAttachedVolume failed",
            (Self::WaitForAttach, false) => "MountVolume.WaitForAttach failed",
            (Self::WaitForAttach, true) => "MapVolume.WaitForAttach failed",
            (Self::Stage, false) => "MountVolume.MountDevice failed",
            (Self::Stage, true) => "MapVolume.SetUpDevice failed",
            (Self::Expand, false) => "MountVolume.Setup failed while expanding volume",
            (Self::Expand, true) => "MapVolume.MarkVolumeAsMounted failed while expanding volume",
            (Self::Publish, false) => "MountVolume.SetUp failed",
            (Self::Publish, true) => "MapVolume.MapPodDevice failed",
            (Self::Map, _) => "MapVolume.MapBlockVolume failed",
            (Self::Unmap, _) => "UnmapVolume.UnmapBlockVolume failed",
            (Self::Unpublish, false) => "UnmountVolume.TearDown failed",
            (Self::Unpublish, true) => "UnmapVolume.UnmapPodDevice failed",
            (Self::CleanUp, _) => "UnmountVolume.NewUnmounter failed",
            (Self::Unstage, false) => "UnmountDevice failed",
            (Self::Unstage, true) => "UnmapDevice failed",
        }
    }

    /// Returns upstream's name for a tear-down that cannot start, because the volume's metadata is lost.
    pub fn what_without_record(self) -> &'static str {
        match self {
            Self::Unmap => "UnmapVolume.NewUnmapper failed",
            Self::Unstage => "UnmapDevice.NewUnmapper failed",
            _ => "UnmountVolume.NewUnmounter failed",
        }
    }
}

/// Error of a step; decides the state of the volume afterwards (upstream `operation_generator.go`
/// `markDeviceErrorState`, `markVolumeErrorState`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The driver failed with a final code: there is nothing to undo.
    Final(String),
    /// The call may still be running: gRPC Canceled, DeadlineExceeded, Unavailable, ResourceExhausted, Aborted, or no
    /// gRPC answer.
    Uncertain(String),
    /// The driver was not called: it is not registered, or an API lookup failed (kubernetes#120268).
    Transient(String),
    /// The volume's metadata is lost, so the tear-down did not start (`NewUnmounter`, `NewBlockVolumeUnmapper`).
    NoRecord(String),
}

impl StepError {
    /// Returns the text.
    pub fn message(&self) -> &str {
        match self {
            Self::Final(text) | Self::Uncertain(text) | Self::Transient(text) | Self::NoRecord(text) => text,
        }
    }
}

/// Failure of an operation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// `<Step> failed for volume "<pv>" : <error>`.
    pub message: String,
    /// Pod that gets an event; None for failures that upstream only logs.
    pub pod: Option<Arc<Pod>>,
    /// Reason of the event: `FailedMount`, or `FailedMapVolume` for raw devices.
    pub reason: &'static str,
}

/// Next action of an operation.
#[derive(Clone, Debug)]
pub enum Next {
    /// Perform this step and report its result.
    Do(Step),
    /// The operation succeeded.
    Done,
    /// The operation failed and is in backoff now.
    Failed(Failure),
}
