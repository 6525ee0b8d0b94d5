//! From trace events to rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use substrate::Event;
use substrate::json::Value;

use super::{Row, Shape, Timeline, Volume};

/// RPCs that are phases of a volume, and the names that users know them by.
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

pub(super) fn gather(events: &[Event]) -> Timeline {
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

/// What is called how; read from the whole trace first, since a volume does things before its PV exists.
#[derive(Debug, Default)]
struct Names {
    /// Instance id to node name.
    nodes: BTreeMap<String, String>,
    /// PV to the ordinal of the claim (in creation order) that it was made for.
    claims_of_pv: BTreeMap<String, usize>,
    /// Handle to PV.
    pv_of_handle: BTreeMap<String, String>,
    /// Claim to the ordinals that it had: a name can be used again.
    claims: BTreeMap<String, usize>,
    count: usize,
}

impl Names {
    fn learn(&mut self, event: &Event) {
        if event.kind == "cluster.node" {
            if let (Some(node), Some(instance)) = (event.str("node"), event.str("instance")) {
                self.nodes.insert(instance.to_owned(), node.to_owned());
            }
            return;
        }
        let Some(commit) = Commit::of(event) else { return };
        match commit.resource {
            "persistentvolumeclaims" if commit.added() => {
                self.claims.insert(commit.object.to_owned(), self.count);
                self.count += 1;
            }
            "persistentvolumes" => {
                let handle = commit.text("pv", "handle");
                if let Some(handle) = handle {
                    self.pv_of_handle.insert(handle.to_owned(), commit.object.to_owned());
                }
                if let Some(index) = commit.text("pv", "claim").and_then(|claim| self.claims.get(claim)) {
                    self.claims_of_pv.entry(commit.object.to_owned()).or_insert(*index);
                }
            }
            _ => {}
        }
    }

    fn node(&self, node: &str) -> String {
        self.nodes.get(node).map_or(node, String::as_str).to_owned()
    }
}

/// A write to the API server.
struct Commit<'a> {
    event: &'a Event,
    resource: &'a str,
    object: &'a str,
    kind: &'a str,
}

impl<'a> Commit<'a> {
    fn of(event: &'a Event) -> Option<Self> {
        if event.kind != "api.commit" {
            return None;
        }
        let kind = event.str("type").unwrap_or_default();
        Some(Self { event, resource: event.str("resource")?, object: event.str("object")?, kind })
    }

    fn added(&self) -> bool {
        self.kind == "ADDED"
    }

    fn deleted(&self) -> bool {
        self.kind == "DELETED"
    }

    fn field(&self, of: &str, name: &str) -> Option<&'a Value> {
        self.event.fields.get(of)?.get(name)
    }

    fn text(&self, of: &str, name: &str) -> Option<&'a str> {
        self.field(of, name)?.as_str().filter(|s| !s.is_empty())
    }
}

/// A row by volume and position.
type At = (usize, usize);

#[derive(Debug, Default)]
struct Pod {
    created: u64,
    node: Option<String>,
    claims: Vec<usize>,
    terminating: Vec<At>,
}

#[derive(Debug)]
struct Running {
    row: At,
    pod: String,
    node: String,
    found: u64,
    written: u64,
}

#[derive(Debug, Default)]
struct Gather {
    names: Names,
    timeline: Timeline,
    /// The claim that a name stands for now.
    claims: BTreeMap<String, usize>,
    /// Volumes without a claim, by handle.
    unclaimed: BTreeMap<String, usize>,
    pods: BTreeMap<String, Pod>,
    /// Calls that are open, by process and ordinal.
    calls: BTreeMap<(Arc<str>, u64), At>,
    /// Rows of RPCs that have not succeeded yet, with the number of tries.
    tries: BTreeMap<(usize, String, String), (usize, u64)>,
    /// Rows `attached` that are open, by VolumeAttachment.
    attached: BTreeMap<String, (At, String)>,
    running: Vec<Running>,
    /// When the last pod of a volume left a node.
    left: BTreeMap<(usize, String), u64>,
    warned: BTreeSet<(usize, String, String)>,
    /// Nodes that are known to be Unknown.
    unknown: BTreeSet<String>,
}

