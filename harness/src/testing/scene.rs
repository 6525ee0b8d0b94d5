//! The commands of a cluster, on its thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controllers::machine::events::{WorkloadCorrupt, WorkloadStarted, WorkloadSynced};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::events::ProcessPanicked;
use substrate::fault::Span;
use tokio::sync::Notify;

use super::failure::{Error, ErrorKind, Result};
use super::fault::Fault;
use super::stage::Scene;
use crate::cluster::settle;
use crate::cluster::{Cluster, Endpoints, access};
use crate::invariants::AppliedObjects;
use crate::runner::awaited::{Awaited, Seen};
use crate::runner::why::Picture;
use crate::scenario::manifests::manifests;
use crate::scenario::predicate::{Subject, That};
use crate::spec::object::{Condition, Kind, ObjectRef};

/// Time limit of a workload to read its volumes.
const READING: Duration = Duration::from_secs(30);
/// Time limit of a cluster to converge.
const REST: Duration = Duration::from_secs(20 * 60);

impl Scene {
    /// Returns the object that a text names, including applied custom kinds.
    pub(super) fn object(&self, text: &str) -> Result<ObjectRef> {
        ObjectRef::read(text, &self.customs()).map_err(Error::usage)
    }

    /// Returns the kind that a word names.
    pub(super) fn kind(&self, word: &str) -> Result<Kind> {
        let customs = self.customs();
        customs.find(word).ok_or_else(|| {
            let words: Vec<String> = customs.words().collect();
            let near = substrate::words::nearest(word, words.iter().map(String::as_str));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Error::usage(format!("`{word}` is not a kind of object{near}"))
        })
    }

    /// Parses the condition of `wait_for`.
    pub(super) fn awaited(&self, object: &str, condition: &str) -> Result<Awaited> {
        let subject = match object.contains('/') {
            true => Subject::Object(self.object(object)?),
            false => Subject::List(self.kind(object)?, None),
        };
        let is_word = condition.chars().all(|c| c.is_ascii_alphabetic());
        if let (true, Subject::Object(object)) = (is_word, &subject) {
            let states = object.kind.states();
            if let Some(is) = states.iter().find(|state| state.to_string() == condition) {
                return Ok(Awaited::Is(Condition { object: object.clone(), is: *is }));
            }
            let words: Vec<String> = states.iter().map(ToString::to_string).collect();
            let message = format!("a {} is never {condition}; its states are {}", object.kind.kind(), words.join(", "));
            return Err(Error::usage(format!(
                "{message}; or write a condition in CEL, as in self.metadata.name != ''"
            )));
        }
        let that = That::read(condition).map_err(|unfit| {
            let help = unfit.help.map(|help| format!("; {help}")).unwrap_or_default();
            Error::usage(format!("`{condition}`: {}{help}", unfit.message))
        })?;
        Ok(Awaited::Satisfies(subject, that))
    }
}

pub(super) async fn apply(scene: &Scene, yaml: &str) -> Result<()> {
    let manifests = manifests(yaml, &mut scene.customs()).map_err(Error::usage)?;
    for manifest in &manifests {
        let applied = scene.cluster.objects().apply(manifest).await;
        applied.map_err(|e| Error::refused(&format!("apply {}", manifest.object), &e))?;
    }
    Ok(())
}

/// Calls `look` until it returns a result, at most for `limit` of the cluster's time, and again after each event that
/// `matters`.
async fn until<T>(
    cluster: &Cluster,
    limit: Duration,
    matters: impl Fn(&Event) -> bool + Send + Sync + 'static,
    look: impl AsyncFn() -> Result<std::result::Result<T, String>>,
) -> Result<std::result::Result<T, String>> {
    let sign = Arc::new(Notify::new());
    let seen = sign.clone();
    let _observing = cluster.world().trace().observe_for_now(move |event| {
        if matters(event) {
            seen.notify_one();
        }
    });
    let clock = cluster.world().clock();
    let deadline = clock.mono() + cluster.limit(limit);
    loop {
        let missed = match look().await? {
            Ok(outcome) => return Ok(Ok(outcome)),
            Err(missed) => missed,
        };
        if clock.mono() >= deadline {
            return Ok(Err(missed));
        }
        tokio::select! { biased;
            () = sign.notified() => {}
            () = tokio::time::sleep(cluster.poll()) => {}
            () = clock.sleep_until(deadline) => {}
        }
    }
}

