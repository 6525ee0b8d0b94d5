//! Many uncoordinated callers on their own threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use csi_disk::MemoryDisks;
use csi_disk::plug::{self, PlugConfig};
use csi_mock::capabilities::Capabilities;
use csi_mock::controller::ControllerConfig;
use csi_mock::events::{CsiDone, DiskPublished, DiskStaged, DiskUnpublished, DiskUnstaged};
use csi_mock::node::NodeConfig;
use csi_mock::settings::Settings;
use csi_proto::csi::*;
use mock_ec2::{Config, Ec2, InstanceSpec};
use rand_core::Rng;
use substrate::clock::TimeScale;
use substrate::json::Text;
use substrate::process::Process;
use substrate::world::{Options, World};
use substrate::{Event, Seed};
use tonic::Code;

use crate::bench::*;

const CLIENTS: u64 = 32;
const VOLUMES: u64 = 50;
const CALLS: u64 = 100_000;

/// Makes one random call; returns its code.
async fn one(b: &Bench, ids: &[String], draw: u64) -> Code {
    let number = draw % VOLUMES;
    let volume = ids[number as usize].clone();
    let (staging, target) = (format!("/staging/{number}"), format!("/pods/p/{number}"));
    match (draw >> 16) % 40 {
        0 => code(b.controller().create_volume(b.create(&format!("v{number}"), 1)).await),
        1 => code(b.controller().controller_publish_volume(b.publish_request(&volume)).await),
        2 => {
            let request =
                ControllerUnpublishVolumeRequest { volume_id: volume, node_id: b.node_id(), ..Default::default() };
            code(b.controller().controller_unpublish_volume(request).await)
        }
        3..12 => {
            let request = NodeStageVolumeRequest { staging_target_path: staging, ..b.stage_request(&volume) };
            code(b.node().node_stage_volume(request).await)
        }
        12..21 => {
            let request =
                NodePublishVolumeRequest { staging_target_path: staging, ..b.target_request(&volume, &target) };
            code(b.node().node_publish_volume(request).await)
        }
        21..29 => {
            let request = NodeUnpublishVolumeRequest { volume_id: volume, target_path: target };
            code(b.node().node_unpublish_volume(request).await)
        }
        29..37 => {
            let request = NodeUnstageVolumeRequest { volume_id: volume, staging_target_path: staging };
            code(b.node().node_unstage_volume(request).await)
        }
        _ => {
            let request = NodeGetVolumeStatsRequest { volume_id: volume, volume_path: target, ..Default::default() };
            code(b.node().node_get_volume_stats(request).await)
        }
    }
}

/// Checks that each side effect follows from those before it. Events are emitted under the lock of their volume.
fn check_effects(events: &[Arc<Event>]) {
    let (mut staged, mut published) = (BTreeSet::new(), BTreeMap::<Text, BTreeSet<Text>>::new());
    for event in events {
        if let Some(DiskStaged { volume, .. }) = event.get() {
            assert!(staged.insert(volume.clone()), "{volume} is staged once");
        } else if let Some(DiskPublished { volume, path, .. }) = event.get() {
            assert!(staged.contains(volume), "{volume} is published only where it is staged");
            assert!(published.entry(volume.clone()).or_default().insert(path.clone()), "once at each target");
        } else if let Some(DiskUnpublished { volume, path, .. }) = event.get() {
            assert!(published.get_mut(volume).is_some_and(|set| set.remove(path)), "{volume} was published");
        } else if let Some(DiskUnstaged { volume, .. }) = event.get() {
            assert!(published.get(volume).is_none_or(BTreeSet::is_empty), "{volume} is published nowhere");
            assert!(staged.remove(volume), "{volume} was staged");
        }
    }
    assert!(!published.is_empty(), "volumes were published");
}

