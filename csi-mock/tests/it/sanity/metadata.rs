//! SnapshotMetadata: allocated blocks of a snapshot, and changed blocks between two.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use csi_mock::capabilities::Capabilities;
use csi_mock::controller::{self, ControllerConfig};
use csi_mock::settings::Settings;
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume};
use csi_proto::csi::*;
use mock_ec2::{Config, Ec2, InstanceSpec};
use substrate::process::Process;
use substrate::world::{Options, simulate};
use substrate::{Ctx, HttpService, Seed};
use tonic::Code;

use crate::bench::{GIB, code, snapshot_request};

/// Block size of the EBS direct API.
const BLOCK: i64 = 512 << 10;

/// Driver over a cloud whose volumes have files in a directory.
struct Files {
    ctx: Ctx,
    service: HttpService,
    dir: tempfile::TempDir,
}

fn with_files<F: Future<Output = ()>>(test: impl FnOnce(Files) -> F) {
    simulate(Options::default(), async |world| {
        let process = Process::start(&world, "csi", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let instances = vec![InstanceSpec::new("node-a", "us-east-1a")];
        let config = Config { instances, volume_dir: Some(dir.path().to_owned()), ..Config::default() };
        let cloud = Ec2::new(&Seed::root(1), config).unwrap().start(&ctx);
        let settings = Settings::new(Capabilities::all());
        let service = controller::start(&ctx, ControllerConfig { settings, ..ControllerConfig::new(cloud) });
        test(Files { ctx, service, dir }).await;
    });
}

/// Returned offsets and sizes, message by message, and the size of the volume.
type ReturnedBlocks = (Vec<Vec<(i64, i64)>>, i64);

fn pairs(blocks: &[BlockMetadata]) -> Vec<(i64, i64)> {
    blocks.iter().map(|b| (b.byte_offset, b.size_bytes)).collect()
}

impl Files {
    async fn volume(&self, name: &str) -> String {
        let mode = AccessMode { mode: Mode::SingleNodeWriter.into() };
        let access_type = Some(AccessType::Block(BlockVolume {}));
        let request = CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(CapacityRange { required_bytes: GIB, limit_bytes: 0 }),
            volume_capabilities: vec![VolumeCapability { access_mode: Some(mode), access_type }],
            ..Default::default()
        };
        let mut controller = ControllerClient::new(Channel(self.service.clone()));
        controller.create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id
    }

    fn write(&self, volume: &str, block: i64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.dir.path().join(volume)).unwrap();
        file.write_all_at(bytes, u64::try_from(block * BLOCK).unwrap()).unwrap();
    }

    async fn snapshot(&self, name: &str, volume: &str) -> String {
        // The cloud allows one snapshot of a volume in fifteen seconds.
        self.ctx.sleep(Duration::from_secs(20)).await;
        let mut controller = ControllerClient::new(Channel(self.service.clone()));
        let made = controller.create_snapshot(snapshot_request(name, volume)).await.unwrap();
        let id = made.into_inner().snapshot.unwrap().snapshot_id;
        self.ctx.sleep(Duration::from_secs(60)).await;
        id
    }

    fn client(&self) -> SnapshotMetadataClient<Channel> {
        SnapshotMetadataClient::new(Channel(self.service.clone()))
    }

    async fn allocated(&self, snapshot: &str, offset: i64, most: i32) -> Result<ReturnedBlocks, tonic::Status> {
        let request = GetMetadataAllocatedRequest {
            snapshot_id: snapshot.into(),
            starting_offset: offset,
            max_results: most,
            ..Default::default()
        };
        let mut stream = self.client().get_metadata_allocated(request).await?.into_inner();
        let mut reported = ReturnedBlocks::default();
        while let Some(message) = stream.message().await? {
            assert_eq!(message.block_metadata_type(), BlockMetadataType::FixedLength);
            reported.0.push(pairs(&message.block_metadata));
            reported.1 = message.volume_capacity_bytes;
        }
        Ok(reported)
    }

    async fn delta(&self, base: &str, target: &str, offset: i64) -> Result<ReturnedBlocks, tonic::Status> {
        let request = GetMetadataDeltaRequest {
            base_snapshot_id: base.into(),
            target_snapshot_id: target.into(),
            starting_offset: offset,
            ..Default::default()
        };
        let mut stream = self.client().get_metadata_delta(request).await?.into_inner();
        let mut reported = ReturnedBlocks::default();
        while let Some(message) = stream.message().await? {
            reported.0.push(pairs(&message.block_metadata));
            reported.1 = message.volume_capacity_bytes;
        }
        Ok(reported)
    }
}

