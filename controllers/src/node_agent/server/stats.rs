//! Statistics of volumes at kubelet's server (upstream `pkg/kubelet/server/stats`). The drivers are asked when the
//! statistics are read.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use substrate::Ctx;
use tokio::sync::oneshot;

use super::context::ServerContext;
use super::resource_metrics;
use super::summary;
use super::volume_stats::{self, Claim, Figures, Measured, PodVolume};
use crate::machine::api::{ContainerState, PodRecord, State};
use crate::metrics::Metrics;
use crate::node_agent::volumes::populate;

/// Longest wait of a reader for the drivers. Then the reader gets the former answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// The agent of a process, for the server of the process.
#[derive(Default)]
struct Served(OnceLock<Weak<ServerContext>>);

/// Lets the server of the process read the statistics of its agent.
pub(crate) fn serve(room: &Arc<ServerContext>) {
    // A process runs one agent.
    let _ = room.ctx.shared::<Served>().0.set(Arc::downgrade(room));
}

fn served(ctx: &Ctx) -> Option<Arc<ServerContext>> {
    let served = ctx.shared::<Served>();
    served.0.get().and_then(Weak::upgrade)
}

/// Updates the metrics of volumes.
pub(crate) async fn show_metrics(ctx: &Ctx) {
    let Some(room) = served(ctx) else { return };
    let mut of_claims: Vec<(Claim, Figures)> = Vec::new();
    for (volume, measured) in measured(&room, &running(&room)).await {
        if let Some(claim) = volume.claim {
            of_claims.push((claim, measured.figures));
        }
    }
    volume_stats::show(&Metrics::of(ctx), &of_claims);
}

/// Returns the body of `/stats/summary`; None before the agent runs. With `only_cpu_and_memory` it has no volumes.
pub(crate) async fn summary(ctx: &Ctx, only_cpu_and_memory: bool) -> Option<String> {
    let room = served(ctx)?;
    let pods = running(&room);
    let volumes = if only_cpu_and_memory { Vec::new() } else { measured(&room, &pods).await };
    Some(summary::text(&room.config.node_name, &pods, &volumes))
}

/// Returns the body of `/metrics/resource`; None before the agent runs.
pub(crate) fn resources(ctx: &Ctx) -> Option<String> {
    served(ctx).map(|room| resource_metrics::text(&running(&room)))
}

/// Returns the volumes of these pods about which the drivers have answered.
async fn measured(room: &Arc<ServerContext>, pods: &[PodRecord]) -> Vec<(PodVolume, Measured)> {
    let volumes = mounted(room, pods);
    refresh(room, &volumes).await;
    let stats = room.volume_stats.lock();
    volumes.into_iter().filter_map(|volume| stats.get(&volume).map(|answer| (volume, answer))).collect()
}

/// Returns the pods with a running container: only they have statistics (`ListPodStats`).
fn running(room: &ServerContext) -> Vec<PodRecord> {
    let mut records = room.runtime.list();
    records.retain(is_running);
    records
}

fn is_running(record: &PodRecord) -> bool {
    let has_running = record.containers.iter().any(|one| matches!(one.state, ContainerState::Running { .. }));
    matches!(record.state, State::Running { .. }) && has_running
}

/// Returns the volumes that are mounted for these pods (`ListVolumesForPod`, `ListBlockVolumesForPod`).
fn mounted(room: &ServerContext, pods: &[PodRecord]) -> Vec<PodVolume> {
    let mut volumes = Vec::new();
    for record in pods {
        let pod = room.pods.lock().get(&record.uid);
        if let Some(pod) = pod {
            volumes.extend(mounted_for(room, &record.uid, &pod));
        }
    }
    volumes
}

fn mounted_for(room: &ServerContext, uid: &str, pod: &Pod) -> Vec<PodVolume> {
    let uses = populate::claims(pod);
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let mounted = room.volumes.lock().mounted(uid);
    let mut volumes = Vec::new();
    for (name, spec) in mounted {
        let found = uses.iter().find(|one| one.volume == name);
        let claim = found.map(|one| Claim { namespace: namespace.clone(), name: one.claim.clone() });
        volumes.push(PodVolume { uid: uid.to_owned(), name, claim, spec });
    }
    volumes
}

/// Asks the drivers about the volumes whose answers are old, and waits for them.
async fn refresh(room: &Arc<ServerContext>, volumes: &[PodVolume]) {
    let period = room.ctx.scaled(room.config.timers.volume_stats_agg);
    let due = room.volume_stats.lock().due(room.ctx.now().mono, period, volumes);
    if due.is_empty() {
        return;
    }
    let (answered, all) = oneshot::channel();
    let asker = room.clone();
    // The calls go on after a reader has given up.
    room.ctx.spawn(async move {
        join_all(due.into_iter().map(|volume| measure(asker.clone(), volume))).await;
        let _ = answered.send(());
    });
    let _ = tokio::time::timeout(room.ctx.scaled_timeout(PATIENCE), all).await;
}

async fn measure(room: Arc<ServerContext>, volume: PodVolume) {
    let at = room.ctx.now().wall;
    let figures = ask(&room, &volume).await;
    room.volume_stats.lock().store(&volume, figures.map(|figures| Measured { figures, at }));
}

/// Asks the driver of a volume (`metricsCsi.GetMetrics`). Upstream writes an error to its log only.
async fn ask(room: &ServerContext, volume: &PodVolume) -> Option<Figures> {
    let spec = &volume.spec;
    let known = room.drivers.lock().get(&spec.driver).cloned();
    let driver = known.filter(|driver| driver.volume_stats)?;
    let path = if spec.block {
        room.paths.global_map_path(&volume.uid, &spec.pv)
    } else {
        room.paths.target_of(&volume.uid, spec)
    };
    let answer = driver.stats(&spec.handle, &path).await.ok()?;
    Figures::read(&answer, driver.volume_condition)
}
