//! Measures the driver's figures: `cargo bench -p csi-mock`. No test depends on the time.
//!
//! Each is the median of several runs, with minimum and maximum, beside its bound. Figures of real devices need root.

#![expect(clippy::disallowed_methods, reason = "a bench measures wall time")]
#![expect(clippy::unwrap_used, reason = "a bench ends where it goes wrong")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_disk::{Disk, MemoryDisks, Plug, Publish, Stage};
use csi_mock::node::{self, NodeConfig};
use csi_proto::Channel;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::csi::*;
use substrate::process::Process;
use substrate::world::{Options, World};
use substrate::{Ctx, HttpService};

const VOLUME: &str = "vol-0123456789abcdef0";

/// Prints the median of `runs` beside its bound; `above` if more is better.
fn report(name: &str, unit: &str, bound: f64, above: bool, mut runs: Vec<f64>) {
    runs.sort_by(f64::total_cmp);
    let (median, min, max) = (runs[runs.len() / 2], runs[0], runs[runs.len() - 1]);
    let met = if above { median >= bound } else { median <= bound };
    let (sign, met) = (if above { "at least" } else { "at most" }, if met { "met" } else { "MISSED" });
    println!("{name:<66} {median:>10.2} {unit}  [{min:.2} … {max:.2}, n={}]  {sign} {bound} {met}", runs.len());
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn plug(volume: &str, device: &str) -> Plug {
    Plug { volume: volume.into(), device: device.into(), file: format!("{volume}.img"), size_bytes: 1 << 30 }
}

fn capability() -> Option<VolumeCapability> {
    let mount = MountVolume { fs_type: "ext4".into(), ..Default::default() };
    let mode = AccessMode { mode: Mode::SingleNodeWriter.into() };
    Some(VolumeCapability { access_mode: Some(mode), access_type: Some(AccessType::Mount(mount)) })
}

fn stage(volume: &str, root: &Path) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: volume.into(),
        staging_target_path: root.join("staging").join(volume).display().to_string(),
        volume_capability: capability(),
        ..Default::default()
    }
}

/// Runs stage, publish, unpublish and unstage through the service.
async fn cycle(service: &HttpService, volume: &str, root: &Path) {
    let mut node = NodeClient::new(Channel(service.clone()));
    let request = stage(volume, root);
    let staging_target_path = request.staging_target_path.clone();
    node.node_stage_volume(request).await.unwrap();
    let target_path = root.join("pods").join(volume).display().to_string();
    let request = NodePublishVolumeRequest {
        volume_id: volume.into(),
        staging_target_path: staging_target_path.clone(),
        target_path: target_path.clone(),
        volume_capability: capability(),
        ..Default::default()
    };
    node.node_publish_volume(request).await.unwrap();
    let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path };
    node.node_unpublish_volume(request).await.unwrap();
    let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path };
    node.node_unstage_volume(request).await.unwrap();
}

fn process(world: &World) -> (Process, Ctx) {
    let process = Process::start(world, "bench", |_| std::future::pending());
    let ctx = process.ctx().unwrap();
    (process, ctx)
}

async fn memory() -> (Arc<dyn Disk>, MemoryDisks) {
    let disks = MemoryDisks::new();
    let disk = disks.node("node-a");
    disk.plug(&plug(VOLUME, "/dev/xvdaa")).await.unwrap();
    disk.make_dir(Path::new("/pods")).await.unwrap();
    (disk, disks)
}

async fn memory_alone() -> Vec<f64> {
    const CYCLES: u32 = 20_000;
    let (disk, _disks) = memory().await;
    let (staging, target) = (Path::new("/staging/v"), Path::new("/pods/v"));
    let stage = Stage { volume: VOLUME.into(), path: staging.into(), fs_type: "ext4".into(), ..Stage::default() };
    let publish =
        Publish { volume: VOLUME.into(), staging_path: staging.into(), path: target.into(), ..Publish::default() };
    let mut runs = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        for _ in 0..CYCLES {
            disk.stage(&stage).await.unwrap();
            disk.publish(&publish).await.unwrap();
            disk.unpublish(VOLUME, target).await.unwrap();
            disk.unstage(VOLUME, staging).await.unwrap();
        }
        runs.push(f64::from(CYCLES) / began.elapsed().as_secs_f64());
    }
    runs
}

async fn memory_service() -> Vec<f64> {
    const CYCLES: u32 = 2_000;
    let (disk, _disks) = memory().await;
    let world = World::live(Options::default());
    let (_process, ctx) = process(&world);
    let service = node::start(&ctx, NodeConfig::new("node-a", "i-1", "us-east-1a", disk));
    let mut runs = Vec::new();
    for _ in 0..7 {
        let began = Instant::now();
        for _ in 0..CYCLES {
            cycle(&service, VOLUME, Path::new("/")).await;
        }
        runs.push(f64::from(CYCLES) / began.elapsed().as_secs_f64());
    }
    runs
}

