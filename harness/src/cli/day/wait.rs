//! `mooring wait`: waits until objects are in a state, as in scenarios, or until the cluster is ready.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use substrate::fault::Span;

use super::Done;
use super::client::Running;
use super::state_directory::{State, StateDirectory, Which};
use crate::cli::compose::{self, Containers};
use crate::cli::refusal::{Refusal, lacking, late, next, usage};
use crate::cluster::{Objects, condition};
use crate::output::Progress;
use crate::runner::awaited::{Awaited, Seen};
use crate::runner::why::{Picture, full_disk};
use crate::spec::object::{Condition, Kind, ObjectRef, State as Is};

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(50);
/// Time after which a note says that the Mooring is not up.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a note names the fields of a condition that the object does not have.
const ABSENT: Duration = Duration::from_secs(2);

/// Arguments of `mooring wait`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// An object and its state, as in pvc/data=Bound, pod/team-a/web=Running, node/node-a=NotReady, va/NAME=Attached,
    /// pod/web=gone. Or an object and a condition in CEL, with `self` as in scenarios: 'pvc/data:
    /// self.status.capacity.storage == "2Gi"'; with only a kind, `self` is the list of all its objects: 'pods:
    /// self.exists(p, p.status.phase == "Failed")'. May be repeated; then all must hold.
    #[arg(
        long = "for",
        value_name = "KIND/NAME=STATE|KIND/NAME: EXPRESSION",
        required_unless_present_any = ["ready", "compose"]
    )]
    conditions: Vec<Awaited>,
    /// Wait until the Mooring is up and its nodes are Ready. It need not be up yet. With containers: until each is
    /// healthy, and the driver is registered on each node.
    #[arg(long)]
    ready: bool,
    /// Time limit.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

/// Time since the start, and its limit.
struct Clock {
    since: Timestamp,
    within: Duration,
}

impl Clock {
    fn start(within: Duration) -> Self {
        Self { since: Timestamp::now(), within }
    }

    fn has_lasted(&self, time: Duration) -> bool {
        Timestamp::now().duration_since(self.since).unsigned_abs() >= time
    }

    fn is_over(&self) -> bool {
        self.has_lasted(self.within)
    }
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if args.timeout.0.is_zero() {
        return Err(usage("--timeout: must be longer than 0s"));
    }
    let clock = Clock::start(args.timeout.0);
    let place = args.which.place()?;
    // Without a name and without a Mooring, running containers are meant.
    let means_containers = || !args.which.is_named() && !place.is_there() && compose::is_there();
    if args.containers.compose || means_containers() {
        return containers(args, &clock);
    }
    let running = if args.ready { up(place, &clock)? } else { Running::at(place)? };
    let mut conditions = Vec::new();
    if args.ready {
        conditions.extend(node_conditions(&running));
    }
    conditions.extend(args.conditions.iter().cloned());
    all(&Asked::of(&running)?, &conditions, &clock)?;
    let held: Vec<String> = args.conditions.iter().map(ToString::to_string).collect();
    let text: String = match held.as_slice() {
        [] => format!("{} is ready\n", running.place.name()),
        held => lines(held),
    };
    Ok(Done::new(json!({ "name": running.place.name(), "held": held }), text))
}

fn lines(held: &[String]) -> String {
    held.iter().map(|line| format!("{line}\n")).collect()
}

/// Waits for containers.
fn containers(args: &Args, clock: &Clock) -> Result<Done, Refusal> {
    let held: Vec<String> = args.conditions.iter().map(ToString::to_string).collect();
    if args.ready || held.is_empty() {
        let project = compose::wait(&args.containers, args.timeout)?;
        if held.is_empty() {
            let text = format!("the compose project {project} is ready\n");
            return Ok(Done::new(json!({ "project": project, "held": held }), text));
        }
    }
    let (runtime, objects, project) = compose::objects(&args.containers)?;
    all(&Asked { runtime, objects, running: None }, &args.conditions, clock)?;
    let text = lines(&held);
    Ok(Done::new(json!({ "project": project, "held": held }), text))
}

/// Access to the objects to check.
struct Asked<'a> {
    runtime: tokio::runtime::Runtime,
    objects: Objects,
    /// The Mooring; none for containers.
    running: Option<&'a Running>,
}

impl<'a> Asked<'a> {
    fn of(running: &'a Running) -> Result<Self, Refusal> {
        let (runtime, objects) = running.objects()?;
        Ok(Self { runtime, objects, running: Some(running) })
    }
}

