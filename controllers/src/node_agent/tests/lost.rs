//! `vol_data.json` of a pod's volume is lost while the kubelet is down.

use std::path::PathBuf;

use super::*;

impl Rig {
    fn volume_dir(pod: &str) -> PathBuf {
        format!("/var/lib/kubelet/pods/uid-of-{pod}/volumes/kubernetes.io~csi/pv-1").into()
    }

    async fn lose_metadata(&self, pod: &str) {
        let file = Self::volume_dir(pod).join(names::VOL_DATA);
        self.disk.remove_file(&file).await.expect("removed");
    }

    fn failures(&self) -> Vec<String> {
        let events = self.world.trace().events();
        events.iter().filter_map(|e| e.get::<events::OperationFailed>()).map(|e| e.error.clone()).collect()
    }
}

#[test]
fn the_volume_of_a_running_pod_is_republished_with_its_metadata() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.kubelet.crash();
        rig.lose_metadata("p").await;
        rig.node.kubelet.restart();
        rig.until("mounted", 30, || rig.count("node-agent.mounted") == 2).await;
        assert_eq!((rig.count("workload.started"), rig.count("disk.unpublished")), (1, 0), "{}", rig.tail());
        assert!(rig.disk.read(&Rig::volume_dir("p").join(names::VOL_DATA)).await.expect("a file").is_some());
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
    });
}

#[test]
fn a_pod_whose_mount_cannot_be_removed_stays_until_an_admin_removes_it() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.kubelet.crash();
        rig.node.machine.crash();
        rig.lose_metadata("p").await;
        rig.delete_gracefully("p");
        rig.node.machine.restart();
        rig.node.kubelet.restart();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let reported = rig.failures();
        let text = "UnmountVolume.NewUnmounter failed for volume \"pv-1\" : kubernetes.io/csi: unmounter failed to load \
                    volume data file [/var/lib/kubelet/pods/uid-of-p/volumes/kubernetes.io~csi/pv-1/mount]";
        assert_eq!(reported.iter().filter(|error| error.starts_with(text)).count(), 1, "{reported:?}");
        assert!(!rig.toy.get("pods", "default", "p").is_null(), "something is mounted for the pod");
        rig.disk.unpublish("vol-1", &Rig::volume_dir("p").join("mount")).await.expect("unpublished");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
    });
}

#[test]
fn directories_without_metadata_of_a_pod_that_is_gone_go_when_nothing_is_mounted_there() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        rig.node.crash();
        rig.disk.crash().await.expect("crashed");
        rig.lose_metadata("p").await;
        rig.toy.delete("pods", "default", "p");
        rig.node.restart();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let left = rig.disk.list_dir("/var/lib/kubelet/pods".as_ref()).await.expect("a listing");
        assert_eq!(left.unwrap_or_default(), Vec::<String>::new(), "{}", rig.tail());
    });
}

#[test]
fn a_running_kubelet_cannot_unmount_a_volume_whose_metadata_is_lost() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let file = Rig::volume_dir("p").join(names::VOL_DATA);
        let data = rig.disk.read(&file).await.expect("a file").expect("metadata");
        rig.lose_metadata("p").await;
        rig.delete_gracefully("p");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let text = "UnmountVolume.NewUnmounter failed for volume \"pv-1\" : kubernetes.io/csi: unmounter failed to load \
                    volume data file [/var/lib/kubelet/pods/uid-of-p/volumes/kubernetes.io~csi/pv-1/mount]: \
                    kubernetes.io/csi: failed to open volume data file ";
        assert!(rig.failures().iter().all(|error| error.starts_with(text)), "{:?}", rig.failures());
        assert!(!rig.failures().is_empty() && rig.in_use() && rig.calls("NodeUnpublishVolume") == 0);
        rig.disk.write(&file, &data).await.expect("written");
        rig.until("deleted", 180, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("unstaged", 3, || rig.count("disk.unstaged") == 1).await;
    });
}

#[test]
fn a_volume_without_metadata_beside_its_staging_path_stays_staged() {
    in_simulation(async |world| {
        let rig = Rig::new(&world, &MemoryDisks::new());
        rig.until("ready", 1, || rig.ready()).await;
        rig.run_pod("p").await;
        let staged = rig.disk.mounts().await.expect("mounts").into_iter().find(|m| m.path.ends_with("globalmount"));
        let file = staged.expect("it is staged").path.with_file_name(names::VOL_DATA);
        rig.disk.remove_file(&file).await.expect("removed");
        rig.delete_gracefully("p");
        rig.until("deleted", 3, || rig.toy.get("pods", "default", "p").is_null()).await;
        rig.until("not in use", 11, || rig.node()["status"]["volumesInUse"].is_null()).await;
        assert_eq!((rig.calls("NodeUnstageVolume"), rig.failures()), (0, Vec::new()));
        assert_eq!(rig.disk.mounts().await.expect("mounts").len(), 1);
    });
}
