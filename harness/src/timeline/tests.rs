use substrate::json::{Value, json};
use substrate::{Clock, Level, Line, Trace, WorldKind};

use super::*;
use crate::output::{Exit, Style};

const VOL: &str = "vol-0123456789abcdef0";

/// A trace that is read from lines, like that of another process.
struct History(Trace, u64);

impl Default for History {
    fn default() -> Self {
        Self(Trace::new(Clock::live(), Level::Info), 0)
    }
}

impl History {
    fn at(&mut self, ms: u64, process: &str, kind: &str, fields: Value) -> &mut Self {
        // Fields that the timeline ignores.
        let mut whole = match kind {
            "api.commit" => json!({ "rv": ms, "user": "u" }),
            "ec2.attachment" => json!({ "forced": false }),
            "k8s.event" => json!({ "source": "s" }),
            "cluster.node" => json!({ "zone": "us-east-1a" }),
            _ => json!({}),
        };
        if let (Value::Object(whole), Value::Object(fields)) = (&mut whole, fields) {
            whole.extend(fields);
        }
        let fields = whole.as_object().cloned().unwrap_or_default().into();
        let line = Line { ms, n: 0, process: process.into(), kind: kind.into(), fields };
        self.0.adopt(&crate::events::all(), line).expect("a line of a trace");
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
            json!({ "rpc": rpc, "volume": volume, "ordinal": ordinal, "code": code, "took_ms": to - from }),
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
        self.at(0, "harness", "cluster.node", json!({ "node": "node-a", "instance": "i-0aaaaaaaaaaaaaaaa" }))
            .at(0, "harness", "cluster.node", json!({ "node": "node-b", "instance": "i-0bbbbbbbbbbbbbbbb" }))
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
        self.stay("node-a", "i-0aaaaaaaaaaaaaaaa", "default/web", 3_210, 0)
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
        .rpc(751_120, 752_200, "ControllerUnpublishVolume", VOL, "i-0aaaaaaaaaaaaaaaa", "OK")
        .va(752_220, "DELETED", "node-a", false)
        .stay("node-b", "i-0bbbbbbbbbbbbbbbb", "default/web-2", 752_300, 25)
    }
}

fn drawn(history: &History) -> String {
    Timeline::build(&history.0.events()).render(Style::PLAIN, 4)
}

fn migration() -> History {
    let mut history = History::default();
    history.first_volume().leave("node-a", "i-0aaaaaaaaaaaaaaaa", "default/web", 12_000);
    history.pod(13_000, "default/web", "ADDED", "").pod(13_020, "default/web", "MODIFIED", "node-b");
    history.stay("node-b", "i-0bbbbbbbbbbbbbbbb", "default/web", 15_000, 5);
    history
}

#[test]
fn a_first_volume_reads_like_this() {
    let mut history = History::default();
    history.first_volume();
    let expected = "\
pvc/data · vol-0123456789abcdef0 · 1 GiB · us-east-1a · running after 5.00s
    start    took  phase               node    0.000s ───────────────────── 11.010s
   1.004s          claim created                  ◆
   1.006s    31ms  scheduled           node-a     ▌                                 web
   1.052s   2.10s  provisioned                    ███████▌
   3.180s          bound                                 ◆
   3.210s          VolumeAttachment    node-a            ◆
   3.225s   2.38s  ControllerPublish   node-a            ▐███████▌                  /dev/xvdaa
   5.620s       …  attached            node-a                    ░░░░░░░░░░░░░░░░░░
   5.710s   200ms  NodeStage           node-a                    ▐▌                 formatted
   5.920s    20ms  NodePublish         node-a                     ▌
   6.010s       …  running             node-a                     ░░░░░░░░░░░░░░░░░ web wrote 5

█ was done  ░ was so  · waits  ◆ happened  ✗ broke, or a fault fired
";
    assert_eq!(drawn(&history), expected);
}

