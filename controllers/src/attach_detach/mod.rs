//! The attach-detach controller of kube-controller-manager (`persistentvolume-attach-detach-controller`).
//!
//! Desired state of world: the volumes that the pods on each node need. Actual state of world: the volumes attached to
//! each node. The reconciler moves the second towards the first; it detaches before it attaches.

mod actual;
mod async_loop;
mod cluster;
mod debug_state;
mod desired;
mod differences;
#[cfg(test)]
mod histories;
mod operation;
mod reconcile;
mod volume;

pub use actual::{ActualStateOfWorld, AttachState};
pub use async_loop::run;
pub use desired::DesiredStateOfWorld;
pub use reconcile::{Action, ForcedReason, NodeView, Plan, Reconciler};
pub use volume::{VolumeSpec, attachment_name, parse_unique_name, unique_name};

/// Source of its events.
pub const EVENT_SOURCE: &str = "attachdetach-controller";
/// Annotation of nodes whose volumes it manages.
pub const MANAGED_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Taint of a node that is permanently down (value and effect are ignored).
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";
