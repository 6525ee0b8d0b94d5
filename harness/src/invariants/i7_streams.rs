//! I7: the guarantees of every watch stream, as the properties that etcd's robustness tests check.
//!
//! | Property | Here |
//! |---|---|
//! | ordered | revisions on a stream only grow |
//! | unique, atomic | each revision is sent once, whole |
//! | reliable | no selected revision before the last sent one is missing |
//! | resumable | a stream that resumes after a revision begins with the first selected one after it |
//! | bookmarked | a bookmark's revision is not newer than a selected event that is not yet sent |
//! | filtered | only selected events are sent |
//! | creation | ADDED, MODIFIED and DELETED match the object's earlier state on this stream |
//!
//! Streams that select by labels are checked only for their order. The same holds for streams of Leases and Events,
//! whose commits are in the trace only at its trace level. The server reports the effect of a fault on a stream
//! (`watch: gap`); this effect is allowed.
//!
//! Commits are kept for [`KEPT`], three times as long as the API server keeps its history. If a stream is further
//! behind, from then on only its order is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_apiserver::events::{Commit, Load, Reset, WatchClosed, WatchEventType, WatchOpened, WatchSent, WatchSpoiled};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};

use super::{Checked, Found, Id};

/// Time for which a commit is kept, in milliseconds.
const KEPT: u64 = 15 * 60 * 1000;
/// Interval in milliseconds at which older commits are removed.
const SWEEP: u64 = 60 * 1000;

/// A commit in a list of selected commits.
#[derive(Debug)]
struct Entry {
    rv: u64,
    ms: u64,
    object: Arc<str>,
    event_type: WatchEventType,
}

/// Commits that a stream selects.
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
    /// The newest revision that was sent, by an event or a bookmark.
    at: u64,
    /// The first selected commit that was not sent yet.
    next: usize,
    /// Revisions that a fault has omitted.
    excused: BTreeSet<u64>,
    reported: bool,
}

/// All streams, and all commits that they may send.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<(Arc<str>, u64), Stream>,
    commits: BTreeMap<Of, Vec<Entry>>,
    /// The node that a pod was on at its last commit. Unlike the model, a load of a saved state empties it.
    nodes: BTreeMap<Arc<str>, Option<String>>,
    /// The newest revision that was forgotten.
    forgotten: u64,
    /// Time of the last removal of old commits, in milliseconds.
    swept: u64,
}

impl Streams {
    /// Returns true if an event concerns a stream, and no other checker.
    pub(super) fn sees(&self, event: &Event) -> bool {
        event.is::<WatchSent>() || event.is::<WatchOpened>() || event.is::<WatchClosed>() || event.is::<WatchSpoiled>()
    }

