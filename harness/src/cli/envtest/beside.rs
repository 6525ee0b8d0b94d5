//! Additions to the API server for `MOORING_ENVTEST`: control loops, or a whole cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controllers::{LOOPS, LoopsConfig};
use fake_apiserver::envtest::{Beside, Front};
use substrate::body::HttpService;
use substrate::host::{Signals, Stop};
use substrate::link::Link;
use substrate::world::Options;
use substrate::{Process, World};

use crate::cluster::defaults;
use crate::cluster::{Cluster, ClusterSpec, NodeSpec, live};
use crate::spec::cluster::node_name;

/// Process of the loops.
const MANAGER: &str = "kube-controller-manager";
/// Loops of `MOORING_ENVTEST=controllers`. The API server itself deletes namespaces.
const CONTROLLERS: [&str; 1] = [controllers::GARBAGE_COLLECTOR];
/// Number of nodes of `MOORING_ENVTEST=cluster`.
const NODES: usize = 3;

pub(in crate::cli) const BESIDE: Beside = Beside { controllers: start_controllers, cluster: run_cluster };

/// Starts the loops of `MOORING_ENVTEST=controllers`.
fn start_controllers(world: &World, apiserver: HttpService) {
    let without: BTreeSet<String> =
        LOOPS.iter().filter(|name| !CONTROLLERS.contains(name)).map(ToString::to_string).collect();
    let _ = Process::start(world, MANAGER, move |ctx| {
        let apiserver = Link::over(&ctx, "kube-apiserver", apiserver.clone());
        let config = LoopsConfig { without: without.clone(), ..LoopsConfig::default() };
        async move { controllers::run(ctx, MANAGER, apiserver, None, config).await }
    });
}

/// Serves a cluster with nodes, volumes and all loops through `front`.
fn run_cluster(front: Front) -> Result<(), String> {
    // Before the directory of the cluster exists: a signal must not leave it behind.
    let signals = Signals::install().map_err(|error| format!("cannot install the signal handlers: {error}"))?;
    // Before any thread starts.
    let site = live::Site::prepare(None, None).map_err(|error| error.to_string())?;
    let runtime = live::runtime().map_err(|error| error.to_string())?;
    let served = crate::block_on(
        &runtime,
        Box::pin(async {
            let mut stop = Stop::of(signals);
            let world = World::live(Options { seed: front.seed, watchdog: None, ..Options::default() });
            let mut spec = ClusterSpec { mirrors: true, ..ClusterSpec::default() };
            let zone = spec.zones.first().cloned().unwrap_or_default();
            let node = |i| NodeSpec {
                name: node_name(i),
                zone: zone.clone(),
                instance_type: "m5.large".to_owned(),
                instance: None,
            };
            spec.nodes = (0..NODES).map(node).collect();
            let addresses = live::Addresses { front: Some(Arc::new(front)), ..live::Addresses::default() };
            let cluster = Cluster::live(&world, spec, &site, &addresses).map_err(|error| error.to_string())?;
            let done = defaults::apply_more(cluster.objects(), cluster.spec()).await.map_err(|error| error.to_string());
            if done.is_ok() {
                stop.wait().await;
            }
            cluster.stop().await;
            done
        }),
    );
    runtime.shutdown_timeout(Duration::from_millis(200));
    served
}
