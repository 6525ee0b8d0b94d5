//! Who watches what. A commit reaches only the watchers whose kind, namespace and selectors it concerns.
//!
//! Watches of one object or of one node's pods are found by an index, so that a hundred nodes that each watch their
//! own pods cost a commit no more than one does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::kinds::{self, Kind};
use crate::state::selector::Selector;
use crate::state::{Event, EventType, Object, name_of, position, told};

/// Events that may wait for a slow watcher before its stream is closed (upstream: 10 to 1000 by resource; R16).
const CHANNEL: usize = 1000;

/// What a watcher is told of a commit.
#[derive(Clone)]
pub(crate) struct Delivery {
    /// The commit.
    pub event: Arc<Event>,
    /// What it is to this watcher.
    pub told: EventType,
    /// How many are told of it.
    pub crowd: u32,
}

/// Names a watcher among those of its kind.
pub(crate) type Ticket = (usize, u64);

struct Watcher {
    namespace: Option<String>,
    selector: Selector,
    after: u64,
    sender: mpsc::Sender<Delivery>,
}

/// The one value by which a watcher can be found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// It may be concerned by any object.
    Any,
    /// Only by the object of this name.
    Name(String),
    /// Only by pods of this node.
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
    /// No watchers.
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

    /// Takes a watcher away.
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

    /// How many watchers there are.
    pub(crate) fn len(&self) -> usize {
        self.boards.iter().map(|board| board.watchers.len()).sum()
    }

    /// Tells a commit to those whom it concerns. One who does not keep up is dropped: its stream ends (R16).
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

/// Where the watchers are that an event can concern, each place once.
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