    /// Records commits and the ends of streams.
    pub(super) fn learn(&mut self, event: &Event, checked: &mut Checked) {
        if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit, event.ms);
            if event.ms >= self.swept + SWEEP {
                self.swept = event.ms;
                self.forget(event.ms.saturating_sub(KEPT), checked);
            }
        } else if event.is::<Load>() || event.is::<Reset>() {
            *self = Self { swept: event.ms, ..Self::default() };
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
        if sent.r#type == WatchEventType::Error || (sent.initial && sent.r#type != WatchEventType::Bookmark) {
            return None;
        }
        checked.add(Id::I7, 1);
        let wrong = stream.take(sent, self.commits.get(&stream.of).map_or(&[], Vec::as_slice));
        // A wrong stream is reported once.
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
        let judged =
            !opened.filtered && !matches!(resource.as_str(), "leases" | "events") && opened.from_rv >= self.forgotten;
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

    /// Forgets the commits before `before`, in milliseconds.
    fn forget(&mut self, before: u64, checked: &mut Checked) {
        for (of, commits) in &mut self.commits {
            let old = commits.partition_point(|entry| entry.ms < before);
            if old == 0 {
                continue;
            }
            for stream in self.open.values_mut().filter(|stream| stream.of == *of) {
                let unsent = commits.get(stream.next..old).unwrap_or_default();
                let owes = |e: &Entry| stream.selects(&e.object) && !stream.excused.contains(&e.rv);
                if stream.judged && unsent.iter().any(owes) {
                    stream.judged = false;
                    checked.unjudged_streams += 1;
                }
                stream.next = stream.next.saturating_sub(old);
            }
            let last = commits.drain(..old).next_back();
            self.forgotten = self.forgotten.max(last.map_or(0, |entry| entry.rv));
        }
        self.commits.retain(|_, commits| !commits.is_empty());
    }

    fn on_commit(&mut self, commit: &Commit, ms: u64) {
        let resource = commit.resource.as_str();
        let event_type = match commit.r#type {
            EventType::Added => WatchEventType::Added,
            EventType::Deleted => WatchEventType::Deleted,
            _ => WatchEventType::Modified,
        };
        let entry = |event_type| Entry { rv: commit.rv, ms, object: commit.object.clone(), event_type };
        self.commits.entry(Of::All(resource.to_owned())).or_default().push(entry(event_type));
        let by_name = Of::Object(resource.to_owned(), commit.object.to_string());
        self.commits.entry(by_name).or_default().push(entry(event_type));
        let Some(pod) = &commit.pod else { return };
        let now = pod.node.as_deref().filter(|node| !node.is_empty()).map(str::to_owned);
        let before = match event_type {
            WatchEventType::Deleted => self.nodes.remove(&commit.object),
            _ => self.nodes.insert(commit.object.clone(), now.clone()),
        };
        let before = before.flatten();
        // For a stream of a node's pods, a pod that is bound to the node is new.
        let event_type = match event_type {
            WatchEventType::Deleted => WatchEventType::Deleted,
            _ if before == now => WatchEventType::Modified,
            _ => WatchEventType::Added,
        };
        if let Some(node) = now {
            self.commits.entry(Of::Node(resource.to_owned(), node)).or_default().push(entry(event_type));
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
    /// Records a sent event, and returns its mistake, if any.
    fn take(&mut self, sent: &WatchSent, commits: &[Entry]) -> Option<String> {
        let (rv, bookmark) = (sent.rv, sent.r#type == WatchEventType::Bookmark);
        if bookmark && rv < self.at || !bookmark && rv <= self.at {
            return Some(format!("sends revision {rv} after {}", self.at));
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
            return Some(format!("sends revision {rv} of {object}, which is not selected or was never committed"));
        };
        self.next += 1;
        if *entry.object != *object || !self.selects(object) {
            return Some(format!("sends revision {rv} as of {object}, and it is of {}", entry.object));
        }
        (entry.event_type != sent.r#type)
            .then(|| format!("sends revision {rv} of {object} as {:?}, and it is {:?}", sent.r#type, entry.event_type))
    }

    fn selects(&self, object: &str) -> bool {
        let namespace = object.split_once('/').map(|(namespace, _)| namespace);
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use serde_json::{Value, json};
    use substrate::{Clock, Level, Line, Trace};

    use super::*;

    /// Returns the state of the streams after `lines`: the findings, the counts, and the number of kept commits.
    fn after(lines: &[Value]) -> (Vec<String>, Checked, usize) {
        let trace = Trace::new(Clock::live(), Level::Info);
        let state = Arc::new(Mutex::new((Streams::default(), Checked::default(), Vec::new())));
        let into = state.clone();
        trace.observe(move |event| {
            let (streams, checked, found) = &mut *into.lock();
            if streams.sees(event) {
                found.extend(streams.check(event, checked).map(|found| found.message));
            } else {
                streams.learn(event, checked);
            }
        });
        for line in lines {
            let line: Line = serde_json::from_value(line.clone()).unwrap();
            trace.adopt(&crate::events::all(), line).unwrap();
        }
        let (streams, checked, found) = std::mem::take(&mut *state.lock());
        let kept = streams.commits.values().map(Vec::len).sum();
        (found, checked, kept)
    }

    fn commit(minute: u64, rv: u64, object: &str) -> Value {
        json!({
            "ms": minute * 60_000, "n": 1, "process": "fake-apiserver", "kind": "api.commit", "object": object,
            "resource": "configmaps", "rv": rv, "type": "MODIFIED", "user": "u", "verb": "update",
        })
    }

    fn opened(minute: u64, stream: u64, from_rv: u64, namespace: Option<&str>) -> Value {
        let mut line = json!({
            "ms": minute * 60_000, "n": 1, "process": "fake-apiserver", "kind": "watch.opened", "caller": "c",
            "from_rv": from_rv, "group": "", "resource": "configmaps", "stream": stream,
        });
        if let Some(namespace) = namespace {
            line["namespace"] = namespace.into();
        }
        line
    }

    fn sent(minute: u64, stream: u64, rv: u64, object: &str) -> Value {
        json!({
            "ms": minute * 60_000, "n": 1, "process": "fake-apiserver", "kind": "watch.sent", "object": object,
            "rv": rv, "stream": stream, "type": "MODIFIED",
        })
    }

    #[test]
    fn commits_of_a_long_run_are_forgotten_and_streams_are_judged_as_before() {
        let mut lines = vec![opened(0, 1, 0, None), opened(0, 2, 0, Some("quiet"))];
        for minute in 1..=200 {
            lines.extend([commit(minute, minute, "busy/a"), sent(minute, 1, minute, "busy/a")]);
        }
        lines.extend([commit(201, 201, "quiet/a"), sent(201, 2, 201, "quiet/a"), sent(201, 1, 201, "quiet/a")]);
        let (found, checked, kept) = after(&lines);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!((checked.get(Id::I7), checked.unjudged_streams), (202, 0));
        // Each commit is in the list of its resource and in that of its object.
        assert!(kept < 2 * 20, "{kept}");
        // A missing event is also found after a long time.
        let (found, ..) = after(
            &[&lines[..], &[commit(202, 202, "b/b"), commit(203, 203, "b/b"), sent(203, 1, 203, "b/b")]].concat(),
        );
        assert!(found[0].contains("has left out revision 202"), "{found:?}");
    }

    #[test]
    fn a_stream_that_is_far_behind_is_judged_by_its_order_alone() {
        let mut lines = vec![opened(0, 1, 0, None)];
        lines.extend((1..=60).map(|minute| commit(minute, minute, "busy/a")));
        lines.extend([sent(60, 1, 60, "busy/a"), opened(60, 2, 5, None), sent(60, 2, 60, "busy/a")]);
        let (found, checked, _) = after(&lines);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(checked.unjudged_streams, 2);
        let (found, ..) = after(&[&lines[..], &[sent(60, 1, 59, "busy/a")]].concat());
        assert!(found[0].contains("sends revision 59 after 60"), "{found:?}");
    }
}
