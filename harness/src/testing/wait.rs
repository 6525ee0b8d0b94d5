//! Waits for a future on the calling thread, inside and outside of any runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Parks the thread until `work` is done. The work must make progress by itself, on another thread.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    // A task of the caller's runtime may have used up its budget, which is not renewed while the thread is parked.
    let mut work = pin!(tokio::task::unconstrained(work));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut context) {
            return outcome;
        }
        thread::park();
    }
}
