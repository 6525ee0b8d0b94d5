//! Informers of the scheduler.

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use substrate::mutant;
use substrate::process::Ctx;

use crate::kube::{Client, Informer, ListParams};

/// Selector without finished pods.
const PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Caches of all kinds that the scheduler reads.
pub(super) struct Sources {
    pub(super) pods: Informer<Pod>,
    pub(super) nodes: Informer<Node>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) classes: Informer<StorageClass>,
    pub(super) csi_nodes: Informer<CSINode>,
    pub(super) drivers: Informer<CSIDriver>,
    pub(super) attachments: Informer<VolumeAttachment>,
    pub(super) capacities: Informer<CSIStorageCapacity>,
    pub(super) budgets: Informer<PodDisruptionBudget>,
    pub(super) namespaces: Informer<Namespace>,
    pub(super) services: Informer<Service>,
    pub(super) replica_sets: Informer<ReplicaSet>,
    pub(super) stateful_sets: Informer<StatefulSet>,
}

impl Sources {
    /// Starts the caches, or shares those of `client`.
    pub(super) fn start(ctx: &Ctx, client: &Client) -> Self {
        let counts_finished = mutant!(ctx, "finished-pods-keep-room");
        let pods = if counts_finished { ListParams::default() } else { ListParams::fields(PODS) };
        Self {
            pods: Informer::start(ctx, client.all(), pods),
            nodes: Informer::start(ctx, client.all(), ListParams::default()),
            claims: Informer::start(ctx, client.all(), ListParams::default()),
            volumes: Informer::start(ctx, client.all(), ListParams::default()),
            classes: Informer::start(ctx, client.all(), ListParams::default()),
            csi_nodes: Informer::start(ctx, client.all(), ListParams::default()),
            drivers: Informer::start(ctx, client.all(), ListParams::default()),
            attachments: Informer::start(ctx, client.all(), ListParams::default()),
            capacities: Informer::start(ctx, client.all(), ListParams::default()),
            budgets: Informer::start(ctx, client.all(), ListParams::default()),
            namespaces: Informer::start(ctx, client.all(), ListParams::default()),
            services: Informer::start(ctx, client.all(), ListParams::default()),
            replica_sets: Informer::start(ctx, client.all(), ListParams::default()),
            stateful_sets: Informer::start(ctx, client.all(), ListParams::default()),
        }
    }

    /// Waits for the first list of each.
    pub(super) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        self.csi_nodes.synced().await;
        self.drivers.synced().await;
        self.attachments.synced().await;
        self.capacities.synced().await;
        self.budgets.synced().await;
        self.namespaces.synced().await;
        self.services.synced().await;
        self.replica_sets.synced().await;
        self.stateful_sets.synced().await;
    }
}
