//! Every row of the fault catalogue has its effect: each operation, moment and effect is tried once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_disk::faults::DISK;
use csi_disk::{Disk, DiskError, GroupChange, Mapping, MemoryDisks, Plug, Publish, RawDevice, Stage};
use csi_mock::capabilities::Capabilities;
use csi_mock::faults::{CONTROLLER, IDENTITY, NODE_SERVICE, OPERATIONS, REGISTRATION};
use csi_mock::registration;
use csi_proto::Channel;
use csi_proto::csi::snapshot_metadata_client::SnapshotMetadataClient;
use csi_proto::csi::*;
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, RegistrationStatus};
use serde_json::{Value, json};
use substrate::events::FaultFired;
use substrate::fault::catalogue::{ALL, Operation, Possible, Values};
use substrate::fault::{Fault, Kind, Moment, Plane};
use substrate::process::Process;
use substrate::world::{Options, World, simulate};
use tonic::{Code, Status};

use super::restart::{Made, STEPS, rpc, state, step};
use crate::bench::*;

/// Effects that falsify the answer of a call, which succeeds.
const FALSIFIES: &[Kind] = &[
    Kind::WrongDevice,
    Kind::OmitEntry,
    Kind::RepeatEntry,
    Kind::NoContext,
    Kind::WrongCapacity,
    Kind::WrongNode,
    Kind::WrongZone,
];

/// Builds a fault of a row, with a valid value.
fn fault(operation: &Operation, possible: &Possible, at: Moment) -> Fault {
    let value = match possible.values {
        Values::Flag => json!(true),
        Values::Span => json!("7s"),
        Values::Number { least, most } => json!(least.midpoint(most)),
        Values::OneOf(words) | Values::Folded(words) => json!(words[operation.name.len() % words.len()]),
        Values::Text => json!("SomeWord"),
        Values::Process => json!("self"),
        other => panic!("{other:?} is not a value of these planes"),
    };
    serde_json::from_value(json!({
        "name": "row",
        "match": { "plane": operation.plane, "op": operation.name },
        "when": { "first": 1 },
        "effect": { (possible.effect.name()): value },
        "at": at,
    }))
    .unwrap()
}

/// Returns all rows of an operation except those for machines, which other tests cover.
fn rows(operation: &'static Operation) -> impl Iterator<Item = (Possible, Moment)> {
    let rows = operation.possible().filter(|p| p.effect != Kind::Reboot);
    rows.flat_map(|possible| possible.at.iter().map(move |at| (possible, *at)).collect::<Vec<_>>())
}

/// Result and duration of a call with a fault. It is abandoned after a day; a hang is released after an hour.
struct Met<E> {
    result: Option<Result<(), E>>,
    took: Duration,
}

async fn meet<E>(world: &World, fault: Fault, work: impl Future<Output = Result<(), E>>) -> Met<E> {
    let (hangs, what) = (fault.effect.kind() == Kind::Hang, format!("{:?} at {:?}", fault.matches.op, fault.effect));
    let before = world.trace().events().iter().filter(|e| e.is::<FaultFired>()).count();
    let clock = world.clock().clone();
    world.faults().add(clock.mono(), fault).unwrap();
    let began = clock.mono();
    let freed = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        if hangs {
            assert_eq!(world.faults().remove("row").map(|report| report.hits), Some(1));
        }
        std::future::pending::<()>().await;
    };
    let day = Duration::from_secs(24 * 3600);
    let result = tokio::select! { biased;
        result = tokio::time::timeout(day, work) => result.ok(),
        () = freed => None,
    };
    let fired = world.trace().events().iter().filter(|e| e.is::<FaultFired>()).count();
    assert_eq!(fired, before + 1, "{what} fired");
    world.faults().clear(None);
    Met { result, took: clock.mono() - began }
}

/// Returns the step that calls this RPC; None for calls that only read.
fn step_of(name: &str) -> Option<usize> {
    STEPS.iter().position(|s| rpc(s) == name)
}

