//! The network of a simulation: who is bound to which name, and when each message arrives.
//!
//! All deliveries go through one queue, ordered by (millisecond, link, number on that link) and handed out one at
//! a time, each after everything that the previous one set off has come to rest. So the order in which messages
//! of one millisecond take effect does not depend on how many task switches a transport needs, and a run over
//! byte streams gives the same trace as a run over direct calls.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::body::HttpService;
use crate::clock::Clock;
use crate::process::Ctx;
use crate::rest::{Restless, Unrest};

/// The latency of a link in milliseconds, drawn evenly from the range for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Least, in milliseconds; at least 1 in simulation so that cause comes before effect.
    pub min_ms: u64,
    /// Most, in milliseconds.
    pub max_ms: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { min_ms: 1, max_ms: 5 }
    }
}

/// The delivery queue and the name table of one world.
#[derive(Clone)]
pub struct Fabric(Arc<Inner>);

struct Inner {
    clock: Clock,
    queue: Mutex<Queue>,
    earlier: Notify,
    names: Mutex<BTreeMap<String, Bound>>,
    /// How much of this world is woken and has not run yet.
    unrest: Arc<Unrest>,
}

#[derive(Default)]
struct Queue {
    /// Messages under way, with who waits for each. A message that has arrived is not in here any more, whether or
    /// not its receiver has looked: what a stalled receiver leaves lying must not hold up the others.
    waiting: BTreeMap<Key, Option<Waker>>,
    links: u32,
}

/// Millisecond, link, number on the link.
type Key = (u64, u32, Number);

/// The call on its link, from 1, and the message of that call, from 1.
pub type Number = (u64, u32);

/// A server that is reachable under a name.
#[derive(Clone)]
pub struct Bound {
    /// The process that answers.
    pub ctx: Ctx,
    /// How it is called.
    pub service: HttpService,
}

impl Fabric {
    /// Lets go of all servers.
    pub(crate) fn forget_servers(&self) {
        let servers = std::mem::take(&mut *self.0.names.lock().unwrap_or_else(PoisonError::into_inner));
        drop(servers);
    }

    /// An empty network on `clock`.
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

    /// Who answers for `name` now; nothing when no one is bound or the process is down.
    pub fn resolve(&self, name: &str) -> Option<Bound> {
        self.names().get(name).filter(|bound| !bound.ctx.is_down()).cloned()
    }

    /// A number for a new link; ties within a millisecond are broken by it.
    pub fn new_link(&self) -> u32 {
        let mut queue = self.queue();
        queue.links += 1;
        queue.links
    }

    /// A message that arrives `after` from now; each needs a number of its own.
    pub fn travel(&self, link: u32, number: Number, after: Duration) -> Travel {
        let at = self.0.clock.mono() + after;
        self.travel_until(link, number, at)
    }

    /// A message that arrives at the monotonic time `at`.
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

    /// Delivers messages for ever; the world runs it.
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
            // Lets everything else that is ready in this instant run first: local timers come before messages.
            self.rest().await;
            self.deliver_one(ms);
        }
    }

    /// Runs `work` so that [`Fabric::rest`] knows whether it still moves.
    pub(crate) fn restless<F: Future>(&self, work: F) -> Restless<F> {
        Restless::new(self.0.unrest.clone(), work)
    }

    /// Returns once no process and no story has anything left to do in this instant.
    async fn rest(&self) {
        loop {
            self.0.unrest.over().await;
            if !self.0.unrest.take_yield() {
                return;
            }
            // What yielded of its own accord is woken together with this task, and counts from then on.
            tokio::task::yield_now().await;
        }
    }

    /// What is woken and has not run yet.
    pub(crate) fn unrest(&self) -> &Arc<Unrest> {
        &self.0.unrest
    }

    /// Delivers the first message that was due by the millisecond `due`, unless all of them were lost meanwhile.
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
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Bound>> {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message under way; completes when it arrives. Dropped before that, it is lost.
pub struct Travel {
    fabric: Fabric,
    key: Key,
}

impl Travel {
    /// Has `waker` woken when the message arrives, as if whoever it belongs to had looked.
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
