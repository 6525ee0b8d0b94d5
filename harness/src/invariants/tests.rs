//! Each invariant holds in a sound run, and each fires when that run is changed in the one way that breaks it.

use substrate::json::{Value, json};

use super::*;

const VOL: &str = "vol-0123456789abcdef0";

/// A run in which a volume moves from node-a to node-b.
fn sound() -> Vec<(&'static str, Value)> {
    let stay = |node: &'static str, instance: &'static str, va: &'static str, found: u64| {
        let commit = |attached: bool, verb: &str, kind: &str| {
            json!({ "resource": "volumeattachments", "object": va, "verb": verb, "type": kind,
                    "volumeattachment": { "pv": "pv-1", "node": node, "attached": attached } })
        };
        let pod = format!("default/web-{node}");
        vec![
            ("api.commit", commit(false, "create", "ADDED")),
            ("csi.call", json!({ "rpc": "ControllerPublishVolume", "volume": VOL, "node": instance })),
            ("ec2.attachment", json!({ "volume": VOL, "instance": instance, "state": "attached", "forced": false })),
            ("api.commit", commit(true, "patch", "MODIFIED")),
            ("csi.call", json!({ "rpc": "NodeStageVolume", "volume": VOL, "node": node })),
            ("disk.staged", json!({ "volume": VOL, "node": node, "path": "/s", "readonly": false })),
            ("csi.call", json!({ "rpc": "NodePublishVolume", "volume": VOL, "node": node })),
            ("disk.published", json!({ "volume": VOL, "node": node, "path": "/t", "readonly": false })),
            (
                "workload.started",
                json!({ "pod": pod, "node": node, "volume": VOL, "records_found": found, "verified": true }),
            ),
            ("workload.synced", json!({ "pod": pod, "node": node, "volume": VOL, "record": found + 1 })),
            ("workload.synced", json!({ "pod": pod, "node": node, "volume": VOL, "record": found + 2 })),
            ("workload.stopped", json!({ "pod": pod, "node": node, "volume": VOL })),
            ("disk.unpublished", json!({ "volume": VOL, "node": node, "path": "/t" })),
            ("disk.unstaged", json!({ "volume": VOL, "node": node, "path": "/s" })),
            ("ad.detach", json!({ "volume": VOL, "pv": "pv-1", "node": node, "forced": false })),
            ("csi.call", json!({ "rpc": "ControllerUnpublishVolume", "volume": VOL, "node": instance })),
            ("ec2.attachment", json!({ "volume": VOL, "instance": instance, "state": "detaching", "forced": false })),
            ("ec2.attachment", json!({ "volume": VOL, "instance": instance, "state": "detached", "forced": false })),
            ("api.commit", commit(false, "delete", "DELETED")),
        ]
    };
    let mut run = vec![
        ("cluster.node", json!({ "node": "node-a", "instance": "i-a" })),
        ("cluster.node", json!({ "node": "node-b", "instance": "i-b" })),
        (
            "api.commit",
            json!({ "resource": "persistentvolumes", "object": "pv-1", "verb": "create", "type": "ADDED",
            "pv": { "phase": "Pending", "handle": VOL, "claim": "default/data" } }),
        ),
    ];
    run.extend(stay("node-a", "i-a", "csi-a", 0));
    run.extend(stay("node-b", "i-b", "csi-b", 2));
    run
}

fn check(run: &[(&str, Value)]) -> Vec<Violation> {
    let invariants = Invariants::new();
    for (n, (kind, fields)) in (1..).zip(run) {
        let fields = fields.as_object().cloned().unwrap_or_default().into();
        invariants.observe(&Event { ms: n * 10, n, process: "p".into(), kind: (*kind).into(), fields });
    }
    invariants.violations()
}

fn ids(run: &[(&str, Value)]) -> Vec<&'static str> {
    check(run).iter().map(|v| v.id).collect()
}

/// The run without the first event of `kind` for which `pick` holds.
fn without(kind: &str, pick: impl Fn(&Value) -> bool) -> Vec<(&'static str, Value)> {
    let mut run = sound();
    let at = run.iter().position(|(k, v)| *k == kind && pick(v)).expect("the event is in the run");
    run.remove(at);
    run
}

/// The run in which the event at the first place where `pick` holds was changed.
fn changed(kind: &str, pick: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) -> Vec<(&'static str, Value)> {
    let mut run = sound();
    let event = run.iter_mut().find(|(k, v)| *k == kind && pick(v)).expect("the event is in the run");
    change(&mut event.1);
    run
}

/// The run up to the first detach request, then `extra`, then the stay on node-b.
fn cut_off_and_moved(extra: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let run = sound();
    let stop = run.iter().position(|(k, _)| *k == "workload.stopped").expect("a stop");
    let second = run.iter().rposition(|(_, v)| v["object"] == "csi-b" && v["verb"] == "create").expect("a second stay");
    run[..stop].iter().chain(extra).chain(&run[second..]).cloned().collect()
}

