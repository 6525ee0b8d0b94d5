//! The behaviours that upstream's integration tests of the attach-detach controller show, under the names of those tests
//! (kubernetes `test/integration/volume/attach_detach_test.go`; `TestPodTerminationWithNodeOOSDetach` is
//! `attach_detach::the_out_of_service_taint_moves_a_volume_within_seconds`, too).
//!
//! Upstream changes the informer's cache by hand, so that the controller misses an event. Here the event comes, but the
//! caches do not have the claim or the volume that it needs.

use controllers::kube::DeleteParams;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use substrate::World;
use substrate::json::{from_value, json};

use crate::common::{DRIVER, Rig, S, edit, edit_status, in_simulation};

const SCHEDULER: &[&str] = &["kube-scheduler"];

/// Runs `test` in a cluster of two nodes in which the claim `data` is bound and the pod `one` on `node-a` uses it.
fn with_attached_volume<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
    in_simulation(11, async |world: World| {
        let rig = Rig::new(&world, &["node-a", "node-b"], SCHEDULER).await;
        rig.claim("data").await;
        rig.pod("one", "node-a", "data").await;
        rig.until_attached("node-a", S(10)).await;
        test(rig).await;
    });
}

#[test]
fn pod_termination_with_node_oos_detach() {
    with_attached_volume(async |rig| {
        let volumes = rig.attached("node-a").await;
        rig.in_use("node-a", &volumes).await;
        rig.crash("node-a");
        rig.sleep(S(70)).await;
        assert_eq!(rig.attachments().await.len(), 1, "the node still lists the volume as used");
        edit(&rig.client.all::<Node>(), "node-a", |node| {
            let taint = controllers::taints::taint("node.kubernetes.io/out-of-service", "NoExecute");
            node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
        })
        .await;
        rig.until(S(30), "the volume is detached", async || rig.attachments().await.is_empty()).await;
        assert!(rig.pods().get("one").await.is_err_and(|e| e.is_not_found()));
    });
}

#[test]
fn pod_deletion_with_dswp() {
    with_attached_volume(async |rig| {
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.delete("data", &DeleteParams::default()).await.expect("deleted");
        edit(&claims, "data", |claim| claim.metadata.finalizers = None).await;
        rig.force_delete("one").await;
        rig.sleep(S(5)).await;
        assert_eq!(rig.attachments().await.len(), 1, "without the claim, the event of the pod names no volume");
        rig.until(S(80), "the populator removes the pod", async || rig.attachments().await.is_empty()).await;
    });
}

#[test]
fn pod_update_with_adc() {
    with_attached_volume(async |rig| {
        edit_status(&rig.pods(), "one", json!({ "phase": "Succeeded" })).await;
        rig.until(S(20), "a finished pod needs no volume", async || rig.attachments().await.is_empty()).await;
    });
}

#[test]
fn pod_added_by_dswp() {
    in_simulation(12, async |world: World| {
        // Nothing but the test writes the claim.
        let without = ["kube-scheduler", "persistentvolume-binder-controller", "csi-resizer"];
        let rig = Rig::new(&world, &["node-a"], &without).await;
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        let claim = json!({ "metadata": { "name": "data", "namespace": "default" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv",
            "resources": { "requests": { "storage": "1Gi" } },
        } });
        let claim = claims.create(&from_value(claim).expect("a claim")).await.expect("created");
        edit_status(&claims, "data", json!({ "phase": "Bound" })).await;
        rig.pod("one", "node-a", "data").await;
        rig.sleep(S(5)).await;
        let volume = json!({ "metadata": { "name": "pv" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "csi": { "driver": DRIVER, "volumeHandle": "vol-0123456789abcdef0" },
            "claimRef": { "namespace": "default", "name": "data", "uid": claim.metadata.uid },
        } });
        rig.client.all::<PersistentVolume>().create(&from_value(volume).expect("a volume")).await.expect("created");
        rig.sleep(S(100)).await;
        assert!(rig.attachments().await.is_empty(), "no event tells that the pod's volume exists now");
        rig.until(S(140), "the populator adds the pod", async || !rig.attachments().await.is_empty()).await;
    });
}

#[test]
fn pvc_bound_with_adc() {
    in_simulation(13, async |world: World| {
        let rig = Rig::new(&world, &["node-a"], SCHEDULER).await;
        rig.claim("bound").await;
        rig.pod("one", "node-a", "bound").await;
        for claim in ["first", "second", "third"] {
            rig.pod(&format!("pod-{claim}"), "node-a", claim).await;
        }
        rig.sleep(S(10)).await;
        assert_eq!(rig.attached("node-a").await.len(), 1);
        for claim in ["first", "second", "third"] {
            rig.claim(claim).await;
        }
        rig.until(S(10), "all four are attached", async || rig.attached("node-a").await.len() == 4).await;
        assert!(rig.seconds() < 120.0, "before the populator looks for missing pods");
    });
}
