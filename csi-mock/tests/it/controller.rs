//! The Controller service over gRPC in process, with a small cloud: codes, idempotency, waits.

use std::time::Duration;

use csi_mock::controller::{self, ControllerConfig};
use csi_mock::settings::LockKey;
use csi_proto::Channel;
use csi_proto::csi::controller_client::ControllerClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::*;
use rstest::rstest;
use substrate::fault::{Effect, Moment, Span};
use substrate::process::Ctx;
use tonic::Code;

use crate::support::*;

const GIB: i64 = 1 << 30;
const RW: Mode = Mode::SingleNodeWriter;

fn client(ctx: &Ctx, cloud: &Cloud) -> ControllerClient<Channel> {
    ControllerClient::new(Channel(controller::start(ctx, ControllerConfig::new(cloud.service()))))
}

fn create(name: &str, gib: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
        volume_capabilities: vec![capability(RW).unwrap()],
        ..Default::default()
    }
}

fn publish(volume: &str, node: &str) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: volume.into(),
        node_id: node.into(),
        volume_capability: capability(RW),
        ..Default::default()
    }
}

fn unpublish(volume: &str, node: &str) -> ControllerUnpublishVolumeRequest {
    ControllerUnpublishVolumeRequest { volume_id: volume.into(), node_id: node.into(), ..Default::default() }
}

/// Returns the capability of a raw device on several nodes at once.
fn several() -> VolumeCapability {
    let access_mode = capability(Mode::MultiNodeMultiWriter).unwrap().access_mode;
    VolumeCapability { access_mode, ..block().unwrap() }
}

fn code<T>(result: Result<T, tonic::Status>) -> Code {
    result.map_or_else(|s| s.code(), |_| Code::Ok)
}

async fn volume(client: &mut ControllerClient<Channel>, name: &str) -> String {
    client.create_volume(create(name, 4)).await.unwrap().into_inner().volume.unwrap().volume_id
}

#[test]
fn the_whole_cycle_with_every_call_repeated() {
    run(async |world, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let first = csi.create_volume(create("pvc-1", 4)).await.unwrap().into_inner().volume.unwrap();
        assert_eq!(csi.create_volume(create("pvc-1", 4)).await.unwrap().into_inner().volume.unwrap(), first);
        assert_eq!(first.capacity_bytes, 4 * GIB);
        assert_eq!(first.accessible_topology[0].segments["topology.kubernetes.io/zone"], "us-east-1a");
        let id = &first.volume_id;
        for _ in 0..2 {
            let context = csi.controller_publish_volume(publish(id, NODE_A)).await.unwrap().into_inner();
            assert_eq!(context.publish_context["devicePath"], "/dev/xvdaa");
        }
        let elsewhere = csi.controller_publish_volume(publish(id, NODE_B)).await.unwrap_err();
        assert_eq!(elsewhere.code(), Code::FailedPrecondition);
        assert!(elsewhere.message().contains(NODE_A), "{}", elsewhere.message());
        let other = ControllerPublishVolumeRequest {
            volume_capability: capability(Mode::SingleNodeMultiWriter),
            ..publish(id, NODE_A)
        };
        assert_eq!(code(csi.controller_publish_volume(other).await), Code::AlreadyExists);
        let delete = DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
        assert_eq!(code(csi.delete_volume(delete.clone()).await), Code::FailedPrecondition);
        for _ in 0..2 {
            csi.controller_unpublish_volume(unpublish(id, NODE_A)).await.unwrap();
        }
        for _ in 0..2 {
            csi.delete_volume(delete.clone()).await.unwrap();
        }
        assert!(cloud.0.lock().volumes.is_empty());
        let done = events(&world, "csi.done");
        assert_eq!(done[0].str("volume"), Some(&**id), "the new volume's id is on record");
        let authorization = cloud.0.lock().authorization.clone();
        assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential="), "{authorization}");
    });
}

#[test]
fn the_waits_are_those_of_the_ebs_driver() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let (id, took) = timed(&ctx, volume(&mut csi, "pvc-1")).await;
        assert_eq!(took, Duration::from_millis(1250), "one sleep, then the first look");
        let (_, took) = timed(&ctx, csi.controller_publish_volume(publish(&id, NODE_A))).await;
        assert_eq!(took, Duration::ZERO, "the first look is at once");
        cloud.0.lock().slow = 2;
        let (_, took) = timed(&ctx, csi.controller_unpublish_volume(unpublish(&id, NODE_A))).await;
        assert_eq!(took, Duration::from_millis(2800), "1 s and 1.8 s between three looks");
    });
}

