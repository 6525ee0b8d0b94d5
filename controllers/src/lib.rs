//! The storage control loops, the scheduler and the node agent (Mooring's kubelet), over the wire APIs only.
//!
//! Each loop has a pure part that follows its Kubernetes original, with the names of the original, and a thin async loop:
//! it reads informers, decides, and writes. The async loops share [`kube`]. A user sees the timing, the writes and the
//! Events of upstream.
//!
//! ```
//! use std::future::pending;
//! use std::time::Duration;
//!
//! use controllers::LoopsConfig;
//! use controllers::kube::Client;
//! use fake_apiserver::{Apiserver, Config};
//! use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
//! use substrate::Process;
//! use substrate::json::{from_value, json};
//! use substrate::link::Link;
//! use substrate::world::{Options, simulate};
//!
//! let phase = simulate(Options::default(), async |world| {
//!     let apiserver = Apiserver::new(world.seed(), Config::default());
//!     let _server = Process::start(&world, "fake-apiserver", move |ctx| {
//!         ctx.world().fabric().bind(&ctx, "apiserver", apiserver.start(&ctx));
//!         pending()
//!     });
//!     let _loops = Process::start(&world, "kube-controller-manager", |ctx| {
//!         let apiserver = Link::connect(&ctx, "apiserver");
//!         controllers::run(ctx, "kube-controller-manager", apiserver, None, LoopsConfig::default())
//!     });
//!     let user = Process::start(&world, "user", |_| pending());
//!     let ctx = user.ctx().unwrap();
//!     let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "user");
//!     let volume = json!({
//!         "metadata": {"name": "made-by-hand"},
//!         "spec": {
//!             "capacity": {"storage": "1Gi"},
//!             "accessModes": ["ReadWriteOnce"],
//!             "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"},
//!         },
//!     });
//!     client.all::<PersistentVolume>().create(&from_value(volume).unwrap()).await.unwrap();
//!     let claim = json!({
//!         "metadata": {"name": "data"},
//!         "spec": {
//!             "storageClassName": "",
//!             "accessModes": ["ReadWriteOnce"],
//!             "resources": {"requests": {"storage": "1Gi"}},
//!         },
//!     });
//!     let claims = client.namespaced::<PersistentVolumeClaim>("default");
//!     claims.create(&from_value(claim).unwrap()).await.unwrap();
//!     ctx.sleep(Duration::from_secs(30)).await;
//!     claims.get("data").await.unwrap().status.as_ref().and_then(|status| status.phase.clone())
//! });
//! assert_eq!(phase.as_deref(), Some("Bound"));
//! ```
//!
//! # Modules
//!
//! | Process | Modules |
//! |---|---|
//! | kube-controller-manager, storage | [`binder`], [`expander`], [`attach_detach`], [`protection`], `ephemeral` |
//! | kube-controller-manager, nodes and pods | [`node_lifecycle`], [`taint_eviction`], [`pod_gc`], `ttl` |
//! | kube-controller-manager, workloads | `deployment`, `replicaset`, `statefulset`, `daemonset`, `job`, `cronjob` |
//! | | `disruption`, `autoscaler`, `endpoints`, `endpointslice`, `endpointslicemirroring`; `workload` has common parts |
//! | kube-controller-manager, owners | `garbage_collector` |
//! | kube-scheduler | [`scheduler`] |
//! | sidecars of the driver | [`provisioner`], [`attacher`], [`resizer`], [`snapshot`] |
//! | kubelet | [`node_agent`] |
//! | a machine with its containers | [`machine`] |
//!
//! [`processes`] assigns the loops to processes, [`run`](fn@run) runs one process, [`election`] elects a leader. [`timers`] has
//! upstream's durations, and [`flags`] their names on the command line. [`kube`] is the client, with informers, work
//! queues and patches; [`csi`] calls a driver. [`metrics`] has upstream's metrics, [`events`] the trace events,
//! [`mutants`] the seeded bugs.
//!
//! # Never
//!
//! A loop imports no state of a server: it knows only what the wire APIs show. A decision reads no clock and no random
//! number, so that a run repeats.

pub mod attach_detach;
pub mod attacher;
mod autoscaler;
pub mod binder;
pub mod cli;
mod cronjob;
pub mod csi;
mod daemonset;
mod deployment;
mod disruption;
pub mod election;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod ephemeral;
pub mod events;
pub mod expander;
pub mod flags;
mod garbage_collector;
mod job;
pub mod kube;
pub mod machine;
pub mod metrics;
pub mod mirror_pod;
pub mod mutants;
pub mod node_agent;
pub mod node_lifecycle;
pub mod pending;
pub mod pod_gc;
pub mod pod_status;
pub mod processes;
pub mod protection;
pub mod provisioner;
mod replicaset;
pub mod resizer;
mod run;
pub mod scheduler;
pub mod snapshot;
mod state_publisher;
mod statefulset;
pub mod taint_eviction;
pub mod taints;
pub mod tick_schedule;
pub mod timers;
mod ttl;
pub mod workers;
mod workload;

pub use cli::{main_with, node_agent_main_with};
pub use election::Election;
pub use machine::machine_main_with;
pub use metrics::Metrics;
pub use pending::PendingOperations;
pub use processes::{
    EPHEMERAL_VOLUME, GARBAGE_COLLECTOR, LOOPS, PROCESSES, RARE_WORKLOADS, SNAPSHOT_CONTROLLER, SNAPSHOTTER, TTL,
    WORKLOADS, can_be_left_out, left_out, manager_is_left_out, runs,
};
pub use run::{LoopsConfig, run};
pub use timers::Timers;
