//! The day-to-day commands for a cluster of containers (`--compose`). Their sources are docker, the published ports of
//! the servers, and the traces that containers write to their standard output.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use substrate::fault::Span;
use substrate::{Clock, Event, EventKind, Level, Line, Trace};

use super::Done;
use super::client::Client;
use super::status;
use crate::cli::compose::{self, Containers};
use crate::cli::refusal::{Refusal, lacking, next, usage};
use crate::cluster::Wording;
use crate::cluster::compose::project::Project;
use crate::events::ClusterNode;
use crate::runner::why::{Picture, Waiting};
use crate::spec::object::Kind;

fn failed(why: impl Into<String>) -> Refusal {
    next(lacking(why), "see `docker compose ps` and `docker compose logs`")
}

/// The selected project.
pub(super) fn project(of: &Containers) -> Result<Project, Refusal> {
    Project::find(of.project.as_deref()).map_err(failed)
}

/// Clients of the admin APIs of the cloud and of the API server, by the plane of their faults.
pub(super) fn servers(project: &Project) -> Result<BTreeMap<&'static str, Client>, Refusal> {
    let addresses = project.server_addresses().map_err(failed)?;
    let client = |base: &str| Client::new(base, Some(addresses.token.clone()));
    Ok([("ec2", client(&addresses.ec2)?), ("k8s", client(&addresses.kubernetes_http)?)].into())
}

/// Containers that do not run, according to docker.
pub(super) fn down(project: &Project) -> Result<Vec<String>, Refusal> {
    let health = project.health().map_err(failed)?;
    let is_down = |state: &str| matches!(state, "exited" | "dead" | "created" | "paused");
    Ok(health.into_iter().filter(|(_, state)| is_down(state)).map(|(service, _)| service).collect())
}

/// Starts or ends a container, or a process in the container of a machine (`node-a/kubelet`).
pub(super) fn switch(project: &Project, name: &str, on: bool) -> Result<(), Refusal> {
    let wrong = |why: String| usage(format!("{why}: there are {}", project.services().collect::<Vec<_>>().join(", ")));
    let (service, part) = name.split_once('/').map_or((name, None), |(service, part)| (service, Some(part)));
    let id = project.container(service).map_err(wrong)?;
    let args = match (part, on) {
        (None, true) => vec!["start", id],
        (None, false) => vec!["kill", id],
        (Some(part), on) => vec!["exec", id, "mooring", "component", "part", if on { "start" } else { "stop" }, part],
    };
    crate::cluster::compose::project::docker(&args).map(drop).map_err(failed)
}

