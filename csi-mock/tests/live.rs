//! The driver on real devices: loop devices, filesystems and mounts of the kernel, with the cloud's files behind them.
//!
//! These tests need root, loop devices and mkfs. Without them each prints a line and skips, or fails if
//! `MOORING_REQUIRE` names `root`. Each runs in its own mount namespace and touches only devices of its own run.
//!
//! They are apart from `tests/it/`: until a new child runs its program, it holds the open files of the tests beside it.
//! A mount whose file it holds cannot be unmounted.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]
#![expect(unsafe_code, reason = "unshare gives the test's threads a mount namespace of their own")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_disk::plug::{self, PlugConfig};
use csi_disk::{Disk, LoopDisk, capability};
use csi_mock::capabilities::Capabilities;
use csi_mock::controller::ControllerConfig;
use csi_mock::node::NodeConfig;
use csi_mock::settings::Settings;
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::csi::*;
use mock_ec2::{Config, Ec2, InstanceSpec};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use substrate::process::Process;
use substrate::world::{Options, World};
use substrate::{HttpService, Seed};

const GIB: i64 = 1 << 30;
const RAW: &str = "raw block";

/// Machine of the live world: its disk and the services of its driver.
struct Node {
    id: String,
    root: PathBuf,
    disk: Arc<dyn Disk>,
    service: HttpService,
}

/// Cloud with files and two machines.
struct Live {
    dir: tempfile::TempDir,
    nodes: Vec<Node>,
    run: String,
    cloud: HttpService,
    _processes: Vec<Process>,
    _alone: File,
}

/// Runs a test in the live world, if this machine supports it and has the filesystem; otherwise prints a line.
fn live(name: &str, kind: &'static str, test: impl AsyncFnOnce(Live) + Send + 'static) {
    let found = capability();
    let missing = match found.loop_backend.clone() {
        Ok(()) if kind == RAW || found.filesystems().contains(&kind) => None,
        Ok(()) => Some(format!("mkfs.{kind} is not installed")),
        Err(missing) => Some(missing),
    };
    if let Some(missing) = missing {
        let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
        let needed = if found.loop_backend.is_ok() { kind } else { "root" };
        assert!(!required.split(',').any(|r| r == needed), "MOORING_REQUIRE names {needed}, but {missing}");
        // Not eprintln: the test runner hides captured output of passing tests.
        let _ = writeln!(std::io::stderr(), "SKIPPED live test `{name}` ({kind}): {missing}");
        return;
    }
    let run = format!("live-{}-{}", std::process::id(), name);
    let thread = std::thread::spawn(move || {
        // Loop devices are machine-wide: the lock allows one such test at a time across processes.
        let lock = File::create(std::env::temp_dir().join("mooring-loop-tests.lock")).unwrap();
        lock.lock().unwrap();
        // SAFETY: only the mount namespace (and with it the working directory) of this thread is unshared, no
        // descriptor table. The runtime's threads are its children.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let live = Live::start(&run, lock).await;
            test(live).await;
        });
    });
    thread.join().unwrap();
}

