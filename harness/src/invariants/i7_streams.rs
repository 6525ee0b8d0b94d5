//! I7: what every watch stream promises, by the properties that etcd's robustness tests check of its watches.
//!
//! | Property | Here |
//! |---|---|
//! | ordered | revisions on a stream only grow |
//! | unique, atomic | each revision is told once, whole |
//! | reliable | no selected revision before the last that was told is left out |
//! | resumable | a stream that goes on after a revision begins with the first selected one after it |
//! | bookmarked | a bookmark names no revision before which something selected is still to come |
//! | filtered | nothing is told that is not selected |
//! | creation | ADDED, MODIFIED and DELETED say what the object was to this stream before |
//!
//! Streams that select by labels, and those of Leases and Events, whose commits the trace has only at its trace level,
//! are judged by their order alone. What a fault did to a stream (`watch: gap`) is told by the server and excused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Load, Reset, Told, WatchClosed, WatchOpened, WatchSent, WatchSpoiled};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};

use super::{Checked, Found, Id};

/// A commit as a list of selected commits has it.
#[derive(Debug)]
struct Entry {
    rv: u64,
    object: Arc<str>,
    told: Told,
}

/// Which commits a stream is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    All(String),
    Object(String, String),
    Node(String, String),
}

#[derive(Debug)]
struct Stream {
    of: Of,
    namespace: Option<String>,
    caller: String,
    judged: bool,
    /// The newest revision that was told, by an event or a bookmark.
    at: u64,
    /// The first of the selected commits that was not told yet.
    next: usize,
    /// Revisions that a fault has left out.
    excused: BTreeSet<u64>,
    reported: bool,
}

/// All streams, and all commits that they may tell of.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<(Arc<str>, u64), Stream>,
    commits: BTreeMap<Of, Vec<Entry>>,
    /// The node that a pod was on at its last commit.
    nodes: BTreeMap<Arc<str>, Option<String>>,
}

impl Streams {
    /// Whether an event is about a stream, and about nothing else.
    pub(super) fn sees(&self, event: &Event) -> bool {
        event.is::<WatchSent>() || event.is::<WatchOpened>() || event.is::<WatchClosed>() || event.is::<WatchSpoiled>()
    }

