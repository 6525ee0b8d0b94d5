//! Prints one line for each event that the user waits for.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use controllers::events::{EventRecorded, NodeNotReady, NodeReady, NodeUnknown};
use controllers::node_agent::events::Registered;
use csi_mock::events::CsiDone;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::events::{FaultFired, ProcessCrashed, ProcessPanicked, ProcessStarted};
use substrate::{Event, World};

use crate::events::{ProgramEnded, ProgramNotStarted, ProgramStarted};
use crate::model::Objects;
use crate::output::{Progress, cut};
use crate::spec::object::Kind;

/// Number of firings of a fault that are printed; then every tenth, hundredth … is.
const PRINTED: u64 = 3;
/// Maximum number of faults whose firings are counted. A cluster that stays up for days has many.
const COUNTED: usize = 1_000;
/// Maximum length of a line about a Warning, in characters.
const SHOWN: usize = 200;
/// Namespace whose objects are not the user's.
const SYSTEM: &str = "kube-system/";

/// Prints events until it is silenced.
#[derive(Clone, Debug, Default)]
pub(super) struct EventPrinter {
    still: Arc<AtomicBool>,
    printed: Arc<Mutex<Printed>>,
}

impl EventPrinter {
    /// Prints the events of `world` to `progress` from now on.
    pub(super) fn start(world: &World, progress: &Progress) -> Self {
        let printer = Self::default();
        let (still, printed, progress) = (printer.still.clone(), printer.printed.clone(), progress.clone());
        world.trace().observe(move |event| {
            let line = printed.lock().line(event);
            if let Some(line) = line.filter(|_| !still.load(Ordering::Relaxed)) {
                progress.note(&format!("{:>4}.{:03}s  {line}", event.ms / 1000, event.ms % 1000));
            }
        });
        printer
    }

    /// Prints nothing while `still`, because an intended shutdown is not news. Forgets all objects, which are new
    /// afterwards.
    pub(super) fn still(&self, still: bool) {
        let mut printed = self.printed.lock();
        // Kubelets keep their registered drivers.
        *printed = Printed { drivers: std::mem::take(&mut printed.drivers), ..Printed::default() };
        self.still.store(still, Ordering::Relaxed);
    }
}

/// Last reported state of objects.
#[derive(Debug, Default)]
struct Printed {
    /// Last line about each object, by resource and key.
    last_lines: BTreeMap<(String, String), String>,
    objects: Objects,
    /// Number of firings of each fault.
    hits: BTreeMap<String, u64>,
    /// Nodes that have been Ready, with their current state.
    nodes: BTreeMap<String, bool>,
    /// Drivers that a node has registered.
    drivers: BTreeSet<String>,
    /// Printed Warnings: object and reason.
    warned: BTreeSet<(String, String)>,
}

