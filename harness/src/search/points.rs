//! Every point of a run at which a fault can act, as a fault that fires exactly there.
//!
//! The points come from the unbroken run. It has counting faults, so each operation reports when it consults the
//! faults. A point is one of these moments together with a fault of the catalogue that fires only there.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;
use substrate::fault::{
    Effect, Fault, Hit, Kind, Lease, Match, Moment, Operation, Plane, Span, WatchFault, When, wild,
};

use crate::spec::names::OPERATIONS;
use crate::spec::names::RUNNER;

/// Longer than any caller waits for an answer: kubelet gives a CSI call two minutes.
const LATE: Duration = Duration::from_secs(180);
/// Delay of a watch event.
const LAG: Duration = Duration::from_secs(30);
/// Process that carries out the steps.
const USER: &str = "user";

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointKind {
    /// A process crashes after an operation, and restarts.
    Crash,
    /// A machine loses its power and its unsynced writes, and boots.
    PowerLoss,
    /// A request is lost.
    LoseRequest,
    /// | `branch` | runs of many points with a common prefix; `fork` copies a process, `forks` uses several processes |
    LoseReply,
    /// A request is sent after its caller has stopped waiting.
    LateRequest,
    /// A reply is sent after its caller has stopped waiting.
    LateReply,
    /// A request arrives twice.
    Twice,
    /// A watch event is delayed.
    WatchLag,
    /// A watch stream breaks.
    WatchDrop,
    /// A watch stream ends with 410 Gone.
    WatchGone,
    /// A write fails with a conflict.
    Conflict,
    /// A disk operation fails.
    Eio,
}

impl PointKind {
    /// All kinds in the order of the table.
    pub const ALL: &'static [Self] = &[
        Self::Crash,
        Self::PowerLoss,
        Self::LoseRequest,
        Self::LoseReply,
        Self::LateRequest,
        Self::LateReply,
        Self::Twice,
        Self::WatchLag,
        Self::WatchDrop,
        Self::WatchGone,
        Self::Conflict,
        Self::Eio,
    ];

    /// Word on the command line, which is also part of fault names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::PowerLoss => "power-loss",
            Self::LoseRequest => "lose-request",
            Self::LoseReply => "lose-reply",
            Self::LateRequest => "late-request",
            Self::LateReply => "late-reply",
            Self::Twice => "twice",
            Self::WatchLag => "watch-lag",
            Self::WatchDrop => "watch-drop",
            Self::WatchGone => "watch-gone",
            Self::Conflict => "conflict",
            Self::Eio => "eio",
        }
    }
}

impl fmt::Display for PointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A point of a run and a fault for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Kind of failure.
    pub kind: PointKind,
    /// Time in the unbroken run, in milliseconds since the start of the world.
    pub ms: u64,
    /// Short description of the operation.
    pub about: String,
    /// Fault that fires at the point.
    pub fault: Fault,
}

/// Points of a run, and the number of operations without points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// Points in the order of kinds, then of the run.
    pub all: Vec<Point>,
    /// Number of lease renewals. They get no points, because there is one every few seconds and all are alike.
    pub heartbeats: usize,
}

/// Returns faults that only count: one for each plane and moment.
pub fn probes() -> Vec<Fault> {
    let moments = |plane: Plane| {
        let all = [Moment::Before, Moment::AfterEffect, Moment::BeforeReply];
        all.into_iter().filter(move |moment| operations(plane).any(|o| o.moments.contains(moment)))
    };
    let planes = [Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Disk, Plane::Link];
    let probe = |plane: Plane, moment: Moment| Fault {
        name: probe_name(plane, moment),
        matches: Match { plane, op: None, attributes: IndexMap::new() },
        when: When::default(),
        effect: Effect::Count(true),
        at: moment,
        lease: Lease::default(),
    };
    planes.into_iter().flat_map(|plane| moments(plane).map(move |moment| probe(plane, moment))).collect()
}

fn probe_name(plane: Plane, moment: Moment) -> String {
    format!("probe-{}-{}", plane.name(), moment.name().replace('_', "-"))
}

/// Returns true if a fault is one of [`probes`].
pub fn is_probe(name: &str) -> bool {
    name.starts_with("probe-")
}

fn operations(plane: Plane) -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().copied().flatten().filter(move |operation| operation.plane == plane)
}

