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
use crate::state::{Event, EventType, Object, name_of, position, told};

/// Maximum number of events that wait for a slow watcher before its stream is closed. Upstream's channel has 10 to
/// 1000, by resource.
const CHANNEL: usize = 1000;

/// A commit for one watcher.
#[derive(Clone)]
pub(crate) struct Delivery {
    /// The commit.
    pub event: Arc<Event>,
    /// Type of the event for this watcher.
    pub told: EventType,
    /// Number of watchers that receive it.
    pub crowd: u32,
}

/// Identifies a watcher among those of its kind.
pub(crate) type Ticket = (usize, u64);

struct Watcher {
    namespace: Option<String>,
    selector: Selector,
    after: u64,
    sender: mpsc::Sender<Delivery>,
}

/// Index value of a watcher.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Any object may concern it.
    Any,
    /// Only the object of this name concerns it.
    Name(String),
    /// Only pods of this node concern it.
    Node(String),
}

#[derive(Default)]
struct Board {
    watchers: BTreeMap<u64, Watcher>,
    places: BTreeMap<Place, Vec<u64>>,
}

/// All watchers of one server.
pub(crate) struct Hub {
    boards: Vec<Board>,
    next: u64,
}

impl Hub {
    /// Creates a hub without watchers.
    pub(crate) fn new() -> Self {
        Self { boards: Vec::new(), next: 0 }
    }

    /// Adds a watcher of a stored kind for commits above `after`.
    pub(crate) fn subscribe(
        &mut self,
        kind: &Kind,
        namespace: Option<String>,
        selector: Selector,
        after: u64,
    ) -> (Ticket, mpsc::Receiver<Delivery>) {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let board = position(kind);
        self.next += 1;
        let id = self.next;
        if self.boards.len() <= board {
            self.boards.resize_with(board + 1, Board::default);
        }
        self.boards[board].places.entry(place(&selector)).or_default().push(id);
        self.boards[board].watchers.insert(id, Watcher { namespace, selector, after, sender });
        ((board, id), receiver)
    }

    /// Removes a watcher.
    pub(crate) fn unsubscribe(&mut self, (board, id): Ticket) {
        let Some(board) = self.boards.get_mut(board) else { return };
        let Some(watcher) = board.watchers.remove(&id) else { return };
        let place = place(&watcher.selector);
        if let Some(ids) = board.places.get_mut(&place) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                board.places.remove(&place);
            }
        }
    }

    /// Returns the number of watchers.
    pub(crate) fn len(&self) -> usize {
        self.boards.iter().map(|board| board.watchers.len()).sum()
    }

    /// Sends a commit to the watchers that it concerns. A watcher whose channel is full is dropped, and its stream
    /// ends.
    pub(crate) fn dispatch(&mut self, event: &Arc<Event>) {
        let Some(board) = self.boards.get(position(&event.kind)).filter(|board| !board.watchers.is_empty()) else {
            return;
        };
        let mut lost = Vec::new();
        let places = places(event);
        let crowd = places.iter().filter_map(|place| board.places.get(place)).map(Vec::len).sum::<usize>();
        let crowd = u32::try_from(crowd).unwrap_or(u32::MAX);
        for place in places {
            for id in board.places.get(&place).into_iter().flatten() {
                let Some(watcher) = board.watchers.get(id) else { continue };
                if event.revision <= watcher.after {
                    continue;
                }
                let Some(told) = told(event, watcher.namespace.as_deref(), &watcher.selector) else { continue };
                match watcher.sender.try_send(Delivery { event: event.clone(), told, crowd }) {
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

fn place(selector: &Selector) -> Place {
    let required = |field| selector.fields.required(field).map(str::to_owned);
    if let Some(name) = required("metadata.name") {
        Place::Name(name)
    } else if let Some(node) = required("spec.nodeName") {
        Place::Node(node)
    } else {
        Place::Any
    }
}

/// Returns the index values of the watchers that an event can concern, each once.
fn places(event: &Event) -> Vec<Place> {
    let mut places = vec![Place::Any, Place::Name(name_of(&event.key).to_owned())];
    if event.kind == kinds::PODS {
        let node = |object: &Option<Arc<Object>>| object.as_ref().map(|object| Place::Node(object.node().to_owned()));
        let (old, new) = (node(&event.old), node(&event.new));
        if old != new {
            places.extend(old);
        }
        places.extend(new);
    }
    places
}
