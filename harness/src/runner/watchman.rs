//! Wakes a waiting step only when the trace shows an event that may end the wait.

use std::sync::{Mutex, MutexGuard, PoisonError};

use controllers::events::EventRecorded;
use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadSynced};
use fake_apiserver::events::Commit;
use substrate::Event;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::scenario::object::{Kind, ObjectRef};

/// Kind of event for which a step waits.
#[derive(Clone, Debug)]
pub(super) enum Sign {
    /// A commit of this object, which has this key.
    Object(ObjectRef, String),
    /// A commit of any object of this kind.
    Any(Kind),
    /// A Kubernetes event with this reason.
    Event(String),
    /// An event of one of these kinds.
    Kinds(&'static [&'static str]),
    /// A record synced by the workload of this pod (`namespace/name`).
    Records(String),
}

impl Sign {
    fn is(&self, event: &Event) -> bool {
        match self {
            Self::Object(object, key) => event
                .get::<Commit>()
                .is_some_and(|commit| commit.resource == object.kind.resource() && *commit.object == **key),
            Self::Any(kind) => event.get::<Commit>().is_some_and(|commit| commit.resource == kind.resource()),
            Self::Event(reason) => event.get::<EventRecorded>().is_some_and(|told| told.reason == *reason),
            Self::Kinds(kinds) => kinds.contains(&event.kind()),
            Self::Records(pod) => {
                let of = event.get::<WorkloadSynced>().map(|told| &told.pod);
                let of = of.or(event.get::<WorkloadStarted>().map(|told| &told.pod));
                of.or(event.get::<WorkloadCorrupt>().map(|told| &told.pod)).is_some_and(|of| **of == **pod)
            }
        }
    }
}

/// Watches for the current sign.
#[derive(Debug, Default)]
pub(super) struct Watchman {
    sign: Mutex<Option<Sign>>,
    notify: Notify,
}

impl Watchman {
    pub(super) fn look_for(&self, sign: Sign) {
        *self.sign() = Some(sign);
    }

    pub(super) fn observe(&self, event: &Event) {
        if self.sign().as_ref().is_some_and(|sign| sign.is(event)) {
            self.notify.notify_waiters();
        }
    }

    pub(super) fn seen(&self) -> Notified<'_> {
        self.notify.notified()
    }

    fn sign(&self) -> MutexGuard<'_, Option<Sign>> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