#[test]
fn a_sound_run_breaks_nothing() {
    assert_eq!(check(&sound()), []);
}

#[test]
fn i1_fires_when_a_second_node_mounts_for_writing() {
    let violations = check(&cut_off_and_moved(&[]));
    assert_eq!(violations.iter().map(|v| v.id).collect::<Vec<_>>(), ["I1"]);
    assert!(violations[0].message.contains("became writable on node-b while it is writable on node-a"));
    assert!(violations[0].n > 0 && violations[0].ms == violations[0].n * 10);
}

#[test]
fn i1_lets_a_forced_detach_a_crash_multi_attach_and_readers_pass() {
    let forced = json!({ "volume": VOL, "pv": "pv-1", "node": "node-a", "forced": true, "reason": "timeout" });
    assert_eq!(ids(&cut_off_and_moved(&[("ad.detach", forced)])), [""; 0]);
    let by_cloud = json!({ "volume": VOL, "instance": "i-a", "state": "detached", "forced": true });
    assert_eq!(ids(&cut_off_and_moved(&[("ec2.attachment", by_cloud)])), [""; 0]);
    assert_eq!(ids(&cut_off_and_moved(&[("disk.crashed", json!({ "node": "node-a" }))])), [""; 0]);
    let multi = json!({ "volume": VOL, "state": "available", "multi_attach": true });
    assert_eq!(ids(&cut_off_and_moved(&[("ec2.volume", multi)])), [""; 0]);
    let mut readers = cut_off_and_moved(&[]);
    for (kind, fields) in &mut readers {
        if kind.starts_with("disk.") && fields["node"] == "node-b" {
            fields["readonly"] = json!(true);
        }
    }
    assert_eq!(ids(&readers), [""; 0]);
}

#[test]
fn i1_fires_again_when_the_forced_off_node_mounts_anew() {
    let mut run = cut_off_and_moved(&[("ad.detach", json!({ "volume": VOL, "node": "node-a", "forced": true }))]);
    let end = run.iter().rposition(|(k, _)| *k == "workload.stopped").expect("a stop");
    run.truncate(end);
    run.push(("disk.staged", json!({ "volume": VOL, "node": "node-a", "path": "/s", "readonly": false })));
    assert_eq!(ids(&run), ["I1"]);
}

#[test]
fn i2_fires_when_a_volume_is_detached_while_it_is_staged() {
    let run = without("disk.unstaged", |_| true);
    let violations = check(&run);
    assert_eq!(violations[0].id, "I2");
    assert!(violations[0].message.starts_with("ControllerUnpublishVolume was called for vol-"), "{violations:?}");
    assert_eq!(violations.iter().filter(|v| v.id == "I2").count(), 1, "the RPC and the cloud's detach are one mistake");
}

#[test]
fn i2_fires_when_somebody_detaches_in_the_cloud() {
    let mut run = sound();
    let at = run.iter().position(|(k, _)| *k == "workload.stopped").expect("a stop");
    run.truncate(at);
    run.push(("ec2.attachment", json!({ "volume": VOL, "instance": "i-a", "state": "detaching", "forced": false })));
    assert_eq!(ids(&run), ["I2"]);
}

/// A driver that was started anew says that it unstaged, and no mount tells it. Of a filesystem that is not enough.
#[test]
fn i2_takes_the_word_of_the_driver_for_raw_devices_only() {
    let mut run = without("disk.unstaged", |_| true);
    for (ended, (kind, fields)) in run.clone().into_iter().enumerate().rev() {
        if kind == "disk.unpublished" {
            let done = json!({ "rpc": "NodeUnstageVolume", "volume": VOL, "node": fields["node"], "code": "OK" });
            run.insert(ended + 1, ("csi.done", done));
        }
    }
    assert_eq!(ids(&run)[0], "I2");
    for (_, fields) in run.iter_mut().filter(|(kind, _)| *kind == "disk.staged") {
        fields["raw"] = json!(true);
    }
    assert_eq!(ids(&run), [""; 0]);
}

#[test]
fn i2_lets_a_forced_detach_pass() {
    let mut run = without("disk.unstaged", |_| true);
    let detach = run.iter_mut().find(|(k, _)| *k == "ad.detach").expect("a detach");
    detach.1["forced"] = json!(true);
    assert_eq!(ids(&run), [""; 0]);
}

#[test]
fn i3_fires_on_a_stage_before_the_attachment_is_reported() {
    assert_eq!(ids(&without("api.commit", |v| v["volumeattachment"]["attached"] == true)), ["I3"]);
    assert_eq!(
        ids(&changed(
            "api.commit",
            |v| v["volumeattachment"]["attached"] == true,
            |v| {
                v["volumeattachment"]["node"] = json!("node-b");
            }
        )),
        ["I3"]
    );
}

