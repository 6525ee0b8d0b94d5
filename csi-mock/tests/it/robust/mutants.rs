//! Seeded bugs of the driver: with the feature each changes the result of a test, without it none does.

use std::collections::BTreeSet;
use std::path::Path;

use csi_mock::capabilities::Capabilities;
use csi_mock::events::DiskUnstaged;
use csi_mock::mutants::MUTANTS;
use csi_proto::csi::*;
use substrate::world::Options;

use crate::bench::*;

const FILE: &str = "/pods/p/mount/f";

/// Observations on a volume that a pod wrote to, after all calls succeeded.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Remaining mounts.
    mounts: usize,
    /// True if the staging and the target directory can be removed.
    staging_goes: bool,
    target_goes: bool,
    /// Bytes that were synced and are durable.
    bytes: Option<Vec<u8>>,
    unstaged: usize,
    /// True if the cloud has the attachment right after the answer, and a minute later.
    attached: bool,
    attached_later: bool,
}

async fn is_attached(b: &Bench) -> bool {
    let attached = |v: &serde_json::Value| v["attachments"].as_object().is_some_and(|a| !a.is_empty());
    b.ec2.dump()["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|v| v["tags"].get("CSIVolumeName").is_some())
        .any(attached)
}

fn seen(mutant: Option<&str>) -> Seen {
    let mutants: BTreeSet<String> = mutant.map(str::to_owned).into_iter().collect();
    let out = std::cell::RefCell::new(Seen::default());
    once_with(Options { mutants, ..Options::default() }, false, Capabilities::all(), async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        b.stage(&volume).await;
        b.publish(&volume).await;
        let disk = csi_disk::faulty(&b.ctx, b.disk.clone());
        disk.append(Path::new(FILE), b"record").await.unwrap();
        disk.sync(Path::new(FILE)).await.unwrap();
        b.unpublish(&volume).await;
        let target_goes = b.disk.remove_dir(Path::new(TARGET)).await.is_ok();
        let request = NodeUnstageVolumeRequest { volume_id: volume.clone(), staging_target_path: STAGING.into() };
        b.node().node_unstage_volume(request).await.unwrap();
        let staging_goes = b.disk.remove_dir(Path::new(STAGING)).await.is_ok();
        let request =
            ControllerUnpublishVolumeRequest { volume_id: volume.clone(), node_id: b.node_id(), ..Default::default() };
        b.controller().controller_unpublish_volume(request).await.unwrap();
        let attached = is_attached(&b).await;
        b.ctx.sleep(std::time::Duration::from_secs(60)).await;
        let events = b.world.trace().events();
        *out.borrow_mut() = Seen {
            mounts: b.disk.mounts().await.unwrap().len(),
            staging_goes,
            target_goes,
            bytes: b.disks.durable(&volume, "f"),
            unstaged: events.iter().filter(|e| e.is::<DiskUnstaged>()).count(),
            attached,
            attached_later: is_attached(&b).await,
        };
    });
    out.into_inner()
}

fn right() -> Seen {
    Seen {
        mounts: 0,
        staging_goes: true,
        target_goes: true,
        bytes: Some(b"record".to_vec()),
        unstaged: 1,
        attached: false,
        attached_later: false,
    }
}

