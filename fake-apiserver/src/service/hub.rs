//! Registry of watchers. A commit reaches only watchers whose kind, namespace and selectors match.
//!
//! Watches of one object or of one node's pods are found by an index. So a commit costs the same with a hundred nodes
//! that each watch their own pods as with one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::kinds::{self, Kind};
use crate::state::selector::Selector;
use crate::state::{Event, EventType, Object, event_type_for, name_of, position};

/// Maximum number of events that wait for a slow watcher before its stream is closed. Upstream's channel has 10 to
/// 1000, by resource.
const CHANNEL: usize = 1000;

/// A commit for one watcher.
#[derive(Clone)]
pub(crate) struct Delivery {
    /// The commit.
    pub event: Arc<Event>,
    /// Type of the event for this watcher.
    pub event_type: EventType,
    /// Number of watchers that receive it.
    pub receivers: u32,
}

/// Identifies a watcher among those of its kind.
pub(crate) type WatcherId = (usize, u64);

struct Watcher {
    namespace: Option<String>,
    selector: Selector,
    after: u64,
    sender: mpsc::Sender<Delivery>,
}

/// Index value of a watcher.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IndexKey {
    /// Any object may concern it.
    Any,
    /// Only the object of this name concerns it.
    Name(String),
    /// Only pods of this node concern it.
    Node(String),
}

#[derive(Default)]
struct WatcherIndex {
    watchers: BTreeMap<u64, Watcher>,
    index_keys: BTreeMap<IndexKey, Vec<u64>>,
}

/// All watchers of one server.
pub(crate) struct Hub {
    indexes: Vec<WatcherIndex>,
    next: u64,
    /// Seeded bug: a namespace matches each one whose name begins with it.
    pub(super) matches_prefixes: bool,
}

impl Hub {
    /// Creates a hub without watchers.
    pub(crate) fn new() -> Self {
        Self { indexes: Vec::new(), next: 0, matches_prefixes: false }
    }

    /// Adds a watcher of a stored kind for commits above `after`.
    pub(crate) fn subscribe(
        &mut self,
        kind: &Kind,
        namespace: Option<String>,
        selector: Selector,
        after: u64,
    ) -> (WatcherId, mpsc::Receiver<Delivery>) {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let index = position(kind);
        self.next += 1;
        let id = self.next;
        if self.indexes.len() <= index {
            self.indexes.resize_with(index + 1, WatcherIndex::default);
        }
        self.indexes[index].index_keys.entry(index_key(&selector)).or_default().push(id);
        self.indexes[index].watchers.insert(id, Watcher { namespace, selector, after, sender });
        ((index, id), receiver)
    }

    /// Removes a watcher.
    pub(crate) fn unsubscribe(&mut self, (index, id): WatcherId) {
        let Some(index) = self.indexes.get_mut(index) else { return };
        let Some(watcher) = index.watchers.remove(&id) else { return };
        let index_key = index_key(&watcher.selector);
        if let Some(ids) = index.index_keys.get_mut(&index_key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                index.index_keys.remove(&index_key);
            }
        }
    }

    /// Returns the number of watchers.
    pub(crate) fn len(&self) -> usize {
        self.indexes.iter().map(|index| index.watchers.len()).sum()
    }

    /// Sends a commit to the watchers that it concerns. A watcher whose channel is full is dropped, and its stream
    /// ends.
    pub(crate) fn dispatch(&mut self, event: &Arc<Event>) {
        let Some(index) = self.indexes.get(position(&event.kind)).filter(|index| !index.watchers.is_empty()) else {
            return;
        };
        let mut lost = Vec::new();
        let index_keys = index_keys(event);
        let receivers =
            index_keys.iter().filter_map(|index_key| index.index_keys.get(index_key)).map(Vec::len).sum::<usize>();
        let receivers = u32::try_from(receivers).unwrap_or(u32::MAX);
        for index_key in index_keys {
            for id in index.index_keys.get(&index_key).into_iter().flatten() {
                let Some(watcher) = index.watchers.get(id) else { continue };
                if event.revision <= watcher.after {
                    continue;
                }
                let is_near = |namespace: &&str| self.matches_prefixes && event.key.starts_with(*namespace);
                let namespace = watcher.namespace.as_deref().filter(|namespace| !is_near(namespace));
                let Some(event_type) = event_type_for(event, namespace, &watcher.selector) else {
                    continue;
                };
                match watcher.sender.try_send(Delivery { event: event.clone(), event_type, receivers }) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_) | TrySendError::Closed(_)) => lost.push(*id),
                }
            }
        }
        for id in lost {
            self.unsubscribe((position(&event.kind), id));
        }
    }
}

fn index_key(selector: &Selector) -> IndexKey {
    let required = |field| selector.fields.required(field).map(str::to_owned);
    if let Some(name) = required("metadata.name") {
        IndexKey::Name(name)
    } else if let Some(node) = required("spec.nodeName") {
        IndexKey::Node(node)
    } else {
        IndexKey::Any
    }
}

/// Returns the index values of the watchers that an event can concern, each once.
fn index_keys(event: &Event) -> Vec<IndexKey> {
    let mut index_keys = vec![IndexKey::Any, IndexKey::Name(name_of(&event.key).to_owned())];
    if event.kind == kinds::PODS {
        let node =
            |object: &Option<Arc<Object>>| object.as_ref().map(|object| IndexKey::Node(object.node().to_owned()));
        let (old, new) = (node(&event.old), node(&event.new));
        if old != new {
            index_keys.extend(old);
        }
        index_keys.extend(new);
    }
    index_keys
}
