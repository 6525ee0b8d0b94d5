//! State that each process has received, compared with the stored state; and the desired and actual state of each
//! control loop.
//!
//! It is computed only from events: commits of the API server, messages on each watch stream, and the state that
//! control loops report to subscribers. A process may apply a message a moment after it was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use controllers::events::LoopState;
use fake_apiserver::events::{Commit, WatchClosed, WatchEventType, WatchOpened, WatchSent};
use fake_apiserver::state::EventType;
use serde::Serialize;
use substrate::events::ProcessCrashed;
use substrate::json::Text;
use substrate::{Event, EventType as _, Trace};

/// Knowledge of all processes after the events so far.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Each revision by resource and object, with a summary of the object. The model has only the last one.
    stored: BTreeMap<(String, String), Vec<Revision>>,
    streams: BTreeMap<u64, Stream>,
    /// State received by each watcher and resource.
    views: BTreeMap<(String, String), View>,
    loops: BTreeMap<(Arc<str>, Text), LoopState>,
}

/// An object at a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Revision; 0 if the object was unknown.
    pub rv: u64,
    /// Short summary of the object.
    pub is: String,
}

#[derive(Clone, Debug)]
struct Stream {
    key: (String, String),
}

#[derive(Clone, Debug, Default)]
struct View {
    /// All changes within its scope up to this revision were sent.
    floor: u64,
    objects: BTreeMap<String, u64>,
    open: bool,
    scope: Scope,
}

/// Selection of a stream.
#[derive(Clone, Debug, Default)]
struct Scope {
    namespace: Option<String>,
    object: Option<String>,
    node: Option<String>,
    /// True if it selects by labels or other fields, which commits do not contain.
    unknown: bool,
}

/// An object that a process knows at an older revision than the stored one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// Process that watches.
    pub who: String,
    /// Resource and object.
    pub object: String,
    /// Last revision that it received.
    pub knows: Revision,
    /// Stored revision.
    pub stored: Revision,
    /// True if its stream is open.
    pub watches: bool,
}

/// State of a control loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Process of the loop.
    pub process: String,
    /// Name of the loop.
    pub of: String,
    /// Desired state.
    pub desired: Vec<String>,
    /// Actual state, as the loop believes.
    pub actual: Vec<String>,
}

impl Knowledge {
    /// Subscribes to events that are emitted only for subscribers.
    pub fn ask(trace: &Trace) {
        trace.subscribe(LoopState::KIND);
    }

