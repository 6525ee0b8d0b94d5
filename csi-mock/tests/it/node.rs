//! The Node service over gRPC in process, on memory disks: codes, idempotency, faults, restarts.

use std::path::Path;

use csi_disk::{MemoryDisks, Plug};
use csi_mock::node::{self, NodeConfig};
use csi_proto::Channel;
use csi_proto::csi::identity_client::IdentityClient;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::*;
use rstest::rstest;
use substrate::HttpService;
use substrate::fault::{Effect, Moment, Span};
use substrate::process::Ctx;
use tonic::Code;

use crate::support::*;

const VOLUME: &str = "vol-0123456789abcdef0";

struct Node {
    disks: MemoryDisks,
    service: HttpService,
}

impl Node {
    async fn new(ctx: &Ctx) -> Self {
        let disks = MemoryDisks::new();
        let disk = disks.node("node-a");
        let plug =
            Plug { volume: VOLUME.into(), device: "/dev/xvdaa".into(), file: String::new(), size_bytes: 1 << 30 };
        disk.plug(&plug).await.unwrap();
        disk.make_dir(Path::new("/pods/p")).await.unwrap();
        let service = node::start(ctx, NodeConfig::new("node-a", NODE_A, "us-east-1a", disk));
        Self { disks, service }
    }

    fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(Channel(self.service.clone()))
    }

    async fn stage(&self, mode: Mode) -> Result<(), tonic::Status> {
        self.client().node_stage_volume(stage(mode)).await.map(drop)
    }

    async fn publish(&self, target: &str, mode: Mode, readonly: bool) -> Result<(), tonic::Status> {
        self.client().node_publish_volume(publish(target, mode, readonly)).await.map(drop)
    }

    async fn unpublish(&self, target: &str) -> Result<(), tonic::Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: VOLUME.into(), target_path: target.into() };
        self.client().node_unpublish_volume(request).await.map(drop)
    }

    async fn unstage(&self) -> Result<(), tonic::Status> {
        let request = NodeUnstageVolumeRequest { volume_id: VOLUME.into(), staging_target_path: "/stage".into() };
        self.client().node_unstage_volume(request).await.map(drop)
    }
}

fn stage(mode: Mode) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: VOLUME.into(),
        staging_target_path: "/stage".into(),
        volume_capability: capability(mode),
        ..Default::default()
    }
}

fn publish(target: &str, mode: Mode, readonly: bool) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: VOLUME.into(),
        staging_target_path: "/stage".into(),
        target_path: target.into(),
        volume_capability: capability(mode),
        readonly,
        ..Default::default()
    }
}

fn code<T>(result: Result<T, tonic::Status>) -> Code {
    result.map_or_else(|s| s.code(), |_| Code::Ok)
}

const RW: Mode = Mode::SingleNodeWriter;

#[test]
fn the_whole_cycle_with_every_call_repeated_leaves_nothing() {
    run(async |world, ctx| {
        let node = Node::new(&ctx).await;
        for _ in 0..2 {
            node.stage(RW).await.unwrap();
        }
        for _ in 0..2 {
            node.publish("/pods/p/mount", RW, false).await.unwrap();
        }
        let stats = NodeGetVolumeStatsRequest {
            volume_id: VOLUME.into(),
            volume_path: "/pods/p/mount".into(),
            ..Default::default()
        };
        assert_eq!(node.client().node_get_volume_stats(stats).await.unwrap().into_inner().usage[0].total, 1 << 30);
        assert_eq!(code(node.unstage().await), Code::FailedPrecondition);
        for _ in 0..2 {
            node.unpublish("/pods/p/mount").await.unwrap();
        }
        for _ in 0..2 {
            node.unstage().await.unwrap();
        }
        assert!(node.disks.node("node-a").mounts().await.unwrap().is_empty());
        assert_eq!(
            kinds(&world, "disk."),
            ["disk.staged", "disk.published", "disk.unpublished", "disk.unstaged"],
            "a repeat has no effect"
        );
        let calls = events(&world, "csi.call");
        assert_eq!(calls.len(), 10);
        assert_eq!(calls[0].str("node"), Some("node-a"));
        assert_eq!(events(&world, "csi.done").len(), 10);
    });
}

#[test]
fn publishing_follows_the_table_of_targets_and_arguments() {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        node.stage(RW).await.unwrap();
        node.publish("/pods/p/a", RW, false).await.unwrap();
        assert_eq!(code(node.publish("/pods/p/a", RW, true).await), Code::AlreadyExists);
        assert_eq!(code(node.publish("/pods/p/b", RW, false).await), Code::FailedPrecondition);
        assert_eq!(
            code(node.publish("/pods/p/b", Mode::SingleNodeSingleWriter, false).await),
            Code::FailedPrecondition
        );
        assert_eq!(code(node.publish("/pods/p/b", Mode::SingleNodeMultiWriter, false).await), Code::Ok);
    });
}

