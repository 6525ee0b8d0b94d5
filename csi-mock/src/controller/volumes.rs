//! CreateVolume, DeleteVolume and ValidateVolumeCapabilities.

use std::collections::BTreeMap;

use csi_proto::csi::validate_volume_capabilities_response::Confirmed;
use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse, Topology,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume as CsiVolume, VolumeContentSource,
};
use substrate::mutant;
use tonic::Status;

use super::attach::{CREATE_DELAY, CREATION};
use super::create::{NAME_TAG, Order, Source};
use super::ec2::Ec2Error;
use super::parameters::Shape;
use super::service::{ControllerService, gib, internal, is_id, no_volume};
use super::xml::{Volume, Zone};
use crate::calls::Call;
use crate::capabilities::Feature;
use crate::check;
use crate::events::Rule;
use crate::identity::WELL_KNOWN_ZONE_KEY;

/// Largest number of created and deleted volumes of one name while the cloud remembers their tokens.
const LAST_GENERATION: u32 = 1000;

/// Returns the topology of a zone.
pub(super) fn topology(zone: &str) -> Vec<Topology> {
    let segments = [(WELL_KNOWN_ZONE_KEY.to_owned(), zone.to_owned())].into();
    vec![Topology { segments }]
}

impl ControllerService {
    pub(super) async fn create(
        &self,
        call: &Call,
        request: CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse, Status> {
        let offered = self.calls.settings().capabilities();
        let mut order = Order::read(&request, &self.config.tags_of_volume(&request.name), &offered)?;
        let _held = self.calls.lock(&order.name)?;
        self.name_zones(&mut order).await?;
        self.resolve_source(&mut order).await?;
        let asked = order.clone();
        self.spoil(&mut order);
        let earlier = self.memory().sources.get(&order.name).cloned();
        if earlier.is_some_and(|source| Some(&source) != order.source.as_ref()) && self.exists(&order.name).await? {
            return Err(Status::already_exists(format!("a volume called `{}` of another source exists", order.name)));
        }
        let zone = match order.zones.first() {
            Some(zone) if !mutant!(self.calls.ctx(), "zone-told-not-made") => zone.clone(),
            _ => self.first_zone().await?,
        };
        let created = {
            let is_limited = self.calls.settings().capacity_gib().is_some();
            let _turn = if is_limited { Some(self.capacity_turn.lock().await) } else { None };
            self.check_capacity(&order, &zone).await?;
            self.made(&order, &zone).await?
        };
        call.created(&created.volume_id);
        if let Some(source) = &order.source {
            self.memory().sources.insert(order.name.clone(), source.clone());
        }
        call.after_effect().await?;
        let mut volume = self.wait_created(&created.volume_id).await?;
        if mutant!(self.calls.ctx(), "capacity-told-not-made") {
            volume.size = asked.size;
        }
        if mutant!(self.calls.ctx(), "zone-told-not-made") {
            volume.availability_zone = asked.zones.first().cloned().unwrap_or(zone);
        }
        if let Some(how) = order.differs(&volume) {
            return Err(Status::already_exists(format!("a volume called `{}` {how} exists", order.name)));
        }
        let content_source = asked.source.map(|source| VolumeContentSource {
            r#type: Some(match source {
                Source::Snapshot(snapshot_id) => SourceType::Snapshot(SnapshotSource { snapshot_id }),
                Source::Volume(volume_id) => SourceType::Volume(VolumeSource { volume_id }),
            }),
        });
        let spread =
            offered.has(Feature::VolumeAccessibilityConstraints) && !mutant!(self.calls.ctx(), "topology-not-told");
        let zone = call.falsify_zone(&volume.availability_zone);
        Ok(CreateVolumeResponse {
            volume: Some(CsiVolume {
                capacity_bytes: call.falsify_capacity(gib(volume.size)),
                volume_id: volume.volume_id,
                volume_context: if mutant!(self.calls.ctx(), "volume-context-dropped") {
                    BTreeMap::new()
                } else {
                    asked.shape.context()
                },
                content_source,
                accessible_topology: if spread { topology(&zone) } else { Vec::new() },
            }),
        })
    }

    /// Changes an order as seeded bugs do, before the cloud sees it.
    fn spoil(&self, order: &mut Order) {
        let ctx = self.calls.ctx();
        if mutant!(ctx, "iops-dropped") {
            (order.shape.iops, order.shape.iops_per_gib) = (None, None);
        }
        if mutant!(ctx, "capacity-told-not-made") {
            order.size = (order.size - 1).max(1);
        }
        if mutant!(ctx, "size-in-decimal-gigabytes") {
            order.size = (order.size << 30).div_ceil(1_000_000_000);
        }
        if mutant!(ctx, "source-dropped") {
            order.source = None;
        }
        if mutant!(ctx, "tags-dropped") {
            order.tags.retain(|key, _| key == NAME_TAG);
        }
        if mutant!(ctx, "multi-attach-dropped") {
            order.multi_attach = false;
        }
        if mutant!(ctx, "preferred-zone-ignored") {
            order.zones.reverse();
        }
    }

    /// Checks the source: it must exist, its bytes must fit, and a clone is in the zone of its source.
    async fn resolve_source(&self, order: &mut Order) -> Result<(), Status> {
        match order.source.clone() {
            None => Ok(()),
            Some(Source::Snapshot(id)) => {
                let snapshot = self.snapshot(&id).await?.ok_or_else(|| {
                    Status::not_found(format!("volume_content_source: snapshot `{id}` does not exist"))
                })?;
                if snapshot.status != "completed" {
                    let status = &snapshot.status;
                    return Err(Status::failed_precondition(format!("snapshot `{id}` is not ready yet: `{status}`")));
                }
                order.hold(snapshot.volume_size)
            }
            Some(Source::Volume(id)) => {
                let missing = || Status::not_found(format!("volume_content_source: volume `{id}` does not exist"));
                if !is_id(&id, "vol") {
                    return Err(missing());
                }
                let source = self.ec2.describe_volume(&id).await.map_err(|error| match error.code() {
                    "InvalidVolume.NotFound" => missing(),
                    _ => internal(&format!("cannot look at volume `{id}`"), &error),
                })?;
                if order.shape.kms_key.as_ref().is_some_and(|key| *key != source.kms_key_id) {
                    let why = "Cannot provision clone with different KMS key than source volume";
                    return Err(Status::invalid_argument(why));
                }
                if !order.zones.is_empty()
                    && !order.zones.contains(&source.availability_zone)
                    && !mutant!(self.calls.ctx(), "clone-zone-not-checked")
                {
                    return Err(Status::resource_exhausted(format!(
                        "accessibility_requirements: a clone lies in the zone of its source, {}",
                        source.availability_zone
                    )));
                }
                order.zones = vec![source.availability_zone];
                order.hold(source.size)
            }
        }
    }

    async fn exists(&self, name: &str) -> Result<bool, Status> {
        self.by_name(name).await.map(|found| found.is_some())
    }

    /// Checks that the zone has room, if a capacity is set.
    async fn check_capacity(&self, order: &Order, zone: &str) -> Result<(), Status> {
        if self.calls.settings().capacity_gib().is_none() || self.exists(&order.name).await? {
            return Ok(());
        }
        let free = self.free_gib(Some(zone)).await?;
        if order.size > free && !mutant!(self.calls.ctx(), "zone-capacity-not-checked") {
            return Err(Status::resource_exhausted(format!(
                "zone {zone} has {free} GiB left, volume `{}` needs {}",
                order.name, order.size
            )));
        }
        Ok(())
    }

    async fn first_zone(&self) -> Result<String, Status> {
        let first = self.zones().await?.into_iter().next();
        let first = first.ok_or_else(|| Status::resource_exhausted("the cloud has no availability zone"))?;
        Ok(first.zone_name)
    }

    /// Adds the zones of which only the ids are given.
    async fn name_zones(&self, order: &mut Order) -> Result<(), Status> {
        if order.zone_ids.is_empty() {
            return Ok(());
        }
        let zones = self.zones().await?;
        for id in &order.zone_ids {
            let named = zones.iter().find(|zone| zone.zone_id == *id);
            order.zones.extend(named.map(|zone| zone.zone_name.clone()));
        }
        if order.zones.is_empty() {
            let ids = order.zone_ids.join(", ");
            return Err(Status::resource_exhausted(format!("accessibility_requirements: no zone has the id {ids}")));
        }
        Ok(())
    }

    /// Returns the usable zones of the cloud.
    pub(super) async fn zones(&self) -> Result<Vec<Zone>, Status> {
        self.ec2.zones().await.map_err(|e| internal("cannot list the availability zones", &e))
    }

    /// Creates the volume, or returns that of an earlier call.
    async fn made(&self, order: &Order, zone: &str) -> Result<Volume, Status> {
        loop {
            let generation = self.memory().generations.get(&order.name).copied().unwrap_or(1);
            let error = match self.ec2.create_volume(order.form(zone, generation)).await {
                Ok(volume) => return Ok(volume),
                Err(error) => error,
            };
            if error.code() != "IdempotentParameterMismatch" || self.exists(&order.name).await? {
                return self.existing(order, error).await;
            }
            // The token belongs to a deleted volume, so the next token is used. While the volume exists its token
            // stays; otherwise a retry would create a second volume of the same name. Upstream first answers
            // ALREADY_EXISTS and creates the volume at the next call, which csi-sanity does not make.
            if generation >= LAST_GENERATION {
                return self.existing(order, error).await;
            }
            self.memory().generations.insert(order.name.clone(), generation + 1);
        }
    }

    /// Handles a failed CreateVolume.
    async fn existing(&self, order: &Order, error: Ec2Error) -> Result<Volume, Status> {
        let what = format!("cannot create volume `{}`", order.name);
        match error.code() {
            "IdempotentParameterMismatch" => Err(Status::already_exists(format!("{what}: {error}"))),
            // The quota may be checked before idempotency, so the volume may exist anyway (aws-ebs-csi-driver#2512).
            "VolumeLimitExceeded" => match self.by_name(&order.name).await? {
                Some(volume) => Ok(volume),
                None => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            },
            "MaxIOPSLimitExceeded" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidZone.NotFound" => Err(Status::resource_exhausted(format!("{what}: {error}"))),
            "InvalidVolume.NotFound" | "InvalidSnapshot.NotFound" => {
                Err(Status::not_found(format!("volume_content_source: {what}: {error}")))
            }
            "InvalidParameterValue" if mutant!(self.calls.ctx(), "refused-value-told-internal") => {
                Err(internal(&what, &error))
            }
            "InvalidParameterCombination"
            | "InvalidParameterDependency"
            | "UnknownParameter"
            | "UnsupportedOperation"
            | "InvalidParameterValue"
            | "UnknownVolumeType"
            | "InvalidParameter"
            | "MissingParameter" => Err(Status::invalid_argument(format!("parameters: {what}: {error}"))),
            _ => Err(internal(&what, &error)),
        }
    }

    pub(super) async fn by_name(&self, name: &str) -> Result<Option<Volume>, Status> {
        let found = self.ec2.volumes_by_tag(NAME_TAG, name).await;
        let found = found.map_err(|e| internal(&format!("cannot look for volume `{name}`"), &e))?;
        Ok(found.into_iter().find(|v| !matches!(&*v.status, "deleting" | "deleted")))
    }

    /// Waits for `available`, or `in-use`, since a repeat may find the volume attached (aws-ebs-csi-driver#2908).
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
                Ok(volume) if mutant!(ctx, "slow-creation-fails") => {
                    return Err(Status::internal(format!("{what}, but its state is `{}`", volume.status)));
                }
                // Describe may not list a fresh volume for some seconds.
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

    pub(super) async fn delete(
        &self,
        call: &Call,
        request: DeleteVolumeRequest,
    ) -> Result<DeleteVolumeResponse, Status> {
        let volume = check::required("volume_id", &request.volume_id)?;
        let _held = self.calls.lock(volume)?;
        if !is_id(volume, "vol") {
            return Ok(DeleteVolumeResponse {});
        }
        if mutant!(self.calls.ctx(), "delete-not-asked") {
            return Ok(DeleteVolumeResponse {});
        }
        match self.ec2.delete_volume(volume).await {
            Ok(()) => {}
            Err(error) => match error.code() {
                "InvalidVolume.NotFound" => {}
                "VolumeInUse" if mutant!(self.calls.ctx(), "delete-in-use-told-done") => {}
                "VolumeInUse" => {
                    call.violates(Rule::DeleteWhilePublished);
                    return Err(Status::failed_precondition(format!("cannot delete volume `{volume}`: {error}")));
                }
                _ => return Err(internal(&format!("cannot delete volume `{volume}`"), &error)),
            },
        }
        call.after_effect().await?;
        self.memory().published.retain(|(v, _), _| v != volume);
        Ok(DeleteVolumeResponse {})
    }

    pub(super) async fn validate(
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
        let there = self.ec2.describe_volume(volume).await.map_err(|error| match error.code() {
            "InvalidVolume.NotFound" => no_volume(volume),
            _ => internal(&format!("cannot look at volume `{volume}`"), &error),
        })?;
        let newer = self.calls.settings().has(Feature::ControllerSingleNodeMultiWriter);
        let supported = |capability| {
            let capability = check::capability("volume_capabilities", Some(capability))?;
            check::supported("volume_capabilities", &capability, newer)?;
            if capability.many_nodes() && there.multi_attach_enabled != "true" {
                return Err(check::invalid("volume_capabilities", "the volume was not made for several nodes"));
            }
            Ok(())
        };
        let shape = Shape::read(&request.parameters, &request.mutable_parameters).map(drop);
        Ok(match request.volume_capabilities.iter().try_for_each(supported).and(shape) {
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
}
