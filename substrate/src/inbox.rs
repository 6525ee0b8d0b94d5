//! Tasks that a process must start and has not started yet.

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::rest::keep;

/// A task of a process.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    waker: Option<Waker>,
    /// True if the sender is gone: no more tasks will come.
    unasked: bool,
    /// True if the inbox is gone: tasks are no longer started.
    unread: bool,
}

impl State {
    /// Wakes the process. The waker stays, as it seldom changes.
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

#[derive(Default)]
struct Shared(Mutex<State>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// Creates an empty inbox with its sender.
pub(crate) fn channel() -> (Sender, Inbox) {
    let shared = Arc::<Shared>::default();
    (Sender(shared.clone()), Inbox(shared))
}

/// Sends tasks to a process.
pub(crate) struct Sender(Arc<Shared>);

impl Sender {
    /// Sends a task. If the process is down, the task does not run.
    pub(crate) fn send(&self, task: Task) {
        let mut state = self.0.lock();
        if state.unread {
            // Dropping a task may drop a sender, so the lock is released first.
            drop(state);
            return drop(task);
        }
        state.tasks.push(task);
        state.wake();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.unasked = true;
        state.wake();
    }
}

/// Receives the tasks of a process.
pub(crate) struct Inbox(Arc<Shared>);

impl Inbox {
    /// Moves the waiting tasks into `tasks`, which is empty, in the order in which they were sent. False if there will
    /// be no more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, tasks: &mut Vec<Task>) -> Poll<bool> {
        let mut state = self.0.lock();
        // Tasks send other tasks while they run, so the waker is kept even if there are some now.
        keep(&mut state.waker, cx.waker());
        if !state.tasks.is_empty() {
            std::mem::swap(&mut state.tasks, tasks);
            Poll::Ready(true)
        } else if state.unasked {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.unread = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(tasks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_in_order_and_the_end_after_the_last() {
        let (sender, mut inbox) = channel();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(inbox.poll(&mut cx, &mut Vec::new()).is_pending());
        sender.send(Box::pin(std::future::ready(())));
        sender.send(Box::pin(std::future::pending()));
        drop(sender);
        let mut tasks = Vec::new();
        assert_eq!(inbox.poll(&mut cx, &mut tasks), Poll::Ready(true), "two tasks wait");
        let ready: Vec<bool> = tasks.iter_mut().map(|task| task.as_mut().poll(&mut cx).is_ready()).collect();
        assert_eq!(ready, [true, false]);
        assert_eq!(inbox.poll(&mut cx, &mut Vec::new()), Poll::Ready(false));
    }

    #[test]
    fn an_unstarted_task_is_dropped_with_its_captures() {
        let (sender, inbox) = channel();
        let sender = Arc::new(sender);
        let owned = Arc::new(());
        let task = |owned: Arc<()>, sender: Arc<Sender>| -> Task { Box::pin(async move { drop((owned, sender)) }) };
        sender.send(task(owned.clone(), sender.clone()));
        drop(inbox);
        sender.send(task(owned.clone(), sender.clone()));
        assert_eq!((Arc::strong_count(&owned), Arc::strong_count(&sender)), (1, 1));
    }
}
