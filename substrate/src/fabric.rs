//! The network of a simulation: names of servers, and the arrival times of messages.
//!
//! 1. A link draws the latency of a message, and puts a key into the queue: the millisecond of the arrival, the number
//!    of the link, the number of the call on this link, the number of the message in this call. The keys are distinct,
//!    so the queue has one order.
//! 2. The link holds the message as a [`Travel`], a future that completes when the key has left the queue. A dropped
//!    `Travel` takes its key out: the message is lost.
//! 3. One task of the world delivers (`Fabric::run`). It sleeps until the millisecond of the first key. A message
//!    that comes before that wakes it, and it looks again.
//! 4. In that millisecond it first waits for rest: every woken future has run (`rest.rs`). Timers that are due fire
//!    before that, so local timers come before messages.
//! 5. It removes the first key that is due, if it is still there, and wakes the receiver. Then it begins again at 3: the
//!    next message waits until the consequences of this one are at rest, also if both arrive in one millisecond.
//!
//! So the order in which messages take effect does not depend on the number of task switches of a transport, and a run
//! over byte streams gives the same trace as a run over direct calls. A latency of at least one millisecond keeps a cause
//! before its effect.
//!
//! Servers are found by name at each call. A name that is bound again, or whose process is down, has another server or
//! none.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::body::HttpService;
use crate::clock::Clock;
use crate::process::Ctx;
use crate::rest::{Restless, Unrest};

/// Latency of a link in milliseconds, drawn uniformly from the range for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Minimum in milliseconds; at least 1 in simulation, so that a cause comes before its effect.
    pub min_ms: u64,
    /// Maximum in milliseconds.
    pub max_ms: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { min_ms: 1, max_ms: 5 }
    }
}

/// Delivery queue and name table of one world.
#[derive(Clone)]
pub struct Fabric(Arc<Inner>);

struct Inner {
    clock: Clock,
    queue: Mutex<Queue>,
    earlier: Notify,
    names: Mutex<BTreeMap<String, Bound>>,
    /// Number of woken futures of this world that have not run yet.
    unrest: Arc<Unrest>,
}

#[derive(Default)]
struct Queue {
    /// Messages under way, with the waker of each. A message leaves the map when it arrives, even if its receiver has
    /// not polled yet: a stalled receiver must not hold up the others.
    waiting: BTreeMap<Key, Option<Waker>>,
    links: u32,
}

/// Millisecond, link, and number on the link.
type Key = (u64, u32, Number);

/// Number of the call on its link, from 1, and of the message in that call, from 1.
pub type Number = (u64, u32);

/// A server that is reachable under a name.
#[derive(Clone)]
pub struct Bound {
    /// Its process.
    pub ctx: Ctx,
    /// Its service.
    pub service: HttpService,
}

impl Fabric {
    /// Removes all servers.
    pub(crate) fn forget_servers(&self) {
        let servers = std::mem::take(&mut *self.0.names.lock());
        drop(servers);
    }

    /// Creates an empty network with `clock`.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            clock,
            queue: Mutex::default(),
            earlier: Notify::new(),
            names: Mutex::default(),
            unrest: Arc::default(),
        }))
    }

    /// Makes `service` of process `ctx` reachable as `name`, until the process goes down or the name is bound again.
    pub fn bind(&self, ctx: &Ctx, name: &str, service: HttpService) {
        self.names().insert(name.to_owned(), Bound { ctx: ctx.clone(), service });
    }

    /// Returns the server of `name`; `None` if the name is not bound or the process is down.
    pub fn resolve(&self, name: &str) -> Option<Bound> {
        self.names().get(name).filter(|bound| !bound.ctx.is_down()).cloned()
    }

    /// Returns the number of a new link, which orders messages of the same millisecond.
    pub fn new_link(&self) -> u32 {
        let mut queue = self.queue();
        queue.links += 1;
        queue.links
    }

    /// Sends a message that arrives `after` from now; each needs a distinct number.
    pub fn travel(&self, link: u32, number: Number, after: Duration) -> Travel {
        let at = self.0.clock.mono() + after;
        self.travel_until(link, number, at)
    }

    /// Sends a message that arrives at the monotonic time `at`.
    pub fn travel_until(&self, link: u32, number: Number, at: Duration) -> Travel {
        let key = (at.as_millis() as u64, link, number);
        let mut queue = self.queue();
        let first = queue.waiting.keys().next().is_none_or(|k| key < *k);
        queue.waiting.insert(key, None);
        drop(queue);
        if first {
            self.0.earlier.notify_one();
        }
        Travel { fabric: self.clone(), key }
    }

    /// Delivers messages, forever. The world runs it.
    pub(crate) async fn run(self) {
        loop {
            let next = self.queue().waiting.keys().next().map(|key| key.0);
            let Some(ms) = next else {
                self.0.earlier.notified().await;
                continue;
            };
            let at = Duration::from_millis(ms);
            if self.0.clock.mono() < at {
                tokio::select! { biased;
                    () = self.0.earlier.notified() => continue,
                    () = self.0.clock.sleep_until(at) => {}
                }
            }
            // Everything else that is ready in this instant runs first: local timers come before messages.
            self.rest().await;
            self.deliver_one(ms);
        }
    }

    /// Runs `work` so that [`Fabric::rest`] waits for it.
    pub(crate) fn restless<F: Future>(&self, work: F) -> Restless<F> {
        Restless::new(self.0.unrest.clone(), work)
    }

    /// Returns when neither the processes nor the main future have work left in this instant.
    async fn rest(&self) {
        loop {
            self.0.unrest.over().await;
            if !self.0.unrest.take_yield() {
                return;
            }
            // A task that yielded is woken together with this one, and counts from then on.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the counter of woken futures.
    pub(crate) fn unrest(&self) -> &Arc<Unrest> {
        &self.0.unrest
    }

    /// Delivers the first message that was due by the millisecond `due`, unless all were lost in the meantime.
    fn deliver_one(&self, due: u64) {
        let waker = {
            let mut queue = self.queue();
            let Some(message) = queue.waiting.first_entry().filter(|message| message.key().0 <= due) else {
                return;
            };
            message.remove()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock()
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Bound>> {
        self.0.names.lock()
    }
}

/// A message under way; completes when it arrives. If it is dropped before, it is lost.
pub struct Travel {
    fabric: Fabric,
    key: Key,
}

impl Travel {
    /// Wakes `waker` when the message arrives, as if its receiver had polled.
    pub(crate) fn wake_at_arrival(&self, waker: &Waker) {
        let under_way = match self.fabric.queue().waiting.get_mut(&self.key) {
            Some(waiting) => {
                *waiting = Some(waker.clone());
                true
            }
            None => false,
        };
        if !under_way {
            waker.wake_by_ref();
        }
    }
}

impl Future for Travel {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.fabric.queue();
        match queue.waiting.get_mut(&self.key) {
            Some(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Travel {
    fn drop(&mut self) {
        self.fabric.queue().waiting.remove(&self.key);
    }
}