#[test]
fn looks_at_volumes_within_half_a_second_are_one_call_when_the_driver_batches() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let config = ControllerConfig { batching: true, ..ControllerConfig::new(cloud.service()) };
        let csi = ControllerClient::new(Channel(controller::start(&ctx, config)));
        let made = async |name: &'static str| volume(&mut csi.clone(), name).await;
        let (ids, took) = timed(&ctx, async { tokio::join!(biased; made("a"), made("b"), made("c")) }).await;
        assert_eq!(took, Duration::from_millis(1750), "one sleep, then the look that waits for others");
        let looks = || cloud.calls().iter().filter(|action| *action == "DescribeVolumes").count();
        assert_eq!(looks(), 1);
        cloud.0.lock().volumes.remove(&ids.1);
        let validate = async |id: &str| {
            let volume_capabilities = vec![capability(RW).unwrap()];
            let volume_id = id.to_owned();
            let request = ValidateVolumeCapabilitiesRequest { volume_id, volume_capabilities, ..Default::default() };
            code(csi.clone().validate_volume_capabilities(request).await)
        };
        let codes = tokio::join!(biased; validate(&ids.0), validate(&ids.1), validate(&ids.2));
        assert_eq!(codes, (Code::Ok, Code::NotFound, Code::Ok), "one that is missing is missing for itself alone");
        assert_eq!(looks(), 4, "together, and then each alone");
    });
}

#[test]
fn the_same_name_with_another_size_exists_and_stays_one_volume() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        volume(&mut csi, "pvc-1").await;
        for _ in 0..3 {
            assert_eq!(code(csi.create_volume(create("pvc-1", 8)).await), Code::AlreadyExists);
        }
        assert_eq!(cloud.0.lock().volumes.len(), 1);
    });
}

#[test]
fn a_token_of_a_deleted_volume_gives_way_to_the_next_one() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        cloud.script("CreateVolume", 400, "IdempotentParameterMismatch", "a resource that is already deleted");
        csi.create_volume(create("pvc-1", 4)).await.unwrap();
    });
}

#[rstest]
#[case("VolumeLimitExceeded", Code::ResourceExhausted)]
#[case("MaxIOPSLimitExceeded", Code::ResourceExhausted)]
#[case("InvalidParameterCombination", Code::InvalidArgument)]
#[case("UnknownVolumeType", Code::InvalidArgument)]
#[case("InternalFailure", Code::Internal)]
fn create_errors_become_their_codes(#[case] ec2: &str, #[case] expected: Code) {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        cloud.script("CreateVolume", 400, ec2, "text");
        let status = client(&ctx, &cloud).create_volume(create("pvc-1", 4)).await.unwrap_err();
        assert_eq!(status.code(), expected);
        assert!(status.message().contains(ec2) && status.details().is_empty());
    });
}

#[rstest]
#[case("AttachmentLimitExceeded", "You may attach up to 27 devices", Code::ResourceExhausted)]
#[case("InvalidVolume.ZoneMismatch", "", Code::Internal)]
#[case("IncorrectState", "Instance 'i-x' is not 'running'.", Code::Internal)]
#[case("InvalidVolume.NotFound", "", Code::NotFound)]
fn attach_errors_become_their_codes(#[case] ec2: &str, #[case] message: &str, #[case] expected: Code) {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        cloud.script("AttachVolume", 400, ec2, message);
        assert_eq!(code(csi.controller_publish_volume(publish(&id, NODE_A)).await), expected);
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
    });
}

#[test]
fn a_device_name_that_the_cloud_calls_used_is_not_tried_again() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        let text = "Invalid value '/dev/xvdaa' for unixDevice. Attachment point /dev/xvdaa is already in use";
        cloud.script("AttachVolume", 400, "InvalidParameterValue", text);
        assert_eq!(code(csi.controller_publish_volume(publish(&id, NODE_A)).await), Code::Internal);
        let context = csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap().into_inner().publish_context;
        assert_eq!(context["devicePath"], "/dev/xvdab");
    });
}

#[test]
fn an_attachment_stuck_for_90_seconds_is_detached_and_the_call_fails() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        cloud.0.lock().slow = 1000;
        let (status, took) = timed(&ctx, csi.controller_publish_volume(publish(&id, NODE_A))).await;
        assert_eq!(status.unwrap_err().code(), Code::Internal);
        assert!(took > Duration::from_secs(85) && took < Duration::from_secs(180), "{took:?}");
        assert!(cloud.calls().contains(&"DetachVolume".to_owned()));
    });
}

