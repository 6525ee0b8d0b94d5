//! CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot.

use std::collections::BTreeMap;

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
use super::snapshot_class::SnapshotClass;
use super::xml::{Snapshot, tag};
use crate::calls::Call;
use crate::check::{self, invalid};

/// Tag with the snapshot's name; the driver finds snapshots by it (EBS driver).
const NAME_TAG: &str = "CSIVolumeSnapshotName";
/// Tag with the group of a snapshot.
pub(super) const GROUP_TAG: &str = "CSIVolumeGroupSnapshotId";
/// Tag of the driver's own resources.
const OWN_TAG: &str = "ebs.csi.aws.com/cluster";

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
pub(super) fn tags(tags: &BTreeMap<String, String>) -> Form {
    let mut form = vec![pair("TagSpecification.1.ResourceType", "snapshot")];
    for (n, (key, value)) in (1..).zip(tags) {
        form.push(pair(&format!("TagSpecification.1.Tag.{n}.Key"), key));
        form.push(pair(&format!("TagSpecification.1.Tag.{n}.Value"), value));
    }
    form
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

    /// Returns the tags of the new snapshot or group `name`: those of all resources, the driver's `own`, and the class's.
    pub(super) fn snapshot_tags<'a>(
        &self,
        name: &str,
        own: impl IntoIterator<Item = (&'a str, &'a str)>,
        class: &SnapshotClass,
    ) -> BTreeMap<String, String> {
        let mut tags = self.config.tags_of(name);
        let own = own.into_iter().chain([(OWN_TAG, "true")]);
        tags.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
        tags.extend(class.tags.clone());
        tags
    }

    /// Checks the zones in which restores shall be fast.
    async fn check_fast_zones(&self, asked: &[String]) -> Result<(), Status> {
        if asked.is_empty() {
            return Ok(());
        }
        // Like the EBS driver, goes on without the check if the zones cannot be listed.
        let Ok(zones) = self.ec2.zones().await else { return Ok(()) };
        match asked.iter().find(|zone| !zones.iter().any(|known| known.zone_name == **zone)) {
            None => Ok(()),
            Some(zone) => Err(Status::invalid_argument(format!(
                "Availability zone {zone} is not supported for fast snapshot restore"
            ))),
        }
    }

    /// Enables fast restore of the new snapshot `id`, and locks it, as its class says. If that fails, the snapshot is
    /// deleted.
    async fn finish_snapshot(&self, id: &str, name: &str, class: SnapshotClass) -> Result<(), Status> {
        let mut failed = None;
        if !class.fast_zones.is_empty()
            && let Err(error) = self.ec2.enable_fast_restores(id, &class.fast_zones).await
        {
            failed = Some(("Failed to create Fast Snapshot Restores", error));
        }
        if failed.is_none()
            && !class.lock.is_empty()
            && let Err(error) = self.ec2.lock_snapshot(id, class.lock).await
        {
            failed = Some(("Failed to lock snapshot", error));
        }
        let Some((what, error)) = failed else { return Ok(()) };
        self.remove_snapshot(id).await?;
        Err(Status::internal(format!("{what} for snapshot ID {name:?}: {error}")))
    }

    pub(super) async fn create_snapshot(
        &self,
        call: &Call,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let name = check::name("name", &request.name)?;
        let source = check::required("source_volume_id", &request.source_volume_id)?;
        let class = SnapshotClass::read(&request.parameters)?;
        let _held = self.calls.lock(&format!("snapshot {name}"))?;
        let what = format!("cannot take snapshot `{name}` of volume `{source}`");
        let own_tag = format!("tag:{NAME_TAG}");
        let filter = match mutant!(self.calls.ctx(), "second-snapshot-is-the-first") {
            true => ("volume-id", source),
            false => (own_tag.as_str(), name),
        };
        let earlier = self.ec2.snapshots(Some(filter)).await;
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
                self.check_fast_zones(&class.fast_zones).await?;
                let description = format!("Created by AWS EBS CSI driver for volume {source}");
                let mut form = vec![pair("Description", description), pair("VolumeId", source)];
                form.extend(tags(&self.snapshot_tags(name, [(NAME_TAG, name)], &class)));
                let made = self.ec2.create_snapshot(form).await.map_err(|e| refused(&what, &e))?;
                self.finish_snapshot(&made.snapshot_id, name, class).await?;
                made
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
