//! ControllerExpandVolume and ControllerModifyVolume: both call ModifyVolume of the cloud.

use csi_proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse,
};
use substrate::mutant;
use tonic::Status;

use super::attach::MODIFICATION;
use super::create::{GIB, size};
use super::ec2::{Ec2Error, Form, pair};
use super::iops::capped;
use super::parameters::{Change, IOPS_FOLLOW_TAG, IOPS_PER_GIB_TAG};
use super::service::{ControllerService, gib, internal, no_volume};
use super::xml::{Volume, tag};
use crate::calls::Call;
use crate::capabilities::Feature;
use crate::check::{self, invalid};

/// Converts an error of ModifyVolume.
fn refused(what: &str, volume: &str, error: &Ec2Error) -> Status {
    match error.code() {
        "InvalidVolume.NotFound" => no_volume(volume),
        // An earlier modification is under way: ABORTED for a pending operation.
        "IncorrectModificationState" => Status::aborted(format!("{what}: {error}")),
        "MaxIOPSLimitExceeded" | "VolumeModificationSizeLimitExceeded" | "VolumeLimitExceeded" => {
            Status::resource_exhausted(format!("{what}: {error}"))
        }
        "InvalidParameter"
        | "InvalidParameterCombination"
        | "InvalidParameterDependency"
        | "InvalidParameterValue"
        | "UnknownParameter"
        | "UnknownVolumeType"
        | "UnsupportedOperation"
        | "ValidationError" => Status::invalid_argument(format!("mutable_parameters: {what}: {error}")),
        _ => internal(what, error),
    }
}

/// Returns the IOPS that a change, or the tags of a volume, ask for at a size in GiB (`ResizeOrModifyDisk`).
fn wanted_iops(volume: &Volume, change: &Change, gib: u64) -> Option<u64> {
    let follows = change.raises_iops || tag(&volume.tag_set, IOPS_FOLLOW_TAG) == Some("true");
    let each = || {
        let of_tag = || tag(&volume.tag_set, IOPS_PER_GIB_TAG)?.parse().ok();
        change.iops_per_gib.or_else(of_tag).filter(|each: &u64| *each > 0 && follows)
    };
    let wanted = change.iops.or_else(|| each().map(|each| each.saturating_mul(gib)))?;
    let volume_type = change.volume_type.as_ref().unwrap_or(&volume.volume_type);
    Some(capped(volume_type, gib, wanted, true))
}

/// Returns the changes that the volume lacks.
fn missing(volume: &Volume, change: &Change) -> Form {
    let mut form = Form::new();
    if let Some(kind) = change.volume_type.as_ref().filter(|kind| **kind != volume.volume_type) {
        form.push(pair("VolumeType", kind));
    }
    let iops = wanted_iops(volume, change, volume.size);
    form.extend(iops.filter(|n| Some(*n) != volume.iops).map(|n| pair("Iops", n)));
    form.extend(change.throughput.filter(|n| Some(*n) != volume.throughput).map(|n| pair("Throughput", n)));
    form
}

