//! Repeats a run, to its end or to a moment at which it stops for inspection.

use parking_lot::Mutex;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use serde_json::{Value, json};
use substrate::fault::{Span, wild};
use substrate::world::simulate;
use substrate::{Event, World};
use tokio::sync::Notify;

use super::judge::{Task, options};
use super::knowledge::Knowledge;
use crate::cluster::{Cluster, ClusterSpec, cloud};
use crate::output::{Style, Tone};
use crate::report_html::Listener;
use crate::runner;
use crate::scenario::{self, Kind};

/// A moment of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    /// The first event at this time or later.
    Time(Duration),
    /// The event with this ordinal.
    Event(u64),
    /// The event with which an object enters a state.
    Object {
        /// Resource name, as in URLs.
        resource: &'static str,
        /// Name, or `namespace/name`; a trailing `*` matches any rest.
        name: String,
        /// State, as in scenarios, in lower case.
        state: String,
    },
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{}", Span(*time)),
            Self::Event(n) => write!(f, "#{n}"),
            Self::Object { resource, name, state } => write!(f, "{resource}/{name} {state}"),
        }
    }
}

impl Moment {
    /// Parses `6m30s` or `#120`.
    ///
    /// # Errors
    /// Returns a message with the valid forms.
    pub fn of_time(text: &str) -> Result<Self, String> {
        match text.strip_prefix('#').map(str::parse) {
            Some(Ok(n)) => Ok(Self::Event(n)),
            Some(Err(_)) => Err(format!("`{text}` is not an event: write # and its number, as in #120")),
            None => Span::from_str(text)
                .map(|span| Self::Time(span.0))
                .map_err(|e| format!("{e}; or an event by its number, as in #120")),
        }
    }

