//! The families of metrics: names, help, labels and buckets as in the sources of the originals.

/// A family of samples.
#[derive(Debug)]
pub struct Family {
    /// Name.
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Names of the labels, in alphabetical order.
    pub labels: &'static [&'static str],
    /// Type.
    pub kind: Kind,
}

/// The type of a family.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations in seconds, in buckets up to these bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Returns the name in a `# TYPE` line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Bounds of operations on volumes (`pkg/volume/util/metrics.go`, csi-lib-utils `metrics/metrics.go`).
const OPERATIONS: Kind = Kind::Histogram(&[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0]);
/// Bounds of work queues (`component-base/metrics/prometheus/workqueue/metrics.go`).
/// Each bound is ten times the one before, with the error of 64-bit floats, as Go computes and prints them.
const QUEUES: Kind = Kind::Histogram(&[
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    1e-3,
    1e-2,
    0.1,
    1.0,
    10.0,
]);
/// `DefBuckets` of the Go client.
const DEFAULT: Kind = Kind::Histogram(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);

const CSI_LABELS: &[&str] = &["driver_name", "grpc_status_code", "method_name", "migrated"];

const CLAIM_LABELS: &[&str] = &["namespace", "persistentvolumeclaim"];

/// Defines the families, and the list of all.
macro_rules! families {
    ($($(#[$about:meta])* $id:ident = $name:literal, $help:literal, $labels:expr, $kind:expr;)*) => {
        $($(#[$about])* pub static $id: Family = Family { name: $name, help: $help, labels: $labels, kind: $kind };)*

        /// All families.
        pub static ALL: &[&Family] = &[$(&$id),*];
    };
}

families! {
    /// `pkg/controller/volume/attachdetach/metrics`: the subsystem, and a name that repeats it.
    FORCED_DETACHES = "attach_detach_controller_attachdetach_controller_forced_detaches",
        "[ALPHA] Number of times the A/D Controller performed a forced detach", &["reason"], Kind::Counter;
    /// `pkg/controller/volume/attachdetach/metrics/metrics.go`.
    TOTAL_VOLUMES = "attachdetach_controller_total_volumes",
        "[ALPHA] Number of volumes in A/D Controller", &["plugin_name", "state"], Kind::Gauge;
    /// `pkg/kubelet/volumemanager/metrics/metrics.go`.
    VOLUME_MANAGER = "volume_manager_total_volumes",
        "[ALPHA] Number of volumes in Volume Manager", &["plugin_name", "state"], Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_CAPACITY = "kubelet_volume_stats_capacity_bytes",
        "[ALPHA] Capacity in bytes of the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_AVAILABLE = "kubelet_volume_stats_available_bytes",
        "[ALPHA] Number of available bytes in the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_USED = "kubelet_volume_stats_used_bytes",
        "[ALPHA] Number of used bytes in the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_INODES = "kubelet_volume_stats_inodes",
        "[ALPHA] Maximum number of inodes in the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_INODES_FREE = "kubelet_volume_stats_inodes_free",
        "[ALPHA] Number of free inodes in the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_INODES_USED = "kubelet_volume_stats_inodes_used",
        "[ALPHA] Number of used inodes in the volume", CLAIM_LABELS, Kind::Gauge;
    /// `pkg/kubelet/metrics/collectors/volume_stats.go`.
    VOLUME_ABNORMAL = "kubelet_volume_stats_health_status_abnormal",
        "[ALPHA] Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 indicates volume is healthy",
        CLAIM_LABELS, Kind::Gauge;
    /// `pkg/volume/util/metrics.go`.
    STORAGE_OPERATIONS = "storage_operation_duration_seconds",
        "[ALPHA] Storage operation duration", &["migrated", "operation_name", "status", "volume_plugin"], OPERATIONS;
    /// `pkg/volume/util/metrics.go`: the kubelet's calls to a driver.
    CSI_OPERATIONS = "csi_operations_seconds",
        "[ALPHA] Container Storage Interface operation duration with gRPC error code status total", CSI_LABELS, OPERATIONS;
    /// csi-lib-utils `metrics/metrics.go`: a sidecar's calls to its driver.
    CSI_SIDECAR_OPERATIONS = "csi_sidecar_operations_seconds",
        "[ALPHA] Container Storage Interface operation duration with gRPC error code status total", CSI_LABELS, OPERATIONS;
    /// `pkg/controller/volume/persistentvolume/metrics/metrics.go`.
    TOTAL_PV = "pv_collector_total_pv_count",
        "[ALPHA] Gauge measuring total number of persistent volumes", &["plugin_name", "volume_mode"], Kind::Gauge;
    /// `pkg/controller/volume/persistentvolume/metrics/metrics.go`.
    BOUND_PV = "pv_collector_bound_pv_count",
        "[ALPHA] Gauge measuring number of persistent volume currently bound", &["storage_class"], Kind::Gauge;
    /// `pkg/controller/volume/persistentvolume/metrics/metrics.go`.
    UNBOUND_PV = "pv_collector_unbound_pv_count",
        "[ALPHA] Gauge measuring number of persistent volume currently unbound", &["storage_class"], Kind::Gauge;
    /// `pkg/controller/volume/persistentvolume/metrics/metrics.go`.
    BOUND_PVC = "pv_collector_bound_pvc_count",
        "[ALPHA] Gauge measuring number of persistent volume claim currently bound",
        &["namespace", "storage_class", "volume_attributes_class"], Kind::Gauge;
    /// `pkg/controller/volume/persistentvolume/metrics/metrics.go`.
    UNBOUND_PVC = "pv_collector_unbound_pvc_count",
        "[ALPHA] Gauge measuring number of persistent volume claim currently unbound",
        &["namespace", "storage_class", "volume_attributes_class"], Kind::Gauge;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    PROVISION_TOTAL = "controller_persistentvolumeclaim_provision_total",
        "Total number of persistent volumes provisioned successfully. Broken down by storage class name and source of the claim.",
        &["class", "source"], Kind::Counter;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    PROVISION_FAILED = "controller_persistentvolumeclaim_provision_failed_total",
        "Total number of persistent volume provision failed attempts. Broken down by storage class name and source of the claim.",
        &["class", "source"], Kind::Counter;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    PROVISION_SECONDS = "controller_persistentvolumeclaim_provision_duration_seconds",
        "Latency in seconds to provision persistent volumes. Failed provisioning attempts are ignored. Broken down by storage class name and source of the claim.",
        &["class", "source"], DEFAULT;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    DELETE_TOTAL = "controller_persistentvolume_delete_total",
        "Total number of persistent volumes deleted successfully. Broken down by storage class name.",
        &["class"], Kind::Counter;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    DELETE_FAILED = "controller_persistentvolume_delete_failed_total",
        "Total number of persistent volume delete failed attempts. Broken down by storage class name.",
        &["class"], Kind::Counter;
    /// sig-storage-lib-external-provisioner `controller/metrics/metrics.go`.
    DELETE_SECONDS = "controller_persistentvolume_delete_duration_seconds",
        "Latency in seconds to delete persistent volumes. Failed deletion attempts are ignored. Broken down by storage class name.",
        &["class"], DEFAULT;
    /// external-provisioner `pkg/capacity/capacity.go`.
    CAPACITIES_GOAL = "csistoragecapacities_desired_goal",
        "[ALPHA] Number of CSIStorageCapacity objects that are supposed to be managed automatically.", &[], Kind::Gauge;
    /// external-provisioner `pkg/capacity/capacity.go`.
    CAPACITIES_CURRENT = "csistoragecapacities_desired_current",
        "[ALPHA] Number of CSIStorageCapacity objects that exist and are supposed to be managed automatically.",
        &[], Kind::Gauge;
    /// external-provisioner `pkg/capacity/capacity.go`.
    CAPACITIES_OBSOLETE = "csistoragecapacities_obsolete",
        "[ALPHA] Number of CSIStorageCapacity objects that exist and will be deleted automatically. Objects that exist and may need an update are not considered obsolete and therefore not included in this value.",
        &[], Kind::Gauge;
    /// `component-base/metrics/prometheus/clientgo/leaderelection/metrics.go`.
    MASTER_STATUS = "leader_election_master_status",
        "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
        &["name"], Kind::Gauge;
    /// `component-base/metrics/prometheus/workqueue/metrics.go`.
    QUEUE_DEPTH = "workqueue_depth", "[BETA] Current depth of workqueue", &["name"], Kind::Gauge;
    /// `component-base/metrics/prometheus/workqueue/metrics.go`.
    QUEUE_ADDS = "workqueue_adds_total",
        "[BETA] Total number of adds handled by workqueue", &["name"], Kind::Counter;
    /// `component-base/metrics/prometheus/workqueue/metrics.go`.
    QUEUE_RETRIES = "workqueue_retries_total",
        "[BETA] Total number of retries handled by workqueue", &["name"], Kind::Counter;
    /// `component-base/metrics/prometheus/workqueue/metrics.go`.
    QUEUE_WAIT = "workqueue_queue_duration_seconds",
        "[BETA] How long in seconds an item stays in workqueue before being requested.", &["name"], QUEUES;
    /// `component-base/metrics/prometheus/workqueue/metrics.go`.
    QUEUE_WORK = "workqueue_work_duration_seconds",
        "[BETA] How long in seconds processing an item from workqueue takes.", &["name"], QUEUES;
    /// `pkg/scheduler/metrics/metrics.go`.
    SCHEDULE_ATTEMPTS = "scheduler_schedule_attempts_total",
        "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
        &["profile", "result"], Kind::Counter;
    /// `pkg/scheduler/metrics/metrics.go`.
    PENDING_PODS = "scheduler_pending_pods",
        "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
        &["queue"], Kind::Gauge;
    /// `pkg/scheduler/metrics/metrics.go`.
    PREEMPTION_ATTEMPTS = "scheduler_preemption_attempts_total",
        "[STABLE] Total preemption attempts in the cluster till now", &[], Kind::Counter;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_work_queues_are_those_of_go() {
        // `ExponentialBuckets(10e-9, 10, 10)`.
        let expected: Vec<f64> = std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0)).take(10).collect();
        let Kind::Histogram(bounds) = QUEUES else { panic!("a histogram") };
        assert_eq!(bounds, expected);
    }

    #[test]
    fn labels_are_sorted_as_the_text_shows_them() {
        for family in ALL {
            assert!(family.labels.is_sorted(), "{}", family.name);
            assert_eq!(ALL.iter().filter(|other| other.name == family.name).count(), 1, "{}", family.name);
        }
    }
}
