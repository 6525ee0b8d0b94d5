//! RESOURCE_EXHAUSTED from CreateVolume, with and without topology, and capacity that becomes free again.

use csi_proto::csi::*;
use tonic::Code;

use super::base::driver;
use crate::bench::*;

fn only(key: &str, zone: &str) -> Option<TopologyRequirement> {
    let segments = [(key.to_owned(), zone.to_owned())].into();
    Some(TopologyRequirement { requisite: vec![Topology { segments }], preferred: Vec::new() })
}

#[test]
fn a_full_zone_refuses_another_takes_it_and_what_is_deleted_is_free_again() {
    driver(async |b| {
        b.settings.set_capacity_gib(Some(5));
        let within = |name: &str, place: &str| CreateVolumeRequest {
            accessibility_requirements: only("topology.kubernetes.io/zone", place),
            ..b.create(name, 4)
        };
        let first = b.controller().create_volume(within("a", "us-east-1a")).await.unwrap().into_inner();
        let again = within("b", "us-east-1a");
        assert_eq!(code(b.controller().create_volume(again.clone()).await), Code::ResourceExhausted);
        let elsewhere = b.controller().create_volume(within("b2", "us-east-1b")).await.unwrap().into_inner();
        let topology = &elsewhere.volume.unwrap().accessible_topology[0].segments;
        assert_eq!(topology["topology.kubernetes.io/zone"], "us-east-1b");
        assert_eq!(code(b.controller().create_volume(within("c", "mars-1a")).await), Code::ResourceExhausted);
        b.delete(&first.volume.unwrap().volume_id).await;
        assert_eq!(code(b.controller().create_volume(again).await), Code::Ok);
    });
}

#[test]
fn a_zone_is_asked_for_by_its_id() {
    driver(async |b| {
        let within = |name: &str, id: &str| CreateVolumeRequest {
            accessibility_requirements: only("topology.k8s.aws/zone-id", id),
            ..b.create(name, 4)
        };
        let made = b.controller().create_volume(within("a", "use1-az2")).await.unwrap().into_inner().volume.unwrap();
        assert_eq!(made.accessible_topology[0].segments["topology.kubernetes.io/zone"], "us-east-1b");
        assert_eq!(code(b.controller().create_volume(within("b", "mars1-az1")).await), Code::ResourceExhausted);
    });
}
