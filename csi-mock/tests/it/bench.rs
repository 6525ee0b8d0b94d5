//! A driver with its whole environment.

#![allow(dead_code, reason = "each suite uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_disk::plug::{self, PlugConfig};
use csi_disk::{Disk, MemoryDisks};
use csi_mock::capabilities::{Capabilities, Feature};
use csi_mock::controller::ControllerConfig;
use csi_mock::node::NodeConfig;
use csi_mock::settings::Settings;
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::group_controller_client::GroupControllerClient;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::*;
use mock_ec2::{Config, Ec2, InstanceSpec, VolumeBytes};
use substrate::process::Process;
use substrate::world::{Options, World, simulate};
use substrate::{Ctx, HttpService, Seed};
use tonic::Code;

pub const GIB: i64 = 1 << 30;
pub const STAGING: &str = "/staging/pv/globalmount";
pub const TARGET: &str = "/pods/p/mount";

/// Storage that keeps the bytes of the cloud's volumes and snapshots in memory disks.
#[derive(Debug)]
struct Bytes(MemoryDisks);

impl VolumeBytes for Bytes {
    fn snapshot(&self, source: &str, snapshot: &str) {
        self.0.copy(source, snapshot, 0);
    }

    fn restore(&self, source: &str, volume: &str, size_bytes: u64) {
        self.0.copy(source, volume, size_bytes);
    }

    fn grow(&self, volume: &str, size_bytes: u64) {
        self.0.grow(volume, size_bytes);
    }

    fn remove(&self, id: &str) {
        self.0.forget(id);
    }

    fn is_held(&self, volume: &str) -> bool {
        self.0.is_held(volume)
    }
}

/// One driver on one node, as csi-sanity tests it.
#[derive(Clone)]
pub struct Bench {
    pub world: World,
    pub ctx: Ctx,
    pub disk: Arc<dyn Disk>,
    pub disks: MemoryDisks,
    pub settings: Settings,
    pub service: HttpService,
    /// The instances; the first is the node.
    pub nodes: Vec<String>,
    pub block: bool,
    pub ec2: Ec2,
    pub cloud: HttpService,
    /// The driver's process.
    pub process: Process,
}

/// Starts a driver on the first of `nodes`.
fn driver(
    world: &World,
    cloud: &HttpService,
    nodes: &[String],
    disk: &Arc<dyn Disk>,
    settings: &Settings,
) -> (Process, Ctx, HttpService) {
    let process = Process::start(world, "csi", |_| std::future::pending());
    let ctx = process.ctx().unwrap();
    let controller = ControllerConfig { settings: settings.clone(), ..ControllerConfig::new(cloud.clone()) };
    let node = NodeConfig {
        max_volumes: 3,
        settings: settings.clone(),
        ..NodeConfig::new("node-a", &nodes[0], "us-east-1a", csi_disk::faulty(&ctx, disk.clone()))
    };
    ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(cloud.clone(), &nodes[0], "node-a", disk.clone())));
    let service = csi_mock::start(&ctx, controller, node);
    (process, ctx, service)
}

/// Runs a test with one kind of volume and one set of capabilities.
pub fn once<F: Future<Output = ()>>(block: bool, offered: Capabilities, test: impl FnOnce(Bench) -> F) {
    once_with(Options::default(), block, offered, test);
}

/// Runs such a test in a world with these options.
pub fn once_with<F: Future<Output = ()>>(
    options: Options,
    block: bool,
    offered: Capabilities,
    test: impl FnOnce(Bench) -> F,
) {
    simulate(options, async |world| {
        let outside = Process::start(&world, "mock-ec2", |_| std::future::pending());
        let disks = MemoryDisks::new();
        let names = [("node-a", "us-east-1a"), ("node-b", "us-east-1a"), ("node-c", "us-east-1b")];
        let instances = names.map(|(name, zone)| InstanceSpec::new(name, zone)).to_vec();
        let bytes: Arc<dyn VolumeBytes> = Arc::new(Bytes(disks.clone()));
        let ec2 = Ec2::new(&Seed::root(1), Config { instances, bytes: Some(bytes), ..Config::default() }).unwrap();
        let cloud = ec2.start(&outside.ctx().unwrap());
        let nodes: Vec<String> = ec2.instances().into_iter().map(|i| i.id).collect();
        let disk = disks.node("node-a");
        for dir in ["/staging/pv", "/pods/p", "/pods/q"] {
            disk.make_dir(Path::new(dir)).await.unwrap();
        }
        let settings = Settings::new(offered);
        let (process, ctx, service) = driver(&world, &cloud, &nodes, &disk, &settings);
        let world = world.clone();
        test(Bench { world, ctx, disk, disks, settings, service, nodes, block, ec2, cloud, process }).await;
    });
}

/// Runs a test with mount and block volumes, with all and with minimal capabilities, if they include `needs`.
pub fn case<F: Future<Output = ()>>(needs: &[Feature], test: impl Fn(Bench) -> F) {
    let mut ran = 0;
    for block in [false, true] {
        for offered in [Capabilities::all(), Capabilities::minimal()] {
            if needs.iter().all(|f| offered.has(*f)) {
                once(block, offered, &test);
                ran += 1;
            }
        }
    }
    assert!(ran >= 2, "a case runs at least with all capabilities");
}

