//! Converts trace events to rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controllers::attach_detach::ForcedReason;
use controllers::events::{Detach, EventRecorded, NodeReady, NodeUnknown};
use controllers::machine::events::{WorkloadStarted, WorkloadStopped, WorkloadSynced};
use csi_disk::events::DiskCrashed;
use csi_mock::events::{CsiCall, CsiDone, DiskStaged};
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use mock_ec2::events::{AttachmentChanged, AttachmentPhase, VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::ProcessCrashed;
use substrate::json::Text;

use super::faults;
use super::names::Names;
use super::waits::Waits;
use super::{Row, Shape, Timeline, Volume};
use crate::events::ClusterRested;
use crate::model::{CallKey, ClaimKey, PodKey, claims_of};

/// RPCs that are phases of a volume, with their names in the timeline.
const RPCS: [(&str, &str); 9] = [
    ("ControllerPublishVolume", "ControllerPublish"),
    ("ControllerUnpublishVolume", "ControllerUnpublish"),
    ("NodeStageVolume", "NodeStage"),
    ("NodeUnstageVolume", "NodeUnstage"),
    ("NodePublishVolume", "NodePublish"),
    ("NodeUnpublishVolume", "NodeUnpublish"),
    ("ControllerExpandVolume", "ControllerExpand"),
    ("NodeExpandVolume", "NodeExpand"),
    ("DeleteVolume", "DeleteVolume"),
];

/// Service account of the taint-eviction controller, which deletes the pods of an unreachable node.
const EVICTION: &str = "node-controller";

pub(super) fn gather(events: &[Arc<Event>]) -> Timeline {
    let mut names = Names::default();
    for event in events {
        names.learn(event);
    }
    let mut gather = Gather { names, ..Gather::default() };
    for event in events {
        gather.observe(event);
    }
    gather.finish(events.last().map_or(0, |e| e.ms))
}

/// Indices of a volume and of a row.
pub(super) type At = (usize, usize);

#[derive(Debug, Default)]
struct Pod {
    created: u64,
    node: Option<String>,
    claims: Vec<usize>,
    terminating: Vec<At>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) row: At,
    pub(super) pod: String,
    pub(super) node: String,
    found: u64,
    written: u64,
}

#[derive(Debug, Default)]
pub(super) struct Gather {
    pub(super) names: Names,
    timeline: Timeline,
    /// Current claim of each name.
    claims: BTreeMap<ClaimKey, usize>,
    /// Volumes without a claim, by handle.
    unclaimed: BTreeMap<String, usize>,
    pods: BTreeMap<PodKey, Pod>,
    /// Rows of open calls, and of those whose process has ended. The run model has the calls, but not where they are
    /// shown.
    pub(super) calls: BTreeMap<CallKey, At>,
    /// Rows of RPCs that have not succeeded yet, with the number of tries.
    tries: BTreeMap<(usize, String, String), (usize, u64)>,
    /// Open rows `attached`, by VolumeAttachment.
    pub(super) attached: BTreeMap<String, (At, String)>,
    pub(super) running: Vec<Running>,
    /// Time at which the last pod of a volume left a node.
    left: BTreeMap<(usize, String), u64>,
    warned: BTreeSet<(usize, String, String)>,
    /// Nodes that are not ready; true if they are unreachable.
    pub(super) unready: BTreeMap<String, bool>,
    /// Rows of pods that run on an unreachable node, by pod and volume.
    pub(super) unreachable: Vec<(At, String, String)>,
    pub(super) waits: Waits,
    /// Rows of faults, by fault and volume.
    pub(super) fired: BTreeMap<(String, usize), At>,
}

