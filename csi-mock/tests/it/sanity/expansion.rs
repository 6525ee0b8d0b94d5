//! Controller Service: ExpandVolume and ModifyVolume.

use csi_mock::capabilities::{Capabilities, Feature};
use csi_proto::csi::*;
use tonic::Code;

use crate::bench::*;

const UNKNOWN: &str = "vol-0ffffffffffffffff";

mod expand_volume {
    use super::*;

    const NEEDS: [Feature; 1] = [Feature::ControllerExpandVolume];

    fn request(volume: &str, gib: i64) -> ControllerExpandVolumeRequest {
        let capacity_range = Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 });
        ControllerExpandVolumeRequest { volume_id: volume.into(), capacity_range, ..Default::default() }
    }

    #[test]
    fn should_fail_if_no_volume_id_is_given() {
        case(&NEEDS, async |b| {
            assert_eq!(code(b.controller().controller_expand_volume(request("", 2)).await), Code::InvalidArgument);
            assert_eq!(code(b.controller().controller_expand_volume(request(UNKNOWN, 2)).await), Code::NotFound);
        });
    }

    #[test]
    fn should_fail_if_no_capacity_range_is_given() {
        case(&NEEDS, async |b| {
            let id = b.volume("v", 1).await;
            let request = ControllerExpandVolumeRequest { capacity_range: None, ..request(&id, 0) };
            assert_eq!(code(b.controller().controller_expand_volume(request).await), Code::InvalidArgument);
        });
    }

    #[test]
    fn should_work() {
        case(&NEEDS, async |b| {
            let id = b.volume("v", 1).await;
            let request = ControllerExpandVolumeRequest { volume_capability: b.writer(), ..request(&id, 3) };
            for _ in 0..2 {
                let done = b.controller().controller_expand_volume(request.clone()).await.unwrap().into_inner();
                assert_eq!((done.capacity_bytes, done.node_expansion_required), (3 * GIB, !b.block));
            }
            let smaller = CapacityRange { required_bytes: GIB, limit_bytes: 2 * GIB };
            let request = ControllerExpandVolumeRequest { capacity_range: Some(smaller), ..request };
            assert_eq!(code(b.controller().controller_expand_volume(request).await), Code::OutOfRange);
        });
    }

    #[test]
    fn a_driver_that_expands_offline_refuses_a_published_volume() {
        let offered = Capabilities::all().without(Feature::ExpansionOnline).with(Feature::ExpansionOffline);
        once(false, offered, async |b| {
            let id = b.volume("v", 1).await;
            b.attach(&id).await;
            assert_eq!(code(b.controller().controller_expand_volume(request(&id, 2)).await), Code::FailedPrecondition);
            b.detach(&id).await;
            b.controller().controller_expand_volume(request(&id, 2)).await.unwrap();
        });
    }
}

mod modify_volume {
    use super::*;

    const NEEDS: [Feature; 1] = [Feature::ModifyVolume];

    fn request(volume: &str, pairs: &[(&str, &str)]) -> ControllerModifyVolumeRequest {
        let mutable_parameters = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ControllerModifyVolumeRequest { volume_id: volume.into(), mutable_parameters, ..Default::default() }
    }

    async fn with_class(b: &Bench) -> String {
        let mutable_parameters = [("iops".into(), "3500".into())].into();
        let request = CreateVolumeRequest { mutable_parameters, ..b.create("v", 10) };
        b.controller().create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id
    }

    async fn modify(b: &Bench, volume: &str, pairs: &[(&str, &str)]) -> Code {
        code(b.controller().controller_modify_volume(request(volume, pairs)).await)
    }

    #[test]
    fn should_fail_if_no_volume_id_is_given() {
        case(&NEEDS, async |b| assert_eq!(modify(&b, "", &[("iops", "4000")]).await, Code::InvalidArgument));
    }

    #[test]
    fn should_fail_if_the_volume_does_not_exist() {
        case(&NEEDS, async |b| {
            for id in [UNKNOWN, "what"] {
                assert_eq!(modify(&b, id, &[("iops", "4000")]).await, Code::NotFound);
            }
        });
    }

    #[test]
    fn should_fail_if_the_parameters_are_not_supported() {
        case(&NEEDS, async |b| {
            let id = b.volume("v", 10).await;
            let refused = [("iops", "4000"), ("unsupported", "x")];
            assert_eq!(modify(&b, &id, &refused).await, Code::InvalidArgument, "and nothing is applied");
            assert_eq!(modify(&b, &id, &[("type", "no-such-type")]).await, Code::InvalidArgument);
            assert_eq!(modify(&b, &id, &[("throughput", "1")]).await, Code::InvalidArgument, "below the least");
            // The driver raises IOPS to the minimum of the type.
            assert_eq!(modify(&b, &id, &[("iops", "1")]).await, Code::Ok);
        });
    }

    #[test]
    fn should_work_for_a_volume_that_was_created_without_a_class() {
        case(&NEEDS, async |b| {
            let id = b.volume("v", 10).await;
            for _ in 0..2 {
                assert_eq!(modify(&b, &id, &[("iops", "4000"), ("tagSpecification_1", "team=a")]).await, Code::Ok);
            }
        });
    }

    #[test]
    fn should_work_for_a_volume_that_was_created_with_a_class() {
        case(&NEEDS, async |b| {
            let id = with_class(&b).await;
            assert_eq!(modify(&b, &id, &[("iops", "3500")]).await, Code::Ok, "it is so already");
            assert_eq!(modify(&b, &id, &[("throughput", "250")]).await, Code::Ok);
        });
    }

    #[test]
    fn should_fail_if_the_parameters_are_not_supported_for_a_volume_that_was_created_with_a_class() {
        case(&NEEDS, async |b| {
            let id = with_class(&b).await;
            assert_eq!(modify(&b, &id, &[("unsupported", "x")]).await, Code::InvalidArgument);
        });
    }
}
