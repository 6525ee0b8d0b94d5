//! Volumes that grow, with the real driver.

use super::*;

/// Sets the volume's size in both objects.
pub(super) fn sizes(rig: &Rig, volume: &str, claim: &str) {
    rig.toy.patch("persistentvolumes", "", "pv-1", &json!({ "spec": { "capacity": { "storage": volume } } }));
    let capacity = json!({ "status": { "capacity": { "storage": claim } } });
    rig.toy.patch("persistentvolumeclaims", "default", "data", &capacity);
}

/// Sets the claim's status as the resizer does when the node has to finish the expansion.
pub(super) fn pending(rig: &Rig) {
    let pending = json!({ "status": {
        "allocatedResourceStatuses": { "storage": "NodeResizePending" },
        "conditions": [{ "type": "FileSystemResizePending", "status": "True" }],
    } });
    rig.toy.patch("persistentvolumeclaims", "default", "data", &pending);
}

fn claim(rig: &Rig) -> Value {
    rig.toy.get("persistentvolumeclaims", "default", "data")["status"].clone()
}

pub(super) fn grown(rig: &Rig) -> bool {
    claim(rig)["capacity"]["storage"] == "2Gi"
}

#[test]
fn a_filesystem_grows_under_a_running_pod_and_the_claim_learns_it() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.plug().await;
        rig.claim_and_pod("p");
        sizes(&rig, "1Gi", "1Gi");
        rig.until("volumesInUse", 11, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        assert_eq!(rig.count("disk.expanded"), 0);
        rig.disk.resize("vol-1", 2 << 30).await.expect("resized");
        sizes(&rig, "2Gi", "1Gi");
        pending(&rig);
        // kubelet syncs its pods every 60 to 90 s.
        rig.until("grown", 91, || grown(&rig)).await;
        assert_eq!(
            (&claim(&rig)["conditions"], &claim(&rig)["allocatedResourceStatuses"]),
            (&Value::Null, &Value::Null)
        );
        let reported = "FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume \"pv-1\" node-a";
        rig.until("events", 2, || rig.toy.events().iter().filter(|e| *e == reported).count() == 2).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(rig.count("disk.expanded"), 1, "and that once");
    });
}

#[test]
fn a_filesystem_that_lags_behind_its_volume_grows_once_it_is_published() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.plug().await;
        rig.disk.resize("vol-1", 2 << 30).await.expect("resized");
        rig.claim_and_pod("p");
        sizes(&rig, "2Gi", "1Gi");
        pending(&rig);
        rig.until("volumesInUse", 11, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        assert!(grown(&rig));
        let kinds = rig.kinds();
        let order = ["disk.staged", "disk.published", "disk.expanded"].map(|k| kinds.iter().position(|have| have == k));
        assert!(order.is_sorted() && order[0].is_some(), "{kinds:?}");
    });
}

#[test]
fn a_size_that_the_device_does_not_have_is_infeasible() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.plug().await;
        rig.claim_and_pod("p");
        sizes(&rig, "1Gi", "1Gi");
        rig.until("volumesInUse", 11, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        sizes(&rig, "2Gi", "1Gi");
        pending(&rig);
        let infeasible = || claim(&rig)["allocatedResourceStatuses"]["storage"] == "NodeResizeInfeasible";
        rig.until("infeasible", 91, infeasible).await;
        let error = claim(&rig)["conditions"].as_array().cloned().unwrap_or_default();
        assert!(error.iter().any(|c| c["type"] == "NodeResizeError"), "{error:?}");
        rig.until("events", 2, || rig.toy.events().iter().any(|e| e.starts_with("VolumeResizeFailed "))).await;
        assert_eq!(rig.pod_phase("p"), "Running");
    });
}