impl Gather {
    fn observe(&mut self, event: &Event) {
        let ms = event.ms;
        if let Some(rested) = event.get::<ClusterRested>() {
            self.timeline.rest = Some((ms.saturating_sub(rested.for_ms), ms));
        } else if let Some(commit) = event.get::<Commit>() {
            self.on_commit(commit, ms);
        } else if let Some(call) = event.get::<CsiCall>() {
            self.on_call(call, event);
        } else if let Some(done) = event.get::<CsiDone>() {
            self.on_done(done, event);
        } else if let Some(reported) = event.get::<WorkloadSynced>() {
            self.on_synced(&reported.volume, &reported.pod);
        } else if let Some(volume) = event.get::<VolumeChanged>() {
            self.on_cloud_volume(volume, ms);
        } else if let Some(attachment) = event.get::<AttachmentChanged>() {
            self.on_cloud_attachment(attachment);
        } else if let Some(reported) = event.get::<EventRecorded>() {
            self.on_event(reported, ms);
        } else if let Some(staged) = event.get::<DiskStaged>() {
            self.on_staged(staged);
        } else if let Some(DiskCrashed { node }) = event.get() {
            self.on_crash(node, ms);
        } else if event.is::<ProcessCrashed>() {
            self.silence(&event.process, ms);
        } else if let Some(detach) = event.get::<Detach>() {
            self.on_detach(detach, ms);
        } else if let Some(started) = event.get::<WorkloadStarted>() {
            self.on_started(started, ms);
        } else if let Some(WorkloadStopped { volume, pod, .. }) = event.get() {
            self.on_stopped(volume, pod, ms);
        } else if let Some(NodeUnknown { node }) = event.get() {
            self.on_unknown(node, ms);
        } else if let Some(NodeReady { node }) = event.get() {
            self.on_ready(node, ms);
        } else if let Some(fired) = event.get() {
            faults::on_fired(self, fired, event);
        }
    }

    /// Volumes that have rows by now.
    pub(super) fn known(&self) -> BTreeSet<usize> {
        let volumes = self.timeline.volumes.iter().enumerate();
        volumes.filter(|(_, volume)| !volume.rows.is_empty()).map(|(index, _)| index).collect()
    }

    pub(super) fn volume(&mut self, index: usize) -> &mut Volume {
        while self.timeline.volumes.len() <= index {
            self.timeline.volumes.push(Volume::default());
        }
        &mut self.timeline.volumes[index]
    }

    /// Index of the volume with this handle, or of the volume that is being created for this PV.
    pub(super) fn index(&mut self, handle: &str) -> usize {
        if let Some(index) = self.names.claim(handle) {
            return index;
        }
        let next = self.names.count + self.unclaimed.len();
        let index = *self.unclaimed.entry(handle.to_owned()).or_insert(next);
        self.volume(index).volume.get_or_insert_with(|| handle.to_owned());
        index
    }

    pub(super) fn add(&mut self, index: usize, row: Row) -> At {
        let rows = &mut self.volume(index).rows;
        rows.push(row);
        (index, rows.len() - 1)
    }

    pub(super) fn row(&mut self, at: At) -> Option<&mut Row> {
        self.timeline.volumes.get_mut(at.0)?.rows.get_mut(at.1)
    }

    pub(super) fn end(&mut self, at: At, ms: u64) {
        if let Some(row) = self.row(at) {
            row.end_ms.get_or_insert(ms);
        }
    }

    fn on_commit(&mut self, commit: &Commit, ms: u64) {
        match commit.resource.as_str() {
            "persistentvolumeclaims" => self.on_claim(commit, ms),
            "pods" => self.on_pod(commit, ms),
            "volumeattachments" => self.on_attachment(commit, ms),
            "nodes" => {
                self.on_node_status(commit, ms);
                if commit.node.as_ref().is_some_and(|node| node.ready.as_deref() == Some("False")) {
                    self.on_not_ready(&commit.object, ms);
                }
            }
            _ => {}
        }
    }

