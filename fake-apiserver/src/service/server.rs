//! State that all requests share.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use substrate::{Ctx, latest};

use super::audit::Audit;
use super::config::{Keep, Unserved};
use super::dials::{Dial, LogDial, NodeDial};
use super::hub::Hub;
use super::origin_state::OriginState;
use super::rbac::Rbac;
use super::workers::Workers;
use crate::state::{Limits, Store};
use crate::tls::Authority;
use crate::wire::kept::Kept;

/// State that all requests share.
pub(crate) struct Shared {
    pub(super) state: Mutex<State>,
    /// Revision of the last commit, for requests that wait for one.
    pub(super) revision: latest::Sender<u64>,
    /// Number of requests so far.
    pub(super) requests: AtomicU64,
    /// Number of packed events of the history so far.
    pub(super) packed: AtomicU64,
    pub(super) limits: Limits,
    pub(super) dial: Option<Dial>,
    pub(super) nodes: Option<NodeDial>,
    pub(super) logs: Option<LogDial>,
    pub(super) unserved: Option<Unserved>,
    /// Clients that may be controllers of kinds without a controller in this program.
    pub(crate) workers: Arc<Workers>,
    pub(super) rbac: Option<Rbac>,
    /// True if the default roles exist also if roles decide nothing.
    pub(super) default_roles: bool,
    /// The API server that answers instead of this one, if there is one.
    pub(super) origin: Option<Arc<OriginState>>,
    pub(super) gather: Duration,
    pub(super) authority: Option<Arc<Authority>>,
    pub(super) audit: Option<Audit>,
    pub(super) version: String,
    /// Cache of requested documents.
    pub(super) documents: Mutex<Kept>,
}

/// State under the lock: held for short sections, never over an await.
pub(crate) struct State {
    pub(super) store: Store,
    pub(super) hub: Hub,
    /// Number of the present hub, so that a stream of an older one does not touch it.
    pub(super) epoch: u64,
    /// Number of watch streams so far, from which each gets its own.
    pub(super) streams: u64,
    /// Draws the lifetimes of watches.
    pub(super) lifetimes: Box<dyn rand_core::Rng + Send>,
    /// Draws the uids of admission reviews.
    pub(super) reviews: Box<dyn rand_core::Rng + Send>,
    /// Persists commits, if set.
    pub(super) keeper: Option<Box<dyn Keep>>,
}

impl State {
    /// Replaces everything that was persisted by the present objects.
    pub(crate) fn restart_journal(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.replace(&self.store);
        }
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns true if roles decide what users may do.
    pub(crate) fn checks_roles(&self) -> bool {
        self.rbac.as_ref().is_some_and(|rbac| rbac.roles)
    }

    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }
}

/// One request's view of the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    pub(super) shared: Arc<Shared>,
    pub(super) ctx: Ctx,
}