/// Makes a call that only reads objects of the steps.
async fn look(b: &Bench, name: &str, made: &Made) -> Result<(), Status> {
    let volume_id = made.volume.clone();
    match name {
        "GetPluginInfo" => drop(b.identity().get_plugin_info(GetPluginInfoRequest {}).await?),
        "GetPluginCapabilities" => {
            drop(b.identity().get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await?);
        }
        "Probe" => drop(b.identity().probe(ProbeRequest {}).await?),
        "ValidateVolumeCapabilities" => {
            let volume_capabilities = vec![b.writer().unwrap()];
            let request = ValidateVolumeCapabilitiesRequest { volume_id, volume_capabilities, ..Default::default() };
            drop(b.controller().validate_volume_capabilities(request).await?);
        }
        "GetCapacity" => drop(b.controller().get_capacity(GetCapacityRequest::default()).await?),
        "ListSnapshots" => drop(b.controller().list_snapshots(ListSnapshotsRequest::default()).await?),
        "GetSnapshot" => {
            let request = GetSnapshotRequest { snapshot_id: made.snapshot.clone(), ..Default::default() };
            drop(b.controller().get_snapshot(request).await?);
        }
        "ControllerGetVolume" => {
            drop(b.controller().controller_get_volume(ControllerGetVolumeRequest { volume_id }).await?);
        }
        "ControllerGetCapabilities" => {
            drop(b.controller().controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await?);
        }
        "GroupControllerGetCapabilities" => {
            drop(b.group().group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest {}).await?);
        }
        "GetVolumeGroupSnapshot" => {
            let request = GetVolumeGroupSnapshotRequest { group_snapshot_id: made.group.clone(), ..Default::default() };
            drop(b.group().get_volume_group_snapshot(request).await?);
        }
        "GetMetadataAllocated" => {
            let request = GetMetadataAllocatedRequest { snapshot_id: made.snapshot.clone(), ..Default::default() };
            let mut client = SnapshotMetadataClient::new(Channel(b.service.clone()));
            drop(client.get_metadata_allocated(request).await?);
        }
        "GetMetadataDelta" => {
            let (base_snapshot_id, target_snapshot_id) = (made.snapshot.clone(), made.snapshot.clone());
            let request = GetMetadataDeltaRequest { base_snapshot_id, target_snapshot_id, ..Default::default() };
            let mut client = SnapshotMetadataClient::new(Channel(b.service.clone()));
            drop(client.get_metadata_delta(request).await?);
        }
        "NodeGetCapabilities" => drop(b.node().node_get_capabilities(NodeGetCapabilitiesRequest {}).await?),
        "NodeGetInfo" => drop(b.node().node_get_info(NodeGetInfoRequest {}).await?),
        other => panic!("not called: {other}"),
    }
    Ok(())
}

/// Runs the steps up to a call, applies these rows to the call and its repeats, and returns the final state. `made`:
/// make the call once more, without a fault.
fn fault_value(operation: &'static Operation, rows: &[(Possible, Moment)], made: bool) -> Value {
    let (fault_value, name) = (std::cell::RefCell::new(Value::Null), operation.name);
    once(false, Capabilities::all(), async |b| {
        let mut objects = Made::default();
        // Calls that only read are made when there is most to see.
        for earlier in &STEPS[..step_of(name).unwrap_or(10)] {
            step(&b, earlier, &mut objects).await.unwrap();
        }
        if step_of(name).is_none() {
            // By then snapshots are completed.
            b.ctx.sleep(Duration::from_secs(24 * 3600)).await;
        }
        let call = async |objects: &mut Made| match step_of(name) {
            Some(last) => step(&b, STEPS[last], objects).await,
            None => look(&b, name, objects).await,
        };
        for (possible, at) in rows {
            let row = format!("{name} {:?} {at:?}", possible.effect);
            let fault = fault(operation, possible, *at);
            check_call(&row, &fault, &meet(&b.world, fault.clone(), call(&mut objects)).await);
        }
        if made {
            call(&mut objects).await.unwrap();
        }
        // By then all transitions of the cloud have ended.
        b.ctx.sleep(Duration::from_secs(5 * 24 * 3600)).await;
        *fault_value.borrow_mut() = state(&b).await;
    });
    fault_value.into_inner()
}