#[test]
fn a_repeat_with_other_arguments_is_refused() {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        node.stage(RW).await.unwrap();
        assert_eq!(code(node.stage(Mode::SingleNodeMultiWriter).await), Code::AlreadyExists);
        assert_eq!(code(node.stage(Mode::SingleNodeReaderOnly).await), Code::AlreadyExists);
        let other = NodeStageVolumeRequest { staging_target_path: "/elsewhere".into(), ..stage(RW) };
        assert_eq!(code(node.client().node_stage_volume(other).await), Code::FailedPrecondition);
    });
}

#[test]
fn a_restarted_driver_asks_the_disk_and_not_its_memory() {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        node.stage(RW).await.unwrap();
        node.publish("/pods/p/a", RW, false).await.unwrap();
        let config = NodeConfig::new("node-a", NODE_A, "us-east-1a", node.disks.node("node-a"));
        let again = Node { disks: node.disks.clone(), service: node::start(&ctx, config) };
        again.stage(RW).await.unwrap();
        again.publish("/pods/p/a", RW, false).await.unwrap();
        assert_eq!(code(again.publish("/pods/p/a", RW, true).await), Code::AlreadyExists);
        assert_eq!(code(again.publish("/pods/p/b", RW, false).await), Code::FailedPrecondition);
        again.unpublish("/pods/p/a").await.unwrap();
        again.unstage().await.unwrap();
    });
}

#[test]
fn a_volume_is_restaged_after_power_loss() {
    run(async |world, ctx| {
        let node = Node::new(&ctx).await;
        node.stage(RW).await.unwrap();
        node.publish("/pods/p/a", RW, false).await.unwrap();
        csi_disk::power_loss(&world, &*node.disks.node("node-a")).await.unwrap();
        assert_eq!(code(node.stage(Mode::SingleNodeMultiWriter).await), Code::NotFound, "the device is gone");
        assert_eq!(code(node.publish("/pods/p/a", RW, false).await), Code::FailedPrecondition);
        node.unpublish("/pods/p/a").await.unwrap();
        node.unstage().await.unwrap();
        assert_eq!(events(&world, "disk.crashed")[0].str("node"), Some("node-a"));
    });
}

#[rstest]
#[case::no_volume(|r: &mut NodeStageVolumeRequest| r.volume_id.clear(), "volume_id")]
#[case::no_path(|r: &mut NodeStageVolumeRequest| r.staging_target_path.clear(), "staging_target_path")]
#[case::relative(|r: &mut NodeStageVolumeRequest| r.staging_target_path = "stage".into(), "staging_target_path")]
#[case::climbing(|r: &mut NodeStageVolumeRequest| r.staging_target_path = "/a/../b".into(), "staging_target_path")]
#[case::long_path(|r: &mut NodeStageVolumeRequest| r.staging_target_path = format!("/{}", "x".repeat(5000)), "staging_target_path")]
#[case::no_capability(|r: &mut NodeStageVolumeRequest| r.volume_capability = None, "volume_capability")]
#[case::no_mode(|r: &mut NodeStageVolumeRequest| r.volume_capability = capability(Mode::Unknown), "access_mode")]
#[case::long_id(|r: &mut NodeStageVolumeRequest| r.volume_id = "v".repeat(129), "volume_id")]
fn a_malformed_stage_is_refused_with_the_field_named(
    #[case] spoil: fn(&mut NodeStageVolumeRequest),
    #[case] field: &str,
) {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        let mut request = stage(RW);
        spoil(&mut request);
        let status = node.client().node_stage_volume(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(field), "{}", status.message());
        assert!(status.details().is_empty());
    });
}

