//! Pod facts in the calls to a driver, with the real API server and the real driver.

use http::Request;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::storage::v1::CSIDriver;

use super::real::{Hand, bring_up, with_hand};
use super::*;

/// Creates the CSIDriver object, with more in its spec.
pub(super) async fn driver(hand: &Hand, more: Value) {
    let mut spec = json!({ "attachRequired": true });
    spec.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    let object = json!({ "metadata": { "name": "ebs.csi.aws.com" }, "spec": spec });
    hand.create::<CSIDriver>("", object).await;
}

/// Returns the requests of an RPC from the driver's log, without the driver's own fields.
pub(super) async fn asked(hand: &Hand, rpc: &str) -> Vec<Value> {
    let service = Link::connect(&hand.ctx, "csi-node-a");
    let request = Request::get("/admin/v1/calls").header("host", "localhost").body(substrate::body::empty());
    let response = substrate::body::call(service, request.expect("a request")).await.expect("an answer");
    let bytes = substrate::body::collect(response.into_body(), 1 << 20).await.expect("a body");
    let log: Value = serde_json::from_slice(&bytes).expect("a log");
    let calls = log["calls"].as_array().cloned().unwrap_or_default();
    calls.into_iter().filter(|c| c["rpc"] == rpc).map(|c| c["request"].clone()).collect()
}

const HIDDEN: &str = "***stripped***";

#[test]
fn a_driver_with_requires_republish_gets_the_pod_repeatedly() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| {
        let tokens = json!([{ "audience": "vault", "expirationSeconds": 3600 }]);
        driver(&hand, json!({ "podInfoOnMount": true, "tokenRequests": tokens, "requiresRepublish": true })).await;
        let secret = json!({ "metadata": { "name": "s" }, "stringData": { "key": "hush" } });
        hand.create::<Secret>("default", secret).await;
        let reference = json!({ "name": "s", "namespace": "default" });
        let csi = json!({ "nodeStageSecretRef": reference, "nodePublishSecretRef": reference });
        bring_up(&hand, &disk, csi, Value::Null).await;
        let staged = asked(&hand, "NodeStageVolume").await;
        assert_eq!(staged[0]["secrets"], json!({ "key": HIDDEN }));
        let published = asked(&hand, "NodePublishVolume").await;
        assert_eq!((published.len(), &published[0]["secrets"]), (1, &json!({ "key": HIDDEN })));
        let attribute = |key: &str| published[0]["volume_context"][format!("csi.storage.k8s.io/{key}")].clone();
        assert_eq!((attribute("pod.name"), attribute("pod.namespace")), (json!("p"), json!("default")));
        assert_eq!((attribute("serviceAccount.name"), attribute("ephemeral")), (json!("default"), json!("false")));
        assert!(attribute("pod.uid").as_str().is_some_and(|uid| uid.len() == 36));
        assert_eq!(attribute("serviceAccount.tokens"), HIDDEN);
        // kubelet syncs its pods every 60 to 90 s.
        hand.ctx.sleep(Duration::from_secs(200)).await;
        let again = asked(&hand, "NodePublishVolume").await.len();
        assert!((3..=4).contains(&again), "{again}");
        assert_eq!(asked(&hand, "NodeStageVolume").await.len(), 1, "only publishing is repeated");
        assert!(!serde_json::to_string(&hand.ctx.trace().lines()).expect("text").contains("hush"));
    });
}

#[test]
fn a_driver_that_asks_for_nothing_gets_nothing() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| {
        driver(&hand, json!({})).await;
        bring_up(&hand, &disk, Value::Null, Value::Null).await;
        hand.ctx.sleep(Duration::from_secs(200)).await;
        let published = asked(&hand, "NodePublishVolume").await;
        assert_eq!(published.len(), 1);
        assert_eq!((&published[0]["volume_context"], &published[0]["secrets"]), (&Value::Null, &Value::Null));
    });
}

