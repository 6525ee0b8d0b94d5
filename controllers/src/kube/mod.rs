//! A small Kubernetes client: requests, informers, work queues, events. Seeded where client-go draws random numbers.
//!
//! The store, work queue and backoff of other clients do not replay, so the project has its own.

pub mod api;
pub mod backoff;
pub mod client;
mod correlator;
pub(crate) mod discovery;
pub mod error;
pub mod events;
pub mod informer;
mod memo;
pub mod metadata;
pub mod object;
pub mod patch;
pub mod queue;
pub mod watch;

pub(crate) use api::Query;
pub use api::{Api, DeleteParams, ListParams, ObjectList};
pub use backoff::Backoff;
pub use client::Client;
pub use error::{ApiError, Status};
pub use events::EventRecorder;
pub use informer::{Changes, Delta, Informer};
pub use k8s_openapi::api::core::v1::ObjectReference;
pub(crate) use memo::decode;
pub use object::{Kind, reference, time};
pub use patch::{Guard, Operation, Patch, Patched};
pub use queue::{Outcome, WorkQueue};
pub use watch::{WatchEvent, WatchParams, WatchStream};
