//! The RPCs of CSI by name, with requests and answers as JSON. The two that stream blocks are not among them.

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use substrate::body::HttpService;
use substrate::json::{Value, from_value, to_value};
use tonic::{Response, Status};

use crate::csi::controller_client::ControllerClient;
use crate::csi::group_controller_client::GroupControllerClient;
use crate::csi::identity_client::IdentityClient;
use crate::csi::node_client::NodeClient;
use crate::{Channel, csi};

/// Service of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Name, capabilities and readiness of the driver.
    Identity,
    /// Volumes and snapshots.
    Controller,
    /// Groups of snapshots.
    GroupController,
    /// Mounts of one node.
    Node,
}

/// One RPC.
pub struct Rpc {
    /// Its name, such as `ListVolumes`.
    pub name: &'static str,
    /// Its service.
    pub service: Service,
    call: fn(HttpService, Value) -> BoxFuture<'static, Result<Value, Status>>,
    check: fn(Value) -> Result<(), String>,
}

impl Rpc {
    /// Returns the RPC of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        RPCS.iter().find(|rpc| rpc.name == name)
    }

    /// Checks that `request` is the JSON form of the RPC's request.
    ///
    /// # Errors
    /// Names the wrong field.
    pub fn check(&self, request: Value) -> Result<(), String> {
        (self.check)(request)
    }

    /// Calls the RPC of a driver behind `service`. Fields that `request` leaves out are empty.
    ///
    /// # Errors
    /// The driver's status; INVALID_ARGUMENT if `request` is not the RPC's request.
    pub async fn call(&self, service: HttpService, request: Value) -> Result<Value, Status> {
        (self.call)(service, request).await
    }
}

fn message<M: DeserializeOwned>(request: Value) -> Result<M, String> {
    from_value(request).map_err(|error| error.to_string())
}

fn answer<M: Serialize>(answer: Response<M>) -> Result<Value, Status> {
    to_value(&answer.into_inner()).map_err(|error| Status::internal(error.to_string()))
}

macro_rules! rpcs {
    ($($service:ident $client:ident: $method:ident $name:ident $request:ident,)+) => {
        /// All RPCs with one answer.
        pub const RPCS: &[Rpc] = &[$(Rpc {
            name: stringify!($name),
            service: Service::$service,
            call: |service, request| Box::pin(async move {
                let request: csi::$request = message(request).map_err(Status::invalid_argument)?;
                answer($client::new(Channel(service)).$method(request).await?)
            }),
            check: |request| message::<csi::$request>(request).map(drop),
        },)+];
    };
}

rpcs! {
    Identity IdentityClient: get_plugin_info GetPluginInfo GetPluginInfoRequest,
    Identity IdentityClient: get_plugin_capabilities GetPluginCapabilities GetPluginCapabilitiesRequest,
    Identity IdentityClient: probe Probe ProbeRequest,
    Controller ControllerClient: create_volume CreateVolume CreateVolumeRequest,
    Controller ControllerClient: delete_volume DeleteVolume DeleteVolumeRequest,
    Controller ControllerClient: controller_publish_volume ControllerPublishVolume ControllerPublishVolumeRequest,
    Controller ControllerClient: controller_unpublish_volume ControllerUnpublishVolume ControllerUnpublishVolumeRequest,
    Controller ControllerClient: validate_volume_capabilities ValidateVolumeCapabilities ValidateVolumeCapabilitiesRequest,
    Controller ControllerClient: list_volumes ListVolumes ListVolumesRequest,
    Controller ControllerClient: get_capacity GetCapacity GetCapacityRequest,
    Controller ControllerClient: controller_get_capabilities ControllerGetCapabilities ControllerGetCapabilitiesRequest,
    Controller ControllerClient: create_snapshot CreateSnapshot CreateSnapshotRequest,
    Controller ControllerClient: delete_snapshot DeleteSnapshot DeleteSnapshotRequest,
    Controller ControllerClient: list_snapshots ListSnapshots ListSnapshotsRequest,
    Controller ControllerClient: get_snapshot GetSnapshot GetSnapshotRequest,
    Controller ControllerClient: controller_expand_volume ControllerExpandVolume ControllerExpandVolumeRequest,
    Controller ControllerClient: controller_get_volume ControllerGetVolume ControllerGetVolumeRequest,
    Controller ControllerClient: controller_modify_volume ControllerModifyVolume ControllerModifyVolumeRequest,
    GroupController GroupControllerClient: group_controller_get_capabilities GroupControllerGetCapabilities GroupControllerGetCapabilitiesRequest,
    GroupController GroupControllerClient: create_volume_group_snapshot CreateVolumeGroupSnapshot CreateVolumeGroupSnapshotRequest,
    GroupController GroupControllerClient: delete_volume_group_snapshot DeleteVolumeGroupSnapshot DeleteVolumeGroupSnapshotRequest,
    GroupController GroupControllerClient: get_volume_group_snapshot GetVolumeGroupSnapshot GetVolumeGroupSnapshotRequest,
    Node NodeClient: node_stage_volume NodeStageVolume NodeStageVolumeRequest,
    Node NodeClient: node_unstage_volume NodeUnstageVolume NodeUnstageVolumeRequest,
    Node NodeClient: node_publish_volume NodePublishVolume NodePublishVolumeRequest,
    Node NodeClient: node_unpublish_volume NodeUnpublishVolume NodeUnpublishVolumeRequest,
    Node NodeClient: node_get_volume_stats NodeGetVolumeStats NodeGetVolumeStatsRequest,
    Node NodeClient: node_expand_volume NodeExpandVolume NodeExpandVolumeRequest,
    Node NodeClient: node_get_capabilities NodeGetCapabilities NodeGetCapabilitiesRequest,
    Node NodeClient: node_get_info NodeGetInfo NodeGetInfoRequest,
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn a_request_is_read_from_json_with_its_nested_messages() {
        let publish = Rpc::find("ControllerPublishVolume").unwrap();
        let capability =
            json!({"access_type": {"mount": {"fs_type": "ext4"}}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}});
        let request = json!({"volume_id": "vol-1", "node_id": "i-1", "volume_capability": capability});
        assert_eq!(publish.check(request), Ok(()));
        let wrong = publish.check(json!({"volume": "vol-1"})).unwrap_err();
        assert!(wrong.contains("`volume`") && wrong.contains("`volume_id`"), "{wrong}");
        let mode = json!({"volume_capability": {"access_mode": {"mode": "EVERYBODY"}}});
        assert!(publish.check(mode).unwrap_err().contains("EVERYBODY"));
    }
}
