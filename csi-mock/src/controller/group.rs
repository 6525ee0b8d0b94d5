//! The GroupController service: crash-consistent snapshots of several volumes. EBS supports them for volumes of one
//! instance.

use std::collections::BTreeSet;

use csi_proto::csi::group_controller_server::GroupController;
use csi_proto::csi::group_controller_service_capability::{Rpc, Type};
use csi_proto::csi::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability,
    VolumeGroupSnapshot,
};
use sha2::{Digest, Sha256};
use substrate::mutant;
use tonic::{Request, Response, Status};

use super::ec2::{Form, pair};
use super::service::{ControllerService, internal};
use super::snapshot_class::SnapshotClass;
use super::snapshots::{GROUP_TAG, refused, tags, to_csi};
use super::xml::Snapshot;
use crate::calls::{About, Call};
use crate::capabilities::Feature;
use crate::check::{self, invalid};

/// Tag with the group's name.
const GROUP_NAME_TAG: &str = "CSIVolumeGroupSnapshotName";
/// Largest number of volumes in a group: the limit of an instance.
const MOST: usize = 128;

/// Returns the id of the group `name`. It is derived from the name, because the cloud has no groups.
fn group_id(name: &str) -> String {
    format!("gsnap-{}", &hex::encode(Sha256::digest(name))[..17])
}

/// Converts the snapshots of a group to CSI.
fn group(id: &str, mut snapshots: Vec<Snapshot>) -> VolumeGroupSnapshot {
    snapshots.sort_by(|a, b| a.snapshot_id.cmp(&b.snapshot_id));
    let mut csi_snapshots: Vec<_> = snapshots.iter().map(to_csi).collect();
    for snapshot in &mut csi_snapshots {
        id.clone_into(&mut snapshot.group_snapshot_id);
    }
    VolumeGroupSnapshot {
        group_snapshot_id: id.to_owned(),
        creation_time: csi_snapshots.first().and_then(|s| s.creation_time),
        ready_to_use: csi_snapshots.iter().all(|s| s.ready_to_use),
        snapshots: csi_snapshots,
    }
}

/// Checks that `ids`, if given, are the snapshots of the group.
fn check_members(there: &[Snapshot], ids: &[String]) -> Result<(), Status> {
    let members: BTreeSet<&String> = there.iter().map(|s| &s.snapshot_id).collect();
    if ids.is_empty() || members == ids.iter().collect() {
        return Ok(());
    }
    Err(invalid("snapshot_ids", "these are not the snapshots of the group"))
}

impl ControllerService {
    async fn members(&self, group: &str) -> Result<Vec<Snapshot>, Status> {
        let found = self.ec2.snapshots(Some((&format!("tag:{GROUP_TAG}"), group))).await;
        found.map_err(|e| internal(&format!("cannot look for group `{group}`"), &e))
    }

