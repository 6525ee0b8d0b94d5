//! Identity Service: 3 cases.

use csi_proto::csi::plugin_capability::{Type, service, volume_expansion};
use csi_proto::csi::*;

use crate::bench::*;

#[test]
fn get_plugin_capabilities_should_return_appropriate_capabilities() {
    case(&[], async |b| {
        let told = b.identity().get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await.unwrap().into_inner();
        assert!(!told.capabilities.is_empty());
        for capability in told.capabilities {
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
        let told = b.identity().probe(ProbeRequest {}).await.unwrap().into_inner();
        assert_eq!(told.ready, Some(true));
    });
}

#[test]
fn get_plugin_info_should_return_appropriate_information() {
    case(&[], async |b| {
        let told = b.identity().get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
        let domain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        assert!(!told.name.is_empty() && told.name.len() <= 63 && told.name.chars().all(domain), "{}", told.name);
        assert!(!told.vendor_version.is_empty());
    });
}
