//! Short description of one event, and its role.

use controllers::events::NodeUnknown;
use controllers::events::{Attach, CsiAnswered, CsiAsked, Detach, EventRecorded, LeaderLost, NodeNotReady, NodeReady};
use controllers::machine::events::{WorkloadCorrupt, WorkloadFailed, WorkloadStarted, WorkloadStopped, WorkloadSynced};
use controllers::node_agent::events::{Expanded, Mapped, Mounted, OperationFailed, Remounted, Unmounted};
use csi_disk::events::{DiskCrashed, DiskError, DiskPlugged, DiskResized, DiskUnplugged};
use csi_mock::events::{
    CsiCall, CsiDone, CsiViolation, CsiWrongDevice, DiskDoubleMount, DiskExpanded, DiskPublished, DiskStaged,
    DiskUnpublished, DiskUnstaged, Ec2Answered,
};
use fake_apiserver::events::{Commit, RequestEnded, WatchClosed, WatchOpened, WatchSent};
use fake_apiserver::state::EventType;
use mock_ec2::events::{
    AttachmentChanged, AttachmentPhase, InstanceChanged, ModificationChanged, SnapshotChanged, VolumeChanged,
    VolumePhase,
};
use substrate::Event;
use substrate::events::{
    FaultFired, LinkReply, LinkRequest, ProcessCrashed, ProcessFailed, ProcessPanicked, ProcessStarted,
};
use substrate::fault::Effect;

use crate::events::{ClusterNode, ScenarioStep};
use crate::model::claims_of;
use crate::output::took;
use crate::spec::Kind;
use crate::spec::names::RUNNER;

/// Role of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A message, or an event of a stream: not shown.
    Traffic,
    Step,
    Fired {
        ends: bool,
    },
    Crashed,
    Started,
    Asked(String),
    Answered(String),
    Call(String, u64),
    Done(String, u64),
    /// A state of the cloud; `settles` if it ends an operation that another event began.
    Cloud {
        settles: bool,
    },
    CloudAnswered,
    Plug,
    Disk,
    Commit {
        by: String,
    },
    Other,
}

/// Appearance of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    Plain,
    Warning,
    Bad,
}

/// Description of one event.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub role: Role,
    /// Objects that it names, as `pvc/data`, `volume/vol-…`, `node/i-…`.
    pub names: Vec<String>,
    /// Short title.
    pub title: String,
    pub look: Look,
    /// Events with the largest weight are left out first.
    pub weight: u8,
}

impl Facts {
    pub fn of(event: &Event) -> Self {
        let mut facts =
            Self { role: Role::Other, names: Vec::new(), title: String::new(), look: Look::Plain, weight: 2 };
        facts.read_world(event);
        facts.read_api(event);
        facts.read_csi(event);
        facts.read_cloud(event);
        facts.read_disk(event);
        facts.read_node(event);
        if facts.title.is_empty() {
            facts.title = event.kind().replace(['.', '-', '_'], " ");
            if event.kind().ends_with(".error") || event.kind().ends_with("-failed") {
                facts.look = Look::Warning;
            }
        }
        facts
    }

    fn say(&mut self, weight: u8, title: impl Into<String>) {
        (self.weight, self.title) = (weight, title.into());
    }

    fn name(&mut self, sort: &str, name: &str) {
        if !name.is_empty() {
            self.names.push(format!("{sort}/{}", name.strip_prefix("default/").unwrap_or(name)));
        }
    }

    fn read_world(&mut self, event: &Event) {
        if let Some(step) = event.get::<ScenarioStep>() {
            self.role = Role::Step;
            self.say(0, format!("{}. {}", step.step + 1, step.does));
        } else if let Some(FaultFired { fault, op, effect, .. }) = event.get() {
            self.role = Role::Fired { ends: matches!(effect, Effect::Crash(_) | Effect::Reboot(_)) };
            self.look = Look::Bad;
            self.say(0, format!("fault {fault} at {op}"));
        } else if event.is::<ProcessCrashed>() {
            (self.role, self.look) = (Role::Crashed, Look::Bad);
            self.say(0, format!("{} ends", event.process));
        } else if let Some(started) = event.get::<ProcessStarted>() {
            self.role = Role::Started;
            let again = if started.incarnation > 1 { " again" } else { "" };
            self.say(u8::from(started.incarnation == 1) * 2, format!("{} starts{again}", event.process));
        } else if let Some(ProcessPanicked { error }) = event.get() {
            self.look = Look::Bad;
            self.say(0, format!("{} panics: {error}", event.process));
        } else if let Some(ProcessFailed { error }) = event.get() {
            self.look = Look::Bad;
            self.say(0, format!("{} fails: {error}", event.process));
        } else if let Some(ClusterNode { node, instance, zone }) = event.get() {
            self.name("node", node);
            self.name("node", instance);
            self.say(2, format!("{node} is {instance} in {zone}"));
        } else if event.is::<LinkRequest>() || event.is::<LinkReply>() {
            self.role = Role::Traffic;
        }
    }