#[test]
fn i3_fires_on_a_publish_before_the_stage() {
    assert_eq!(ids(&without("disk.staged", |_| true)), ["I3"]);
}

#[test]
fn i3_asks_the_cloud_where_kubernetes_does_not_know_the_volume() {
    let mut run = without("api.commit", |v| v["resource"] == "persistentvolumes");
    assert_eq!(ids(&run), [""; 0]);
    run.retain(|(_, v)| v["state"] != "attached");
    assert_eq!(ids(&run), ["I3", "I3"]);
}

#[test]
fn i5_fires_for_everything_that_is_left() {
    let invariants = Invariants::new();
    invariants.at_quiescence(&Leftovers::default());
    assert_eq!(invariants.violations(), []);
    let leftovers = Leftovers {
        cloud_volumes: vec![VOL.into()],
        directories: (0..7).map(|i| format!("node-a: /d{i}")).collect(),
        ..Leftovers::default()
    };
    assert!(!leftovers.is_empty());
    invariants.at_quiescence(&leftovers);
    let messages: Vec<String> = invariants.violations().into_iter().map(|v| v.message).collect();
    assert_eq!(
        messages,
        [
            "a cloud volume is left over: vol-0123456789abcdef0",
            "7 directories are left over: node-a: /d0, node-a: /d1, node-a: /d2, node-a: /d3, node-a: /d4, …"
        ]
    );
}

#[test]
fn every_kind_of_leftover_counts() {
    let one = || vec!["x".to_owned()];
    let kinds = [
        Leftovers { cloud_volumes: one(), ..Leftovers::default() },
        Leftovers { cloud_attachments: one(), ..Leftovers::default() },
        Leftovers { volume_attachments: one(), ..Leftovers::default() },
        Leftovers { persistent_volumes: one(), ..Leftovers::default() },
        Leftovers { finalizers: one(), ..Leftovers::default() },
        Leftovers { mounts: one(), ..Leftovers::default() },
        Leftovers { devices: one(), ..Leftovers::default() },
        Leftovers { directories: one(), ..Leftovers::default() },
    ];
    for leftovers in kinds {
        let invariants = Invariants::new();
        invariants.at_quiescence(&leftovers);
        assert_eq!(invariants.violations().len(), 1, "{leftovers:?}");
    }
}

#[test]
fn i6_fires_when_synced_records_are_missing_or_wrong() {
    let second = |v: &Value| v["node"] == "node-b";
    let missing = check(&changed("workload.started", second, |v| v["records_found"] = json!(1)));
    assert_eq!(missing[0].id, "I6");
    assert_eq!(
        missing[0].message,
        format!("default/web-node-b found 1 records on {VOL}, and 2 were synced before the last clean unmount")
    );
    let mut corrupt = changed("workload.started", second, |v| v["verified"] = json!(false));
    assert_eq!(ids(&corrupt), [""; 0], "a read that failed is tried again");
    let at = corrupt.iter().rposition(|(k, _)| *k == "workload.started").expect("a start");
    let what =
        json!({ "pod": "default/web-node-b", "node": "node-b", "volume": VOL, "error": "line 1 is not a record" });
    corrupt.insert(at + 1, ("workload.corrupt", what));
    assert_eq!(ids(&corrupt), ["I6"]);
}

#[test]
fn i6_promises_nothing_about_bytes_that_a_crash_caught() {
    let mut run = cut_off_and_moved(&[("disk.crashed", json!({ "node": "node-a" }))]);
    let start = run.iter_mut().rfind(|(k, _)| *k == "workload.started").expect("a start");
    start.1["records_found"] = json!(1);
    assert_eq!(ids(&run), [""; 0]);
}

#[test]
fn i6_still_watches_after_a_crash_that_nobody_announced() {
    // Unmounted cleanly once, then a writer that a crash silenced, then a start that finds too little.
    let crash = [("disk.crashed", json!({ "node": "node-b" }))];
    let mut run = sound();
    let stop = run.iter().rposition(|(k, _)| *k == "workload.stopped").expect("a stop");
    run.truncate(stop);
    run.extend(crash);
    let lost = json!({ "pod": "default/web-3", "node": "node-b", "volume": VOL, "records_found": 1, "verified": true });
    run.push(("workload.started", lost));
    assert_eq!(ids(&run), ["I6"]);
}

#[test]
fn a_flood_of_violations_is_counted_but_not_kept() {
    let invariants = Invariants::new();
    for _ in 0..200 {
        invariants.at_quiescence(&Leftovers { mounts: vec!["node-a: /m".into()], ..Leftovers::default() });
    }
    assert_eq!((invariants.violations().len(), invariants.total()), (50, 200));
}
