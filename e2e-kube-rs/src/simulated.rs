//! kube-rs as a process of a simulated cluster: its client, watcher and controller in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::StreamExt;
use harness::prelude::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::json;

/// State shared by reconciles.
struct State {
    client: Client,
    reconciled: Arc<AtomicU64>,
}

/// Marks each ConfigMap as seen, and requeues it after five minutes.
async fn reconcile(map: Arc<ConfigMap>, state: Arc<State>) -> kube::Result<Action> {
    let maps: Api<ConfigMap> = Api::default_namespaced(state.client.clone());
    let seen = Patch::Merge(json!({"data": {"seen": "yes"}}));
    maps.patch(&map.name_any(), &PatchParams::default(), &seen).await?;
    state.reconciled.fetch_add(1, Ordering::Relaxed);
    Ok(Action::requeue(Duration::from_secs(300)))
}

/// Runs the user's controller.
async fn keep(ctx: Ctx, reconciled: Arc<AtomicU64>) {
    let client = Client::new(ctx.kubernetes(), "default");
    let state = Arc::new(State { client: client.clone(), reconciled });
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let config = watcher::Config::default().labels("keep=true");
    Controller::new(maps, config)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(10)), state)
        .for_each(|_| std::future::ready(()))
        .await;
}

pub fn a_controller_runs_crashes_and_is_broken_in_virtual_time() -> Result<()> {
    let cluster = Cluster::simulated().start()?;
    let reconciled = Arc::<AtomicU64>::default();
    let counts = reconciled.clone();
    cluster.spawn("keeper", move |ctx| keep(ctx, counts.clone()))?;
    let broken = cluster.inject(fault::k8s("patch").matching("caller", "keeper").first(2).error("InternalError"))?;
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {keep: 'true'}}}")?;
    cluster.wait_for("cm/one", "has(self.data) && self.data.seen == 'yes'")?;
    ensure!(broken.hits() == 2, "it was broken {} times", broken.hits());
    // An hour of requeues.
    cluster.advance(Duration::from_secs(3_600))?;
    let before = reconciled.load(Ordering::Relaxed);
    ensure!((12..=16).contains(&before), "reconciled {before} times in an hour");
    cluster.crash("keeper")?;
    cluster.advance(Duration::from_secs(3_600))?;
    ensure!(reconciled.load(Ordering::Relaxed) == before, "it ran on after its crash");
    cluster.restart("keeper")?;
    cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: two, labels: {keep: 'true'}}}")?;
    cluster.wait_for("cm/two", "has(self.data) && self.data.seen == 'yes'")?;
    Ok(())
}