fn check_call(row: &str, fault: &Fault, met: &Met<Status>) {
    let ended = |code: Code| {
        let status = met.result.as_ref().unwrap_or_else(|| panic!("{row} ends")).as_ref().unwrap_err();
        assert_eq!(status.code(), code, "{row}: {status}");
        status.message().to_owned()
    };
    let effect = serde_json::to_value(&fault.effect).unwrap();
    let value = &effect[fault.effect.name()];
    match fault.effect.kind() {
        Kind::Grpc => drop(ended(csi_mock::calls::code_by_name(value.as_str().unwrap()).unwrap())),
        Kind::Error => assert!(ended(Code::Internal).contains("SomeWord"), "{row}"),
        Kind::Http => assert!(ended(Code::Unavailable).contains("499"), "{row}"),
        Kind::DropRequest | Kind::DropReply | Kind::ResetStream => drop(ended(Code::Unavailable)),
        Kind::Crash => assert!(met.result.is_none(), "{row} never answers"),
        Kind::Delay => assert!(matches!(met.result, Some(Ok(()))) && met.took >= Duration::from_secs(7), "{row}"),
        Kind::Hang => assert!(met.result.is_some() && met.took >= Duration::from_secs(3600), "{row} is freed"),
        Kind::Count => assert!(matches!(met.result, Some(Ok(()))), "{row}"),
        kind if FALSIFIES.contains(&kind) => assert!(matches!(met.result, Some(Ok(()))), "{row}"),
        other => panic!("{row}: {other:?} cannot happen to a call"),
    }
}

/// Returns true if a call with this row ends without its effect.
fn prevents((possible, at): &(Possible, Moment)) -> bool {
    *at == Moment::Before && fails(possible) && possible.effect != Kind::DropReply
}

fn fails(possible: &Possible) -> bool {
    let harmless = [Kind::Delay, Kind::Hang, Kind::Count];
    !harmless.contains(&possible.effect) && !FALSIFIES.contains(&possible.effect)
}

#[test]
fn each_row_of_a_call_does_what_it_says() {
    let mut seen = 0;
    for operation in [IDENTITY, CONTROLLER, NODE_SERVICE].into_iter().flatten() {
        let all: Vec<_> = rows(operation).collect();
        seen += all.len();
        if !operation.moments.contains(&Moment::AfterEffect) {
            // A cloud without files has no blocks, so these calls never get beyond their start.
            let blocks = operation.name.starts_with("GetMetadata");
            let all: Vec<_> = all.into_iter().filter(|row| !blocks || prevents(row)).collect();
            fault_value(operation, &all, !blocks);
            continue;
        }
        let (without, with) = (fault_value(operation, &[], false), fault_value(operation, &[], true));
        let (preventing, others): (Vec<_>, Vec<_>) = all.into_iter().partition(prevents);
        assert_eq!(fault_value(operation, &preventing, false), without, "{} is not done", operation.name);
        let (failing, done): (Vec<_>, Vec<_>) = others.into_iter().partition(|(possible, _)| fails(possible));
        assert_eq!(fault_value(operation, &done, false), with, "{} is done", operation.name);
        for at in ALL {
            let failing: Vec<_> = failing.iter().filter(|(_, moment)| moment == at).copied().collect();
            let then = fault_value(operation, &failing, false);
            // The tags of a modification are set after its effect.
            if (operation.name, *at) != ("ControllerModifyVolume", Moment::AfterEffect) {
                assert_eq!(then, with, "{} fails and is done, {at:?}", operation.name);
            }
        }
    }
    assert!(seen > 500, "{seen} rows");
}

#[test]
fn each_row_of_the_registration_does_what_it_says() {
    for operation in REGISTRATION {
        for (possible, at) in rows(operation) {
            let row = format!("{} {:?} {at:?}", operation.name, possible.effect);
            let fault = fault(operation, &possible, at);
            simulate(Options::default(), async |world| {
                let process = Process::start(&world, "csi", |_| std::future::pending());
                let service = registration::start(&process.ctx().unwrap(), "ebs.csi.aws.com", "/csi.sock");
                let mut client = RegistrationClient::new(Channel(service));
                let call = async {
                    match operation.name {
                        "GetInfo" => client.get_info(InfoRequest {}).await.map(drop),
                        _ => {
                            let status = RegistrationStatus { plugin_registered: true, error: String::new() };
                            client.notify_registration_status(status).await.map(drop)
                        }
                    }
                };
                check_call(&row, &fault, &meet(&world, fault.clone(), call).await);
            });
        }
    }
}

