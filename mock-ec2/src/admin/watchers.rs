//! Readers of all transitions.

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use substrate::json::Value;
use tokio::sync::mpsc;

use crate::cloud::{Listener, PublishedEvent};

/// Number of events that wait for a slow reader before its stream is cut.
const BACKLOG: usize = 4_096;

/// Readers of all transitions.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Vec<mpsc::Sender<Bytes>>>);

impl Watchers {
    /// Opens a stream.
    pub(super) fn follow(&self) -> mpsc::Receiver<Bytes> {
        let (events, stream) = mpsc::channel(BACKLOG);
        let mut all = self.lock();
        // Closed streams are only noticed here if there was no event since.
        all.retain(|events| !events.is_closed());
        all.push(events);
        stream
    }

    fn lock(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Bytes>>> {
        self.0.lock()
    }
}

impl Listener for Watchers {
    /// Sends an event to all readers. A closed stream, or one that is too slow, ends.
    fn on_event(&self, published: &PublishedEvent<'_>) {
        let mut all = self.lock();
        if all.is_empty() {
            return;
        }
        let event = published.event.content();
        let data = Value::from(event.fields());
        let ms = published.now.mono.as_millis();
        let text = Bytes::from(format!("id: {ms}\nevent: {}\ndata: {data}\n\n", event.kind()));
        all.retain(|events| events.try_send(text.clone()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_watcher_that_left_is_dropped() {
        let watchers = Watchers::default();
        let stays = watchers.follow();
        for _ in 0..10 {
            drop(watchers.follow());
        }
        assert_eq!(watchers.lock().len(), 2, "those who stay, and the last who left");
        drop(stays);
    }
}
