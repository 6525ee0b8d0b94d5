//! Selects the events about one object: its own, those of objects bound to it, and those that concern the whole
//! cluster. Read requests of the runner are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::machine::events::WorkloadSynced;
use controllers::node_agent::events::Registered;
use csi_disk::events::DiskCrashed;
use csi_mock::events::{CsiCall, CsiDone};
use fake_apiserver::events::Commit;
use substrate::events::{FaultFired, ProcessCrashed, ProcessFailed, ProcessPanicked};
use substrate::json::Value;
use substrate::{Event, Line};

use super::trace_line;
use crate::events::{ClusterNode, ScenarioStep};
use crate::model::{CallKey, claims_of};
use crate::spec::object::{Kind, ObjectRef};

/// Resource and key of an object.
type Key = (String, String);

/// Related objects, and the words by which events name them.
#[derive(Debug, Default)]
pub(super) struct About {
    objects: BTreeSet<Key>,
    words: BTreeSet<String>,
}

/// Relations that objects of a trace have ever had; the model has the present ones.
#[derive(Debug, Default)]
struct Bonds {
    /// Claims of each pod.
    claims: BTreeMap<String, BTreeSet<String>>,
    /// Volumes of each claim.
    volumes: BTreeMap<String, BTreeSet<String>>,
    /// Handles of each volume.
    handles: BTreeMap<String, BTreeSet<String>>,
    /// Attachments of each volume.
    attachments: BTreeMap<String, BTreeSet<String>>,
    /// Instance of each node.
    instances: BTreeMap<String, String>,
}

impl Bonds {
    fn of(events: &[Arc<Event>]) -> Self {
        let mut bonds = Self::default();
        for event in events {
            if let Some(ClusterNode { node, instance, .. }) = event.get() {
                bonds.instances.insert(node.to_string(), instance.to_string());
            }
            let Some(commit) = event.get::<Commit>() else { continue };
            let object = commit.object.to_string();
            if let Some(pod) = &commit.pod {
                bonds
                    .claims
                    .entry(object.clone())
                    .or_default()
                    .extend(claims_of(&object, pod).map(|claim| claim.to_string()));
            }
            if let Some(volume) = commit.pvc.as_ref().and_then(|pvc| pvc.volume.as_ref()) {
                bonds.volumes.entry(object.clone()).or_default().insert(volume.to_string());
            }
            if let Some(pv) = &commit.pv {
                bonds.handles.entry(object.clone()).or_default().extend(pv.handle.iter().map(ToString::to_string));
                if let Some(claim) = &pv.claim {
                    bonds.volumes.entry(claim.to_string()).or_default().insert(object.clone());
                }
            }
            if let Some(pv) = commit.volumeattachment.as_ref().and_then(|va| va.pv.as_ref()) {
                bonds.attachments.entry(pv.to_string()).or_default().insert(object);
            }
        }
        bonds
    }
}

/// Keys whose values contain `wanted`.
fn with<'a>(map: &'a BTreeMap<String, BTreeSet<String>>, wanted: &'a str) -> impl Iterator<Item = &'a String> {
    map.iter().filter(move |(_, values)| values.contains(wanted)).map(|(key, _)| key)
}

impl About {
    /// Objects related to `object`: for a pod its claims, for a claim its volume and its pods, for a volume its
    /// attachments.
    pub(super) fn object(events: &[Arc<Event>], object: &ObjectRef) -> Self {
        let bonds = Bonds::of(events);
        let (resource, key) = (object.kind.resource(), object.key());
        let mut about = Self::default();
        about.add(resource, &key);
        match resource {
            "pods" => {
                for claim in bonds.claims.get(&key).into_iter().flatten() {
                    about.claim(&bonds, claim);
                }
            }
            "persistentvolumeclaims" => {
                about.claim(&bonds, &key);
                for pod in with(&bonds.claims, &key) {
                    about.add("pods", pod);
                }
            }
            "persistentvolumes" => {
                about.volume(&bonds, &key);
                for claim in with(&bonds.volumes, &key) {
                    about.add("persistentvolumeclaims", claim);
                }
            }
            "volumeattachments" => {
                for pv in with(&bonds.attachments, &key) {
                    about.volume(&bonds, pv);
                }
            }
            "nodes" => {
                about.words.insert(key.clone());
                about.words.extend(bonds.instances.get(&key).cloned());
                about.add("csinodes", &key);
            }
            _ => {}
        }
        about
    }

    /// Objects related to the volume with this handle.
    pub(super) fn handle(events: &[Arc<Event>], handle: &str) -> Self {
        let bonds = Bonds::of(events);
        let mut about = Self::default();
        about.words.insert(handle.to_owned());
        for pv in with(&bonds.handles, handle) {
            about.volume(&bonds, pv);
            for claim in with(&bonds.volumes, pv) {
                about.claim(&bonds, claim);
                for pod in with(&bonds.claims, claim) {
                    about.add("pods", pod);
                }
            }
        }
        about
    }

    fn claim(&mut self, bonds: &Bonds, claim: &str) {
        self.add("persistentvolumeclaims", claim);
        for pv in bonds.volumes.get(claim).into_iter().flatten() {
            self.volume(bonds, pv);
        }
    }

