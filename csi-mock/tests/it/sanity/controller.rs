//! Controller Service: capabilities, capacity, lists, volumes, capabilities of volumes, publishing.

use csi_mock::capabilities::Feature;
use csi_proto::csi::controller_service_capability::{Type, rpc};
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

const UNKNOWN: &str = "vol-0ffffffffffffffff";

#[test]
fn controller_get_capabilities_should_return_appropriate_capabilities() {
    case(&[], async |b| {
        let request = ControllerGetCapabilitiesRequest {};
        let reported = b.controller().controller_get_capabilities(request).await.unwrap().into_inner();
        assert!(!reported.capabilities.is_empty());
        for capability in reported.capabilities {
            let Type::Rpc(rpc) = capability.r#type.unwrap();
            assert_ne!(rpc.r#type(), rpc::Type::Unknown);
        }
    });
}

#[test]
fn get_capacity_should_return_capacity() {
    case(&[Feature::GetCapacity], async |b| {
        let reported = b.controller().get_capacity(GetCapacityRequest::default()).await.unwrap().into_inner();
        assert!(
            reported.available_capacity > 0 && reported.maximum_volume_size.unwrap() <= reported.available_capacity
        );
        let topology = |zone: &str| Topology { segments: [("topology.kubernetes.io/zone".into(), zone.into())].into() };
        let within = async |zone: &str| {
            let request = GetCapacityRequest { accessible_topology: Some(topology(zone)), ..Default::default() };
            b.controller().get_capacity(request).await.unwrap().into_inner().available_capacity
        };
        let everywhere = GetCapacityRequest { accessible_topology: Some(Topology::default()), ..Default::default() };
        let everywhere = b.controller().get_capacity(everywhere).await.unwrap().into_inner();
        assert_eq!(everywhere.available_capacity, reported.available_capacity, "a topology without segments");
        b.volume("v", 7).await;
        assert_eq!(within("us-east-1b").await - within("us-east-1a").await, 7 * GIB);
        assert_eq!(within("mars-1a").await, 0);
        b.settings.set_capacity_gib(Some(10));
        assert_eq!(within("us-east-1a").await, 3 * GIB);
        assert_eq!(code(b.controller().create_volume(b.create("w", 4)).await), Code::ResourceExhausted);
        assert_eq!(code(b.controller().create_volume(b.create("v", 7)).await), Code::Ok, "a repeat needs no room");
    });
}

mod list_volumes {
    use super::*;

    async fn listed(b: &Bench, most: i32, token: &str) -> ListVolumesResponse {
        let request = ListVolumesRequest { max_entries: most, starting_token: token.into() };
        b.controller().list_volumes(request).await.unwrap().into_inner()
    }

    fn ids(list: &ListVolumesResponse) -> Vec<String> {
        list.entries.iter().map(|e| e.volume.as_ref().unwrap().volume_id.clone()).collect()
    }

    #[test]
    fn should_return_appropriate_values_no_optional_values_added() {
        case(&[Feature::ListVolumes], async |b| {
            let id = b.volume("v", 1).await;
            let list = listed(&b, 0, "").await;
            assert_eq!(ids(&list), [id]);
            assert_eq!(list.entries[0].volume.as_ref().unwrap().capacity_bytes, GIB);
            assert!(!list.entries[0].status.as_ref().unwrap().volume_condition.as_ref().unwrap().abnormal);
        });
    }

    #[test]
    fn should_fail_when_an_invalid_starting_token_is_passed() {
        case(&[Feature::ListVolumes], async |b| {
            let request = ListVolumesRequest { starting_token: "invalid-token".into(), ..Default::default() };
            assert_eq!(code(b.controller().list_volumes(request).await), Code::Aborted);
            let request = ListVolumesRequest { max_entries: -1, ..Default::default() };
            assert_eq!(code(b.controller().list_volumes(request).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn check_the_presence_of_new_volumes_and_absence_of_deleted_ones_in_the_volume_list() {
        case(&[Feature::ListVolumes], async |b| {
            let before = ids(&listed(&b, 0, "").await);
            let id = b.volume("v", 1).await;
            assert!(!before.contains(&id) && ids(&listed(&b, 0, "").await).contains(&id));
            b.delete(&id).await;
            assert_eq!(ids(&listed(&b, 0, "").await), before);
        });
    }

    /// A case that csi-sanity has disabled.
    #[test]
    fn pagination_should_detect_volumes_added_between_pages_and_accept_tokens_when_the_last_volume_is_deleted() {
        case(&[Feature::ListVolumes], async |b| {
            let mut all = Vec::new();
            for n in 0..5 {
                all.push(b.volume(&format!("v{n}"), 1).await);
            }
            all.sort();
            let first = listed(&b, 2, "").await;
            assert_eq!(ids(&first), all[..2]);
            b.delete(&all[1]).await;
            let new = b.volume("new", 1).await;
            let rest = listed(&b, 0, &first.next_token).await;
            let mut expected = all[2..].to_vec();
            expected.extend((new > all[1]).then_some(new));
            expected.sort();
            assert_eq!((ids(&rest), rest.next_token), (expected, String::new()));
        });
    }

    #[test]
    fn published_nodes_need_the_capability() {
        case(&[Feature::ListVolumes], async |b| {
            let id = b.volume("v", 1).await;
            b.attach(&id).await;
            let nodes =
                |list: ListVolumesResponse| list.entries[0].status.clone().unwrap_or_default().published_node_ids;
            assert_eq!(nodes(listed(&b, 0, "").await), [b.node_id()]);
            b.settings.offer(b.settings.capabilities().without(Feature::ListVolumesPublishedNodes));
            assert!(nodes(listed(&b, 0, "").await).is_empty());
        });
    }
}

#[test]
fn get_volume_returns_the_volume_and_its_nodes() {
    case(&[Feature::GetVolume], async |b| {
        let id = b.volume("v", 1).await;
        b.attach(&id).await;
        let get = async |id: &str| {
            b.controller().controller_get_volume(ControllerGetVolumeRequest { volume_id: id.into() }).await
        };
        let reported = get(&id).await.unwrap().into_inner();
        assert_eq!(reported.volume.unwrap().volume_id, id);
        assert_eq!(reported.status.unwrap().published_node_ids, [b.node_id()]);
        assert_eq!(code(get(UNKNOWN).await), Code::NotFound);
        assert_eq!(code(get("").await), Code::InvalidArgument);
    });
}

mod create_volume {
    use super::*;

    #[test]
    fn should_fail_when_no_name_is_provided() {
        case(&[], async |b| {
            assert_eq!(code(b.controller().create_volume(b.create("", 1)).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_no_volume_capabilities_are_provided() {
        case(&[], async |b| {
            let request = CreateVolumeRequest { volume_capabilities: Vec::new(), ..b.create("v", 1) };
            assert_eq!(code(b.controller().create_volume(request).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_return_appropriate_values_single_node_writer_no_capacity() {
        case(&[], async |b| {
            let made = b.controller().create_volume(b.create("v", 0)).await.unwrap().into_inner().volume.unwrap();
            assert!(!made.volume_id.is_empty() && made.capacity_bytes == 100 * GIB);
        });
    }

    #[test]
    fn should_return_appropriate_values_single_node_writer_with_capacity_1gi() {
        case(&[], async |b| {
            let made = b.controller().create_volume(b.create("v", 1)).await.unwrap().into_inner().volume.unwrap();
            assert_eq!(made.capacity_bytes, GIB);
        });
    }

    #[test]
    fn should_not_fail_when_requesting_to_create_a_volume_with_already_existing_name_and_same_capacity() {
        case(&[], async |b| {
            assert_eq!(b.volume("v", 1).await, b.volume("v", 1).await);
        });
    }

    #[test]
    fn should_fail_when_requesting_to_create_a_volume_with_already_existing_name_and_different_capacity() {
        case(&[], async |b| {
            b.volume("v", 1).await;
            assert_eq!(code(b.controller().create_volume(b.create("v", 2)).await), Code::AlreadyExists);
        });
    }

    #[test]
    fn should_not_fail_when_creating_volume_with_maximum_length_name() {
        case(&[], async |b| {
            b.volume(&"n".repeat(128), 1).await;
            assert_eq!(code(b.controller().create_volume(b.create(&"n".repeat(129), 1)).await), Code::InvalidArgument);
        });
    }

    fn from(source: SourceType) -> Option<VolumeContentSource> {
        Some(VolumeContentSource { r#type: Some(source) })
    }

    fn from_snapshot(id: &str) -> Option<VolumeContentSource> {
        from(SourceType::Snapshot(SnapshotSource { snapshot_id: id.into() }))
    }

    fn from_volume(id: &str) -> Option<VolumeContentSource> {
        from(SourceType::Volume(VolumeSource { volume_id: id.into() }))
    }

    #[test]
    fn should_create_volume_from_an_existing_source_snapshot() {
        case(&[Feature::CreateDeleteSnapshot], async |b| {
            let (volume, snapshot) = b.snapshot("s").await;
            let source = from_snapshot(&snapshot);
            let request = CreateVolumeRequest { volume_content_source: source.clone(), ..b.create("v", 2) };
            let made = b.controller().create_volume(request.clone()).await.unwrap().into_inner().volume.unwrap();
            assert_eq!((made.content_source, made.capacity_bytes), (source.clone(), 2 * GIB));
            let again = b.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap();
            assert_eq!(again.volume_id, made.volume_id);
            let small = CapacityRange { required_bytes: 0, limit_bytes: GIB / 2 };
            let request =
                CreateVolumeRequest { capacity_range: Some(small), volume_content_source: source, ..b.create("w", 0) };
            assert_eq!(code(b.controller().create_volume(request).await), Code::OutOfRange);
            assert_eq!(code(b.controller().create_volume(b.create("v", 2)).await), Code::AlreadyExists, "{volume}");
        });
    }

    #[test]
    fn should_fail_when_the_volume_source_snapshot_is_not_found() {
        case(&[Feature::CreateDeleteSnapshot], async |b| {
            for id in ["snap-0ffffffffffffffff", "non-existing-snapshot-id"] {
                let request = CreateVolumeRequest { volume_content_source: from_snapshot(id), ..b.create("v", 1) };
                assert_eq!(code(b.controller().create_volume(request).await), Code::NotFound);
            }
        });
    }

    #[test]
    fn should_create_volume_from_an_existing_source_volume() {
        case(&[Feature::CloneVolume], async |b| {
            let source = b.volume("source", 1).await;
            let request = CreateVolumeRequest { volume_content_source: from_volume(&source), ..b.create("v", 1) };
            let made = b.controller().create_volume(request.clone()).await.unwrap().into_inner().volume.unwrap();
            assert_eq!(made.content_source, from_volume(&source));
            assert_ne!(made.volume_id, source);
            // The suite reuses a name as soon as its volume is deleted.
            let earlier = b.volume("again", 1).await;
            b.delete(&earlier).await;
            assert_ne!(b.volume("again", 1).await, earlier);
            let again = b.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap();
            assert_eq!(again.volume_id, made.volume_id);
            assert_eq!(code(b.controller().create_volume(b.create("v", 1)).await), Code::AlreadyExists);
        });
    }

    #[test]
    fn should_fail_when_the_volume_source_volume_is_not_found() {
        case(&[Feature::CloneVolume], async |b| {
            for id in [UNKNOWN, "non-existing-volume-id"] {
                let request = CreateVolumeRequest { volume_content_source: from_volume(id), ..b.create("v", 1) };
                assert_eq!(code(b.controller().create_volume(request).await), Code::NotFound);
            }
        });
    }

    #[test]
    fn should_create_volume_with_a_volume_attributes_class() {
        case(&[Feature::ModifyVolume], async |b| {
            let mutable_parameters = [("type".into(), "gp3".into()), ("iops".into(), "4000".into())].into();
            let request = CreateVolumeRequest { mutable_parameters, ..b.create("v", 10) };
            b.controller().create_volume(request).await.unwrap();
        });
    }

    #[test]
    fn should_fail_when_creating_a_volume_with_an_invalid_volume_attributes_class() {
        case(&[Feature::ModifyVolume], async |b| {
            for (key, value) in [("unknown", "x"), ("type", "no-such-type"), ("iops", "many")] {
                let mutable_parameters = [(key.into(), value.into())].into();
                let request = CreateVolumeRequest { mutable_parameters, ..b.create("v", 10) };
                assert_eq!(code(b.controller().create_volume(request).await), Code::InvalidArgument, "{key}");
            }
        });
    }
}

mod delete_volume {
    use super::*;

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| {
            let request = DeleteVolumeRequest::default();
            assert_eq!(code(b.controller().delete_volume(request).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_succeed_when_an_invalid_volume_id_is_used() {
        case(&[], async |b| {
            for id in ["reallyfakevolumeid", UNKNOWN] {
                b.delete(id).await;
            }
        });
    }

    #[test]
    fn should_return_appropriate_values() {
        case(&[], async |b| {
            let id = b.volume("v", 1).await;
            b.delete(&id).await;
            b.delete(&id).await;
        });
    }
}

mod validate_volume_capabilities {
    use super::*;

    fn request(b: &Bench, volume: &str) -> ValidateVolumeCapabilitiesRequest {
        ValidateVolumeCapabilitiesRequest {
            volume_id: volume.into(),
            volume_capabilities: vec![b.writer().unwrap()],
            ..Default::default()
        }
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| {
            let asked = b.controller().validate_volume_capabilities(request(&b, "")).await;
            assert_eq!(code(asked), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_no_volume_capabilities_are_provided() {
        case(&[], async |b| {
            let id = b.volume("v", 1).await;
            let request = ValidateVolumeCapabilitiesRequest { volume_capabilities: Vec::new(), ..request(&b, &id) };
            assert_eq!(code(b.controller().validate_volume_capabilities(request).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_return_appropriate_values() {
        case(&[], async |b| {
            let id = b.volume("v", 1).await;
            let reported = b.controller().validate_volume_capabilities(request(&b, &id)).await.unwrap().into_inner();
            assert_eq!(reported.confirmed.unwrap().volume_capabilities, [b.writer().unwrap()]);
            let many = vec![b.capability(Mode::MultiNodeMultiWriter)];
            let request = ValidateVolumeCapabilitiesRequest { volume_capabilities: many, ..request(&b, &id) };
            let reported = b.controller().validate_volume_capabilities(request).await.unwrap().into_inner();
            assert!(reported.confirmed.is_none() && !reported.message.is_empty());
        });
    }

    #[test]
    fn should_fail_when_the_requested_volume_does_not_exist() {
        case(&[], async |b| {
            for id in ["some-vol-id", UNKNOWN] {
                let asked = b.controller().validate_volume_capabilities(request(&b, id)).await;
                assert_eq!(code(asked), Code::NotFound);
            }
        });
    }
}

mod controller_publish_volume {
    use super::*;

    async fn refused(b: &Bench, request: ControllerPublishVolumeRequest) -> Code {
        code(b.controller().controller_publish_volume(request).await)
    }

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| assert_eq!(refused(&b, b.publish_request("")).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_when_no_node_id_is_provided() {
        case(&[], async |b| {
            let request = ControllerPublishVolumeRequest { node_id: String::new(), ..b.publish_request(UNKNOWN) };
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_no_volume_capability_is_provided() {
        case(&[], async |b| {
            let request = ControllerPublishVolumeRequest { volume_capability: None, ..b.publish_request(UNKNOWN) };
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }

    #[test]
    fn should_fail_when_publishing_more_volumes_than_the_node_max_attach_limit() {
        case(&[], async |b| {
            let full = async |name: &str| {
                for n in 0..40 {
                    let id = b.volume(&format!("{name}{n}"), 1).await;
                    if let Err(status) = b.controller().controller_publish_volume(b.publish_request(&id)).await {
                        return (n, status.code());
                    }
                }
                (40, Code::Ok)
            };
            let reported =
                b.node().node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().max_volumes_per_node;
            assert_eq!(full("v").await, (reported, Code::ResourceExhausted));
            // Without a limit in the driver the cloud decides: an m5.large takes 28 with its root volume and network
            // interface.
            b.settings.set_attach_limit(Some(0));
            assert_eq!(full("w").await, (26 - reported, Code::ResourceExhausted));
        });
    }

    #[test]
    fn should_fail_when_the_volume_does_not_exist() {
        case(&[], async |b| {
            for id in ["some-vol-id", UNKNOWN] {
                assert_eq!(refused(&b, b.publish_request(id)).await, Code::NotFound);
            }
        });
    }

    #[test]
    fn should_fail_when_the_node_does_not_exist() {
        case(&[], async |b| {
            let id = b.volume("v", 1).await;
            for node in ["some-node-id", "i-0ffffffffffffffff"] {
                let request = ControllerPublishVolumeRequest { node_id: node.into(), ..b.publish_request(&id) };
                assert_eq!(refused(&b, request).await, Code::NotFound);
            }
        });
    }

    #[test]
    fn should_fail_when_the_volume_is_already_attached_but_is_incompatible() {
        case(&[], async |b| {
            let id = b.volume("v", 1).await;
            b.attach(&id).await;
            b.attach(&id).await;
            let other = Some(b.capability(Mode::SingleNodeReaderOnly));
            let request = ControllerPublishVolumeRequest { volume_capability: other, ..b.publish_request(&id) };
            assert_eq!(refused(&b, request).await, Code::AlreadyExists);
        });
    }

    #[test]
    fn readonly_needs_its_capability_and_reaches_the_node() {
        case(&[Feature::PublishReadonly], async |b| {
            let id = b.volume("v", 1).await;
            let request = ControllerPublishVolumeRequest { readonly: true, ..b.publish_request(&id) };
            let context = b.controller().controller_publish_volume(request.clone()).await.unwrap().into_inner();
            assert_eq!(context.publish_context["readonly"], "true");
            assert_eq!(refused(&b, b.publish_request(&id)).await, Code::AlreadyExists);
            b.settings.offer(b.settings.capabilities().without(Feature::PublishReadonly));
            assert_eq!(refused(&b, request).await, Code::InvalidArgument);
        });
    }
}

mod controller_unpublish_volume {
    use super::*;

    #[test]
    fn should_fail_when_no_volume_id_is_provided() {
        case(&[], async |b| {
            let request = ControllerUnpublishVolumeRequest::default();
            assert_eq!(code(b.controller().controller_unpublish_volume(request).await), Code::InvalidArgument);
        });
    }
}
