//! Operations of the volume manager and the steps that they consist of.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::super::names::VolumeName;
use super::desired::Sizes;
use super::spec::VolumeSpec;
use crate::pending::OperationKey;

/// What the reconciler can start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Make sure that the attach-detach controller has attached the volume.
    VerifyControllerAttached {
        /// The volume.
        volume: VolumeName,
    },
    /// Stage the volume when needed, then publish it to a pod.
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
    /// Take down what a restarted kubelet found of a volume and could not make sense of. Once: nobody tries it again.
    CleanUp {
        /// What stands for the volume's name.
        volume: VolumeName,
        /// The pod.
        uid: String,
    },
    /// Grow the filesystem of a volume that pods use.
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
    /// What it works on: a mount or a device excludes everything else of the volume, unmounts of different pods may
    /// run side by side (upstream `operation_executor`).
    pub fn key(&self) -> OperationKey {
        match self {
            Self::Unmount { volume, uid } | Self::CleanUp { volume, uid } => {
                OperationKey::for_pod(volume.as_str(), uid)
            }
            other => OperationKey::volume(other.volume().as_str()),
        }
    }

    /// Upstream's operation name, which is another one for raw devices (`block`); backoff applies per name.
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

    /// The volume.
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

    /// The pod, when it is about one.
    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Mount { uid, .. } | Self::Unmount { uid, .. } | Self::CleanUp { uid, .. } => Some(uid),
            _ => None,
        }
    }
}

/// What a running operation works on, as it was when it started.
#[derive(Clone, Debug)]
pub struct Task {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// Whether a controller attaches it.
    pub attachable: bool,
    /// The pod, for operations that mount.
    pub pod: Option<Arc<Pod>>,
    /// `<namespace>/<name>` of the pod; empty when it is not known.
    pub pod_name: String,
    /// The name in the pod's `spec.volumes`, for operations that mount.
    pub volume_in_pod: String,
    /// The pod mounts it read-only.
    pub readonly: bool,
    /// How large the volume is to the API.
    pub sizes: Sizes,
}

impl Task {
    /// Work on a volume without a pod.
    pub fn of(spec: Arc<VolumeSpec>) -> Self {
        Self {
            spec,
            attachable: false,
            pod: None,
            pod_name: String::new(),
            volume_in_pod: String::new(),
            readonly: false,
            sizes: Sizes::default(),
        }
    }
}

/// What of the node a volume's affinity looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its labels, when it is known and has some.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

/// One thing that the shell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Live GET of the Node: `status.volumesAttached` must list the volume.
    VerifyControllerAttached,
    /// One GET of the VolumeAttachment: it must be attached (k#124398).
    WaitForAttach,
    /// NodeStageVolume.
    Stage,
    /// NodeExpandVolume, before a volume is published, after a raw device is mapped, or while pods use the volume.
    Expand,
    /// NodePublishVolume.
    Publish,
    /// MapBlockVolume: a published raw device is opened and made known to the pod.
    Map,
    /// UnmapBlockVolume: it is closed again.
    Unmap,
    /// NodeUnpublishVolume.
    Unpublish,
    /// NodeUnpublishVolume of a volume of which only its directory is known.
    CleanUp,
    /// NodeUnstageVolume.
    Unstage,
}

impl Step {
    /// What upstream says has failed when this step of a mount or unmount did; raw devices (`block`) have names of their
    /// own.
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
}

/// How a step failed; decides what the volume manager believes afterwards (storage-controllers §9 "Error classes").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The driver is done and did nothing that needs undoing.
    Final(String),
    /// The driver may still be at it: gRPC Canceled, DeadlineExceeded, Unavailable, ResourceExhausted, Aborted, or
    /// no gRPC answer at all.
    Uncertain(String),
    /// The driver was not reached on purpose: it is not registered, or an API lookup failed (k#120268).
    Transient(String),
}

impl StepError {
    /// The text.
    pub fn message(&self) -> &str {
        match self {
            Self::Final(text) | Self::Uncertain(text) | Self::Transient(text) => text,
        }
    }
}

/// Why an operation failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// `<Step> failed for volume "<pv>" : <error>`.
    pub message: String,
    /// The pod that gets an event; none for failures that upstream only logs.
    pub pod: Option<Arc<Pod>>,
    /// The event's reason: `FailedMount`, or `FailedMapVolume` for raw devices.
    pub reason: &'static str,
}

/// What follows.
#[derive(Clone, Debug)]
pub enum Next {
    /// Perform this and report.
    Do(Step),
    /// The operation succeeded.
    Done,
    /// The operation failed and is in backoff now.
    Failed(Failure),
}
