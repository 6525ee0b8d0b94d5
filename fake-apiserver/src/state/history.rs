//! The bounded history of one kind: what changed, revision by revision, with what was there before.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::object::{Key, Object};
use super::status::Status;
use super::{LEAST, Limits};
use crate::kinds::KindRef;

/// What a watcher is told about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// It is there now.
    Added,
    /// It is different now.
    Modified,
    /// It is gone, or the selector no longer matches it.
    Deleted,
}

impl EventType {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One commit, which every watcher shares.
#[derive(Debug)]
pub struct Event {
    /// The revision.
    pub revision: u64,
    /// What kind of object.
    pub kind: KindRef,
    /// Which one.
    pub key: Key,
    /// The object before; none when it was created.
    pub old: Option<Arc<Object>>,
    /// The object after; none when it was deleted.
    pub new: Option<Arc<Object>>,
    gone: OnceLock<Arc<Object>>,
}

impl Event {
    /// A commit.
    pub fn new(
        revision: u64,
        kind: KindRef,
        key: Key,
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
    ) -> Arc<Self> {
        Arc::new(Self { revision, kind, key, old, new, gone: OnceLock::new() })
    }

    /// The same commit for those who come later: its objects without their trees, and what is told of a deletion only
    /// when somebody asks for it. It is nearly the object before, which is there.
    pub(super) fn folded(&self) -> Arc<Self> {
        let fold = |object: &Arc<Object>| object.folded();
        let (old, new) = (self.old.as_ref().map(fold), self.new.as_ref().map(fold));
        Self::new(self.revision, self.kind.clone(), self.key.clone(), old, new)
    }

    /// The objects before and after.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }

    /// What happened to the object itself, whatever a selector makes of it.
    pub fn own_type(&self) -> EventType {
        match (&self.old, &self.new) {
            (_, None) => EventType::Deleted,
            (None, Some(_)) => EventType::Added,
            (Some(_), Some(_)) => EventType::Modified,
        }
    }

    /// The object that an event of type `told` carries: the new one, or for DELETED the last that matched, with the
    /// revision of this commit (R14).
    pub fn object(&self, told: EventType) -> Option<&Arc<Object>> {
        match told {
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

    /// The event as a JSON line, newline included; ADDED after a change of selection is rare, and encoded each time.
    pub fn line(&self, told: EventType) -> Bytes {
        self.object(told).map(|object| object.line(told)).unwrap_or_default()
    }
}

/// The newest events of one kind. Few of them are ever looked at again, so their objects have no trees.
///
/// There are two windows on them, as there are two of a real server: what a watch can begin with is the server's cache
/// of the newest events, and what a list can go back to is what etcd has not yet compacted. An event is held while it is
/// in either.
#[derive(Debug)]
pub struct History {
    events: VecDeque<(Duration, Arc<Event>)>,
    limits: Limits,
    /// How many of them, the newest, are in the window of watches.
    watched: usize,
    /// What all of them weigh.
    bytes: usize,
    /// Watches can begin at this revision and later.
    floor: u64,
    /// Lists can go back to this revision.
    compacted: u64,
}

/// What an event weighs beside the line that tells of it.
const OVERHEAD: usize = 512;

fn weight(event: &Event) -> usize {
    // The object before is that of an earlier event; of a deletion that one may have been forgotten.
    event.new.as_ref().or(event.old.as_ref()).map_or(0, |object| object.size()) + OVERHEAD
}

impl History {
    /// An empty history that begins after revision `floor`.
    pub fn new(limits: Limits, floor: u64) -> Self {
        Self { events: VecDeque::new(), limits, watched: 0, bytes: 0, floor, compacted: floor }
    }

    /// Adds the newest event, at time `mono`, and forgets those that are too many or too old.
    pub fn push(&mut self, mono: Duration, event: &Event) {
        let event = event.folded();
        self.bytes += weight(&event);
        self.events.push_back((mono, event));
        self.watched += 1;
        self.trim(mono);
    }

    /// Forgets what is in neither window at time `mono`.
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
        // What a burst of writes took is not kept for the next one.
        if self.events.capacity() > LEAST.max(4 * self.events.len()) {
            self.events.shrink_to(2 * self.events.len());
        }
    }

    fn pop(&mut self) {
        if let Some((_, oldest)) = self.events.pop_front() {
            self.bytes -= weight(&oldest);
        }
    }

    /// The oldest revision that a watch can begin at.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Lets lists go back to `revision` and no longer to what was before; at time `mono`. Gives how many events it
    /// forgets.
    pub fn compact(&mut self, mono: Duration, revision: u64) -> u64 {
        self.compacted = self.compacted.max(revision);
        let before = self.events.len();
        self.trim(mono);
        (before - self.events.len()) as u64
    }

    /// The events above `revision` that hold more than they need to, oldest first: objects that are not the `present`
    /// ones of their kind and whose text is not packed.
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

    /// Puts an event in the place of the same one.
    pub(super) fn replace(&mut self, old: &Arc<Event>, new: Arc<Event>) {
        let at = self.events.partition_point(|(_, event)| event.revision < old.revision);
        if let Some((_, event)) = self.events.get_mut(at).filter(|(_, event)| Arc::ptr_eq(event, old)) {
            *event = new;
        }
    }

    /// Forgets every event up to and including `revision`, in both windows.
    pub fn forget(&mut self, revision: u64) {
        while self.events.front().is_some_and(|(_, e)| e.revision <= revision) {
            self.pop();
        }
        self.watched = self.watched.min(self.events.len());
        self.floor = self.floor.max(revision);
        self.compacted = self.compacted.max(revision);
    }

    /// The events above `revision` for a watch, oldest first.
    ///
    /// # Errors
    /// 410 Expired when some of them are no longer held (R12).
    pub fn since(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Status> {
        if revision < self.floor {
            return Err(Status::expired(format!("too old resource version: {revision} ({})", self.floor)));
        }
        Ok(self.above(revision))
    }

    /// The events above `revision` for a list of that revision; nothing when it is compacted.
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
        let history = &store.shelves[position(&kind)].history;
        let held = history
            .events
            .iter()
            .flat_map(|(_, event)| [event.old.clone(), event.new.clone(), event.gone.get().cloned()]);
        assert!(history.events.len() >= 4);
        assert_eq!(held.flatten().filter(|object| object.value.is_there()).count(), 0);
    }
}
