//! Events of the modelled workloads of a machine.

use std::sync::Arc;

substrate::events! {
    /// A writer has verified the existing records of its volume.
    pub struct WorkloadStarted = "workload.started" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// Number of intact records found.
        pub records_found: u64,
        /// True if all records were readable and valid.
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

    /// A writer has ended: on request, or with its container.
    pub struct WorkloadStopped = "workload.stopped" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer was killed: it took too long to stop.
    pub struct WorkloadKilled = "workload.killed" {
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer found records that differ from those written.
    pub struct WorkloadCorrupt = "workload.corrupt" {
        /// The error.
        pub error: String,
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }

    /// A writer could not read or write. Its container exits with code 1.
    pub struct WorkloadFailed = "workload.failed" {
        /// Error of the disk.
        pub error: String,
        /// The node.
        pub node: Arc<str>,
        /// `<namespace>/<name>` of the pod.
        pub pod: Arc<str>,
        /// The volume handle.
        pub volume: Arc<str>,
    }
}