    /// Parses `va/csi-* attached`.
    ///
    /// # Errors
    /// Returns a message with the valid forms.
    pub fn of_object(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}` is not a moment of an object: write kind/name and a state, as in 'pvc/data Bound'");
        let (object, state) = text.trim().split_once(' ').ok_or_else(bad)?;
        let (word, name) = object.split_once('/').ok_or_else(bad)?;
        let kind = kind_of(word).ok_or_else(|| format!("`{word}` is not a kind of object"))?;
        let state = state.trim().to_ascii_lowercase();
        let known: Vec<String> = kind.states().iter().map(|s| s.to_string().to_ascii_lowercase()).collect();
        if !known.contains(&state) {
            return Err(format!("a {} is never `{state}`; its states are {}", kind.kind(), known.join(", ")));
        }
        Ok(Self::Object { resource: kind.resource(), name: name.replace('…', "*"), state })
    }

    /// Returns true if the moment is at `event` or before it.
    pub(super) fn is(&self, event: &Event) -> bool {
        match self {
            Self::Time(time) => Duration::from_millis(event.ms) >= *time,
            Self::Event(n) => event.n >= *n,
            Self::Object { resource, name, state } => event.get::<Commit>().is_some_and(|commit| {
                let plain = commit.object.split_once('/').map_or(&*commit.object, |(_, name)| name);
                commit.resource == *resource
                    && (wild(name, plain) || wild(name, &commit.object))
                    && states(commit).iter().any(|now| now == state)
            }),
        }
    }
}

/// Returns the kind for a word; `va` is short for volumeattachment.
pub(super) fn kind_of(word: &str) -> Option<Kind> {
    Kind::of_word(if word == "va" { "volumeattachment" } else { word })
}

/// States of an object after a commit.
fn states(commit: &Commit) -> Vec<String> {
    if commit.r#type == EventType::Deleted {
        return vec!["gone".to_owned()];
    }
    let mut all = vec!["exists".to_owned()];
    let mut add = |word: Option<&str>| all.extend(word.filter(|w| !w.is_empty()).map(str::to_ascii_lowercase));
    if let Some(pod) = &commit.pod {
        add(pod.phase.as_deref());
        add(pod.deleting.then_some("terminating"));
    }
    add(commit.pvc.as_ref().and_then(|claim| claim.phase.as_deref()));
    add(commit.pv.as_ref().and_then(|volume| volume.phase.as_deref()));
    if let Some(attachment) = &commit.volumeattachment {
        add(Some(if attachment.attached { "attached" } else { "detached" }));
        add(attachment.deleting.then_some("terminating"));
    }
    match commit.node.as_ref().and_then(|node| node.ready.as_deref()) {
        Some("True") => add(Some("ready")),
        Some("False") => add(Some("notready")),
        other => add(other),
    }
    all
}

/// Events and state up to a moment.
#[derive(Debug)]
pub struct Seen {
    /// Every event up to the moment; the last one is the requested one.
    pub events: Vec<Arc<Event>>,
    /// True if the moment was reached.
    pub came: bool,
    /// State of the cluster a few milliseconds later, if requested.
    pub state: Value,
}

/// Runs `task` to `moment`, and reads the state there if `look` is set.
///
/// # Errors
/// If the scenario cannot be read, or its cluster does not start.
pub fn to_moment(
    task: &Task,
    moment: Moment,
    look: bool,
    limit: Option<Duration>,
    recorder: Option<&Listener>,
) -> Result<Seen, String> {
    let scenario = scenario::parse("replay.yaml", &task.text).map_err(|e| e.to_string())?;
    simulate(options(&scenario, task.seed, &task.mutants, limit), async |world: World| {
        if let Some(listener) = recorder {
            listener.attach(world.trace());
        }
        let cluster = Cluster::simulate(&world, ClusterSpec::of_scenario(&scenario)).map_err(|e| e.to_string())?;
        let found: Arc<std::sync::OnceLock<u64>> = Arc::default();
        let sign = Arc::new(Notify::new());
        let known: Arc<Mutex<Knowledge>> = Arc::default();
        {
            let (found, sign, known) = (found.clone(), sign.clone(), known.clone());
            if look {
                Knowledge::ask(world.trace());
            }
            world.trace().observe(move |event| {
                if look && found.get().is_none() {
                    known.lock().observe(event);
                }
                if found.get().is_none() && moment.is(event) && found.set(event.n).is_ok() {
                    sign.notify_one();
                }
            });
        }
        let ended = tokio::select! { biased;
            () = sign.notified() => None,
            outcome = runner::run(&scenario, &cluster, |_| {}) => Some(outcome.events),
        };
        let mut events = ended.unwrap_or_else(|| world.trace().events());
        let came = found.get().copied();
        if let Some(n) = came {
            events.retain(|event| event.n <= n);
        }
        let mut seen = if look { state(&cluster).await } else { Value::Null };
        if look {
            let known = known.lock();
            (seen["loops"], seen["behind"]) = (json!(known.loops()), json!(known.behind()));
        }
        Ok(Seen { events, came: came.is_some(), state: seen })
    })
}

/// Current state of objects, the cloud and the disks.
pub(super) async fn state(cluster: &Cluster) -> Value {
    // The faults must not hinder the inspection. The run does not continue afterwards.
    cluster.clear_faults().await;
    let mut objects = Vec::new();
    let kinds = ["pod", "pvc", "pv", "volumeattachment", "node"];
    for kind in kinds.into_iter().filter_map(Kind::of_word) {
        match cluster.objects().list(kind).await {
            Ok(list) => objects.extend(list.into_iter().map(|object| short(kind, &object.into()))),
            Err(error) => objects.push(json!({ "object": kind.short(), "error": error.to_string() })),
        }
    }
    let cloud = match cloud::state(cluster).await {
        Ok(state) => {
            let own = state["volumes"].as_array().into_iter().flatten().filter(|volume| volume["root"] != true);
            own.map(|v| json!({ "volume": v["id"], "state": v["state"], "attachments": v["attachments"] })).collect()
        }
        Err(error) => vec![json!({ "error": error.to_string() })],
    };
    let mut nodes = Vec::new();
    for node in &cluster.spec().nodes {
        let Some(disk) = cluster.disk(&node.name) else { continue };
        nodes.push(json!({
            "node": node.name,
            "devices": disk.devices().await.unwrap_or_default(),
            "mounts": disk.mounts().await.unwrap_or_default(),
        }));
    }
    let now = u64::try_from(cluster.world().clock().mono().as_millis()).unwrap_or(u64::MAX);
    json!({ "readMs": now, "objects": objects, "ec2": cloud, "nodes": nodes })
}

/// Formats the state for people.
pub fn state_text(state: &Value) -> String {
    let style = Style::stdout();
    let mut out = String::new();
    for key in ["objects", "ec2", "nodes"] {
        out += &format!("\n{}\n", style.paint(Tone::Title, key));
        for item in state[key].as_array().into_iter().flatten() {
            let Value::Object(map) = item else { continue };
            let name = ["object", "volume", "node"].iter().find_map(|key| map.get(*key)?.as_str()).unwrap_or_default();
            let rest: Vec<String> = map
                .iter()
                .filter(|(_, value)| value.as_str() != Some(name))
                .map(|(key, value)| {
                    format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                })
                .collect();
            out += &format!("  {name}  {}\n", rest.join("  "));
        }
    }
    let title = |text: &str| format!("\n{}\n", style.paint(Tone::Title, text));
    out += &title("loops");
    for one in state["loops"].as_array().into_iter().flatten() {
        let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        out += &format!("  {} {}\n", word("process"), word("of"));
        for key in ["desired", "actual"] {
            let lines = one[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            let lines: Vec<&str> = if one[key][0].is_null() { vec!["nothing"] } else { lines.collect() };
            for line in lines {
                out += &format!("    {} {line}\n", style.paint(Tone::Faint, &format!("{key:<8}")));
            }
        }
    }
    let behind = state["behind"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !behind.is_empty() {
        out += &title("behind: the known state is older than the stored state");
    }
    for one in behind {
        let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let is = |key: &str| format!("{} at {}", one[key]["is"].as_str().unwrap_or_default(), one[key]["rv"]);
        out += &format!("  {}  {}  knows {}, stored is {}\n", word("who"), word("object"), is("knows"), is("stored"));
    }
    let ms = state["readMs"].as_u64().unwrap_or(0);
    out + &style.paint(Tone::Faint, &format!("read at {}.{:03}s\n", ms / 1000, ms % 1000))
}

/// Reduces an object to the fields that show its progress.
fn short(kind: Kind, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut out = json!({ "object": format!("{}/{}", kind.short(), metadata["name"].as_str().unwrap_or_default()) });
    for path in [
        "/metadata/namespace",
        "/metadata/deletionTimestamp",
        "/metadata/finalizers",
        "/spec/nodeName",
        "/spec/volumeName",
        "/spec/claimRef/name",
        "/spec/csi/volumeHandle",
        "/spec/source/persistentVolumeName",
        "/spec/taints",
        "/spec/unschedulable",
        "/status/phase",
        "/status/attached",
        "/status/attachError",
        "/status/detachError",
        "/status/volumesAttached",
        "/status/volumesInUse",
    ] {
        if let Some(value) = object.pointer(path).filter(|value| !value.is_null()) {
            out[path.trim_start_matches('/')] = value.clone();
        }
    }
    out
}

/// First difference between two traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the event, from 1.
    pub n: usize,
    /// Recorded event; none if the recorded trace is shorter.
    pub recorded: Option<String>,
    /// Event of this run; none if this trace is shorter.
    pub now: Option<String>,
}

/// Returns the first line in which `now` differs from `recorded`.
pub fn first_difference<'a>(recorded: impl Iterator<Item = &'a str>, now: &[String]) -> Option<Difference> {
    let mut recorded = recorded.fuse();
    for (at, line) in now.iter().enumerate() {
        let before = recorded.next();
        if before != Some(line.as_str()) {
            return Some(Difference { n: at + 1, recorded: before.map(str::to_owned), now: Some(line.clone()) });
        }
    }
    recorded.next().map(|more| Difference { n: now.len() + 1, recorded: Some(more.to_owned()), now: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        assert_eq!(Moment::of_time("6m30s"), Ok(Moment::Time(Duration::from_secs(390))));
        assert_eq!(Moment::of_time("#12"), Ok(Moment::Event(12)));
        assert!(Moment::of_time("#x").unwrap_err().contains("#120"));
        assert!(Moment::of_time("soon").unwrap_err().contains("6m30s"));
        let attached =
            Moment::Object { resource: "volumeattachments", name: "csi-*".to_owned(), state: "attached".to_owned() };
        assert_eq!(Moment::of_object("volumeattachment/csi-… attached"), Ok(attached.clone()));
        assert_eq!(Moment::of_object("va/csi-… attached"), Ok(attached));
        for (text, expected) in [
            ("pvc/data", "write kind/name and a state"),
            ("vase/data Bound", "`vase` is not a kind of object"),
            ("pvc/data Running", "a PersistentVolumeClaim is never `running`; its states are pending, bound"),
        ] {
            let error = Moment::of_object(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_first_difference_is_shown_with_both_sides() {
        let now = ["a".to_owned(), "b".to_owned()];
        let at = |recorded: &[&'static str]| first_difference(recorded.iter().copied(), &now);
        assert_eq!(at(&["a", "b"]), None);
        let difference = |n, recorded: Option<&str>, now: Option<&str>| {
            Some(Difference { n, recorded: recorded.map(str::to_owned), now: now.map(str::to_owned) })
        };
        assert_eq!(at(&["a", "x"]), difference(2, Some("x"), Some("b")));
        assert_eq!(at(&["a"]), difference(2, None, Some("b")));
        assert_eq!(at(&["a", "b", "c"]), difference(3, Some("c"), None));
    }
}