/// Returns the points of a run from the hits of its probes and the names of its processes.
pub fn of(hits: &[Hit], processes: &[String]) -> Points {
    let mut points = Points::default();
    let mut seen: BTreeMap<(Plane, &str, Moment), Vec<&Hit>> = BTreeMap::new();
    for hit in hits {
        let Some(plane) = plane_of(hit) else { continue };
        let Some(operation) = operations(plane).find(|operation| operation.name == hit.op) else { continue };
        let before = seen.entry((plane, operation.name, hit.at)).or_default();
        let attributes = selected(plane, hit);
        let same = |earlier: &&&Hit| attributes.iter().all(|(key, value)| is(earlier, key, value));
        let nth = 1 + before.iter().filter(same).count() as u64;
        before.push(hit);
        let occurrence = Occurrence { plane, operation, hit, attributes, nth };
        if occurrence.is_heartbeat() {
            points.heartbeats += 1;
            continue;
        }
        occurrence.points(processes, &mut points.all);
    }
    points.all.sort_by_key(|point| point.kind);
    points
}

fn plane_of(hit: &Hit) -> Option<Plane> {
    let planes = [Plane::Ec2, Plane::K8s, Plane::Csi, Plane::Disk, Plane::Link];
    planes.into_iter().find(|plane| probe_name(*plane, hit.at) == hit.fault)
}

/// Attributes that identify an operation without values that a run draws.
fn selected(plane: Plane, hit: &Hit) -> IndexMap<String, String> {
    let keys: &[&str] = match plane {
        Plane::K8s => &["resource", "subresource", "type", "caller"],
        Plane::Csi | Plane::Disk => &["process"],
        Plane::Link => &["from", "to", "method"],
        Plane::Ec2 | Plane::Process | Plane::Clock => &[],
    };
    let of = |key: &&str| {
        let value = if *key == "process" { Some(hit.process.clone()) } else { hit.attributes.get(*key).cloned() };
        // In a User-Agent, version and platform follow the program.
        let value = value.map(|value| match value.split_once('/') {
            Some((program, _)) if *key == "caller" => format!("{program}*"),
            _ => value,
        });
        value.map(|value| ((*key).to_owned(), value))
    };
    keys.iter().filter_map(of).collect()
}

fn is(hit: &Hit, key: &str, value: &str) -> bool {
    if key == "process" { hit.process == value } else { hit.attributes.get(key).is_some_and(|was| wild(value, was)) }
}

/// One moment of one operation of the run.
struct Occurrence<'a> {
    plane: Plane,
    operation: &'static Operation,
    hit: &'a Hit,
    attributes: IndexMap<String, String>,
    nth: u64,
}

