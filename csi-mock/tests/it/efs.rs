//! The EFS driver in virtual time: access points, mounts on two nodes, and refusals in the real driver's words.

use std::collections::BTreeMap;
use std::path::Path;

use csi_disk::MemoryDisks;
use csi_mock::efs::{self, DEFAULT_FILE_SYSTEM, EfsNodeConfig, FileServer, FileSystemSpec};
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::*;
use futures_util::FutureExt;
use substrate::link::Link;
use substrate::world::{Options, simulate};
use substrate::{Ctx, Process, World};
use tonic::{Code, Status};

const TARGET: &str = "/pods/p/mount";

/// The driver with its controller and two nodes.
struct Bench {
    ctx: Ctx,
    server: FileServer,
    disks: MemoryDisks,
    _processes: Vec<Process>,
}

fn capability(mode: Mode) -> VolumeCapability {
    let access_type = Some(AccessType::Mount(MountVolume::default()));
    VolumeCapability { access_mode: Some(AccessMode { mode: mode.into() }), access_type }
}

impl Bench {
    fn new(world: &World) -> Self {
        let directories = vec!["/exports/a".to_owned()];
        let spec = FileSystemSpec { directories, ..FileSystemSpec::default() };
        let server = FileServer::new(&world.seed().child("efs"), &[spec]);
        let disks = MemoryDisks::new();
        let shared = server.clone();
        let mut processes = vec![Process::start(world, "efs-csi-controller", move |ctx| {
            let service = efs::start_controller(&ctx, shared.clone());
            ctx.world().fabric().bind(&ctx, "efs-csi-controller", service);
            std::future::pending()
        })];
        for node in ["node-a", "node-b"] {
            let (server, disk) = (server.clone(), disks.node(node));
            processes.push(Process::start(world, &format!("{node}/efs-csi-node"), move |ctx| {
                let config = EfsNodeConfig {
                    node_name: node.to_owned(),
                    node_id: format!("i-{node}"),
                    zone: "us-east-1a".to_owned(),
                    disk: disk.clone(),
                    server: server.clone(),
                };
                ctx.world().fabric().bind(&ctx, &format!("efs-csi-{node}"), efs::start_node(&ctx, config));
                std::future::pending()
            }));
        }
        let test = Process::start(world, "test", |_| std::future::pending());
        let ctx = test.ctx().unwrap();
        processes.push(test);
        Self { ctx, server, disks, _processes: processes }
    }

    fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(Channel(Link::connect(&self.ctx, "efs-csi-controller")))
    }

    fn node(&self, node: &str) -> NodeClient<Channel> {
        NodeClient::new(Channel(Link::connect(&self.ctx, &format!("efs-csi-{node}"))))
    }

    async fn create(&self, name: &str, change: impl FnOnce(&mut CreateVolumeRequest)) -> Result<String, Status> {
        let parameters =
            [("provisioningMode", "efs-ap"), ("fileSystemId", DEFAULT_FILE_SYSTEM), ("directoryPerms", "700")];
        let mut request = CreateVolumeRequest {
            name: name.to_owned(),
            volume_capabilities: vec![capability(Mode::MultiNodeMultiWriter)],
            parameters: parameters.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..CreateVolumeRequest::default()
        };
        change(&mut request);
        let answer = self.controller().create_volume(request).await?.into_inner();
        Ok(answer.volume.unwrap().volume_id)
    }

    async fn delete(&self, volume: &str) {
        let request = DeleteVolumeRequest { volume_id: volume.to_owned(), ..DeleteVolumeRequest::default() };
        self.controller().delete_volume(request).await.unwrap();
    }

    async fn publish(&self, node: &str, volume: &str, readonly: bool) -> Result<(), Status> {
        self.disks.node(node).make_dir(Path::new("/pods/p")).await.unwrap();
        let request = NodePublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: TARGET.to_owned(),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            readonly,
            ..NodePublishVolumeRequest::default()
        };
        self.node(node).node_publish_volume(request).await.map(drop)
    }

    async fn unpublish(&self, node: &str, volume: &str) {
        let request = NodeUnpublishVolumeRequest { volume_id: volume.to_owned(), target_path: TARGET.to_owned() };
        self.node(node).node_unpublish_volume(request).await.unwrap();
    }
}

fn run<F: Future<Output = ()>>(test: impl FnOnce(Bench) -> F) {
    simulate(Options::default(), async move |world| test(Bench::new(&world)).await);
}

