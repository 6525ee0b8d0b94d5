//! GroupController Service: 6 cases, and the life of a group, which csi-sanity omits.

use csi_mock::capabilities::Feature;
use csi_proto::csi::group_controller_service_capability::{Type, rpc};
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

const NEEDS: [Feature; 2] = [Feature::GroupControllerService, Feature::CreateDeleteGetVolumeGroupSnapshot];

fn create(name: &str, volumes: &[&String]) -> CreateVolumeGroupSnapshotRequest {
    let source_volume_ids = volumes.iter().map(|v| (*v).clone()).collect();
    CreateVolumeGroupSnapshotRequest { name: name.into(), source_volume_ids, ..Default::default() }
}

async fn delete(b: &Bench, id: &str) -> Code {
    let request = DeleteVolumeGroupSnapshotRequest { group_snapshot_id: id.into(), ..Default::default() };
    code(b.group().delete_volume_group_snapshot(request).await)
}

async fn get(b: &Bench, id: &str) -> Code {
    let request = GetVolumeGroupSnapshotRequest { group_snapshot_id: id.into(), ..Default::default() };
    code(b.group().get_volume_group_snapshot(request).await)
}

#[test]
fn group_controller_get_capabilities_should_return_appropriate_capabilities() {
    case(&NEEDS, async |b| {
        let request = GroupControllerGetCapabilitiesRequest {};
        let reported = b.group().group_controller_get_capabilities(request).await.unwrap().into_inner();
        let Type::Rpc(only) = reported.capabilities[0].r#type.unwrap();
        assert_eq!(only.r#type(), rpc::Type::CreateDeleteGetVolumeGroupSnapshot);
    });
}

#[test]
fn create_volume_group_snapshot_should_fail_when_no_name_is_provided() {
    case(&NEEDS, async |b| {
        let volume = b.volume("v", 1).await;
        let asked = b.group().create_volume_group_snapshot(create("", &[&volume])).await;
        assert_eq!(code(asked), Code::InvalidArgument);
        assert_eq!(code(b.group().create_volume_group_snapshot(create("g", &[])).await), Code::InvalidArgument);
    });
}

#[test]
fn get_volume_group_snapshot_should_fail_when_no_id_is_provided() {
    case(&NEEDS, async |b| assert_eq!(get(&b, "").await, Code::InvalidArgument));
}

#[test]
fn get_volume_group_snapshot_should_fail_when_the_group_does_not_exist() {
    case(&NEEDS, async |b| assert_eq!(get(&b, "non-existing-group-snapshot-id").await, Code::NotFound));
}

#[test]
fn delete_volume_group_snapshot_should_fail_when_no_id_is_provided() {
    case(&NEEDS, async |b| assert_eq!(delete(&b, "").await, Code::InvalidArgument));
}

#[test]
fn delete_volume_group_snapshot_should_succeed_when_an_invalid_id_is_used() {
    case(&NEEDS, async |b| assert_eq!(delete(&b, "reallyfakegroupsnapshotid").await, Code::Ok));
}

#[test]
fn a_group_is_of_one_instance_and_lives_and_dies_together() {
    case(&NEEDS, async |b| {
        let (one, two, other) = (b.volume("1", 1).await, b.volume("2", 1).await, b.volume("3", 1).await);
        let apart = b.group().create_volume_group_snapshot(create("g", &[&one, &two])).await.unwrap_err();
        assert_eq!(apart.code(), Code::FailedPrecondition);
        assert!(apart.message().contains("one instance"), "{}", apart.message());
        for volume in [&one, &two, &other] {
            b.attach(volume).await;
        }
        let made = b.group().create_volume_group_snapshot(create("g", &[&one, &two])).await.unwrap().into_inner();
        let group = made.group_snapshot.unwrap();
        let mut sources: Vec<_> = group.snapshots.iter().map(|s| s.source_volume_id.clone()).collect();
        sources.sort();
        let mut expected = [one.clone(), two.clone()];
        expected.sort();
        assert_eq!(sources, expected, "neither the root disk nor the third volume is in it");
        assert!(group.snapshots.iter().all(|s| s.group_snapshot_id == group.group_snapshot_id));
        let again = b.group().create_volume_group_snapshot(create("g", &[&two, &one])).await.unwrap().into_inner();
        let again = again.group_snapshot.unwrap();
        assert_eq!((&again.group_snapshot_id, again.ready_to_use), (&group.group_snapshot_id, true));
        assert_eq!(
            code(b.group().create_volume_group_snapshot(create("g", &[&one, &other])).await),
            Code::AlreadyExists
        );
        assert_eq!(get(&b, &group.group_snapshot_id).await, Code::Ok);
        let member = group.snapshots[0].snapshot_id.clone();
        let alone = DeleteSnapshotRequest { snapshot_id: member.clone(), ..Default::default() };
        assert_eq!(code(b.controller().delete_snapshot(alone).await), Code::InvalidArgument);
        let wrong = GetVolumeGroupSnapshotRequest {
            group_snapshot_id: group.group_snapshot_id.clone(),
            snapshot_ids: vec![member],
            ..Default::default()
        };
        assert_eq!(code(b.group().get_volume_group_snapshot(wrong).await), Code::InvalidArgument);
        assert_eq!(delete(&b, &group.group_snapshot_id).await, Code::Ok);
        assert_eq!(delete(&b, &group.group_snapshot_id).await, Code::Ok);
        assert_eq!(get(&b, &group.group_snapshot_id).await, Code::NotFound);
    });
}
