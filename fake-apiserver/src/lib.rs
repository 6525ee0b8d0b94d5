//! A Kubernetes API server for storage: discovery, CRUD, list, watch and patches over one in-memory store.
//!
//! kubectl, client-go, kube-rs and Kubernetes' own controllers work with it. It has all kinds of Kubernetes 1.36, with
//! upstream's defaults, validation, admission and messages, and each request and watch can be made to fail, to lag or to
//! show the past. `fake-apiserver/README.md` is for users of the program.
//!
//! ```
//! use fake_apiserver::{Apiserver, Config};
//! use http::Request;
//! use substrate::body::{call, collect, full};
//! use substrate::json::{Value, json};
//! use substrate::world::{Options, simulate};
//! use substrate::{Process, Seed};
//!
//! let claim = simulate(Options::default(), async |world| {
//!     let process = Process::start(&world, "fake-apiserver", |_| std::future::pending());
//!     let service = Apiserver::new(&Seed::root(1), Config::default()).start(&process.ctx().unwrap());
//!     let claim = json!({
//!         "metadata": {"name": "data"},
//!         "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
//!     });
//!     let request = Request::post("/api/v1/namespaces/default/persistentvolumeclaims")
//!         .header("content-type", "application/json")
//!         .body(full(claim.to_string()))
//!         .unwrap();
//!     let reply = call(service, request).await.unwrap();
//!     assert_eq!(reply.status(), 201);
//!     let body = collect(reply.into_body(), 1 << 20).await.unwrap();
//!     serde_json::from_slice::<Value>(&body).unwrap()
//! });
//! assert_eq!(claim["spec"]["volumeMode"].as_str(), Some("Filesystem")); // a default
//! assert_eq!(claim["status"]["phase"].as_str(), Some("Pending"));
//! ```
//!
//! # Modules
//!
//! - [`state`] is the store as a pure state machine: objects, revisions, history, and the rules of each kind.
//! - [`kinds`], [`custom`], [`fields`] and [`cel`] are modules of the crate `api-model`; RBAC, policies, quotas and Pod
//!   Security are in the crate `api-admission`.
//! - [`patch`] has the three kinds of patches.
//! - [`wire`] has the formats of requests and answers: JSON, YAML, protobuf, tables, OpenAPI.
//! - `service` locks the store, applies a command, notifies the watches and answers. It also calls webhooks.
//! - [`serve`] is the only module that opens listeners; [`tls`], [`x509`], [`keys`] and [`kubeconfig`] are its
//!   certificates and credentials.
//! - [`envtest`] has the programs `kube-apiserver` and `etcd` of controller-runtime's envtest; [`journal`] is their data
//!   on disk.
//! - [`events`] holds the trace events, [`faults`] the fault points, [`mutants`] the seeded bugs.
//!
//! # Never
//!
//! It runs no controller, except that it empties deleted namespaces, makes default service accounts and signs approved
//! requests for certificates. It connects only to configured webhooks, and to nodes. [`state`] does no IO and reads no
//! clock.

mod cli;
pub mod dial;
pub mod envtest;
pub mod events;
pub mod faults;
pub mod fuzz;
pub mod journal;
pub mod keys;
pub mod kubeconfig;
pub mod mutants;
pub mod patch;
pub mod serve;
mod service;
pub mod state;
pub mod tls;
mod trust;
pub mod wire;
pub mod x509;

pub use api_model::{cel, custom, fields, kinds};
use api_model::{field_path, go_json, go_time, text};
pub use cli::{AdmissionPlugin, main_with};
pub use service::{
    Apiserver, Audit, Config, Dial, Endpoint, Keep, LogDial, MOST_GATHERED, NodeDial, NodeEndpoint, Origin, Outside,
    Policy, Rbac, Unserved, Unverified,
};
pub use state::ServiceAccounts;
