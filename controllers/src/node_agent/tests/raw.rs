//! Pods with raw devices, with the real driver.

use super::*;

const CSI: &str = "/var/lib/kubelet/plugins/kubernetes.io/csi";

impl Rig {
    /// Like [`Rig::claim_and_pod`], with the volume as a raw device.
    fn raw_claim_and_pod(&self, pod: &str) {
        self.claim_and_pod(pod);
        let block = json!({ "spec": { "volumeMode": "Block" } });
        self.toy.patch("persistentvolumes", "", "pv-1", &block);
        self.toy.patch("persistentvolumeclaims", "default", "data", &block);
        let mut object = self.toy.get("pods", "default", pod);
        object["spec"]["containers"] = json!([{
            "name": "app", "image": "busybox", "volumeDevices": [{ "name": "data", "devicePath": "/dev/data" }],
        }]);
        // A new uid makes it another pod: kubelet acts on a pod as it first sees it.
        object["metadata"]["uid"] = json!(format!("uid-of-raw-{pod}"));
        self.toy.delete("pods", "default", pod);
        self.toy.put("pods", "default", object);
    }

    async fn run_raw_pod(&self, pod: &str) {
        self.plug().await;
        self.raw_claim_and_pod(pod);
        self.until("volumesInUse", 30, || self.in_use()).await;
        self.attach();
        self.until("running", 5, || self.pod_phase(pod) == "Running").await;
    }

    /// Lists a directory of the node.
    async fn below(&self, dir: &str) -> Vec<String> {
        self.disk.list_dir(dir.as_ref()).await.expect("a listing").unwrap_or_default()
    }

    async fn paths(&self) -> Vec<String> {
        let mounts = self.disk.mounts().await.expect("mounts");
        mounts.iter().map(|m| m.path.display().to_string()).collect()
    }
}

fn records(disks: &MemoryDisks) -> u64 {
    let mut reader = crate::machine::slots::Reader::default();
    reader.feed(&disks.durable("vol-1", "").unwrap_or_default()).expect("intact records");
    reader.chain().last
}

#[test]
fn a_pod_gets_a_raw_device_writes_to_it_and_leaves_nothing_behind() {
    in_simulation(async |world| {
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.until("records", 15, || rig.count("workload.synced") == 10).await;
        let uid = rig.toy.get("pods", "default", "p")["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let (bind, target) =
            (format!("{CSI}/volumeDevices/pv-1/dev/{uid}"), format!("{CSI}/volumeDevices/publish/pv-1/{uid}"));
        assert_eq!(rig.paths().await, [target, bind]);
        let links = format!("/var/lib/kubelet/pods/{uid}/volumeDevices/kubernetes.io~csi");
        assert_eq!(rig.below(&links).await, ["pv-1"]);
        assert_eq!(rig.below(&format!("{CSI}/volumeDevices/staging")).await, ["pv-1"]);
        assert_eq!(records(&disks), 10);
        for message in
            [format!(r#"globalMapPath "{CSI}/volumeDevices/pv-1/dev""#), format!(r#"volumeMapPath "{links}""#)]
        {
            let event = format!("SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume \"pv-1\" {message}");
            assert!(rig.toy.events().contains(&event), "{event} is not in {:#?}", rig.toy.events());
        }
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        assert_eq!(
            rig.kinds(),
            [
                "disk.staged",
                "disk.published",
                "node-agent.mounted",
                "workload.started",
                "workload.stopped",
                "disk.unpublished",
                "node-agent.unmounted",
                "disk.unstaged",
            ]
        );
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert_eq!(rig.paths().await, Vec::<String>::new());
        assert!(!disks.is_held("vol-1"));
        for dir in [
            "/var/lib/kubelet/pods".to_owned(),
            format!("{CSI}/volumeDevices/staging"),
            format!("{CSI}/volumeDevices/publish"),
            format!("{CSI}/volumeDevices/pv-1"),
        ] {
            assert_eq!(rig.below(&dir).await, Vec::<String>::new(), "{dir}");
        }
    });
}

#[test]
fn a_restarted_agent_opens_the_devices_of_its_pods_again() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.until("records", 10, || rig.count("workload.synced") == 3).await;
        rig.node.crash();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = rig.paths().await;
        assert_eq!(before.len(), 2, "mounts outlive processes");
        rig.node.restart();
        rig.until("second start", 15, || rig.count("workload.started") == 2).await;
        assert_eq!(rig.found(), Some((3, true)));
        rig.until("more records", 10, || rig.count("workload.synced") >= 5).await;
        assert_eq!(rig.paths().await, before);
        rig.delete_gracefully("p");
        rig.until("deleted", 2, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert_eq!(rig.paths().await, Vec::<String>::new());
    });
}

#[test]
fn a_restarted_agent_takes_down_the_device_of_a_pod_that_is_gone() {
    in_simulation(async |world| {
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.node.crash();
        rig.toy.delete("pods", "default", "p");
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.node.restart();
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert_eq!(rig.paths().await, Vec::<String>::new());
        assert_eq!(rig.below("/var/lib/kubelet/pods").await, Vec::<String>::new());
        assert!(!disks.is_held("vol-1"));
    });
}

#[test]
fn a_stage_that_fails_keeps_the_record_of_a_device_that_a_pod_has() {
    in_simulation(async |world| {
        let fault = json!({
            "name": "f", "match": { "plane": "csi", "op": "NodeStageVolume" }, "effect": { "grpc": "INTERNAL" },
        });
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.node.crash();
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(Duration::ZERO, substrate::json::from_value(fault).expect("a fault")).expect("added");
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.node.restart();
        rig.until("failed", 30, || rig.count("node-agent.operation-failed") > 0).await;
        assert_eq!(rig.below(&format!("{CSI}/volumeDevices/pv-1/data")).await, ["vol_data.json"]);
        rig.node.crash();
        rig.toy.delete("pods", "default", "p");
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.node.restart();
        rig.until("not in use", 30, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert_eq!(rig.below("/var/lib/kubelet/pods").await, Vec::<String>::new());
        assert_eq!(rig.below(&format!("{CSI}/volumeDevices/pv-1")).await, Vec::<String>::new());
    });
}

#[test]
fn a_power_loss_costs_a_raw_device_exactly_what_was_not_synced() {
    in_simulation(async |world| {
        let disks = MemoryDisks::new();
        let rig = Rig::new(&world, &disks);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.until("records", 10, || rig.count("workload.synced") == 3).await;
        rig.node.crash();
        rig.disk.crash().await.expect("crashed");
        assert_eq!(records(&disks), 3);
        tokio::time::sleep(Duration::from_secs(20)).await;
        rig.plug().await;
        rig.node.restart();
        rig.until("second start", 15, || rig.count("workload.started") == 2).await;
        assert_eq!(rig.found(), Some((3, true)));
    });
}

#[test]
fn a_device_that_is_pulled_fails_the_workload_and_is_still_taken_down() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        rig.until("records", 10, || rig.count("workload.synced") == 2).await;
        assert!(rig.disk.unplug("vol-1", true).await.expect("pulled"));
        rig.until("failed", 5, || rig.count("workload.failed") == 1).await;
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
        assert_eq!(rig.paths().await, Vec::<String>::new());
    });
}