impl Printed {
    fn line(&mut self, event: &Event) -> Option<String> {
        self.objects.observe(event);
        if let Some(commit) = event.get::<Commit>() {
            return self.commit(commit);
        }
        if let Some(done) = event.get::<CsiDone>() {
            return self.called(done);
        }
        if let Some(last_lines) = event.get::<EventRecorded>() {
            return self.warning(last_lines);
        }
        if let Some(Registered { driver, .. }) = event.get() {
            self.drivers.insert(driver.to_string());
            return None;
        }
        if let Some(FaultFired { fault, op, .. }) = event.get() {
            if self.hits.len() >= COUNTED && !self.hits.contains_key(fault) {
                self.hits.pop_first();
            }
            let hits = self.hits.entry(fault.clone()).or_default();
            *hits += 1;
            let last_lines = *hits <= PRINTED || hits.to_string().trim_end_matches('0') == "1";
            let times = if *hits == 1 { String::new() } else { format!(" ({hits} times so far)") };
            return last_lines.then(|| format!("fault {fault} fired: {op} in {}{times}", event.process));
        }
        if event.is::<ProcessCrashed>() {
            return Some(format!("{} crashed", event.process));
        }
        if let Some(ProcessPanicked { .. }) = event.get() {
            return Some(format!("{} panicked; `mooring collect` gathers what a bug report needs", event.process));
        }
        if let Some(ProcessStarted { incarnation }) = event.get() {
            return (*incarnation > 1).then(|| format!("{} runs again", event.process));
        }
        if let Some(ProgramStarted { pid, starts }) = event.get() {
            let times = if *starts == 1 { String::new() } else { format!(", started {starts} times") };
            return Some(format!("{} is process {pid}{times}", event.process));
        }
        if let Some(ProgramEnded { how, .. }) = event.get() {
            return Some(format!("{} {how}; `mooring logs {}` has its last lines", event.process, event.process));
        }
        if let Some(ProgramNotStarted { error }) = event.get() {
            return Some(format!("{} cannot be started: {error}", event.process));
        }
        if let Some(NodeUnknown { node }) = event.get() {
            return self.unready(node, "node/{} is not heard of any more");
        }
        if let Some(NodeNotReady { node }) = event.get() {
            return self.unready(node, "node/{} is not Ready");
        }
        if let Some(NodeReady { node }) = event.get() {
            let before = self.nodes.insert(node.to_string(), true);
            return (before == Some(false)).then(|| format!("node/{node} is Ready again"));
        }
        None
    }