impl ControllerService {
    pub(super) async fn expand(
        &self,
        call: &Call,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let id = check::required("volume_id", &request.volume_id)?;
        let range = request.capacity_range.as_ref().ok_or_else(|| invalid("capacity_range", "is required"))?;
        let mut wanted = size(Some(range))?;
        if mutant!(self.calls.ctx(), "expansion-rounded-down") && range.required_bytes >= GIB {
            wanted = (range.required_bytes / GIB).unsigned_abs();
        }
        let settings = self.calls.settings();
        let block = match &request.volume_capability {
            None => false,
            some => {
                let capability = check::capability("volume_capability", some.as_ref())?;
                let newer = settings.has(Feature::ControllerSingleNodeMultiWriter);
                check::supported("volume_capability", &capability, newer)?;
                capability.block
            }
        };
        let _held = self.calls.lock(id)?;
        let volume = self.volume(id).await?;
        let published = !volume.attachment_set.item.is_empty();
        let grows = mutant!(self.calls.ctx(), "published-volume-grown");
        if volume.size < wanted && published && settings.has(Feature::ExpansionOffline) && !grows {
            return Err(Status::failed_precondition(format!(
                "volume `{id}` is published, and this driver expands volumes only while they are not"
            )));
        }
        let mut now_gib = volume.size;
        if mutant!(self.calls.ctx(), "expand-not-asked")
            || volume.size > wanted && mutant!(self.calls.ctx(), "larger-volume-told-as-asked")
        {
            now_gib = wanted;
        } else if volume.size < wanted {
            let what = format!("cannot expand volume `{id}` to {wanted} GiB");
            let mut form = vec![pair("Size", wanted), pair("VolumeId", id)];
            if !mutant!(self.calls.ctx(), "iops-not-raised-with-size") {
                form.extend(wanted_iops(&volume, &Change::default(), wanted).map(|n| pair("Iops", n)));
            }
            let modified = self.ec2.modify_volume(form).await;
            let is_trusted = matches!(&modified, Err(e) if e.code() == "IncorrectModificationState")
                && mutant!(self.calls.ctx(), "pending-modification-trusted");
            if !is_trusted {
                modified.map_err(|e| match e.code() {
                    // The volume's type does not support the size.
                    "InvalidParameterValue" | "InvalidParameterCombination" => {
                        Status::out_of_range(format!("capacity_range: {what}: {e}"))
                    }
                    _ => refused(&what, id, &e),
                })?;
            }
            now_gib = wanted;
        }
        let needs_no_node = block && !mutant!(self.calls.ctx(), "node-expansion-asked-for-raw-device");
        call.after_effect().await?;
        // A repeat may find the modification still under way.
        if !mutant!(self.calls.ctx(), "expansion-is-not-waited-for") {
            self.wait_modified(id).await?;
        }
        if range.limit_bytes != 0 && gib(now_gib) > range.limit_bytes {
            return Err(Status::out_of_range(format!(
                "capacity_range: volume `{id}` has {now_gib} GiB, which is more than limit_bytes"
            )));
        }
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: call.falsify_capacity(gib(now_gib).max(GIB)),
            // A raw device grows with its volume; a filesystem must be expanded.
            node_expansion_required: !needs_no_node
                && settings.has(Feature::NodeExpandVolume)
                && !mutant!(self.calls.ctx(), "expansion-needs-no-node"),
        })
    }

    /// Waits until a modification is usable, as in `optimizing`.
    async fn wait_modified(&self, id: &str) -> Result<(), Status> {
        let ctx = self.calls.ctx();
        let what = format!("the modification of volume `{id}`");
        let mut waits = MODIFICATION.waits();
        loop {
            let look = self.ec2.modification(id).await.map_err(|e| internal(&what, &e))?;
            match look.as_ref().map(|m| &*m.modification_state) {
                None | Some("optimizing" | "completed") => return Ok(()),
                Some("failed") if mutant!(ctx, "failed-modification-told-done") => return Ok(()),
                Some("failed") => {
                    let why = look.map(|m| m.status_message).unwrap_or_default();
                    return Err(Status::internal(format!("{what} failed: {why}")));
                }
                Some(_) => {}
            }
            match waits.next() {
                Some(wait) => ctx.sleep(wait).await,
                None => return Err(Status::deadline_exceeded(format!("{what} is still under way"))),
            }
        }
    }

    pub(super) async fn modify(
        &self,
        call: &Call,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        let id = check::required("volume_id", &request.volume_id)?;
        let change = Change::read(&request.mutable_parameters)?;
        if change.iops.is_some() && change.iops_per_gib.is_some() {
            return Err(Status::internal(format!(
                "Could not modify volume {id:?}: invalid VAC parameter; specify either IOPS or IOPSPerGb, not both"
            )));
        }
        let _held = self.calls.lock(id)?;
        let volume = self.volume(id).await?;
        let what = format!("cannot modify volume `{id}`");
        if mutant!(self.calls.ctx(), "modify-not-asked") {
            return Ok(ControllerModifyVolumeResponse {});
        }
        let mut form = missing(&volume, &change);
        if mutant!(self.calls.ctx(), "throughput-not-modified") {
            form.retain(|(key, _)| key != "Throughput");
        }
        if mutant!(self.calls.ctx(), "type-not-modified") {
            form.retain(|(key, _)| key != "VolumeType");
        }
        if !form.is_empty() {
            form.push(pair("VolumeId", id));
            self.ec2.modify_volume(form).await.map_err(|e| refused(&what, id, &e))?;
        } else if mutant!(self.calls.ctx(), "tag-only-change-skipped") {
            return Ok(ControllerModifyVolumeResponse {});
        }
        call.after_effect().await?;
        // Tags come last: a request with a parameter that the cloud refuses must have no effect.
        if !change.tags.is_empty() {
            self.ec2.create_tags(id, &change.tags).await.map_err(|e| refused(&what, id, &e))?;
        }
        if !change.untagged.is_empty() && !mutant!(self.calls.ctx(), "tag-not-removed") {
            self.ec2.delete_tags(id, &change.untagged).await.map_err(|e| refused(&what, id, &e))?;
        }
        self.wait_modified(id).await?;
        Ok(ControllerModifyVolumeResponse {})
    }
}