impl Live {
    async fn start(run: &str, alone: File) -> Self {
        let world = World::live(Options::default());
        let dir = tempfile::tempdir().unwrap();
        let volumes = dir.path().join("volumes");
        std::fs::create_dir(&volumes).unwrap();
        let instances = ["a", "b"].map(|n| InstanceSpec::new(n, "us-east-1a")).to_vec();
        let config = Config { instances, volume_dir: Some(volumes.clone()), ..Config::default() };
        let ec2 = Ec2::new(&Seed::root(1), config).unwrap();
        let process = Process::start(&world, "mock-ec2", |_| std::future::pending());
        let cloud = ec2.start(&process.ctx().unwrap());
        let (mut nodes, mut processes) = (Vec::new(), vec![process]);
        for (name, info) in ["a", "b"].into_iter().zip(ec2.instances()) {
            let root = dir.path().join(name);
            let disk: Arc<dyn Disk> = Arc::new(LoopDisk::new(name, &root, &volumes, run).unwrap());
            let process = Process::start(&world, name, |_| std::future::pending());
            let ctx = process.ctx().unwrap();
            ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(cloud.clone(), &info.id, name, disk.clone())));
            let settings = Settings::new(Capabilities::all());
            let controller = ControllerConfig { settings: settings.clone(), ..ControllerConfig::new(cloud.clone()) };
            let node = NodeConfig { settings, ..NodeConfig::new(name, &info.id, "us-east-1a", disk.clone()) };
            let service = csi_mock::start(&ctx, controller, node);
            let root = root.canonicalize().unwrap();
            for made in ["pods/p", "pods/q"] {
                disk.make_dir(&root.join(made)).await.unwrap();
            }
            nodes.push(Node { id: info.id, root, disk, service });
            processes.push(process);
        }
        Self { dir, nodes, run: run.to_owned(), cloud, _processes: processes, _alone: alone }
    }

    /// Checks that this run left no device and no mount.
    async fn clean(&self) {
        for node in &self.nodes {
            assert!(node.disk.mounts().await.unwrap().is_empty());
            // The plug follows the cloud with a delay.
            for _ in 0..4_500 {
                if node.disk.devices().await.unwrap().is_empty() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(node.disk.devices().await.unwrap().is_empty());
        }
        // The kernel tears a device down with a delay, too.
        for _ in 0..4_500 {
            if self.loops().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("loop devices of {} are left: {:?}", self.run, self.loops());
    }

    /// Returns the backing files of this run's loop devices.
    fn loops(&self) -> Vec<String> {
        let loops = std::fs::read_dir("/sys/block").unwrap().flatten();
        let files = loops.filter_map(|e| std::fs::read_to_string(e.path().join("loop/backing_file")).ok());
        files.filter(|f| f.contains(&*self.dir.path().to_string_lossy())).collect()
    }
}

fn capability_of(kind: &str) -> VolumeCapability {
    let access_type = if kind == RAW {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume { fs_type: kind.into(), ..Default::default() })
    };
    let access_mode = Some(AccessMode { mode: Mode::SingleNodeWriter.into() });
    VolumeCapability { access_mode, access_type: Some(access_type) }
}

impl Node {
    fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    fn csi(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
    }

    fn at(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }

    async fn create(&self, name: &str, kind: &str, gib: i64, source: Option<SourceType>) -> String {
        let request = CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
            volume_capabilities: vec![capability_of(kind)],
            volume_content_source: source.map(|s| VolumeContentSource { r#type: Some(s) }),
            ..Default::default()
        };
        self.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id
    }

    /// Attaches, stages and publishes a volume; returns the path of its data.
    async fn up(&self, volume: &str, kind: &str, place: &str) -> PathBuf {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.into(),
            node_id: self.id.clone(),
            volume_capability: Some(capability_of(kind)),
            ..Default::default()
        };
        let context = self.controller().controller_publish_volume(request).await.unwrap().into_inner().publish_context;
        let request = NodeStageVolumeRequest {
            volume_id: volume.into(),
            publish_context: context,
            staging_target_path: self.at(&format!("staging/{volume}")),
            volume_capability: Some(capability_of(kind)),
            ..Default::default()
        };
        self.stage(request).await.unwrap();
        let target = self.at(&format!("pods/{place}/mount"));
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.at(&format!("staging/{volume}")),
            target_path: target.clone(),
            volume_capability: Some(capability_of(kind)),
            ..Default::default()
        };
        self.csi().node_publish_volume(request).await.unwrap();
        if kind == RAW { PathBuf::from(target) } else { Path::new(&target).join("file") }
    }

    /// Stages a volume. The device appears some time after the cloud has attached the volume: until then the driver
    /// answers NotFound, and this asks again as kubelet does.
    async fn stage(&self, request: NodeStageVolumeRequest) -> Result<(), tonic::Status> {
        for _ in 0..4_500 {
            match self.csi().node_stage_volume(request.clone()).await {
                Err(status) if status.code() == tonic::Code::NotFound => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                staged => return staged.map(drop),
            }
        }
        panic!("the device of {} does not appear", request.volume_id);
    }

    async fn down(&self, volume: &str, place: &str) {
        let target_path = self.at(&format!("pods/{place}/mount"));
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: target_path.clone() };
        self.csi().node_unpublish_volume(request).await.unwrap();
        assert!(!Path::new(&target_path).exists());
        let staging_target_path = self.at(&format!("staging/{volume}"));
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path };
        self.csi().node_unstage_volume(request).await.unwrap();
        let (volume_id, node_id) = (volume.to_owned(), self.id.clone());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        self.controller().controller_unpublish_volume(request).await.unwrap();
    }

    /// Returns the size of the device, and of the filesystem if there is one.
    async fn sizes(&self, volume: &str, place: &str) -> (u64, u64) {
        let device = self.disk.find(volume).await.unwrap().unwrap().size_bytes;
        let usage = self.disk.usage(Path::new(&self.at(&format!("pods/{place}/mount")))).await.unwrap();
        (device, usage.total_bytes)
    }
}

