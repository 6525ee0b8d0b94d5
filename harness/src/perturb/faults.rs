//! The faults of a trial, as scenario files write them.

use std::time::Duration;

use substrate::fault::{Effect, Fault, Lease, Match, Moment, Ops, Plane, Span, WatchFault, When};

use super::call::{Call, What};
use super::kind::Kind;

/// Name of the fault that breaks the call.
pub const FAULT: &str = "perturb";
/// Name of the fault that continues it.
pub const GOES_ON: &str = "perturb-goes-on";

/// Age of a stale read in revisions: older than the last few writes of all clients.
const REVISIONS: u32 = 20;
/// Age of a stale answer of the cloud, in changes.
const CHANGES: u32 = 2;
/// Maximum number of stale lists after a restart; a program lists each resource once.
const LISTS: u64 = 16;
/// Duration of an outage. All durations here are in wall-clock time.
pub const OUTAGE: Duration = Duration::from_millis(1_500);
/// Delay of an event.
const LATE: Duration = Duration::from_millis(600);
/// Delay of the list after a watch that ended, during which states remain unseen.
const UNSEEN: Duration = Duration::from_millis(700);
/// Duration for which watches deliver nothing.
const SILENCE: Duration = Duration::from_secs(1);
/// Duration of stale reads.
const PAST: Duration = Duration::from_millis(1_500);
/// Time, from the start of the run, at which a stuck transition continues.
const STUCK: Duration = Duration::from_secs(5);

/// Returns the state in which the transition of this action can be stuck.
pub fn transition(action: &str) -> Option<&'static str> {
    match action {
        "AttachVolume" => Some("attaching"),
        "DetachVolume" => Some("detaching"),
        "CreateVolume" => Some("creating"),
        "ModifyVolume" => Some("modifying"),
        _ => None,
    }
}

/// Returns true if the action is on one volume, which may have vanished.
pub fn names_volume(action: &str) -> bool {
    ["AttachVolume", "CreateVolume", "DeleteVolume", "DetachVolume", "ModifyVolume"].contains(&action)
}

/// Returns the faults of `kind` at `call`. The live world divides times by `scale`.
pub fn of(kind: Kind, call: &Call, scale: f64) -> Vec<Fault> {
    let span = |wall: Duration| Span(wall.mul_f64(scale));
    let one = |effect: Effect, at: Moment| Fault {
        name: FAULT.to_owned(),
        matches: matching(call),
        when: When { nth: Some(call.nth), ..When::default() },
        effect,
        at,
        lease: Lease::default(),
    };
    let follows = |matches: Match, effect: Effect| Fault {
        name: GOES_ON.to_owned(),
        matches,
        when: When { following: Some(FAULT.to_owned()), ..When::default() },
        effect,
        at: Moment::Before,
        lease: Lease::default(),
    };
    let program = call.key.program.clone();
    // A link has no moment between the effect and the answer.
    let after = if call.key.what == What::Served { Moment::AfterEffect } else { Moment::BeforeReply };
    let (csi, ec2) = (call.key.what == What::Csi, call.key.plane() == Plane::Ec2);
    match kind {
        Kind::CrashBefore => vec![one(Effect::Crash(program), Moment::Before)],
        Kind::CrashAfter => vec![one(Effect::Crash(program), after)],
        Kind::NextStep | Kind::Delete => vec![one(Effect::Hang(true), after)],
        Kind::Slow => vec![one(Effect::Hang(true), Moment::Before)],
        Kind::StaleList => {
            let stale = follows(reads(&program, &["list", "get", "watch"], None), Effect::StaleRead(REVISIONS));
            let when = When { first: Some(LISTS), lasting: Some(span(PAST)), ..stale.when.clone() };
            vec![one(Effect::Crash(program), after), Fault { when, ..stale }]
        }
        Kind::LostRequest => vec![one(Effect::DropRequest(true), Moment::Before)],
        Kind::LostReply => vec![one(Effect::DropReply(true), after)],
        Kind::Timeout => vec![one(Effect::Error("Timeout".to_owned()), after)],
        Kind::Conflict => vec![one(Effect::Error("Conflict".to_owned()), Moment::Before)],
        Kind::Throttle => {
            let word = if ec2 { "RequestLimitExceeded" } else { "TooManyRequests" };
            vec![one(Effect::Error(word.to_owned()), Moment::Before)]
        }
        Kind::Outage => {
            let effect =
                || if csi { Effect::Grpc("INTERNAL".to_owned()) } else { Effect::Error("InternalError".to_owned()) };
            let lasts = follows(matching(call), effect());
            let when = When { lasting: Some(span(OUTAGE)), ..lasts.when.clone() };
            vec![one(effect(), Moment::Before), Fault { when, ..lasts }]
        }
        Kind::Aborted => vec![one(Effect::Grpc("ABORTED".to_owned()), Moment::Before)],
        Kind::Deadline => vec![one(Effect::Grpc("DEADLINE_EXCEEDED".to_owned()), after)],
        Kind::Unavailable => vec![one(Effect::Grpc("UNAVAILABLE".to_owned()), Moment::Before)],
        Kind::Lag => vec![one(Effect::Delay(span(LATE)), Moment::Before)],
        Kind::Gone => vec![one(Effect::Watch(WatchFault::Gone), Moment::Before)],
        Kind::Gap => vec![one(Effect::Watch(WatchFault::Gap), Moment::Before)],
        Kind::Unobserved => {
            let resource = call.key.attributes.get("resource").map(String::as_str);
            let late = follows(reads(&program, &["list", "watch"], resource), Effect::Delay(span(UNSEEN)));
            let when = When { first: Some(1), ..late.when.clone() };
            vec![one(Effect::Watch(WatchFault::Gone), Moment::Before), Fault { when, ..late }]
        }
        Kind::Stall => {
            let matches = Match { op: Some("watch-event".into()), ..reads(&program, &[], None) };
            let silent = follows(matches, Effect::Hang(true));
            let lease = Lease { ttl: Some(span(SILENCE)), owner: None };
            vec![one(Effect::Count(true), Moment::Before), Fault { lease, ..silent }]
        }
        // A new volume cannot vanish before it is created.
        Kind::Vanish if call.key.op == "CreateVolume" => vec![one(Effect::Vanish(true), after)],
        Kind::Vanish => vec![one(Effect::Vanish(true), Moment::Before)],
        Kind::StaleDescribe => vec![one(Effect::StaleRead(CHANGES), Moment::Before)],
        Kind::Stuck => {
            let state = transition(&call.key.op).unwrap_or("attaching").to_owned();
            let stuck = one(Effect::Stick(state), Moment::Before);
            vec![Fault { lease: Lease { ttl: Some(span(STUCK)), owner: None }, ..stuck }]
        }
    }
}

