//! CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot.

use csi_proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, GetSnapshotRequest,
    GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot as CsiSnapshot, list_snapshots_response,
};
use prost_types::Timestamp;
use substrate::mutant;
use tonic::Status;

use super::ec2::{Ec2Error, Form, pair};
use super::page;
use super::service::{ControllerService, gib, internal, is_id, no_volume};
use super::xml::{Snapshot, tag};
use crate::calls::Call;
use crate::check::{self, invalid};

/// Tag with the snapshot's name; the driver finds snapshots by it (EBS driver).
const NAME_TAG: &str = "CSIVolumeSnapshotName";
/// Tag with the group of a snapshot.
pub(super) const GROUP_TAG: &str = "CSIVolumeGroupSnapshotId";
/// Tag of the driver's own resources.
const OWN_TAG: &str = "ebs.csi.aws.com/cluster";
/// Prefix of the snapshotter's parameters.
const SIDECAR_PREFIX: &str = "csi.storage.k8s.io/";
/// Prefix of parameters that set tags of the snapshot (EBS driver).
const TAG_PREFIX: &str = "tagspecification_";

/// Converts a snapshot to CSI.
pub(super) fn to_csi(snapshot: &Snapshot) -> CsiSnapshot {
    let taken = snapshot.start_time.parse::<jiff::Timestamp>().ok();
    CsiSnapshot {
        size_bytes: gib(snapshot.volume_size),
        snapshot_id: snapshot.snapshot_id.clone(),
        source_volume_id: snapshot.volume_id.clone(),
        creation_time: taken.map(|t| Timestamp { seconds: t.as_second(), nanos: t.subsec_nanosecond() }),
        ready_to_use: snapshot.status == "completed",
        group_snapshot_id: tag(&snapshot.tag_set, GROUP_TAG).unwrap_or_default().to_owned(),
    }
}

/// Returns the tags of a new snapshot, as a form.
pub(super) fn tags<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Form {
    let mut form = vec![pair("TagSpecification.1.ResourceType", "snapshot")];
    for (n, (key, value)) in (1..).zip(tags.into_iter().chain([(OWN_TAG, "true")])) {
        form.push(pair(&format!("TagSpecification.1.Tag.{n}.Key"), key));
        form.push(pair(&format!("TagSpecification.1.Tag.{n}.Value"), value));
    }
    form
}

/// Returns the tags in the parameters of a snapshot class.
///
/// # Errors
/// INVALID_ARGUMENT for an unknown parameter.
pub(super) fn parameter_tags(
    parameters: &std::collections::BTreeMap<String, String>,
) -> Result<Vec<(&str, &str)>, Status> {
    check::map("parameters", parameters)?;
    let mut found = Vec::new();
    for (key, value) in parameters {
        let name = key.to_ascii_lowercase();
        if name.starts_with(TAG_PREFIX) {
            let tag = value.split_once('=').filter(|(key, _)| !key.is_empty());
            found.push(
                tag.ok_or_else(|| invalid(&format!("parameters.{key}"), format_args!("`{value}` is not key=value")))?,
            );
        } else if !name.starts_with(SIDECAR_PREFIX) {
            return Err(invalid("parameters", format_args!("`{key}` is not known to this driver")));
        }
    }
    Ok(found)
}

/// Converts an error of taking a snapshot.
pub(super) fn refused(what: &str, error: &Ec2Error) -> Status {
    match error.code() {
        "InvalidVolume.NotFound" => Status::not_found(format!("{what}: {error}")),
        "SnapshotLimitExceeded" | "ConcurrentSnapshotLimitExceeded" | "SnapshotCreationPerVolumeRateExceeded" => {
            Status::resource_exhausted(format!("{what}: {error}"))
        }
        "TagLimitExceeded" | "InvalidParameterValue" => {
            Status::invalid_argument(format!("parameters: {what}: {error}"))
        }
        _ => internal(what, error),
    }
}

