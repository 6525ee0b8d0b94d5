//! What a node agent tells.

use substrate::json::Text;

substrate::events! {
    /// The agent cannot read its own directories; it tries again.
    pub struct ScanFailed = "node-agent.scan-failed" {
        /// What the disk said.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// A volume of a pod could not be looked up, because the API server did not answer or refused; it is tried again.
    pub struct LookupFailed = "node-agent.lookup-failed" {
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod.
        pub pod: Text,
    }

    /// An operation of the volume manager failed; it is tried again after its backoff.
    pub struct OperationFailed = "node-agent.operation-failed" {
        /// Why, as kubelet words it.
        pub error: String,
        /// The node.
        pub node: Text,
        /// Upstream's name of the operation.
        pub operation: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A pod has a volume.
    pub struct Mounted = "node-agent.mounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was published once more to a pod that has it.
    pub struct Remounted = "node-agent.remounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A volume was taken away from a pod.
    pub struct Unmounted = "node-agent.unmounted" {
        /// The node.
        pub node: Text,
        /// `<namespace>/<name>` of the pod, or its uid when only that is known.
        pub pod: Text,
        /// The volume handle.
        pub volume: Text,
    }

    /// A raw device was made known to a pod.
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
        /// How large the volume was to become.
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

    /// A driver could not be registered; it is tried again.
    pub struct RegistrationFailed = "node-agent.registration-failed" {
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// A driver whose socket went away could not be taken off the node.
    pub struct DeregistrationFailed = "node-agent.deregistration-failed" {
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// A driver could not be asked anew how many volumes fit on the node.
    pub struct AllocatableFailed = "node-agent.allocatable-failed" {
        /// The driver.
        pub driver: Text,
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The Node object could not be made; it is tried again.
    pub struct RegisterFailed = "node-agent.register-failed" {
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
    }

    /// The machine's container runtime did not answer, or its stream of news ended; it is asked again.
    pub struct RuntimeFailed = "node-agent.runtime-failed" {
        /// Why.
        pub error: String,
        /// The node.
        pub node: Text,
    }
}