pub(super) async fn wait(scene: &Scene, awaited: &Awaited, limit: Duration) -> Result<()> {
    let objects = scene.cluster.objects();
    let kind = match awaited {
        Awaited::Is(Condition { object, .. }) | Awaited::Satisfies(Subject::Object(object), _) => object.kind,
        Awaited::Satisfies(Subject::List(kind, _), _) => *kind,
    };
    let of_kind = move |event: &Event| event.get::<Commit>().is_some_and(|commit| commit.resource == kind.resource());
    let waited = until(&scene.cluster, limit, of_kind, async || {
        match awaited.look(objects).await {
            Ok(Seen::Holds) => Ok(Ok(())),
            Ok(Seen::Other { seen, .. }) => Ok(Err(seen)),
            // The server may return.
            Err(error) => Ok(Err(error.to_string())),
        }
    });
    let Err(seen) = waited.await? else { return Ok(()) };
    let mut message = format!("{}: {seen}", awaited.missed(Span(limit)));
    // An API server that does not answer was reported already.
    let picture = Picture::take(objects).await.unwrap_or_default();
    let why = awaited.object().map(|object| picture.why(object)).unwrap_or_default();
    let down = scene.cluster.down_nodes();
    let down = (!down.is_empty()).then(|| format!("{} was crashed and not restarted", down.join(", ")));
    for line in why.into_iter().chain(down).chain(panics(&scene.cluster)) {
        message += &format!("\n  {line}");
    }
    Err(Error::new(ErrorKind::TimedOut, message))
}

/// Returns the processes that ended with a panic.
fn panics(cluster: &Cluster) -> Vec<String> {
    let events = cluster.world().trace().events();
    let reported = events.iter().filter_map(|event| {
        let ProcessPanicked { error } = event.get()?;
        Some(format!("{} has panicked: {error}", event.process))
    });
    reported.collect()
}

pub(super) async fn inject(scene: &Scene, Fault(mut fault): Fault) -> Result<String> {
    let faults = scene.cluster.world().faults();
    let name = fault.name.clone();
    let free = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") });
    // There are few names: one for each fault in force.
    fault.name = free.into_iter().find(|name| faults.get(name).is_none()).unwrap_or(name);
    scene
        .cluster
        .add_fault(&fault)
        .await
        .map_err(|mistake| Error::usage(format!("fault {}: {mistake}", fault.name)))?;
    Ok(fault.name)
}

/// Returns the pod that a text names, in the form of the trace.
fn pod(scene: &Scene, text: &str) -> Result<(String, String)> {
    let object = scene.object(text)?;
    if object.kind != Kind::pod() {
        return Err(Error::usage(format!("{object} is not a pod: write pod/NAME or pod/NAMESPACE/NAME")));
    }
    Ok((object.to_string(), object.key()))
}

/// Returns a function that returns true for events of a pod's workload.
fn of_workload(key: &str) -> impl Fn(&Event) -> bool + Send + Sync + 'static {
    let key = key.to_owned();
    move |event| {
        let pod = event.get::<WorkloadSynced>().map(|reported| &reported.pod);
        let pod = pod.or(event.get::<WorkloadStarted>().map(|reported| &reported.pod));
        pod.or(event.get::<WorkloadCorrupt>().map(|reported| &reported.pod)).is_some_and(|pod| **pod == *key)
    }
}

