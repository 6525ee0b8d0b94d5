//! The bounded history of one kind: its events by revision, each with the object before and after.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use imbl::OrdMap;

use super::object::{Key, Object};
use super::status::Status;
use super::{LEAST, Limits};
use crate::kinds::KindRef;
pub use api_model::event_type::EventType;

/// One commit, shared by all watchers.
#[derive(Debug)]
pub struct Event {
    /// The revision.
    pub revision: u64,
    /// The kind of the object.
    pub kind: KindRef,
    /// The key of the object.
    pub key: Key,
    /// The object before; `None` when it was created.
    pub old: Option<Arc<Object>>,
    /// The object after; `None` when it was deleted.
    pub new: Option<Arc<Object>>,
    gone: OnceLock<Arc<Object>>,
}

impl Event {
    /// Creates the event of a commit.
    pub fn new(
        revision: u64,
        kind: KindRef,
        key: Key,
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
    ) -> Arc<Self> {
        Arc::new(Self { revision, kind, key, old, new, gone: OnceLock::new() })
    }

    /// Returns the event as the history has it: its objects without their trees. The object of a DELETED event is
    /// created on demand. It differs only in its revision from the object before, which is stored here.
    pub(super) fn folded(&self) -> Arc<Self> {
        let fold = |object: &Arc<Object>| object.folded();
        let (old, new) = (self.old.as_ref().map(fold), self.new.as_ref().map(fold));
        Self::new(self.revision, self.kind.clone(), self.key.clone(), old, new)
    }

    /// Returns the objects before and after.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }

    /// Returns the type of the change of the object itself, ignoring selectors.
    pub fn own_type(&self) -> EventType {
        match (&self.old, &self.new) {
            (_, None) => EventType::Deleted,
            (None, Some(_)) => EventType::Added,
            (Some(_), Some(_)) => EventType::Modified,
        }
    }

    /// Returns the object that a watch event of type `reported` carries: the new one, or for DELETED the last that matched,
    /// with the revision of this commit.
    pub fn object(&self, reported: EventType) -> Option<&Arc<Object>> {
        match reported {
            EventType::Added | EventType::Modified => self.new.as_ref(),
            EventType::Deleted => {
                let old = self.old.as_ref()?;
                Some(self.gone.get_or_init(|| {
                    let tree = old.value.read();
                    let keeps_tree = matches!(tree, Cow::Borrowed(_));
                    let gone = Object::new(&self.kind, tree.into_owned(), self.revision, EventType::Deleted);
                    if keeps_tree { gone } else { gone.folded() }
                }))
            }
        }
    }

    /// Returns the event as a JSON line, newline included. The line of an object that starts to match a selector
    /// (ADDED) is encoded on each call.
    pub fn line(&self, reported: EventType) -> Bytes {
        self.object(reported).map(|object| object.line(reported)).unwrap_or_default()
    }
}

/// The newest events of one kind. Few of them are read again, so their objects have no trees.
///
/// As on a real server there are two windows. A watch can start within the watch cache, which holds the newest events.
/// A list can go back as far as etcd has not yet compacted. An event is held while it is in either window.
#[derive(Debug)]
pub struct History {
    events: VecDeque<(Duration, Arc<Event>)>,
    limits: Limits,
    /// Number of the newest events that are in the window of watches.
    watched: usize,
    /// Size of all events in bytes.
    bytes: usize,
    /// Oldest revision at which a watch can start.
    floor: u64,
    /// Oldest revision that a list can go back to.
    compacted: u64,
}

/// Size of an event in bytes, apart from the encoded object.
const OVERHEAD: usize = 512;

fn weight(event: &Event) -> usize {
    // The object before belongs to an earlier event. For a deletion it counts here, since that event may be forgotten.
    event.new.as_ref().or(event.old.as_ref()).map_or(0, |object| object.size()) + OVERHEAD
}

impl History {
    /// Creates an empty history that begins after revision `floor`.
    pub fn new(limits: Limits, floor: u64) -> Self {
        Self { events: VecDeque::new(), limits, watched: 0, bytes: 0, floor, compacted: floor }
    }

    /// Adds the newest event, at time `mono`, and drops events that are too many or too old.
    pub fn push(&mut self, mono: Duration, event: &Event) {
        let last = self.events.back().map_or(self.floor, |(_, last)| last.revision);
        debug_assert!(event.revision > last, "revision {} of {} follows {last}", event.revision, event.key);
        let event = event.folded();
        self.bytes += weight(&event);
        self.events.push_back((mono, event));
        self.watched += 1;
        self.trim(mono);
    }