impl Gather {
    fn observe(&mut self, event: &Event) {
        match event.kind.as_str() {
            "api.commit" => self.on_commit(event),
            "csi.call" => self.on_call(event),
            "csi.done" => self.on_done(event),
            "ec2.volume" => self.on_cloud_volume(event),
            "ec2.attachment" => self.on_cloud_attachment(event),
            "disk.staged" => self.on_staged(event),
            "disk.crashed" => self.on_crash(event),
            "process.crashed" => self.silence(&event.process, event.ms),
            "ad.detach" => self.on_detach(event),
            "workload.started" => self.on_started(event),
            "workload.synced" => self.on_synced(event),
            "workload.stopped" => self.on_stopped(event),
            "node.unknown" => self.on_unknown(event.str("node").unwrap_or_default(), event.ms),
            "node.ready" => self.on_ready(event.str("node").unwrap_or_default(), event.ms),
            "k8s.event" => self.on_event(event),
            _ => {}
        }
    }

    fn volume(&mut self, index: usize) -> &mut Volume {
        while self.timeline.volumes.len() <= index {
            self.timeline.volumes.push(Volume::default());
        }
        &mut self.timeline.volumes[index]
    }

    /// The volume with this handle, or the one that is being made for this PV.
    fn index(&mut self, handle: &str) -> usize {
        let pv = self.names.pv_of_handle.get(handle).map_or(handle, String::as_str);
        if let Some(index) = self.names.claims_of_pv.get(pv) {
            return *index;
        }
        let next = self.names.count + self.unclaimed.len();
        let index = *self.unclaimed.entry(handle.to_owned()).or_insert(next);
        self.volume(index).volume.get_or_insert_with(|| handle.to_owned());
        index
    }

    fn add(&mut self, index: usize, row: Row) -> At {
        let rows = &mut self.volume(index).rows;
        rows.push(row);
        (index, rows.len() - 1)
    }

    fn row(&mut self, at: At) -> Option<&mut Row> {
        self.timeline.volumes.get_mut(at.0)?.rows.get_mut(at.1)
    }

    fn end(&mut self, at: At, ms: u64) {
        if let Some(row) = self.row(at) {
            row.end_ms.get_or_insert(ms);
        }
    }

    fn on_commit(&mut self, event: &Event) {
        let Some(commit) = Commit::of(event) else { return };
        match commit.resource {
            "persistentvolumeclaims" => self.on_claim(&commit),
            "pods" => self.on_pod(&commit),
            "volumeattachments" => self.on_attachment(&commit),
            _ => {}
        }
    }

    fn on_claim(&mut self, commit: &Commit<'_>) {
        let ms = commit.event.ms;
        if commit.added() {
            let index = self.claims_seen();
            self.claims.insert(commit.object.to_owned(), index);
            self.volume(index).claim = Some(commit.object.to_owned());
            self.add(index, Row::moment(ms, "claim created"));
        }
        let Some(index) = self.claims.get(commit.object).copied() else { return };
        let bound = self.volume(index).rows.iter().any(|r| r.phase == "bound");
        if commit.text("pvc", "phase") == Some("Bound") && !bound {
            self.add(index, Row::moment(ms, "bound"));
        }
        if commit.deleted() {
            self.add(index, Row::moment(ms, "claim gone"));
        }
    }

    /// The ordinal of the next claim; the same count as in [`Names::learn`].
    fn claims_seen(&self) -> usize {
        self.timeline.volumes.iter().take(self.names.count).filter(|v| v.claim.is_some()).count()
    }