/// A node's disk with two volumes: one with a filesystem, one raw device.
struct Rig {
    world: World,
    disks: MemoryDisks,
    /// Without faults.
    bare: Arc<dyn Disk>,
    disk: Arc<dyn Disk>,
    raw: Option<Arc<dyn RawDevice>>,
}

const FILES: &str = "vol-0aaaaaaaaaaaaaaaa";
const BYTES: &str = "vol-0bbbbbbbbbbbbbbbb";
const LATER: &str = "vol-0cccccccccccccccc";
const STAGED: &str = "/s";

fn plug_of(volume: &str, device: &str) -> Plug {
    Plug { volume: volume.into(), device: device.into(), file: "f".into(), size_bytes: 1 << 20 }
}

fn mapping() -> Mapping {
    Mapping { volume: BYTES.into(), device: "/p/raw".into(), global: "/g/dev".into(), link: "/p/link".into() }
}

impl Rig {
    async fn new(world: &World, operation: &str) -> Self {
        let process = Process::start(world, "node-a", |_| std::future::pending());
        let disks = MemoryDisks::new();
        let bare = disks.node("node-a");
        for dir in ["/p", "/empty"] {
            bare.make_dir(Path::new(dir)).await.unwrap();
        }
        bare.plug(&plug_of(FILES, "/dev/xvdaa")).await.unwrap();
        bare.plug(&plug_of(BYTES, "/dev/xvdab")).await.unwrap();
        if operation != "stage" {
            let stage = Stage { volume: FILES.into(), path: STAGED.into(), fs_type: "ext4".into(), ..Stage::default() };
            bare.stage(&stage).await.unwrap();
            bare.write(Path::new("/s/file"), b"old").await.unwrap();
            bare.append(Path::new("/s/file"), b"new").await.unwrap();
        }
        bare.write(Path::new("/p/small"), b"x").await.unwrap();
        if operation == "unpublish" {
            bare.publish(&publish()).await.unwrap();
        }
        let device = Publish { volume: BYTES.into(), path: "/p/raw".into(), block: true, ..Publish::default() };
        bare.publish(&device).await.unwrap();
        if operation == "expand" {
            bare.resize(FILES, 2 << 20).await.unwrap();
        }
        let disk = csi_disk::faulty(&process.ctx().unwrap(), bare.clone());
        let opened = matches!(operation, "read_at" | "write_at" | "unmap");
        let raw = if opened { Some(disk.map(&mapping()).await.unwrap()) } else { None };
        Self { world: world.clone(), disks, bare, disk, raw }
    }

    /// Performs an operation, and marks it as done if that is the caller's task.
    async fn act(&self, operation: &'static str) -> Result<(), DiskError> {
        self.operate(operation).await?;
        if !csi_disk::EMITTING.contains(&operation) {
            return Ok(());
        }
        let (volume, path) = match operation {
            "plug" => (LATER, "/dev/xvdac"),
            "publish" | "unpublish" => (FILES, "/p/mount"),
            "unplug" | "resize" => (FILES, ""),
            _ => (FILES, STAGED),
        };
        self.disk.done(operation, volume, Path::new(path)).await
    }

    async fn operate(&self, operation: &str) -> Result<(), DiskError> {
        let (disk, file, staged) = (&self.disk, Path::new("/s/file"), Path::new(STAGED));
        let raw = || self.raw.clone().unwrap();
        match operation {
            "plug" => disk.plug(&plug_of(LATER, "/dev/xvdac")).await.map(drop),
            "unplug" => disk.unplug(FILES, true).await.map(drop),
            "resize" => disk.resize(FILES, 2 << 20).await.map(drop),
            "find" => disk.find(FILES).await.map(drop),
            "stage" => {
                let stage =
                    Stage { volume: FILES.into(), path: STAGED.into(), fs_type: "ext4".into(), ..Stage::default() };
                disk.stage(&stage).await.map(drop)
            }
            "unstage" => disk.unstage(FILES, staged).await.map(drop),
            "publish" => disk.publish(&publish()).await.map(drop),
            "unpublish" => disk.unpublish(FILES, Path::new("/p/mount")).await.map(drop),
            "map" => disk.map(&mapping()).await.map(drop),
            "unmap" => disk.unmap(&mapping()).await,
            "expand" => disk.expand(FILES, staged).await.map(drop),
            "give" => disk.give(staged, GroupChange { group: 7, always: true }).await,
            "usage" => disk.usage(staged).await.map(drop),
            "make_dir" => disk.make_dir(Path::new("/made")).await,
            "remove_dir" => disk.remove_dir(Path::new("/empty")).await,
            "list_dir" => disk.list_dir(staged).await.map(drop),
            "append" => disk.append(file, b"0123456789").await,
            "write" => disk.write(Path::new("/p/small"), b"y").await,
            "sync" => disk.sync(file).await,
            "read" => disk.read(file).await.map(drop),
            "remove_file" => disk.remove_file(Path::new("/p/small")).await,
            "read_at" => raw().read_at(0, 4).await.map(drop),
            "write_at" => raw().write_at(0, b"0123456789").await,
            other => panic!("not done: {other}"),
        }
    }