#[test]
fn a_volume_attached_by_a_call_whose_answer_was_lost_is_published_on_repeat() {
    run(async |world, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        fault(&world, "ControllerPublishVolume", Moment::AfterEffect, Effect::DropReply(true));
        assert_eq!(code(csi.controller_publish_volume(publish(&id, NODE_A)).await), Code::Unavailable);
        cloud.calls();
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
        assert!(!cloud.calls().contains(&"AttachVolume".to_owned()), "the instance lists the volume already");
    });
}

#[test]
fn detaching_what_is_gone_is_success() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        csi.controller_unpublish_volume(unpublish(&id, NODE_A)).await.unwrap();
        csi.controller_unpublish_volume(unpublish("vol-0deadbeef0deadbee", NODE_A)).await.unwrap();
        csi.controller_unpublish_volume(unpublish("nonsense", NODE_A)).await.unwrap();
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
        // An unpublish from the wrong node detaches nothing.
        csi.controller_unpublish_volume(unpublish(&id, NODE_B)).await.unwrap();
        assert!(cloud.0.lock().volumes[&id].attachment.is_some());
        // An empty node id means every node.
        csi.controller_unpublish_volume(unpublish(&id, "")).await.unwrap();
        assert!(cloud.0.lock().volumes[&id].attachment.is_none());
    });
}

#[test]
fn incorrect_state_while_detaching_is_no_false_success() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
        {
            let mut state = cloud.0.lock();
            let attachment = state.volumes.get_mut(&id).unwrap().attachment.as_mut().unwrap();
            (attachment.2, attachment.3) = ("detaching", 3);
        }
        cloud.script("DetachVolume", 400, "IncorrectState", "is in the 'detaching' state");
        csi.controller_unpublish_volume(unpublish(&id, NODE_A)).await.unwrap();
        assert!(cloud.0.lock().volumes[&id].attachment.is_none());
    });
}

#[test]
fn throttled_and_unavailable_calls_are_tried_again() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        for _ in 0..4 {
            cloud.script("CreateVolume", 503, "RequestLimitExceeded", "Request limit exceeded.");
        }
        volume(&mut client(&ctx, &cloud), "pvc-1").await;
        assert_eq!(cloud.calls().iter().filter(|c| *c == "CreateVolume").count(), 5);
    });
}

#[test]
fn unknown_volumes_and_nodes_are_not_found() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        for (volume, node) in
            [("nope", NODE_A), ("vol-0deadbeef0deadbee", NODE_A), (&*id, "nope"), (&*id, "i-0deadbeef0deadbee")]
        {
            assert_eq!(code(csi.controller_publish_volume(publish(volume, node)).await), Code::NotFound, "{volume}");
        }
        let validate = |volume: &str, capability| ValidateVolumeCapabilitiesRequest {
            volume_id: volume.into(),
            volume_capabilities: vec![capability],
            ..Default::default()
        };
        let good = capability(RW).unwrap();
        assert_eq!(code(csi.validate_volume_capabilities(validate("nope", good.clone())).await), Code::NotFound);
        let answer = csi.validate_volume_capabilities(validate(&id, good)).await.unwrap().into_inner();
        assert!(answer.confirmed.is_some());
        let answer = csi.validate_volume_capabilities(validate(&id, several())).await.unwrap().into_inner();
        assert!(answer.confirmed.is_none() && answer.message.contains("several nodes"));
    });
}

#[rstest]
#[case::no_name(|r: &mut CreateVolumeRequest| r.name.clear(), "name")]
#[case::no_capabilities(|r: &mut CreateVolumeRequest| r.volume_capabilities.clear(), "volume_capabilities")]
#[case::several(|r: &mut CreateVolumeRequest| r.volume_capabilities = vec![several()], "io2")]
#[case::control(|r: &mut CreateVolumeRequest| r.name = "a\u{7}".into(), "name")]
#[case::mutable(|r: &mut CreateVolumeRequest| { r.mutable_parameters.insert("encrypted".into(), "true".into()); }, "mutable parameter key: encrypted")]
#[case::big(|r: &mut CreateVolumeRequest| { r.parameters.insert("iops".into(), "1".repeat(5000)); }, "parameters")]
#[case::source(|r: &mut CreateVolumeRequest| r.volume_content_source = Some(VolumeContentSource::default()), "volume_content_source")]
#[case::range(|r: &mut CreateVolumeRequest| r.capacity_range = Some(CapacityRange { required_bytes: -1, limit_bytes: 0 }), "capacity_range")]
#[case::many_nodes(|r: &mut CreateVolumeRequest| r.volume_capabilities = vec![capability(Mode::MultiNodeMultiWriter).unwrap()], "MULTI_NODE_MULTI_WRITER")]
#[case::parameter(|r: &mut CreateVolumeRequest| { r.parameters.insert("colour".into(), "red".into()); }, "colour")]
#[case::iops(|r: &mut CreateVolumeRequest| { r.parameters.insert("iops".into(), "many".into()); }, "invalid iops")]
#[case::long_name(|r: &mut CreateVolumeRequest| r.name = "n".repeat(129), "name")]
fn a_malformed_create_is_refused_with_the_field_named(
    #[case] spoil: fn(&mut CreateVolumeRequest),
    #[case] field: &str,
) {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut request = create("pvc-1", 4);
        spoil(&mut request);
        let status = client(&ctx, &cloud).create_volume(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(field), "{}", status.message());
        assert!(cloud.calls().is_empty(), "nothing was asked of the cloud");
    });
}