    fn volume(&mut self, bonds: &Bonds, pv: &str) {
        self.add("persistentvolumes", pv);
        self.words.insert(pv.to_owned());
        self.words.extend(bonds.handles.get(pv).into_iter().flatten().cloned());
        for attachment in bonds.attachments.get(pv).into_iter().flatten() {
            self.add("volumeattachments", attachment);
        }
    }

    fn add(&mut self, resource: &str, key: &str) {
        // Events name objects by the singular of their kind.
        let singular = resource.strip_suffix('s').unwrap_or(resource);
        self.words.insert(format!("{singular}/{key}"));
        if key.contains('/') || resource == "volumeattachments" {
            self.words.insert(key.to_owned());
        }
        self.objects.insert((resource.to_owned(), key.to_owned()));
    }

    fn is(&self, event: &Event, line: &Line) -> bool {
        if let Some(commit) = event.get::<Commit>() {
            return self.objects.contains(&(commit.resource.to_string(), commit.object.to_string()));
        }
        line.fields.iter().any(|(_, value)| self.names(value))
    }

    fn names(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.words.contains(text.as_str()),
            Value::Array(list) => list.iter().any(|value| self.names(value)),
            _ => false,
        }
    }

    /// The last `most` events about it and about the whole cluster, oldest first.
    pub(super) fn last_lines(&self, events: &[Arc<Event>], most: usize) -> Vec<String> {
        let mut reported: Vec<String> = Vec::new();
        // Consecutive records of a workload become one line.
        let mut records: Option<(Line, u64)> = None;
        let mut answered: BTreeSet<CallKey> = BTreeSet::new();
        for event in events.iter().rev() {
            if reported.len() >= most {
                break;
            }
            if let Some(done) = event.get::<CsiDone>() {
                answered.insert(CallKey::new(event, done.ordinal));
            }
            // A call whose end is shown adds nothing.
            if event.get::<CsiCall>().is_some_and(|call| answered.contains(&CallKey::new(event, call.ordinal))) {
                continue;
            }
            let line = event.line();
            if !is_for_all(event) && !self.is(event, &line) {
                continue;
            }
            if event.is::<WorkloadSynced>() {
                match &mut records {
                    Some((last, more)) if last.process == line.process => *more += 1,
                    _ => {
                        reported.extend(flush(&mut records));
                        records = Some((line, 0));
                    }
                }
                continue;
            }
            reported.extend(flush(&mut records));
            reported.push(trace_line(&line));
        }
        reported.extend(flush(&mut records));
        reported.truncate(most);
        reported.reverse();
        reported
    }
}

fn flush(records: &mut Option<(Line, u64)>) -> Option<String> {
    let (line, more) = records.take()?;
    let before = if more == 0 { String::new() } else { format!("  ({more} records before it)") };
    Some(trace_line(&line) + &before)
}

/// Returns true for events that concern the whole cluster: steps, faults, processes that end, machines that lose power.
fn is_for_all(event: &Event) -> bool {
    event.is::<ScenarioStep>()
        || event.is::<FaultFired>()
        || event.is::<ProcessCrashed>()
        || event.is::<ProcessPanicked>()
        || event.is::<ProcessFailed>()
        || event.is::<DiskCrashed>()
}

/// Newest warnings about `object` and its claims, with the number of each, and a driver that no node has.
pub(super) fn warnings(events: &[Arc<Event>], object: &ObjectRef) -> Vec<String> {
    let mut all: Vec<String> = warning(events, object).into_iter().collect();
    let bonds = Bonds::of(events);
    let own = (object.kind == Kind::claim()).then(|| object.key());
    let claims: BTreeSet<String> =
        if object.kind == Kind::pod() { bonds.claims.get(&object.key()).cloned() } else { None }
            .unwrap_or_default()
            .into_iter()
            .chain(own)
            .collect();
    for key in &claims {
        let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
        let claim = ObjectRef::new(Kind::claim(), Some(namespace), name);
        if claim != *object {
            all.extend(warning(events, &claim).map(|text| format!("{claim}: {text}")));
        }
    }
    // A trace without its beginning cannot show that.
    let is_whole = events.first().is_some_and(|event| event.n <= 1);
    let is_registered = !is_whole || events.iter().any(|event| event.is::<Registered>());
    let is_bound = |key: &String| bonds.volumes.get(key).is_some_and(|volumes| !volumes.is_empty());
    if !is_registered && !claims.is_empty() && !claims.iter().all(is_bound) {
        all.push("no node has registered a CSI driver".to_owned());
    }
    all
}

/// Newest warning about `object`, with its number.
fn warning(events: &[Arc<Event>], object: &ObjectRef) -> Option<String> {
    let singular = object.kind.resource().strip_suffix('s')?;
    let word = format!("{singular}/{}", object.key());
    let warnings = || {
        let reported =
            events.iter().filter_map(|event| Some((event, event.get::<controllers::events::EventRecorded>()?)));
        reported.filter(|(_, reported)| reported.r#type == "Warning" && *reported.object == *word)
    };
    let (event, last) = warnings().next_back()?;
    let times =
        warnings().filter(|(_, reported)| reported.reason == last.reason && reported.message == last.message).count();
    let often = if times > 1 { format!(", {times} times") } else { String::new() };
    let at = format!("{}.{:03}s", event.ms / 1000, event.ms % 1000);
    Some(format!("{} says {}: {} (at {at}{often})", last.source, last.reason, last.message))
}