#[test]
fn a_name_makes_one_access_point_and_a_deletion_removes_it() {
    run(|b| async move {
        let one = b.create("pvc-1", |_| {}).await.unwrap();
        assert!(one.starts_with(&format!("{DEFAULT_FILE_SYSTEM}::fsap-")), "{one}");
        assert_eq!(b.create("pvc-1", |_| {}).await.unwrap(), one, "a repeated call");
        let two = b.create("pvc-2", |_| {}).await.unwrap();
        assert_ne!(one, two);
        let gids: Vec<i64> = b.server.access_points().iter().map(|point| point.gid).collect();
        assert_eq!(gids, [50_000, 50_001]);
        for _ in 0..2 {
            b.delete(&one).await;
        }
        assert_eq!(b.server.access_points().len(), 1);
        for other in ["vol-0123456789abcdef0", DEFAULT_FILE_SYSTEM] {
            b.delete(other).await;
        }
        assert_eq!(b.server.access_points().len(), 1);
    });
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    run(|b| async move {
        let refused = async |change: fn(&mut CreateVolumeRequest)| {
            let status = b.create("pvc-1", change).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            status.message().to_owned()
        };
        let message = refused(|r| drop(r.parameters.remove("provisioningMode"))).await;
        assert_eq!(message, "Missing provisioningMode parameter");
        let message = refused(|r| drop(r.parameters.insert("fileSystemId".into(), "fs-01234567".into()))).await;
        assert!(message.starts_with("File System does not exist"), "{message}");
        let message = refused(|r| r.volume_capabilities = vec![capability(Mode::MultiNodeReaderOnly)]).await;
        assert!(message.ends_with("invalid access mode: MULTI_NODE_READER_ONLY"), "{message}");
        let block = |r: &mut CreateVolumeRequest| {
            r.volume_capabilities[0].access_type = Some(AccessType::Block(BlockVolume {}));
        };
        assert!(refused(block).await.ends_with("only filesystem volumes are supported"));
        let ext4 = |r: &mut CreateVolumeRequest| {
            let mount = MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() };
            r.volume_capabilities[0].access_type = Some(AccessType::Mount(mount));
        };
        assert!(refused(ext4).await.ends_with("invalid fstype: ext4"));
        let publish = ControllerPublishVolumeRequest::default();
        let status = b.controller().controller_publish_volume(publish).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(b.server.access_points().is_empty());
    });
}

#[test]
fn two_nodes_see_one_directory_and_other_volumes_do_not() {
    run(|b| async move {
        let (one, two) = (b.create("pvc-1", |_| {}).await.unwrap(), b.create("pvc-2", |_| {}).await.unwrap());
        let file = &Path::new(TARGET).join("f");
        let (a, other) = (b.disks.node("node-a"), b.disks.node("node-b"));
        b.publish("node-a", &one, false).await.unwrap();
        b.publish("node-a", &one, false).await.unwrap();
        b.publish("node-b", &one, true).await.unwrap();
        a.append(file, b"record").await.unwrap();
        assert_eq!(other.read(file).await.unwrap().as_deref(), Some(&b"record"[..]));
        assert!(other.append(file, b"x").await.unwrap_err().to_string().contains("Read-only"));
        // A crash of the writer loses nothing: the server has the bytes.
        a.crash().await.unwrap();
        assert!(a.mounts().await.unwrap().is_empty());
        b.unpublish("node-b", &one).await;
        b.publish("node-b", &two, false).await.unwrap();
        assert_eq!(other.read(file).await.unwrap(), None);
        b.publish("node-a", &one, false).await.unwrap();
        assert_eq!(a.read(file).await.unwrap().as_deref(), Some(&b"record"[..]));
        let occupied = b.publish("node-a", &two, false).await.unwrap_err();
        assert!(occupied.message().contains("is mounted"), "{occupied}");
        b.unpublish("node-a", &one).await;
        b.unpublish("node-a", &one).await;
        assert_eq!(a.list_dir(Path::new("/pods/p")).await.unwrap(), Some(Vec::new()));
    });
}

#[test]
fn a_static_volume_shows_a_directory_that_exists() {
    run(|b| async move {
        b.publish("node-a", &format!("{DEFAULT_FILE_SYSTEM}:/exports/a"), false).await.unwrap();
        let missing = b.publish("node-b", &format!("{DEFAULT_FILE_SYSTEM}:/exports/b"), false).await.unwrap_err();
        assert_eq!(missing.code(), Code::Internal);
        assert!(missing.message().contains("has no directory `/exports/b`"), "{missing}");
        let whole = b.publish("node-b", DEFAULT_FILE_SYSTEM, false).await;
        assert!(whole.is_ok());
        let (a, other) = (b.disks.node("node-a"), b.disks.node("node-b"));
        a.append(&Path::new(TARGET).join("f"), b"record").await.unwrap();
        let below = other.read(&Path::new(TARGET).join("exports/a/f")).await.unwrap();
        assert_eq!(below.as_deref(), Some(&b"record"[..]));
    });
}

#[test]
fn a_lock_keeps_the_other_node_out_until_it_ends() {
    run(|b| async move {
        let one = b.create("pvc-1", |_| {}).await.unwrap();
        for node in ["node-a", "node-b"] {
            b.publish(node, &one, false).await.unwrap();
        }
        let file = Path::new(TARGET).join("f");
        let (a, other) = (b.disks.node("node-a"), b.disks.node("node-b"));
        let lock = a.lock(&file).await.unwrap();
        assert!(lock.is_some());
        let waits = async { other.lock(&file).await.unwrap() };
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        drop(lock);
        assert!(waits.await.is_some());
        // A file of the node itself needs no lock.
        assert!(a.lock(Path::new("/own")).await.unwrap().is_none());
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for disk in [&a, &other] {
            *names.entry(disk.node()).or_default() += disk.mounts().await.unwrap().len();
        }
        assert_eq!(names, BTreeMap::from([("node-a", 1), ("node-b", 1)]));
    });
}