#[test]
fn thirty_two_clients_make_a_hundred_thousand_calls_on_fifty_volumes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        // The driver's waits are very short; the threads decide the order.
        let scale = TimeScale::new(1e6);
        let world = World::live(Options { scale, ..Options::default() });
        let process = Process::start(&world, "csi", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        let disks = MemoryDisks::new();
        // A machine with room for all volumes.
        let mut machine = InstanceSpec::new("node-a", "us-east-1a");
        machine.instance_type = "m7i.24xlarge".into();
        let config = Config { instances: vec![machine], ..Config::default() };
        let ec2 = Ec2::new(&Seed::root(1), config).unwrap();
        let cloud = ec2.start(&ctx);
        let id = ec2.instances()[0].id.clone();
        let disk = disks.node("node-a");
        for dir in ["/staging", "/pods/p"] {
            disk.make_dir(std::path::Path::new(dir)).await.unwrap();
        }
        let settings = Settings::new(Capabilities::all());
        let controller = ControllerConfig { settings: settings.clone(), ..ControllerConfig::new(cloud.clone()) };
        let node = NodeConfig {
            settings: settings.clone(),
            max_volumes: VOLUMES as i64,
            ..NodeConfig::new("node-a", &id, "us-east-1a", disk.clone())
        };
        ctx.spawn(plug::run(ctx.clone(), PlugConfig::new(cloud.clone(), &id, "node-a", disk.clone())));
        let service = csi_mock::start(&ctx, controller, node);
        let b = Bench {
            world: world.clone(),
            ctx: ctx.clone(),
            disk,
            disks,
            settings,
            service,
            nodes: vec![id],
            block: false,
            ec2,
            cloud,
            process,
        };
        let mut ids = Vec::new();
        for n in 0..VOLUMES {
            ids.push(b.volume(&format!("v{n}"), 1).await);
        }
        let (ids, made) = (Arc::new(ids), Arc::new(AtomicU64::new(0)));
        let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
        for client in 0..CLIENTS {
            let (b, ids, made, report) = (b.clone(), ids.clone(), made.clone(), report.clone());
            let mut draws = Seed::root(7).child(&format!("client {client}")).rng();
            ctx.spawn(async move {
                let mut codes = BTreeMap::<i32, u64>::new();
                while made.fetch_add(1, Ordering::Relaxed) < CALLS {
                    *codes.entry(one(&b, &ids, draws.next_u64()).await.into()).or_default() += 1;
                }
                report.send(codes).unwrap();
            });
        }
        drop(report);
        let mut codes = BTreeMap::<i32, u64>::new();
        let all = async {
            while let Some(some) = reports.recv().await {
                for (code, count) in some {
                    *codes.entry(code).or_default() += count;
                }
            }
        };
        // Far more than needed: only a deadlock takes that long.
        tokio::time::timeout(Duration::from_secs(900), all).await.expect("no client is stuck");
        assert_eq!(codes.values().sum::<u64>(), CALLS);
        let expected = [Code::Ok, Code::NotFound, Code::FailedPrecondition, Code::Aborted, Code::Internal];
        let expected = expected.map(i32::from);
        let events = world.trace().events();
        let odd = events.iter().filter_map(|e| e.get::<CsiDone>()).filter(|done| done.code == "INTERNAL");
        // A device that was detached while mounted leaves its name poisoned: the cloud lists it nowhere and reports it
        // as in use. The driver takes another name the next time.
        let odd = odd.filter(|done| !done.message.as_ref().is_some_and(|m| m.contains("is already in use")));
        let odd: BTreeSet<_> = odd.map(|done| (done.rpc.clone(), done.message.clone())).collect();
        assert!(odd.is_empty(), "{odd:#?}");
        assert!(codes.keys().all(|code| expected.contains(code)), "{codes:?}");
        assert!(codes[&i32::from(Code::Ok)] > CALLS / 4, "{codes:?}");
        check_effects(&events);

        // All leftovers can be taken down, and then none remain.
        for (n, volume) in ids.iter().enumerate() {
            let request = NodeUnpublishVolumeRequest { volume_id: volume.clone(), target_path: format!("/pods/p/{n}") };
            b.node().node_unpublish_volume(request).await.unwrap();
            let staging_target_path = format!("/staging/{n}");
            let request = NodeUnstageVolumeRequest { volume_id: volume.clone(), staging_target_path };
            b.node().node_unstage_volume(request).await.unwrap();
            b.detach(volume).await;
            b.delete(volume).await;
        }
        assert!(b.disk.mounts().await.unwrap().is_empty());
        assert_eq!(b.disk.list_dir(std::path::Path::new("/pods/p")).await.unwrap(), Some(vec![]));
        // Transitions may still be under way, but there is no other volume.
        let left = b.ec2.dump()["volumes"].as_array().unwrap().clone();
        let left: Vec<_> = left.iter().filter(|v| v["tags"].get("CSIVolumeName").is_some()).collect();
        assert!(left.iter().all(|v| v["state"] == "deleting"), "{left:#?}");
    });
}
