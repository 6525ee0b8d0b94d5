//! Settings of the loops, with upstream's defaults.

use std::time::Duration;

use crate::workers::Workers;

/// Settings of the loops. Durations are before `time-scale`: loops divide them at their use (`Ctx::scaled`).
#[derive(Clone, Debug, PartialEq)]
pub struct Timers {
    /// Grid of the attach-detach and volume-manager reconcilers (`reconcilerLoopPeriod`): 100 ms.
    pub reconciler_loop: Duration,
    /// Longest wait for an unmount before a detach is forced on an unhealthy node (`maxWaitForUnmountDuration`): 6 min.
    pub max_wait_for_unmount: Duration,
    /// Disables the forced detach after six minutes (`--disable-force-detach-on-timeout`): false.
    pub disable_force_detach: bool,
    /// Period after which attach-detach drops deleted pods from its desired state: 1 min.
    pub desired_state_populator: Duration,
    /// Shortest period after which attach-detach adds missed pods: 3 min.
    pub add_missing_pods: Duration,
    /// Period of verifying attachments (`--attach-detach-reconcile-sync-period`): 60 s.
    pub verify_attached_sync: Duration,
    /// Longest wait for a VolumeAttachment to become attached or deleted: 2 min.
    pub attachment_wait: Duration,
    /// First step of the wait's polling, ×1.05 each: 500 ms.
    pub attachment_poll_initial: Duration,
    /// Longest step of the wait's polling: 7 s.
    pub attachment_poll_max: Duration,
    /// First backoff of a failed volume operation, doubling: 500 ms.
    pub pending_initial: Duration,
    /// Longest backoff of a failed volume operation: 2 min 2 s.
    pub pending_max: Duration,

    /// Lease duration (`--leader-elect-lease-duration`): 15 s.
    pub election_lease: Duration,
    /// Time that a leader tries to renew (`--leader-elect-renew-deadline`): 10 s.
    pub election_renew_deadline: Duration,
    /// Retry period of kube-controller-manager and kube-scheduler (`--leader-elect-retry-period`): 2 s.
    pub election_retry: Duration,
    /// Retry period of a sidecar (`--leader-election-retry-period`): 5 s.
    pub sidecar_election_retry: Duration,

    /// Longest CSI call of external-attacher (`--timeout`): 15 s.
    pub attacher_timeout: Duration,
    /// Longest CSI call of external-provisioner (`--timeout`): 10 s.
    pub provisioner_timeout: Duration,
    /// Longest CSI call of external-resizer (`--timeout`): 10 s.
    pub resizer_timeout: Duration,
    /// Longest CSI call of csi-snapshotter (`--timeout`): 1 min.
    pub snapshotter_timeout: Duration,
    /// Period of the resync of snapshots and contents (`--resync-period`): 15 min.
    pub snapshot_resync: Duration,
    /// Groups of snapshots in both snapshot loops (`--feature-gates CSIVolumeGroupSnapshot`): true.
    pub volume_group_snapshots: bool,
    /// First retry of a sidecar's item, doubling (`--retry-interval-start`): 1 s.
    pub sidecar_retry_start: Duration,
    /// Longest retry of a sidecar's item (`--retry-interval-max`): 5 min.
    pub sidecar_retry_max: Duration,
    /// Publishes CSIStorageCapacity objects (external-provisioner `--enable-capacity`): false.
    pub enable_capacity: bool,
    /// Publishes them also for classes that bind at once (`--capacity-for-immediate-binding`): false.
    pub capacity_for_immediate_binding: bool,
    /// Period of the poll of the driver's capacity (`--capacity-poll-interval`): 1 min.
    pub capacity_poll_interval: Duration,
    /// Period of external-attacher's comparison with ListVolumes (`--reconcile-sync`): 1 min.
    pub attacher_reconcile_sync: Duration,

    /// Period of the binder's resync of all volumes and claims (`--pvclaimbinder-sync-period`): 15 s.
    pub binder_sync: Duration,

    /// Longest wait of the scheduler for volume binding (`BindTimeout`): 600 s.
    pub bind_timeout: Duration,
    /// Period of the scheduler's poll during that wait: 1 s.
    pub bind_poll: Duration,
    /// First backoff of an unschedulable pod, doubling (`podInitialBackoffSeconds`): 1 s.
    pub pod_initial_backoff: Duration,
    /// Longest backoff of an unschedulable pod (`podMaxBackoffSeconds`): 10 s.
    pub pod_max_backoff: Duration,
    /// Time after which an unschedulable pod is retried without an event: 5 min.
    pub unschedulable_flush: Duration,

