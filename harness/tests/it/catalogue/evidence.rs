//! Looks in the trace of a run for the evidence that a row of the catalogue promises: by type of event, and by
//! comparison with the run without the fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_disk::events::DiskPlugged;
use csi_mock::events::{CsiCall, CsiDone, CsiFalsified, CsiWrongDevice};
use fake_apiserver::events::{WatchSent, WatchSpoiled};
use mock_ec2::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, InstancePhase, ModificationChanged, ModificationState,
    RequestEnded, SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase,
};
use substrate::events::{LinkReply, LinkRequest};
use substrate::fault::{Effect, Fault, Moment, Plane};
use substrate::json::{Text, Value};
use substrate::{Event, Line};

/// Minimum time in milliseconds that a lost, hanging or stuck event stays away.
const AWAY: u64 = 5_000;

/// The parts of an event that are compared, which exclude its number, and its typed content.
#[derive(Clone, Debug)]
pub struct ObservedEvent {
    pub ms: u64,
    pub process: Arc<str>,
    pub kind: &'static str,
    pub fields: Vec<(Text, Value)>,
    pub fact: Fact,
}

impl PartialEq for ObservedEvent {
    fn eq(&self, other: &Self) -> bool {
        (self.ms, self.kind) == (other.ms, other.kind) && self.process == other.process && self.fields == other.fields
    }
}

impl ObservedEvent {
    pub fn of(event: &Event) -> Self {
        let Line { ms, process, fields, .. } = event.line();
        let fields = fields.iter().map(|(key, value)| (key.into(), value.clone())).collect();
        Self { ms, process, kind: event.kind(), fields, fact: Fact::of(event) }
    }

    /// Returns true if it is the same event, at any time.
    fn is_again(&self, other: &Self) -> bool {
        self.process == other.process
            && self.kind == other.kind
            && match self.fact {
                Fact::Other => self.fields == other.fields,
                _ => self.fact == other.fact,
            }
    }

    fn has_text(&self, text: &str) -> bool {
        self.fields.iter().any(|(_, value)| value.to_string().contains(text))
    }
}

/// Typed content of an event that serves as evidence.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    Request { to: Text, method: Text, path: Text },
    Reply { to: Text, method: Text, path: Text, status: u16 },
    Ec2 { action: Text, error: Option<Text> },
    Call { rpc: Text, ordinal: u64 },
    Done { ordinal: u64, code: Text },
    Sent { stream: u64, object: Option<Text> },
    Spoiled { fault: String },
    WrongDevice,
    Falsified { rpc: Text, effect: Text },
    Plugged,
    Volume(VolumePhase),
    Attachment(AttachmentPhase),
    Modification(ModificationState),
    Instance(InstancePhase),
    Snapshot(SnapshotPhase),
    Other,
}

impl Fact {
    fn of(event: &Event) -> Self {
        if let Some(LinkRequest { to, method, path }) = event.get() {
            return Self::Request { to: to.as_ref().into(), method: method.clone(), path: path.clone() };
        }
        if let Some(LinkReply { to, method, path, status }) = event.get() {
            return Self::Reply { to: to.as_ref().into(), method: method.clone(), path: path.clone(), status: *status };
        }
        if let Some(RequestEnded { action, error, .. }) = event.get() {
            return Self::Ec2 { action: action.clone(), error: error.clone() };
        }
        if let Some(CsiCall { rpc, ordinal, .. }) = event.get() {
            return Self::Call { rpc: rpc.clone(), ordinal: *ordinal };
        }
        if let Some(CsiDone { ordinal, code, .. }) = event.get() {
            return Self::Done { ordinal: *ordinal, code: code.clone() };
        }
        if let Some(WatchSent { stream, object, .. }) = event.get() {
            return Self::Sent { stream: *stream, object: object.as_deref().map(Text::from) };
        }
        if let Some(WatchSpoiled { fault, .. }) = event.get() {
            return Self::Spoiled { fault: fault.clone() };
        }
        if event.is::<CsiWrongDevice>() {
            return Self::WrongDevice;
        }
        if let Some(CsiFalsified { rpc, effect, .. }) = event.get() {
            return Self::Falsified { rpc: rpc.clone(), effect: effect.clone() };
        }
        if event.is::<DiskPlugged>() {
            return Self::Plugged;
        }
        if let Some(VolumeChanged { state, .. }) = event.get() {
            return Self::Volume(*state);
        }
        if let Some(AttachmentChanged { state, .. }) = event.get() {
            return Self::Attachment(*state);
        }
        if let Some(InstanceChanged { state, .. }) = event.get() {
            return Self::Instance(*state);
        }
        if let Some(SnapshotChanged { state, .. }) = event.get() {
            return Self::Snapshot(*state);
        }
        event.get().map_or(Self::Other, |ModificationChanged { state, .. }| Self::Modification(*state))
    }
}

