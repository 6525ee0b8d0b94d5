//! The Controller RPCs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::controller_service_capability::{Rpc, Type, rpc};
use csi_proto::csi::validate_volume_capabilities_response::Confirmed;
use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerGetVolumeRequest, ControllerGetVolumeResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerServiceCapability, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetCapacityResponse, ListSnapshotsRequest, ListSnapshotsResponse, ListVolumesRequest,
    ListVolumesResponse, Topology, ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    Volume as CsiVolume,
};
use tonic::{Request, Response, Status};

use super::ControllerConfig;
use super::attach::{ATTACHMENT, CREATE_DELAY, CREATION, Look, STUCK_ATTACHING, look};
use super::create::{GIB, NAME_TAG, Order};
use super::devices::Names;
use super::ec2::{Client, Ec2Error};
use super::xml::{Instance, Volume};
use crate::calls::{About, Call, Calls};
use crate::check::{self, Capability};
use crate::identity::WELL_KNOWN_ZONE_KEY;

/// The key of the publish context under which the device name travels to the node (EBS driver).
const DEVICE_PATH: &str = "devicePath";

/// The Controller service.
#[derive(Clone, Debug)]
pub struct ControllerService {
    calls: Calls,
    ec2: Client,
    config: Arc<ControllerConfig>,
    memory: Arc<Mutex<Memory>>,
}

/// What is remembered between calls. Nothing of it is needed after a restart.
#[derive(Clone, Debug, Default)]
struct Memory {
    names: Names,
    /// By volume name: which ClientToken is the next, once an earlier one was burnt.
    generations: BTreeMap<String, u32>,
    /// By volume and node: the capability of the publish in force.
    published: BTreeMap<(String, String), Capability>,
}

fn internal(what: &str, error: &Ec2Error) -> Status {
    match error {
        Ec2Error::Unreachable { .. } => Status::unavailable(format!("{what}: {error}")),
        _ => Status::internal(format!("{what}: {error}")),
    }
}