    /// Returns the state of the disk.
    async fn state(&self) -> Value {
        let text = |bytes: Option<Vec<u8>>| bytes.map(|b| String::from_utf8_lossy(&b).into_owned());
        let opened = match &self.raw {
            Some(raw) => raw.read_at(0, 12).await.ok(),
            None => None,
        };
        json!({
            "devices": self.bare.devices().await.unwrap(),
            "mounts": self.bare.mounts().await.unwrap(),
            "root": self.bare.list_dir(Path::new("/")).await.unwrap(),
            "file": self.bare.read(Path::new("/s/file")).await.ok().map(text),
            "small": self.bare.read(Path::new("/p/small")).await.ok().map(text),
            "durable": text(self.disks.durable(FILES, "file")),
            "group": self.disks.group(FILES),
            "size": self.bare.usage(Path::new(STAGED)).await.ok().map(|u| u.total_bytes),
            "raw": text(opened),
        })
    }
}

fn publish() -> Publish {
    Publish { volume: FILES.into(), staging_path: STAGED.into(), path: "/p/mount".into(), ..Publish::default() }
}

fn check_disk(row: &str, fault: &Fault, met: &Met<DiskError>, states: (&Value, &Value, &Value)) {
    let (without, with, then) = states;
    let failed = || met.result.as_ref().and_then(|r| r.as_ref().err()).unwrap_or_else(|| panic!("{row} fails"));
    let done = fault.at == Moment::AfterEffect;
    match fault.effect.kind() {
        Kind::IoError | Kind::Error => {
            assert!(matches!(failed(), DiskError::Io { .. }), "{row}");
            assert_eq!(then, if done { with } else { without }, "{row}");
        }
        Kind::WrongDevice => {
            assert!(matches!(failed(), DiskError::NotOurs { .. }), "{row}");
            assert_eq!(then, without, "{row}");
        }
        Kind::TornWrite => {
            assert!(failed().is_eio() && then != without && then != with, "{row}: half of it");
        }
        Kind::LoseUnsynced => {
            assert!(matches!(met.result, Some(Ok(()))) && then == without && then != with, "{row}: nothing of it");
        }
        Kind::PauseIo | Kind::Delay => {
            assert_eq!((met.took, then), (Duration::from_secs(7), with), "{row}");
        }
        Kind::Hang => assert_eq!((met.took, then), (Duration::from_secs(3600), with), "{row} is freed"),
        Kind::Count => assert!(matches!(met.result, Some(Ok(()))) && then == with, "{row}"),
        Kind::Crash => {
            assert!(met.result.is_none(), "{row} never answers");
            assert_eq!(then, if done { with } else { without }, "{row}");
        }
        other => panic!("{row}: {other:?} cannot happen to a disk"),
    }
}

#[test]
fn each_row_of_the_disk_does_what_it_says() {
    for operation in DISK {
        let run = |fault: Option<Fault>, acts: bool| {
            simulate(Options::default(), async |world| {
                let rig = Rig::new(&world, operation.name).await;
                let met = match fault {
                    Some(fault) => Some(meet(&rig.world, fault, rig.act(operation.name)).await),
                    None if acts => {
                        rig.act(operation.name).await.unwrap();
                        None
                    }
                    None => None,
                };
                (met, rig.state().await)
            })
        };
        let ((_, without), (_, with)) = (run(None, false), run(None, true));
        let looks = ["find", "usage", "list_dir", "read", "read_at"];
        assert_eq!(without == with, looks.contains(&operation.name), "{}", operation.name);
        for (possible, at) in rows(operation) {
            let row = format!("{} {:?} {at:?}", operation.name, possible.effect);
            let fault = fault(operation, &possible, at);
            let (met, then) = run(Some(fault.clone()), true);
            check_disk(&row, &fault, &met.unwrap(), (&without, &with, &then));
        }
    }
}