/// Returns the resident size of the driver's program after some calls, in MB.
fn resident() -> Vec<f64> {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_csi-mock"))
        .args(["--mode", "node", "--backend", "directory", "--node-id", "i-0123456789abcdef0"])
        .args(["--endpoint", &at("csi.sock"), "--ready-file", &at("ready"), "--root", &at("root")])
        .args(["--volume-dir", &at("volumes"), "--ec2-endpoint", "http://127.0.0.1:1"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !dir.path().join("ready").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut node = NodeClient::new(Channel(substrate::dial::unix(dir.path().join("csi.sock"))));
        for _ in 0..1000 {
            node.node_get_info(NodeGetInfoRequest {}).await.unwrap();
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap_or_default();
    let kib =
        status.lines().find_map(|l| l.strip_prefix("VmRSS:")).map(|l| l.trim().trim_end_matches(" kB").to_owned());
    program.kill().unwrap();
    program.wait().unwrap();
    kib.and_then(|k| k.parse::<f64>().ok()).map(|k| k / 1024.0).into_iter().collect()
}

#[cfg(target_os = "linux")]
mod devices {
    use super::*;
    use csi_disk::LoopDisk;

    const RUNS: usize = 15;

    fn file(volumes: &Path, volume: &str) {
        let file = std::fs::File::create(volumes.join(format!("{volume}.img"))).unwrap();
        file.set_len(1 << 30).unwrap();
    }

    /// Returns the time that mkfs and the kernel's mounts and unmounts of one cycle take alone, on an empty device.
    fn by_hand(device: &Path, dir: &Path) -> f64 {
        use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
        let [staged, published] = ["staged", "published"].map(|name| dir.join(name));
        for path in [&staged, &published] {
            std::fs::create_dir_all(path).unwrap();
        }
        let began = Instant::now();
        let arguments = ["-q", "-F", "-m0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"];
        assert!(std::process::Command::new("mkfs.ext4").args(arguments).arg(device).status().unwrap().success());
        mount(device, &staged, "ext4", MountFlags::empty(), None).unwrap();
        mount_bind(&staged, &published).unwrap();
        for path in [&published, &staged] {
            unmount(path, UnmountFlags::empty()).unwrap();
        }
        millis(began)
    }

    pub fn all() {
        if let Err(missing) = csi_disk::capability().loop_backend {
            return println!("loop devices: not measured here: {missing}");
        }
        csi_disk::private_mounts().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let (root, volumes) = (dir.path().join("node"), dir.path().join("volumes"));
            std::fs::create_dir(&volumes).unwrap();
            let run = format!("bench-{}", std::process::id());
            let disk: Arc<dyn Disk> = Arc::new(LoopDisk::new("node-a", &root, &volumes, &run).unwrap());
            disk.make_dir(&root.join("pods")).await.unwrap();
            let world = World::live(Options::default());
            let (_process, ctx) = process(&world);
            let service = node::start(&ctx, NodeConfig::new("node-a", "i-1", "us-east-1a", disk.clone()));
            let (mut whole, mut rest, mut warm) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..RUNS {
                file(&volumes, VOLUME);
                disk.plug(&plug(VOLUME, "/dev/xvdaa")).await.unwrap();
                let began = Instant::now();
                cycle(&service, VOLUME, &root).await;
                whole.push(millis(began));
                let began = Instant::now();
                cycle(&service, VOLUME, &root).await;
                warm.push(millis(began));
                disk.unplug(VOLUME, false).await.unwrap();
                std::fs::remove_file(volumes.join(format!("{VOLUME}.img"))).unwrap();
                file(&volumes, VOLUME);
                let device = disk.plug(&plug(VOLUME, "/dev/xvdaa")).await.unwrap();
                rest.push(whole[whole.len() - 1] - by_hand(Path::new(&device.path), dir.path()));
                disk.unplug(VOLUME, false).await.unwrap();
                std::fs::remove_file(volumes.join(format!("{VOLUME}.img"))).unwrap();
            }
            report("loop, ext4: stage, publish, unpublish, unstage of a new volume", "ms", 60.0, false, whole);
            report("the same minus mkfs, mount and unmount of such a device by hand", "ms", 10.0, false, rest);
            report("the same of a volume that has its filesystem", "ms", 60.0, false, warm);

            let socket = dir.path().join("csi.sock");
            substrate::listen::unix(&ctx, &socket, service.clone()).unwrap();
            file(&volumes, VOLUME);
            disk.plug(&plug(VOLUME, "/dev/xvdaa")).await.unwrap();
            let mut node = NodeClient::new(Channel(substrate::dial::unix(&socket)));
            node.node_stage_volume(stage(VOLUME, &root)).await.unwrap();
            let mut again = Vec::new();
            for _ in 0..500 {
                let began = Instant::now();
                node.node_stage_volume(stage(VOLUME, &root)).await.unwrap();
                again.push(millis(began));
            }
            report("NodeStageVolume of a staged volume, over the socket", "ms", 0.2, false, again);
            disk.crash().await.unwrap();

            let ids: Vec<String> = (0..100).map(|n| format!("vol-{n:017x}")).collect();
            for (n, id) in ids.iter().enumerate() {
                file(&volumes, id);
                disk.plug(&plug(id, &format!("/dev/xvd{n}"))).await.unwrap();
            }
            let began = Instant::now();
            let (done, mut all) = tokio::sync::mpsc::unbounded_channel();
            for id in ids.clone() {
                let (service, root, done) = (service.clone(), root.clone(), done.clone());
                ctx.spawn(async move {
                    cycle(&service, &id, &root).await;
                    done.send(()).unwrap();
                });
            }
            drop(done);
            let mut count = 0;
            while all.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, ids.len());
            report("100 volumes at once", "s", 8.0, false, vec![began.elapsed().as_secs_f64()]);
            disk.crash().await.unwrap();
        });
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    devices::all();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    report("memory disk alone, cycles a second", "/s", 200_000.0, true, runtime.block_on(memory_alone()));
    report("memory disk through the service in process", "/s", 5_000.0, true, runtime.block_on(memory_service()));
    let sizes = resident();
    if !sizes.is_empty() {
        report("resident size of the driver's program", "MB", 12.0, false, sizes);
    }
}
