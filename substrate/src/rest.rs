//! Detection of rest after a delivery (quiescence): every woken future has run.
//!
//! 1. Each process of a world, and its main future, is a [`Restless`] future with a waker of its own ([`Alarm`]).
//! 2. The first wake-up since its last poll adds one to the count of the world ([`Unrest`]); further ones change
//!    nothing. Then the alarm wakes the task that holds the future.
//! 3. A poll takes the one away again before it runs the future. If the future wakes itself or another one meanwhile,
//!    that counts again.
//! 4. After the poll, if the count is zero, the fabric is woken: [`Unrest::over`] completes, and the next message may be
//!    delivered. A future that is done or dropped takes its one away, and its wakers count no more.
//! 5. tokio suspends a task that has used up its budget, although it could go on, and wakes it only when the runtime
//!    continues. Until then it does not count. So a poll notes when no budget is left, and the fabric then yields once
//!    and asks for rest again.
//!
//! A timer or a message under way has woken no future yet, and does not count: it has an instant of its own.

use parking_lot::{Mutex, MutexGuard};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Number of [`Restless`] futures that were woken and have not run since.
#[derive(Debug, Default)]
pub(crate) struct Unrest {
    woken: AtomicUsize,
    /// True if a task has yielded; it is woken when the runtime continues.
    yielded: AtomicBool,
    waits: Slot,
}

impl Unrest {
    pub(crate) fn is_over(&self) -> bool {
        self.woken.load(Ordering::Relaxed) == 0
    }

    /// Completes when every woken future has run, except for those that yielded.
    pub(crate) async fn over(&self) {
        poll_fn(|cx| {
            if self.is_over() {
                return Poll::Ready(());
            }
            self.waits.set(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Notes that the running task may have yielded: tokio suspends a task that has used up its budget.
    pub(crate) fn note_yield(&self) {
        if !tokio::task::coop::has_budget_remaining() {
            self.yielded.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if a task has yielded since the last call.
    pub(crate) fn take_yield(&self) -> bool {
        self.yielded.swap(false, Ordering::Relaxed)
    }

    fn settle(&self) {
        if self.is_over()
            && let Some(waker) = self.waits.take()
        {
            waker.wake();
        }
    }
}

/// Stores `waker`, which is mostly the one that is there.
pub(crate) fn keep(slot: &mut Option<Waker>, waker: &Waker) {
    match slot {
        // Does not clone if both wake the same task.
        Some(known) => known.clone_from(waker),
        None => *slot = Some(waker.clone()),
    }
}

/// A waker that seldom changes.
#[derive(Debug, Default)]
struct Slot(Mutex<Option<Waker>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock()
    }

    fn set(&self, waker: &Waker) {
        keep(&mut self.lock(), waker);
    }

    fn take(&self) -> Option<Waker> {
        self.lock().take()
    }

    fn wake(&self) {
        if let Some(waker) = &*self.lock() {
            waker.wake_by_ref();
        }
    }
}

/// A future whose wake-ups count as [`Unrest`] until it runs.
pub(crate) struct Restless<F> {
    work: Pin<Box<F>>,
    alarm: Arc<Alarm>,
    waker: Waker,
    /// Copy of the alarm's outer waker, readable without its lock.
    outer: Option<Waker>,
}

struct Alarm {
    unrest: Arc<Unrest>,
    rings: AtomicBool,
    /// True if the future is gone: its wakers no longer count.
    over: AtomicBool,
    outer: Slot,
}

impl Alarm {
    fn ring(&self) {
        if !self.over.load(Ordering::Relaxed) && !self.rings.swap(true, Ordering::Relaxed) {
            self.unrest.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.silence();
        self.unrest.settle();
    }

    fn silence(&self) {
        if self.rings.swap(false, Ordering::Relaxed) {
            self.unrest.woken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
        self.outer.wake();
    }
}

impl<F: Future> Restless<F> {
    pub(crate) fn new(unrest: Arc<Unrest>, work: F) -> Self {
        let alarm = Arc::new(Alarm {
            unrest,
            rings: AtomicBool::new(false),
            over: AtomicBool::new(false),
            outer: Slot::default(),
        });
        // It is about to run for the first time.
        alarm.ring();
        Self { work: Box::pin(work), waker: Waker::from(alarm.clone()), alarm, outer: None }
    }
}

impl<F: Future> Future for Restless<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if this.outer.as_ref().is_none_or(|known| !known.will_wake(cx.waker())) {
            this.outer = Some(cx.waker().clone());
            this.alarm.outer.set(cx.waker());
        }
        this.alarm.silence();
        let polled = this.work.as_mut().poll(&mut Context::from_waker(&this.waker));
        this.alarm.unrest.note_yield();
        if polled.is_ready() {
            this.alarm.end();
        } else {
            this.alarm.unrest.settle();
        }
        polled
    }
}

impl<F> Drop for Restless<F> {
    fn drop(&mut self) {
        self.alarm.end();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::AtomicWaker;

    use super::*;

    #[test]
    fn unrest_is_over_when_all_that_was_woken_has_run_or_is_gone() {
        let unrest = Arc::<Unrest>::default();
        let held = Arc::new(AtomicWaker::new());
        let hold = held.clone();
        let mut sleeper = Box::pin(Restless::new(
            unrest.clone(),
            poll_fn(move |cx| {
                hold.register(cx.waker());
                Poll::<()>::Pending
            }),
        ));
        assert!(!unrest.is_over(), "a new future has not run");
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sleeper.as_mut().poll(&mut cx).is_pending() && unrest.is_over());
        let waker = held.take().unwrap();
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(!unrest.is_over(), "it is woken");
        assert!(sleeper.as_mut().poll(&mut cx).is_pending() && unrest.is_over());
        waker.wake_by_ref();
        drop(sleeper);
        assert!(unrest.is_over(), "what is gone owes nothing");
        waker.wake();
        assert!(unrest.is_over(), "and is not woken any more");
    }
}
