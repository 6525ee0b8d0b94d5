//! The bounded history of one kind: what changed, revision by revision, with what was there before.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
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

    /// The same commit for those who come later: its objects without their trees.
    fn folded(&self) -> Arc<Self> {
        let fold = |object: &Arc<Object>| object.folded();
        let (old, new) = (self.old.as_ref().map(fold), self.new.as_ref().map(fold));
        let gone = self.gone.get().map(fold).map_or_else(OnceLock::new, OnceLock::from);
        Arc::new(Self { revision: self.revision, kind: self.kind.clone(), key: self.key.clone(), old, new, gone })
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
                Some(
                    self.gone
                        .get_or_init(|| Object::new(&self.kind, old.value.clone(), self.revision, EventType::Deleted)),
                )
            }
        }
    }

    /// The event as a JSON line, newline included; ADDED after a change of selection is rare, and encoded each time.
    pub fn line(&self, told: EventType) -> Bytes {
        self.object(told).map(|object| object.line(told)).unwrap_or_default()
    }
}

/// The newest events of one kind. Few of them are ever looked at again, so their objects have no trees.
#[derive(Debug)]
pub struct History {
    events: VecDeque<(Duration, Arc<Event>)>,
    limits: Limits,
    /// The newest revision that is no longer held; revisions above it are complete.
    floor: u64,
}

impl History {
    /// An empty history that begins after revision `floor`.
    pub fn new(limits: Limits, floor: u64) -> Self {
        Self { events: VecDeque::new(), limits, floor }
    }

    /// Adds the newest event, at time `mono`, and forgets those that are too many or too old.
    pub fn push(&mut self, mono: Duration, event: &Event) {
        self.events.push_back((mono, event.folded()));
        let old = mono.saturating_sub(self.limits.fresh);
        while self.events.len() > self.limits.history.max(1)
            || (self.events.len() > LEAST && self.events.front().is_some_and(|(at, _)| *at < old))
        {
            let Some((_, oldest)) = self.events.pop_front() else { break };
            self.floor = oldest.revision;
        }
    }

    /// The oldest revision that the events lead back to.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Forgets every event up to and including `revision`.
    pub fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|(_, e)| e.revision <= revision) {
            self.events.pop_front();
        }
        self.floor = self.floor.max(revision);
    }

    /// The events above `revision`, oldest first.
    ///
    /// # Errors
    /// 410 Expired when some of them are no longer held (R12).
    pub fn since(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Status> {
        if revision < self.floor {
            return Err(Status::expired(format!("too old resource version: {revision} ({})", self.floor)));
        }
        let from = self.events.partition_point(|(_, e)| e.revision <= revision);
        Ok(self.events.range(from..).map(|(_, event)| event))
    }
}
