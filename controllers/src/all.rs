//! All loops in one process: kube-controller-manager's, the scheduler, the sidecars.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use substrate::body::HttpService;
use substrate::process::Ctx;

use crate::kube::Client;
use crate::timers::Timers;
use crate::{
    attach_detach, attacher, binder, node_lifecycle, pod_gc, protection, provisioner, resizer, scheduler,
    taint_eviction,
};

/// The loops, by the names of their originals.
pub const LOOPS: &[&str] = &[
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "volumeattributesclass-protection-controller",
    "persistentvolume-attach-detach-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "kube-scheduler",
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
];

/// What a whole cluster can leave out: the loops, the node agent and the driver.
const COMPONENTS: &[&str] = &[
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "volumeattributesclass-protection-controller",
    "persistentvolume-attach-detach-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "kube-scheduler",
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "kubelet",
    "csi-mock",
];

/// The binary whose controllers are the first of the [`LOOPS`]; as a name it stands for all of them.
const MANAGER: &str = "kube-controller-manager";
const CONTROLLERS: usize = 8;

/// The names that `--without` takes for a whole cluster: the [`LOOPS`], `kubelet`, `csi-mock`, and
/// `kube-controller-manager` for all of its loops.
fn component_names() -> Vec<&'static str> {
    COMPONENTS.iter().copied().chain([MANAGER]).collect()
}

/// What `--without` leaves out.
///
/// # Errors
/// The name that is none.
pub fn left_out<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<String>, String> {
    let mut out = BTreeSet::new();
    for name in names {
        if name == MANAGER {
            out.extend(LOOPS[..CONTROLLERS].iter().map(|name| (*name).to_owned()));
        } else if COMPONENTS.contains(&name) {
            out.insert(name.to_owned());
        } else {
            return Err(format!("{name}: no such component; there are {}", component_names().join(", ")));
        }
    }
    Ok(out)
}

/// Whether none of kube-controller-manager's loops are ours.
pub fn manager_is_left_out(without: &BTreeSet<String>) -> bool {
    LOOPS[..CONTROLLERS].iter().all(|name| without.contains(*name))
}

/// The user agent of a component of Kubernetes, as client-go builds it.
pub fn agent(binary: &str, component: &str) -> String {
    let slash = if component.is_empty() { "" } else { "/" };
    format!("{binary}/v1.36.2 (linux/amd64) kubernetes/mooring{slash}{component}")
}

/// Runs all loops but those in `without` (names of [`LOOPS`]; others are ignored) until the process ends.
///
/// `apiserver` is the API server, `csi` the driver's controller socket. Each loop has its original's user agent;
/// kube-controller-manager's loops share their informers.
///
/// The future is boxed here, so that the loops are compiled once and as this crate is optimised, not in each caller.
pub fn run_all(
    ctx: Ctx,
    apiserver: HttpService,
    csi: HttpService,
    without: &BTreeSet<String>,
    timers: Timers,
) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        start_all(&ctx, apiserver, &csi, without, &timers);
        std::future::pending().await
    })
}

fn start_all(ctx: &Ctx, apiserver: HttpService, csi: &HttpService, without: &BTreeSet<String>, timers: &Timers) {
    let manager = Client::new(ctx, apiserver, &agent("kube-controller-manager", "shared-informers"));
    let own = |name: &str| manager.named(&agent("kube-controller-manager", name));
    let alone = |binary: &str| manager.beside(binary);
    for &name in LOOPS {
        if without.contains(name) {
            continue;
        }
        let (ctx, timers) = (ctx.clone(), timers.clone());
        match name {
            "persistentvolume-binder-controller" => {
                let client = own("persistent-volume-binder");
                ctx.clone().spawn(binder::run(ctx, client, timers));
            }
            "persistentvolumeclaim-protection-controller" => {
                let client = own("pvc-protection-controller");
                ctx.clone().spawn(protection::claim::run(ctx, client));
            }
            "persistentvolume-protection-controller" => {
                let client = own("pv-protection-controller");
                ctx.clone().spawn(protection::volume::run(ctx, client));
            }
            "volumeattributesclass-protection-controller" => {
                let client = own("volumeattributesclass-protection-controller");
                ctx.clone().spawn(protection::attributes_class::run(ctx, client));
            }
            "persistentvolume-attach-detach-controller" => {
                let client = own("attachdetach-controller");
                ctx.clone().spawn(attach_detach::run(ctx, client, timers));
            }
            "node-lifecycle-controller" => {
                let client = own("node-controller");
                ctx.clone().spawn(node_lifecycle::run(ctx, client, timers));
            }
            "taint-eviction-controller" => {
                let client = own("node-controller");
                ctx.clone().spawn(taint_eviction::run(ctx, client));
            }
            "pod-garbage-collector-controller" => {
                let client = own("pod-garbage-collector");
                ctx.clone().spawn(pod_gc::run(ctx, client, timers));
            }
            "kube-scheduler" => {
                let client = alone(&agent("kube-scheduler", "scheduler"));
                ctx.clone().spawn(scheduler::run(ctx, client, scheduler::Config::new(timers)));
            }
            "csi-attacher" => {
                let client = alone("csi-attacher");
                ctx.clone().spawn(attacher::run(ctx, client, csi.clone(), timers));
            }
            "csi-provisioner" => {
                let client = alone("csi-provisioner");
                let config = provisioner::Config::new(csi.clone(), timers);
                ctx.clone().spawn(provisioner::run(ctx, client, config));
            }
            "csi-resizer" => {
                let client = alone("csi-resizer");
                ctx.clone().spawn(resizer::run(ctx, client, csi.clone(), timers));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_manager_as_a_name_means_all_its_loops() {
        let out = left_out(["kube-controller-manager", "csi-attacher"]).unwrap();
        assert!(out.contains("persistentvolume-binder-controller") && out.contains("pod-garbage-collector-controller"));
        assert!(!out.contains("kube-scheduler") && !out.contains("csi-provisioner") && out.contains("csi-attacher"));
        assert_eq!(out.len(), CONTROLLERS + 1);
        assert!(left_out(["kube-schedler"]).unwrap_err().contains("kube-scheduler"));
    }
}
