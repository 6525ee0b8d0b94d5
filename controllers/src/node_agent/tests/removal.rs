//! A failed removal fails the operation, which is retried: no directory is left.

use super::*;

/// Runs and deletes a pod while the `first` removals at `path` fail. Checks how often each operation failed and was
/// repeated.
fn left_behind(op: &'static str, path: &'static str, failed: usize, unpublished: usize, unstaged: usize) {
    in_simulation(async |world| {
        let fault = json!({
            "name": "f", "match": { "plane": "disk", "op": op, "where": { "path": path, "process": "node-a/kubelet" } },
            "when": { "first": 2 }, "effect": { "io_error": "EIO" },
        });
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(world.clock().mono(), substrate::json::from_value(fault).expect("a fault")).expect("added");
        rig.delete_gracefully("p");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.faults().get("f").map(|report| report.hits), Some(2), "{op} {path}");
        let calls = |rpc: &str| rig.calls(rpc);
        assert_eq!(
            (rig.count("node-agent.operation-failed"), calls("NodeUnpublishVolume"), calls("NodeUnstageVolume")),
            (failed, unpublished, unstaged),
            "{op} {path}\n{}",
            rig.tail()
        );
        assert!(rig.toy.get("pods", "default", "p").is_null() && rig.node()["status"]["volumesInUse"].is_null());
        for dir in ["/var/lib/kubelet/pods", "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com"] {
            let left = rig.disk.list_dir(dir.as_ref()).await.expect("a listing").unwrap_or_default();
            assert!(left.is_empty(), "{op} {path}: {dir}: {left:?}");
        }
    });
}

const STAGING: &str = "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/*";
const POD: &str = "/var/lib/kubelet/pods/*";

#[test]
fn a_target_that_cannot_be_removed_is_unpublished_again() {
    left_behind("remove_dir", POD, 2, 3, 1);
    left_behind("remove_file", POD, 2, 3, 1);
}

#[test]
fn a_staging_path_that_cannot_be_removed_is_unstaged_again() {
    left_behind("remove_dir", STAGING, 2, 1, 3);
    left_behind("remove_file", STAGING, 2, 1, 3);
}

#[test]
fn a_pod_directory_that_cannot_be_removed_blocks_nothing_and_is_removed_later() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let uid = rig.toy.get("pods", "default", "p")["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let fault = json!({
            "name": "f", "match": {
                "plane": "disk", "op": "remove_dir", "where": { "path": format!("/var/lib/kubelet/pods/{uid}/volumes") },
            },
            "effect": { "io_error": "EIO" },
        });
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(world.clock().mono(), substrate::json::from_value(fault).expect("a fault")).expect("added");
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let pods = async || rig.disk.list_dir("/var/lib/kubelet/pods".as_ref()).await.expect("a listing");
        assert_eq!(pods().await, Some(vec![uid]));
        assert!(world.faults().remove("f").is_some_and(|report| report.hits >= 5));
        tokio::time::sleep(HOUSEKEEPING).await;
        assert_eq!(pods().await, Some(vec![]));
    });
}

/// Upstream's housekeeping interval.
const HOUSEKEEPING: Duration = Duration::from_secs(2);