/// Waits until all nodes are Ready.
pub(super) fn nodes(running: &Running, within: Duration) -> Result<(), Refusal> {
    all(&Asked::of(running)?, &node_conditions(running), &Clock::start(within))
}

fn node_conditions(running: &Running) -> Vec<Awaited> {
    let nodes = running.ready["nodes"].as_array().into_iter().flatten();
    let ready = |node: &Value| {
        let object = ObjectRef::new(Kind::node(), None, node["node"].as_str()?);
        Some(Awaited::Is(Condition { object, is: Is::Ready }))
    };
    nodes.filter_map(ready).collect()
}

/// Waits until a Mooring answers.
fn up(place: StateDirectory, clock: &Clock) -> Result<Running, Refusal> {
    let mut reported = false;
    loop {
        match place.state() {
            Some(State::Up(ready)) => return Ok(Running { place, ready }),
            // It will not come back by itself.
            Some(State::Killed) => return Running::at(place),
            None | Some(State::Starting) => {}
        }
        if clock.is_over() {
            let why = format!("the Mooring called {} is not up after {}", place.name(), Span(clock.within));
            return Err(next(late(why), "`mooring ls` lists those that are"));
        }
        if clock.has_lasted(TIMEOUT) && !std::mem::replace(&mut reported, true) {
            let name = place.name();
            Progress::stderr()
                .note(&format!("waiting for the Mooring called {name}: `mooring up --detach` starts one"));
        }
        std::thread::sleep(LOOK);
    }
}

fn all(asked: &Asked<'_>, conditions: &[Awaited], clock: &Clock) -> Result<(), Refusal> {
    for condition in conditions {
        let (turn, mut reported) = (Clock::start(clock.within), false);
        loop {
            let seen = match crate::block_on(&asked.runtime, Box::pin(condition.look(&asked.objects))) {
                Ok(Seen::Holds) => break,
                Ok(Seen::Other { seen, absent }) => {
                    if !absent.is_empty() && turn.has_lasted(ABSENT) && !std::mem::replace(&mut reported, true) {
                        let fields = absent.join(", ");
                        Progress::stderr().note(&format!("waiting until {condition}: there is no {fields} so far"));
                    }
                    seen
                }
                Err(error) => match asked.running.filter(|running| !running.place.is_held()) {
                    Some(ended) => {
                        return Err(lacking(format!("the Mooring called {} has ended: {error}", ended.place.name())));
                    }
                    None => error.to_string(),
                },
            };
            if clock.is_over() {
                return Err(too_late(asked, condition, &seen, clock));
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Returns true if the object was last seen as absent.
fn is_absent(seen: &str) -> bool {
    seen == condition::describe(Kind::claim(), None)
}

/// Troubles of the Mooring itself: a full disk, processes that are down.
pub(super) fn troubles(running: &Running) -> Vec<String> {
    let mut all: Vec<String> = full_disk(Path::new(running.text("volumeDir"))).into_iter().collect();
    let status = running.client().and_then(|client| client.get("/status")).unwrap_or_default();
    let processes = status["processes"].as_array().into_iter().flatten();
    let down: Vec<&str> = processes.filter(|p| p["up"] == false).filter_map(|p| p["name"].as_str()).collect();
    if !down.is_empty() {
        let verb = if down.len() == 1 { "is" } else { "are" };
        all.push(format!("{} {verb} down", down.join(", ")));
    }
    all
}

/// Error for a missed condition: the condition, the last state, and Kubernetes' own explanation.
fn too_late(asked: &Asked<'_>, awaited: &Awaited, seen: &str, clock: &Clock) -> Refusal {
    let mut message = format!("{}: {seen}", awaited.missed(Span(clock.within)));
    // A failure of the API server was already reported.
    let picture = crate::block_on(&asked.runtime, Box::pin(Picture::take(&asked.objects))).unwrap_or_default();
    let mut why = awaited.object().map(|object| picture.why(object)).unwrap_or_default();
    if let Some(running) = asked.running {
        why.extend(troubles(running));
    }
    for line in why {
        message.push_str(&format!("\n  {line}"));
    }
    let Some(object) = awaited.object() else { return late(message) };
    let refusal = late(message);
    let is_there = !is_absent(seen);
    if let Some(running) = asked.running.filter(|_| is_there && object.kind == Kind::claim()) {
        return next(refusal, format!("`mooring timeline {object}{}` shows what it waits for", running.place.flag()));
    }
    refusal
}
