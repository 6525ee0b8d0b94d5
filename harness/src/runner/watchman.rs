//! Wakes a waiting step when the trace shows something that may end the wait, and only then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use substrate::Event;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::scenario::object::{Kind, ObjectRef};

/// What a step waits for.
#[derive(Clone, Debug)]
pub(super) enum Sign {
    /// A commit of this object.
    Object(ObjectRef),
    /// A commit of any object of this kind.
    Any(Kind),
    /// A Kubernetes event with this reason.
    Event(String),
    /// A record synced by the workload of this pod (`namespace/name`).
    Records(String),
}

impl Sign {
    fn is(&self, event: &Event) -> bool {
        match self {
            Self::Object(object) => {
                event.kind == "api.commit"
                    && event.str("resource") == Some(object.kind.resource())
                    && event.str("object") == Some(&object.key())
            }
            Self::Any(kind) => event.kind == "api.commit" && event.str("resource") == Some(kind.resource()),
            Self::Event(reason) => event.kind == "k8s.event" && event.str("reason") == Some(reason),
            Self::Records(pod) => event.kind.starts_with("workload.") && event.str("pod") == Some(pod),
        }
    }
}

/// Keeps the sign that is looked for.
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