    /// A Warning about an object, each reason once; and a claim that waits for a driver that no node has.
    fn warning(&mut self, last_lines: &EventRecorded) -> Option<String> {
        let (kind, key) = last_lines.object.split_once('/')?;
        if key.starts_with(SYSTEM) || self.warned.len() >= COUNTED {
            return None;
        }
        let short = Kind::of_word(kind).map_or_else(|| kind.to_owned(), |kind| kind.short().to_owned());
        let name = format!("{short}/{}", key.strip_prefix("default/").unwrap_or(key));
        let line = match &*last_lines.reason {
            "ExternalProvisioning" => {
                let driver = last_lines.message.split('\'').nth(1).filter(|driver| !self.drivers.contains(*driver))?;
                format!("{name} waits for the driver {driver}, which no node has registered")
            }
            // Not cut: the end of the message says what to do.
            "DriverNotRegistered" => format!("{name}: {}", last_lines.message),
            reason if &*last_lines.r#type == "Warning" => {
                cut(&format!("{name}: {reason}: {}", last_lines.message), SHOWN)
            }
            _ => return None,
        };
        self.warned.insert((name, last_lines.reason.to_string())).then_some(line)
    }

    /// A node that has just joined is not Ready, either; that is not reported.
    fn unready(&mut self, node: &str, template: &str) -> Option<String> {
        let ready = self.nodes.get_mut(node)?;
        std::mem::replace(ready, false).then(|| template.replace("{}", node))
    }

    /// A driver call that brings a volume into a pod or out of it, or grows it.
    fn called(&self, done: &CsiDone) -> Option<String> {
        let does = match done.rpc.as_str() {
            "NodeStageVolume" => "is staged on",
            "NodePublishVolume" => "is published on",
            "NodeUnpublishVolume" => "is no longer published on",
            "NodeUnstageVolume" => "is no longer staged on",
            _ => return self.expanded(done),
        };
        // Failures appear as a Warning about the pod.
        let (handle, node) = (done.volume.as_deref()?, done.node.as_deref().filter(|_| done.code == "OK")?);
        let volume = self.objects.volume_of(handle).and_then(|_| self.objects.pv_of(handle));
        let what = volume.map_or_else(|| handle.to_owned(), |volume| self.what(volume));
        Some(format!("{what} {does} {node}"))
    }

    /// Returns the claim of a PersistentVolume.
    fn claim(&self, volume: &str) -> Option<&str> {
        let claim = self.objects.volume(volume)?.state.claim.as_deref()?;
        Some(claim.strip_prefix("default/").unwrap_or(claim))
    }

    /// Returns words for a PersistentVolume.
    fn what(&self, volume: &str) -> String {
        self.claim(volume).map_or_else(|| format!("pv/{volume}"), |claim| format!("the volume of pvc/{claim}"))
    }

    /// A volume has its new size in the cloud, or on its node; the two can be a minute or more apart.
    fn expanded(&self, done: &CsiDone) -> Option<String> {
        let volume = self.objects.pv_of(done.volume.as_deref()?).filter(|_| done.code == "OK")?;
        let claim = self.claim(volume)?;
        let is_attached = || self.objects.attachments.values().any(|va| va.state.attached && va.pv() == volume);
        match done.rpc.as_str() {
            "ControllerExpandVolume" if is_attached() => Some(format!(
                "the volume of pvc/{claim} is larger in the cloud; its filesystem grows when kubelet next looks at the pod"
            )),
            "NodeExpandVolume" => Some(format!("the filesystem of pvc/{claim} has grown")),
            _ => None,
        }
    }

    fn commit(&mut self, commit: &Commit) -> Option<String> {
        if commit.object.starts_with(SYSTEM) {
            return None;
        }
        let name = commit.object.strip_prefix("default/").unwrap_or(&commit.object).to_owned();
        let is_gone = commit.r#type == EventType::Deleted;
        let (short, is) = match (&commit.pvc, &commit.pod, &commit.volumeattachment) {
            (Some(_), ..) if is_gone => ("pvc", "is gone".to_owned()),
            (Some(claim), ..) => match (claim.phase.as_deref()?, &claim.volume) {
                ("Bound", Some(volume)) => ("pvc", format!("is Bound to {volume}")),
                ("Lost", _) => ("pvc", "is Lost".to_owned()),
                _ => return None,
            },
            (_, Some(_), _) if is_gone => ("pod", "is gone".to_owned()),
            (_, Some(pod), _) => match (pod.phase.as_deref()?, &pod.node) {
                ("Running", Some(node)) if !pod.deleting => ("pod", format!("is Running on {node}")),
                (phase @ ("Succeeded" | "Failed"), _) => ("pod", format!("has {}", phase.to_lowercase())),
                _ => return None,
            },
            (.., Some(attachment)) => {
                let (node, what) = (attachment.node.as_deref()?, self.what(attachment.pv.as_deref()?));
                let is = match (is_gone, attachment.attached) {
                    (true, _) => "is detached from",
                    (false, true) => "is attached to",
                    (false, false) if attachment.deleting => return None,
                    (false, false) => {
                        // Its name is a hash.
                        let name = cut(&commit.object, 16);
                        let line = format!("volumeattachment/{name} asks to attach {what} to {node}");
                        return self.news("va", &commit.object, line.clone()).then_some(line);
                    }
                };
                let line = format!("{what} {is} {node}");
                return self.news("va", &commit.object, line.clone()).then_some(line);
            }
            _ => return None,
        };
        let line = format!("{short}/{name} {is}");
        self.news(short, &commit.object, line.clone()).then_some(line)
    }

    /// Returns true if this differs from the last line about the object.
    fn news(&mut self, kind: &str, object: &str, line: String) -> bool {
        let gone = line.ends_with("is gone") || line.contains(" is detached from ");
        let key = (kind.to_owned(), object.to_owned());
        let before = self.last_lines.insert(key.clone(), line.clone());
        if gone {
            // A later object of the same name is a new one.
            self.last_lines.remove(&key);
        }
        before.as_ref() != Some(&line)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use fake_apiserver::events::{Attachment, Claim, Pod, Volume};
    use substrate::Level;
    use substrate::fault::Effect;

    use super::*;

    fn commit(resource: &str, object: &str) -> Commit {
        Commit::new(resource, object, 1, EventType::Modified)
    }

    /// Lines for a trace.
    fn printed_lines(printed: impl FnOnce(&substrate::Trace)) -> Vec<String> {
        let trace = substrate::Trace::new(substrate::Clock::live(), Level::Info);
        let lines = Arc::new(Mutex::new((Printed::default(), Vec::new())));
        let into = lines.clone();
        trace.observe(move |event| {
            let mut into = into.lock();
            let line = into.0.line(event);
            into.1.extend(line);
        });
        printed(&trace);
        std::mem::take(&mut lines.lock().1)
    }

    #[tokio::test]
    async fn a_claim_a_pod_and_a_volume_are_printed_once() {
        let lines = printed_lines(|trace| {
            let process = Arc::from("fake-apiserver");
            let claim = Claim { phase: Some("Bound".into()), volume: Some("pvc-1".into()), ..Claim::default() };
            let bound = Commit { pvc: Some(Box::new(claim)), ..commit("persistentvolumeclaims", "default/data") };
            let volume = Volume { claim: Some("default/data".into()), ..Volume::default() };
            trace.info(&process, Commit { pv: Some(Box::new(volume)), ..commit("persistentvolumes", "pvc-1") });
            trace.info(&process, bound.clone());
            trace.info(&process, bound.clone());
            let attached = |attached| {
                let is = Attachment {
                    attached,
                    node: Some("node-a".into()),
                    pv: Some("pvc-1".into()),
                    ..Attachment::default()
                };
                Commit { volumeattachment: Some(Box::new(is)), ..commit("volumeattachments", "csi-1") }
            };
            trace.info(&process, attached(false));
            trace.info(&process, attached(true));
            let pod = |phase: &str| {
                let pod = Pod { phase: Some(phase.into()), node: Some("node-a".into()), ..Pod::default() };
                Commit { pod: Some(Box::new(pod)), ..commit("pods", "team/web") }
            };
            trace.info(&process, pod("Pending"));
            trace.info(&process, pod("Running"));
            trace.info(&process, pod("Running"));
            trace.info(&process, Commit { r#type: EventType::Deleted, ..pod("Running") });
            trace.info(&process, pod("Running"));
            trace.info(&process, Commit { r#type: EventType::Deleted, ..attached(true) });
            trace.info(&process, Commit { object: "kube-system/x".into(), ..pod("Running") });
        });
        assert_eq!(
            lines,
            [
                "pvc/data is Bound to pvc-1",
                "volumeattachment/csi-1 asks to attach the volume of pvc/data to node-a",
                "the volume of pvc/data is attached to node-a",
                "pod/team/web is Running on node-a",
                "pod/team/web is gone",
                "pod/team/web is Running on node-a",
                "the volume of pvc/data is detached from node-a",
            ]
        );
    }

    #[tokio::test]
    async fn an_expansion_of_a_volume_that_is_in_use_says_what_it_waits_for() {
        let lines = printed_lines(|trace| {
            let process = Arc::from("fake-apiserver");
            let volume = |claim: &str| Volume {
                claim: Some(claim.into()),
                handle: Some(format!("vol-{claim}").into()),
                ..Volume::default()
            };
            let done = |rpc: &str, volume: &str, code: &str| CsiDone {
                code: code.into(),
                message: None,
                node: None,
                ordinal: 1,
                rpc: rpc.into(),
                took_ms: 1,
                volume: Some(volume.into()),
            };
            for (pv, claim) in [("pvc-1", "default/data"), ("pvc-2", "default/idle")] {
                trace.info(&process, Commit { pv: Some(Box::new(volume(claim))), ..commit("persistentvolumes", pv) });
            }
            let is = Attachment {
                attached: true,
                node: Some("n".into()),
                pv: Some("pvc-1".into()),
                ..Attachment::default()
            };
            let attached = Commit { volumeattachment: Some(Box::new(is)), ..commit("volumeattachments", "csi-1") };
            trace.info(&process, attached);
            for (rpc, claim, code) in [
                ("ControllerExpandVolume", "default/data", "INTERNAL"),
                ("ControllerExpandVolume", "default/data", "OK"),
                ("NodeExpandVolume", "default/data", "OK"),
                ("ControllerExpandVolume", "default/idle", "OK"),
            ] {
                trace.info(&process, done(rpc, &format!("vol-{claim}"), code));
            }
        });
        assert_eq!(
            lines[1..],
            [
                "the volume of pvc/data is larger in the cloud; its filesystem grows when kubelet next looks at the pod",
                "the filesystem of pvc/data has grown",
            ]
        );
    }

    #[tokio::test]
    async fn stage_publish_and_their_undoing_are_printed() {
        let lines = printed_lines(|trace| {
            let process = Arc::from("fake-apiserver");
            let volume =
                Volume { claim: Some("default/data".into()), handle: Some("vol-1".into()), ..Volume::default() };
            trace.info(&process, Commit { pv: Some(Box::new(volume)), ..commit("persistentvolumes", "pvc-1") });
            for (rpc, code) in [
                ("NodeStageVolume", "INTERNAL"),
                ("NodeStageVolume", "OK"),
                ("NodePublishVolume", "OK"),
                ("NodeGetInfo", "OK"),
                ("NodeUnpublishVolume", "OK"),
                ("NodeUnstageVolume", "OK"),
            ] {
                trace.info(
                    &process,
                    CsiDone {
                        code: code.into(),
                        message: None,
                        node: Some("node-a".into()),
                        ordinal: 1,
                        rpc: rpc.into(),
                        took_ms: 1,
                        volume: Some("vol-1".into()),
                    },
                );
            }
        });
        assert_eq!(
            lines,
            ["is staged", "is published", "is no longer published", "is no longer staged"]
                .map(|does| format!("the volume of pvc/data {does} on node-a"))
        );
    }

    #[tokio::test]
    async fn a_warning_and_a_driver_without_nodes_are_printed_once() {
        let lines = printed_lines(|trace| {
            let process = Arc::from("kube-controller-manager");
            let event = |kind: &str, reason: &str, object: &str, message: &str| EventRecorded {
                source: "s".into(),
                reason: reason.into(),
                r#type: kind.into(),
                object: object.into(),
                message: message.into(),
            };
            let claim = "persistentvolumeclaim/default/data";
            let waits = |driver: &str| format!("Waiting for the external provisioner '{driver}' or an administrator");
            for _ in 0..3 {
                trace.info(&process, event("Normal", "ExternalProvisioning", claim, &waits("ebs.csi.aws.com")));
                trace.info(&process, event("Warning", "FailedScheduling", "pod/team/web", "0/1 nodes are available"));
                trace.info(&process, event("Normal", "Scheduled", "pod/team/web", "to node-a"));
                trace.info(&process, event("Warning", "BackOff", "pod/kube-system/x", "m"));
            }
            trace.info(&process, Registered { driver: "ebs.csi.aws.com".into(), node: "node-a".into() });
            let other = "persistentvolumeclaim/default/other";
            trace.info(&process, event("Normal", "ExternalProvisioning", other, &waits("ebs.csi.aws.com")));
        });
        assert_eq!(
            lines,
            [
                "pvc/data waits for the driver ebs.csi.aws.com, which no node has registered",
                "pod/team/web: FailedScheduling: 0/1 nodes are available",
            ]
        );
    }

    #[tokio::test]
    async fn only_a_node_that_was_ready_is_printed() {
        let lines = printed_lines(|trace| {
            let (process, node) = (Arc::from("kube-controller-manager"), || "node-a".into());
            trace.info(&process, NodeNotReady { node: node() });
            trace.info(&process, NodeReady { node: node() });
            trace.info(&process, NodeUnknown { node: node() });
            trace.info(&process, NodeUnknown { node: node() });
            trace.info(&process, NodeReady { node: node() });
        });
        assert_eq!(lines, ["node/node-a is not heard of any more", "node/node-a is Ready again"]);
    }

    #[tokio::test]
    async fn a_fault_that_fires_often_is_printed_rarely() {
        let lines = printed_lines(|trace| {
            for _ in 0..100 {
                let fired = FaultFired::new("f", "AttachVolume", Effect::Count(true));
                trace.info(&Arc::from("mock-ec2"), fired);
            }
        });
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[0], "fault f fired: AttachVolume in mock-ec2");
        assert!(lines[4].ends_with("(100 times so far)"), "{lines:?}");
    }
}