/// `mooring status --compose`.
pub(super) fn status(of: &Containers) -> Result<Done, Refusal> {
    let project = project(of)?;
    let (runtime, objects, name) = compose::objects(of)?;
    let (health, addresses) = (project.health().map_err(failed)?, project.server_addresses().map_err(failed)?);
    let (counts, picture) = crate::block_on(&runtime, Box::pin(status::counted(&objects)))?;
    let mut faults: Vec<Value> = Vec::new();
    for client in servers(&project)?.values() {
        faults.extend(client.get("/faults")?["faults"].as_array().cloned().unwrap_or_default());
    }
    let many = |all: &mut dyn Iterator<Item = String>| {
        let all: Vec<String> = all.collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    let well = health.values().filter(|state| matches!(state.as_str(), "healthy" | "running")).count();
    let mut text = format!("{name}: a compose project\n");
    let unwell = health.iter().filter(|(_, state)| !matches!(state.as_str(), "healthy" | "running"));
    let fault =
        |report: &Value| format!("{} ({} hits)", report["fault"]["name"].as_str().unwrap_or_default(), report["hits"]);
    for (what, is) in [
        ("cloud", addresses.ec2.clone()),
        ("kubernetes", addresses.kubernetes.clone()),
        ("nodes", status::many(&counts, "nodes")),
        ("claims", status::many(&counts, "claims")),
        ("pods", status::many(&counts, "pods")),
        ("containers", format!("{well} of {} are well", health.len())),
        ("not well", many(&mut unwell.map(|(service, state)| format!("{service} is {state}")))),
        ("faults", many(&mut faults.iter().map(fault))),
    ] {
        if (what, is.as_str()) != ("not well", "none") {
            text.push_str(&format!("  {what:<11} {is}\n"));
        }
    }
    let waiting = picture.waiting();
    text.push_str(&status::troubled(&waiting, None));
    let data = json!({
        "project": name,
        "containers": health,
        "objects": counts,
        "faults": faults,
        "waiting": waiting.iter().map(Waiting::data).collect::<Vec<_>>(),
    });
    Ok(Done::new(data, text))
}

/// A line of a container's log.
struct LogLine {
    at: Timestamp,
    service: String,
    /// An event of its trace, or a line for people.
    what: Result<Line, String>,
}

/// Parses the output of `docker logs` of a service, whose lines begin with docker's timestamp.
fn read(service: &str, stdout: &str, stderr: &str) -> Vec<LogLine> {
    let line = |text: &str, is_trace: bool| {
        let (stamp, text) = text.split_once(' ')?;
        let at: Timestamp = stamp.parse().ok()?;
        let event = Some(text).filter(|text| is_trace && text.starts_with('{'));
        let event = event.and_then(|text| serde_json::from_str(text).ok());
        Some(LogLine { at, service: service.to_owned(), what: event.ok_or_else(|| text.to_owned()) })
    };
    let events = stdout.lines().filter_map(|text| line(text, true));
    events.chain(stderr.lines().filter_map(|text| line(text, false))).collect()
}

/// Reads the log lines of services, oldest first.
fn log_lines(project: &Project, services: &BTreeSet<String>, since: Option<Span>) -> Result<Vec<LogLine>, Refusal> {
    let mut all = Vec::new();
    for service in services {
        let mut command = Command::new("docker");
        command.args(["logs", "--timestamps"]).stdin(Stdio::null());
        if let Some(since) = since {
            command.arg(format!("--since={}s", since.0.as_millis().div_ceil(1_000)));
        }
        let output = command.arg(project.container(service).map_err(failed)?).output();
        let output = output.map_err(|e| failed(format!("docker does not start: {e}")))?;
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        if !output.status.success() {
            return Err(failed(format!("docker logs of {service}: {}", err.trim())));
        }
        all.extend(read(service, &out, &err));
    }
    all.sort_by_key(|line| line.at);
    Ok(all)
}

/// Converts a trace line to an event at `ms`. None if its kind is unknown here.
fn event(kinds: &[EventKind], line: &Line, ms: u64) -> Option<Arc<Event>> {
    let trace = Trace::new(Clock::live(), Level::Trace);
    trace.adopt(kinds, Line { ms, ..line.clone() }).ok()?;
    trace.events().pop()
}

/// Selection of log lines of containers.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Services, or processes in them; all if empty.
    pub components: &'a [String],
    /// Number of lines from the end.
    pub tail: Option<u32>,
    /// Maximum age of lines.
    pub since: Option<Span>,
    /// If set, each line begins with its time.
    pub timestamps: bool,
}

/// `mooring logs --compose`: the traces of containers as log lines in klog's form, and their lines for people.
pub(super) fn logs(of: &Containers, wanted: &Wanted<'_>) -> Result<Done, Refusal> {
    let project = project(of)?;
    let mut services: BTreeSet<String> = BTreeSet::new();
    for component in wanted.components {
        let service = component.split('/').next().unwrap_or_default();
        if project.container(service).is_err() {
            let all: Vec<&str> = project.services().collect();
            let near = substrate::words::nearest(service, all.iter().copied());
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(usage(format!("there is no container {service} among {}{near}", all.join(", "))));
        }
        services.insert(service.to_owned());
    }
    if services.is_empty() {
        services = project.services().map(str::to_owned).collect();
    }
    let lines = log_lines(&project, &services, wanted.since)?;
    let lines = shown(&lines, wanted);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(Done::new(json!({ "lines": lines }), text))
}

/// Formats log lines.
fn shown(entries: &[LogLine], wanted: &Wanted<'_>) -> Vec<String> {
    let kinds = crate::events::all();
    let wording = Wording::new(&kinds);
    let several = wanted.components.len() != 1 || wanted.components[0].starts_with("node-");
    let takes = |service: &str, process: &str| {
        let is_it = |one: &String| *one == service || *one == process;
        wanted.components.is_empty() || wanted.components.iter().any(is_it)
    };
    let line = |entry: &LogLine| {
        let (process, text): (String, String) = match &entry.what {
            Ok(line) => {
                let event = event(&kinds, line, line.ms)?;
                (line.process.to_string(), wording.line(entry.at, &event)?)
            }
            Err(text) => (entry.service.clone(), text.clone()),
        };
        if !takes(&entry.service, &process) {
            return None;
        }
        let time = if wanted.timestamps { format!("{} ", entry.at) } else { String::new() };
        Some(if several { format!("{time}{process} | {text}") } else { format!("{time}{text}") })
    };
    let mut lines: Vec<String> = entries.iter().filter_map(line).collect();
    if let Some(tail) = wanted.tail {
        let first = lines.len().saturating_sub(tail as usize);
        lines.drain(..first);
    }
    lines
}