/// Formats each row as `phase node detail`.
fn phases(history: &History) -> Vec<String> {
    let timeline = Timeline::build(&history.0.events());
    let text = |r: &Row| format!("{} {} {}", r.phase, r.node.as_deref().unwrap_or_default(), r.detail);
    timeline.volumes[0].rows.iter().map(|r| text(r).split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_move_shows_the_way_back_and_the_way_there() {
    assert_eq!(
        phases(&migration())[9..],
        [
            "running node-a web wrote 5",
            "terminating node-a web",
            "NodeUnpublish node-a",
            "NodeUnstage node-a",
            "ControllerUnpublish node-a after 2 tries",
            "scheduled node-b web",
            "VolumeAttachment node-b",
            "ControllerPublish node-b /dev/xvdaa",
            "attached node-b",
            "NodeStage node-b",
            "NodePublish node-b",
            "running node-b web found 5, wrote 5",
        ]
    );
}

#[test]
fn a_crash_shows_what_everybody_waited_for() {
    let mut history = History::default();
    history.first_volume().crash();
    let rows = phases(&history);
    for row in [
        "power loss node-a",
        "node Unknown node-a",
        "terminating node-a web",
        "FailedAttachVolume node-b Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web",
        "waits for unmount node-a forced: timeout",
        "running node-b web-2 found 25, wrote 5",
    ] {
        assert_eq!(rows.iter().filter(|s| *s == row).count(), 1, "{row} in {rows:#?}");
    }
    let timeline = Timeline::build(&history.0.events());
    let row = |phase: &str| timeline.volumes[0].rows.iter().find(|r| r.phase == phase).expect("a row").clone();
    assert_eq!((row("waits for unmount").start_ms, row("waits for unmount").end_ms), (391_000, Some(751_100)));
    assert_eq!((row("running").start_ms, row("running").end_ms), (6_010, Some(31_000)));
    assert_eq!((row("attached").start_ms, row("attached").end_ms), (5_620, Some(752_220)));
}

/// Text of a run in a terminal of this width.
fn wide(history: &History, width: usize) -> String {
    Timeline::build(&history.0.events()).steps_over(20_000).render(Style { width, ..Style::PLAIN }, 4)
}

#[test]
fn no_line_is_longer_than_the_terminal_is_wide() {
    let mut crash = History::default();
    crash.first_volume().crash();
    for history in [migration(), crash] {
        for width in [80, 100, 120] {
            for line in wide(&history, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_warning_is_shown_whole_in_a_narrow_terminal() {
    let mut crash = History::default();
    crash.first_volume().crash();
    let text = wide(&crash, 80);
    let words: Vec<&str> = text.split_whitespace().collect();
    let warning = "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web";
    assert!(words.join(" ").contains(warning), "{text}");
}

#[test]
fn signs_are_explained_and_the_axis_goes_from_the_beginning_to_the_end() {
    let text = Timeline::build(&migration().0.events()).steps_over(14_000).render(Style::PLAIN, 4);
    let last = text.lines().last().unwrap_or_default();
    for sign in ["█", "░", "·", "◆", "✗"] {
        assert!(last.contains(sign), "{sign} in {last}");
    }
    let axis = text.lines().nth(1).unwrap_or_default();
    assert!(axis.contains(" 0.000s ─") && axis.ends_with("─ 22.800s"), "{axis}");
    let over: Vec<&str> = text.lines().skip_while(|line| !line.contains("steps over")).collect();
    assert!(over[0].starts_with("  14.000s") && over[0].ends_with("teardown follows"), "{text}");
    assert!(over[1].starts_with("  15.000s"), "{text}");
    // A rest after the steps takes no room.
    let rested = Timeline { rest: Some((14_500, 14_900)), ..Timeline::build(&migration().0.events()) };
    let text = rested.steps_over(14_000).render(Style::PLAIN, 4);
    assert!(text.contains("400ms not drawn"), "{text}");
    // The end of the steps is not shown if no event follows it.
    assert!(
        !Timeline::build(&migration().0.events()).steps_over(99_000).render(Style::PLAIN, 4).contains("steps over")
    );
}

impl History {
    /// Node status with these volumes in use.
    fn node_status(&mut self, ms: u64, node: &str, uses: &[&str]) -> &mut Self {
        let name = |handle: &&str| format!("kubernetes.io/csi/ebs.csi.aws.com^{handle}");
        let uses: Vec<String> = uses.iter().map(name).collect();
        self.commit(ms, "nodes", node, "MODIFIED", "node", json!({ "ready": "True", "volumes_in_use": uses }))
    }

    fn fault(&mut self, ms: u64, process: &str, fault: &str, op: &str) -> &mut Self {
        self.at(ms, process, "fault.fired", json!({ "fault": fault, "op": op, "effect": { "drop_reply": true } }))
    }
}

/// Waits of the first volume: start, end, node, detail.
fn waits(history: &History) -> Vec<(u64, Option<u64>, String, String)> {
    let timeline = Timeline::build(&history.0.events());
    let waits = timeline.volumes[0].rows.iter().filter(|row| row.shape == Shape::Wait);
    waits.map(|r| (r.start_ms, r.end_ms, r.node.clone().unwrap_or_default(), r.detail.clone())).collect()
}

#[test]
fn a_kubelet_waits_for_its_next_status_before_it_mounts_and_so_does_the_detach() {
    let mut history = History::default();
    history.first_volume().leave("node-a", "i-0aaaaaaaaaaaaaaaa", "default/web", 12_000);
    history.va(20_000, "ADDED", "node-b", false).va(20_100, "MODIFIED", "node-b", true);
    history.node_status(27_100, "node-b", &[VOL]).rpc(27_200, 27_300, "NodeStageVolume", VOL, "node-b", "OK");
    history.rpc(34_000, 34_100, "NodeUnstageVolume", VOL, "node-b", "OK");
    // A status with another volume, and one of another node, do not end the wait.
    history.node_status(35_000, "node-b", &[VOL, "vol-0fedcba9876543210"]).node_status(35_500, "node-a", &[]);
    history.node_status(39_000, "node-b", &[]);
    let node = || "node-b".to_owned();
    let expected = [
        (20_100, Some(27_100), node(), "next node status in 7s".to_owned()),
        (34_100, Some(39_000), node(), "next node status in 5s".to_owned()),
    ];
    assert_eq!(waits(&history), expected);
    // A wait that is open at the end of the run names its cause.
    history.va(40_000, "MODIFIED", "node-b", false).va(40_100, "MODIFIED", "node-b", true);
    let open = (40_100, None, node(), "for the node status".to_owned());
    assert_eq!(waits(&history), [&expected[..], &[open]].concat());
    // A short wait is not shown.
    history.node_status(40_300, "node-b", &[VOL]);
    assert_eq!(waits(&history), expected);
}

#[test]
fn a_lost_node_and_a_volume_that_cannot_be_deleted_are_waited_for() {
    let mut history = History::default();
    history.first_volume().node_status(5_700, "node-a", &[VOL]);
    history.at(31_000, "node-a", "disk.crashed", json!({ "node": "node-a" }));
    history.at(80_000, "controllers", "node.unknown", json!({ "node": "node-a" }));
    let user = "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/mooring/node-controller";
    history.at(
        380_000,
        "apiserver",
        "api.commit",
        json!({ "resource": "pods", "object": "default/web", "type": "MODIFIED", "verb": "delete", "user": user }),
    );
    for ms in [400_000, 401_000, 403_000] {
        let message = "persistentvolume pvc-1 is still attached to node node-a";
        history.at(ms, "provisioner", "k8s.event", json!({ "type": "Warning", "reason": "VolumeFailedDelete", "object": "persistentvolume/pvc-1", "message": message }));
    }
    history.rpc(407_000, 407_003, "DeleteVolume", VOL, "", "OK");
    let node = || "node-a".to_owned();
    assert_eq!(
        waits(&history),
        [
            (31_000, Some(80_000), node(), "no heartbeat for 49s".to_owned()),
            (80_000, Some(380_000), node(), "eviction after 5m00s".to_owned()),
            (400_000, Some(407_000), String::new(), "3 tries: still attached".to_owned()),
        ]
    );
}

#[test]
fn a_fault_is_shown_where_it_fired() {
    let mut history = History::default();
    history.first_volume();
    for ms in [12_100, 13_200] {
        history.at(
            ms - 50,
            "csi-controller",
            "csi.call",
            json!({ "rpc": "ControllerUnpublishVolume", "volume": VOL, "node": "i-0aaaaaaaaaaaaaaaa", "ordinal": ms }),
        );
        history.fault(ms, "csi-controller", "lost-reply", "ec2 DetachVolume");
    }
    let timeline = Timeline::build(&history.0.events());
    let fired: Vec<&Row> = timeline.volumes[0].rows.iter().filter(|row| row.phase == "fault fired").collect();
    assert_eq!(fired.len(), 1, "{fired:?}");
    assert_eq!((fired[0].shape, &fired[0].at_ms[..]), (Shape::Broken, &[12_100, 13_200][..]));
    assert_eq!(fired[0].detail, "lost-reply: ec2 DetachVolume ×2");
    let text = timeline.render(Style::PLAIN, 4);
    let line = text.lines().find(|line| line.contains("fault fired")).unwrap_or_default();
    assert_eq!(line.matches('✗').count(), 2, "{text}");
    // A claim that is created later is not affected.
    history.commit(14_000, "persistentvolumeclaims", "default/other", "ADDED", "pvc", json!({ "phase": "Pending" }));
    let timeline = Timeline::build(&history.0.events());
    assert!(timeline.volumes[1].rows.iter().all(|row| row.shape == Shape::Moment), "{:?}", timeline.volumes[1]);
}

#[test]
fn colours_change_nothing_but_colour() {
    let timeline = Timeline::build(&migration().0.events());
    let coloured = timeline.render(Style { color: true, ..Style::PLAIN }, 4);
    assert!(coloured.contains("\x1b[36m"));
    let mut plain = String::new();
    for (i, part) in coloured.split("\x1b[").enumerate() {
        plain += if i == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&plain), trimmed(&timeline.render(Style::PLAIN, 4)));
}

#[test]
fn a_call_that_never_succeeded_says_so() {
    let mut history = History::default();
    history.first_volume();
    for ms in [12_000, 13_000] {
        history.rpc(ms, ms + 100, "NodeUnstageVolume", VOL, "node-a", "INTERNAL");
    }
    let timeline = Timeline::build(&history.0.events());
    let row = timeline.volumes[0].rows.last().expect("a row");
    assert_eq!((row.detail.as_str(), row.shape, row.end_ms), ("2 tries, INTERNAL", Shape::Warning, Some(13_100)));
}

#[test]
fn a_claim_of_the_same_name_is_another_volume() {
    let mut history = History::default();
    history.first_volume();
    history
        .commit(20_000, "persistentvolumeclaims", "default/data", "DELETED", "pvc", json!({ "phase": "Bound" }))
        .commit(21_000, "persistentvolumeclaims", "default/data", "ADDED", "pvc", json!({ "phase": "Pending" }))
        .commit(22_000, "persistentvolumeclaims", "default/data", "MODIFIED", "pvc", json!({ "phase": "Bound" }));
    let timeline = Timeline::build(&history.0.events());
    let last = |v: &Volume| v.rows.last().map(|r| (r.phase.clone(), r.start_ms));
    assert_eq!(
        timeline.volumes.iter().map(last).collect::<Vec<_>>(),
        [Some(("claim gone".into(), 20_000)), Some(("bound".into(), 22_000))]
    );
}

#[test]
fn a_volume_without_a_claim_has_a_timeline_too() {
    let mut history = History::default();
    history
        .at(10, "ec2", "ec2.volume", json!({ "volume": VOL, "state": "creating", "zone": "us-east-1a", "size_gib": 4 }))
        .at(
            20,
            "ec2",
            "ec2.volume",
            json!({ "volume": VOL, "state": "available", "zone": "us-east-1a", "size_gib": 4 }),
        )
        .rpc(30, 40, "NodeStageVolume", VOL, "node-a", "OK");
    assert_eq!(phases(&history), ["provisioned", "NodeStage node-a"]);
    assert!(drawn(&history).starts_with("unclaimed volume · vol-0123456789abcdef0 · 4 GiB · us-east-1a\n"));
}

#[test]
fn of_many_volumes_the_first_are_shown_and_the_rest_is_counted() {
    let mut history = History::default();
    for i in 0..20 {
        history.commit(
            i,
            "persistentvolumeclaims",
            &format!("default/data-{i}"),
            "ADDED",
            "pvc",
            json!({ "phase": "Pending" }),
        );
    }
    let text = Timeline::build(&history.0.events()).render(Style::PLAIN, 3);
    assert_eq!(text.matches("claim created").count(), 3);
    assert!(text.contains("\nand 17 more volumes\n\n"));
}

#[test]
fn a_run_in_which_nothing_happened_has_no_timeline() {
    assert_eq!(drawn(&History::default()), "");
}

#[test]
fn the_summary_names_the_times_and_the_seed() {
    let times = |s: Summary| s.times(std::time::Duration::from_millis(760_100), std::time::Duration::from_millis(48));
    let simulated = Summary { seed: 7, events: 1432, ..Summary::new("node-crash", WorldKind::Simulated, Exit::Passed) };
    assert_eq!(
        times(simulated).render(Style::PLAIN),
        "✓ node-crash passed · virtual time 760.100s · wall time 48ms · seed 7 · 1432 events\n  checked: I1 0 · I2 0 · I3 0 · I4 0 · I5 0 · I6 0 · I7 0 · I8 0 · I9 0 · I10 0 · I11 0 · I12 0\n  · I13 0\n"
    );
    let live = Summary { time_scale: 30.0, backend: "loop".into(), ..Summary::new("t", WorldKind::Live, Exit::Failed) };
    assert_eq!(
        times(live).render(Style::PLAIN),
        "✗ t failed · live on the loop backend · wall time 48ms · time-scale 30 · seed 0 · 0 events\n  checked: I1 0 · I2 0 · I3 0 · I4 0 · I5 0 · I6 0 · I7 0 · I8 0 · I9 0 · I10 0 · I11 0 · I12 0\n  · I13 0\n"
    );
}