/// Writes bytes at a place that every kind of volume has: within the first GiB.
fn write(path: &Path, bytes: &[u8]) {
    let file = File::options().read(true).write(true).create(!path.exists()).truncate(false).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
}

fn read(path: &Path, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Runs the whole life of a volume of one kind: written on one node, read on the other, expanded while in use, restored
/// and cloned with its bytes.
async fn life(live: Live, kind: &'static str) {
    let (a, b) = (&live.nodes[0], &live.nodes[1]);
    let volume = a.create("first", kind, 1, None).await;
    let file = a.up(&volume, kind, "p").await;
    write(&file, b"hello");
    let before = a.sizes(&volume, "p").await;

    let request = ControllerExpandVolumeRequest {
        volume_id: volume.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 }),
        volume_capability: Some(capability_of(kind)),
        ..Default::default()
    };
    let grown = a.controller().controller_expand_volume(request).await.unwrap().into_inner();
    assert_eq!(grown.node_expansion_required, kind != RAW);
    let request = NodeExpandVolumeRequest {
        volume_id: volume.clone(),
        volume_path: a.at("pods/p/mount"),
        capacity_range: Some(CapacityRange { required_bytes: 2 * GIB, limit_bytes: 0 }),
        ..Default::default()
    };
    let larger = |after: (u64, u64)| after.0 == 2 * GIB as u64 && after.1 > before.1 + GIB as u64 / 2;
    let online = kind != "ext4" || capability().checks.iter().any(|c| c.name == "ext4 grows online" && c.ok);
    for _ in 0..2 {
        match a.csi().node_expand_volume(request.clone()).await {
            Ok(done) => {
                assert!(online && done.into_inner().capacity_bytes == 2 * GIB && larger(a.sizes(&volume, "p").await))
            }
            Err(status) => {
                assert!(!online && status.code() == tonic::Code::FailedPrecondition, "{status:?}");
                assert!(status.message().contains("CAP_SYS_RESOURCE"), "{}", status.message());
            }
        }
    }
    if !online {
        let _ = writeln!(std::io::stderr(), "SKIPPED online growth of ext4: this process lacks CAP_SYS_RESOURCE");
    }

    a.down(&volume, "p").await;
    let file = b.up(&volume, kind, "p").await;
    assert_eq!(read(&file, 5), b"hello", "the other node finds the bytes");
    assert!(larger(b.sizes(&volume, "p").await), "what could not grow while it was mounted has grown now");

    let request = CreateSnapshotRequest { name: "s".into(), source_volume_id: volume.clone(), ..Default::default() };
    let mut snapshot = b.controller().create_snapshot(request.clone()).await.unwrap().into_inner().snapshot.unwrap();
    for _ in 0..1_800 {
        if snapshot.ready_to_use {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        snapshot = b.controller().create_snapshot(request.clone()).await.unwrap().into_inner().snapshot.unwrap();
    }
    assert!(snapshot.ready_to_use);
    write(&file, b"later");
    let from_snapshot = SourceType::Snapshot(SnapshotSource { snapshot_id: snapshot.snapshot_id });
    let restored = a.create("restored", kind, 3, Some(from_snapshot)).await;
    let file = a.up(&restored, kind, "p").await;
    assert_eq!(read(&file, 5), b"hello", "the moment of the snapshot");
    let (device, filesystem) = a.sizes(&restored, "p").await;
    assert_eq!(device, 3 * GIB as u64);
    assert!(filesystem > 2 * GIB as u64 + GIB as u64 / 2, "a larger copy has a filesystem as large: {filesystem}");
    a.down(&restored, "p").await;

    b.down(&volume, "p").await;
    let from_volume = SourceType::Volume(VolumeSource { volume_id: volume.clone() });
    let clone = b.create("clone", kind, 2, Some(from_volume)).await;
    let file = b.up(&clone, kind, "p").await;
    assert_eq!(read(&file, 5), b"later", "the moment of the clone");
    // The source beside its clone, on the same machine and with the same identity.
    let source = b.up(&volume, kind, "q").await;
    write(&source, b"other");
    assert_eq!(read(&file, 5), b"later", "the two go their own ways");
    b.down(&clone, "p").await;
    b.down(&volume, "q").await;
    live.clean().await;
}