    fn on_claim(&mut self, commit: &Commit, ms: u64) {
        if commit.r#type == EventType::Added {
            let index = self.claims_seen();
            self.claims.insert((&commit.object).into(), index);
            self.volume(index).claim = Some(commit.object.to_string());
            self.add(index, Row::moment(ms, "claim created"));
        }
        let Some(index) = self.claims.get(&*commit.object).copied() else { return };
        let bound = self.volume(index).rows.iter().any(|r| r.phase == "bound");
        let phase = commit.pvc.as_ref().and_then(|pvc| pvc.phase.as_deref());
        if phase == Some("Bound") && !bound {
            self.add(index, Row::moment(ms, "bound"));
        }
        if commit.r#type == EventType::Deleted {
            self.add(index, Row::moment(ms, "claim gone"));
        }
    }

    /// Ordinal of the next claim; the same count as in [`Names::learn`].
    fn claims_seen(&self) -> usize {
        self.timeline.volumes.iter().take(self.names.count).filter(|v| v.claim.is_some()).count()
    }

    fn on_pod(&mut self, commit: &Commit, ms: u64) {
        let (added, deleted) = (commit.r#type == EventType::Added, commit.r#type == EventType::Deleted);
        if added {
            self.pods.insert((&commit.object).into(), Pod { created: ms, ..Pod::default() });
        }
        let claims: Vec<usize> = commit
            .pod
            .iter()
            .flat_map(|pod| claims_of(&commit.object, pod))
            .filter_map(|claim| self.claims.get(&*claim).copied())
            .collect();
        let short = short(&commit.object);
        let Some(pod) = self.pods.get_mut(&*commit.object) else { return };
        let (created, mut rows) = (pod.created, Vec::new());
        if pod.claims.is_empty() {
            pod.claims = claims;
        }
        if let (None, Some(node)) =
            (&pod.node, commit.pod.as_ref().and_then(|pod| pod.node.as_deref()).filter(|node| !node.is_empty()))
        {
            pod.node = Some(node.to_owned());
            rows.push(Row { detail: short.clone(), ..Row::work(created, "scheduled", Some(node)).until(ms) });
        }
        let deleting = commit.verb == "delete" && pod.terminating.is_empty();
        if deleting {
            let end = deleted.then_some(ms);
            let node = pod.node.clone();
            if let Some(node) = node.as_ref().filter(|_| commit.user.contains(EVICTION)) {
                rows.extend(self.waits.eviction(node, ms));
            }
            rows.push(Row { node, detail: short, end_ms: end, ..Row::state(ms, "terminating") });
        }
        let (claims, node) = (pod.claims.clone(), pod.node.clone());
        let was = if deleted { std::mem::take(&mut pod.terminating) } else { Vec::new() };
        for at in was {
            self.end(at, ms);
        }
        for index in claims {
            for row in &rows {
                let at = self.add(index, row.clone());
                if row.phase == "terminating"
                    && !deleted
                    && let Some(pod) = self.pods.get_mut(&*commit.object)
                {
                    pod.terminating.push(at);
                }
            }
            if let (true, Some(node)) = (deleted, &node) {
                self.left.insert((index, node.clone()), ms);
            }
        }
        if deleted {
            self.pods.remove(&*commit.object);
        }
    }

    fn on_attachment(&mut self, commit: &Commit, ms: u64) {
        let Some(va) = &commit.volumeattachment else { return };
        let deleted = commit.r#type == EventType::Deleted;
        let open = self.attached.get(&*commit.object).map(|(at, _)| *at);
        if let Some(at) = open.filter(|_| !va.attached || deleted) {
            self.end(at, ms);
            self.attached.remove(&*commit.object);
            if let Some(node) = &va.node {
                self.waits.not_attached(at.0, node);
            }
        }
        let named = |text: &Option<Text>| text.clone().filter(|text| !text.is_empty());
        let (Some(pv), Some(node)) = (named(&va.pv), named(&va.node)) else { return };
        let Some(index) = self.names.claims_of_pv.get(pv.as_str()).copied() else { return };
        let row = |row: Row| Row { node: Some(node.to_string()), ..row };
        if commit.r#type == EventType::Added {
            self.add(index, row(Row::moment(ms, "VolumeAttachment")));
        }
        if va.attached && open.is_none() && !deleted {
            let at = self.add(index, row(Row::state(ms, "attached")));
            self.attached.insert(commit.object.to_string(), (at, node.to_string()));
            self.waits.attached(index, &node, ms);
        }
    }

    fn on_call(&mut self, call: &CsiCall, event: &Event) {
        let Some(volume) = &call.volume else { return };
        let phase = match call.rpc.as_str() {
            "CreateVolume" => "provisioned",
            rpc => match RPCS.iter().find(|(name, _)| *name == rpc) {
                Some((_, phase)) => phase,
                None => return,
            },
        };
        let node = call.node.as_ref().map(|n| self.names.node(n));
        let index = self.index(volume);
        let key = (index, phase.to_owned(), node.clone().unwrap_or_default());
        let at = match self.tries.get_mut(&key) {
            Some((row, tries)) => {
                *tries += 1;
                (index, *row)
            }
            None => {
                let at = self.add(index, Row::work(event.ms, phase, node.as_deref()));
                self.tries.insert(key, (at.1, 1));
                at
            }
        };
        self.calls.insert(CallKey::new(event, call.ordinal), at);
        if let Some(node) = &node
            && let Some(row) = self.waits.begun(index, phase, node, event.ms)
        {
            self.add(index, row);
        }
        if phase == "DeleteVolume"
            && let Some(row) = self.waits.deletion(index, event.ms)
        {
            self.add(index, row);
        }
    }

    fn on_done(&mut self, done: &CsiDone, event: &Event) {
        let Some(at) = self.calls.remove(&CallKey::new(event, done.ordinal)) else { return };
        let Some(row) = self.row(at) else { return };
        let key = (at.0, row.phase.clone(), row.node.clone().unwrap_or_default());
        let tries = self.tries.get(&key).map_or(1, |(_, tries)| *tries);
        let code = &done.code;
        if code == "OK" {
            if key.1 == "NodeUnstage" {
                self.waits.unstaged(at.0, &key.2, event.ms);
            }
            self.tries.remove(&key);
        }
        let Some(row) = self.row(at) else { return };
        row.end_ms = Some(event.ms);
        match (code.as_str(), tries) {
            ("OK", 1) => row.shape = Shape::Work,
            ("OK", n) => {
                row.shape = Shape::Work;
                row.detail = format!("after {n} tries");
            }
            (code, n) => {
                row.shape = Shape::Warning;
                row.detail = if n == 1 { code.to_owned() } else { format!("{n} tries, {code}") };
            }
        }
    }

    fn on_cloud_volume(&mut self, changed: &VolumeChanged, ms: u64) {
        let index = self.index(changed.volume.as_str());
        let volume = self.volume(index);
        volume.volume.get_or_insert_with(|| changed.volume.to_string());
        volume.size_gib = Some(changed.size_gib);
        volume.zone = Some(changed.zone.to_string());
        // If no driver reports the provisioning, it is taken from the cloud's states.
        let provisioned = volume.rows.iter().position(|r| r.phase == "provisioned");
        match (changed.state, provisioned) {
            (VolumePhase::Creating, None) => {
                self.add(index, Row::work(ms, "provisioned", None));
            }
            (VolumePhase::Available, Some(row)) => self.end((index, row), ms),
            _ => {}
        }
    }

    fn on_cloud_attachment(&mut self, changed: &AttachmentChanged) {
        if changed.state != AttachmentPhase::Attached {
            return;
        }
        let index = self.index(changed.volume.as_str());
        let node = Some(self.names.node(changed.instance.as_str()));
        let publish = |r: &&mut Row| r.phase == "ControllerPublish" && r.node == node;
        if let Some(row) = self.volume(index).rows.iter_mut().rev().find(publish) {
            row.detail = changed.device.to_string();
        }
    }

    fn on_staged(&mut self, staged: &DiskStaged) {
        if !staged.formatted {
            return;
        }
        let index = self.index(&staged.volume);
        if let Some(row) = self.volume(index).rows.iter_mut().rev().find(|r| r.phase == "NodeStage") {
            row.detail = "formatted".to_owned();
        }
    }

    fn on_detach(&mut self, detach: &Detach, ms: u64) {
        if !detach.forced {
            return;
        }
        let node = self.names.node(&detach.node);
        let index = self.index(&detach.volume);
        let since = *self.left.entry((index, node.clone())).or_insert(ms);
        let detail = detach.reason.map(|r| format!("forced: {}", word(r))).unwrap_or_default();
        let row = Row { shape: Shape::Warning, detail, ..Row::work(since, "waits for unmount", Some(&node)) };
        // A failed detach is retried; the wait ended with the first attempt.
        let reported = |r: &Row| r.phase == row.phase && r.node == row.node && r.start_ms == since;
        if self.volume(index).rows.iter().any(reported) {
            return;
        }
        self.add(index, row.until(ms));
    }

    fn on_started(&mut self, started: &WorkloadStarted, ms: u64) {
        let node = self.names.node(&started.node);
        let index = self.index(&started.volume);
        let row = self.add(index, Row { node: Some(node.clone()), ..Row::state(ms, "running") });
        let (pod, found) = (started.pod.to_string(), started.records_found);
        self.running.push(Running { row, pod, node, found, written: 0 });
        let volume = self.volume(index);
        let created = volume.rows.iter().find(|r| r.phase == "claim created").map(|r| r.start_ms);
        if let Some(created) = created {
            volume.running_after_ms.get_or_insert(ms.saturating_sub(created));
        }
    }

    fn running(&self, handle: &str, pod: &str) -> Option<usize> {
        let index = self.names.claim(handle).or_else(|| self.unclaimed.get(handle).copied())?;
        self.running.iter().position(|r| r.row.0 == index && r.pod == pod)
    }

    fn on_synced(&mut self, volume: &str, pod: &str) {
        if let Some(at) = self.running(volume, pod) {
            self.running[at].written += 1;
        }
    }

    fn on_stopped(&mut self, volume: &str, pod: &str, ms: u64) {
        if let Some(at) = self.running(volume, pod) {
            let running = self.running.remove(at);
            self.stop(running, ms);
        }
    }

    pub(super) fn stop(&mut self, running: Running, ms: u64) {
        let detail = running.detail();
        self.end_unreachable(ms, |node, pod| (node, pod) == (running.node.as_str(), running.pod.as_str()));
        if let Some(row) = self.row(running.row) {
            row.end_ms = Some(ms);
            row.detail = detail;
        }
    }

    fn on_event(&mut self, reported: &EventRecorded, ms: u64) {
        // The node lifecycle controller records this Event both when a node is unreachable and when it reports itself
        // as not ready.
        if let ("NodeNotReady", Some(node)) = (reported.reason.as_str(), reported.object.strip_prefix("node/")) {
            if self.unready.get(node) != Some(&false) {
                self.on_unknown(node, ms);
            }
            return;
        }
        if reported.r#type != "Warning" {
            return;
        }
        let (object, reason) = (reported.object.as_str(), reported.reason.as_str());
        let (kind, key) = object.split_once('/').unwrap_or(("", object));
        let indexes: Vec<usize> = match kind {
            "pod" => self.pods.get(key).map(|pod| pod.claims.clone()).unwrap_or_default(),
            "persistentvolumeclaim" => self.claims.get(key).copied().into_iter().collect(),
            "persistentvolume" if reason == "VolumeFailedDelete" => {
                if let Some(index) = self.names.claims_of_pv.get(key).copied() {
                    self.waits.not_deleted(index, &reported.message, ms);
                }
                return;
            }
            _ => return,
        };
        let node = self.pods.get(key).filter(|_| kind == "pod").and_then(|pod| pod.node.clone());
        for index in indexes {
            if self.warned.insert((index, reason.to_owned(), object.to_owned())) {
                let detail = reported.message.to_string();
                let row = Row { shape: Shape::Warning, detail, node: node.clone(), ..Row::moment(ms, reason) };
                self.add(index, row);
            }
        }
    }

    fn finish(mut self, end_ms: u64) -> Timeline {
        for running in std::mem::take(&mut self.running) {
            let detail = running.detail();
            if let Some(row) = self.row(running.row) {
                row.detail = detail;
            }
        }
        let handles = self.names.model.objects.handles();
        let handles: Vec<(usize, String)> =
            handles.filter_map(|(handle, pv)| Some((*self.names.claims_of_pv.get(pv)?, handle.to_owned()))).collect();
        for (index, handle) in handles {
            self.volume(index).volume.get_or_insert(handle);
        }
        for (index, row) in std::mem::take(&mut self.waits).open() {
            self.add(index, row);
        }
        for volume in &mut self.timeline.volumes {
            volume.rows.sort_by_key(|row| row.start_ms);
        }
        self.timeline.volumes.retain(|v| !v.rows.is_empty());
        // Events without a volume are not drawn.
        let rows = || self.timeline.volumes.iter().flat_map(|v| &v.rows);
        let lasts =
            rows().any(|row| row.end_ms.is_none() && matches!(row.shape, Shape::State | Shape::Work | Shape::Wait));
        let last = rows().map(|row| row.at_ms.last().copied().or(row.end_ms).unwrap_or(row.start_ms)).max();
        self.timeline.end_ms = last.filter(|_| !lasts).unwrap_or(end_ms);
        self.timeline
    }
}

