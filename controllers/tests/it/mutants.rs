//! Each seeded bug has its described effect, and none when it is off.
#![cfg(any(debug_assertions, feature = "mutants"))]

use controllers::kube::{DeleteParams, Kind};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use substrate::World;
use substrate::fault::Fault;
use substrate::json::{Value, json};

use crate::common::{self, Rig, S, mutated};

const SCHEDULER: &[&str] = &["kube-scheduler"];

/// Starts a pod `one` on node-a with an attached volume.
async fn attached(world: World, nodes: &[&str]) -> Rig {
    let rig = Rig::new(&world, nodes, SCHEDULER).await;
    rig.claim("data").await;
    rig.pod("one", "node-a", "data").await;
    rig.until_attached("node-a", S(10)).await;
    rig
}

async fn in_use(rig: &Rig) {
    let volumes = rig.attached("node-a").await;
    rig.in_use("node-a", &volumes).await;
}

fn fault(rig: &Rig, operation: &str, first: u32) {
    let fault: Value = json!({
        "name": "fails", "match": { "plane": "csi", "op": operation },
        "when": { "first": first }, "effect": { "grpc": "INTERNAL" },
    });
    let fault: Fault = substrate::json::from_value(fault).expect("a fault");
    rig.world.faults().add(rig.world.clock().mono(), fault).expect("in force");
}

fn count(rig: &Rig, kind: &str, state: &str) -> usize {
    rig.events(kind).iter().filter(|event| event.str("state") == Some(state)).count()
}

/// Returns the results of `in_simulation` without and with the seeded bug.
fn both<F: Future<Output = T>, T>(mutant: &str, in_simulation: impl Fn(World) -> F) -> (T, T) {
    assert!(controllers::mutants::all().any(|known| known.name == mutant), "{mutant} is not listed");
    (mutated(&[], &in_simulation), mutated(&[mutant], &in_simulation))
}

#[test]
fn a_volume_is_attached_to_two_nodes() {
    let attachments = both("multi-attach-check-skipped", |world| async move {
        let rig = attached(world, &["node-a", "node-b"]).await;
        in_use(&rig).await;
        rig.pod("two", "node-b", "data").await;
        rig.sleep(S(10)).await;
        rig.attachments().await.len()
    });
    assert_eq!(attachments, (1, 2));
}

#[test]
fn a_detach_is_forced_within_two_minutes() {
    let forced = both("force-detach-early", |world| async move {
        let rig = attached(world, &["node-a", "node-b"]).await;
        in_use(&rig).await;
        rig.crash("node-a");
        rig.force_delete("one").await;
        rig.sleep(S(150)).await;
        rig.events("ad.detach").iter().filter(|event| event.fields["forced"] == true).count()
    });
    assert_eq!(forced, (0, 1));
}

#[test]
fn a_volume_is_detached_while_it_is_in_use() {
    let left = both("detach-without-unmount-wait", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        in_use(&rig).await;
        rig.force_delete("one").await;
        rig.sleep(S(20)).await;
        rig.attachments().await.len()
    });
    assert_eq!(left, (1, 0));
}

#[test]
fn a_node_status_keeps_what_was_detached() {
    let message = both("volumes-attached-not-updated", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        rig.force_delete("one").await;
        rig.until(S(30), "the volume is detached", || async { rig.attachments().await.is_empty() }).await;
        rig.sleep(S(60)).await;
        rig.attached("node-a").await.len()
    });
    assert_eq!(message, (0, 1));
}

#[test]
fn an_attachment_stays() {
    let left = both("attachment-left-behind", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        rig.force_delete("one").await;
        rig.sleep(S(60)).await;
        rig.attachments().await.len()
    });
    assert_eq!(left, (0, 1));
}

#[test]
fn an_attachment_is_forgotten_by_a_restart() {
    let left = both("dangling-attachments-ignored", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until(S(10), "an attachment", || async { !rig.attachments().await.is_empty() }).await;
        assert!(rig.attached("node-a").await.is_empty(), "the node's status knows it already");
        let manager = rig.controllers.iter().find(|process| &**process.name() == "kube-controller-manager");
        let manager = manager.expect("runs");
        manager.crash();
        rig.force_delete("one").await;
        rig.sleep(S(5)).await;
        manager.restart();
        rig.sleep(S(120)).await;
        rig.attachments().await.len()
    });
    assert_eq!(left, (0, 1));
}

#[test]
fn a_node_status_never_comes_to_rest() {
    let rests = both("status-flaps", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        let version = async || {
            let node = rig.client.all::<Node>().get("node-a").await.expect("the node");
            node.resource_version().to_owned()
        };
        rig.sleep(S(300)).await;
        let before = version().await;
        rig.sleep(S(300)).await;
        version().await == before
    });
    assert_eq!(rests, (true, false));
}

#[test]
fn a_volume_stays_attached_without_an_attachment() {
    let detached = both("finalizer-removed-early", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        fault(&rig, "ControllerUnpublishVolume", 1);
        rig.force_delete("one").await;
        rig.sleep(S(60)).await;
        assert!(rig.attachments().await.is_empty());
        count(&rig, "ec2.attachment", "detaching")
    });
    assert_eq!(detached, (1, 0));
}