fn blocks(numbers: &[i64]) -> Vec<(i64, i64)> {
    numbers.iter().map(|n| (n * BLOCK, BLOCK)).collect()
}

#[test]
fn allocated_and_changed_blocks_are_in_order() {
    with_files(async |f| {
        let volume = f.volume("v").await;
        for block in [0, 3, 700, 1500] {
            f.write(&volume, block, b"data");
        }
        let first = f.snapshot("s1", &volume).await;
        f.write(&volume, 3, b"other");
        f.write(&volume, 9, b"new");
        let second = f.snapshot("s2", &volume).await;
        assert_eq!(f.allocated(&first, 0, 0).await.unwrap(), (vec![blocks(&[0, 3, 700, 1500])], GIB));
        let in_twos = vec![blocks(&[0, 3]), blocks(&[700, 1500])];
        assert_eq!(f.allocated(&first, 0, 2).await.unwrap().0, in_twos);
        assert_eq!(f.allocated(&first, 4 * BLOCK, 0).await.unwrap().0, [blocks(&[700, 1500])]);
        assert_eq!(f.allocated(&first, 3 * BLOCK + 1, 0).await.unwrap().0, [blocks(&[3, 700, 1500])], "within one");
        assert_eq!(f.delta(&first, &second, 0).await.unwrap(), (vec![blocks(&[3, 9])], GIB));
        assert_eq!(f.delta(&first, &second, 4 * BLOCK).await.unwrap().0, [blocks(&[9])]);
        assert_eq!(f.delta(&second, &second, 0).await.unwrap().0, Vec::<Vec<(i64, i64)>>::new());
    });
}

#[test]
fn a_snapshot_of_many_blocks_is_paginated() {
    with_files(async |f| {
        let volume = f.volume("v").await;
        let all: Vec<i64> = (0..300).map(|n| n * 3).collect();
        for block in &all {
            f.write(&volume, *block, b"x");
        }
        let snapshot = f.snapshot("s", &volume).await;
        // The direct API has at least a hundred blocks on a page; a message may have fewer.
        let (messages, _) = f.allocated(&snapshot, 0, 70).await.unwrap();
        assert!(messages.iter().all(|m| m.len() <= 70) && messages.len() >= 5);
        assert_eq!(messages.concat(), blocks(&all));
    });
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    with_files(async |f| {
        let (volume, other) = (f.volume("v").await, f.volume("w").await);
        let (one, two) = (f.snapshot("s", &volume).await, f.snapshot("t", &other).await);
        let allocated = async |id: &str, offset: i64, most: i32| code(f.allocated(id, offset, most).await);
        assert_eq!(allocated("", 0, 0).await, Code::InvalidArgument);
        assert_eq!(allocated(&one, -1, 0).await, Code::InvalidArgument);
        assert_eq!(allocated(&one, 0, -1).await, Code::InvalidArgument);
        assert_eq!(allocated("snap-0ffffffffffffffff", 0, 0).await, Code::NotFound);
        assert_eq!(allocated("what", 0, 0).await, Code::NotFound);
        assert_eq!(allocated(&one, GIB, 0).await, Code::OutOfRange);
        assert_eq!(code(f.delta(&one, &two, 0).await), Code::FailedPrecondition, "of different volumes");
        assert_eq!(code(f.delta("", &two, 0).await), Code::InvalidArgument);
    });
}