#[test]
fn a_secret_that_is_not_there_keeps_the_pod_waiting_until_it_is() {
    with_hand(&MemoryDisks::new(), "ebs", async |hand, disk| {
        let csi = json!({ "nodeStageSecretRef": { "name": "s", "namespace": "default" } });
        let late = async {
            hand.until("refused", 20, async || {
                let events = hand.ctx.trace().events();
                let mut failed = events.iter().filter_map(|e| e.get::<events::OperationFailed>());
                failed.any(|e| e.error.contains("fetching NodeStageSecretRef default/s failed"))
            })
            .await;
            hand.create::<Secret>("default", json!({ "metadata": { "name": "s" } })).await;
        };
        tokio::join!(bring_up(&hand, &disk, csi, Value::Null), late);
    });
}

/// Runs a pod with fsGroup 2000. Returns the groups that the driver received, and the group that owns the files.
fn group(capabilities: &str, spec: Value, csi: Value) -> (Vec<Value>, Option<u32>) {
    let disks = MemoryDisks::new();
    let found = std::cell::RefCell::new(Vec::new());
    with_hand(&disks, capabilities, async |hand, disk| {
        driver(&hand, spec.clone()).await;
        bring_up(&hand, &disk, csi.clone(), json!({ "securityContext": { "fsGroup": 2000 } })).await;
        for rpc in ["NodeStageVolume", "NodePublishVolume"] {
            let request = asked(&hand, rpc).await.remove(0);
            let mount = &request["volume_capability"]["access_type"]["mount"]["volume_mount_group"];
            let flat = &request["volume_capability"]["mount"]["volume_mount_group"];
            found.borrow_mut().push(if flat.is_null() { mount.clone() } else { flat.clone() });
        }
    });
    (found.into_inner(), disks.group("vol-1"))
}

#[test]
fn kubelet_gives_the_volume_to_the_pods_group_as_the_policy_says() {
    for (policy, given) in [("File", Some(2000)), ("ReadWriteOnceWithFSType", Some(2000)), ("None", None)] {
        let (groups, owner) = group("ebs", json!({ "fsGroupPolicy": policy }), Value::Null);
        assert_eq!((groups, owner), (vec![Value::Null, Value::Null], given), "{policy}");
    }
    // Without a filesystem type in the PersistentVolume, kubelet does not change the group.
    let (_, owner) = group("ebs", json!({}), json!({ "fsType": null }));
    assert_eq!(owner, None);
}

#[test]
fn a_driver_that_can_do_it_gives_the_volume_to_the_group_whatever_the_policy_says() {
    let (groups, owner) = group("ebs,+VOLUME_MOUNT_GROUP", json!({ "fsGroupPolicy": "None" }), Value::Null);
    assert_eq!((groups, owner), (vec![json!("2000"), json!("2000")], Some(2000)));
}

#[test]
fn the_limit_of_a_node_follows_what_its_driver_says() {
    let disks = MemoryDisks::new();
    simulate(Options::default(), async |world| {
        let rig = Rig::new(&world, &disks);
        rig.until("registered", 2, || rig.count("node-agent.registered") == 1).await;
        let limit = || rig.toy.get("csinodes", "", "node-a")["spec"]["drivers"][0]["allocatable"]["count"].clone();
        let first = limit();
        rig.settings.set_attach_limit(Some(3));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(limit(), first, "a driver without a period is not asked again");
        let object = json!({
            "metadata": { "name": "ebs.csi.aws.com" }, "spec": { "nodeAllocatableUpdatePeriodSeconds": 60 },
        });
        rig.toy.put("csidrivers", "", object);
        let took = rig.until("a new limit", 62, || limit() == 3).await;
        assert!(took > Duration::from_secs(58), "{took:?}");
        rig.settings.set_attach_limit(Some(5));
        rig.until("another one", 62, || limit() == 5).await;
    });
}
