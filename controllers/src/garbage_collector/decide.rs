//! Decision about one object (`attemptToDeleteItem`), given its latest state and the state of its owners.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, ORPHAN};
use crate::kube::metadata::{Metadata, Propagation};

/// Owners of an object, by their state according to the API server (`classifyReferences`).
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    /// Uids of owners that exist, and do not wait for their dependents.
    pub solid: Vec<String>,
    /// Uids of owners that do not exist.
    pub dangling: Vec<String>,
    /// Uids of owners that wait for the deletion of their dependents.
    pub waiting: Vec<String>,
}

/// A decision about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Keep it unchanged.
    Keep,
    /// Keep it, but remove its references to owners that are gone or wait.
    Release,
    /// Delete it. If `unblocks` is set, first make its own references not block its owners: one of its dependents waits
    /// too, so there may be a cycle.
    Delete { propagation: Propagation, unblocks: bool },
}

/// Decides about an object; `dependents` holds true for each dependent that waits for its own dependents.
pub(super) fn decide(latest: &Metadata, owners: &Owners, dependents: &[bool]) -> Decision {
    if !owners.solid.is_empty() {
        let nothing = owners.dangling.is_empty() && owners.waiting.is_empty();
        return if nothing { Decision::Keep } else { Decision::Release };
    }
    if !owners.waiting.is_empty() && !dependents.is_empty() {
        let unblocks = dependents.contains(&true);
        return Decision::Delete { propagation: Propagation::Foreground, unblocks };
    }
    let propagation = if latest.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if latest.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Decision::Delete { propagation, unblocks: false }
}

/// Returns the blocking references of an object, changed so that they no longer block.
pub(super) fn unblocked(owners: &[OwnerReference]) -> Vec<OwnerReference> {
    let blocking = owners.iter().filter(|owner| super::identity::blocks(owner));
    blocking.map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() }).collect()
}
