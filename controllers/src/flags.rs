//! Settings of the processes, by upstream's names: command-line flags, and constants of upstream's source that no flag
//! sets.

use std::time::Duration;

use substrate::fault::Span;
use substrate::words::nearest;

use crate::timers::Timers;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The process, one of [`PROCESSES`](crate::PROCESSES) or `kubelet`.
    pub process: &'static str,
    /// Upstream's name: a flag without its dashes, or a constant or configuration field.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    field: Field,
}

/// Kind of a setting, and its field.
#[derive(Clone, Copy, Debug)]
enum Field {
    Duration(fn(&mut Timers) -> &mut Duration),
    Switch(fn(&mut Timers) -> &mut bool),
    Rate(fn(&mut Timers) -> &mut f64),
    Count(fn(&mut Timers) -> &mut usize),
}

impl Flag {
    /// Returns a description of its values.
    pub fn values(&self) -> &'static str {
        match self.field {
            Field::Duration(_) => "a duration, 250ms or 2m",
            Field::Switch(_) => "true or false",
            Field::Rate(_) => "a number above 0, per second",
            Field::Count(_) => "an integer, 1 to 1000",
        }
    }

    /// Returns upstream's default as text.
    pub fn default(&self) -> String {
        let mut timers = Timers::default();
        match self.field {
            Field::Duration(of) => Span(*of(&mut timers)).to_string(),
            Field::Switch(of) => of(&mut timers).to_string(),
            Field::Rate(of) => of(&mut timers).to_string(),
            Field::Count(of) => of(&mut timers).to_string(),
        }
    }
}

/// Error of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagError {
    /// The message.
    pub message: String,
    /// The invalid word.
    pub word: String,
    /// The nearest valid word.
    pub nearest: Option<&'static str>,
}

