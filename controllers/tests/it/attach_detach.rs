//! The attach-detach controller and external-attacher with the API server, the driver and the cloud.

use controllers::kube::Kind;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIDriver;
use substrate::World;
use substrate::fault::Fault;
use substrate::json::json;

use crate::common::{Rig, S, edit, in_simulation};

const SCHEDULER: &[&str] = &["kube-scheduler"];

async fn migration(world: World) -> Vec<String> {
    let rig = Rig::new(&world, &["node-a", "node-b"], SCHEDULER).await;
    rig.claim("data").await;
    rig.pod("one", "node-a", "data").await;
    let volumes = rig.until_attached("node-a", S(10)).await;
    rig.in_use("node-a", &volumes).await;
    let attachment = rig.attachments().await.remove(0);
    assert!(attachment.has_finalizer("external-attacher/ebs-csi-aws-com"));
    assert!(attachment.annotation("csi.alpha.kubernetes.io/node-id").is_some_and(|id| id.starts_with("i-")));
    assert_eq!(rig.messages("SuccessfulAttachVolume").len(), 1);

    rig.pod("two", "node-b", "data").await;
    rig.force_delete("one").await;
    rig.sleep(S(30)).await;
    let warnings = rig.messages("FailedAttachVolume");
    assert_eq!(warnings.len(), 1, "once for the volume on the node: {warnings:?}");
    assert!(warnings[0].starts_with("Multi-Attach error for volume \"pvc-"), "{warnings:?}");
    assert!(rig.events("ad.detach").is_empty(), "the node still uses the volume");

    rig.in_use("node-a", &[]).await;
    assert_eq!(rig.until_attached("node-b", S(10)).await, volumes);
    assert!(rig.attached("node-a").await.is_empty());
    assert_eq!(rig.attachments().await.len(), 1);
    assert_eq!(rig.events("ad.detach")[0].fields["forced"], false);
    world.trace().lines().iter().map(substrate::Line::text).collect()
}

#[test]
fn a_volume_moves_when_its_node_no_longer_uses_it() {
    in_simulation(1, migration);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(in_simulation(7, migration), in_simulation(7, migration));
}

#[test]
fn a_failed_attach_is_reported_and_retried() {
    in_simulation(2, |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        // Twice: the attacher's own write of the finalizer triggers a second attempt at once.
        let fault: Fault = substrate::json::from_value(json!({
            "name": "publish-fails", "match": { "plane": "csi", "op": "ControllerPublishVolume" },
            "when": { "first": 2 }, "effect": { "grpc": "INTERNAL" },
        }))
        .expect("a fault");
        world.faults().add(world.clock().mono(), fault).expect("in force");
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(30)).await;
        let warnings = rig.messages("FailedAttachVolume");
        assert!(warnings[0].starts_with("AttachVolume.Attach failed for volume \"pvc-"), "{warnings:?}");
        assert!(warnings[0].contains("\" : rpc error: code = Internal desc = "), "{warnings:?}");
        let status = rig.attachments().await.remove(0).status.expect("a status");
        assert!(status.attached && status.attach_error.is_none());
    });
}

#[test]
fn attached_volumes_are_known_after_a_restart() {
    in_simulation(3, |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(10)).await;
        rig.crash_controllers();
        rig.force_delete("one").await;
        rig.sleep(S(5)).await;
        rig.restart_controllers();
        rig.until(S(10), "the volume is detached", || async { rig.attachments().await.is_empty() }).await;
        assert!(rig.attached("node-a").await.is_empty());
    });
}

/// Regression of kubernetes#89173 (`findAndRemoveDeletedPods`).
#[test]
fn a_volume_whose_driver_ceases_to_attach_is_detached() {
    in_simulation(3, |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(10)).await;
        rig.sleep(S(180)).await;
        assert_eq!(rig.attachments().await.len(), 1);
        let driver = json!({ "metadata": { "name": "ebs.csi.aws.com" }, "spec": { "attachRequired": false } });
        let driver: CSIDriver = substrate::json::from_value(driver).expect("a driver");
        rig.client.all::<CSIDriver>().create(&driver).await.expect("created");
        rig.sleep(S(70)).await;
        assert!(rig.attachments().await.is_empty());
    });
}