/// Events of all containers in one order, preceded by the nodes of the API server.
pub(super) fn events(of: &Containers) -> Result<Vec<Arc<Event>>, Refusal> {
    let project = project(of)?;
    let (runtime, objects, _) = compose::objects(of)?;
    let nodes = crate::block_on(&runtime, Box::pin(objects.list(Kind::node()))).map_err(|e| failed(e.to_string()))?;
    let lines = log_lines(&project, &project.services().map(str::to_owned).collect(), None)?;
    let trace = Trace::new(Clock::live(), Level::Info);
    for node in &nodes {
        let text = |value: &substrate::json::Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&node["spec"]["providerID"]);
        let zone = text(&node["metadata"]["labels"]["topology.kubernetes.io/zone"]);
        let instance = id.rsplit('/').next().unwrap_or_default().into();
        let reported = ClusterNode { node: text(&node["metadata"]["name"]).into(), instance, zone: zone.into() };
        trace.info(&"cluster".into(), reported);
    }
    Ok(events_of(trace, &lines))
}

/// Adds the events of log lines to a trace. Each process counts time from its own start, so docker's timestamps are
/// used.
fn events_of(trace: Trace, lines: &[LogLine]) -> Vec<Arc<Event>> {
    let kinds = crate::events::all();
    let first = lines.iter().find(|entry| entry.what.is_ok()).map(|entry| entry.at);
    for entry in lines {
        let (Ok(line), Some(first)) = (&entry.what, first) else { continue };
        let ms = u64::try_from(entry.at.duration_since(first).as_millis()).unwrap_or_default();
        // Unknown kinds of a later version are skipped.
        let _ = trace.adopt(&kinds, Line { ms, ..line.clone() });
    }
    trace.events()
}

/// Refuses a fault that containers do not support.
pub(super) fn refused(plane: &str) -> Refusal {
    let message = format!("in containers only faults of the planes ec2 and k8s are possible, not of {plane}");
    next(
        next(
            usage(message),
            "`mooring fault add --compose --crash node-a/kubelet` ends a container or a process of one",
        ),
        "docs/compose.md says how docker cuts networks; `mooring up` takes all faults",
    )
}

/// Counts of objects by phase, and a picture of the objects that wait.
pub(super) type Counted = (Value, Picture);

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "2026-01-02T03:04:05.5Z {\"ms\":7,\"n\":1,\"process\":\"csi-controller\",\"kind\":\"csi.done\",\"code\":\"OK\",\"ordinal\":3,\"rpc\":\"CreateVolume\",\"took_ms\":12}\n2026-01-02T03:04:06Z not a trace\n";
    const ERR: &str = "2026-01-02T03:04:05Z csi-mock listens\n";

    fn lines(components: &[&str], timestamps: bool) -> Vec<String> {
        let components: Vec<String> = components.iter().map(|one| (*one).to_owned()).collect();
        let mut lines = read("csi-controller", OUT, ERR);
        lines.sort_by_key(|line| line.at);
        shown(&lines, &Wanted { components: &components, tail: None, since: None, timestamps })
    }

    #[test]
    fn a_trace_is_read_as_a_log() {
        assert_eq!(
            lines(&["csi-controller"], false),
            [
                "csi-mock listens",
                "I0102 03:04:05.500000       1 csi.done] \"A call of the driver ended\" code=\"OK\" ordinal=3 \
                 rpc=\"CreateVolume\" took_ms=12",
                "not a trace",
            ]
        );
        assert!(
            lines(&[], true)[0].starts_with("2026-01-02T03:04:05Z csi-controller | csi-mock"),
            "{:?}",
            lines(&[], true)
        );
        assert_eq!(lines(&["csi-attacher"], false), Vec::<String>::new());
    }

    #[test]
    fn events_of_several_processes_have_the_time_of_docker() {
        let events = events_of(
            Trace::new(Clock::live(), Level::Info),
            &read("csi-controller", &(OUT.to_owned() + &OUT.replace(":05.5", ":09.5")), ""),
        );
        let times: Vec<u64> = events.iter().map(|event| event.ms).collect();
        assert_eq!(times, [0, 4000]);
    }
}