/// A run with a fault, from the firing of the fault, next to the run without it.
pub struct Scene<'a> {
    pub fault: &'a Fault,
    /// The operation that the fault matched, and its attributes.
    pub op: &'a str,
    pub about: &'a BTreeMap<String, String>,
    pub fired: &'a ObservedEvent,
    /// The events before the firing, which both runs share, and the later events of the run without the fault.
    pub before: &'a [ObservedEvent],
    pub usual: &'a [ObservedEvent],
    pub after: &'a [ObservedEvent],
    /// First event of the run without the fault that differs.
    pub missed: Option<&'a ObservedEvent>,
    pub differs: bool,
    /// The run has ended.
    pub over: bool,
}

impl Scene<'_> {
    /// Returns true if the evidence of the row is there.
    pub fn shows(&self) -> bool {
        let (plane, at) = (self.fault.matches.plane, self.fault.at);
        match (plane, &self.fault.effect) {
            (_, Effect::Crash(_)) => self.has(|t| t.kind == "process.crashed" && t.process == self.fired.process),
            (_, Effect::Reboot(node)) => {
                self.has(|t| t.kind == "process.crashed" && *t.process == **node)
                    && self.comes(|t| t.kind == "disk.crashed")
            }
            (Plane::Csi, effect) => self.of_driver(effect),
            (Plane::Disk, effect) => self.of_disk(effect),
            (Plane::Ec2, effect) if self.op == "Devices" => self.of_devices(effect),
            (Plane::Ec2, effect) => self.of_cloud(effect, at),
            (Plane::K8s, effect) => self.of_kubernetes(effect),
            (Plane::Link, Effect::Partition([a, b]) | Effect::PartitionOneWay([a, b])) => self.is_cut(a, b),
            (Plane::Link, effect) => self.of_link(effect),
            (_, Effect::Delay(_)) => self.is_late(),
            (_, Effect::Hang(_)) => self.missed.is_some_and(|u| self.away(u, AWAY)),
            _ => self.differs,
        }
    }

    /// Returns true if such an event occurs at the time at which the fault fires.
    fn has(&self, is: impl Fn(&ObservedEvent) -> bool) -> bool {
        self.after.iter().take_while(|t| t.ms == self.fired.ms).any(is)
    }

    fn comes(&self, is: impl Fn(&ObservedEvent) -> bool) -> bool {
        self.after.iter().any(is)
    }

    /// Returns true if the run is past `ms`.
    fn past(&self, ms: u64) -> bool {
        self.over || self.after.last().is_some_and(|t| t.ms > ms)
    }

    /// Returns true if `u` does not occur until `grace` milliseconds after its time without the fault.
    fn away(&self, u: &ObservedEvent, grace: u64) -> bool {
        self.past(u.ms + grace) && !self.after.iter().take_while(|t| t.ms <= u.ms + grace).any(|t| u.is_again(t))
    }

    /// Returns the delay of the fault in milliseconds.
    fn delay(&self) -> u64 {
        match &self.fault.effect {
            Effect::Delay(span) | Effect::PauseIo(span) => span.0.as_millis() as u64,
            other => panic!("{other:?} does not delay"),
        }
    }

    /// Returns true if `u` first occurs later by at least the delay.
    fn late(&self, u: &ObservedEvent) -> bool {
        let again = self.after.iter().find(|t| u.is_again(t));
        again.is_some_and(|t| t.ms >= u.ms + self.delay())
    }

    /// Returns true if the first differing event occurs only after the delay.
    fn is_late(&self) -> bool {
        let again = |u: &ObservedEvent| self.after.iter().find(|t| u.is_again(t)).map(|t| t.ms);
        self.missed.and_then(again).is_some_and(|ms| ms >= self.fired.ms + self.delay())
    }

    /// Returns the first such event of the run without the fault, from the firing on.
    fn usual(&self, is: impl Fn(&ObservedEvent) -> bool) -> Option<&ObservedEvent> {
        self.usual.iter().find(|t| is(t))
    }

    fn of_driver(&self, effect: &Effect) -> bool {
        let call = self.before.iter().rev().find_map(|t| match &t.fact {
            Fact::Call { rpc, ordinal } if rpc == self.op && t.process == self.fired.process => Some(*ordinal),
            _ => None,
        });
        // The calls of the registrar are not CSI calls and have no events; only their consequences are late or missing.
        let Some(call) = call else {
            return match effect {
                Effect::Delay(_) => self.is_late(),
                _ => self.missed.is_some_and(|u| self.away(u, 0)),
            };
        };
        let is_end = |t: &ObservedEvent| {
            t.process == self.fired.process && matches!(t.fact, Fact::Done { ordinal, .. } if ordinal == call)
        };
        let end = self.usual(is_end);
        let ended = |code: &str, word: &str| {
            let mut ends = self.after.iter().filter(|t| is_end(t));
            ends.next().is_some_and(|t| matches!(&t.fact, Fact::Done { code: c, .. } if c == code) && t.has_text(word))
        };
        match effect {
            Effect::WrongDevice(_) => self.comes(|t| t.fact == Fact::WrongDevice),
            Effect::OmitEntry(_)
            | Effect::RepeatEntry(_)
            | Effect::NoContext(_)
            | Effect::WrongCapacity(_)
            | Effect::WrongNode(_)
            | Effect::WrongZone(_) => {
                let is = |t: &ObservedEvent| matches!(&t.fact, Fact::Falsified { rpc, effect: e } if rpc == self.op && e == effect.name());
                self.comes(is)
            }
            Effect::Delay(_) => end.is_some_and(|u| self.late(u)),
            Effect::Hang(_) => end.is_some_and(|u| self.away(u, AWAY)),
            Effect::Grpc(code) => ended(code, ""),
            Effect::Error(word) => ended("INTERNAL", word),
            Effect::Http(status) => ended("UNAVAILABLE", &status.to_string()),
            Effect::DropRequest(_) | Effect::DropReply(_) | Effect::ResetStream(_) => ended("UNAVAILABLE", ""),
            _ => self.differs,
        }
    }

    fn of_disk(&self, effect: &Effect) -> bool {
        let failed = |errno: &str| {
            let errno = csi_disk::errno(errno).map(std::io::Error::from).map(|e| e.to_string());
            errno.is_some_and(|text| self.comes(|t| t.has_text(&text)))
        };
        match effect {
            Effect::IoError(errno) | Effect::Error(errno) => failed(errno),
            Effect::TornWrite(_) => failed("EIO"),
            Effect::WrongDevice(_) => self.comes(|t| t.has_text("it holds another volume")),
            Effect::PauseIo(_) | Effect::Delay(_) => self.is_late(),
            Effect::Hang(_) => self.missed.is_some_and(|u| self.away(u, AWAY)),
            _ => self.differs,
        }
    }

    fn of_devices(&self, effect: &Effect) -> bool {
        let Some(u) = self.usual(|t| t.fact == Fact::Plugged) else { return false };
        match effect {
            Effect::Delay(_) => self.late(u),
            Effect::Hang(_) | Effect::DropReply(_) => self.away(u, AWAY),
            _ => self.differs,
        }
    }

    fn of_cloud(&self, effect: &Effect, at: Moment) -> bool {
        let ended = |error: Option<&str>| {
            let is = |t: &&ObservedEvent| matches!(&t.fact, Fact::Ec2 { action, error: e } if action == self.op && e.as_deref() == error);
            self.after.iter().take_while(|t| t.ms == self.fired.ms).filter(is).count()
        };
        let reply = || self.usual(|t| matches!(&t.fact, Fact::Reply { to, .. } if to == "ec2"));
        let request = || self.usual(|t| matches!(&t.fact, Fact::Ec2 { action, .. } if action == self.op));
        // The request is recorded before its last moment. At that moment only the reply is outstanding.
        let u = if at == Moment::BeforeReply { reply() } else { request() };
        let with = |status: u16| {
            let answer =
                |t: &ObservedEvent| matches!(&t.fact, Fact::Reply { to, status: s, .. } if to == "ec2" && *s == status);
            self.comes(answer)
        };
        match effect {
            Effect::Error(code) => with(400) && (at == Moment::BeforeReply || ended(Some(code)) == 1),
            Effect::Http(status) => {
                with(*status) && (at == Moment::BeforeReply || ended(Some(&format!("HTTP {status}"))) == 1)
            }
            Effect::DropReply(_) => {
                let lost = reply().is_some_and(|u| self.away(u, 0));
                lost && (at == Moment::BeforeReply || ended(Some("reply dropped")) == 1)
            }
            Effect::Duplicate(times) => {
                let ends = |t: &&ObservedEvent| matches!(&t.fact, Fact::Ec2 { action, .. } if action == self.op);
                let all = self.after.iter().take_while(|t| t.ms == self.fired.ms).filter(ends).count();
                all == *times as usize
            }
            Effect::Vanish(_) => self.has(|t| t.fact == Fact::Volume(VolumePhase::Deleted)),
            Effect::Stick(state) => self.sticks(state),
            Effect::Delay(_) => u.is_some_and(|u| self.late(u)),
            Effect::Hang(_) => u.is_some_and(|u| self.away(u, AWAY)),
            _ => self.differs,
        }
    }

    /// Returns true if the state that follows `state` does not occur.
    fn sticks(&self, state: &str) -> bool {
        let next = match state {
            "attaching" => Fact::Attachment(AttachmentPhase::Attached),
            "detaching" | "busy" => Fact::Attachment(AttachmentPhase::Detached),
            "creating" => Fact::Volume(VolumePhase::Available),
            "deleting" => Fact::Volume(VolumePhase::Deleted),
            "modifying" => Fact::Modification(ModificationState::Optimizing),
            "optimizing" => Fact::Modification(ModificationState::Completed),
            "pending" if self.op.contains("Snapshot") => Fact::Snapshot(SnapshotPhase::Completed),
            "pending" => Fact::Instance(InstancePhase::Running),
            "stopping" => Fact::Instance(InstancePhase::Stopped),
            "shutting-down" => Fact::Instance(InstancePhase::Terminated),
            // Storage tiers have no events.
            "archival-in-progress" | "temporary-restore-in-progress" | "permanent-restore-in-progress" => {
                return self.differs;
            }
            other => panic!("what comes after {other}?"),
        };
        self.usual(|t| t.fact == next).is_some_and(|u| self.away(u, AWAY))
    }

    fn of_kubernetes(&self, effect: &Effect) -> bool {
        if self.fault.matches.op.as_ref().is_some_and(|op| op.iter().any(|op| op == "watch-event")) {
            return match effect {
                Effect::Delay(_) => self.is_late(),
                Effect::Hang(_) => self.missed.is_some_and(|u| self.away(u, AWAY)),
                _ => self.is_spoiled() && self.differs,
            };
        }
        match effect {
            Effect::Error(reason) => {
                let code =
                    fake_apiserver::faults::CODES.iter().find(|(known, _)| known == reason).map(|(_, code)| *code);
                code.is_some_and(|code| self.answers(code))
            }
            Effect::Http(status) => self.answers(*status),
            Effect::DropRequest(_) | Effect::DropReply(_) => self.answer().is_some_and(|u| self.away(u, 0)),
            Effect::Delay(_) => self.answer().is_some_and(|u| self.late(u)),
            Effect::Hang(_) => self.answer().is_some_and(|u| self.away(u, AWAY)),
            Effect::Watch(_) => self.is_spoiled() && self.differs,
            Effect::StaleRead(_) if self.op == "watch" => self.is_spoiled() && self.differs,
            _ => self.differs,
        }
    }

    fn is_spoiled(&self) -> bool {
        self.comes(|t| matches!(&t.fact, Fact::Spoiled { fault } if *fault == self.fault.name))
    }

    /// Returns true if this method and path are those of the API request that the fault matched.
    fn is_met(&self, method: &str, path: &str) -> bool {
        let reported = |key: &str| self.about.get(key).map_or("", String::as_str);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let named = reported("object").rsplit('/').next().unwrap_or_default();
        let (of, is_watch) = (reported("subresource"), query.contains("watch="));
        let collection =
            matches!(self.op, "list" | "watch" | "deletecollection") || self.op == "create" && of.is_empty();
        let mut end = format!("/{}", reported("resource"));
        for part in [if collection { "" } else { named }, of] {
            end += &if part.is_empty() { String::new() } else { format!("/{part}") };
        }
        let wanted = match self.op {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        method == wanted && path.ends_with(&end) && is_watch == (self.op == "watch")
    }

    /// Returns the reply to the matched request in the run without the fault.
    fn answer(&self) -> Option<&ObservedEvent> {
        self.usual(|t| match &t.fact {
            Fact::Reply { to, method, path, .. } => to == "apiserver" && self.is_met(method, path),
            _ => false,
        })
    }

    /// Returns true if the matched request is answered with `code`.
    fn answers(&self, code: u16) -> bool {
        let Some(u) = self.answer() else { return false };
        self.comes(|t| match &t.fact {
            Fact::Reply { to, method, path, status } => {
                to == "apiserver" && t.process == u.process && *status == code && self.is_met(method, path)
            }
            _ => false,
        })
    }

    fn of_link(&self, effect: &Effect) -> bool {
        let reported = |key: &str| self.about.get(key).map_or("", String::as_str);
        let is = |t: &ObservedEvent| match &t.fact {
            Fact::Reply { to, method, path, .. } => {
                let path = path.split('?').next().unwrap_or_default();
                *t.process == *reported("from")
                    && to == reported("to")
                    && method == reported("method")
                    && path == reported("path")
            }
            _ => false,
        };
        let u = if self.op == "stream" { self.missed } else { self.usual(is) };
        let Some(u) = u else { return false };
        match effect {
            Effect::Delay(_) if self.op == "stream" => self.is_late(),
            Effect::Delay(_) => self.late(u),
            Effect::Hang(_) => self.away(u, AWAY),
            Effect::DropRequest(_) | Effect::Http(_) | Effect::DropReply(_) => self.away(u, 0),
            // The reader of a stream that was reset requests it again. A stalled stream is not requested again.
            Effect::ResetStream(_) => self.comes(|t| match &t.fact {
                Fact::Request { to, path, .. } => {
                    *t.process == *reported("from")
                        && to == reported("to")
                        && path.split('?').next() == Some(reported("path"))
                }
                _ => false,
            }),
            Effect::StallStream(_) => self.differs && self.away(u, AWAY),
            _ => self.differs,
        }
    }

    /// Returns true if no reply passes between the two.
    fn is_cut(&self, from: &str, to: &str) -> bool {
        let passes = |t: &ObservedEvent| {
            let here = *t.process == *from || t.process.starts_with(&format!("{from}/"));
            here && matches!(&t.fact, Fact::Reply { to: peer, .. } if peer == to)
        };
        let end = self.fired.ms + AWAY;
        let would = self.usual.iter().take_while(|t| t.ms <= end).any(passes);
        would && self.past(end) && !self.after.iter().take_while(|t| t.ms <= end).any(passes)
    }
}