impl ControllerService {
    /// Reads the snapshot, if it exists.
    pub(super) async fn snapshot(&self, id: &str) -> Result<Option<Snapshot>, Status> {
        if !is_id(id, "snap") {
            return Ok(None);
        }
        match self.ec2.describe_snapshot(id).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) if error.code() == "InvalidSnapshot.NotFound" => Ok(None),
            Err(error) => Err(internal(&format!("cannot look at snapshot `{id}`"), &error)),
        }
    }

    pub(super) async fn create_snapshot(
        &self,
        call: &Call,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let name = check::name("name", &request.name)?;
        let source = check::required("source_volume_id", &request.source_volume_id)?;
        let more = parameter_tags(&request.parameters)?;
        let _held = self.calls.lock(&format!("snapshot {name}"))?;
        let what = format!("cannot take snapshot `{name}` of volume `{source}`");
        let earlier = self.ec2.snapshots(Some((&format!("tag:{NAME_TAG}"), name))).await;
        let mut earlier = earlier.map_err(|e| internal(&what, &e))?;
        if mutant!(self.calls.ctx(), "snapshot-taken-again") {
            earlier.clear();
        }
        let snapshot = match earlier.into_iter().next() {
            Some(there) if there.volume_id != source => {
                let of = there.volume_id;
                return Err(Status::already_exists(format!("a snapshot called `{name}` of volume `{of}` exists")));
            }
            Some(there) => there,
            None if !is_id(source, "vol") => return Err(no_volume(source)),
            None => {
                let mut form =
                    vec![pair("Description", format!("Created by CSI for {name}")), pair("VolumeId", source)];
                form.extend(tags(more.into_iter().chain([(NAME_TAG, name)])));
                self.ec2.create_snapshot(form).await.map_err(|e| refused(&what, &e))?
            }
        };
        call.after_effect().await?;
        let mut answer = to_csi(&snapshot);
        answer.ready_to_use |= mutant!(self.calls.ctx(), "pending-snapshot-told-ready");
        Ok(CreateSnapshotResponse { snapshot: Some(answer) })
    }

    pub(super) async fn delete_snapshot(
        &self,
        call: &Call,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        let id = check::required("snapshot_id", &request.snapshot_id)?;
        let _held = self.calls.lock(id)?;
        if let Some(snapshot) = self.snapshot(id).await? {
            if let Some(group) = tag(&snapshot.tag_set, GROUP_TAG) {
                return Err(invalid(
                    "snapshot_id",
                    format_args!("`{id}` belongs to the group `{group}` and is deleted with it"),
                ));
            }
            if !mutant!(self.calls.ctx(), "snapshot-delete-not-asked") {
                self.remove_snapshot(id).await?;
            }
        }
        call.after_effect().await?;
        Ok(DeleteSnapshotResponse {})
    }

    pub(super) async fn remove_snapshot(&self, id: &str) -> Result<(), Status> {
        let Err(error) = self.ec2.delete_snapshot(id).await else { return Ok(()) };
        let what = format!("cannot delete snapshot `{id}`");
        match error.code() {
            "InvalidSnapshot.NotFound" => Ok(()),
            "InvalidSnapshot.InUse" | "SnapshotLocked" => Err(Status::failed_precondition(format!("{what}: {error}"))),
            _ => Err(internal(&what, &error)),
        }
    }

    pub(super) async fn list_snapshots(
        &self,
        call: &Call,
        request: ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, Status> {
        let most = check::max_entries("max_entries", request.max_entries)?;
        let (id, source) = (&*request.snapshot_id, &*request.source_volume_id);
        let mut all = if !id.is_empty() {
            let found = self.snapshot(id).await?;
            found.into_iter().filter(|s| source.is_empty() || s.volume_id == source).collect()
        } else if !source.is_empty() && !is_id(source, "vol") {
            // An invalid volume id has no snapshots: return an empty list without an error.
            Vec::new()
        } else {
            let filter = (!source.is_empty()).then_some(("volume-id", source));
            self.ec2.snapshots(filter).await.map_err(|e| internal("cannot list the snapshots", &e))?
        };
        all.sort_by(|a, b| a.snapshot_id.cmp(&b.snapshot_id));
        let (page, next_token) = page::cut(all, |s| &s.snapshot_id, most, &request.starting_token)?;
        let entry = |s| list_snapshots_response::Entry { snapshot: Some(to_csi(s)) };
        let mut entries = page.iter().map(entry).collect();
        call.falsify_list(&mut entries, |_| true);
        Ok(ListSnapshotsResponse { entries, next_token })
    }

    pub(super) async fn get_snapshot(&self, request: GetSnapshotRequest) -> Result<GetSnapshotResponse, Status> {
        let id = check::required("snapshot_id", &request.snapshot_id)?;
        let found = self.snapshot(id).await?;
        let found = found.ok_or_else(|| Status::not_found(format!("snapshot `{id}` does not exist")))?;
        Ok(GetSnapshotResponse { snapshot: Some(to_csi(&found)) })
    }
}