pub fn code<T>(result: Result<T, tonic::Status>) -> Code {
    match result {
        Ok(_) => Code::Ok,
        Err(status) => {
            assert!(status.details().is_empty() && !status.message().is_empty(), "{status:?}");
            status.code()
        }
    }
}

impl Bench {
    /// Restarts the driver's process after a crash, as by `kill -9`.
    pub fn restart(&mut self) {
        self.process.crash();
        (self.process, self.ctx, self.service) =
            driver(&self.world, &self.cloud, &self.nodes, &self.disk, &self.settings);
    }

    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(Channel(self.service.clone()))
    }

    pub fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(self.service.clone()))
    }

    pub fn group(&self) -> GroupControllerClient<Channel> {
        GroupControllerClient::new(Channel(self.service.clone()))
    }

    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
    }

    pub fn node_id(&self) -> String {
        self.nodes[0].clone()
    }

    pub fn capability(&self, mode: Mode) -> VolumeCapability {
        let access_type = if self.block {
            AccessType::Block(BlockVolume {})
        } else {
            AccessType::Mount(MountVolume { fs_type: "ext4".into(), ..Default::default() })
        };
        VolumeCapability { access_mode: Some(AccessMode { mode: mode.into() }), access_type: Some(access_type) }
    }

    pub fn writer(&self) -> Option<VolumeCapability> {
        Some(self.capability(Mode::SingleNodeWriter))
    }

    pub fn create(&self, name: &str, gib: i64) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: name.into(),
            capacity_range: (gib > 0).then_some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
            volume_capabilities: vec![self.writer().unwrap()],
            ..Default::default()
        }
    }

    /// Creates a volume; returns its id.
    pub async fn volume(&self, name: &str, gib: i64) -> String {
        let made = self.controller().create_volume(self.create(name, gib)).await.unwrap();
        made.into_inner().volume.unwrap().volume_id
    }

    pub async fn delete(&self, volume: &str) {
        let request = DeleteVolumeRequest { volume_id: volume.into(), ..Default::default() };
        self.controller().delete_volume(request).await.unwrap();
    }

    pub fn publish_request(&self, volume: &str) -> ControllerPublishVolumeRequest {
        ControllerPublishVolumeRequest {
            volume_id: volume.into(),
            node_id: self.node_id(),
            volume_capability: self.writer(),
            ..Default::default()
        }
    }

    pub async fn attach(&self, volume: &str) -> std::collections::BTreeMap<String, String> {
        let done = self.controller().controller_publish_volume(self.publish_request(volume)).await;
        done.unwrap().into_inner().publish_context
    }

    pub async fn detach(&self, volume: &str) {
        let (volume_id, node_id) = (volume.to_owned(), self.node_id());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        self.controller().controller_unpublish_volume(request).await.unwrap();
    }

    pub fn stage_request(&self, volume: &str) -> NodeStageVolumeRequest {
        NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: STAGING.into(),
            volume_capability: self.writer(),
            ..Default::default()
        }
    }

    pub async fn stage(&self, volume: &str) {
        self.node().node_stage_volume(self.stage_request(volume)).await.unwrap();
    }

    pub async fn unstage(&self, volume: &str) {
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path: STAGING.into() };
        self.node().node_unstage_volume(request).await.unwrap();
    }

    pub fn target_request(&self, volume: &str, target: &str) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: STAGING.into(),
            target_path: target.into(),
            volume_capability: self.writer(),
            ..Default::default()
        }
    }

    pub async fn publish(&self, volume: &str) {
        self.node().node_publish_volume(self.target_request(volume, TARGET)).await.unwrap();
    }

    pub async fn unpublish(&self, volume: &str) {
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: TARGET.into() };
        self.node().node_unpublish_volume(request).await.unwrap();
    }

    /// Creates a volume and publishes it at [`TARGET`].
    pub async fn published(&self, name: &str) -> String {
        let volume = self.volume(name, 1).await;
        self.attach(&volume).await;
        self.stage(&volume).await;
        self.publish(&volume).await;
        volume
    }

    /// Takes down a volume of [`Bench::published`].
    pub async fn gone(&self, volume: &str) {
        self.unpublish(volume).await;
        self.unstage(volume).await;
        self.detach(volume).await;
        self.delete(volume).await;
    }

    /// Checks that the node has no leftovers.
    pub async fn clean(&self) {
        self.ctx.sleep(Duration::from_secs(1)).await;
        assert!(self.disk.mounts().await.unwrap().is_empty() && self.disk.devices().await.unwrap().is_empty());
        assert_eq!(self.disk.list_dir(Path::new("/pods/p")).await.unwrap(), Some(vec![]));
    }

    /// Takes a snapshot of a new volume; returns both ids.
    pub async fn snapshot(&self, name: &str) -> (String, String) {
        let volume = self.volume(&format!("{name}-source"), 1).await;
        let made = self.controller().create_snapshot(snapshot_request(name, &volume)).await.unwrap();
        (volume, made.into_inner().snapshot.unwrap().snapshot_id)
    }
}

pub fn snapshot_request(name: &str, volume: &str) -> CreateSnapshotRequest {
    CreateSnapshotRequest { name: name.into(), source_volume_id: volume.into(), ..Default::default() }
}