pub(super) async fn bytes_intact(scene: &Scene, text: &str) -> Result<u64> {
    let (pod, key) = pod(scene, text)?;
    let cluster = &scene.cluster;
    let read =
        until(cluster, READING, of_workload(&key), async || match found_by(&cluster.world().trace().events(), &key) {
            Some((found, true)) => Ok(Ok(found)),
            Some((_, false)) => {
                Err(Error::new(ErrorKind::Broken, format!("the records that the workload of {pod} found are damaged")))
            }
            None => Ok(Err(format!("the workload of {pod} has not started"))),
        });
    read.await?.map_err(|missed| Error::new(ErrorKind::TimedOut, missed))
}

/// Returns the number of records that the workload of the pod `key` found at its last start, and whether they were
/// intact; `None` if the current pod has not started. Of several volumes, the worst one counts.
fn found_by(events: &[Arc<Event>], key: &str) -> Option<(u64, bool)> {
    let mut found: Option<(u64, bool)> = None;
    for event in events {
        if let Some(commit) = event.get::<Commit>() {
            let is_other = commit.r#type != EventType::Modified;
            if is_other && &*commit.resource == "pods" && *commit.object == *key {
                found = None;
            }
        } else if let Some(WorkloadStarted { pod, records_found, verified, .. }) = event.get()
            && **pod == *key
        {
            let (before, intact) = found.unwrap_or((u64::MAX, true));
            found = Some((before.min(*records_found), intact && *verified));
        } else if let Some(WorkloadCorrupt { pod, .. }) = event.get()
            && **pod == *key
        {
            found = Some((0, false));
        }
    }
    found
}

pub(super) async fn wait_for_records(scene: &Scene, text: &str, records: u64, limit: Duration) -> Result<()> {
    let (pod, key) = pod(scene, text)?;
    let cluster = &scene.cluster;
    let waited = until(cluster, limit, of_workload(&key), async || {
        let written = cluster.records_synced(&key);
        let missed = || format!("{pod} has written {written} records after {}, not {records}", Span(limit));
        Ok(if written >= records { Ok(()) } else { Err(missed()) })
    });
    waited.await?.map_err(|missed| Error::new(ErrorKind::TimedOut, missed))
}

pub(super) async fn come_to_rest(scene: &Scene) -> Result<()> {
    let cluster = &scene.cluster;
    let down = cluster.down_nodes();
    if !down.is_empty() {
        return Err(Error::usage(format!("check(): {} was crashed: restart it first", down.join(", "))));
    }
    let lasting: Vec<String> = cluster.world().faults().list().into_iter().map(|report| report.fault.name).collect();
    if !lasting.is_empty() {
        let names = lasting.join(", ");
        return Err(Error::usage(format!("check(): these faults are in force: {names}; drop their guards first")));
    }
    let applied_objects = AppliedObjects::new(&cluster.spec().driver_name, &cluster.spec().without);
    settle::converge_within(cluster, scene.checks.invariants(), &applied_objects, cluster.limit(REST)).await;
    Ok(())
}

fn endpoints(scene: &Scene) -> Result<&Endpoints> {
    let none =
        || Error::usage("a simulated cluster has no sockets: use Cluster::live(), or spawn() your program in it");
    scene.cluster.endpoints().ok_or_else(none)
}

pub(super) fn kubeconfig(scene: &Scene) -> Result<PathBuf> {
    let endpoints = endpoints(scene)?;
    let Some(site) = &scene.site else { return Err(Error::usage("the cluster has no directory")) };
    let path = site.path().join("kubeconfig");
    let failed = |e: std::io::Error| Error::new(ErrorKind::Environment, format!("{}: {e}", path.display()));
    access::write_kubeconfig(&path, endpoints).map_err(failed)?;
    Ok(path)
}

pub(super) fn env(scene: &Scene) -> Result<Vec<(&'static str, String)>> {
    let path = kubeconfig(scene)?;
    let endpoints = endpoints(scene)?;
    Ok(access::variables(&path.display().to_string(), &endpoints.ec2, &scene.cluster.spec().region))
}