    /// Drops events that are in neither window at time `mono`.
    fn trim(&mut self, mono: Duration) {
        let old = mono.saturating_sub(self.limits.fresh);
        while let Some((at, oldest)) = self.events.len().checked_sub(self.watched).and_then(|i| self.events.get(i))
            && (self.watched > self.limits.history.max(1) || self.watched > LEAST && *at < old)
        {
            self.floor = oldest.revision;
            self.watched -= 1;
        }
        while self.events.len() > self.watched {
            let Some((_, oldest)) = self.events.front() else { break };
            let many = self.events.len() > self.limits.history || self.bytes > self.limits.history_bytes;
            if !many && oldest.revision > self.compacted {
                break;
            }
            self.compacted = self.compacted.max(oldest.revision);
            self.pop();
        }
        // Memory that a burst of writes took is given back.
        if self.events.capacity() > LEAST.max(4 * self.events.len()) {
            self.events.shrink_to(2 * self.events.len());
        }
    }

    fn pop(&mut self) {
        if let Some((_, oldest)) = self.events.pop_front() {
            self.bytes -= weight(&oldest);
        }
    }

    /// Returns the oldest revision at which a watch can start.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Lets lists go back to `revision`, but not further, at time `mono`. Returns the number of dropped events.
    pub fn compact(&mut self, mono: Duration, revision: u64) -> u64 {
        self.compacted = self.compacted.max(revision);
        let before = self.events.len();
        self.trim(mono);
        (before - self.events.len()) as u64
    }

    /// Returns the events above `revision` that can be packed, oldest first: their objects are not the `present` ones
    /// of their kind, and their text is not packed yet.
    pub(super) fn unpacked<'a>(
        &'a self,
        revision: u64,
        present: &'a OrdMap<Key, Arc<Object>>,
    ) -> impl Iterator<Item = &'a Arc<Event>> {
        self.above(revision).filter(move |event| {
            let is_present = |object: &Arc<Object>| {
                present.get(&event.key).is_some_and(|present| present.revision == object.revision)
            };
            event.objects().any(|object| object.is_packable() && !is_present(object))
        })
    }

    /// Replaces an event, if the history still holds it.
    pub(super) fn replace(&mut self, old: &Arc<Event>, new: Arc<Event>) {
        let at = self.events.partition_point(|(_, event)| event.revision < old.revision);
        if let Some((_, event)) = self.events.get_mut(at).filter(|(_, event)| Arc::ptr_eq(event, old)) {
            *event = new;
        }
    }

    /// Drops every event up to and including `revision`, from both windows.
    pub fn forget(&mut self, revision: u64) {
        while self.events.front().is_some_and(|(_, e)| e.revision <= revision) {
            self.pop();
        }
        self.watched = self.watched.min(self.events.len());
        self.floor = self.floor.max(revision);
        self.compacted = self.compacted.max(revision);
    }

    /// Returns the events above `revision` for a watch, oldest first.
    ///
    /// # Errors
    /// 410 Expired if some of them are no longer held.
    pub fn since(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Status> {
        if revision < self.floor {
            return Err(Status::expired(format!("too old resource version: {revision} ({})", self.floor)));
        }
        Ok(self.above(revision))
    }

    /// Returns the events above `revision` for a list at that revision; `None` if it is compacted.
    pub fn undone(&self, revision: u64) -> Option<impl DoubleEndedIterator<Item = &Arc<Event>>> {
        (revision >= self.compacted).then(|| self.above(revision))
    }

    fn above(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let from = self.events.partition_point(|(_, e)| e.revision <= revision);
        self.events.range(from..).map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;
    use substrate::{Now, Seed};

    use super::super::command::{Command, DeleteOptions, WriteOptions};
    use super::super::selector::Selector;
    use super::super::{Store, position};
    use super::*;
    use crate::kinds;

    #[test]
    fn objects_that_went_with_their_collection_have_no_trees_in_the_history() {
        let mut store = Store::new(&Seed::root(1), Limits { folds: true, ..Limits::default() });
        let now = Now::at(Duration::ZERO);
        store.bootstrap(now);
        let namespace = Some("default".to_owned());
        let kind: KindRef = kinds::PODS.into();
        for name in ["a", "b"] {
            let spec = json!({"containers": [{"name": "c", "image": "i"}]});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            let options = WriteOptions::default();
            store
                .apply(now, Command::Create { kind: kind.clone(), namespace: namespace.clone(), object, options })
                .unwrap();
        }
        let (selector, options) = (Selector::default(), DeleteOptions::default());
        store.apply(now, Command::DeleteCollection { kind: kind.clone(), namespace, selector, options }).unwrap();
        // As the trace does.
        for event in store.take_committed() {
            let object = event.new.as_ref().or(event.old.as_ref()).unwrap();
            assert_eq!(object.value["kind"], event.kind.kind);
        }
        let history = &store.kind_stores[position(&kind)].history;
        let held = history
            .events
            .iter()
            .flat_map(|(_, event)| [event.old.clone(), event.new.clone(), event.gone.get().cloned()]);
        assert!(history.events.len() >= 4);
        assert_eq!(held.flatten().filter(|object| object.value.is_parsed()).count(), 0);
    }
}
