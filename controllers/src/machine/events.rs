//! What the modelled workloads of a machine tell.

use std::sync::Arc;

substrate::events! {
    /// A writer has looked at what it found on its volume.
    pub struct WorkloadStarted = "workload.started" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// How many records were found intact.
        pub records_found: u64,
        /// Whether all that was found could be read and is as it must be.
        pub verified: bool,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer has made a record durable.
    pub struct WorkloadSynced = "workload.synced" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The number of the record.
        pub record: u64,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer has ended because it was asked to.
    pub struct WorkloadStopped = "workload.stopped" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer was ended where it was: it took too long when it was asked to end.
    pub struct WorkloadKilled = "workload.killed" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer has found records that are not what was written.
    pub struct WorkloadCorrupt = "workload.corrupt" {
        /// What is wrong with them.
        pub error: String,
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer could not read or write; it tries again.
    pub struct WorkloadFailed = "workload.failed" {
        /// What the disk said.
        pub error: String,
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }
}