/// Without the cloud's guard, two machines write to one filesystem, and one of them loses its data.
async fn two_writers(live: Live) {
    let (a, b) = (&live.nodes[0], &live.nodes[1]);
    let volume = a.create("shared", "ext4", 1, None).await;
    let first = a.up(&volume, "ext4", "p").await;
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: b.id.clone(),
        volume_capability: Some(capability_of("ext4")),
        ..Default::default()
    };
    let refused = b.controller().controller_publish_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
    let switch = http::Request::post("/admin/v1/switches")
        .header("content-type", "application/json")
        .body(substrate::body::full(r#"{"unsafeMultiAttach":true}"#))
        .unwrap();
    assert!(substrate::body::call(live.cloud.clone(), switch).await.unwrap().status().is_success());
    let second = b.up(&volume, "ext4", "p").await;
    write(&first, b"of a");
    write(&second, b"of b");
    a.down(&volume, "p").await;
    b.down(&volume, "p").await;
    // Both wrote and synced without an error. Now at most one's data is there.
    let staged = NodeStageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: a.at(&format!("staging/{volume}")),
        volume_capability: Some(capability_of("ext4")),
        ..Default::default()
    };
    let request = ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: a.id.clone(),
        volume_capability: Some(capability_of("ext4")),
        ..Default::default()
    };
    a.controller().controller_publish_volume(request).await.unwrap();
    if a.stage(staged).await.is_ok() {
        let left = std::fs::read(a.at(&format!("staging/{volume}/file"))).unwrap_or_default();
        assert_ne!(left, b"of a", "the later writer's blocks lie over those of the earlier one");
    }
    a.down(&volume, "p").await;
    live.clean().await;
}

#[test]
fn live_two_machines_on_one_filesystem_corrupt_it_where_the_cloud_allows_it() {
    live("two-writers", "ext4", two_writers);
}

/// Codes that a node service may return to clients without coordination.
const FAIR: [tonic::Code; 4] =
    [tonic::Code::Aborted, tonic::Code::FailedPrecondition, tonic::Code::NotFound, tonic::Code::AlreadyExists];

