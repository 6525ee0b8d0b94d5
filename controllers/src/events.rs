//! Events of the control loops in the trace.

use std::sync::Arc;

use substrate::json::Text;

use crate::attach_detach::ForcedReason;

substrate::events! {
    /// A node became ready.
    pub struct NodeReady = "node.ready" {
        /// The node.
        pub node: Text,
    }

    /// A node reported that it is not ready.
    pub struct NodeNotReady = "node.not-ready" {
        /// The node.
        pub node: Text,
    }

    /// A node has not sent a heartbeat for too long.
    pub struct NodeUnknown = "node.unknown" {
        /// The node.
        pub node: Text,
    }

    /// The attach-detach controller starts to attach a volume.
    pub struct Attach = "ad.attach" {
        /// The volume's id at the driver.
        pub volume: Text,
        /// Its PersistentVolume.
        pub pv: Text,
        /// The node.
        pub node: Text,
        /// Always false: only detaches are forced.
        pub forced: bool,
    }

    /// The attach-detach controller starts to detach a volume.
    pub struct Detach = "ad.detach" {
        /// The volume's id at the driver.
        pub volume: Text,
        /// Its PersistentVolume; empty if unknown.
        pub pv: Text,
        /// The node.
        pub node: Text,
        /// True if the detach proceeds although the node may still use the volume.
        pub forced: bool,
        /// Reason of a forced detach.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<ForcedReason>,
    }

    /// A component records an Event about an object.
    pub struct EventRecorded = "k8s.event" {
        /// The component.
        pub source: Arc<str>,
        /// Machine-readable reason.
        pub reason: Text,
        /// `Normal` or `Warning`.
        pub r#type: Text,
        /// The object, as in `pod/default/db-0`.
        pub object: Text,
        /// Message for people.
        pub message: Text,
    }

    /// An Event could not be written. Only at the trace level, and for observers that ask for it.
    pub struct EventLost = "event.lost" {
        /// The Event's reason.
        pub reason: Text,
        /// The error.
        pub error: String,
    }

    /// An informer could not list or watch. Only at the trace level, and for observers that ask for it.
    pub struct InformerError = "informer.error" {
        /// The kind of the objects.
        pub of: Text,
        /// `list` or `watch`.
        pub verb: Text,
        /// The error.
        pub error: String,
    }

    /// Desired and actual state of a loop. Only at the trace level, and for observers that ask for it.
    pub struct LoopState = "loop.state" {
        /// The loop.
        pub of: Text,
        /// Desired state, sorted.
        pub desired: Vec<String>,
        /// Actual state as the loop knows it, sorted.
        pub actual: Vec<String>,
    }

    /// Pod GC deleted a pod, or tried to. Only at the trace level, and for observers that ask for it.
    pub struct PodCollected = "pod-gc.deleted" {
        /// Namespace and name.
        pub pod: String,
        /// Reason of the deletion.
        pub reason: Text,
        /// The error, if there was one.
        pub error: Option<String>,
    }

    /// The garbage collector deleted an object whose owners are gone, or tried to. Only at the trace level, and for
    /// observers that ask for it.
    pub struct GarbageCollected = "garbage-collector.deleted" {
        /// apiVersion, kind, namespace, name and uid.
        pub object: String,
        /// `Background`, `Foreground` or `Orphan`.
        pub propagation: Text,
        /// The error, if there was one.
        pub error: Option<String>,
    }

    /// The PV binder failed at a sync or a write. Only at the trace level, and for observers that ask for it.
    pub struct BinderError = "binder.error" {
        /// `sync` or `write`.
        pub what: Text,
        /// The error.
        pub error: String,
    }

    /// A write of the scheduler failed. Only at the trace level, and for observers that ask for it.
    pub struct SchedulerError = "scheduler.error" {
        /// The write.
        pub what: Text,
        /// The pod.
        pub pod: Text,
        /// The error.
        pub error: String,
    }

    /// A sidecar does not reach its driver yet. Only at the trace level, and for observers that ask for it.
    pub struct CsiUnreached = "csi.connect" {
        /// The error.
        pub error: String,
    }

    /// A component calls a driver. Only at the trace level, and for observers that ask for it.
    pub struct CsiAsked = "csi.asked" {
        /// The RPC (`ControllerPublishVolume`).
        pub rpc: Text,
        /// The volume, or the name of the one to create; absent if the request names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node, by the driver's id; absent if the request names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
    }

    /// A call of a component to a driver ended. Only at the trace level, and for observers that ask for it.
    pub struct CsiAnswered = "csi.answered" {
        /// The RPC (`ControllerPublishVolume`).
        pub rpc: Text,
        /// The volume, or the name of the one to create; absent if the request names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub volume: Option<Text>,
        /// The node, by the driver's id; absent if the request names none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub node: Option<Text>,
        /// The gRPC code, as Go prints it.
        pub code: Text,
        /// Duration in milliseconds.
        pub took_ms: u64,
        /// The error's message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
    }

    /// A write or GetCapacity of csi-provisioner failed. Only at the trace level, and for observers that ask for it.
    pub struct ProvisionerError = "provisioner.error" {
        /// `save`, `delete`, `finalizer`, `release` or `capacity`.
        pub what: Text,
        /// The PersistentVolume, the snapshot, or the StorageClass or CSIStorageCapacity.
        pub object: Text,
        /// The error.
        pub error: String,
    }

    /// external-attacher could not record an error. Only at the trace level, and for observers that ask for it.
    pub struct AttacherError = "attacher.error" {
        /// The VolumeAttachment.
        pub attachment: Text,
        /// The error.
        pub error: String,
        /// Error of the write that should record it.
        pub saving: String,
    }

    /// A snapshot or its content could not be processed; it is retried.
    pub struct SnapshotError = "snapshot.error" {
        /// `snapshot`, `content`, `group`, `group content`, or `kinds` if the kinds of groups are missing.
        pub what: Text,
        /// Its name.
        pub object: Text,
        /// The error.
        pub error: String,
    }

    /// A replica became the leader of its component.
    pub struct LeaderElected = "leader.elected" {
        /// Namespace and name of the lease.
        pub lease: Text,
        /// The replica.
        pub identity: Text,
        /// Number of leader changes.
        pub transitions: i32,
    }

    /// A leader could not renew its lease in time, and ends its process.
    pub struct LeaderLost = "leader.lost" {
        /// Namespace and name of the lease.
        pub lease: Text,
        /// The replica.
        pub identity: Text,
    }
}