    fn read_api(&mut self, event: &Event) {
        let stream = event.is::<WatchOpened>() || event.is::<WatchClosed>() || event.is::<WatchSent>();
        if stream || event.is::<RequestEnded>() {
            self.role = Role::Traffic;
        } else if let Some(commit) = event.get::<Commit>() {
            self.commit(commit);
        } else if let Some(recorded) = event.get::<EventRecorded>() {
            let (sort, name) = recorded.object.split_once('/').unwrap_or(("object", &recorded.object));
            self.name(short_of(sort), name);
            let warns = recorded.r#type == "Warning";
            self.look = if warns { Look::Warning } else { Look::Plain };
            self.say(if warns { 1 } else { 3 }, format!("Event {}: {}", recorded.reason, recorded.message));
        }
    }

    fn commit(&mut self, commit: &Commit) {
        let kind = Kind::of_word(&commit.resource);
        let sort = kind.map_or(commit.resource.as_str(), |kind| kind.short());
        let sort = if sort == "volumeattachment" { "va" } else { sort };
        self.name(sort, &commit.object);
        let mut now: Vec<String> = Vec::new();
        if let Some(pod) = &commit.pod {
            claims_of(&commit.object, pod).for_each(|claim| self.name("pvc", &claim));
            self.name("node", pod.node.as_deref().unwrap_or_default());
            now.extend(pod.phase.as_deref().map(str::to_owned));
            now.extend(pod.node.as_ref().map(|node| format!("on {node}")));
            now.extend(pod.deleting.then(|| "terminating".to_owned()));
        }
        if let Some(claim) = &commit.pvc {
            self.name("pv", claim.volume.as_deref().unwrap_or_default());
            now.extend(claim.phase.as_deref().map(str::to_owned));
        }
        if let Some(volume) = &commit.pv {
            self.name("pvc", volume.claim.as_deref().unwrap_or_default());
            self.name("volume", volume.handle.as_deref().unwrap_or_default());
            now.extend(volume.phase.as_deref().map(str::to_owned));
        }
        if let Some(attachment) = &commit.volumeattachment {
            self.name("pv", attachment.pv.as_deref().unwrap_or_default());
            self.name("node", attachment.node.as_deref().unwrap_or_default());
            now.push(if attachment.attached { "attached" } else { "not attached" }.to_owned());
            now.extend(attachment.deleting.then(|| "terminating".to_owned()));
        }
        if let Some(node) = &commit.node {
            now.extend(node.ready.as_ref().map(|ready| format!("Ready={ready}")));
        }
        let became = match commit.r#type {
            EventType::Added => "added",
            EventType::Modified => "changed",
            EventType::Deleted => "gone",
        };
        let now = if now.is_empty() { String::new() } else { format!(" · {}", now.join(", ")) };
        let weight = match (sort, commit.verb.as_str()) {
            ("pvc" | "pv" | "va" | "pod", _) => 1,
            (_, "bootstrap") => 4,
            _ if commit.resource == "leases" || commit.resource == "events" => 4,
            _ => 3,
        };
        let object = commit.object.strip_prefix("default/").unwrap_or(&commit.object);
        self.say(weight, format!("{sort}/{object} {became}{now}"));
        self.role = Role::Commit { by: by(commit) };
    }

    fn read_csi(&mut self, event: &Event) {
        if let Some(call) = event.get::<CsiCall>() {
            self.csi(call.volume.as_deref(), call.node.as_deref());
            self.role = Role::Call(call.rpc.to_string(), call.ordinal);
            self.say(if call.volume.is_some() { 1 } else { 3 }, call.rpc.as_str());
        } else if let Some(done) = event.get::<CsiDone>() {
            self.csi(done.volume.as_deref(), done.node.as_deref());
            self.role = Role::Done(done.rpc.to_string(), done.ordinal);
            self.look = if done.code == "OK" { Look::Plain } else { Look::Warning };
            let weight = if done.volume.is_some() || done.code != "OK" { 1 } else { 3 };
            self.say(weight, format!("{} {} after {}", done.rpc, done.code, took(done.took_ms)));
        } else if let Some(asked) = event.get::<CsiAsked>() {
            self.csi(asked.volume.as_deref(), asked.node.as_deref());
            self.role = Role::Asked(asked.rpc.to_string());
            self.say(3, format!("asks {}", asked.rpc));
        } else if let Some(recorded) = event.get::<CsiAnswered>() {
            self.csi(recorded.volume.as_deref(), recorded.node.as_deref());
            self.role = Role::Answered(recorded.rpc.to_string());
            self.look = if recorded.code == "OK" { Look::Plain } else { Look::Warning };
            self.say(if recorded.code == "OK" { 3 } else { 1 }, format!("{} answers {}", recorded.rpc, recorded.code));
        } else if let Some(CsiViolation { rpc, volume, node, rule, .. }) = event.get() {
            self.csi(volume.as_deref(), node.as_deref());
            self.look = Look::Bad;
            self.say(0, format!("{rpc} breaks the lifecycle: {}", rule.name()));
        } else if let Some(CsiWrongDevice { volume, node, told: named, found }) = event.get() {
            self.csi(Some(volume), Some(node));
            self.look = Look::Warning;
            self.say(1, format!("{volume} is {found}, not {named}"));
        } else if let Some(recorded) = event.get::<Ec2Answered>() {
            self.role = Role::CloudAnswered;
            let error = recorded.error.as_deref().map(|error| format!(" {error}")).unwrap_or_default();
            self.look = if recorded.error.is_some() { Look::Warning } else { Look::Plain };
            self.say(3, format!("{} answered{error}", recorded.action));
        }
    }

    fn csi(&mut self, volume: Option<&str>, node: Option<&str>) {
        self.name("volume", volume.unwrap_or_default());
        self.name("node", node.unwrap_or_default());
    }

    fn read_cloud(&mut self, event: &Event) {
        if let Some(VolumeChanged { volume, state, .. }) = event.get() {
            self.name("volume", volume.as_str());
            self.role = Role::Cloud { settles: !matches!(state, VolumePhase::Creating | VolumePhase::Deleting) };
            self.look = if *state == VolumePhase::Error { Look::Warning } else { Look::Plain };
            self.say(1, format!("{volume} {}", state.as_str()));
        } else if let Some(AttachmentChanged { volume, instance, device, state, forced }) = event.get() {
            self.csi(Some(volume.as_str()), Some(instance.as_str()));
            let begins = matches!(state, AttachmentPhase::Attaching | AttachmentPhase::Detaching);
            self.role = Role::Cloud { settles: !begins };
            let (forced, warns) = (if *forced { ", forced" } else { "" }, *forced || *state == AttachmentPhase::Busy);
            self.look = if warns { Look::Warning } else { Look::Plain };
            self.say(1, format!("{volume} {} as {device} at {instance}{forced}", state.as_str()));
        } else if let Some(InstanceChanged { instance, state }) = event.get() {
            self.name("node", instance.as_str());
            self.role = Role::Cloud { settles: false };
            self.say(1, format!("{instance} {}", state.as_str()));
        } else if let Some(ModificationChanged { volume, .. }) = event.get() {
            self.name("volume", volume.as_str());
            self.role = Role::Cloud { settles: false };
            self.say(1, format!("{volume} modification"));
        } else if let Some(SnapshotChanged { snapshot, volume, .. }) = event.get() {
            self.name("volume", volume.as_str());
            self.name("snapshot", snapshot.as_str());
            self.role = Role::Cloud { settles: false };
            self.say(1, format!("{snapshot} of {volume}"));
        }
    }

    fn read_disk(&mut self, event: &Event) {
        let mut on = |role: Role, volume: &str, node: &str, does: &str| {
            self.csi(Some(volume), Some(node));
            self.role = role;
            self.say(1, format!("{volume} {does}"));
        };
        if let Some(DiskStaged { volume, node, formatted, .. }) = event.get() {
            on(Role::Disk, volume, node, if *formatted { "formatted and staged" } else { "staged" });
        } else if let Some(DiskUnstaged { volume, node, .. }) = event.get() {
            on(Role::Disk, volume, node, "unstaged");
        } else if let Some(DiskPublished { volume, node, .. }) = event.get() {
            on(Role::Disk, volume, node, "published");
        } else if let Some(DiskUnpublished { volume, node, .. }) = event.get() {
            on(Role::Disk, volume, node, "unpublished");
        } else if let Some(DiskExpanded { volume, node, .. }) = event.get() {
            on(Role::Disk, volume, node, "expanded");
        } else if let Some(DiskPlugged { volume, node, device }) = event.get() {
            on(Role::Plug, volume, node, &format!("plugged as {device}"));
        } else if let Some(DiskUnplugged { volume, node }) = event.get() {
            on(Role::Plug, volume, node, "unplugged");
        } else if let Some(DiskResized { volume, node, .. }) = event.get() {
            on(Role::Plug, volume, node, "resized");
        } else if let Some(DiskDoubleMount { volume, node, .. }) = event.get() {
            on(Role::Disk, volume, node, "mounted for writing on several nodes");
            (self.look, self.weight) = (Look::Bad, 0);
        } else if let Some(DiskError { volume, node, error }) = event.get() {
            on(Role::Plug, volume, node, &format!("cannot be plugged: {error}"));
            self.look = Look::Warning;
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.name("node", node);
            self.look = Look::Bad;
            self.say(0, format!("{node} loses its power"));
        }
    }

    fn read_node(&mut self, event: &Event) {
        if let Some(Attach { volume, pv, node, .. }) = event.get() {
            self.csi(Some(volume), Some(node));
            self.name("pv", pv);
            self.say(1, format!("begins to attach {volume} to {node}"));
        } else if let Some(Detach { volume, pv, node, forced, .. }) = event.get() {
            self.csi(Some(volume), Some(node));
            self.name("pv", pv);
            self.look = if *forced { Look::Warning } else { Look::Plain };
            let by_force = if *forced { " by force" } else { "" };
            self.say(1, format!("begins to detach {volume} from {node}{by_force}"));
        } else if let Some(NodeReady { node }) = event.get() {
            self.name("node", node);
            self.say(1, format!("{node} is ready"));
        } else if let Some(NodeNotReady { node }) = event.get() {
            self.name("node", node);
            self.look = Look::Warning;
            self.say(1, format!("{node} is not ready"));
        } else if let Some(NodeUnknown { node }) = event.get() {
            self.name("node", node);
            self.look = Look::Warning;
            self.say(1, format!("{node} is not heard of"));
        } else if event.is::<LeaderLost>() {
            self.look = Look::Warning;
            self.say(0, format!("{} loses its lease", event.process));
        } else if let Some(failed) = event.get::<OperationFailed>() {
            self.csi(Some(&failed.volume), Some(&failed.node));
            self.look = Look::Warning;
            self.say(1, format!("{} fails: {}", failed.operation, failed.error));
        }
        let mut pod = |node: &str, pod: &str, volume: &str, does: &str, weight: u8| {
            self.csi(Some(volume), Some(node));
            self.name("pod", pod);
            self.say(weight, format!("{} {does}", pod.strip_prefix("default/").unwrap_or(pod)));
        };
        if let Some(e) = event.get::<Mounted>() {
            pod(&e.node, &e.pod, &e.volume, "has its volume", 1);
        } else if let Some(e) = event.get::<Remounted>() {
            pod(&e.node, &e.pod, &e.volume, "has its volume again", 3);
        } else if let Some(e) = event.get::<Unmounted>() {
            pod(&e.node, &e.pod, &e.volume, "has its volume no more", 1);
        } else if let Some(e) = event.get::<Mapped>() {
            pod(&e.node, &e.pod, &e.volume, "has its raw device", 1);
        } else if let Some(e) = event.get::<WorkloadStarted>() {
            pod(&e.node, &e.pod, &e.volume, &format!("writes; it found {} records", e.records_found), 1);
        } else if let Some(e) = event.get::<WorkloadSynced>() {
            pod(&e.node, &e.pod, &e.volume, &format!("synced record {}", e.record), 4);
        } else if let Some(e) = event.get::<WorkloadStopped>() {
            pod(&e.node, &e.pod, &e.volume, "stops writing", 1);
        } else if let Some(e) = event.get::<WorkloadFailed>() {
            pod(&e.node, &e.pod, &e.volume, &format!("cannot write: {}", e.error), 1);
            self.look = Look::Warning;
        } else if let Some(e) = event.get::<WorkloadCorrupt>() {
            pod(&e.node, &e.pod, &e.volume, &format!("finds wrong bytes: {}", e.error), 0);
            self.look = Look::Bad;
        } else if let Some(Expanded { node, volume, .. }) = event.get() {
            self.csi(Some(volume), Some(node));
            self.say(1, format!("{volume} expanded on {node}"));
        }
    }
}

/// Process that requested a commit, from its User-Agent.
fn by(commit: &Commit) -> String {
    let user = commit.user.as_str();
    if user == RUNNER {
        return "scenario".to_owned();
    }
    let program = user.split('/').next().unwrap_or(user);
    if program != "kubelet" {
        return program.to_owned();
    }
    let node = commit.pod.as_ref().and_then(|pod| pod.node.as_deref());
    let node = node.or_else(|| commit.object.rsplit('/').next().filter(|_| commit.node.is_some()));
    node.map_or_else(|| program.to_owned(), crate::spec::names::kubelet)
}

/// Short name of a kind in Events.
fn short_of(word: &str) -> &str {
    match word {
        "persistentvolumeclaim" => "pvc",
        "persistentvolume" => "pv",
        "volumeattachment" => "va",
        other => other,
    }
}
