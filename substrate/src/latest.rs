//! A value with many readers, who wait for its changes and wake in the order in which they subscribed.
//!
//! tokio's `watch` wakes several waiters in an order drawn from its own random numbers, which does not replay; it is
//! banned in this workspace. The names here are those of `watch`.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// the sender is gone
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct Closed;

#[derive(Debug)]
struct State<T> {
    value: T,
    version: u64,
    closed: bool,
    subscribed: u64,
    waiting: BTreeMap<u64, Waker>,
}

type Shared<T> = Arc<Mutex<State<T>>>;

fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, State<T>> {
    shared.lock()
}

/// Sets the value. When it is dropped, its receivers are notified.
#[derive(Debug)]
pub struct Sender<T>(Shared<T>);

impl<T> Sender<T> {
    /// Creates a value without receivers.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(State { value, version: 0, closed: false, subscribed: 0, waiting: BTreeMap::new() })))
    }

    /// Returns a receiver that has seen the present value.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::of(&self.0)
    }

    /// Returns the value, which cannot change while the result is held.
    pub fn borrow(&self) -> Value<'_, T> {
        Value(lock(&self.0))
    }

    /// Sets the value and wakes all waiters. Returns the previous value.
    pub fn send_replace(&self, value: T) -> T {
        let mut old = value;
        self.send_modify(|now| std::mem::swap(now, &mut old));
        old
    }

    /// Changes the value in place and wakes all waiters.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and wakes all waiters if `modify` returns true.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = lock(&self.0);
        let modified = modify(&mut state.value);
        if modified {
            state.version += 1;
            wake(state);
        }
        modified
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.closed = true;
        wake(state);
    }
}

/// Wakes all waiters in the order of their numbers, after releasing the lock.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    waiting.into_values().for_each(Waker::wake);
}

/// Reads the value and waits for its changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Shared<T>,
    number: u64,
    seen: u64,
}

impl<T> Receiver<T> {
    fn of(shared: &Shared<T>) -> Self {
        let mut state = lock(shared);
        state.subscribed += 1;
        Self { shared: shared.clone(), number: state.subscribed, seen: state.version }
    }

    /// Returns the value, which cannot change while the result is held.
    pub fn borrow(&self) -> Value<'_, T> {
        Value(lock(&self.shared))
    }

    /// Returns the value and marks it as seen. It cannot change while the result is held.
    pub fn borrow_and_update(&mut self) -> Value<'_, T> {
        let state = lock(&self.shared);
        self.seen = state.version;
        Value(state)
    }

    /// Completes when the value was set since it was last seen, and marks it as seen.
    ///
    /// # Errors
    /// The sender is gone and its last value was seen.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let mut news = false;
        self.until(|_, new| {
            news |= new;
            news
        })
        .await
    }

    /// Completes when `condition` holds for the value, at once if it does already, and marks it as seen.
    ///
    /// # Errors
    /// The sender is gone and the condition does not hold for its last value.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        self.until(|value, _| condition(value)).await
    }

    async fn until(&mut self, mut done: impl FnMut(&T, bool) -> bool) -> Result<(), Closed> {
        let Self { shared, number, seen } = self;
        poll_fn(|cx| {
            let mut state = lock(shared);
            let new = state.version != *seen;
            *seen = state.version;
            if done(&state.value, new) {
                return Poll::Ready(Ok(()));
            }
            if state.closed {
                return Poll::Ready(Err(Closed));
            }
            state.waiting.insert(*number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        let mut new = Self::of(&self.shared);
        new.seen = self.seen;
        new
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        lock(&self.shared).waiting.remove(&self.number);
    }
}

/// A read guard of the value.
pub struct Value<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Value<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Options, simulate};

    #[test]
    fn waiters_wake_in_the_order_in_which_they_subscribed_at_every_run() {
        for _ in 0..20 {
            let order = simulate(Options::default(), async |_| {
                let sender = Sender::new(0);
                let order = Arc::new(Mutex::new(Vec::new()));
                for n in 0..30 {
                    let (mut receiver, order) = (sender.subscribe(), order.clone());
                    tokio::task::spawn_local(async move {
                        receiver.wait_for(|value| *value == 2).await.unwrap();
                        order.lock().push(n);
                    });
                }
                tokio::task::yield_now().await;
                sender.send_replace(1);
                tokio::task::yield_now().await;
                assert_eq!(sender.send_replace(2), 1);
                tokio::task::yield_now().await;
                order.lock().clone()
            });
            assert_eq!(order, (0..30).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_change_is_seen_once_and_the_end_after_the_last_one() {
        simulate(Options::default(), async |_| {
            let sender = Sender::new("a");
            let mut receiver = sender.subscribe();
            assert!(!sender.send_if_modified(|_| false));
            sender.send_modify(|value| *value = "b");
            let mut late = receiver.clone();
            receiver.changed().await.unwrap();
            assert_eq!(*receiver.borrow_and_update(), "b");
            drop(sender);
            assert_eq!(receiver.changed().await, Err(Closed));
            assert_eq!(receiver.wait_for(|value| *value == "b").await, Ok(()));
            assert_eq!(late.changed().await, Ok(()));
            assert_eq!(late.wait_for(|value| *value == "a").await, Err(Closed));
        });
    }
}