#[test]
fn names_of_128_bytes_and_parameters_in_any_case_are_taken() {
    run(async |_, ctx| {
        let cloud = Cloud::default();
        let mut request = create(&"n".repeat(128), 4);
        request.parameters.insert("Type".into(), "gp3".into());
        request.parameters.insert("csi.storage.k8s.io/pvc/name".into(), "data".into());
        client(&ctx, &cloud).create_volume(request).await.unwrap();
        assert!(cloud.0.lock().volumes.values().next().unwrap().tags.contains(&"data".to_owned()));
    });
}

/// Sends node b's publish while node a's unpublish waits for the cloud; returns both codes.
async fn publish_beside_unpublish(ctx: &Ctx, lock: LockKey) -> (Code, Code) {
    let cloud = Cloud::default();
    let config = ControllerConfig { lock, ..ControllerConfig::new(cloud.service()) };
    let mut csi = ControllerClient::new(Channel(controller::start(ctx, config)));
    let id = volume(&mut csi, "pvc-1").await;
    csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
    cloud.0.lock().slow = 3;
    let mut other = csi.clone();
    let unpublished = async { code(csi.controller_unpublish_volume(unpublish(&id, NODE_A)).await) };
    let published = async {
        ctx.sleep(Duration::from_secs(1)).await;
        code(other.controller_publish_volume(publish(&id, NODE_B)).await)
    };
    tokio::join!(unpublished, published)
}

#[test]
fn one_nodes_publish_does_not_abort_another_nodes_unpublish() {
    run(async |_, ctx| {
        // The volume is still attached to node a: node b gets that error, instead of waiting for a lock.
        let both = publish_beside_unpublish(&ctx, LockKey::VolumeAndNode).await;
        assert_eq!(both, (Code::Ok, Code::FailedPrecondition));
        let one = publish_beside_unpublish(&ctx, LockKey::Volume).await;
        assert_eq!(one, (Code::Ok, Code::Aborted), "a driver that locks per volume");
    });
}

#[test]
fn an_unpublish_runs_beside_another_nodes_publish_and_not_beside_its_own() {
    run(async |world, ctx| {
        let cloud = Cloud::default();
        let mut csi = client(&ctx, &cloud);
        let id = volume(&mut csi, "pvc-1").await;
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
        // Node a's unpublish is under way for ten seconds.
        fault(&world, "ControllerUnpublishVolume", Moment::AfterEffect, Effect::Delay(Span(Duration::from_secs(10))));
        let mut others = [csi.clone(), csi.clone(), csi.clone()];
        let [second, every, again] = &mut others;
        let quick = async {
            ctx.sleep(Duration::from_secs(1)).await;
            let b = code(second.controller_unpublish_volume(unpublish(&id, NODE_B)).await);
            let a = code(again.controller_publish_volume(publish(&id, NODE_A)).await);
            (b, a)
        };
        let slow = csi.controller_unpublish_volume(unpublish(&id, NODE_A));
        let (slow, quick) = tokio::join!(slow, quick);
        slow.unwrap();
        assert_eq!(quick, (Code::Ok, Code::Aborted));
        // No node means every node, and so the locks of all of them.
        csi.controller_publish_volume(publish(&id, NODE_A)).await.unwrap();
        fault(&world, "ControllerPublishVolume", Moment::AfterEffect, Effect::Delay(Span(Duration::from_secs(10))));
        let all = async {
            ctx.sleep(Duration::from_secs(1)).await;
            code(every.controller_unpublish_volume(unpublish(&id, "")).await)
        };
        let (busy, all) = tokio::join!(csi.controller_publish_volume(publish(&id, NODE_A)), all);
        busy.unwrap();
        assert_eq!(all, Code::Aborted);
        csi.controller_unpublish_volume(unpublish(&id, "")).await.unwrap();
    });
}