#[test]
fn without_one_all_is_right() {
    assert_eq!(seen(None), right());
    if !substrate::mutant::BUILT_IN {
        for mutant in MUTANTS {
            assert_eq!(seen(Some(mutant.name)), right(), "{} is not built in", mutant.name);
        }
    }
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn each_does_what_it_says_and_nothing_else() {
    for mutant in MUTANTS {
        let wrong = match mutant.name {
            // The machine keeps a mounted device, so the cloud detaches it only by force.
            "unstage-forgets-unmount" => continue,
            // They show only after leftovers or an earlier error.
            "publish-trusts-directory" | "formats-after-error" | "device-by-name" => continue,
            // They show only after a failed detach, which the search tests: two of them end the process of a test.
            "panics-on-failed-detach" | "retries-without-wait" | "failed-calls-pile-up" => continue,
            // It shows in the node's requests.
            "names-another-device" => continue,
            // Nothing grows here; harness/tests/it/mutants/scenarios.rs grows a claim.
            "expand-answers-early" | "expand-not-asked" | "expansion-needs-no-node" | "modify-not-asked" => continue,
            // They show in the volume's properties, in the mounts or in the limit: harness/tests/it/mutants/ compares these.
            "iops-dropped" | "zone-told-not-made" | "capacity-told-not-made" | "source-dropped" => continue,
            "read-only-ignored" | "mount-flags-ignored" | "fs-type-ignored" | "formats-each-time" => continue,
            "first-device-taken" | "limit-not-told" | "attach-limit-ignored" => continue,
            "unpublish-forgets-unmount" | "attach-is-not-waited-for" => continue,
            // harness/tests/it/mutants/shipped.rs has the scenario that shows each.
            "tags-dropped" | "topology-not-told" | "delete-not-asked" | "multi-attach-dropped" => continue,
            "stuck-attach-left" | "failed-stage-stays-mounted" | "raw-sync-does-nothing" => continue,
            "access-point-shared" | "access-point-not-adopted" | "access-point-left" => continue,
            "gid-shared" | "unknown-unpublish-fails" => continue,
            "volume-context-dropped" | "iops-not-raised-with-size" | "pending-snapshot-told-ready" => continue,
            "preferred-zone-ignored" | "expansion-is-not-waited-for" | "unpublish-takes-every-target" => continue,
            // They need a repeat, a snapshot, a share, a modification, or a slow cloud.
            "snapshot-taken-again"
            | "throughput-not-modified"
            | "share-read-only-ignored"
            | "share-mount-option-dropped" => continue,
            "slow-detach-told-done" | "restaged-volume-refused" | "slow-creation-fails" => continue,
            // They need a repeated call, and a node that is full.
            "repeated-unpublish-refused" | "limit-told-too-high" => continue,
            // They need a busy device, a growing volume, a class of attributes, or a clone.
            "busy-told-detached" | "pending-modification-trusted" | "tag-only-change-skipped" => continue,
            "clone-zone-not-checked" | "failed-modification-told-done" => continue,
            // They need a volume that is attached by hand, or zones.
            "delete-in-use-told-done" | "capacity-of-all-zones" => continue,
            // They need an expansion, a group, a range of groups, or an attachment that takes long.
            "expansion-rounded-down" | "group-ready-with-first-member" | "last-gid-refused" => continue,
            "listed-volume-taken-for-attached" => continue,
            // It shows in the size of the volume.
            "size-in-decimal-gigabytes" => continue,
            // They need a second pod, a failed attachment, a second snapshot, a growing device, or a class with options.
            "second-target-refused" | "lock-kept-after-failed-publish" | "second-snapshot-is-the-first" => continue,
            "node-expansion-asked-for-raw-device" | "format-options-dropped" => continue,
            // It needs a snapshot: harness/tests/it/mutants/snapshots.rs has one.
            "snapshot-delete-not-asked" => continue,
            // The files features/attach-beside-a-slow-one and volume-enlarged-in-the-cloud.
            "name-of-finished-attach-reused" | "larger-volume-told-as-asked" => continue,
            // The file features/detach-that-the-cloud-refuses-again.
            "refused-detach-told-done" => continue,
            // They need an error of the cloud, a full zone, taken names, other capabilities, or a class with parameters.
            "refused-value-told-internal" | "full-instance-told-internal" | "zone-capacity-not-checked" => continue,
            "refused-name-forgotten" | "published-volume-grown" | "inode-size-given-as-ratio" => continue,
            "type-not-modified" | "tag-not-removed" => continue,
            "unstage-leaves-directory" => Seen { staging_goes: false, ..right() },
            "unpublish-leaves-directory" => Seen { target_goes: false, ..right() },
            "sync-does-nothing" => Seen { bytes: None, ..right() },
            "unpublish-answers-early" => Seen { attached: true, attached_later: true, ..right() },
            "detach-is-not-waited-for" => Seen { attached: true, ..right() },
            other => panic!("not tested: {other}"),
        };
        assert_eq!(seen(Some(mutant.name)), wrong, "{}", mutant.about);
    }
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_forgotten_unmount_leaves_the_mount_behind_an_answer_of_ok() {
    let mutants = BTreeSet::from(["unstage-forgets-unmount".to_owned()]);
    once_with(Options { mutants, ..Options::default() }, false, Capabilities::all(), async |b| {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        b.stage(&volume).await;
        let request = NodeUnstageVolumeRequest { volume_id: volume.clone(), staging_target_path: STAGING.into() };
        b.node().node_unstage_volume(request).await.unwrap();
        assert_eq!(b.disk.mounts().await.unwrap().len(), 1);
        assert!(!b.world.trace().events().iter().any(|e| e.is::<DiskUnstaged>()), "the trace does not lie");
    });
}

/// Returns the results of `test` without and with the seeded bug.
#[cfg(any(debug_assertions, feature = "mutants"))]
fn both<F: Future<Output = T>, T: Default>(mutant: &str, test: impl Fn(Bench) -> F) -> (T, T) {
    assert!(MUTANTS.iter().any(|known| known.name == mutant), "{mutant} is not listed");
    let with = |mutants: BTreeSet<String>| {
        let out = std::cell::RefCell::new(T::default());
        let reported = &out;
        once_with(Options { mutants, ..Options::default() }, false, Capabilities::all(), async |b| {
            *reported.borrow_mut() = test(b).await;
        });
        out.into_inner()
    };
    (with(BTreeSet::new()), with(BTreeSet::from([mutant.to_owned()])))
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_target_directory_is_taken_for_a_mount() {
    let mounts = both("publish-trusts-directory", |b| async move {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        b.stage(&volume).await;
        b.disk.make_dir(Path::new(TARGET)).await.unwrap();
        b.publish(&volume).await;
        b.disk.mounts().await.unwrap().len()
    });
    assert_eq!(mounts, (2, 1));
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_device_is_named_that_is_another() {
    let differs = both("names-another-device", |b| async move {
        let volume = b.volume("v", 1).await;
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.clone(),
            node_id: b.node_id(),
            volume_capability: b.writer(),
            ..Default::default()
        };
        let answer = b.controller().controller_publish_volume(request).await.unwrap().into_inner();
        let state = b.ec2.dump();
        let volumes = state["volumes"].as_array().unwrap();
        let of = volumes.iter().find(|of| of["id"] == volume.as_str()).unwrap();
        let (_, attachment) = of["attachments"].as_object().unwrap().iter().next().unwrap();
        attachment["device"] != answer.publish_context["devicePath"].as_str()
    });
    assert_eq!(differs, (false, true));
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_device_that_could_not_be_looked_at_is_made_empty() {
    use substrate::fault::{Effect, Fault, Lease, Match, Moment, Plane, When};
    let bytes = both("formats-after-error", |b| async move {
        let volume = b.volume("v", 1).await;
        b.attach(&volume).await;
        b.stage(&volume).await;
        b.publish(&volume).await;
        b.disk.append(Path::new(FILE), b"record").await.unwrap();
        b.disk.sync(Path::new(FILE)).await.unwrap();
        b.unpublish(&volume).await;
        let unstage = || NodeUnstageVolumeRequest { volume_id: volume.clone(), staging_target_path: STAGING.into() };
        b.node().node_unstage_volume(unstage()).await.unwrap();
        let fault = Fault {
            name: "unreadable".to_owned(),
            matches: Match { plane: Plane::Disk, op: Some("stage".into()), attributes: Default::default() },
            when: When { first: Some(1), ..When::default() },
            effect: Effect::IoError("EIO".to_owned()),
            at: Moment::Before,
            lease: Lease::default(),
        };
        b.world.faults().add(b.world.clock().mono(), fault).unwrap();
        let request = NodeStageVolumeRequest {
            volume_id: volume.clone(),
            staging_target_path: STAGING.into(),
            volume_capability: b.writer(),
            ..Default::default()
        };
        let staged = b.node().node_stage_volume(request.clone()).await.is_ok();
        if !staged {
            b.node().node_stage_volume(request).await.unwrap();
        }
        b.node().node_unstage_volume(unstage()).await.unwrap();
        (staged, b.disks.durable(&volume, "f"))
    });
    assert_eq!(bytes, ((false, Some(b"record".to_vec())), (true, None)));
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_volume_that_comes_back_under_another_name_is_taken_for_what_has_its_old_one() {
    let bytes = both("device-by-name", |b| async move {
        let unstage = |volume: &str| NodeUnstageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: STAGING.into(),
        };
        let detach = |volume: &str| ControllerUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            node_id: b.node_id(),
            ..Default::default()
        };
        let (one, two) = (b.volume("one", 1).await, b.volume("two", 1).await);
        b.attach(&one).await;
        b.stage(&one).await;
        b.node().node_unstage_volume(unstage(&one)).await.unwrap();
        b.controller().controller_unpublish_volume(detach(&one)).await.unwrap();
        // The machine gets the event, and the other volume gets the name.
        let hears = || b.ctx.sleep(std::time::Duration::from_secs(1));
        hears().await;
        b.attach(&two).await;
        b.attach(&one).await;
        hears().await;
        b.stage(&one).await;
        b.disk.mounts().await.unwrap().iter().map(|mount| mount.volume == one).collect::<Vec<_>>()
    });
    assert_eq!(bytes, (vec![true], vec![false]));
}
