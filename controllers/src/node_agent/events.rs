//! Events of a node agent.

use substrate::json::Text;

substrate::events! {
    /// The agent cannot read its own directories; it tries again.
    pub struct ScanFailed = "node-agent.scan-failed" {
        /// Error of the disk.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The agent could not look up a pod's volume: the API server refused or did not answer. The agent retries.
    pub struct LookupFailed = "node-agent.lookup-failed" {
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod.
        pub pod: Text,
    }

    /// An operation of the volume manager failed. The agent retries after a backoff.
    pub struct OperationFailed = "node-agent.operation-failed" {
        /// Error in kubelet's words.
        pub error: String,
        /// The node.
        pub node: Text,
        /// Upstream's name of the operation.
        pub operation: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was mounted for a pod.
    pub struct Mounted = "node-agent.mounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was published again to a pod that already has it.
    pub struct Remounted = "node-agent.remounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was unmounted from a pod.
    pub struct Unmounted = "node-agent.unmounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A raw device was mapped for a pod.
    pub struct Mapped = "node-agent.mapped" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was expanded on the node.
    pub struct Expanded = "node-agent.expanded" {
        /// The node.
        pub node: Text,
        /// Requested size.
        pub size_bytes: i64,
        /// The volume handle.
        pub volume: Text,
    }

    /// A driver was registered.
    pub struct Registered = "node-agent.registered" {
        /// The driver.
        pub driver: Text,
        /// The node.
        pub node: Text,
    }

    /// The agent could not register a driver. It retries.
    pub struct RegistrationFailed = "node-agent.registration-failed" {
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The agent could not deregister a driver whose socket had gone.
    pub struct DeregistrationFailed = "node-agent.deregistration-failed" {
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// A driver did not answer the repeated question of how many volumes fit on the node.
    pub struct AllocatableFailed = "node-agent.allocatable-failed" {
        /// The driver.
        pub driver: Text,
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The agent could not create the Node object. It retries.
    pub struct RegisterFailed = "node-agent.register-failed" {
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The machine's container runtime did not answer, or its event stream ended. The agent reconnects.
    pub struct RuntimeFailed = "node-agent.runtime-failed" {
        /// The reason.
        pub error: String,
        /// The node.
        pub node: Text,
    }
}