    /// Processes the next event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(commit) = event.get::<Commit>() {
            let key = (commit.resource.to_string(), commit.object.to_string());
            self.stored.entry(key).or_default().push(Revision { rv: commit.rv, is: how(commit) });
        } else if let Some(opened) = event.get::<WatchOpened>() {
            self.opened(opened);
        } else if let Some(sent) = event.get::<WatchSent>() {
            let Some(view) = self.streams.get(&sent.stream).and_then(|s| self.views.get_mut(&s.key)) else { return };
            match (&sent.r#type, &sent.object) {
                (WatchEventType::Bookmark, _) => view.floor = view.floor.max(sent.rv),
                (WatchEventType::Error, _) | (_, None) => {}
                (_, Some(object)) => {
                    view.objects.insert(object.to_string(), sent.rv);
                }
            }
        } else if let Some(WatchClosed { stream }) = event.get() {
            if let Some(view) = self.streams.remove(stream).and_then(|s| self.views.get_mut(&s.key)) {
                view.open = false;
            }
        } else if let Some(state) = event.get::<LoopState>() {
            self.loops.insert((event.process.clone(), state.of.clone()), state.clone());
        } else if event.is::<ProcessCrashed>() {
            self.loops.retain(|(process, _), _| *process != event.process);
            let process: &str = &event.process;
            self.views.retain(|(who, _), _| who != process && !who.starts_with(&format!("{process} ")));
        }
    }

    fn opened(&mut self, opened: &WatchOpened) {
        let who = watcher(opened);
        let key = (who, opened.resource.to_string());
        let view = self.views.entry(key.clone()).or_default();
        view.open = true;
        if opened.initial {
            (view.floor, view.objects) = (0, BTreeMap::new());
        } else {
            view.floor = view.floor.max(opened.from_rv);
        }
        let text = |text: &Option<Text>| text.as_ref().map(ToString::to_string);
        view.scope = Scope {
            namespace: text(&opened.namespace),
            object: text(&opened.object),
            node: text(&opened.node),
            unknown: opened.filtered,
        };
        self.streams.insert(opened.stream, Stream { key });
    }

    /// Objects that a process knows at an older revision than the stored one.
    pub fn behind(&self) -> Vec<Behind> {
        let mut all = Vec::new();
        for ((who, resource), view) in self.views.iter().filter(|(_, view)| !view.scope.unknown) {
            let of = (resource.clone(), String::new());
            for ((_, object), revisions) in self.stored.range(of..).take_while(|((r, _), _)| r == resource) {
                let Some(stored) = revisions.last() else { continue };
                let known = view.objects.get(object).copied().unwrap_or(0).max(view.floor);
                if stored.rv <= known || !view.scope.has(object, stored) {
                    continue;
                }
                let knows = revisions.iter().rev().find(|revision| revision.rv <= known).cloned();
                let knows = knows.unwrap_or(Revision { rv: 0, is: "nothing".to_owned() });
                let (who, object) = (who.clone(), format!("{resource}/{object}"));
                all.push(Behind { who, object, knows, stored: stored.clone(), watches: view.open });
            }
        }
        all
    }

    /// Desired and actual state of each control loop.
    pub fn loops(&self) -> Vec<Loop> {
        let one = |((process, of), state): (&(Arc<str>, Text), &LoopState)| Loop {
            process: process.to_string(),
            of: of.to_string(),
            desired: state.desired.clone(),
            actual: state.actual.clone(),
        };
        self.loops.iter().map(one).collect()
    }

    /// Stored objects by `resource/object`.
    pub fn stored(&self) -> impl Iterator<Item = (String, &Revision)> {
        let last =
            |((resource, object), revisions): (&(String, String), _)| (format!("{resource}/{object}"), revisions);
        self.stored
            .iter()
            .map(last)
            .filter_map(|(name, revisions): (String, &Vec<Revision>)| Some((name, revisions.last()?)))
    }
}

impl Scope {
    fn has(&self, object: &str, stored: &Revision) -> bool {
        let (namespace, name) = object.split_once('/').map_or((None, object), |(ns, name)| (Some(ns), name));
        self.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted))
            && self.object.as_deref().is_none_or(|wanted| name == wanted)
            && self.node.as_deref().is_none_or(|node| stored.is.split(", ").any(|part| part == format!("on {node}")))
    }
}

/// Name of a watcher from its User-Agent and selection: the process, and the loop within it.
fn watcher(opened: &WatchOpened) -> String {
    let caller = opened.caller.as_str();
    let (program, rest) = caller.split_once('/').unwrap_or((caller, ""));
    match (program, opened.node.as_deref().or(opened.object.as_deref())) {
        ("kubelet", Some(node)) => format!("{node}/kubelet"),
        _ => match rest.rsplit_once('/') {
            Some((_, part)) => format!("{program} {part}"),
            None => program.to_owned(),
        },
    }
}