impl std::fmt::Display for FlagError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match self.nearest {
            Some(word) => write!(f, "; did you mean `{word}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FlagError {}

/// The kubelet, which runs no control loops.
pub const KUBELET: &str = "kubelet";

macro_rules! flags {
    ($($process:literal { $($name:literal: $kind:ident($($field:ident).+), $about:literal;)+ })+) => {
        /// All settings.
        pub const FLAGS: &[Flag] = &[$($(Flag {
            process: $process,
            name: $name,
            about: $about,
            field: Field::$kind(|timers| &mut timers.$($field).+),
        }),+),+];
    };
}

flags! {
    "kube-controller-manager" {
        "attach-detach-reconcile-sync-period": Duration(verify_attached_sync), "how often attachments are verified";
        "disable-force-detach-on-timeout": Switch(disable_force_detach), "no detach is forced after six minutes";
        "node-monitor-period": Duration(node_monitor_period), "how often nodes are looked at";
        "node-monitor-grace-period": Duration(node_monitor_grace), "after how long without a heartbeat a node is Unknown";
        "node-startup-grace-period": Duration(node_startup_grace), "the same for a node that never posted its status";
        "node-eviction-rate": Rate(node_eviction_rate), "nodes of a zone that get a NoExecute taint";
        "secondary-node-eviction-rate": Rate(secondary_node_eviction_rate), "the same in a large unhealthy zone";
        "pvclaimbinder-sync-period": Duration(binder_sync), "how often the binder looks at all volumes and claims";
        "leader-elect-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-elect-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-elect-retry-period": Duration(election_retry), "how often leaders renew, and others look";
        "ReconcilerLoopPeriod": Duration(reconciler_loop), "how often attach-detach compares, at most";
        "ReconcilerMaxWaitForUnmountDuration": Duration(max_wait_for_unmount), "how long a detach waits for an unmount";
        "DesiredStateOfWorldPopulatorLoopSleepPeriod": Duration(desired_state_populator),
            "how often attach-detach drops pods that are gone";
        "DesiredStateOfWorldPopulatorListPodsRetryDuration": Duration(add_missing_pods),
            "how often attach-detach adds pods that it missed";
        "gcCheckPeriod": Duration(pod_gc_period), "how often pod garbage collection runs";
        "quarantineTime": Duration(pod_gc_quarantine), "how long a node must be gone before its pods are orphans";
        "concurrent-deployment-syncs": Count(workers.deployments), "Deployments processed at once";
        "concurrent-replicaset-syncs": Count(workers.replica_sets), "ReplicaSets processed at once";
        "concurrent-rc-syncs": Count(workers.replication_controllers), "ReplicationControllers processed at once";
        "concurrent-statefulset-syncs": Count(workers.stateful_sets), "StatefulSets processed at once";
        "concurrent-daemonset-syncs": Count(workers.daemon_sets), "DaemonSets processed at once";
        "concurrent-job-syncs": Count(workers.jobs), "Jobs processed at once";
        "concurrent-cron-job-syncs": Count(workers.cron_jobs), "CronJobs processed at once";
        "concurrent-ttl-after-finished-syncs": Count(workers.finished_jobs), "finished Jobs processed at once";
        "concurrent-ephemeralvolume-syncs": Count(workers.ephemeral_volumes),
            "pods with ephemeral volumes processed at once";
        "concurrent-gc-syncs": Count(workers.garbage), "objects that the garbage collector processes at once";
        "concurrent-service-endpoint-syncs": Count(workers.endpoint_slices),
            "Services whose EndpointSlices are processed at once";
        "concurrent-endpoint-syncs": Count(workers.endpoints), "Services whose Endpoints are processed at once";
        "mirroring-concurrent-service-endpoint-syncs": Count(workers.mirrored_endpoints),
            "Endpoints mirrored at once";
        "concurrent-horizontal-pod-autoscaler-syncs": Count(workers.autoscalers), "autoscalers processed at once";
    }
    "kube-scheduler" {
        "pod-max-in-unschedulable-pods-duration": Duration(unschedulable_flush),
            "after how long an unschedulable pod is tried again";
        "podInitialBackoffSeconds": Duration(pod_initial_backoff), "the first backoff of an unschedulable pod";
        "podMaxBackoffSeconds": Duration(pod_max_backoff), "its longest backoff";
        "bindTimeoutSeconds": Duration(bind_timeout), "how long volumes may take to be bound";
        "leader-elect-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-elect-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-elect-retry-period": Duration(election_retry), "how often leaders renew, and others look";
    }
    "csi-attacher" {
        "timeout": Duration(attacher_timeout), "the longest call of the driver";
        "worker-threads": Count(workers.attacher), "attachments, and volumes, processed at once";
        "retry-interval-start": Duration(sidecar_retry_start), "the first backoff of an attachment that failed";
        "retry-interval-max": Duration(sidecar_retry_max), "its longest backoff";
        "reconcile-sync": Duration(attacher_reconcile_sync), "how often attachments are compared with ListVolumes";
        "leader-election-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-election-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-election-retry-period": Duration(sidecar_election_retry), "how often leaders renew, and others look";
    }
    "csi-provisioner" {
        "timeout": Duration(provisioner_timeout), "the longest call of the driver";
        "worker-threads": Count(workers.provisioner), "claims, and volumes, processed at once";
        "cloning-protection-threads": Count(workers.cloning_protection), "deleted claims processed at once";
        "capacity-threads": Count(workers.capacity), "capacities that are asked for at once";
        "retry-interval-start": Duration(sidecar_retry_start), "the first backoff of a claim that failed";
        "retry-interval-max": Duration(sidecar_retry_max), "its longest backoff";
        "enable-capacity": Switch(enable_capacity), "the driver's capacity is published (CSIStorageCapacity)";
        "capacity-for-immediate-binding": Switch(capacity_for_immediate_binding),
            "it is published also for StorageClasses that bind at once";
        "capacity-poll-interval": Duration(capacity_poll_interval), "how often the driver is asked for its capacity";
        "leader-election-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-election-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-election-retry-period": Duration(sidecar_election_retry), "how often leaders renew, and others look";
    }
    "csi-resizer" {
        "timeout": Duration(resizer_timeout), "the longest call of the driver";
        "workers": Count(workers.resizer), "claims processed at once";
        "retry-interval-start": Duration(sidecar_retry_start), "the first backoff of a claim that failed";
        "retry-interval-max": Duration(sidecar_retry_max), "its longest backoff";
        "leader-election-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-election-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-election-retry-period": Duration(sidecar_election_retry), "how often leaders renew, and others look";
    }
    "snapshot-controller" {
        "worker-threads": Count(workers.snapshots), "objects of a kind processed at once";
        "retry-interval-start": Duration(sidecar_retry_start), "the first backoff of a snapshot or content that failed";
        "retry-interval-max": Duration(sidecar_retry_max), "its longest backoff";
        "resync-period": Duration(snapshot_resync), "how often all snapshots and contents are looked at";
        "CSIVolumeGroupSnapshot": Switch(volume_group_snapshots),
            "groups of snapshots are handled (a feature gate)";
        "leader-election-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-election-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-election-retry-period": Duration(sidecar_election_retry), "how often leaders renew, and others look";
    }
    "csi-snapshotter" {
        "worker-threads": Count(workers.snapshots), "contents processed at once";
        "timeout": Duration(snapshotter_timeout), "the longest call of the driver";
        "retry-interval-start": Duration(sidecar_retry_start), "the first backoff of a content that failed or is not ready";
        "retry-interval-max": Duration(sidecar_retry_max), "its longest backoff";
        "resync-period": Duration(snapshot_resync), "how often all contents are looked at";
        "CSIVolumeGroupSnapshot": Switch(volume_group_snapshots),
            "groups of snapshots are handled (a feature gate)";
        "leader-election-lease-duration": Duration(election_lease), "how long a lease is believed without a renewal";
        "leader-election-renew-deadline": Duration(election_renew_deadline), "how long a leader tries to renew its lease";
        "leader-election-retry-period": Duration(sidecar_election_retry), "how often leaders renew, and others look";
    }
    "kubelet" {
        "node-status-update-frequency": Duration(node_status_update), "how often the node's status is computed";
        "nodeStatusReportFrequency": Duration(node_status_report), "how often a status that has not changed is posted";
        "nodeLeaseDurationSeconds": Duration(lease_duration), "what the node's lease states, in whole seconds";
        "nodeLeaseRenewInterval": Duration(lease_renew), "how often the node's lease is renewed";
        "sync-frequency": Duration(pod_sync), "how often a running pod is looked at again";
        "volume-stats-agg-period": Duration(volume_stats_agg), "how long the statistics of a volume are kept";
        "podAttachAndMountTimeout": Duration(pod_attach_and_mount_timeout), "how long a pod waits for its volumes";
        "reconcilerLoopSleepPeriod": Duration(reconciler_loop), "how often the volume manager compares, at most";
        "csiTimeout": Duration(kubelet_csi_timeout), "the longest call of a driver";
    }
}

/// Sets `name` of `process` in the timers of that process.
///
/// # Errors
/// An unknown process or name, or an invalid value.
pub fn set(timers: &mut Timers, process: &str, name: &str, value: &str) -> Result<(), FlagError> {
    let of_process = || FLAGS.iter().filter(|flag| flag.process == process);
    if of_process().next().is_none() {
        let mut known: Vec<&str> = FLAGS.iter().map(|flag| flag.process).collect();
        known.dedup();
        let message = format!("`{process}` has no flags that can be set; {} have", known.join(", "));
        return Err(FlagError { message, word: process.to_owned(), nearest: nearest(process, known) });
    }
    let Some(flag) = of_process().find(|flag| flag.name == name) else {
        let known: Vec<&str> = of_process().map(|flag| flag.name).collect();
        let message = format!("{process} has no flag `{name}` that can be set; it has {}", known.join(", "));
        return Err(FlagError { message, word: name.to_owned(), nearest: nearest(name, known) });
    };
    let wrong = || FlagError {
        message: format!("{name} of {process} is {}, not `{value}`", flag.values()),
        word: value.to_owned(),
        nearest: None,
    };
    match flag.field {
        Field::Duration(of) => {
            *of(timers) = value.parse::<Span>().ok().filter(|span| !span.0.is_zero()).ok_or_else(wrong)?.0;
        }
        Field::Switch(of) => *of(timers) = value.parse().map_err(|_| wrong())?,
        Field::Rate(of) => {
            *of(timers) = value.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0).ok_or_else(wrong)?;
        }
        Field::Count(of) => *of(timers) = value.parse().ok().filter(|n| (1..=1000).contains(n)).ok_or_else(wrong)?,
    }
    Ok(())
}

/// Parses `PROCESS.NAME=VALUE` and validates the value.
///
/// # Errors
/// The reason why it is invalid.
pub fn parse(text: &str) -> Result<(String, String, String), String> {
    let bad = || format!("`{text}` is not a setting: write PROCESS.NAME=VALUE, as in csi-attacher.timeout=30s");
    let (key, value) = text.split_once('=').ok_or_else(bad)?;
    let (process, name) = key.split_once('.').ok_or_else(bad)?;
    set(&mut Timers::default(), process, name, value).map_err(|error| error.to_string())?;
    Ok((process.to_owned(), name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_there_once_and_sets_what_nothing_else_of_its_process_sets() {
        for (i, flag) in FLAGS.iter().enumerate() {
            let same = |other: &&Flag| other.process == flag.process && other.name == flag.name;
            assert_eq!(FLAGS.iter().filter(same).count(), 1, "{} {}", flag.process, flag.name);
            let value = match flag.field {
                Field::Duration(_) => "77s",
                Field::Switch(of) if *of(&mut Timers::default()) => "false",
                Field::Switch(_) => "true",
                Field::Rate(_) => "7.5",
                Field::Count(_) => "7",
            };
            let mut timers = Timers::default();
            set(&mut timers, flag.process, flag.name, value).unwrap();
            assert_ne!(timers, Timers::default(), "{} {}", flag.process, flag.name);
            for other in FLAGS[i + 1..].iter().filter(|other| other.process == flag.process) {
                let mut others = Timers::default();
                let _ = set(&mut others, other.process, other.name, value);
                assert_ne!(timers, others, "{} and {}", flag.name, other.name);
            }
            // The default as text parses to the default.
            let mut timers = Timers::default();
            set(&mut timers, flag.process, flag.name, &flag.default()).unwrap();
            assert_eq!(timers, Timers::default(), "{}", flag.name);
        }
    }

    #[test]
    fn an_unknown_flag_is_refused_with_the_nearest_word() {
        let refuse = |text: &str| parse(text).unwrap_err();
        assert!(refuse("csi-atacher.timeout=3s").ends_with("did you mean `csi-attacher`?"));
        assert!(refuse("csi-attacher.timout=3s").ends_with("did you mean `timeout`?"));
        assert_eq!(refuse("csi-attacher.timeout=3"), "timeout of csi-attacher is a duration, 250ms or 2m, not `3`");
        assert!(refuse("csi-attacher.timeout=0s").contains("is a duration"));
        assert!(refuse("kube-controller-manager.node-eviction-rate=nan").contains("a number above 0"));
        assert!(refuse("timeout").contains("PROCESS.NAME=VALUE"));
        let (process, name, value) = parse("kubelet.csiTimeout=1m").unwrap();
        assert_eq!((&*process, &*name, &*value), ("kubelet", "csiTimeout", "1m"));
    }
}
