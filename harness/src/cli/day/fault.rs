//! `mooring fault`: the faults of a running Mooring.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::Method;
use serde_json::{Map, Value, json};
use substrate::fault::Span;

use super::client::{Client, Running};
use super::state_directory::Which;
use super::table::table;
use super::{Done, containers};
use crate::cli::compose::Containers;
use crate::cli::refusal::{Refusal, next, usage};
use crate::cluster::compose::project::Project;

/// Prefix of crashes in lists.
const CRASH: &str = "crash:";

/// Arguments of `mooring fault`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    does: Does,
}

#[derive(Debug, clap::Subcommand)]
enum Does {
    /// Put a fault in force, or crash a process. docs/faults.md lists all faults.
    Add(Box<Add>),
    /// List the faults in force with the number of their firings, and the crashed processes.
    Ls(Ls),
    /// End faults; restart crashed processes.
    Rm(Rm),
}

const WHERE: &str = "Where it fires";
const WHEN: &str = "When it fires, and how long it is in force";

/// Arguments of `mooring fault add`.
#[derive(Debug, clap::Args)]
struct Add {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// The name of the fault.
    #[arg(required_unless_present_any = ["file", "crash"], conflicts_with_all = ["file", "crash"], value_name = "FAULT")]
    fault: Option<String>,
    /// The layer and its operation: ec2/AttachVolume, csi/NodeStageVolume, k8s/patch, link/request, disk, clock.
    #[arg(long, value_name = "PLANE[/OP]", help_heading = WHERE, required_unless_present_any = ["file", "crash", "partition"])]
    on: Option<String>,
    /// An attribute that the operation must have, such as node=node-a or volume=vol-0123; a trailing * matches any rest.
    #[arg(long = "where", value_name = "NAME=VALUE", help_heading = WHERE, value_parser = pair)]
    attributes: Vec<(String, String)>,
    /// The effect: error=IncorrectState, delay=20s, drop_reply, hang, crash=csi-attacher, …
    #[arg(long, value_name = "EFFECT[=VALUE]", required_unless_present_any = ["file", "crash", "partition"])]
    effect: Option<String>,
    /// The moment within the operation: before, after_effect or before_reply.
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    /// Cut the link between two processes or servers, both ways: node-a,apiserver.
    #[arg(long, value_name = "ONE,OTHER", conflicts_with_all = ["on", "effect", "attributes", "at", "file"], help_heading = WHERE)]
    partition: Option<String>,
    /// Cut a partition in one direction only: from the first to the second.
    #[arg(long, requires = "partition", help_heading = WHERE)]
    one_way: bool,
    /// Crash this process, node or group of processes now. It stays down until `mooring fault rm crash:NAME`.
    #[arg(long, value_name = "PROCESS", help_heading = WHERE, conflicts_with_all = [
        "on", "effect", "attributes", "at", "partition", "file", "first", "nth", "every", "probability", "after",
        "lasting", "until", "following", "ttl",
    ])]
    crash: Option<String>,
    /// Read faults from a YAML file, one or a list, in the form of scenarios; - is standard input.
    #[arg(long, short, value_name = "PATH", conflicts_with_all = [
        "on", "effect", "attributes", "at", "first", "nth", "every", "probability", "after", "lasting", "until",
        "following", "ttl",
    ])]
    file: Option<PathBuf>,
    /// Fire on the first N matching operations.
    #[arg(long, value_name = "N", help_heading = WHEN)]
    first: Option<u64>,
    /// Fire only on the Nth matching operation, from 1.
    #[arg(long, value_name = "N", help_heading = WHEN)]
    nth: Option<u64>,
    /// Fire on every Nth matching operation.
    #[arg(long, value_name = "N", help_heading = WHEN)]
    every: Option<u64>,
    /// Fire on each matching operation with this probability, from 0 to 1.
    #[arg(long, value_name = "P", help_heading = WHEN)]
    probability: Option<f64>,
    /// Fire only after this time from now.
    #[arg(long, value_name = "DURATION", help_heading = WHEN)]
    after: Option<Span>,
    /// Fire only for this long.
    #[arg(long = "for", value_name = "DURATION", help_heading = WHEN)]
    lasting: Option<Span>,
    /// Stay in force until an object is in a state: pvc/data=Bound.
    #[arg(long, value_name = "KIND/NAME=STATE", help_heading = WHEN)]
    until: Option<String>,
    /// Only once the fault of this name has fired.
    #[arg(long, value_name = "FAULT", help_heading = WHEN)]
    following: Option<String>,
    /// End the fault after this time.
    #[arg(long, value_name = "DURATION", help_heading = WHEN)]
    ttl: Option<Span>,
}

