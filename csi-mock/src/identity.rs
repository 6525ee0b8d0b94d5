//! The Identity service: name and capabilities of the driver.

use csi_proto::csi::identity_server::{Identity, IdentityServer};
use csi_proto::csi::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use csi_proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use tonic::{Request, Response, Status};

use crate::calls::{About, Calls};
use crate::capabilities::Feature;

/// The driver's default name: that of the EBS driver.
pub const DRIVER_NAME: &str = "ebs.csi.aws.com";
/// Topology key of the EBS driver.
pub const ZONE_KEY: &str = "topology.ebs.csi.aws.com/zone";
/// Topology key of Kubernetes.
pub const WELL_KNOWN_ZONE_KEY: &str = "topology.kubernetes.io/zone";
/// Topology key with the id of a zone, which a StorageClass may use (EBS driver, `driver.go`).
pub(crate) const ZONE_ID_KEY: &str = "topology.k8s.aws/zone-id";

/// The Identity service of one driver process.
#[derive(Clone, Debug)]
pub struct IdentityService {
    calls: Calls,
    driver_name: String,
    /// True if a controller service answers on the same endpoint.
    controller: bool,
}

/// Returns the gRPC services of a driver, starting with Identity; `controller` if Controller will be added.
pub(crate) fn routes(calls: &Calls, driver_name: &str, controller: bool) -> tonic::service::Routes {
    calls.ctx().faults().declare(crate::faults::IDENTITY);
    let identity = IdentityService { calls: calls.clone(), driver_name: driver_name.to_owned(), controller };
    tonic::service::Routes::new(IdentityServer::new(identity))
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let about = About { rpc: "GetPluginInfo", ..About::default() };
        self.calls
            .rpc(about, request.into_inner(), async |_, _| {
                Ok(GetPluginInfoResponse {
                    name: self.driver_name.clone(),
                    vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
                    manifest: [("vendor".to_owned(), "mooring".to_owned())].into(),
                })
            })
            .await
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let about = About { rpc: "GetPluginCapabilities", ..About::default() };
        let service =
            |kind: service::Type| PluginCapability { r#type: Some(Type::Service(Service { r#type: kind.into() })) };
        let expansion = |kind: volume_expansion::Type| PluginCapability {
            r#type: Some(Type::VolumeExpansion(VolumeExpansion { r#type: kind.into() })),
        };
        let all = [
            (Feature::ControllerService, service(service::Type::ControllerService)),
            (Feature::VolumeAccessibilityConstraints, service(service::Type::VolumeAccessibilityConstraints)),
            (Feature::GroupControllerService, service(service::Type::GroupControllerService)),
            (Feature::SnapshotMetadataService, service(service::Type::SnapshotMetadataService)),
            (Feature::ExpansionOnline, expansion(volume_expansion::Type::Online)),
            (Feature::ExpansionOffline, expansion(volume_expansion::Type::Offline)),
        ];
        // Controller capabilities are offered only if the controller answers here.
        let here = |feature: Feature| {
            self.controller || matches!(feature, Feature::VolumeAccessibilityConstraints | Feature::ExpansionOnline)
        };
        self.calls
            .rpc(about, request.into_inner(), async |_, _| {
                let offered = self.calls.settings().capabilities();
                let capabilities = all.into_iter().filter(|(f, _)| offered.has(*f) && here(*f)).map(|(_, c)| c);
                Ok(GetPluginCapabilitiesResponse { capabilities: capabilities.collect() })
            })
            .await
    }

    async fn probe(&self, request: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let about = About { rpc: "Probe", ..About::default() };
        let ready = self.calls.settings().ready();
        let reply = ProbeResponse { ready: Some(ready) };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }
}
