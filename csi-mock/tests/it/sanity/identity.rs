//! Identity Service: 3 cases.

use csi_proto::csi::plugin_capability::{Type, service, volume_expansion};
use csi_proto::csi::*;

use crate::bench::*;

#[test]
fn get_plugin_capabilities_should_return_appropriate_capabilities() {
    case(&[], async |b| {
        let reported =
            b.identity().get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await.unwrap().into_inner();
        assert!(!reported.capabilities.is_empty());
        for capability in reported.capabilities {
            match capability.r#type.unwrap() {
                Type::Service(s) => assert_ne!(s.r#type(), service::Type::Unknown),
                Type::VolumeExpansion(e) => assert_ne!(e.r#type(), volume_expansion::Type::Unknown),
            }
        }
    });
}

#[test]
fn probe_should_return_appropriate_information() {
    case(&[], async |b| {
        let reported = b.identity().probe(ProbeRequest {}).await.unwrap().into_inner();
        assert_eq!(reported.ready, Some(true));
    });
}

#[test]
fn get_plugin_info_should_return_appropriate_information() {
    case(&[], async |b| {
        let reported = b.identity().get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
        let domain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        assert!(
            !reported.name.is_empty() && reported.name.len() <= 63 && reported.name.chars().all(domain),
            "{}",
            reported.name
        );
        assert!(!reported.vendor_version.is_empty());
    });
}
