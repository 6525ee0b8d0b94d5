//! Objects of one kind, with their last changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use fake_apiserver::events::Commit;
use fake_apiserver::state::{EventType, Object};

/// Maximum number of changes of a kind to remember, for lists of past revisions.
const KEPT: usize = 256;

/// A stored object.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its revision.
    pub rv: u64,
    /// Its content, if an observer has seen it.
    pub object: Option<Arc<Object>>,
}

/// Objects by key.
pub(super) type Objects = BTreeMap<Arc<str>, Entry>;

#[derive(Debug)]
struct Change {
    rv: u64,
    key: Arc<str>,
    before: Option<Entry>,
}

/// Objects of one kind.
#[derive(Debug, Default)]
pub(super) struct KindObjects {
    present: Objects,
    changes: VecDeque<Change>,
    /// The oldest revision that can be reconstructed.
    floor: u64,
}

impl KindObjects {
    /// Records a commit, and returns the object before it.
    pub fn commit(&mut self, commit: &Commit) -> Option<Entry> {
        let key = &commit.object;
        let before = match commit.r#type {
            EventType::Deleted => self.present.remove(key),
            _ => self.present.insert(key.clone(), Entry { rv: commit.rv, object: None }),
        };
        // Past objects are kept without their trees, as the server's history keeps them.
        let fold = |entry: &Entry| Entry { rv: entry.rv, object: entry.object.as_ref().map(|object| object.folded()) };
        self.changes.push_back(Change { rv: commit.rv, key: key.clone(), before: before.as_ref().map(fold) });
        if self.changes.len() > KEPT
            && let Some(oldest) = self.changes.pop_front()
        {
            self.floor = oldest.rv;
        }
        before
    }

    /// Records the content of an object.
    pub fn hold(&mut self, key: &str, object: &Arc<Object>) {
        if let Some(entry) = self.present.get_mut(key).filter(|entry| entry.rv == object.revision) {
            entry.object = Some(object.clone());
        }
    }

    /// Returns an object.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.present.get(key)
    }

    /// Returns the key of the first object in a namespace.
    pub fn first_in(&self, namespace: &str) -> Option<&str> {
        let prefix = format!("{namespace}/");
        let (key, _) = self.present.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded)).next()?;
        key.starts_with(&prefix).then_some(&**key)
    }

    /// Returns the objects at a revision; `None` if it is too old.
    pub fn at(&self, rv: u64) -> Option<Cow<'_, Objects>> {
        if self.changes.back().is_none_or(|last| last.rv <= rv) {
            return Some(Cow::Borrowed(&self.present));
        }
        if rv < self.floor {
            return None;
        }
        let mut objects = self.present.clone();
        for change in self.changes.iter().rev().take_while(|change| change.rv > rv) {
            match &change.before {
                Some(entry) => objects.insert(change.key.clone(), entry.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(Cow::Owned(objects))
    }
}
