//! `mooring status`: the state of a Mooring on one page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::client::Running;
use super::ls::age;
use super::state_directory::Which;
use super::{Done, containers};
use crate::cli::compose::Containers;
use crate::cli::refusal::{Refusal, lacking};
use crate::cluster::Objects;
use crate::runner::why::{Picture, Waiting, full_disk};
use crate::spec::object::Kind;

/// Arguments of `mooring status`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if args.containers.compose {
        return containers::status(&args.containers);
    }
    let running = Running::at(args.which.place()?)?;
    let client = running.client()?;
    let (status, crashes) = (client.get("/status")?, client.get("/crashes")?);
    let faults = client.get("/faults")?;
    let (runtime, objects) = running.objects()?;
    let (counts, picture) = crate::block_on(&runtime, Box::pin(counted(&objects)))?;
    let (waiting, disk) = (picture.waiting(), full_disk(Path::new(running.text("volumeDir"))));
    let record = running.place.record();
    let mut text = page(&running, &record.started, &status, &counts, &crashes, &faults);
    text.push_str(&troubled(&waiting, disk.as_deref()));
    let mut data = json!({ "name": running.place.name(), "ready": running.ready, "started": record.started });
    for (key, value) in [("cluster", &status), ("objects", &counts), ("crashes", &crashes["crashes"])] {
        data[key] = value.clone();
    }
    data["faults"] = faults["faults"].clone();
    data["waiting"] = waiting.iter().map(Waiting::data).collect();
    data["disk"] = disk.map_or(Value::Null, Value::from);
    Ok(Done::new(data, text))
}

/// Maximum number of waiting objects that are listed; the others are counted.
const SHOWN: usize = 8;

/// Formats waiting objects with their reasons.
pub(super) fn troubled(waiting: &[Waiting], disk: Option<&str>) -> String {
    let mut text = String::new();
    let mut put = |title: &str, line: &str| text.push_str(&format!("  {title:<11} {line}\n"));
    if let Some(disk) = disk {
        put("disk", disk);
    }
    let mut title = "waiting";
    let mut reported = BTreeSet::new();
    for line in waiting.iter().take(SHOWN).flat_map(|one| one.lines(&mut reported)) {
        put(std::mem::take(&mut title), &line);
    }
    if waiting.len() > SHOWN {
        put("", &format!("and {} more", waiting.len() - SHOWN));
    }
    text
}

/// Counts of the objects of each kind by phase, and the picture that explains why objects wait.
pub(super) async fn counted(objects: &Objects) -> Result<containers::Counted, Refusal> {
    let counts = json!({
        "nodes": phases(objects, Kind::node()).await?,
        "claims": phases(objects, Kind::claim()).await?,
        "pods": phases(objects, Kind::pod()).await?,
    });
    Ok((counts, Picture::take(objects).await.map_err(|e| lacking(e.to_string()))?))
}

/// Formats the phase counts of a kind.
pub(super) fn many(counts: &Value, key: &str) -> String {
    let phases = counts[key].as_object().into_iter().flatten();
    let all: Vec<String> = phases.map(|(phase, count)| format!("{count} {phase}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Number of objects of a kind by phase; of nodes by their condition Ready.
async fn phases(objects: &Objects, kind: Kind) -> Result<BTreeMap<String, usize>, Refusal> {
    let all = objects.list(kind).await.map_err(|e| lacking(e.to_string()))?;
    let mut phases = BTreeMap::new();
    // Stand-in pods of Mooring itself are not counted.
    for object in all.iter().filter(|object| object["metadata"]["namespace"] != "kube-system") {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.filter(|c| c["type"] == "Ready").any(|c| c["status"] == "True");
        let phase = match object["status"]["phase"].as_str() {
            _ if !object["metadata"]["deletionTimestamp"].is_null() => "Terminating",
            Some(phase) => phase,
            None if ready => "Ready",
            None => "NotReady",
        };
        *phases.entry(phase.to_owned()).or_default() += 1;
    }
    Ok(phases)
}

/// Maximum number of nodes without a driver that are named; the others are counted.
const NAMED: usize = 3;

/// Formats a message about the nodes without a driver, with the time since then and the next step.
fn bare(nodes: &Value) -> String {
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(first) = nodes.first() else { return String::new() };
    let names: Vec<&str> = nodes.iter().take(NAMED).filter_map(|node| node["node"].as_str()).collect();
    let more = match nodes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (since, seconds) = (first["since"].as_str().unwrap_or_default(), &first["seconds"]);
    let next = match first["registry"].as_str() {
        Some(place) => format!(
            "start the driver's node service, with its registration socket in {place} (docs/test-your-driver.md)"
        ),
        None => {
            let node = first["node"].as_str().unwrap_or_default();
            format!("look whether {node}/csi-node runs: `mooring logs {node}`")
        }
    };
    format!(
        "  {:<11} no driver has registered on {}{more} since {since} ({seconds}s): pods with volumes wait there\n  {:<11} {next}\n",
        "drivers",
        names.join(", "),
        ""
    )
}

fn page(running: &Running, started: &str, status: &Value, counts: &Value, crashes: &Value, faults: &Value) -> String {
    let field = |key: &str| running.text(key);
    let processes = status["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let up = processes.iter().filter(|process| process["up"] == true).count();
    let down: Vec<&str> = status["down"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let many = |key: &str| many(counts, key);
    let mut text = format!("{}: up for {} (pid {})\n", running.place.name(), age(started), running.ready["pid"]);
    for (what, is) in [
        ("cloud", field("ec2")),
        ("kubernetes", field("kubernetes")),
        ("admin", field("admin")),
        ("kubeconfig", field("kubeconfig")),
        ("context", field("context")),
    ] {
        text.push_str(&format!("  {what:<11} {is}\n"));
    }
    text.push_str(&format!("  {:<11} {}\n", "nodes", many("nodes")));
    text.push_str(&format!("  {:<11} {}\n", "claims", many("claims")));
    text.push_str(&format!("  {:<11} {}\n", "pods", many("pods")));
    text.push_str(&format!("  {:<11} {up} of {} run\n", "processes", processes.len()));
    text.push_str(&bare(&status["bareNodes"]));
    for program in status["programs"].as_array().into_iter().flatten() {
        text.push_str(&format!("  {:<11} {}\n", "program", program["line"].as_str().unwrap_or_default()));
    }
    if !down.is_empty() {
        text.push_str(&format!("  {:<11} {}\n", "down", down.join(", ")));
    }
    let faults = faults["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fault =
        |report: &Value| format!("{} ({} hits)", report["fault"]["name"].as_str().unwrap_or_default(), report["hits"]);
    let crashed = crashes["crashes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let all: Vec<String> = faults.iter().map(fault).chain(crashed.map(|name| format!("crash:{name}"))).collect();
    text.push_str(&format!("  {:<11} {}\n", "faults", if all.is_empty() { "none".to_owned() } else { all.join(", ") }));
    text
}
