//! The ReplicaSet controller (`replicaset-controller`, `pkg/controller/replicaset`): keeps a number of equal pods. It
//! also handles ReplicationControllers (`replicationcontroller-controller`, `pkg/controller/replication`).

mod async_loop;
mod manage;
mod replicating;
mod status;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use substrate::process::Ctx;

use crate::kube::Client;

/// Runs the loop for ReplicaSets forever.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    async_loop::run::<ReplicaSet>(ctx, client, workers).await;
}

/// Runs the loop for ReplicationControllers forever.
pub(crate) async fn run_controllers(ctx: Ctx, client: Client, workers: usize) {
    async_loop::run::<ReplicationController>(ctx, client, workers).await;
}
