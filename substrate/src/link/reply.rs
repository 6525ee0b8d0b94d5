//! The answer to a call, from the process that handles it to the caller.

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::Response;

use crate::body::{Body, BoxError};
use crate::fabric::Travel;
use crate::rest::keep;

/// Result of the server's work, with its message in transit, if that was sent already.
pub(super) struct Answer {
    pub result: Result<Response<Body>, BoxError>,
    pub way: Option<Travel>,
}

#[derive(Default)]
struct Slot {
    answer: Option<Answer>,
    /// Waker of the caller.
    caller: Option<Waker>,
    /// True if the server is gone: an answer that is not here will not come.
    gone: bool,
}

type Shared = Arc<Mutex<Slot>>;

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock()
}

/// Creates both ends of a reply.
pub(super) fn reply() -> (Replier, Reply) {
    let shared = Shared::default();
    (Replier(shared.clone()), Reply { shared, under_way: None })
}

/// Answers once. If it is dropped before, there is no answer.
pub(super) struct Replier(Shared);

impl Replier {
    /// Sends the answer. It wakes the caller when it arrives, and not before. The caller may be gone; the work is done
    /// anyway.
    pub fn send(self, answer: Answer) {
        let mut slot = lock(&self.0);
        if let (Some(way), Some(caller)) = (&answer.way, &slot.caller) {
            way.wake_at_arrival(caller);
            // Dropping this end need not wake the caller any more.
            slot.caller = None;
        }
        slot.answer = Some(answer);
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.gone = true;
        if let Some(caller) = slot.caller.take() {
            caller.wake();
        }
    }
}

/// Completes with the answer once it has arrived; `None` if the server is gone without one.
pub(super) struct Reply {
    shared: Shared,
    under_way: Option<Answer>,
}

impl Future for Reply {
    type Output = Option<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        if self.under_way.is_none() {
            let mut slot = lock(&self.shared);
            let answer = slot.answer.take();
            if answer.is_none() {
                if slot.gone {
                    return Poll::Ready(None);
                }
                keep(&mut slot.caller, cx.waker());
                return Poll::Pending;
            }
            drop(slot);
            self.under_way = answer;
        }
        if let Some(way) = self.under_way.as_mut().and_then(|answer| answer.way.as_mut())
            && Pin::new(way).poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        Poll::Ready(self.under_way.take())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::body::empty;
    use crate::clock::Clock;
    use crate::fabric::Fabric;

    fn answer(way: Option<Travel>) -> Answer {
        Answer { result: Ok(Response::new(empty())), way }
    }

    #[test]
    fn an_answer_under_way_has_not_arrived() {
        let fabric = Fabric::new(Clock::simulated());
        let (replier, mut reply) = reply();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut reply).poll(&mut cx).is_pending());
        replier.send(answer(Some(fabric.travel(1, (1, 2), Duration::from_secs(1)))));
        assert!(Pin::new(&mut reply).poll(&mut cx).is_pending());
    }

    #[test]
    fn a_server_that_goes_leaves_its_answer_or_none() {
        let mut cx = Context::from_waker(Waker::noop());
        let (replier, mut silent) = reply();
        assert!(Pin::new(&mut silent).poll(&mut cx).is_pending());
        drop(replier);
        assert!(matches!(Pin::new(&mut silent).poll(&mut cx), Poll::Ready(None)));
        let (replier, mut reported) = reply();
        replier.send(answer(None));
        assert!(matches!(Pin::new(&mut reported).poll(&mut cx), Poll::Ready(Some(_))));
    }
}
