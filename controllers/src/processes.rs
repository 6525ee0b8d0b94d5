//! Which processes there are, which loops are in which, and what each is called.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use substrate::body::HttpService;
use substrate::process::Ctx;

use crate::kube::Client;
use crate::metrics::Metrics;
use crate::timers::Timers;
use crate::{
    attach_detach, attacher, binder, expander, garbage_collector, node_lifecycle, pod_gc, protection, provisioner,
    resizer, scheduler, taint_eviction,
};

/// The processes of the control plane that run loops, as upstream deploys them: each has a client and caches of its own.
pub const PROCESSES: &[&str] = &[MANAGER, SCHEDULER, ATTACHER, PROVISIONER, RESIZER];

const MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const ATTACHER: &str = "csi-attacher";
const PROVISIONER: &str = "csi-provisioner";
const RESIZER: &str = "csi-resizer";
/// The garbage collector. It watches every kind, so a simulation leaves it out if its objects have no owners.
pub const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// The loops, by the names of their originals.
pub const LOOPS: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = TABLE[i].name;
        i += 1;
    }
    names
};

/// What a whole cluster can leave out besides the [`LOOPS`]: the node agent and the driver.
const ON_NODES: [&str; 2] = ["kubelet", "csi-mock"];

/// A loop of a process.
pub(crate) struct Loop {
    /// Its name.
    pub name: &'static str,
    /// The process that it is in.
    pub process: &'static str,
    /// How it calls itself to the API server.
    pub agent: Agent,
    /// How it is started.
    pub start: Start,
}

/// The user agent of a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Agent {
    /// A client of its own beside its process' shared informers, with this component.
    Of(&'static str),
    /// The only client of its process, with this component.
    Only(&'static str),
    /// A sidecar's: its name and nothing else.
    Sidecar,
}

/// How a loop is started.
pub(crate) enum Start {
    /// With the API server alone.
    Loop(fn(Ctx, Client, Timers, Metrics) -> BoxFuture<'static, ()>),
    /// Beside a driver, once that answers.
    Sidecar(fn(Ctx, HttpService, Timers) -> BoxFuture<'static, Reached>),
}

/// A sidecar that has reached its driver.
pub(crate) struct Reached {
    /// The driver's name.
    pub driver: String,
    /// Runs it for ever.
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
    Loop { name, process: name, agent: Agent::Sidecar, start: Start::Sidecar(connect) }
}

/// All loops, in the order in which they start. They are static: a constant would be compiled with all its loops into
/// every crate that looks at it.
pub(crate) static TABLE: [Loop; 14] = [
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
    managed(GARBAGE_COLLECTOR, "generic-garbage-collector", |ctx, client, _, _| {
        garbage_collector::run(ctx, client).boxed()
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
];

/// The loops of a process that are not left out.
pub(crate) fn loops_of<'a>(
    process: &'a str,
    without: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'static Loop> + 'a {
    TABLE.iter().filter(move |one| one.process == process && !without.contains(one.name))
}

/// Whether anything is left to run in `process` without the loops `without`; false for what is none of [`PROCESSES`].
pub fn runs(process: &str, without: &BTreeSet<String>) -> bool {
    loops_of(process, without).next().is_some()
}

/// Whether `process` talks to the driver's controller service.
pub fn needs_driver(process: &str) -> bool {
    TABLE.iter().any(|one| one.process == process && matches!(one.start, Start::Sidecar(_)))
}

/// What `--without` leaves out of a whole cluster: names of [`LOOPS`], `kubelet`, `csi-mock`, and
/// `kube-controller-manager` for all of its loops.
///
/// # Errors
/// The name that is none.
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

/// Every name that [`left_out`] takes.
pub fn can_be_left_out() -> Vec<&'static str> {
    LOOPS.iter().copied().chain(ON_NODES).chain([MANAGER]).collect()
}

/// Whether none of kube-controller-manager's loops are ours.
pub fn manager_is_left_out(without: &BTreeSet<String>) -> bool {
    !runs(MANAGER, without)
}

/// The user agent of a component of Kubernetes, as client-go builds it.
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
        assert_eq!(out.len(), 11);
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
        assert_eq!(beside, ["csi-attacher", "csi-provisioner", "csi-resizer"]);
        let mut all: Vec<&str> = PROCESSES.iter().flat_map(|p| loops_of(p, &nothing)).map(|one| one.name).collect();
        all.sort_unstable();
        let mut names = LOOPS.to_vec();
        names.sort_unstable();
        assert_eq!(all, names);
    }
}
