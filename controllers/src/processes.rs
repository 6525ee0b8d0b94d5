//! Processes, their loops, and the names of both.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use substrate::body::HttpService;
use substrate::process::Ctx;

use crate::kube::Client;
use crate::metrics::Metrics;
use crate::timers::Timers;
use crate::{
    attach_detach, attacher, autoscaler, binder, cronjob, daemonset, deployment, disruption, endpoints, endpointslice,
    endpointslicemirroring, ephemeral, expander, garbage_collector, job, node_lifecycle, pod_gc, protection,
    provisioner, replicaset, resizer, scheduler, snapshot, statefulset, taint_eviction, ttl,
};

/// Processes of the control plane that run loops, as upstream deploys them. Each has its own client and caches.
pub const PROCESSES: &[&str] = &[MANAGER, SCHEDULER, ATTACHER, PROVISIONER, RESIZER, SNAPSHOT_CONTROLLER, SNAPSHOTTER];

const MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const ATTACHER: &str = "csi-attacher";
const PROVISIONER: &str = "csi-provisioner";
const RESIZER: &str = "csi-resizer";
/// Name of the loop that binds snapshots, and of its process.
pub const SNAPSHOT_CONTROLLER: &str = "snapshot-controller";
/// Name of the sidecar that takes snapshots. A simulation leaves both out if its scenario has no snapshots.
pub const SNAPSHOTTER: &str = "csi-snapshotter";
/// Name of the garbage collector. It watches every kind, so a simulation leaves it out if its objects have no owners.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// Name of the loop that annotates nodes for their kubelets. A simulation leaves it out, because no loop reads the
/// annotation.
pub const TTL: &str = "ttl-controller";

/// Loops of workloads that few clusters have, each after its kind. A simulation without such an object leaves them out.
pub const RARE_WORKLOADS: &[(&str, &str)] = &[
    ("CronJob", "cronjob-controller"),
    ("ReplicationController", "replicationcontroller-controller"),
    ("Endpoints", "endpoints-controller"),
    ("Endpoints", "endpointslice-mirroring-controller"),
    ("HorizontalPodAutoscaler", "horizontal-pod-autoscaler-controller"),
];

/// Name of the ephemeral volume controller, whose claims the garbage collector deletes.
pub const EPHEMERAL_VOLUME: &str = "ephemeral-volume-controller";

/// Loops of workloads: they create and count pods. A simulation without such objects leaves them out.
pub const WORKLOADS: &[&str] = &[
    "endpointslice-controller",
    "daemonset-controller",
    "job-controller",
    "ttl-after-finished-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "disruption-controller",
];

/// Loops, by the names of their originals.
pub const LOOPS: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = TABLE[i].name;
        i += 1;
    }
    names
};

/// Components that a whole cluster can leave out besides the [`LOOPS`]: the node agent and the driver.
const ON_NODES: [&str; 2] = ["kubelet", "csi-mock"];

/// Loop of a process.
pub(crate) struct Loop {
    /// Its name.
    pub name: &'static str,
    /// Its process.
    pub process: &'static str,
    /// User agent.
    pub agent: Agent,
    /// Start function.
    pub start: Start,
}