    /// Takes in what is committed, and that streams end.
    pub(super) fn learn(&mut self, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit);
        } else if event.is::<Load>() || event.is::<Reset>() {
            *self = Self::default();
        } else if event.is::<ProcessCrashed>() || event.is::<ProcessStarted>() {
            self.open.retain(|(process, _), _| *process != event.process);
        }
    }

    pub(super) fn check(&mut self, event: &Event, checked: &mut Checked) -> Option<Found> {
        if let Some(opened) = event.get::<WatchOpened>() {
            self.on_opened(event, opened, checked);
            return None;
        }
        if let Some(WatchClosed { stream }) = event.get() {
            self.open.remove(&(event.process.clone(), *stream));
            return None;
        }
        if let Some(WatchSpoiled { stream, rv, .. }) = event.get() {
            let stream = self.open.get_mut(&(event.process.clone(), *stream))?;
            stream.excused.extend(*rv);
            return None;
        }
        let sent = event.get::<WatchSent>()?;
        let stream = self.open.get_mut(&(event.process.clone(), sent.stream))?;
        if sent.r#type == Told::Error || (sent.initial && sent.r#type != Told::Bookmark) {
            return None;
        }
        checked.add(Id::I7, 1);
        let wrong = stream.take(sent, self.commits.get(&stream.of).map_or(&[], Vec::as_slice));
        // A stream that is wrong once is wrong from then on.
        let wrong = wrong.filter(|_| !std::mem::replace(&mut stream.reported, true))?;
        let (resource, caller) = (stream.of.resource(), &stream.caller);
        Some(Found {
            message: format!("the watch of {resource} by {caller} (stream {}) {wrong}", sent.stream),
            operation: "watch".to_owned(),
            details: [("resource", resource.into()), ("rv", sent.rv.into())].into(),
            ..Found::default()
        })
    }

    fn on_opened(&mut self, event: &Event, opened: &WatchOpened, checked: &mut Checked) {
        let resource = opened.resource.to_string();
        let text = |text: &Option<substrate::json::Text>| text.as_deref().map(str::to_owned);
        let namespace = text(&opened.namespace);
        let judged = !opened.filtered && !matches!(resource.as_str(), "leases" | "events");
        if !judged {
            checked.unjudged_streams += 1;
        }
        let of = match (text(&opened.object), text(&opened.node)) {
            (Some(object), _) => {
                let key = namespace.as_ref().map_or(object.clone(), |namespace| format!("{namespace}/{object}"));
                Of::Object(resource, key)
            }
            (None, Some(node)) => Of::Node(resource, node),
            (None, None) => Of::All(resource),
        };
        let commits = self.commits.entry(of.clone()).or_default();
        let next = commits.partition_point(|entry| entry.rv <= opened.from_rv);
        let stream = Stream {
            of,
            namespace,
            caller: opened.caller.to_string(),
            judged,
            at: opened.from_rv,
            next,
            excused: BTreeSet::new(),
            reported: false,
        };
        self.open.insert((event.process.clone(), opened.stream), stream);
    }

    fn on_commit(&mut self, commit: &Commit) {
        let resource = commit.resource.as_str();
        let told = match commit.r#type {
            EventType::Added => Told::Added,
            EventType::Deleted => Told::Deleted,
            _ => Told::Modified,
        };
        let entry = |told| Entry { rv: commit.rv, object: commit.object.clone(), told };
        self.commits.entry(Of::All(resource.to_owned())).or_default().push(entry(told));
        let by_name = Of::Object(resource.to_owned(), commit.object.to_string());
        self.commits.entry(by_name).or_default().push(entry(told));
        let Some(pod) = &commit.pod else { return };
        let now = pod.node.as_deref().filter(|node| !node.is_empty()).map(str::to_owned);
        let before = match told {
            Told::Deleted => self.nodes.remove(&commit.object),
            _ => self.nodes.insert(commit.object.clone(), now.clone()),
        };
        let before = before.flatten();
        // To a stream of a node's pods, one that is bound there is new.
        let told = match told {
            Told::Deleted => Told::Deleted,
            _ if before == now => Told::Modified,
            _ => Told::Added,
        };
        if let Some(node) = now {
            self.commits.entry(Of::Node(resource.to_owned(), node)).or_default().push(entry(told));
        }
    }
}

impl Of {
    fn resource(&self) -> String {
        match self {
            Self::All(resource) | Self::Object(resource, _) | Self::Node(resource, _) => resource.clone(),
        }
    }
}

impl Stream {
    /// Takes in what was told; what is wrong with it, if anything.
    fn take(&mut self, sent: &WatchSent, commits: &[Entry]) -> Option<String> {
        let (rv, bookmark) = (sent.rv, sent.r#type == Told::Bookmark);
        if bookmark && rv < self.at || !bookmark && rv <= self.at {
            return Some(format!("tells of revision {rv} after {}", self.at));
        }
        self.at = rv;
        if !self.judged {
            return None;
        }
        while let Some(entry) = commits.get(self.next).filter(|entry| entry.rv < rv || bookmark && entry.rv == rv) {
            self.next += 1;
            if self.selects(&entry.object) && !self.excused.contains(&entry.rv) {
                let how = if bookmark { "has a bookmark at" } else { "goes on with" };
                return Some(format!("{how} revision {rv} and has left out revision {} of {}", entry.rv, entry.object));
            }
        }
        if bookmark {
            return None;
        }
        let object = sent.object.as_deref().unwrap_or_default();
        let Some(entry) = commits.get(self.next).filter(|entry| entry.rv == rv) else {
            return Some(format!("tells of revision {rv} of {object}, which is not selected or was never committed"));
        };
        self.next += 1;
        if *entry.object != *object || !self.selects(object) {
            return Some(format!("tells of revision {rv} as of {object}, and it is of {}", entry.object));
        }
        (entry.told != sent.r#type)
            .then(|| format!("tells of revision {rv} of {object} as {:?}, and it is {:?}", sent.r#type, entry.told))
    }

    fn selects(&self, object: &str) -> bool {
        let namespace = object.split_once('/').map(|(namespace, _)| namespace);
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
    }
}