    fn on_pod(&mut self, commit: &Commit<'_>) {
        let ms = commit.event.ms;
        let (namespace, _) = commit.object.split_once('/').unwrap_or(("default", ""));
        if commit.added() {
            self.pods.insert(commit.object.to_owned(), Pod { created: ms, ..Pod::default() });
        }
        let claims: Vec<usize> = commit
            .field("pod", "claims")
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>())
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| self.claims.get(&format!("{namespace}/{name}")).copied())
            .collect();
        let short = short(commit.object);
        let Some(pod) = self.pods.get_mut(commit.object) else { return };
        let (created, mut rows) = (pod.created, Vec::new());
        if pod.claims.is_empty() {
            pod.claims = claims;
        }
        if let (None, Some(node)) = (&pod.node, commit.text("pod", "node")) {
            pod.node = Some(node.to_owned());
            rows.push(Row { detail: short.clone(), ..Row::work(created, "scheduled", Some(node)).until(ms) });
        }
        let deleting = commit.event.str("verb") == Some("delete") && pod.terminating.is_empty();
        if deleting {
            let end = commit.deleted().then_some(ms);
            let node = pod.node.clone();
            rows.push(Row { node, detail: short, end_ms: end, ..Row::state(ms, "terminating") });
        }
        let (claims, node) = (pod.claims.clone(), pod.node.clone());
        let was = if commit.deleted() { std::mem::take(&mut pod.terminating) } else { Vec::new() };
        for at in was {
            self.end(at, ms);
        }
        for index in claims {
            for row in &rows {
                let at = self.add(index, row.clone());
                if row.phase == "terminating"
                    && !commit.deleted()
                    && let Some(pod) = self.pods.get_mut(commit.object)
                {
                    pod.terminating.push(at);
                }
            }
            if let (true, Some(node)) = (commit.deleted(), &node) {
                self.left.insert((index, node.clone()), ms);
            }
        }
        if commit.deleted() {
            self.pods.remove(commit.object);
        }
    }

    fn on_attachment(&mut self, commit: &Commit<'_>) {
        let ms = commit.event.ms;
        let attached = commit.field("volumeattachment", "attached") == Some(&Value::Bool(true));
        let open = self.attached.get(commit.object).map(|(at, _)| *at);
        if let Some(at) = open.filter(|_| !attached || commit.deleted()) {
            self.end(at, ms);
            self.attached.remove(commit.object);
        }
        let (Some(pv), Some(node)) = (commit.text("volumeattachment", "pv"), commit.text("volumeattachment", "node"))
        else {
            return;
        };
        let Some(index) = self.names.claims_of_pv.get(pv).copied() else { return };
        if commit.added() {
            self.add(index, Row { node: Some(node.to_owned()), ..Row::moment(ms, "VolumeAttachment") });
        }
        if attached && open.is_none() && !commit.deleted() {
            let at = self.add(index, Row { node: Some(node.to_owned()), ..Row::state(ms, "attached") });
            self.attached.insert(commit.object.to_owned(), (at, node.to_owned()));
        }
    }

    fn on_call(&mut self, event: &Event) {
        let (Some(rpc), Some(volume)) = (event.str("rpc"), event.str("volume")) else { return };
        let phase = match rpc {
            "CreateVolume" => "provisioned",
            _ => match RPCS.iter().find(|(name, _)| *name == rpc) {
                Some((_, phase)) => phase,
                None => return,
            },
        };
        let node = event.str("node").map(|n| self.names.node(n));
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
        if let Some(ordinal) = event.fields.get("ordinal").and_then(Value::as_u64) {
            self.calls.insert((event.process.clone(), ordinal), at);
        }
    }

    fn on_done(&mut self, event: &Event) {
        let Some(ordinal) = event.fields.get("ordinal").and_then(Value::as_u64) else { return };
        let Some(at) = self.calls.remove(&(event.process.clone(), ordinal)) else { return };
        let Some(row) = self.row(at) else { return };
        let key = (at.0, row.phase.clone(), row.node.clone().unwrap_or_default());
        let tries = self.tries.get(&key).map_or(1, |(_, tries)| *tries);
        let code = event.str("code").unwrap_or("OK").to_owned();
        if code == "OK" {
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

    fn on_cloud_volume(&mut self, event: &Event) {
        let (Some(handle), Some(state)) = (event.str("volume"), event.str("state")) else { return };
        let index = self.index(handle);
        let volume = self.volume(index);
        volume.volume.get_or_insert_with(|| handle.to_owned());
        if let Some(size) = event.fields.get("size_gib").and_then(Value::as_u64) {
            volume.size_gib = Some(size);
        }
        if let Some(zone) = event.str("zone") {
            volume.zone = Some(zone.to_owned());
        }
        // Without a driver that says so, the cloud's own states are the provisioning.
        let provisioned = volume.rows.iter().position(|r| r.phase == "provisioned");
        match (state, provisioned) {
            ("creating", None) => {
                self.add(index, Row::work(event.ms, "provisioned", None));
            }
            ("available", Some(row)) => self.end((index, row), event.ms),
            _ => {}
        }
    }

    fn on_cloud_attachment(&mut self, event: &Event) {
        let (Some(handle), Some("attached"), Some(device)) =
            (event.str("volume"), event.str("state"), event.str("device"))
        else {
            return;
        };
        let index = self.index(handle);
        let node = event.str("instance").map(|i| self.names.node(i));
        let publish = |r: &&mut Row| r.phase == "ControllerPublish" && r.node == node;
        if let Some(row) = self.volume(index).rows.iter_mut().rev().find(publish) {
            row.detail = device.to_owned();
        }
    }

    fn on_staged(&mut self, event: &Event) {
        let Some(handle) = event.str("volume") else { return };
        if event.fields.get("formatted") != Some(&Value::Bool(true)) {
            return;
        }
        let index = self.index(handle);
        if let Some(row) = self.volume(index).rows.iter_mut().rev().find(|r| r.phase == "NodeStage") {
            row.detail = "formatted".to_owned();
        }
    }

    fn on_crash(&mut self, event: &Event) {
        let Some(node) = event.str("node") else { return };
        self.silence(node, event.ms);
        self.on_node(node, event.ms, "power loss", Shape::Broken);
    }

    /// The workloads of a node end, unheard.
    fn silence(&mut self, node: &str, ms: u64) {
        let (gone, rest) = std::mem::take(&mut self.running).into_iter().partition(|r| r.node == node);
        self.running = rest;
        for running in gone {
            self.stop(running, ms);
        }
    }

    fn on_unknown(&mut self, node: &str, ms: u64) {
        if self.unknown.insert(node.to_owned()) {
            self.on_node(node, ms, "node Unknown", Shape::Warning);
        }
    }

    fn on_ready(&mut self, node: &str, ms: u64) {
        if self.unknown.remove(node) {
            self.on_node(node, ms, "node Ready", Shape::Moment);
        }
    }

    /// A row for every volume that is attached to the node.
    fn on_node(&mut self, node: &str, ms: u64, phase: &str, shape: Shape) {
        let here: Vec<usize> = self.attached.values().filter(|(_, n)| n == node).map(|(at, _)| at.0).collect();
        for index in here {
            let row = Row::moment(ms, phase);
            self.add(index, Row { shape, node: Some(node.to_owned()), ..row });
        }
    }

    fn on_detach(&mut self, event: &Event) {
        let (Some(handle), Some(node)) = (event.str("volume"), event.str("node")) else { return };
        if event.fields.get("forced") != Some(&Value::Bool(true)) {
            return;
        }
        let node = self.names.node(node);
        let index = self.index(handle);
        let since = *self.left.entry((index, node.clone())).or_insert(event.ms);
        let detail = event.str("reason").map(|r| format!("forced: {r}")).unwrap_or_default();
        let row = Row { shape: Shape::Warning, detail, ..Row::work(since, "waits for unmount", Some(&node)) };
        // A detach that fails is tried again and again; the wait ended with the first.
        let told = |r: &Row| r.phase == row.phase && r.node == row.node && r.start_ms == since;
        if self.volume(index).rows.iter().any(told) {
            return;
        }
        self.add(index, row.until(event.ms));
    }

    fn on_started(&mut self, event: &Event) {
        let (Some(handle), Some(pod)) = (event.str("volume"), event.str("pod")) else { return };
        let node = event.str("node").map(|n| self.names.node(n)).unwrap_or_default();
        let index = self.index(handle);
        let found = event.fields.get("records_found").and_then(Value::as_u64).unwrap_or(0);
        let row = self.add(index, Row { node: Some(node.clone()), ..Row::state(event.ms, "running") });
        self.running.push(Running { row, pod: pod.to_owned(), node, found, written: 0 });
        let volume = self.volume(index);
        let created = volume.rows.iter().find(|r| r.phase == "claim created").map(|r| r.start_ms);
        if let Some(created) = created {
            volume.running_after_ms.get_or_insert(event.ms.saturating_sub(created));
        }
    }

    fn running(&self, event: &Event) -> Option<usize> {
        let (handle, pod) = (event.str("volume")?, event.str("pod")?);
        let pv = self.names.pv_of_handle.get(handle).map_or(handle, String::as_str);
        let index = self.names.claims_of_pv.get(pv).or_else(|| self.unclaimed.get(handle)).copied()?;
        self.running.iter().position(|r| r.row.0 == index && r.pod == pod)
    }

    fn on_synced(&mut self, event: &Event) {
        if let Some(at) = self.running(event) {
            self.running[at].written += 1;
        }
    }

    fn on_stopped(&mut self, event: &Event) {
        if let Some(at) = self.running(event) {
            let running = self.running.remove(at);
            self.stop(running, event.ms);
        }
    }

    fn stop(&mut self, running: Running, ms: u64) {
        let detail = running.detail();
        if let Some(row) = self.row(running.row) {
            row.end_ms = Some(ms);
            row.detail = detail;
        }
    }

    fn on_event(&mut self, event: &Event) {
        // The node lifecycle controller says this when it gives a node up.
        if let (Some("NodeNotReady"), Some(node)) =
            (event.str("reason"), event.str("object").and_then(|o| o.strip_prefix("node/")))
        {
            return self.on_unknown(node, event.ms);
        }
        let (Some("Warning"), Some(object), Some(reason)) =
            (event.str("type"), event.str("object"), event.str("reason"))
        else {
            return;
        };
        let (kind, key) = object.split_once('/').unwrap_or(("", object));
        let indexes: Vec<usize> = match kind {
            "pod" => self.pods.get(key).map(|pod| pod.claims.clone()).unwrap_or_default(),
            "persistentvolumeclaim" => self.claims.get(key).copied().into_iter().collect(),
            _ => return,
        };
        let node = self.pods.get(key).filter(|_| kind == "pod").and_then(|pod| pod.node.clone());
        for index in indexes {
            if self.warned.insert((index, reason.to_owned(), object.to_owned())) {
                let detail = event.str("message").unwrap_or_default().to_owned();
                let row = Row { shape: Shape::Warning, detail, node: node.clone(), ..Row::moment(event.ms, reason) };
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
        let handles: Vec<(usize, String)> = self
            .names
            .pv_of_handle
            .iter()
            .filter_map(|(handle, pv)| Some((*self.names.claims_of_pv.get(pv)?, handle.clone())))
            .collect();
        for (index, handle) in handles {
            self.volume(index).volume.get_or_insert(handle);
        }
        for volume in &mut self.timeline.volumes {
            volume.rows.sort_by_key(|row| row.start_ms);
        }
        self.timeline.volumes.retain(|v| !v.rows.is_empty());
        self.timeline.end_ms = end_ms;
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
    fn moment(ms: u64, phase: &str) -> Self {
        let (phase, detail) = (phase.to_owned(), String::new());
        Self { start_ms: ms, end_ms: None, shape: Shape::Moment, phase, node: None, detail }
    }

    fn state(ms: u64, phase: &str) -> Self {
        Self { shape: Shape::State, ..Self::moment(ms, phase) }
    }

    fn work(ms: u64, phase: &str, node: Option<&str>) -> Self {
        Self { shape: Shape::Work, node: node.map(str::to_owned), ..Self::moment(ms, phase) }
    }

    fn until(self, ms: u64) -> Self {
        Self { end_ms: Some(ms), ..self }
    }
}

/// `default/web` as people write it.
fn short(object: &str) -> String {
    object.strip_prefix("default/").unwrap_or(object).to_owned()
}
