//! Number of objects that a loop processes at once, with upstream's defaults.

/// Numbers of workers by loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// VolumeAttachments and volumes of external-attacher, each (`--worker-threads`): 10.
    pub attacher: usize,
    /// Claims and volumes of external-provisioner, each (`--worker-threads`): 100.
    pub provisioner: usize,
    /// Claims whose clones external-provisioner looks at (`--cloning-protection-threads`): 1.
    pub cloning_protection: usize,
    /// Capacities that external-provisioner asks for (`--capacity-threads`): 1.
    pub capacity: usize,
    /// Claims of external-resizer (`--workers`): 10.
    pub resizer: usize,
    /// Objects of each kind of the two snapshot loops (`--worker-threads`): 10.
    pub snapshots: usize,
    /// Deployments (`--concurrent-deployment-syncs`): 5.
    pub deployments: usize,
    /// ReplicaSets (`--concurrent-replicaset-syncs`): 5.
    pub replica_sets: usize,
    /// ReplicationControllers (`--concurrent-rc-syncs`): 5.
    pub replication_controllers: usize,
    /// StatefulSets (`--concurrent-statefulset-syncs`): 5.
    pub stateful_sets: usize,
    /// DaemonSets (`--concurrent-daemonset-syncs`): 2.
    pub daemon_sets: usize,
    /// Jobs (`--concurrent-job-syncs`): 5.
    pub jobs: usize,
    /// CronJobs (`--concurrent-cron-job-syncs`): 5.
    pub cron_jobs: usize,
    /// Jobs of the TTL controller (`--concurrent-ttl-after-finished-syncs`): 5.
    pub finished_jobs: usize,
    /// Pods with ephemeral volumes (`--concurrent-ephemeralvolume-syncs`): 5.
    pub ephemeral_volumes: usize,
    /// Objects that the garbage collector deletes or releases, each (`--concurrent-gc-syncs`): 20.
    pub garbage: usize,
    /// Services of the EndpointSlice controller (`--concurrent-service-endpoint-syncs`): 5.
    pub endpoint_slices: usize,
    /// Services of the Endpoints controller (`--concurrent-endpoint-syncs`): 5.
    pub endpoints: usize,
    /// Endpoints objects of the mirroring controller (`--mirroring-concurrent-service-endpoint-syncs`): 5.
    pub mirrored_endpoints: usize,
    /// Autoscalers (`--concurrent-horizontal-pod-autoscaler-syncs`): 5.
    pub autoscalers: usize,
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            attacher: 10,
            provisioner: 100,
            cloning_protection: 1,
            capacity: 1,
            resizer: 10,
            snapshots: 10,
            deployments: 5,
            replica_sets: 5,
            replication_controllers: 5,
            stateful_sets: 5,
            daemon_sets: 2,
            jobs: 5,
            cron_jobs: 5,
            finished_jobs: 5,
            ephemeral_volumes: 5,
            garbage: 20,
            endpoint_slices: 5,
            endpoints: 5,
            mirrored_endpoints: 5,
            autoscalers: 5,
        }
    }
}