/// Whether `id` is `prefix-` and 8 or 17 lower-case hex digits, as EC2 has it. Other ids cannot exist there.
fn is_id(id: &str, prefix: &str) -> bool {
    let digits = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    matches!(digits.len(), 8 | 17) && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn no_volume(volume: &str) -> Status {
    Status::not_found(format!("volume `{volume}` does not exist"))
}

fn no_node(node: &str) -> Status {
    Status::not_found(format!("node `{node}` does not exist: there is no such instance"))
}

impl ControllerService {
    pub(crate) fn new(calls: Calls, config: ControllerConfig) -> Self {
        let ctx = calls.ctx();
        let ec2 = Client::new(ctx, config.ec2.clone(), &config.ec2_host, &config.region, &config.credentials);
        Self { calls, ec2, config: Arc::new(config), memory: Arc::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create(&self, call: &Call, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        let order = Order::read(&request, &self.config.extra_tags)?;
        let _held = self.calls.lock(&order.name)?;
        let zone = match &order.zone {
            Some(zone) => zone.clone(),
            None => self.first_zone().await?,
        };
        let generation = self.memory().generations.get(&order.name).copied().unwrap_or(1);
        let created = match self.ec2.create_volume(order.form(&zone, generation)).await {
            Ok(volume) => volume,
            Err(error) => self.existing(&order, generation, error).await?,
        };
        call.created(&created.volume_id);
        call.after_effect().await?;
        let volume = self.wait_created(&created.volume_id).await?;
        if volume.size < order.size {
            return Err(Status::already_exists(format!(
                "a volume called `{}` of {} GiB exists",
                order.name, volume.size
            )));
        }
        let segments = [(WELL_KNOWN_ZONE_KEY.to_owned(), volume.availability_zone.clone())].into();
        Ok(CreateVolumeResponse {
            volume: Some(CsiVolume {
                capacity_bytes: (volume.size as i64).saturating_mul(GIB),
                volume_id: volume.volume_id,
                volume_context: BTreeMap::new(),
                content_source: None,
                accessible_topology: vec![Topology { segments }],
            }),
        })
    }

    async fn first_zone(&self) -> Result<String, Status> {
        let zones = self.ec2.zones().await.map_err(|e| internal("cannot list the availability zones", &e))?;
        zones.into_iter().next().ok_or_else(|| Status::resource_exhausted("the cloud has no availability zone"))
    }

    /// What a failed CreateVolume means (ec2-api.md §4.1).
    async fn existing(&self, order: &Order, generation: u32, error: Ec2Error) -> Result<Volume, Status> {
        let what = format!("cannot create volume `{}`", order.name);
        match error.code() {
            "IdempotentParameterMismatch" => {
                let there = self.by_name(&order.name).await?;
                if there.is_none() {
                    // The token belongs to a deleted volume: the next attempt takes another one. While the volume
                    // exists the token stays, else a retry would make a second volume of the same name.
                    self.memory().generations.insert(order.name.clone(), generation.saturating_add(1));
                }
                Err(Status::already_exists(format!("{what}: {error}")))
            }
            // The quota may be checked before idempotency, so the volume may exist all the same (csi#2512).
            "VolumeLimitExceeded" => match self.by_name(&order.name).await? {
                Some(volume) => Ok(volume),
                None => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            },
            "MaxIOPSLimitExceeded" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidZone.NotFound" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidParameterCombination"
            | "InvalidParameterValue"
            | "UnknownVolumeType"
            | "InvalidParameter"
            | "MissingParameter" => Err(Status::invalid_argument(format!("parameters: {what}: {error}"))),
            _ => Err(internal(&what, &error)),
        }
    }

    async fn by_name(&self, name: &str) -> Result<Option<Volume>, Status> {
        let found = self.ec2.volumes_by_tag(NAME_TAG, name).await;
        let found = found.map_err(|e| internal(&format!("cannot look for volume `{name}`"), &e))?;
        Ok(found.into_iter().find(|v| !matches!(&*v.status, "deleting" | "deleted")))
    }

    /// Waits for `available`; `in-use` is good too, since a repeat may find the volume attached (csi#2908).
    async fn wait_created(&self, id: &str) -> Result<Volume, Status> {
        let ctx = self.calls.ctx();
        let what = format!("volume `{id}` was created");
        ctx.sleep(CREATE_DELAY).await;
        let mut waits = CREATION.waits();
        loop {
            match self.ec2.describe_volume(id).await {
                Ok(volume) if matches!(&*volume.status, "available" | "in-use") => return Ok(volume),
                Ok(volume) if volume.status == "error" => {
                    return Err(Status::internal(format!("{what}, but its state is `error`")));
                }
                // A fresh volume may be missing from Describe for some seconds (ec2-api.md §11).
                Ok(_) => {}
                Err(error) if error.code() == "InvalidVolume.NotFound" => {}
                Err(error) => return Err(internal(&what, &error)),
            }
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None => return Err(Status::deadline_exceeded(format!("{what}, but did not become available"))),
            }
        }
    }

    async fn delete(&self, call: &Call, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let _held = self.calls.lock(volume)?;
        if !is_id(volume, "vol") {
            return Ok(DeleteVolumeResponse {});
        }
        match self.ec2.delete_volume(volume).await {
            Ok(()) => {}
            Err(error) => match error.code() {
                "InvalidVolume.NotFound" => {}
                "VolumeInUse" => {
                    return Err(Status::failed_precondition(format!("cannot delete volume `{volume}`: {error}")));
                }
                _ => return Err(internal(&format!("cannot delete volume `{volume}`"), &error)),
            },
        }
        call.after_effect().await?;
        self.memory().published.retain(|(v, _), _| v != volume);
        Ok(DeleteVolumeResponse {})
    }

    async fn publish(
        &self,
        call: &Call,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let node = check::node_id(&request.node_id)?;
        let capability = check::capability("volume_capability", request.volume_capability.as_ref())?;
        check::single_node("volume_capability", &capability)?;
        if request.readonly {
            return Err(check::invalid("readonly", "this driver has no PUBLISH_READONLY capability"));
        }
        let _held = self.calls.lock(volume)?;
        if !is_id(volume, "vol") {
            return Err(no_volume(volume));
        }
        if !is_id(node, "i") {
            return Err(no_node(node));
        }
        let device = self.attach(volume, node, &capability).await?;
        call.after_effect().await?;
        self.memory().published.insert((volume.to_owned(), node.to_owned()), capability);
        Ok(ControllerPublishVolumeResponse { publish_context: [(DEVICE_PATH.to_owned(), device)].into() })
    }

    async fn attach(&self, volume: &str, node: &str, capability: &Capability) -> Result<String, Status> {
        let instance = self.ec2.describe_instance(node).await.map_err(|error| match error.code() {
            "InvalidInstanceID.NotFound" | "InvalidInstanceID.Malformed" => no_node(node),
            _ => internal(&format!("cannot look at node `{node}`"), &error),
        })?;
        let mapped = instance.block_device_mapping.item.iter().any(|m| m.ebs.volume_id == volume);
        if mapped {
            let key = (volume.to_owned(), node.to_owned());
            if self.memory().published.get(&key).is_some_and(|earlier| earlier != capability) {
                return Err(Status::already_exists(format!(
                    "volume `{volume}` is published to node `{node}` with another volume_capability"
                )));
            }
        } else {
            self.request_attach(volume, node, &instance).await?;
        }
        let attached = self.wait_attached(volume, node, mapped.then_some(&instance)).await;
        // After a failed wait the name stays in flight, and so out of reach of other volumes (ec2-api.md §6).
        if attached.is_ok() {
            self.memory().names.release(node, volume);
        }
        attached
    }

    /// Sends AttachVolume under a free device name.
    async fn request_attach(&self, volume: &str, node: &str, instance: &Instance) -> Result<(), Status> {
        let used: Vec<String> = instance.block_device_mapping.item.iter().map(|m| m.device_name.clone()).collect();
        let now = self.calls.ctx().now().mono;
        let name = self.memory().names.allocate(now, node, volume, &used).ok_or_else(|| {
            Status::resource_exhausted(format!("node `{node}` has no free device name left for volume `{volume}`"))
        })?;
        let Err(error) = self.ec2.attach_volume(volume, node, &name).await else { return Ok(()) };
        let what = format!("cannot attach volume `{volume}` to node `{node}`");
        if matches!(error, Ec2Error::Api { .. }) {
            self.memory().names.release(node, volume);
        }
        match error.code() {
            "VolumeInUse" => self.in_use(volume, node, &what, &error).await,
            "InvalidParameterValue" if error.message().contains("already in use") => {
                self.memory().names.refuse(now, node, &name);
                Err(internal(&what, &error))
            }
            "AttachmentLimitExceeded" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidVolume.NotFound" => Err(no_volume(volume)),
            "InvalidInstanceID.NotFound" => Err(no_node(node)),
            _ => Err(internal(&what, &error)),
        }
    }

    /// VolumeInUse: attached here by an attempt whose answer was lost, or published on another node, which CSI
    /// answers with FAILED_PRECONDITION and the node's id.
    async fn in_use(&self, volume: &str, node: &str, what: &str, error: &Ec2Error) -> Result<(), Status> {
        let there = self.ec2.describe_volume(volume).await.map_err(|e| internal(what, &e))?;
        match look(&there, node, self.calls.ctx().now().wall, self.calls.ctx().scaled(STUCK_ATTACHING)) {
            Look::Elsewhere(other) => {
                Err(Status::failed_precondition(format!("{what}: it is published on node `{other}` ({error})")))
            }
            Look::Absent | Look::Multiple => Err(internal(what, error)),
            Look::Attached(_) | Look::Waiting(_) | Look::Stuck => Ok(()),
        }
    }

    /// Waits until the attachment is there; `mapped` is the instance when it listed the volume before any attach.
    async fn wait_attached(&self, volume: &str, node: &str, mapped: Option<&Instance>) -> Result<String, Status> {
        let ctx = self.calls.ctx();
        let what = format!("cannot attach volume `{volume}` to node `{node}`");
        let patience = ctx.scaled(STUCK_ATTACHING);
        let mut again = mapped;
        let mut last = String::new();
        let mut waits = ATTACHMENT.waits();
        loop {
            let there = self.ec2.describe_volume(volume).await.map_err(|error| match error.code() {
                "InvalidVolume.NotFound" => no_volume(volume),
                _ => internal(&what, &error),
            })?;
            match look(&there, node, ctx.now().wall, patience) {
                Look::Attached(device) => return Ok(device),
                Look::Elsewhere(other) => {
                    return Err(Status::failed_precondition(format!("{what}: it is published on node `{other}`")));
                }
                Look::Multiple => return Err(Status::internal(format!("{what}: it has multiple attachments"))),
                Look::Stuck => {
                    // csi#2833. The next attempt of the caller begins anew.
                    if let Err(error) = self.ec2.detach_volume(volume, node).await {
                        return Err(internal(
                            &format!("{what}: it is stuck in `attaching` and cannot be detached"),
                            &error,
                        ));
                    }
                    return Err(Status::internal(format!("{what}: it was stuck in `attaching` and was detached")));
                }
                Look::Absent => match again.take() {
                    // The instance listed the volume, the volume says that it is detached: one more attach (csi#2005).
                    Some(instance) => self.request_attach(volume, node, instance).await?,
                    None => "absent".clone_into(&mut last),
                },
                Look::Waiting(state) => last = state,
            }
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None => return Err(Status::deadline_exceeded(format!("{what}: the attachment is still `{last}`"))),
            }
        }
    }

    async fn unpublish(
        &self,
        call: &Call,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let _held = self.calls.lock(volume)?;
        if !is_id(volume, "vol") {
            return Ok(ControllerUnpublishVolumeResponse {});
        }
        let nodes = if request.node_id.is_empty() {
            self.attached_nodes(volume).await?
        } else {
            vec![check::node_id(&request.node_id)?.to_owned()]
        };
        for node in nodes.iter().filter(|n| is_id(n, "i")) {
            self.detach(volume, node).await?;
            self.memory().names.release(node, volume);
        }
        call.after_effect().await?;
        self.memory().published.retain(|(v, n), _| v != volume || !nodes.contains(n));
        Ok(ControllerUnpublishVolumeResponse {})
    }

    /// CSI: an empty node_id means every node.
    async fn attached_nodes(&self, volume: &str) -> Result<Vec<String>, Status> {
        match self.ec2.describe_volume(volume).await {
            Ok(there) => Ok(there.attachment_set.item.into_iter().map(|a| a.instance_id).collect()),
            Err(error) if error.code() == "InvalidVolume.NotFound" => Ok(Vec::new()),
            Err(error) => Err(internal(&format!("cannot look at volume `{volume}`"), &error)),
        }
    }

    async fn detach(&self, volume: &str, node: &str) -> Result<(), Status> {
        let what = format!("cannot detach volume `{volume}` from node `{node}`");
        if let Err(error) = self.ec2.detach_volume(volume, node).await {
            match error.code() {
                "InvalidVolume.NotFound" => return Ok(()),
                // Taken for detached, as the EBS driver does; the wait below is the proof that it does not seek, so
                // that IncorrectState during `detaching` is no false success (ec2-api.md §4.1, E7).
                "IncorrectState" | "InvalidAttachment.NotFound" | "InvalidInstanceID.NotFound" => {}
                _ => return Err(internal(&what, &error)),
            }
        }
        let ctx = self.calls.ctx();
        let mut waits = ATTACHMENT.waits();
        loop {
            let state = match self.ec2.describe_volume(volume).await {
                Ok(there) => {
                    let ours = there.attachment_set.item.into_iter().find(|a| a.instance_id == node);
                    match ours.map(|a| a.status) {
                        None => return Ok(()),
                        Some(status) if status == "detached" => return Ok(()),
                        Some(status) => status,
                    }
                }
                Err(error) if error.code() == "InvalidVolume.NotFound" => return Ok(()),
                Err(error) => return Err(internal(&what, &error)),
            };
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None => return Err(Status::deadline_exceeded(format!("{what}: the attachment is still `{state}`"))),
            }
        }
    }

    async fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(check::invalid("volume_capabilities", "at least one is required"));
        }
        if !is_id(volume, "vol") {
            return Err(no_volume(volume));
        }
        self.ec2.describe_volume(volume).await.map_err(|error| match error.code() {
            "InvalidVolume.NotFound" => no_volume(volume),
            _ => internal(&format!("cannot look at volume `{volume}`"), &error),
        })?;
        let supported = |capability| {
            check::capability("volume_capabilities", Some(capability))
                .and_then(|c| check::single_node("volume_capabilities", &c))
        };
        Ok(match request.volume_capabilities.iter().try_for_each(supported) {
            Ok(()) => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            },
            Err(status) => ValidateVolumeCapabilitiesResponse { confirmed: None, message: status.message().to_owned() },
        })
    }

    /// An RPC whose capability the driver does not have.
    async fn absent<T>(&self, rpc: &'static str, volume: &str, capability: &str) -> Result<Response<T>, Status> {
        let about = About { rpc, volume: volume.to_owned(), ..About::default() };
        let refusal = Status::unimplemented(format!("this driver has no {capability} capability"));
        self.calls.run(about, async |_| Err(refusal)).await
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = About { rpc: "CreateVolume", target: request.name.clone(), ..About::default() };
        self.calls.run(about, async |call| self.create(call, request).await).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = About { rpc: "DeleteVolume", volume: request.volume_id.clone(), ..About::default() };
        self.calls.run(about, async |call| self.delete(call, request).await).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = About {
            rpc: "ControllerPublishVolume",
            volume: request.volume_id.clone(),
            node: request.node_id.clone(),
            ..About::default()
        };
        self.calls.run(about, async |call| self.publish(call, request).await).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let about = About {
            rpc: "ControllerUnpublishVolume",
            volume: request.volume_id.clone(),
            node: request.node_id.clone(),
            ..About::default()
        };
        self.calls.run(about, async |call| self.unpublish(call, request).await).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let about = About { rpc: "ValidateVolumeCapabilities", volume: request.volume_id.clone(), ..About::default() };
        self.calls.run(about, async |_| self.validate(request).await).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let offered =
            |kind: rpc::Type| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })) };
        let capabilities =
            [rpc::Type::CreateDeleteVolume, rpc::Type::PublishUnpublishVolume, rpc::Type::SingleNodeMultiWriter]
                .map(offered);
        let about = About { rpc: "ControllerGetCapabilities", ..About::default() };
        self.calls
            .run(about, async |_| Ok(ControllerGetCapabilitiesResponse { capabilities: capabilities.to_vec() }))
            .await
    }

    async fn list_volumes(&self, _: Request<ListVolumesRequest>) -> Result<Response<ListVolumesResponse>, Status> {
        self.absent("ListVolumes", "", "LIST_VOLUMES").await
    }

    async fn get_capacity(&self, _: Request<GetCapacityRequest>) -> Result<Response<GetCapacityResponse>, Status> {
        self.absent("GetCapacity", "", "GET_CAPACITY").await
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        self.absent("CreateSnapshot", &request.get_ref().source_volume_id, "CREATE_DELETE_SNAPSHOT").await
    }

    async fn delete_snapshot(
        &self,
        _: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        self.absent("DeleteSnapshot", "", "CREATE_DELETE_SNAPSHOT").await
    }

    async fn list_snapshots(
        &self,
        _: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        self.absent("ListSnapshots", "", "LIST_SNAPSHOTS").await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        self.absent("ControllerExpandVolume", &request.get_ref().volume_id, "EXPAND_VOLUME").await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        self.absent("ControllerGetVolume", &request.get_ref().volume_id, "GET_VOLUME").await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        self.absent("ControllerModifyVolume", &request.get_ref().volume_id, "MODIFY_VOLUME").await
    }
}
