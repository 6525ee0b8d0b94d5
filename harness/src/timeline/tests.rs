use serde_json::{Value, json};
use substrate::WorldKind;

use super::*;
use crate::output::{Exit, Style};

const VOL: &str = "vol-0123456789abcdef0";

#[derive(Default)]
struct Story(Vec<Event>, u64);

impl Story {
    fn at(&mut self, ms: u64, process: &str, kind: &str, fields: Value) -> &mut Self {
        let fields = fields.as_object().cloned().unwrap_or_default();
        let n = self.0.len() as u64 + 1;
        self.0.push(Event { ms, n, process: process.into(), kind: kind.to_owned(), fields });
        self
    }

    fn commit(&mut self, ms: u64, resource: &str, object: &str, kind: &str, of: &str, fields: Value) -> &mut Self {
        let verb = match kind {
            "ADDED" => "create",
            "DELETED" => "delete",
            _ => "patch",
        };
        self.at(
            ms,
            "apiserver",
            "api.commit",
            json!({ "resource": resource, "object": object, "type": kind, "verb": verb, of: fields }),
        )
    }

    fn rpc(&mut self, from: u64, to: u64, rpc: &str, volume: &str, node: &str, code: &str) -> &mut Self {
        self.1 += 1;
        let ordinal = self.1;
        self.at(from, "csi", "csi.call", json!({ "rpc": rpc, "volume": volume, "node": node, "ordinal": ordinal }));
        self.at(
            to,
            "csi",
            "csi.done",
            json!({ "rpc": rpc, "volume": volume, "ordinal": ordinal, "code": code, "ms": to - from }),
        )
    }

    fn pod(&mut self, ms: u64, name: &str, kind: &str, node: &str) -> &mut Self {
        self.commit(ms, "pods", name, kind, "pod", json!({ "phase": "Pending", "node": node, "claims": ["data"] }))
    }

    fn va(&mut self, ms: u64, kind: &str, node: &str, attached: bool) -> &mut Self {
        let object = format!("csi-{node}");
        self.commit(
            ms,
            "volumeattachments",
            &object,
            kind,
            "volumeattachment",
            json!({ "pv": "pvc-1", "node": node, "attached": attached }),
        )
    }

    /// Claim, volume and a first stay on node-a.
    fn first_volume(&mut self) -> &mut Self {
        self.at(0, "harness", "cluster.node", json!({ "node": "node-a", "instance": "i-a" }))
            .at(0, "harness", "cluster.node", json!({ "node": "node-b", "instance": "i-b" }))
            .commit(1_004, "persistentvolumeclaims", "default/data", "ADDED", "pvc", json!({ "phase": "Pending" }))
            .pod(1_006, "default/web", "ADDED", "")
            .pod(1_037, "default/web", "MODIFIED", "node-a")
            .rpc(1_052, 3_160, "CreateVolume", "pvc-1", "", "OK")
            .at(
                1_060,
                "ec2",
                "ec2.volume",
                json!({ "volume": VOL, "state": "creating", "zone": "us-east-1a", "size_gib": 1 }),
            )
            .at(
                3_150,
                "ec2",
                "ec2.volume",
                json!({ "volume": VOL, "state": "available", "zone": "us-east-1a", "size_gib": 1 }),
            )
            .commit(
                3_165,
                "persistentvolumes",
                "pvc-1",
                "ADDED",
                "pv",
                json!({ "phase": "Pending", "handle": VOL, "claim": "default/data" }),
            )
            .commit(
                3_180,
                "persistentvolumeclaims",
                "default/data",
                "MODIFIED",
                "pvc",
                json!({ "phase": "Bound", "volume": "pvc-1" }),
            );
        self.stay("node-a", "i-a", "default/web", 3_210, 0)
    }

