//! A count of changes whose waiters wake in the order in which they began to watch.
//!
//! tokio's `watch` wakes several waiters in an order drawn from random numbers of its own, which does not replay.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The count.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    count: u64,
    watchers: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Changes {
    /// Counts one more change and wakes whoever waits.
    pub(super) fn bump(&self) {
        let waiting = {
            let mut inner = self.inner();
            inner.count += 1;
            std::mem::take(&mut inner.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Watches for changes from now on.
    pub(super) fn watch(&self) -> Watch {
        let mut inner = self.inner();
        inner.watchers += 1;
        Watch { changes: self.clone(), number: inner.watchers, seen: inner.count }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who watches.
#[derive(Debug)]
pub(super) struct Watch {
    changes: Changes,
    number: u64,
    seen: u64,
}

impl Watch {
    /// Completes when there was a change since the last look.
    pub(super) async fn changed(&mut self) {
        let (changes, number, seen) = (&self.changes, self.number, &mut self.seen);
        poll_fn(|cx| {
            let mut inner = changes.inner();
            if inner.count != *seen {
                *seen = inner.count;
                inner.waiting.remove(&number);
                return Poll::Ready(());
            }
            inner.waiting.insert(number, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.changes.inner().waiting.remove(&self.number);
    }
}