    /// Period of node lifecycle's monitor (`--node-monitor-period`): 5 s.
    pub node_monitor_period: Duration,
    /// Time without a heartbeat after which a node is Unknown (`--node-monitor-grace-period`): 50 s.
    pub node_monitor_grace: Duration,
    /// Same for a node that never posted (`--node-startup-grace-period`): 60 s.
    pub node_startup_grace: Duration,
    /// Nodes of a zone that get a NoExecute taint, per second (`--node-eviction-rate`): 0.1.
    pub node_eviction_rate: f64,
    /// Same in an unhealthy zone of more than 50 nodes (`--secondary-node-eviction-rate`): 0.01.
    pub secondary_node_eviction_rate: f64,
    /// Period of pod GC: 20 s.
    pub pod_gc_period: Duration,
    /// Time that a node must be missing before its pods are orphans (`quarantineTime`): 40 s.
    pub pod_gc_quarantine: Duration,

    /// Period of the kubelet's lease renewal: 10 s.
    pub lease_renew: Duration,
    /// Duration in the lease, in whole seconds: 40 s.
    pub lease_duration: Duration,
    /// Period of the kubelet's node status: 10 s.
    pub node_status_update: Duration,
    /// Period of posting an unchanged node status: 5 min.
    pub node_status_report: Duration,
    /// Longest wait of a pod sync for its volumes (`podAttachAndMountTimeout`): 2 min 3 s.
    pub pod_attach_and_mount_timeout: Duration,
    /// Period of a pod sync's check for its volumes (`podAttachAndMountRetryInterval`): 300 ms.
    pub pod_attach_and_mount_poll: Duration,
    /// Period of a running pod's sync, including the size of its volumes, plus up to half of it (`syncFrequency`): 1
    /// min.
    pub pod_sync: Duration,
    /// Time for which the kubelet keeps the statistics of a volume (`--volume-stats-agg-period`): 1 min.
    pub volume_stats_agg: Duration,
    /// Longest CSI call of the kubelet (`csiTimeout`): 2 min.
    pub kubelet_csi_timeout: Duration,
    /// Timeout of `GetInfo` at a plugin's registration socket: 1 s.
    pub registration_get_info_timeout: Duration,
    /// Timeout of `NotifyRegistrationStatus`: 5 s.
    pub registration_notify_timeout: Duration,
    /// Period of plugin registration: 1 s.
    pub registration_reconcile: Duration,

    /// Numbers of objects that the loops process at once.
    pub workers: Workers,
}

impl Default for Timers {
    fn default() -> Self {
        let (ms, s, min) = (Duration::from_millis, Duration::from_secs, |n: u64| Duration::from_secs(60 * n));
        Self {
            reconciler_loop: ms(100),
            max_wait_for_unmount: min(6),
            disable_force_detach: false,
            desired_state_populator: min(1),
            add_missing_pods: min(3),
            verify_attached_sync: s(60),
            attachment_wait: min(2),
            attachment_poll_initial: ms(500),
            attachment_poll_max: s(7),
            pending_initial: ms(500),
            pending_max: s(122),
            election_lease: s(15),
            election_renew_deadline: s(10),
            election_retry: s(2),
            sidecar_election_retry: s(5),
            attacher_timeout: s(15),
            provisioner_timeout: s(10),
            resizer_timeout: s(10),
            snapshotter_timeout: min(1),
            snapshot_resync: min(15),
            volume_group_snapshots: true,
            sidecar_retry_start: s(1),
            sidecar_retry_max: min(5),
            enable_capacity: false,
            capacity_for_immediate_binding: false,
            capacity_poll_interval: min(1),
            attacher_reconcile_sync: min(1),
            binder_sync: s(15),
            bind_timeout: s(600),
            bind_poll: s(1),
            pod_initial_backoff: s(1),
            pod_max_backoff: s(10),
            unschedulable_flush: min(5),
            node_monitor_period: s(5),
            node_monitor_grace: s(50),
            node_startup_grace: s(60),
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            pod_gc_period: s(20),
            pod_gc_quarantine: s(40),
            lease_renew: s(10),
            lease_duration: s(40),
            node_status_update: s(10),
            node_status_report: min(5),
            pod_attach_and_mount_timeout: s(123),
            pod_attach_and_mount_poll: ms(300),
            pod_sync: min(1),
            volume_stats_agg: min(1),
            kubelet_csi_timeout: min(2),
            registration_get_info_timeout: s(1),
            registration_notify_timeout: s(5),
            registration_reconcile: s(1),
            workers: Workers::default(),
        }
    }
}