/// User agent of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Agent {
    /// Own client besides the shared informers of its process; names this component.
    Of(&'static str),
    /// Only client of its process; names this component.
    Only(&'static str),
    /// Program of a Kubernetes SIG outside Kubernetes itself: only its name.
    Named,
}

/// Start function of a loop.
pub(crate) enum Start {
    /// Needs only the API server.
    Loop(fn(Ctx, Client, Timers, Metrics) -> BoxFuture<'static, ()>),
    /// Needs a driver; starts once the driver answers.
    Sidecar(fn(Ctx, HttpService, Timers) -> BoxFuture<'static, Reached>),
}

/// Sidecar whose driver answered.
pub(crate) struct Reached {
    /// The driver's name.
    pub driver: String,
    /// Runs it forever.
    pub run: Box<dyn FnOnce(Ctx, Client) -> BoxFuture<'static, ()> + Send>,
}

const fn managed(
    name: &'static str,
    component: &'static str,
    run: fn(Ctx, Client, Timers, Metrics) -> BoxFuture<'static, ()>,
) -> Loop {
    Loop { name, process: MANAGER, agent: Agent::Of(component), start: Start::Loop(run) }
}

const fn sidecar(name: &'static str, connect: fn(Ctx, HttpService, Timers) -> BoxFuture<'static, Reached>) -> Loop {
    Loop { name, process: name, agent: Agent::Named, start: Start::Sidecar(connect) }
}

/// All loops, in their start order. Static, because a constant would be compiled with all loops into every crate that
/// uses it.
pub(crate) static TABLE: [Loop; 31] = [
    managed("persistentvolume-binder-controller", "persistent-volume-binder", |ctx, client, timers, _| {
        binder::run(ctx, client, timers).boxed()
    }),
    managed("persistentvolumeclaim-protection-controller", "pvc-protection-controller", |ctx, client, _, _| {
        protection::claim::run(ctx, client).boxed()
    }),
    managed("persistentvolume-protection-controller", "pv-protection-controller", |ctx, client, _, _| {
        protection::volume::run(ctx, client).boxed()
    }),
    managed(
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        |ctx, client, _, _| protection::attributes_class::run(ctx, client).boxed(),
    ),
    managed(EPHEMERAL_VOLUME, EPHEMERAL_VOLUME, |ctx, client, timers, _| {
        ephemeral::run(ctx, client, timers.workers.ephemeral_volumes).boxed()
    }),
    managed("persistentvolume-attach-detach-controller", "attachdetach-controller", |ctx, client, timers, metrics| {
        attach_detach::run(ctx, client, timers, metrics).boxed()
    }),
    managed("persistentvolume-expander-controller", "expand-controller", |ctx, client, _, _| {
        expander::run(ctx, client).boxed()
    }),
    managed("node-lifecycle-controller", "node-controller", |ctx, client, timers, _| {
        node_lifecycle::run(ctx, client, timers).boxed()
    }),
    managed("taint-eviction-controller", "node-controller", |ctx, client, _, _| {
        taint_eviction::run(ctx, client).boxed()
    }),
    managed("pod-garbage-collector-controller", "pod-garbage-collector", |ctx, client, timers, _| {
        pod_gc::run(ctx, client, timers).boxed()
    }),
    managed(TTL, TTL, |ctx, client, _, _| ttl::run(ctx, client).boxed()),
    managed(GARBAGE_COLLECTOR, "generic-garbage-collector", |ctx, client, timers, _| {
        garbage_collector::run(ctx, client, timers.workers.garbage).boxed()
    }),
    managed("endpointslice-controller", "endpointslice-controller", |ctx, client, timers, _| {
        endpointslice::run(ctx, client, timers.workers.endpoint_slices).boxed()
    }),
    managed("endpoints-controller", "endpoint-controller", |ctx, client, timers, _| {
        endpoints::run(ctx, client, timers.workers.endpoints).boxed()
    }),
    managed("endpointslice-mirroring-controller", "endpointslicemirroring-controller", |ctx, client, timers, _| {
        endpointslicemirroring::run(ctx, client, timers.workers.mirrored_endpoints).boxed()
    }),
    managed("daemonset-controller", "daemon-set-controller", |ctx, client, timers, _| {
        daemonset::run(ctx, client, timers.workers.daemon_sets).boxed()
    }),
    managed("job-controller", "job-controller", |ctx, client, timers, _| {
        job::run(ctx, client, timers.workers.jobs).boxed()
    }),
    managed("ttl-after-finished-controller", "ttl-after-finished-controller", |ctx, client, timers, _| {
        job::run_ttl(ctx, client, timers.workers.finished_jobs).boxed()
    }),
    managed("deployment-controller", "deployment-controller", |ctx, client, timers, _| {
        deployment::run(ctx, client, timers.workers.deployments).boxed()
    }),
    managed("replicaset-controller", "replicaset-controller", |ctx, client, timers, _| {
        replicaset::run(ctx, client, timers.workers.replica_sets).boxed()
    }),
    managed("cronjob-controller", "cronjob-controller", |ctx, client, timers, _| {
        cronjob::run(ctx, client, timers.workers.cron_jobs).boxed()
    }),
    managed("replicationcontroller-controller", "replication-controller", |ctx, client, timers, _| {
        replicaset::run_controllers(ctx, client, timers.workers.replication_controllers).boxed()
    }),
    managed("statefulset-controller", "statefulset-controller", |ctx, client, timers, _| {
        statefulset::run(ctx, client, timers.workers.stateful_sets).boxed()
    }),
    managed("disruption-controller", "disruption-controller", |ctx, client, _, _| disruption::run(ctx, client).boxed()),
    managed("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler", |ctx, client, timers, _| {
        autoscaler::run(ctx, client, timers.workers.autoscalers).boxed()
    }),
    Loop {
        name: "kube-scheduler",
        process: SCHEDULER,
        agent: Agent::Only("scheduler"),
        start: Start::Loop(|ctx, client, timers, _| {
            scheduler::run(ctx, client, scheduler::Config::new(timers)).boxed()
        }),
    },
    sidecar(ATTACHER, |ctx, csi, timers| {
        async move {
            let reached = attacher::Reached::connect(&ctx, csi, &timers).await;
            let driver = reached.driver().to_owned();
            let run = Box::new(move |ctx, client| attacher::run(ctx, client, reached, timers).boxed());
            Reached { driver, run }
        }
        .boxed()
    }),
    sidecar(PROVISIONER, |ctx, csi, timers| {
        async move {
            let reached = provisioner::Reached::connect(&ctx, provisioner::Config::new(csi, timers)).await;
            let driver = reached.driver().to_owned();
            Reached { driver, run: Box::new(move |ctx, client| provisioner::run(ctx, client, reached).boxed()) }
        }
        .boxed()
    }),
    sidecar(RESIZER, |ctx, csi, timers| {
        async move {
            let reached = resizer::Reached::connect(&ctx, csi, &timers).await;
            let driver = reached.driver().to_owned();
            let run = Box::new(move |ctx, client| resizer::run(ctx, client, reached, timers).boxed());
            Reached { driver, run }
        }
        .boxed()
    }),
    Loop {
        name: SNAPSHOT_CONTROLLER,
        process: SNAPSHOT_CONTROLLER,
        agent: Agent::Named,
        start: Start::Loop(|ctx, client, timers, _| snapshot::controller::run(ctx, client, timers).boxed()),
    },
    sidecar(SNAPSHOTTER, |ctx, csi, timers| {
        async move {
            let reached = snapshot::sidecar::Reached::connect(&ctx, csi, &timers).await;
            let driver = reached.driver().to_owned();
            let run = Box::new(move |ctx, client| snapshot::sidecar::run(ctx, client, reached, timers).boxed());
            Reached { driver, run }
        }
        .boxed()
    }),
];

/// Returns the loops of a process that are not left out.
pub(crate) fn loops_of<'a>(
    process: &'a str,
    without: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'static Loop> + 'a {
    TABLE.iter().filter(move |one| one.process == process && !without.contains(one.name))
}

/// Returns true if a loop of `process` remains without the loops `without`. Returns false for a name outside
/// [`PROCESSES`].
pub fn runs(process: &str, without: &BTreeSet<String>) -> bool {
    loops_of(process, without).next().is_some()
}

/// Returns true if `process` calls the driver's controller service.
pub fn needs_driver(process: &str) -> bool {
    TABLE.iter().any(|one| one.process == process && matches!(one.start, Start::Sidecar(_)))
}

/// Resolves the names of `--without` for a whole cluster: those of [`LOOPS`], `kubelet`, `csi-mock`, and
/// `kube-controller-manager` for all of its loops.
///
/// # Errors
/// The unknown name.
pub fn left_out<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<String>, String> {
    left_out_of(&names.into_iter().collect::<Vec<_>>())
}

fn left_out_of(names: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut out = BTreeSet::new();
    for &name in names {
        if name == MANAGER {
            out.extend(loops_of(MANAGER, &BTreeSet::new()).map(|one| one.name.to_owned()));
        } else if LOOPS.contains(&name) || ON_NODES.contains(&name) {
            out.insert(name.to_owned());
        } else {
            let all = can_be_left_out();
            let near = substrate::words::nearest(name, all.iter().copied());
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            return Err(format!("{name}: no such component; {near}there are {}", all.join(", ")));
        }
    }
    Ok(out)
}

/// Returns every name that [`left_out`] accepts.
pub fn can_be_left_out() -> Vec<&'static str> {
    LOOPS.iter().copied().chain(ON_NODES).chain([MANAGER]).collect()
}

/// Returns true if Mooring runs no loop of kube-controller-manager.
pub fn manager_is_left_out(without: &BTreeSet<String>) -> bool {
    !runs(MANAGER, without)
}

/// Returns the user agent of a Kubernetes component, as client-go builds it.
pub fn agent(binary: &str, component: &str) -> String {
    let slash = if component.is_empty() { "" } else { "/" };
    format!("{binary}/v1.36.2 (linux/amd64) kubernetes/mooring{slash}{component}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_manager_as_a_name_means_all_its_loops() {
        let out = left_out(["kube-controller-manager", "csi-attacher"]).unwrap();
        assert!(out.contains("persistentvolume-binder-controller") && out.contains("pod-garbage-collector-controller"));
        assert!(!out.contains("kube-scheduler") && !out.contains("csi-provisioner") && out.contains("csi-attacher"));
        assert_eq!(out.len(), 18 + WORKLOADS.len());
        assert!(manager_is_left_out(&out) && !runs("csi-attacher", &out) && runs("kube-scheduler", &out));
        assert!(left_out(["kube-schedler"]).unwrap_err().contains("did you mean `kube-scheduler`?"));
    }

    #[test]
    fn every_loop_is_in_a_process_and_every_process_has_a_loop() {
        let nothing = BTreeSet::new();
        assert!(TABLE.iter().all(|one| PROCESSES.contains(&one.process)));
        assert!(PROCESSES.iter().all(|process| runs(process, &nothing)));
        assert!(!runs("controllers", &nothing), "a name for all of them is none of them");
        let beside: Vec<&str> = PROCESSES.iter().copied().filter(|process| needs_driver(process)).collect();
        assert_eq!(beside, ["csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter"]);
        let mut all: Vec<&str> = PROCESSES.iter().flat_map(|p| loops_of(p, &nothing)).map(|one| one.name).collect();
        all.sort_unstable();
        let mut names = LOOPS.to_vec();
        names.sort_unstable();
        assert_eq!(all, names);
    }
}