/// Runs clients that stage, publish, read statistics, unpublish and unstage a few volumes at random, in parallel.
async fn crowd(live: Live) {
    const VOLUMES: usize = 5;
    const CLIENTS: u64 = 10;
    const CALLS: u64 = 25;
    let node = &live.nodes[0];
    let names: Vec<String> = (0..VOLUMES).map(|n| format!("v{n}")).collect();
    let mut volumes = Vec::new();
    for name in &names {
        let volume = node.create(name, "ext4", 1, None).await;
        let _ = node.up(&volume, "ext4", "p").await;
        let path = node.at("pods/p/mount");
        let request = NodeUnpublishVolumeRequest { volume_id: volume.clone(), target_path: path };
        node.csi().node_unpublish_volume(request).await.unwrap();
        volumes.push(volume);
    }
    let volumes = Arc::new(volumes);
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (volumes, mut csi) = (volumes.clone(), node.csi());
        let (staging, target) = (node.at("staging"), node.at("pods/p"));
        clients.spawn(async move {
            // An ad-hoc generator suffices here: the kernel's scheduler decides the order anyway.
            let mut state = client + 1;
            for _ in 0..CALLS {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (volume, call) = (&volumes[(state >> 33) as usize % VOLUMES], (state >> 45) % 6);
                let (volume_id, staging) = (volume.clone(), format!("{staging}/{volume}"));
                let target_path = format!("{target}/{volume}");
                let volume_capability = Some(capability_of("ext4"));
                let done = match call {
                    0 => {
                        let staging_target_path = staging;
                        let request = NodeStageVolumeRequest {
                            volume_id,
                            staging_target_path,
                            volume_capability,
                            ..Default::default()
                        };
                        csi.node_stage_volume(request).await.map(drop)
                    }
                    1 | 2 => {
                        let request = NodePublishVolumeRequest {
                            volume_id,
                            staging_target_path: staging,
                            target_path,
                            volume_capability,
                            ..Default::default()
                        };
                        csi.node_publish_volume(request).await.map(drop)
                    }
                    3 => {
                        let request =
                            NodeGetVolumeStatsRequest { volume_id, volume_path: target_path, ..Default::default() };
                        csi.node_get_volume_stats(request).await.map(drop)
                    }
                    4 => {
                        let request = NodeUnpublishVolumeRequest { volume_id, target_path };
                        csi.node_unpublish_volume(request).await.map(drop)
                    }
                    _ => {
                        let request = NodeUnstageVolumeRequest { volume_id, staging_target_path: staging };
                        csi.node_unstage_volume(request).await.map(drop)
                    }
                };
                if let Err(status) = done {
                    assert!(FAIR.contains(&status.code()), "{call}: {status:?}");
                }
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    for volume in volumes.iter() {
        let request =
            NodeUnpublishVolumeRequest { volume_id: volume.clone(), target_path: node.at(&format!("pods/p/{volume}")) };
        node.csi().node_unpublish_volume(request).await.unwrap();
        // It may not be published here; take the rest down in order.
        node.down(volume, "p").await;
    }
    assert_eq!(std::fs::read_dir(node.at("pods/p")).unwrap().count(), 0, "no target path is left");
    live.clean().await;
}

#[test]
fn live_clients_at_once_leave_no_device_and_no_mount() {
    live("crowd", "ext4", crowd);
}

#[test]
fn live_ext4_volume_lives_its_whole_life() {
    live("ext4", "ext4", async |l| life(l, "ext4").await);
}

#[test]
fn live_xfs_volume_lives_its_whole_life() {
    live("xfs", "xfs", async |l| life(l, "xfs").await);
}

#[test]
fn live_btrfs_volume_lives_its_whole_life() {
    live("btrfs", "btrfs", async |l| life(l, "btrfs").await);
}

#[test]
fn live_raw_block_volume_lives_its_whole_life() {
    live("raw", RAW, async |l| life(l, RAW).await);
}

#[test]
fn live_pull_of_a_mounted_xfs_loses_what_was_not_synced() {
    live("pull-xfs", "xfs", async |l| {
        let a = &l.nodes[0];
        let volume = a.create("v", "xfs", 1, None).await;
        let file = a.up(&volume, "xfs", "p").await;
        write(&file, b"kept");
        std::fs::write(file.with_file_name("lost"), "x").unwrap();
        assert!(a.disk.unplug(&volume, true).await.unwrap());
        assert!(std::fs::read(&file).is_err(), "every access gives an error");
        // The kernel's state of the device goes with its last mount.
        a.down(&volume, "p").await;
        let file = l.nodes[1].up(&volume, "xfs", "p").await;
        assert_eq!(read(&file, 4), b"kept");
        assert!(!file.with_file_name("lost").exists());
        l.nodes[1].down(&volume, "p").await;
        l.clean().await;
    });
}
