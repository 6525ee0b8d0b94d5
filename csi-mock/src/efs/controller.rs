//! The Controller service of the EFS driver: a volume is an access point of a file system.

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::controller_service_capability::{Rpc, Type};
use csi_proto::csi::*;
use substrate::mutant;
use tonic::{Request, Response, Status};

use super::capability;
use super::handle::{Handle, of_access_point};
use super::parameters::{Parameters, shared_token};
use super::server::FileServer;
use super::state::{AccessPoint, NewAccessPoint, Refusal};
use crate::calls::{About, Call, Calls};
use crate::capabilities::Feature;
use crate::check;
use crate::kept::Message;

/// The Controller service.
#[derive(Clone, Debug)]
pub(super) struct ControllerService {
    pub calls: Calls,
    pub server: FileServer,
}

/// Converts a refusal of the service, with the codes of the EFS driver.
fn status(what: &str, refusal: &Refusal) -> Status {
    match refusal {
        Refusal::FileSystemNotFound(_) => Status::invalid_argument(format!("File System does not exist: {refusal}")),
        _ => Status::internal(format!("{what}: {refusal}")),
    }
}

fn about(rpc: &'static str, volume: &str, target: &str, needs: Feature) -> About {
    About { rpc, volume: volume.to_owned(), target: target.to_owned(), needs: Some(needs), ..About::default() }
}

impl ControllerService {
    async fn create(&self, call: &Call, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        let name = check::name("name", &request.name)?;
        check::map("parameters", &request.parameters)?;
        if request.volume_capabilities.is_empty() {
            return Err(check::invalid("volume_capabilities", "is required"));
        }
        for asked in &request.volume_capabilities {
            capability::check("volume_capabilities", Some(asked))?;
        }
        if request.volume_content_source.is_some() {
            return Err(check::invalid("volume_content_source", "this driver copies no volumes"));
        }
        let capacity_bytes = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        if capacity_bytes < 0 {
            return Err(check::invalid("capacity_range", "must not be negative"));
        }
        let wanted = Parameters::read(&request.parameters)?;
        let _held = self.calls.lock(name)?;
        let mut token = if wanted.reuses { shared_token(&request.parameters) } else { name.to_owned() };
        if mutant!(self.calls.ctx(), "access-point-shared") {
            wanted.file_system.clone_into(&mut token);
        }
        let point = self.access_point(&wanted, name, &token)?;
        let volume_id = of_access_point(&point.file_system, &point.id);
        call.created(&volume_id);
        call.after_effect().await?;
        // EFS has no sizes: the answer repeats the request.
        Ok(CreateVolumeResponse { volume: Some(Volume { capacity_bytes, volume_id, ..Volume::default() }) })
    }

    /// Returns the access point of a volume: a new one, or that of an earlier call with the same token.
    fn access_point(&self, wanted: &Parameters, name: &str, token: &str) -> Result<AccessPoint, Status> {
        let ctx = self.calls.ctx();
        let listed = self.server.list(&wanted.file_system);
        let others = listed.map_err(|refusal| status("Failed to fetch Access Points", &refusal))?;
        if let Some(there) = others.iter().find(|point| point.client_token == token) {
            if mutant!(ctx, "access-point-shared") {
                return Ok(there.clone());
            }
            if mutant!(ctx, "access-point-not-adopted") {
                let there = Refusal::AccessPointAlreadyExists(there.id.clone());
                return Err(Status::internal(format!("Failed to create Access point: {there}")));
            }
            let other = |why| Status::already_exists(format!("Invalid existing access point: {}: {why}", there.id));
            if mutant!(ctx, "last-gid-refused") && wanted.is_last_gid(there.gid) {
                return Err(other("its GID is not that of the storage class"));
            }
            return wanted.matches(there).map_err(other).map(|()| there.clone());
        }
        let (uid, gid) = wanted.owners(if mutant!(ctx, "gid-shared") { &[] } else { &others })?;
        let new = NewAccessPoint {
            id: self.server.new_id(),
            file_system: wanted.file_system.clone(),
            client_token: token.to_owned(),
            directory: wanted.directory(ctx, name)?,
            uid,
            gid,
            permissions: wanted.permissions.clone(),
            tags: wanted.tags.clone(),
        };
        let what = format!("Failed to create Access point in File System {}", wanted.file_system);
        self.server.create(ctx, new).map_err(|refusal| status(&what, &refusal))
    }

