//! Statistics of volumes at the node's server, with the real driver.

use csi_mock::capabilities::Feature;
use substrate::Ctx;
use substrate::body::collect;

use super::logs::{ask, reader};
use super::*;

const GIB: f64 = 1_073_741_824.0;

/// Reads a page of the node's server.
pub(super) async fn page(ctx: &Ctx, path: &str) -> String {
    let response = ask(ctx, path, false).await;
    assert_eq!(response.status().as_u16(), 200, "{path}");
    let bytes = collect(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Finds the value of a volume metric of the claim `data`.
pub(super) fn value(metrics: &str, name: &str) -> Option<f64> {
    let sample = format!("kubelet_volume_stats_{name}{{namespace=\"default\",persistentvolumeclaim=\"data\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&sample)).map(|number| number.parse().expect("a number"))
}

const STATS: &str = "NodeGetVolumeStats";

#[test]
fn a_claim_has_metrics_and_the_driver_is_asked_only_for_a_reader_and_once_a_minute() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(rig.calls(STATS), 0, "the metrics were not read");
        let metrics = page(&ctx, "/metrics").await;
        let of = |name: &str| value(&metrics, name).unwrap_or_else(|| panic!("no {name} in\n{metrics}"));
        let sum = |one: &str, other: &str| of(one) + of(other);
        assert_eq!((of("capacity_bytes"), of("inodes")), (GIB, GIB / 16384.0));
        assert!(of("used_bytes") > 0.0 && of("inodes_used") > 0.0, "{metrics}");
        assert!((sum("used_bytes", "available_bytes") - GIB).abs() < 1.0, "{metrics}");
        assert!((sum("inodes_used", "inodes_free") - of("inodes")).abs() < 1.0, "{metrics}");
        assert_eq!(value(&metrics, "health_status_abnormal"), None, "the driver reports no conditions");
        assert!(metrics.contains("method_name=\"/csi.v1.Node/NodeGetVolumeStats\""), "{metrics}");
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(value(&page(&ctx, "/metrics").await, "used_bytes"), Some(of("used_bytes")), "kept");
        assert_eq!(rig.calls(STATS), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        page(&ctx, "/metrics").await;
        assert_eq!(rig.calls(STATS), 2);
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        assert_eq!(value(&page(&ctx, "/metrics").await, "capacity_bytes"), None);
    });
}

#[test]
fn a_driver_without_the_capability_is_not_asked() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.settings.offer(rig.settings.capabilities().without(Feature::GetVolumeStats));
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        assert_eq!(value(&page(&ctx, "/metrics").await, "capacity_bytes"), None);
        assert_eq!(rig.calls(STATS), 0);
    });
}

#[test]
fn the_condition_of_a_volume_is_shown_if_the_driver_reports_it() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.settings.offer(rig.settings.capabilities().with(Feature::NodeVolumeCondition));
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        assert_eq!(value(&page(&ctx, "/metrics").await, "health_status_abnormal"), Some(0.0));
    });
}

#[test]
fn a_slow_driver_holds_up_a_reader_for_five_seconds() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let slow = json!({
            "name": "slow", "match": { "plane": "csi", "op": STATS }, "effect": { "delay": "30s" }, "at": "before",
        });
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(Duration::ZERO, substrate::json::from_value(slow).expect("a fault")).expect("added");
        let begun = world.clock().mono();
        let metrics = page(&ctx, "/metrics").await;
        assert_eq!((world.clock().mono() - begun).as_secs(), 5);
        assert_eq!(value(&metrics, "capacity_bytes"), None);
        assert!(metrics.contains("volume_manager_total_volumes"), "{metrics}");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(value(&page(&ctx, "/metrics").await, "capacity_bytes"), Some(GIB), "the call has gone on");
    });
}

#[test]
fn the_summary_has_running_pods_with_their_volumes() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        let summary = async |query: &str| -> Value {
            let text = page(&ctx, &format!("/stats/summary{query}")).await;
            serde_json::from_str(&text).expect("JSON")
        };
        let node = json!({ "nodeName": "node-a", "startTime": null });
        assert_eq!(summary("").await, json!({ "node": node, "pods": [] }));
        rig.run_pod("p").await;
        let started = "\ncontainer_start_time_seconds{container=\"app\",namespace=\"default\",pod=\"p\"} ";
        let resources = page(&ctx, "/metrics/resource").await;
        assert!(resources.contains(started) && resources.ends_with("\nresource_scrape_error 0\n"), "{resources}");
        let all = summary("").await;
        let pod = &all["pods"][0];
        assert_eq!(pod["podRef"], json!({ "name": "p", "namespace": "default", "uid": "uid-of-p" }));
        assert_eq!(pod["containers"][0]["name"], "app");
        let volume = &pod["volume"][0];
        assert_eq!((&volume["name"], &volume["capacityBytes"]), (&json!("data"), &json!(1 << 30)));
        assert_eq!(volume["pvcRef"], json!({ "name": "data", "namespace": "default" }));
        for time in [&pod["startTime"], &pod["containers"][0]["startTime"], &volume["time"]] {
            let time = time.as_str().unwrap_or_default();
            assert!(time.parse::<jiff::Timestamp>().is_ok() && !time.contains('.'), "{all}");
        }
        assert_eq!(volume["volumeHealthStats"], Value::Null);
        let less = summary("?only_cpu_and_memory=true").await;
        assert_eq!((&less["pods"][0]["podRef"], &less["pods"][0]["volume"]), (&pod["podRef"], &Value::Null));
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        assert_eq!(summary("").await["pods"], json!([]));
    });
}