fn matching(call: &Call) -> Match {
    let attributes = call.key.attributes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    Match { plane: call.key.plane(), op: Some(call.key.op.as_str().into()), attributes }
}

/// Matches reads of `program` from the API server. Without a resource, only reads from the cache.
fn reads(program: &str, ops: &[&str], resource: Option<&str>) -> Match {
    let own = [("caller".to_owned(), program.to_owned())].into_iter();
    let more = match resource {
        Some(resource) => Some(("resource".to_owned(), resource.to_owned())),
        None => (!ops.is_empty()).then(|| ("reads".to_owned(), "cache".to_owned())),
    };
    let op = match ops {
        [] => None,
        ops => serde_json::from_value::<Ops>(serde_json::json!(ops)).ok(),
    };
    Match { plane: Plane::K8s, op, attributes: own.chain(more).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{ClusterSpec, names};
    use crate::perturb::call::Key;
    use crate::perturb::plan::{Calls, trials};

    fn call(what: What, op: &str, attributes: &[(&str, &str)]) -> Call {
        let attributes = attributes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = Key { what, program: "csi-attacher".to_owned(), op: op.to_owned(), attributes };
        Call { key, nth: 2, ms: 0, step: Some(0) }
    }

    #[test]
    fn every_trial_is_faults_that_the_catalogue_takes() {
        let mine = ("caller", "csi-attacher");
        let all = vec![
            call(What::Write, "patch", &[("resource", "pods"), ("subresource", ""), ("object", "a/b-*"), mine]),
            call(What::Write, "create", &[("resource", "pods"), mine]),
            call(What::CloudWrite, "AttachVolume", &[mine]),
            call(What::CloudWrite, "DetachVolume", &[mine]),
            call(What::CloudWrite, "CreateVolume", &[mine]),
            call(What::CloudWrite, "ModifyVolume", &[mine]),
            call(What::CloudWrite, "DeleteVolume", &[mine]),
            call(What::CloudRead, "DescribeVolumes", &[mine]),
            call(What::Csi, "ControllerPublishVolume", &[("node", "i-1"), mine]),
            call(What::Csi, "CreateVolume", &[mine]),
            call(What::Served, "request", &[("to", "csi-controller"), ("path", "/csi.v1.Controller/CreateVolume")]),
            call(What::Event, "watch-event", &[("resource", "pods"), ("type", "ADDED"), mine]),
        ];
        let all: Vec<Call> = all.into_iter().flat_map(|call| [Call { nth: 1, ..call.clone() }, call]).collect();
        let cached = ["csi-attacher".to_owned()].into();
        let calls = Calls { all, cached, ..Calls::default() };
        let catalogue = names::catalogue(&ClusterSpec::of_nodes(1));
        let mut seen = std::collections::BTreeSet::new();
        for trial in trials(&calls, Kind::ALL, None) {
            seen.insert(trial.kind);
            for fault in of(trial.kind, &trial.call, 30.0) {
                catalogue.check(&fault).unwrap_or_else(|e| panic!("{trial}: {e}: {fault:?}"));
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), Kind::ALL, "each kind is planned somewhere");
    }

    #[test]
    fn times_are_wall_times_whatever_the_scale() {
        let event = call(What::Event, "watch-event", &[("resource", "pods")]);
        let lag = |scale| of(Kind::Lag, &event, scale)[0].effect.clone();
        assert_eq!(lag(1.0), Effect::Delay(Span(LATE)));
        assert_eq!(lag(10.0), Effect::Delay(Span(LATE * 10)));
    }
}
