//! Wakes a waiting step only when the trace shows an event that may end the wait.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use controllers::events::EventRecorded;
use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadSynced};
use fake_apiserver::events::Commit;
use substrate::Event;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::spec::object::{Kind, ObjectRef};

/// Kind of event for which a step waits.
#[derive(Clone, Debug)]
pub(super) enum Trigger {
    /// A commit of this object, which has this key.
    Object(ObjectRef, String),
    /// A commit of any object of this kind, in this namespace if there is one.
    Any(Kind, Option<String>),
    /// A Kubernetes event with this reason.
    Event(String),
    /// An event of one of these kinds.
    Kinds(&'static [&'static str]),
    /// A record synced by the workload of this pod (`namespace/name`).
    Records(String),
}

impl Trigger {
    fn is(&self, event: &Event) -> bool {
        match self {
            Self::Object(object, key) => event
                .get::<Commit>()
                .is_some_and(|commit| commit.resource == object.kind.resource() && *commit.object == **key),
            Self::Any(kind, namespace) => event.get::<Commit>().is_some_and(|commit| {
                let of = commit.object.split_once('/').map(|(namespace, _)| namespace);
                commit.resource == kind.resource() && (namespace.is_none() || namespace.as_deref() == of)
            }),
            Self::Event(reason) => event.get::<EventRecorded>().is_some_and(|reported| reported.reason == *reason),
            Self::Kinds(kinds) => kinds.contains(&event.kind()),
            Self::Records(pod) => {
                let of = event.get::<WorkloadSynced>().map(|reported| &reported.pod);
                let of = of.or(event.get::<WorkloadStarted>().map(|reported| &reported.pod));
                of.or(event.get::<WorkloadCorrupt>().map(|reported| &reported.pod)).is_some_and(|of| **of == **pod)
            }
        }
    }
}

/// Watches for the current trigger.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    trigger: Mutex<Option<Trigger>>,
    /// Newest revision of a commit that was a trigger.
    newest: AtomicU64,
    notify: Notify,
}

impl Waiter {
    pub(super) fn wait_for(&self, trigger: Trigger) {
        *self.trigger() = Some(trigger);
        self.newest.store(0, Ordering::Relaxed);
    }

    pub(super) fn observe(&self, event: &Event) {
        if self.trigger().as_ref().is_some_and(|trigger| trigger.is(event)) {
            if let Some(commit) = event.get::<Commit>() {
                self.newest.fetch_max(commit.rv, Ordering::Relaxed);
            }
            self.notify.notify_waiters();
        }
    }

    pub(super) fn seen(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Newest revision of a commit that was a trigger; 0 if there was none since [`Waiter::wait_for`].
    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    fn trigger(&self) -> MutexGuard<'_, Option<Trigger>> {
        self.trigger.lock()
    }
}