impl Occurrence<'_> {
    fn attribute(&self, key: &str) -> &str {
        self.hit.attributes.get(key).map_or("", String::as_str)
    }

    fn is_heartbeat(&self) -> bool {
        self.attribute("resource") == "leases" || self.attribute("path").contains("/leases")
    }

    /// Returns true if the scenario itself makes the call.
    fn is_users(&self) -> bool {
        self.hit.process == USER || self.attribute("caller").starts_with(RUNNER)
    }

    fn can(&self, kind: Kind) -> bool {
        self.operation.possible().any(|possible| possible.effect == kind && possible.at.contains(&self.hit.at))
    }

    /// Returns true if the operation changes state.
    fn does_something(&self) -> bool {
        match self.plane {
            Plane::Ec2 | Plane::K8s => {
                self.operation.classes.contains(&"write") && self.attribute("resource") != "events"
            }
            Plane::Csi => self.operation.moments.contains(&Moment::AfterEffect),
            Plane::Disk => !["find", "usage", "list_dir", "read", "read_at"].contains(&self.operation.name),
            Plane::Link | Plane::Process | Plane::Clock => false,
        }
    }

    fn points(&self, processes: &[String], into: &mut Vec<Point>) {
        let at = self.hit.at;
        let mut add = |kind: PointKind, effect: Effect| into.push(self.point(kind, effect));
        if self.does_something()
            && (at == Moment::AfterEffect || (self.plane == Plane::Csi && at == Moment::BeforeReply))
        {
            for process in processes {
                add(PointKind::Crash, Effect::Crash(process.clone()));
            }
            if self.plane == Plane::Disk
                && let Some(node) = self.hit.process.split('/').next()
            {
                add(PointKind::PowerLoss, Effect::Reboot(node.to_owned()));
            }
        }
        match (self.plane, at) {
            (Plane::Link, Moment::Before) if self.operation.name == "request" && !self.is_users() => {
                add(PointKind::LoseRequest, Effect::DropRequest(true));
                add(PointKind::LateRequest, Effect::Delay(Span(LATE)));
            }
            (Plane::Link, Moment::AfterEffect) if !self.is_users() => {
                add(PointKind::LoseReply, Effect::DropReply(true));
                add(PointKind::LateReply, Effect::Delay(Span(LATE)));
            }
            (Plane::K8s, Moment::Before) if self.operation.name == "watch-event" && !self.is_users() => {
                add(PointKind::WatchLag, Effect::Delay(Span(LAG)));
                add(PointKind::WatchDrop, Effect::Watch(WatchFault::Drop));
                add(PointKind::WatchGone, Effect::Watch(WatchFault::Gone));
            }
            (Plane::K8s | Plane::Ec2, Moment::Before) if !self.is_users() => {
                if self.can(Kind::Duplicate) {
                    add(PointKind::Twice, Effect::Duplicate(2));
                }
                if ["update", "patch"].contains(&self.operation.name) {
                    add(PointKind::Conflict, Effect::Error("Conflict".to_owned()));
                }
            }
            (Plane::Disk, Moment::Before) => add(PointKind::Eio, Effect::IoError("EIO".to_owned())),
            _ => {}
        }
    }

    fn point(&self, kind: PointKind, effect: Effect) -> Point {
        let words: Vec<&str> = self.attributes.iter().map(|(_, value)| value.as_str()).collect();
        let what = match &effect {
            Effect::Crash(process) => format!("crash {process}"),
            Effect::Reboot(node) => format!("power-loss {node}"),
            _ => kind.word().to_owned(),
        };
        let (plane, op) = (self.plane.name(), self.operation.name);
        let about = format!("{what} at {plane} {op} {} #{}", words.join(" "), self.nth).replace("  ", " ");
        Point {
            kind,
            ms: self.hit.ms,
            about,
            fault: Fault {
                name: kind.word().to_owned(),
                matches: Match {
                    plane: self.plane,
                    op: Some(self.operation.name.into()),
                    attributes: self.attributes.clone(),
                },
                when: When { nth: Some(self.nth), ..When::default() },
                effect,
                at: self.hit.at,
                lease: Lease::default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(plane: Plane, op: &str, at: Moment, process: &str, attributes: &[(&str, &str)]) -> Hit {
        Hit {
            ms: 1,
            fault: probe_name(plane, at),
            hits: 1,
            process: process.to_owned(),
            op: op.to_owned(),
            at,
            attributes: attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            effect: Effect::Count(true),
        }
    }

    fn abouts(hits: &[Hit]) -> Vec<String> {
        of(hits, &["csi-attacher".to_owned()]).all.into_iter().map(|point| point.about).collect()
    }

    #[test]
    fn repeated_operations_of_a_process_are_numbered() {
        let link = |from| hit(Plane::Link, "request", Moment::Before, from, &[("from", from), ("to", "apiserver")]);
        let all = abouts(&[link("csi-attacher"), link("csi-resizer"), link("csi-attacher"), link("user")]);
        assert_eq!(
            all,
            [
                "lose-request at link request csi-attacher apiserver #1",
                "lose-request at link request csi-resizer apiserver #1",
                "lose-request at link request csi-attacher apiserver #2",
                "late-request at link request csi-attacher apiserver #1",
                "late-request at link request csi-resizer apiserver #1",
                "late-request at link request csi-attacher apiserver #2",
            ]
        );
    }

    #[test]
    fn one_of_a_wider_place_counts_those_of_narrower_ones() {
        // A fault without a subresource also matches requests with one.
        let patch = |more: &[(&str, &str)]| {
            let own = [("resource", "nodes"), ("caller", "kubelet")];
            hit(Plane::K8s, "patch", Moment::Before, "fake-apiserver", &[&own[..], more].concat())
        };
        let all = abouts(&[patch(&[("subresource", "status")]), patch(&[])]);
        assert!(all.contains(&"conflict at k8s patch nodes status kubelet #1".to_owned()), "{all:?}");
        assert!(all.contains(&"conflict at k8s patch nodes kubelet #2".to_owned()), "{all:?}");
    }

    #[test]
    fn disk_operations_can_fail_or_crash_a_process_or_the_machine() {
        let all = abouts(&[
            hit(Plane::Disk, "stage", Moment::Before, "node-a/csi-node", &[]),
            hit(Plane::Disk, "stage", Moment::AfterEffect, "node-a/csi-node", &[]),
            hit(Plane::Disk, "find", Moment::AfterEffect, "node-a/csi-node", &[]),
        ]);
        assert_eq!(
            all,
            [
                "crash csi-attacher at disk stage node-a/csi-node #1",
                "power-loss node-a at disk stage node-a/csi-node #1",
                "eio at disk stage node-a/csi-node #1",
            ]
        );
    }

    #[test]
    fn renewals_of_leases_are_counted_and_left_out() {
        let renew = hit(Plane::K8s, "update", Moment::Before, "fake-apiserver", &[("resource", "leases")]);
        let points = of(&[renew], &[]);
        assert_eq!((points.all.len(), points.heartbeats), (0, 1));
    }
}