    async fn create_group(
        &self,
        call: &Call,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<CreateVolumeGroupSnapshotResponse, Status> {
        let name = check::name("name", &request.name)?;
        if request.source_volume_ids.is_empty() {
            return Err(invalid("source_volume_ids", "at least one is required"));
        }
        if request.source_volume_ids.len() > MOST {
            return Err(invalid("source_volume_ids", format_args!("at most {MOST} volumes make a group")));
        }
        for id in &request.source_volume_ids {
            check::required("source_volume_ids", id)?;
        }
        let class = SnapshotClass::read(&request.parameters)?;
        if !class.fast_zones.is_empty() || !class.lock.is_empty() {
            return Err(invalid("parameters", "fast restores and locks are for snapshots outside groups"));
        }
        let sources: BTreeSet<&String> = request.source_volume_ids.iter().collect();
        let _held = self.calls.lock(&format!("group {name}"))?;
        let id = group_id(name);
        let there = self.members(&id).await?;
        let snapshots = if there.is_empty() {
            let own = [(GROUP_TAG, &*id), (GROUP_NAME_TAG, name)];
            self.take_group(&sources, tags(&self.snapshot_tags(name, own, &class))).await?
        } else if there.iter().map(|s| &s.volume_id).collect::<BTreeSet<_>>() == sources {
            there
        } else {
            return Err(Status::already_exists(format!("a group called `{name}` of other volumes exists")));
        };
        call.after_effect().await?;
        let mut made = group(&id, snapshots);
        if mutant!(self.calls.ctx(), "group-ready-with-first-member") {
            made.ready_to_use = made.snapshots.first().is_some_and(|first| first.ready_to_use);
        }
        Ok(CreateVolumeGroupSnapshotResponse { group_snapshot: Some(made) })
    }

    /// Takes the snapshots at one moment: CreateSnapshots of the instance that holds all the volumes.
    async fn take_group(&self, sources: &BTreeSet<&String>, tags: Form) -> Result<Vec<Snapshot>, Status> {
        let what = "cannot take a snapshot of the group";
        let mut common: Option<BTreeSet<String>> = None;
        for id in sources {
            let volume = self.volume(id).await?;
            let held = volume.attachment_set.item.into_iter().filter(|a| a.status == "attached");
            let held: BTreeSet<String> = held.map(|a| a.instance_id).collect();
            common = Some(match common {
                None => held,
                Some(before) => before.intersection(&held).cloned().collect(),
            });
        }
        let Some(instance) = common.and_then(|set| set.into_iter().next()) else {
            let only = sources.first().filter(|_| sources.len() == 1);
            let Some(only) = only else {
                return Err(Status::failed_precondition(format!(
                    "{what}: its volumes are not attached to one instance, and EBS takes snapshots at one moment only \
                     of volumes of one instance"
                )));
            };
            // A single volume is consistent by itself.
            let form = [pair("VolumeId", only)].into_iter().chain(tags).collect();
            return Ok(vec![self.ec2.create_snapshot(form).await.map_err(|e| refused(what, &e))?]);
        };
        let instance = self.ec2.describe_instance(&instance).await.map_err(|e| internal(what, &e))?;
        let mapped = instance.block_device_mapping.item.iter();
        let others = mapped.filter(|m| m.device_name != instance.root_device_name);
        let others = others.map(|m| &m.ebs.volume_id).filter(|id| !sources.contains(id));
        let mut form = vec![
            pair("InstanceSpecification.InstanceId", &instance.instance_id),
            pair("InstanceSpecification.ExcludeBootVolume", true),
        ];
        for (n, other) in (1..).zip(others) {
            form.push(pair(&format!("InstanceSpecification.ExcludeDataVolumeId.{n}"), other));
        }
        form.extend(tags);
        self.ec2.create_snapshots(form).await.map_err(|e| refused(what, &e))
    }

    async fn delete_group(
        &self,
        call: &Call,
        request: DeleteVolumeGroupSnapshotRequest,
    ) -> Result<DeleteVolumeGroupSnapshotResponse, Status> {
        let id = check::required("group_snapshot_id", &request.group_snapshot_id)?;
        let _held = self.calls.lock(id)?;
        let there = self.members(id).await?;
        if there.iter().any(|s| !request.snapshot_ids.is_empty() && !request.snapshot_ids.contains(&s.snapshot_id)) {
            return Err(invalid("snapshot_ids", "these are not the snapshots of the group"));
        }
        for snapshot in &there {
            self.remove_snapshot(&snapshot.snapshot_id).await?;
        }
        call.after_effect().await?;
        Ok(DeleteVolumeGroupSnapshotResponse {})
    }

    async fn get_group(
        &self,
        request: GetVolumeGroupSnapshotRequest,
    ) -> Result<GetVolumeGroupSnapshotResponse, Status> {
        let id = check::required("group_snapshot_id", &request.group_snapshot_id)?;
        let there = self.members(id).await?;
        if there.is_empty() {
            return Err(Status::not_found(format!("group `{id}` does not exist")));
        }
        check_members(&there, &request.snapshot_ids)?;
        Ok(GetVolumeGroupSnapshotResponse { group_snapshot: Some(group(id, there)) })
    }
}

fn about(rpc: &'static str, target: &str) -> About {
    let needs = Some(Feature::CreateDeleteGetVolumeGroupSnapshot);
    About { rpc, target: target.to_owned(), needs, ..About::default() }
}

#[tonic::async_trait]
impl GroupController for ControllerService {
    async fn group_controller_get_capabilities(
        &self,
        request: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        let about = About {
            rpc: "GroupControllerGetCapabilities",
            needs: Some(Feature::GroupControllerService),
            ..About::default()
        };
        let offered = |kind: i32| GroupControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: kind })) };
        let capabilities = self.calls.settings().capabilities().group().map(offered).collect();
        let reply = GroupControllerGetCapabilitiesResponse { capabilities };
        self.calls.rpc(about, request.into_inner(), async |_, _| Ok(reply)).await
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let about = about("CreateVolumeGroupSnapshot", &request.name);
        self.calls.rpc(about, request, async |call, request| self.create_group(call, request).await).await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<DeleteVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let about = about("DeleteVolumeGroupSnapshot", &request.group_snapshot_id);
        self.calls.rpc(about, request, async |call, request| self.delete_group(call, request).await).await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<GetVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let about = about("GetVolumeGroupSnapshot", &request.group_snapshot_id);
        self.calls.rpc(about, request, async |_, request| self.get_group(request).await).await
    }
}