fn refused(fault: Value) -> (String, Option<String>) {
    simulate(Options::default(), async |world| {
        world.faults().declare(OPERATIONS);
        let fault: Fault = serde_json::from_value(fault).unwrap();
        let mistake = world.faults().add(Duration::ZERO, fault).unwrap_err();
        (mistake.field, mistake.nearest)
    })
}

#[test]
fn an_impossible_fault_is_refused_with_its_field_and_nearest_word() {
    let fault = |plane: &str, op: &str, at: &str, effect: Value| {
        refused(json!({ "name": "f", "match": { "plane": plane, "op": op }, "at": at, "effect": effect }))
    };
    let near = |word: &str| Some(word.to_owned());
    let (stage, before) = ("NodeStageVolume", "before");
    assert_eq!(fault("csi", stage, before, json!({ "grpc": "ABORTD" })), ("effect.grpc".into(), near("ABORTED")));
    assert_eq!(fault("csi", stage, before, json!({ "grpc": "OK" })).0, "effect.grpc");
    assert_eq!(
        fault("csi", "NodeStageVolum", before, json!({ "hang": true })),
        ("match.op".into(), near("NodeStageVolume"))
    );
    assert_eq!(fault("csi", stage, before, json!({ "wrong_device": true })).0, "effect.wrong_device");
    assert_eq!(fault("csi", "ControllerPublishVolume", "before_reply", json!({ "wrong_device": true })).0, "at");
    assert_eq!(fault("csi", stage, "after_effect", json!({ "drop_request": true })).0, "at");
    assert_eq!(fault("csi", "ListVolumes", "after_effect", json!({ "grpc": "ABORTED" })).0, "at");
    assert_eq!(fault("csi", stage, before, json!({ "stale_read": 3 })).0, "effect.stale_read");
    assert_eq!(
        fault("disk", "append", before, json!({ "io_error": "ENOSPACE" })),
        ("effect.io_error".into(), near("ENOSPC"))
    );
    assert_eq!(fault("disk", "sync", before, json!({ "torn_write": true })).0, "effect.torn_write");
    assert_eq!(fault("disk", "read", before, json!({ "lose_unsynced": true })).0, "effect.lose_unsynced");
    assert_eq!(fault("disk", "append", before, json!({ "wrong_device": true })).0, "effect.wrong_device");
    assert_eq!(fault("disk", "append", "after_effect", json!({ "torn_write": true })).0, "at");
    assert_eq!(fault("disk", "append", "before_reply", json!({ "io_error": "EIO" })).0, "at");
    let attribute = json!({
        "name": "f", "match": { "plane": "csi", "op": "NodeStageVolume", "where": { "volum": "vol-1" } },
        "effect": { "hang": true },
    });
    assert_eq!(refused(attribute), ("match.where.volum".into(), near("volume")));
    // Case and underscores of a code are ignored.
    simulate(Options::default(), async |world| {
        world.faults().declare(OPERATIONS);
        let fault = json!({ "name": "f", "match": { "plane": "csi" }, "effect": { "grpc": "FailedPrecondition" } });
        world.faults().add(Duration::ZERO, serde_json::from_value(fault).unwrap()).unwrap();
    });
}

#[test]
fn each_operation_is_listed_once_and_described() {
    let names: BTreeSet<_> = OPERATIONS.iter().map(|o| (o.plane, o.name)).collect();
    assert_eq!(names.len(), OPERATIONS.len());
    assert_eq!(OPERATIONS.len(), [IDENTITY, CONTROLLER, NODE_SERVICE, REGISTRATION, DISK].concat().len());
    for operation in OPERATIONS {
        assert!(matches!(operation.plane, Plane::Csi | Plane::Disk) && !operation.about.is_empty());
        assert!(operation.possible().all(|p| p.at.iter().all(|m| operation.moments.contains(m))), "{}", operation.name);
    }
}
