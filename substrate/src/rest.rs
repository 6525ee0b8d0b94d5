//! When everything that one delivery set off has come to rest: nothing is woken that has not run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How many [`Restless`] futures are woken and have not run since.
#[derive(Debug, Default)]
pub(crate) struct Unrest(AtomicUsize);

impl Unrest {
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A future whose wake-ups count as [`Unrest`] until it runs.
pub(crate) struct Restless<F> {
    work: Pin<Box<F>>,
    alarm: Arc<Alarm>,
    waker: Waker,
}

struct Alarm {
    unrest: Arc<Unrest>,
    rings: AtomicBool,
    /// The future is gone: whoever still holds its waker wakes nothing.
    over: AtomicBool,
    outer: AtomicWaker,
}

impl Alarm {
    fn ring(&self) {
        if !self.over.load(Ordering::Relaxed) && !self.rings.swap(true, Ordering::Relaxed) {
            self.unrest.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.silence();
    }

    fn silence(&self) {
        if self.rings.swap(false, Ordering::Relaxed) {
            self.unrest.0.fetch_sub(1, Ordering::Relaxed);
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
            outer: AtomicWaker::new(),
        });
        // It is about to run for the first time.
        alarm.ring();
        Self { work: Box::pin(work), waker: Waker::from(alarm.clone()), alarm }
    }
}

impl<F: Future> Future for Restless<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.alarm.outer.register(cx.waker());
        this.alarm.silence();
        let polled = this.work.as_mut().poll(&mut Context::from_waker(&this.waker));
        if polled.is_ready() {
            this.alarm.end();
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
    use super::*;
    use std::future::poll_fn;

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
