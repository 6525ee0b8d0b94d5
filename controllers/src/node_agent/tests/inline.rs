//! Inline volumes, with the real API server and the real driver.

use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::storage::v1::CSIDriver;
use sha2::{Digest, Sha256};

use super::call_context::{asked, driver};
use super::real::{Hand, with_hand};
use super::*;

async fn pod(hand: &Hand) -> Pod {
    let csi = json!({
        "driver": "ebs.csi.aws.com", "fsType": "ext4", "readOnly": true,
        "volumeAttributes": { "size": "1Gi" }, "nodePublishSecretRef": { "name": "s" },
    });
    let spec = json!({
        "nodeName": "node-a",
        "containers": [{ "name": "app", "image": "busybox",
            "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] }],
        "volumes": [{ "name": "scratch", "csi": csi }, { "name": "unused", "csi": csi }],
    });
    hand.create("default", json!({ "metadata": { "name": "p" }, "spec": spec })).await
}

/// Returns the messages of the events with this reason.
fn messages(hand: &Hand, reason: &str) -> Vec<String> {
    let events = hand.ctx.trace().lines();
    let of = events.iter().filter(|e| e.kind == "k8s.event" && e.str("reason") == Some(reason));
    of.filter_map(|e| e.str("message").map(str::to_owned)).collect()
}

#[test]
fn a_driver_that_does_not_take_volumes_of_pods_specs_is_not_asked_and_the_pod_waits() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, _| {
        hand.registered().await;
        let refused = |why: &str| {
            format!(
                "MountVolume.SetUp failed for volume \"scratch\" : kubernetes.io/csi: mounter.SetupAt failed to check \
                 volume lifecycle mode: volume mode \"Ephemeral\" not supported by driver ebs.csi.aws.com ({why})"
            )
        };
        pod(&hand).await;
        let reported =
            async |text: String| hand.until(&text, 10, async || messages(&hand, "FailedMount").contains(&text)).await;
        reported(refused("no CSIDriver object")).await;
        driver(&hand, json!({})).await;
        reported(refused("only supports [\"Persistent\"]")).await;
        assert!(asked(&hand, "NodePublishVolume").await.is_empty());
        let waits = hand.client.namespaced::<Pod>("default").get("p").await.expect("the pod");
        assert_eq!(waits.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Pending"));
        let attachments = hand.client.all::<k8s_openapi::api::storage::v1::VolumeAttachment>();
        assert!(attachments.list(&Default::default()).await.expect("a list").items.is_empty());
    });
}

#[test]
fn a_driver_that_takes_volumes_of_pods_specs_is_asked_to_publish_only() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| {
        hand.registered().await;
        driver(&hand, json!({ "podInfoOnMount": true, "volumeLifecycleModes": ["Persistent", "Ephemeral"] })).await;
        hand.create::<Secret>("default", json!({ "metadata": { "name": "s" }, "stringData": { "key": "hush" } })).await;
        let pod = pod(&hand).await;
        hand.until("asked", 10, async || !asked(&hand, "NodePublishVolume").await.is_empty()).await;
        let uid = pod.metadata.uid.expect("a uid");
        let request = asked(&hand, "NodePublishVolume").await.remove(0);
        let handle = format!("csi-{}", hex::encode(Sha256::digest(format!("{uid}scratch"))));
        assert_eq!(request["volume_id"], json!(handle));
        assert_eq!((&request["staging_target_path"], &request["publish_context"]), (&Value::Null, &Value::Null));
        let target = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/scratch/mount");
        assert_eq!((&request["target_path"], &request["readonly"]), (&json!(target), &json!(true)));
        let context = &request["volume_context"];
        assert_eq!((&context["size"], &context["csi.storage.k8s.io/ephemeral"]), (&json!("1Gi"), &json!("true")));
        assert_eq!(context["csi.storage.k8s.io/pod.uid"], json!(uid));
        assert_eq!(request["secrets"].as_object().map(|s| s.len()), Some(1));
        assert!(asked(&hand, "NodeStageVolume").await.is_empty());
        // Mooring's driver stages its volumes and refuses to publish an unstaged one.
        let text = "MountVolume.SetUp failed for volume \"scratch\" : rpc error: code = FailedPrecondition";
        hand.until("reported", 5, async || messages(&hand, "FailedMount").iter().any(|m| m.starts_with(text))).await;
        let dir = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~csi/scratch");
        assert_eq!(disk.list_dir(dir.as_ref()).await.expect("a listing"), None, "a final answer leaves nothing");
        let objects = hand.client.all::<CSIDriver>().list(&Default::default()).await.expect("a list");
        assert_eq!(objects.items.len(), 1);
    });
}
