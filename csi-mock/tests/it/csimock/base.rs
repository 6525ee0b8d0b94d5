//! Call sequences can be compared, and every call can be hooked.

use csi_mock::capabilities::Capabilities;
use csi_proto::csi::NodeStageVolumeRequest;
use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};

use crate::bench::*;

/// Returns the log of calls, oldest first.
async fn log(b: &Bench) -> Vec<serde_json::Value> {
    let request = http::Request::get("/admin/v1/calls").body(substrate::body::empty()).unwrap();
    let response = substrate::body::call(b.service.clone(), request).await.unwrap();
    let body = substrate::body::collect(response.into_body(), 16 << 20).await.unwrap();
    let reported: serde_json::Value = serde_json::from_slice(&body).unwrap();
    reported["calls"].as_array().unwrap().clone()
}

/// Returns the RPCs called on the driver with their codes, oldest first.
pub async fn calls(b: &Bench) -> Vec<(String, String)> {
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    log(b).await.iter().map(|c| (text(&c["rpc"]), text(&c["code"]))).collect()
}

/// Returns the number of calls of an RPC.
pub async fn count(b: &Bench, rpc: &str) -> usize {
    calls(b).await.iter().filter(|(name, _)| name == rpc).count()
}

/// Runs a test with a driver that has all capabilities.
pub fn driver<F: Future<Output = ()>>(test: impl FnOnce(Bench) -> F) {
    once(false, Capabilities::all(), test);
}

/// Makes the next call of `rpc` end with `effect` at `at`.
pub fn hook(b: &Bench, rpc: &str, at: Moment, effect: Effect) {
    let fault = Fault {
        name: format!("{rpc}-{}", b.world.faults().list().len()),
        matches: Match { plane: Plane::Csi, op: Some(rpc.into()), attributes: Default::default() },
        when: When { first: Some(1), ..When::default() },
        effect,
        at,
        lease: Lease::default(),
    };
    b.world.faults().add(b.world.clock().mono(), fault).unwrap();
}

#[test]
fn the_log_holds_what_was_asked_and_what_was_answered() {
    driver(async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        hook(&b, "NodeStageVolume", Moment::Before, Effect::Grpc("ABORTED".into()));
        let request = b.stage_request(&volume);
        let secrets = [("key".to_owned(), "a word".to_owned())].into();
        b.node().node_stage_volume(NodeStageVolumeRequest { secrets, ..request.clone() }).await.unwrap_err();
        let log = log(&b).await;
        let [created, attached, staged] = &log[..] else { panic!("three calls: {log:?}") };
        assert_eq!(created["request"]["name"], "v");
        assert_eq!(created["request"]["volume_capabilities"][0]["access_mode"]["mode"], "SINGLE_NODE_WRITER");
        assert_eq!(created["result"]["volume"]["volume_id"], volume.as_str());
        assert!(attached["result"]["publish_context"]["devicePath"].is_string());
        assert_eq!(staged["request"]["staging_target_path"], request.staging_target_path);
        assert_eq!(staged["request"]["secrets"]["key"], "***stripped***");
        assert!(staged.get("result").is_none() && !staged.to_string().contains("a word"));
    });
}

#[test]
fn calls_are_recorded_in_their_order_with_what_became_of_them() {
    driver(async |b| {
        hook(&b, "NodeStageVolume", Moment::Before, Effect::Grpc("INVALID_ARGUMENT".into()));
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        b.node().node_stage_volume(b.stage_request(&volume)).await.unwrap_err();
        b.stage(&volume).await;
        b.publish(&volume).await;
        b.gone(&volume).await;
        let seen = calls(&b).await;
        let seen: Vec<_> = seen.iter().map(|(rpc, code)| (&**rpc, &**code)).collect();
        assert_eq!(
            seen,
            [
                ("CreateVolume", "OK"),
                ("ControllerPublishVolume", "OK"),
                ("NodeStageVolume", "INVALID_ARGUMENT"),
                ("NodeStageVolume", "OK"),
                ("NodePublishVolume", "OK"),
                ("NodeUnpublishVolume", "OK"),
                ("NodeUnstageVolume", "OK"),
                ("ControllerUnpublishVolume", "OK"),
                ("DeleteVolume", "OK"),
            ]
        );
    });
}
