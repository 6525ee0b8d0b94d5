//! Admission and access of the API server: which request is allowed, and what is refused, changed or warned of.
//!
//! It reads a cluster through the trait [`Cluster`], and writes nothing: each function returns its decision.
//!
//! ```
//! use api_admission::rbac::{Access, Roles};
//! use api_model::user::Identity;
//!
//! let access = Access {
//!     verb: "get",
//!     group: "",
//!     resource: "pods",
//!     subresource: "",
//!     name: "web",
//!     namespace: "default",
//!     path: None,
//! };
//! let reader = Identity::of_account("default", "reader");
//! assert_eq!(Roles::default().allows(&reader, &access), None);
//! ```
//!
//! # Modules
//!
//! - [`rbac`] decides access by roles and bindings; [`roles`] has those of a new cluster.
//! - [`policies`] evaluates and checks admission policies, [`mutation_checks`] checks mutating ones; [`matching`] selects
//!   the requests of policies and webhooks.
//! - [`pod_security`] has the Pod Security Standards, [`privileged`] and [`runtime_class`] further rules for pods.
//! - [`quota`] and [`limits`] have ResourceQuotas and LimitRanges.

pub mod cluster;
pub mod limits;
pub mod matching;
pub mod mutation_checks;
pub mod pod_security;
pub mod policies;
pub mod privileged;
pub mod quota;
pub mod rbac;
pub mod roles;
pub mod runtime_class;

pub use cluster::Cluster;