/// Arguments of `mooring fault ls`.
#[derive(Debug, clap::Args)]
struct Ls {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
}

/// Arguments of `mooring fault rm`.
#[derive(Debug, clap::Args)]
struct Rm {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// Names of faults, and crash:PROCESS.
    #[arg(value_name = "FAULT", required_unless_present = "all")]
    faults: Vec<String>,
    /// End all faults, and restart all crashed processes.
    #[arg(long, conflicts_with = "faults")]
    all: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE, as in node=node-a")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    /// Name of the command in envelopes.
    pub(super) fn name(&self) -> &'static str {
        match self.does {
            Does::Add(_) => "fault add",
            Does::Ls(_) => "fault ls",
            Does::Rm(_) => "fault rm",
        }
    }
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    match &args.does {
        Does::Add(args) => add(args),
        Does::Ls(args) => list(args),
        Does::Rm(args) => remove(args),
    }
}

fn add(args: &Add) -> Result<Done, Refusal> {
    let faults = if args.crash.is_some() { Vec::new() } else { args.faults()? };
    let fault_admin = FaultAdmin::of(&args.which, &args.containers)?;
    if let Some(process) = &args.crash {
        let done = fault_admin.crash(process)?;
        let flag = if args.containers.compose { "--compose " } else { "" };
        return Ok(Done::new(
            done,
            format!("{process} is down; `mooring fault rm {flag}{CRASH}{process}` starts it again\n"),
        ));
    }
    let (mut reports, mut text) = (Vec::new(), String::new());
    for fault in &faults {
        reports.push(fault_admin.add(fault)?);
        text.push_str(&format!("fault {} is in force\n", fault["name"].as_str().unwrap_or_default()));
    }
    Ok(Done::new(json!({ "faults": reports }), text))
}

impl Add {
    /// Converts the arguments to faults for the admin API, which validates them.
    fn faults(&self) -> Result<Vec<Value>, Refusal> {
        if let Some(path) = &self.file {
            return read(path);
        }
        let mut fault = json!({ "name": self.fault });
        if let Some(ends) = &self.partition {
            let ends: Vec<&str> = ends.split(',').map(str::trim).collect();
            if ends.len() != 2 || ends.contains(&"") {
                return Err(usage("--partition: write two names, as in node-a,apiserver"));
            }
            let word = if self.one_way { "partition_one_way" } else { "partition" };
            fault["match"] = json!({ "plane": "link" });
            fault["effect"] = json!({ word: ends });
        } else {
            fault["match"] = self.matches()?;
            fault["effect"] = self.effect()?;
        }
        if let Some(at) = &self.at {
            fault["at"] = json!(at);
        }
        fault["when"] = self.when();
        if let Some(ttl) = self.ttl {
            fault["lease"] = json!({ "ttl": ttl });
        }
        Ok(vec![fault])
    }

    fn matches(&self) -> Result<Value, Refusal> {
        let on = self.on.as_deref().unwrap_or_default();
        let (plane, op) = on.split_once('/').map_or((on, None), |(plane, op)| (plane, Some(op)));
        let planes = ["ec2", "k8s", "csi", "link", "disk", "process", "clock"];
        if !planes.contains(&plane) {
            let near = substrate::words::nearest(plane, planes).map(|near| format!("; did you mean `{near}`?"));
            let message = format!("--on {on}: the planes are {}{}", planes.join(", "), near.unwrap_or_default());
            return Err(next(usage(message), "write PLANE/OPERATION, as in ec2/AttachVolume"));
        }
        let mut matches = json!({ "plane": plane });
        if let Some(op) = op {
            matches["op"] = json!(op);
        }
        if !self.attributes.is_empty() {
            let attributes = self.attributes.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            matches["where"] = Value::Object(attributes.collect::<Map<String, Value>>());
        }
        Ok(matches)
    }

