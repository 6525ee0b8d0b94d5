//! The ephemeral volume controller against the API server, in virtual time.

use controllers::kube::{DeleteParams, Kind, ListParams};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use serde::de::DeserializeOwned;
use substrate::json::{Value, json};

use crate::common::{Rig, S, in_simulation};

const OTHERS: &[&str] = &["kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer"];

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

/// Creates a pod with a generic ephemeral volume, and returns its uid.
async fn pod(rig: &Rig, name: &str) -> String {
    let spec = json!({
        "storageClassName": "ebs",
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
    });
    let template = json!({ "metadata": { "annotations": { "made": "for a pod" } }, "spec": spec });
    let volume = json!({ "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } });
    let container = json!({ "name": "c", "image": "i" });
    let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [container], "volumes": [volume] } });
    rig.client.namespaced::<Pod>("default").create(&object(pod)).await.expect("a pod").uid().to_owned()
}

async fn claim(rig: &Rig, name: &str) -> Option<PersistentVolumeClaim> {
    let got = rig.client.namespaced::<PersistentVolumeClaim>("default").get(name).await.ok()?;
    Some(PersistentVolumeClaim::clone(&got))
}

async fn delete_claim(rig: &Rig, name: &str) {
    let api = rig.client.namespaced::<PersistentVolumeClaim>("default");
    api.delete(name, &DeleteParams::default()).await.expect("deleted");
}

#[test]
fn a_pod_gets_the_claim_of_its_volume_again_and_takes_it_along() {
    in_simulation(1, async |world| {
        let rig = Rig::with_all_loops(&world, &[], OTHERS).await;
        let uid = pod(&rig, "web").await;
        rig.until(S(5), "the claim exists", || async { claim(&rig, "web-scratch").await.is_some() }).await;
        let made = claim(&rig, "web-scratch").await.expect("a claim");
        let owner = &made.metadata.owner_references.as_ref().expect("an owner")[0];
        assert_eq!((owner.uid.as_str(), owner.controller), (uid.as_str(), Some(true)));
        assert_eq!(
            made.metadata.annotations.as_ref().and_then(|all| all.get("made")).map(String::as_str),
            Some("for a pod")
        );
        delete_claim(&rig, "web-scratch").await;
        let is_new = async || claim(&rig, "web-scratch").await.is_some_and(|claim| claim.uid() != made.uid());
        rig.until(S(5), "the claim is there again", is_new).await;
        let pods = rig.client.namespaced::<Pod>("default");
        pods.delete("web", &DeleteParams::force()).await.expect("deleted");
        rig.until(S(60), "the claim goes with its pod", async || claim(&rig, "web-scratch").await.is_none()).await;
    });
}

#[test]
fn a_claim_of_that_name_that_is_not_the_pods_is_reported() {
    in_simulation(1, async |world| {
        let rig = Rig::with_all_loops(&world, &[], OTHERS).await;
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        let claim_of_a_user = json!({ "metadata": { "name": "web-scratch" }, "spec": spec });
        let claims = rig.client.namespaced::<PersistentVolumeClaim>("default");
        claims.create(&object(claim_of_a_user)).await.expect("a claim");
        rig.sleep(S(1)).await;
        pod(&rig, "web").await;
        let message =
            "ephemeral volume scratch: PVC default/web-scratch was not created for pod default/web (pod is not owner)";
        let reported = async || {
            let list = rig.client.namespaced::<Event>("default").list(&ListParams::default()).await.expect("Events");
            let is = |event: &Event| {
                event.reason.as_deref() == Some("FailedBinding") && event.message.as_deref() == Some(message)
            };
            list.items.iter().any(is)
        };
        rig.until(S(10), "an Event says so", reported).await;
        assert!(claim(&rig, "web-scratch").await.expect("it stays").metadata.owner_references.is_none());
        // Once the claim is gone the pod gets its own.
        delete_claim(&rig, "web-scratch").await;
        let owned = async || claim(&rig, "web-scratch").await.is_some_and(|c| c.metadata.owner_references.is_some());
        rig.until(S(60), "the pod has its own claim", owned).await;
    });
}