#[test]
fn a_raw_device_grows_under_a_running_pod() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.plug().await;
        rig.raw_claim_and_pod("p");
        growth::sizes(&rig, "1Gi", "1Gi");
        rig.until("volumesInUse", 30, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        rig.disk.resize("vol-1", 2 << 30).await.expect("resized");
        growth::sizes(&rig, "2Gi", "1Gi");
        growth::pending(&rig);
        rig.until("grown", 91, || growth::grown(&rig)).await;
        let expanded = world.trace().lines().into_iter().find(|e| e.kind == "disk.expanded").expect("expanded");
        let path = expanded.str("path").unwrap_or_default().to_owned();
        assert!(path.contains("/volumeDevices/publish/pv-1/"), "kubelet names the published device: {path}");
    });
}

#[test]
fn a_raw_device_that_lags_behind_its_volume_grows_before_the_pod_starts() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.plug().await;
        rig.disk.resize("vol-1", 2 << 30).await.expect("resized");
        rig.raw_claim_and_pod("p");
        growth::sizes(&rig, "2Gi", "1Gi");
        growth::pending(&rig);
        rig.until("volumesInUse", 30, || rig.in_use()).await;
        rig.attach();
        rig.until("running", 5, || rig.pod_phase("p") == "Running").await;
        assert!(growth::grown(&rig));
        let kinds = rig.kinds();
        let order =
            ["disk.published", "disk.expanded", "workload.started"].map(|k| kinds.iter().position(|have| have == k));
        assert!(order.is_sorted() && order[0].is_some(), "{kinds:?}");
    });
}

#[test]
fn a_raw_device_that_a_container_would_mount_is_refused() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.plug().await;
        rig.claim_and_pod("p");
        rig.toy.patch("persistentvolumes", "", "pv-1", &json!({ "spec": { "volumeMode": "Block" } }));
        let refused = "volume data has volumeMode Block, but is specified in volumeMounts";
        rig.until("the event", 2, || rig.toy.events().iter().any(|e| e.ends_with(refused))).await;
    });
}

#[test]
fn a_device_publish_error_is_reported_as_a_failed_map() {
    in_simulation(async |world| {
        let fault = json!({
            "name": "f", "match": { "plane": "csi", "op": "NodePublishVolume" }, "when": { "first": 1 },
            "effect": { "grpc": "INTERNAL" },
        });
        world.faults().declare(csi_mock::faults::OPERATIONS);
        world.faults().add(Duration::ZERO, substrate::json::from_value(fault).expect("a fault")).expect("added");
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        let events = rig.toy.events();
        let failed = "FailedMapVolume MapVolume.MapPodDevice failed for volume \"pv-1\" : rpc error: code = Internal";
        assert!(events.iter().any(|e| e.starts_with(failed)), "{events:#?}");
    });
}

#[test]
fn a_raw_device_has_a_capacity_in_the_metrics_and_no_inodes() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        let ctx = logs::reader(&world);
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        let metrics = volume_stats::page(&ctx, "/metrics").await;
        let of = |name: &str| volume_stats::value(&metrics, name);
        assert_eq!((of("capacity_bytes"), of("inodes")), (Some(1_073_741_824.0), Some(0.0)), "{metrics}");
    });
}

#[test]
fn a_device_whose_metadata_is_lost_stays_mapped() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_raw_pod("p").await;
        let file = format!("{CSI}/volumeDevices/pv-1/data/vol_data.json");
        rig.disk.remove_file(file.as_ref()).await.expect("removed");
        rig.delete_gracefully("p");
        tokio::time::sleep(Duration::from_secs(30)).await;
        let failed = rig
            .world
            .trace()
            .events()
            .into_iter()
            .find_map(|e| e.get::<events::OperationFailed>().map(|e| e.error.clone()));
        let text = format!(
            "UnmapVolume.NewUnmapper failed for volume \"pv-1\" : kubernetes.io/csi: unmapper failed to load volume data \
             file [{CSI}/volumeDevices/pv-1/data]: kubernetes.io/csi: failed to open volume data file [{file}]"
        );
        assert!(failed.as_ref().is_some_and(|error| error.starts_with(&text)), "{failed:?}");
        assert!(rig.in_use() && rig.calls("NodeUnpublishVolume") == 0);
    });
}