    fn effect(&self) -> Result<Value, Refusal> {
        /// Effects whose value is a number, and effects whose value is two names.
        const NUMBERS: [&str; 3] = ["http", "duplicate", "stale_read"];
        const ENDS: [&str; 2] = ["partition", "partition_one_way"];
        let text = self.effect.as_deref().unwrap_or_default();
        let (word, value) = text.split_once('=').map_or((text, None), |(word, value)| (word, Some(value)));
        let word = word.replace('-', "_");
        let value = match value {
            None => Value::Bool(true),
            Some(value) if NUMBERS.contains(&word.as_str()) => {
                let number: Result<u64, _> = value.parse();
                number.map(Value::from).map_err(|_| usage(format!("--effect {text}: `{value}` is not a number")))?
            }
            Some(value) if ENDS.contains(&word.as_str()) => json!(value.split(',').collect::<Vec<_>>()),
            Some("true") => Value::Bool(true),
            Some(value) => Value::from(value),
        };
        Ok(Value::Object(Map::from_iter([(word, value)])))
    }

    fn when(&self) -> Value {
        let mut when = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                when.insert(name.to_owned(), value);
            }
        };
        put("first", self.first.map(Value::from));
        put("nth", self.nth.map(Value::from));
        put("every", self.every.map(Value::from));
        put("probability", self.probability.map(Value::from));
        put("after", self.after.map(|span| json!(span)));
        put("for", self.lasting.map(|span| json!(span)));
        put("until", self.until.clone().map(Value::from));
        put("following", self.following.clone().map(Value::from));
        Value::Object(when)
    }
}

/// Reads the faults of a file: one, a list, or those below `faults`.
fn read(path: &std::path::Path) -> Result<Vec<Value>, Refusal> {
    let name = path.display().to_string();
    let text = if name == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|e| usage(format!("--file {name}: {e}")))?;
    let read: Value = substrate::yaml::from_str(&text).map_err(|e| usage(format!("--file {name}: {e}")))?;
    let list = match read {
        Value::Object(mut map) if map.contains_key("faults") => map.remove("faults").unwrap_or_default(),
        other => other,
    };
    match list {
        Value::Array(faults) if !faults.is_empty() => Ok(faults),
        fault @ Value::Object(_) => Ok(vec![fault]),
        _ => Err(usage(format!("--file {name}: holds no fault; write one, or a list of them"))),
    }
}

fn list(args: &Ls) -> Result<Done, Refusal> {
    let fault_admin = FaultAdmin::of(&args.which, &args.containers)?;
    let (faults, crashes) = (fault_admin.faults()?, fault_admin.crashes()?);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut near = String::new();
    for report in &faults {
        let fault = &report["fault"];
        let name = fault["name"].as_str().unwrap_or_default();
        rows.push(vec![
            name.to_owned(),
            place_of(fault),
            effect_of(fault),
            report["hits"].to_string(),
            report["near_misses"].to_string(),
        ]);
        for miss in report["near"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            near.push_str(&format!("{name} nearly fired: {miss}\n"));
        }
    }
    for process in &crashes {
        rows.push(vec![format!("{CRASH}{process}"), process.clone(), "is down".to_owned(), "-".into(), "-".into()]);
    }
    let data = json!({ "faults": faults, "crashes": crashes });
    if rows.is_empty() {
        return Ok(Done::new(data, "no fault is in force\n"));
    }
    let text = table(&["FAULT", "WHERE", "EFFECT", "HITS", "NEAR MISSES"], &rows);
    Ok(Done::new(data, if near.is_empty() { text } else { format!("{text}\n{near}") }))
}

