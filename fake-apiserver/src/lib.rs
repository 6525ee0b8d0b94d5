//! A Kubernetes API server for storage: discovery, CRUD, list, watch and patches over one in-memory store.

pub mod cel;
mod cli;
pub mod custom;
pub mod dial;
pub mod envtest;
pub mod events;
pub mod faults;
mod field_path;
pub mod fields;
pub mod fuzz;
mod go_json;
mod go_time;
pub mod journal;
pub mod keys;
pub mod kinds;
pub mod kubeconfig;
pub mod mutants;
pub mod patch;
pub mod serve;
mod service;
pub mod state;
mod text;
pub mod tls;
mod trust;
pub mod wire;
pub mod x509;

pub use cli::{AdmissionPlugin, main_with};
pub use service::{
    Apiserver, Audit, Config, Dial, Endpoint, Keep, LogDial, MOST_GATHERED, NodeDial, NodeEndpoint, Origin, Outside,
    Policy, Rbac, Unserved, Unverified,
};
pub use state::ServiceAccounts;