impl Running {
    fn detail(&self) -> String {
        let records = match (self.found, self.written) {
            (0, written) => format!("wrote {written}"),
            (found, written) => format!("found {found}, wrote {written}"),
        };
        format!("{} {records}", short(&self.pod))
    }
}

impl Row {
    pub(super) fn moment(ms: u64, phase: &str) -> Self {
        let (phase, detail) = (phase.to_owned(), String::new());
        Self { start_ms: ms, end_ms: None, shape: Shape::Moment, phase, node: None, detail, at_ms: Vec::new() }
    }

    pub(super) fn state(ms: u64, phase: &str) -> Self {
        Self { shape: Shape::State, ..Self::moment(ms, phase) }
    }

    fn work(ms: u64, phase: &str, node: Option<&str>) -> Self {
        Self { shape: Shape::Work, node: node.map(str::to_owned), ..Self::moment(ms, phase) }
    }

    pub(super) fn until(self, ms: u64) -> Self {
        Self { end_ms: Some(ms), ..self }
    }
}

/// Reason of a forced detach, as in the metric's label.
fn word(reason: ForcedReason) -> &'static str {
    match reason {
        ForcedReason::Timeout => "timeout",
        ForcedReason::OutOfService => "out-of-service",
    }
}

/// Shortens `default/web` to `web`.
pub(super) fn short(object: &str) -> String {
    object.strip_prefix("default/").unwrap_or(object).to_owned()
}