fn place_of(fault: &Value) -> String {
    let matches = &fault["match"];
    let plane = matches["plane"].as_str().unwrap_or_default();
    let op = match &matches["op"] {
        Value::String(op) => format!("/{op}"),
        Value::Array(ops) => format!("/{}", ops.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")),
        _ => String::new(),
    };
    let attributes = matches["where"].as_object().into_iter().flatten();
    let attributes: String = attributes.map(|(k, v)| format!(" {k}={}", v.as_str().unwrap_or_default())).collect();
    format!("{plane}{op}{attributes}")
}

fn effect_of(fault: &Value) -> String {
    let effect = fault["effect"].as_object().and_then(|effect| effect.iter().next());
    let Some((word, value)) = effect else { return String::new() };
    match value {
        Value::Bool(true) => word.clone(),
        Value::String(text) => format!("{word}={text}"),
        Value::Array(ends) => format!("{word}={}", ends.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")),
        other => format!("{word}={other}"),
    }
}

fn remove(args: &Rm) -> Result<Done, Refusal> {
    let fault_admin = FaultAdmin::of(&args.which, &args.containers)?;
    let names = if args.all { fault_admin.all()? } else { args.faults.clone() };
    let (mut ended, mut text) = (Vec::new(), String::new());
    for name in &names {
        let (done, wording) = match name.strip_prefix(CRASH) {
            Some(process) => (fault_admin.start(process), format!("{process} runs again\n")),
            None => (fault_admin.end(name), format!("fault {name} is over\n")),
        };
        match done {
            Ok(report) => ended.push(report),
            // A fault that has ended by itself since the list is fine.
            Err(_) if args.all => continue,
            Err(refusal) => return Err(next(refusal, "`mooring fault ls` lists what is in force")),
        }
        text.push_str(&wording);
    }
    if names.is_empty() {
        text = "no fault is in force\n".to_owned();
    }
    Ok(Done::new(json!({ "ended": ended }), text))
}

/// Access to the faults: the admin API of a Mooring, or docker and the admin APIs of the servers in containers.
enum FaultAdmin {
    Mooring(Client),
    Containers(Box<Project>, BTreeMap<&'static str, Client>),
}

impl FaultAdmin {
    fn of(which: &Which, of: &Containers) -> Result<Self, Refusal> {
        if !of.compose {
            return Ok(Self::Mooring(Running::at(which.place()?)?.client()?));
        }
        let project = containers::project(of)?;
        let servers = containers::servers(&project)?;
        Ok(Self::Containers(Box::new(project), servers))
    }

    fn clients(&self) -> Vec<&Client> {
        match self {
            Self::Mooring(client) => vec![client],
            Self::Containers(_, servers) => servers.values().collect(),
        }
    }

    fn add(&self, fault: &Value) -> Result<Value, Refusal> {
        let client = match self {
            Self::Mooring(client) => client,
            Self::Containers(_, servers) => {
                let plane = fault["match"]["plane"].as_str().unwrap_or_default();
                servers.get(plane).ok_or_else(|| containers::refused(plane))?
            }
        };
        client.json(Method::POST, "/faults", Some(fault))
    }

    /// Reports of all faults in force.
    fn faults(&self) -> Result<Vec<Value>, Refusal> {
        let mut all = Vec::new();
        for client in self.clients() {
            all.extend(client.get("/faults")?["faults"].as_array().cloned().unwrap_or_default());
        }
        Ok(all)
    }

    /// Processes that were crashed and are down.
    fn crashes(&self) -> Result<Vec<String>, Refusal> {
        match self {
            Self::Mooring(client) => {
                let crashes = client.get("/crashes")?;
                let all = crashes["crashes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                Ok(all.map(str::to_owned).collect())
            }
            Self::Containers(project, _) => containers::down(project),
        }
    }

    fn crash(&self, process: &str) -> Result<Value, Refusal> {
        match self {
            Self::Mooring(client) => client.json(Method::POST, "/crashes", Some(&json!({ "process": process }))),
            Self::Containers(project, _) => {
                containers::switch(project, process, false).map(|()| json!({ "process": process }))
            }
        }
    }

    fn start(&self, process: &str) -> Result<Value, Refusal> {
        match self {
            Self::Mooring(client) => client.json(Method::DELETE, &format!("/crashes/{}", escaped(process)), None),
            Self::Containers(project, _) => {
                containers::switch(project, process, true).map(|()| json!({ "process": process }))
            }
        }
    }

    fn end(&self, name: &str) -> Result<Value, Refusal> {
        let path = format!("/faults/{}", escaped(name));
        let mut last = None;
        for client in self.clients() {
            match client.json(Method::DELETE, &path, None) {
                Ok(report) => return Ok(report),
                Err(refusal) => last = Some(refusal),
            }
        }
        Err(last.unwrap_or_else(|| usage(format!("no fault called `{name}` is in force"))))
    }

    /// Names of all faults in force and of all crashes.
    fn all(&self) -> Result<Vec<String>, Refusal> {
        let faults = self.faults()?.into_iter();
        let faults = faults.filter_map(|report| report["fault"]["name"].as_str().map(str::to_owned));
        let crashes = self.crashes()?.into_iter().map(|process| format!("{CRASH}{process}"));
        Ok(faults.chain(crashes).collect())
    }
}

/// Percent-encodes a name for a path.
fn escaped(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