#[test]
fn an_attachment_says_that_it_is_attached_and_is_not() {
    let attached = both("attached-before-publish", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        fault(&rig, "ControllerPublishVolume", 100);
        rig.pod("one", "node-a", "data").await;
        rig.sleep(S(10)).await;
        assert_eq!(count(&rig, "ec2.attachment", "attaching"), 0);
        rig.attachments().await.remove(0).status.is_some_and(|status| status.attached)
    });
    assert_eq!(attached, (false, true));
}

#[test]
fn an_attachment_keeps_an_error_after_an_attach() {
    let has_error = both("attach-error-kept", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        fault(&rig, "ControllerPublishVolume", 1);
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(60)).await;
        rig.sleep(S(5)).await;
        rig.attachments().await[0].status.as_ref().is_some_and(|status| status.attach_error.is_some())
    });
    assert_eq!(has_error, (false, true));
}

#[test]
fn a_failed_detach_is_the_last_one() {
    let left = both("never-retries-detach", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        fault(&rig, "ControllerUnpublishVolume", 1);
        rig.force_delete("one").await;
        rig.sleep(S(1200)).await;
        rig.attachments().await.len()
    });
    assert_eq!(left, (0, 1));
}

#[test]
fn a_volume_outlives_its_object() {
    let deleted = both("pv-deleted-not-volume", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        let gone = async || {
            rig.client.all::<PersistentVolume>().list(&Default::default()).await.expect("a list").items.is_empty()
        };
        rig.until(S(60), "the object is gone", gone).await;
        count(&rig, "ec2.volume", "deleted")
    });
    assert_eq!(deleted, (1, 0));
}

#[test]
fn a_failed_detach_counts_as_a_detach() {
    let attached = both("detach-error-is-success", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        fault(&rig, "ControllerUnpublishVolume", 1);
        rig.force_delete("one").await;
        rig.sleep(S(60)).await;
        assert!(rig.attachments().await.is_empty());
        count(&rig, "ec2.attachment", "detaching")
    });
    assert_eq!(attached, (1, 0));
}

#[test]
fn a_claim_gets_a_volume_with_each_try() {
    let made = both("provision-under-new-name", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        let lost: Value = json!({
            "name": "lost", "match": { "plane": "csi", "op": "CreateVolume" },
            "when": { "first": 1 }, "effect": { "grpc": "DEADLINE_EXCEEDED" }, "at": "after_effect",
        });
        let lost: Fault = substrate::json::from_value(lost).expect("a fault");
        rig.world.faults().add(rig.world.clock().mono(), lost).expect("in force");
        rig.claim("data").await;
        rig.sleep(S(30)).await;
        count(&rig, "ec2.volume", "creating")
    });
    assert_eq!(made, (1, 2));
}

#[test]
fn a_standby_never_takes_over() {
    let leads = both("lease-never-expires", |world| async move {
        let rig = Rig::new(&world, &["node-a"], controllers::LOOPS).await;
        let manager = rig.replica("kube-controller-manager", "manager-0");
        rig.sleep(S(20)).await;
        manager.crash();
        rig.sleep(S(5)).await;
        manager.restart();
        rig.sleep(S(120)).await;
        rig.events("leader.elected").len()
    });
    assert_eq!(leads, (2, 1));
}

#[test]
fn an_object_deleted_between_watches_stays_in_the_cache() {
    let left = both("informer-keeps-deleted", |world| async move {
        let rig = attached(world, &["node-a"]).await;
        rig.in_use("node-a", &[]).await;
        let gone: Value = json!({
            "name": "gone", "match": { "plane": "k8s", "op": "watch-event", "where": { "resource": "pods" } },
            "when": { "first": 1 }, "effect": { "watch": "gone" },
        });
        let gone: Fault = substrate::json::from_value(gone).expect("a fault");
        rig.world.faults().add(rig.world.clock().mono(), gone).expect("in force");
        rig.force_delete("one").await;
        rig.sleep(S(300)).await;
        rig.attachments().await.len()
    });
    assert_eq!(left, (0, 1));
}

#[test]
fn a_recreated_claim_gets_the_volume_of_the_old_one() {
    let same = both("binding-without-uid", |world| async move {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(10)).await;
        // While the controllers are down, the claim is replaced by another one of its name.
        rig.crash_controllers();
        rig.force_delete("one").await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        let of = |claim: &PersistentVolumeClaim| claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
        let old = claims.get("data").await.expect("the claim");
        common::edit(&claims, "data", |claim| claim.metadata.finalizers = None).await;
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        let new: Value = json!({ "metadata": { "name": "data", "namespace": "default" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "ebs",
            "resources": { "requests": { "storage": "1Gi" } },
        } });
        let new: PersistentVolumeClaim = substrate::json::from_value(new).expect("a claim");
        claims.create(&new).await.expect("created");
        rig.restart_controllers();
        rig.sleep(S(60)).await;
        let new = claims.get("data").await.expect("the claim");
        assert_ne!(new.metadata.uid, old.metadata.uid);
        of(&new).expect("bound") == of(&old).expect("bound")
    });
    assert_eq!(same, (false, true));
}

#[test]
fn a_leader_that_is_not_answered_leads_on() {
    let lost = both("lease-lost-in-a-call", |world| async move {
        let rig = Rig::new(&world, &["node-a"], controllers::LOOPS).await;
        let manager = rig.replica("kube-controller-manager", "manager-0");
        rig.sleep(S(20)).await;
        rig.crash_server("fake-apiserver");
        rig.sleep(S(60)).await;
        drop(manager);
        rig.events("leader.lost").len()
    });
    assert_eq!(lost, (1, 0));
}