/// Short summary of an object from a commit.
fn how(commit: &Commit) -> String {
    if commit.r#type == EventType::Deleted {
        return "gone".to_owned();
    }
    let mut all: Vec<String> = Vec::new();
    let mut add = |word: Option<&str>| all.extend(word.filter(|word| !word.is_empty()).map(str::to_owned));
    if let Some(pod) = &commit.pod {
        add(pod.phase.as_deref());
        add(pod.node.as_ref().map(|node| format!("on {node}")).as_deref());
        add(pod.deleting.then_some("terminating"));
    }
    add(commit.pvc.as_ref().and_then(|claim| claim.phase.as_deref()));
    add(commit.pv.as_ref().and_then(|volume| volume.phase.as_deref()));
    if let Some(attachment) = &commit.volumeattachment {
        add(Some(if attachment.attached { "attached" } else { "not attached" }));
        add(attachment.deleting.then_some("terminating"));
    }
    if let Some(node) = &commit.node {
        add(node.ready.as_ref().map(|ready| format!("Ready={ready}")).as_deref());
        for (what, list) in [("attached", &node.volumes_attached), ("in use", &node.volumes_in_use)] {
            let short = list.iter().map(|name| name.rsplit('^').next().unwrap_or(name));
            let list = short.collect::<Vec<_>>().join(" ");
            add(Some(&format!("{what}: {list}")).filter(|_| !list.is_empty()).map(String::as_str));
        }
    }
    if all.is_empty() { "there".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use substrate::world::{Options, simulate};

    use super::*;

    fn commit(rv: u64, attached: bool) -> Commit {
        let value = serde_json::json!({
            "object": "csi-1", "resource": "volumeattachments", "rv": rv, "type": "MODIFIED", "user": "u",
            "verb": "patch", "volumeattachment": { "attached": attached },
        });
        serde_json::from_value(value).unwrap()
    }

    fn opened(from_rv: u64) -> WatchOpened {
        let value = serde_json::json!({
            "caller": "csi-attacher", "from_rv": from_rv, "group": "storage.k8s.io", "resource": "volumeattachments",
            "stream": from_rv,
        });
        serde_json::from_value(value).unwrap()
    }

    fn sent(rv: u64) -> WatchSent {
        let value = serde_json::json!({ "object": "csi-1", "rv": rv, "stream": 3, "type": "MODIFIED" });
        serde_json::from_value(value).unwrap()
    }

    /// Returns the knowledge after `record`.
    fn known(record: impl FnOnce(&Trace)) -> Knowledge {
        let all = Arc::new(parking_lot::Mutex::new(Knowledge::default()));
        simulate(Options::default(), async |world| {
            let into = all.clone();
            world.trace().observe(move |event| into.lock().observe(event));
            record(world.trace());
        });
        let all = all.lock();
        all.clone()
    }

    #[test]
    fn a_watcher_without_the_event_is_behind() {
        let server: Arc<str> = "fake-apiserver".into();
        let before = |trace: &Trace| {
            trace.info(&server, commit(3, false));
            trace.show_observers(&server, || opened(3));
            trace.info(&server, commit(5, true));
        };
        let behind = known(before).behind();
        let revision = |rv, is: &str| Revision { rv, is: is.to_owned() };
        let (knows, stored) = (revision(3, "not attached"), revision(5, "attached"));
        let object = "volumeattachments/csi-1".to_owned();
        assert_eq!(behind, [Behind { who: "csi-attacher".to_owned(), object, knows, stored, watches: true }]);
        let views = known(|trace| {
            before(trace);
            trace.show_observers(&server, || sent(5));
        });
        assert_eq!(views.behind(), []);
        let ended = known(|trace| {
            before(trace);
            trace.info(&"csi-attacher".into(), ProcessCrashed {});
        });
        assert_eq!(ended.behind(), [], "a process that has ended knows nothing");
    }

    #[test]
    fn a_loop_has_its_last_state() {
        let state = |desired: &str| LoopState {
            of: "attach-detach".into(),
            desired: vec![desired.to_owned()],
            actual: Vec::new(),
        };
        let known = known(|trace| {
            Knowledge::ask(trace);
            for desired in ["one", "two"] {
                trace.emit_lazily(&"kube-controller-manager".into(), || state(desired));
            }
        });
        let loops = known.loops();
        assert_eq!((loops.len(), &*loops[0].of, &*loops[0].desired[0]), (1, "attach-detach", "two"));
    }
}