#[test]
fn a_crashed_node_loses_its_volume_six_minutes_after_its_pod_is_gone() {
    in_simulation(4, |world| async move {
        let rig = Rig::new(&world, &["node-a", "node-b", "node-c"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        let volumes = rig.until_attached("node-a", S(10)).await;
        rig.in_use("node-a", &volumes).await;
        rig.crash("node-a");
        let crashed = rig.seconds();
        rig.sleep(S(420)).await;

        let unknown = rig.times("node.unknown")[0] - crashed;
        assert!((40.0..=60.0).contains(&unknown), "Unknown after {unknown} s");
        assert_eq!(rig.messages("NodeNotReady"), ["Node node-a status is now: NodeNotReady", "Node is not ready"]);
        let marked = rig.events("k8s.event").into_iter().find(|e| e.str("reason") == Some("TaintManagerEviction"));
        let evicted = marked.expect("an eviction").ms as f64 / 1000.0 - crashed;
        assert!((340.0..=370.0).contains(&evicted), "evicted after {evicted} s");
        let pod = rig.pods().get("one").await.expect("no kubelet removes it");
        assert!(pod.is_deleting());
        let conditions = pod.status.clone().and_then(|s| s.conditions).unwrap_or_default();
        assert!(conditions.iter().any(|c| c.type_ == "DisruptionTarget" && c.status == "True"));
        assert!(rig.events("ad.detach").is_empty());

        rig.pod("two", "node-b", "data").await;
        rig.sleep(S(1)).await;
        assert!(rig.messages("FailedAttachVolume")[0].ends_with("Volume is already used by pod(s) one"));
        rig.force_delete("one").await;
        let removed = rig.seconds();
        rig.until_attached("node-b", S(400)).await;
        let detach = rig.events("ad.detach").remove(0);
        let waited = detach.ms as f64 / 1000.0 - removed;
        assert!((360.0..=361.0).contains(&waited), "detached after {waited} s");
        assert_eq!(detach.str("reason"), Some("timeout"));
    });
}

#[test]
fn the_out_of_service_taint_moves_a_volume_within_seconds() {
    in_simulation(5, |world| async move {
        let rig = Rig::new(&world, &["node-a", "node-b", "node-c"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        let volumes = rig.until_attached("node-a", S(10)).await;
        rig.in_use("node-a", &volumes).await;
        rig.crash("node-a");
        rig.sleep(S(70)).await;
        let node = rig.client.all::<Node>().get("node-a").await.expect("the node");
        let mut taints = node.spec.clone().and_then(|s| s.taints).unwrap_or_default();
        let keys: Vec<(&str, &str)> = taints.iter().map(|t| (t.key.as_str(), t.effect.as_str())).collect();
        assert!(keys.contains(&("node.kubernetes.io/unreachable", "NoExecute")), "{keys:?}");
        assert!(keys.contains(&("node.kubernetes.io/unreachable", "NoSchedule")), "{keys:?}");
        taints.push(controllers::taints::taint("node.kubernetes.io/out-of-service", "NoExecute"));
        edit(&rig.client.all::<Node>(), "node-a", |node| node.spec.get_or_insert_default().taints = Some(taints)).await;
        rig.pod("two", "node-b", "data").await;
        rig.until_attached("node-b", S(30)).await;
        assert_eq!(rig.events("ad.detach")[0].str("reason"), Some("out-of-service"));
        assert!(rig.pods().get("one").await.is_err_and(|e| e.is_not_found()));
    });
}

#[test]
fn informers_see_what_happened_while_their_stream_was_broken() {
    in_simulation(6, |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        let fault: Fault = substrate::json::from_value(json!({
            "name": "broken-streams", "match": { "plane": "link", "op": "stream", "where": { "from": "kube-controller-manager" } },
            "when": { "every": 3 }, "effect": { "reset_stream": true },
        }))
        .expect("a fault");
        world.faults().add(world.clock().mono(), fault).expect("in force");
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(120)).await;
        assert!(!rig.events("fault.fired").is_empty());
    });
}

#[test]
fn informers_relist_when_their_revision_is_gone() {
    in_simulation(8, |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        let fault: Fault = substrate::json::from_value(json!({
            "name": "gone", "match": { "plane": "k8s", "op": "watch" }, "when": { "first": 5 }, "effect": { "watch": "gone" },
        }))
        .expect("a fault");
        world.faults().add(world.clock().mono(), fault).expect("in force");
        rig.restart_controllers();
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(120)).await;
        assert!(!rig.events("fault.fired").is_empty());
    });
}
