//! `mooring wait`: until objects are in the states that scenarios wait for, or until the cluster is ready.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use substrate::fault::Span;
use substrate::json::Value as Tree;

use super::Done;
use super::client::Running;
use super::place::{Place, State, Which};
use crate::cli::compose::{self, Containers};
use crate::cli::refusal::{Refusal, lacking, late, next, usage};
use crate::runner::{Objects, condition};
use crate::scenario::object::{Condition, Kind, ObjectRef, State as Is};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `mooring wait`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    containers: Containers,
    /// An object and its state, as in pvc/data=Bound, pod/team-a/web=Running, node/node-a=NotReady, va/NAME=Attached,
    /// pod/web=gone; may be repeated, and then all must hold.
    #[arg(long = "for", value_name = "KIND/NAME=STATE", required_unless_present = "ready", conflicts_with = "compose")]
    conditions: Vec<Condition>,
    /// The Mooring is up, and its nodes are Ready. One that is not up yet is waited for. Of containers: each is well, and
    /// the driver is registered on each node.
    #[arg(long)]
    ready: bool,
    /// How long to wait.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: Span,
}

/// What is left of the time.
struct Clock {
    since: Timestamp,
    within: Duration,
}

impl Clock {
    fn start(within: Duration) -> Self {
        Self { since: Timestamp::now(), within }
    }

    fn is_over(&self) -> bool {
        Timestamp::now().duration_since(self.since).unsigned_abs() >= self.within
    }
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    if args.timeout.0.is_zero() {
        return Err(usage("--timeout: must be more than nothing"));
    }
    let place = args.which.place()?;
    // Who starts containers with docker-compose and then waits means those.
    let means_containers =
        || args.conditions.is_empty() && !args.which.is_named() && !place.is_there() && compose::is_there();
    if args.containers.compose || means_containers() {
        let project = compose::wait(&args.containers, args.timeout)?;
        let text = format!("the compose project {project} is ready\n");
        return Ok(Done::new(json!({ "project": project, "held": [] }), text));
    }
    let clock = Clock::start(args.timeout.0);
    let running = if args.ready { up(place, &clock)? } else { Running::at(place)? };
    let mut conditions = Vec::new();
    if args.ready {
        conditions.extend(node_conditions(&running));
    }
    conditions.extend(args.conditions.iter().cloned());
    all(&running, &conditions, &clock)?;
    let held: Vec<String> = args.conditions.iter().map(say).collect();
    let text: String = match held.as_slice() {
        [] => format!("{} is ready\n", running.place.name()),
        held => held.iter().map(|line| format!("{line}\n")).collect(),
    };
    Ok(Done::new(json!({ "name": running.place.name(), "held": held }), text))
}

/// Waits until all nodes are Ready.
pub(super) fn nodes(running: &Running, within: Duration) -> Result<(), Refusal> {
    all(running, &node_conditions(running), &Clock::start(within))
}

fn node_conditions(running: &Running) -> Vec<Condition> {
    let nodes = running.ready["nodes"].as_array().into_iter().flatten();
    let ready = |node: &Value| {
        Some(Condition { object: ObjectRef::new(Kind::node(), None, node["node"].as_str()?), is: Is::Ready })
    };
    nodes.filter_map(ready).collect()
}

fn say(condition: &Condition) -> String {
    format!("{} is {}", condition.object, condition.is)
}

/// Waits until a Mooring answers.
fn up(place: Place, clock: &Clock) -> Result<Running, Refusal> {
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
        std::thread::sleep(LOOK);
    }
}

fn all(running: &Running, conditions: &[Condition], clock: &Clock) -> Result<(), Refusal> {
    let (runtime, objects) = running.objects()?;
    for condition in conditions {
        loop {
            let seen = match crate::block_on(&runtime, Box::pin(objects.look(&condition.object))) {
                Ok(look) if condition::holds(condition.object.kind, look.as_ref(), condition.is) => break,
                Ok(look) => condition::describe(condition.object.kind, look.as_ref()),
                Err(error) if !running.place.is_held() => {
                    return Err(lacking(format!("the Mooring called {} has ended: {error}", running.place.name())));
                }
                Err(error) => error.to_string(),
            };
            if clock.is_over() {
                return Err(too_late(running, (&runtime, &objects), condition, &seen, clock));
            }
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Whether what was seen of an object is that it is not there.
fn is_absent(seen: &str) -> bool {
    seen == condition::describe(Kind::claim(), None)
}

/// Says what was waited for, what was seen, and what Kubernetes says about the object.
fn too_late(
    running: &Running,
    (runtime, objects): (&tokio::runtime::Runtime, &Objects),
    condition: &Condition,
    seen: &str,
    clock: &Clock,
) -> Refusal {
    let object = &condition.object;
    let mut message = format!("{object} is not {} after {}: {seen}", condition.is, Span(clock.within));
    let events = crate::block_on(runtime, Box::pin(objects.list(Kind::event()))).unwrap_or_default();
    let about = |event: &&Tree| {
        let of = &event["involvedObject"];
        of["kind"] == object.kind.kind()
            && of["name"] == object.name.as_str()
            && of["namespace"].as_str().unwrap_or_default() == object.namespace.as_deref().unwrap_or_default()
    };
    if let Some(event) = events.iter().rfind(about) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        message.push_str(&format!("\n  last event: {} {}: {}", text("type"), text("reason"), text("message")));
    }
    let refusal = late(message);
    let is_there = !is_absent(seen);
    if is_there && object.kind == Kind::claim() {
        return next(refusal, format!("`mooring timeline {object}{}` shows what it waits for", running.place.flag()));
    }
    refusal
}