    fn stay(&mut self, node: &str, instance: &str, pod: &str, ms: u64, found: u64) -> &mut Self {
        self.va(ms, "ADDED", node, false)
            .rpc(ms + 15, ms + 2_400, "ControllerPublishVolume", VOL, instance, "OK")
            .at(
                ms + 2_390,
                "ec2",
                "ec2.attachment",
                json!({ "volume": VOL, "instance": instance, "state": "attached", "device": "/dev/xvdaa" }),
            )
            .va(ms + 2_410, "MODIFIED", node, true)
            .rpc(ms + 2_500, ms + 2_700, "NodeStageVolume", VOL, node, "OK")
            .at(
                ms + 2_690,
                node,
                "disk.staged",
                json!({ "volume": VOL, "node": node, "path": "/s", "readonly": false, "formatted": found == 0 }),
            )
            .rpc(ms + 2_710, ms + 2_730, "NodePublishVolume", VOL, node, "OK")
            .at(
                ms + 2_800,
                node,
                "workload.started",
                json!({ "pod": pod, "node": node, "volume": VOL, "records_found": found, "verified": true }),
            );
        for second in 1..=5 {
            self.at(
                ms + 2_800 + second * 1_000,
                node,
                "workload.synced",
                json!({ "pod": pod, "node": node, "volume": VOL, "record": second }),
            );
        }
        self
    }

    fn leave(&mut self, node: &str, instance: &str, pod: &str, ms: u64) -> &mut Self {
        self.at(
            ms,
            "apiserver",
            "api.commit",
            json!({ "resource": "pods", "object": pod, "type": "MODIFIED", "verb": "delete" }),
        )
        .at(ms + 30, node, "workload.stopped", json!({ "pod": pod, "node": node, "volume": VOL }))
        .rpc(ms + 40, ms + 50, "NodeUnpublishVolume", VOL, node, "OK")
        .rpc(ms + 60, ms + 90, "NodeUnstageVolume", VOL, node, "OK")
        .at(
            ms + 100,
            "apiserver",
            "api.commit",
            json!({ "resource": "pods", "object": pod, "type": "DELETED", "verb": "delete" }),
        )
        .rpc(ms + 400, ms + 900, "ControllerUnpublishVolume", VOL, instance, "ABORTED")
        .rpc(ms + 1_400, ms + 2_900, "ControllerUnpublishVolume", VOL, instance, "OK")
        .va(ms + 2_910, "DELETED", node, false)
    }

    fn crash(&mut self) -> &mut Self {
        let message = "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web";
        self.at(31_000, "node-a", "disk.crashed", json!({ "node": "node-a" }))
            .at(80_000, "controllers", "node.unknown", json!({ "node": "node-a" }))
            .at(
                380_000,
                "apiserver",
                "api.commit",
                json!({ "resource": "pods", "object": "default/web", "type": "MODIFIED", "verb": "delete" }),
            )
            .pod(381_000, "default/web-2", "ADDED", "")
            .pod(381_010, "default/web-2", "MODIFIED", "node-b");
        for ms in [381_100, 383_000] {
            self.at(ms, "controllers", "k8s.event", json!({ "type": "Warning", "reason": "FailedAttachVolume", "object": "pod/default/web-2", "message": message }));
        }
        self.at(
            391_000,
            "apiserver",
            "api.commit",
            json!({ "resource": "pods", "object": "default/web", "type": "DELETED", "verb": "delete" }),
        )
        .at(
            751_100,
            "controllers",
            "ad.detach",
            json!({ "volume": VOL, "pv": "pvc-1", "node": "node-a", "forced": true, "reason": "timeout" }),
        )
        .rpc(751_120, 752_200, "ControllerUnpublishVolume", VOL, "i-a", "OK")
        .va(752_220, "DELETED", "node-a", false)
        .stay("node-b", "i-b", "default/web-2", 752_300, 25)
    }
}

fn drawn(story: &Story) -> String {
    Timeline::build(&story.0).render(Style::PLAIN, 4)
}

#[test]
fn show() {
    let mut story = Story::default();
    story.first_volume();
    println!("{}", drawn(&story));
    let mut story = Story::default();
    story.first_volume().leave("node-a", "i-a", "default/web", 12_000);
    story.pod(13_000, "default/web", "ADDED", "").pod(13_020, "default/web", "MODIFIED", "node-b");
    story.stay("node-b", "i-b", "default/web", 15_000, 5);
    println!("{}", drawn(&story));
    let mut story = Story::default();
    story.first_volume().crash();
    println!("{}", drawn(&story));
    println!(
        "{}",
        Summary { seed: 7, events: 1432, ..Summary::new("node-crash", WorldKind::Simulated, Exit::Passed) }
            .times(std::time::Duration::from_millis(760_100), std::time::Duration::from_millis(48))
            .render(Style::PLAIN)
    );
}