    async fn delete(&self, call: &Call, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let _held = self.calls.lock(volume)?;
        // A handle that this driver never made names no volume. One without an access point names a whole file system,
        // which is not deleted.
        let access_point = Handle::parse(volume).ok().and_then(|handle| handle.access_point);
        if let Some(id) = access_point.filter(|_| !mutant!(self.calls.ctx(), "access-point-left")) {
            match self.server.delete(self.calls.ctx(), &id) {
                Ok(()) | Err(Refusal::AccessPointNotFound(_)) => {}
                Err(refusal) => return Err(status(&format!("Failed to Delete volume {volume}"), &refusal)),
            }
        }
        call.after_effect().await?;
        Ok(DeleteVolumeResponse {})
    }

    fn validate(request: ValidateVolumeCapabilitiesRequest) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(check::invalid("volume_capabilities", "is required"));
        }
        Handle::parse(volume).map_err(|e| Status::not_found(e.message()))?;
        let all = request.volume_capabilities.iter();
        let refused = all.filter_map(|asked| capability::check("volume_capabilities", Some(asked)).err()).next();
        let (confirmed, message) = match refused {
            Some(status) => (None, status.message().to_owned()),
            None => {
                let volume_capabilities = request.volume_capabilities;
                let (volume_context, parameters) = (request.volume_context, request.parameters);
                let confirmed = validate_volume_capabilities_response::Confirmed {
                    volume_context,
                    volume_capabilities,
                    parameters,
                    ..Default::default()
                };
                (Some(confirmed), String::new())
            }
        };
        Ok(ValidateVolumeCapabilitiesResponse { confirmed, message })
    }

    /// Answers a call of a capability that the driver lacks.
    async fn lacks<Q: Message, T: Message>(&self, about: About, request: Request<Q>) -> Result<Response<T>, Status> {
        let rpc = about.rpc;
        let refused = async |_: &Call, _| Err(Status::unimplemented(format!("this driver does not serve {rpc}")));
        self.calls.rpc(about, request.into_inner(), refused).await
    }
}

/// Implements the service from its own RPCs, and those of capabilities that the driver lacks.
macro_rules! controller {
    ({ $($own:tt)* } $($name:ident($request:ty) -> $response:ty, $rpc:literal, $feature:ident;)*) => {
        #[tonic::async_trait]
        impl Controller for ControllerService {
            $($own)*

            $(async fn $name(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                self.lacks(about($rpc, "", "", Feature::$feature), request).await
            })*
        }
    };
}

controller! {
    {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = about("CreateVolume", "", &request.name, Feature::CreateDeleteVolume);
        self.calls.rpc(about, request, async |call, request| self.create(call, request).await).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = about("DeleteVolume", &request.volume_id, "", Feature::CreateDeleteVolume);
        self.calls.rpc(about, request, async |call, request| self.delete(call, request).await).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let about = about("ValidateVolumeCapabilities", &request.volume_id, "", Feature::ControllerService);
        self.calls.rpc(about, request, async |_, request| Self::validate(request)).await
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let offered = |kind: i32| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind })) };
        let capabilities = self.calls.settings().capabilities().controller().map(offered).collect();
        let about = about("ControllerGetCapabilities", "", "", Feature::ControllerService);
        let reply = ControllerGetCapabilitiesResponse { capabilities };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }

    }

    controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse,
        "ControllerPublishVolume", PublishUnpublishVolume;
    controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse,
        "ControllerUnpublishVolume", PublishUnpublishVolume;
    list_volumes(ListVolumesRequest) -> ListVolumesResponse, "ListVolumes", ListVolumes;
    get_capacity(GetCapacityRequest) -> GetCapacityResponse, "GetCapacity", GetCapacity;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse, "CreateSnapshot", CreateDeleteSnapshot;
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse, "DeleteSnapshot", CreateDeleteSnapshot;
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse, "ListSnapshots", ListSnapshots;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse, "GetSnapshot", GetSnapshot;
    controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse,
        "ControllerExpandVolume", ControllerExpandVolume;
    controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse,
        "ControllerGetVolume", GetVolume;
    controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse,
        "ControllerModifyVolume", ModifyVolume;
}