#[test]
fn the_other_malformed_requests_are_refused_too() {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        let mut client = node.client();
        assert_eq!(code(client.node_publish_volume(NodePublishVolumeRequest::default()).await), Code::InvalidArgument);
        let request = NodePublishVolumeRequest { target_path: String::new(), ..publish("/t", RW, false) };
        assert_eq!(code(client.node_publish_volume(request).await), Code::InvalidArgument);
        let request = NodePublishVolumeRequest { volume_capability: None, ..publish("/t", RW, false) };
        assert_eq!(code(client.node_publish_volume(request).await), Code::InvalidArgument);
        let request = NodePublishVolumeRequest { staging_target_path: String::new(), ..publish("/t", RW, false) };
        assert_eq!(code(client.node_publish_volume(request).await), Code::FailedPrecondition);
        assert_eq!(
            code(client.node_unpublish_volume(NodeUnpublishVolumeRequest::default()).await),
            Code::InvalidArgument
        );
        assert_eq!(code(client.node_unstage_volume(NodeUnstageVolumeRequest::default()).await), Code::InvalidArgument);
        assert_eq!(
            code(client.node_get_volume_stats(NodeGetVolumeStatsRequest::default()).await),
            Code::InvalidArgument
        );
        let stats =
            NodeGetVolumeStatsRequest { volume_id: VOLUME.into(), volume_path: "/no".into(), ..Default::default() };
        assert_eq!(code(client.node_get_volume_stats(stats).await), Code::NotFound);
        assert_eq!(code(client.node_expand_volume(NodeExpandVolumeRequest::default()).await), Code::InvalidArgument);
        let unknown = NodeStageVolumeRequest { volume_id: "vol-1".into(), ..stage(RW) };
        assert_eq!(code(client.node_stage_volume(unknown).await), Code::NotFound);
    });
}

#[test]
fn info_and_capabilities_are_those_of_the_configuration() {
    run(async |_, ctx| {
        let node = Node::new(&ctx).await;
        let info = node.client().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
        assert_eq!((&*info.node_id, info.max_volumes_per_node), (NODE_A, 26));
        let segments = info.accessible_topology.unwrap().segments;
        for key in ["topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"] {
            assert_eq!(segments[key], "us-east-1a");
        }
        assert_eq!(segments.len(), 2, "{segments:?}");
        let mut identity = IdentityClient::new(Channel(node.service.clone()));
        assert_eq!(
            identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner().name,
            "ebs.csi.aws.com"
        );
        assert_eq!(identity.probe(ProbeRequest {}).await.unwrap().into_inner().ready, Some(true));
    });
}

#[test]
fn a_second_call_for_a_volume_in_flight_is_aborted() {
    run(async |world, ctx| {
        let node = Node::new(&ctx).await;
        fault(&world, "NodeStageVolume", Moment::AfterEffect, Effect::Delay(Span(std::time::Duration::from_secs(5))));
        let slow = node.stage(RW);
        let quick = async {
            ctx.sleep(std::time::Duration::from_secs(1)).await;
            (code(node.stage(RW).await), code(node.unstage().await))
        };
        let (first, second) = tokio::join!(slow, quick);
        first.unwrap();
        assert_eq!(second, (Code::Aborted, Code::Aborted));
        node.unstage().await.unwrap();
    });
}

#[rstest]
#[case(Moment::Before, Effect::Grpc("ABORTED".into()), Code::Aborted, 0)]
#[case(Moment::AfterEffect, Effect::Grpc("Internal".into()), Code::Internal, 1)]
#[case(Moment::Before, Effect::Error("UNAVAILABLE".into()), Code::Unavailable, 0)]
#[case(Moment::Before, Effect::Error("InvalidArgument".into()), Code::InvalidArgument, 0)]
#[case(Moment::Before, Effect::Error("no room".into()), Code::Internal, 0)]
#[case(Moment::BeforeReply, Effect::DropReply(true), Code::Unavailable, 1)]
#[case(Moment::Before, Effect::DropReply(true), Code::Unavailable, 1)]
#[case(Moment::Before, Effect::DropRequest(true), Code::Unavailable, 0)]
fn a_repeat_after_a_fault_at_each_point_converges(
    #[case] at: Moment,
    #[case] effect: Effect,
    #[case] expected: Code,
    #[case] mounts: usize,
) {
    run(async |world, ctx| {
        let node = Node::new(&ctx).await;
        fault(&world, "NodeStageVolume", at, effect);
        assert_eq!(code(node.stage(RW).await), expected);
        assert_eq!(node.disks.node("node-a").mounts().await.unwrap().len(), mounts);
        node.stage(RW).await.unwrap();
        assert_eq!(node.disks.node("node-a").mounts().await.unwrap().len(), 1);
        assert_eq!(kinds(&world, "disk.staged").len(), 1);
    });
}

#[test]
fn a_call_that_hangs_ends_with_its_caller_and_frees_the_volume() {
    run(async |world, ctx| {
        let node = Node::new(&ctx).await;
        fault(&world, "NodeStageVolume", Moment::AfterEffect, Effect::Hang(true));
        let mut client = node.client();
        let hung = client.node_stage_volume(stage(RW));
        assert!(tokio::time::timeout(std::time::Duration::from_secs(60), hung).await.is_err());
        assert_eq!(events(&world, "csi.done")[0].str("code"), Some("CANCELLED"));
        node.stage(RW).await.unwrap();
    });
}
