//! Deletion of a group (`processGroupSnapshotWithDeletionTimestamp`).

use substrate::mutant;

use super::super::super::group::group_name;
use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotContent};
use super::super::super::objects::{DELETE, VolumeSnapshot};
use super::super::async_loop::Controller;
use super::super::decide::{is_volume_being_created, snapshot_key};
use super::Groups;
use super::decide::{group_key, is_deletion_candidate};
use crate::kube::{DeleteParams, Kind, reference};

impl Controller {
    /// Deletes the content if its policy says so, and the snapshots of the members. The group keeps its finalizer while
    /// its content is being deleted.
    ///
    /// Like upstream, it finds the content only by the group's status: after a crash before that write the content
    /// stays.
    pub(super) async fn delete_group(&self, groups: &Groups, group: &VolumeGroupSnapshot) -> Result<(), String> {
        let content = group.content().and_then(|name| groups.content_store.get("", name));
        let content = content.filter(|content| content.is_of(group));
        if !is_deletion_candidate(group) {
            return Ok(());
        }
        let key = group_key(group);
        let mut members = self.snapshots.list_in(group.namespace());
        members.retain(|snapshot| group_name(snapshot) == Some(group.name()));
        let claims = self.claims.list();
        let used =
            members.iter().find(|snapshot| is_volume_being_created(snapshot, claims.iter().map(|claim| &**claim)));
        if let Some(used) = used {
            let used = snapshot_key(used);
            let message =
                format!("Snapshot {used} belonging to VolumeGroupSnapshot {key} is being used to restore a PVC");
            let error = format!("{message}: snapshot is in use, will retry deletion");
            self.event(reference(group), "Warning", "SnapshotDeletePending", message);
            return Err(error);
        }
        let mut goes = false;
        if let Some(content) = &content {
            self.set_group_being_deleted(groups, content).await?;
            goes = content.spec.deletion_policy == DELETE;
        }
        if let Some(content) = content.as_ref().filter(|_| goes) {
            self.delete_group_content(group, content).await?;
        }
        if mutant!(self.ctx, "group-members-kept") {
            members.clear();
        }
        for member in &members {
            self.delete_member(group, member).await?;
        }
        if goes { Ok(()) } else { self.remove_group_finalizer(groups, group).await }
    }

    async fn delete_group_content(
        &self,
        group: &VolumeGroupSnapshot,
        content: &VolumeGroupSnapshotContent,
    ) -> Result<(), String> {
        let name = content.name();
        let deleted = self.client.all::<VolumeGroupSnapshotContent>().delete(name, &DeleteParams::default()).await;
        deleted.map_err(|e| {
            let message = "Failed to delete group snapshot content API object";
            self.event(reference(group), "Warning", "GroupSnapshotContentObjectDeleteError", message);
            let error = e.to_string();
            format!("failed to delete VolumeGroupSnapshotContent {name} from API server: {error:?}")
        })
    }

    async fn delete_member(&self, group: &VolumeGroupSnapshot, member: &VolumeSnapshot) -> Result<(), String> {
        let snapshots = self.client.namespaced::<VolumeSnapshot>(group.namespace());
        match snapshots.delete(member.name(), &DeleteParams::default()).await {
            Err(e) if !e.is_not_found() => {
                let (key, of) = (snapshot_key(member), group_key(group));
                let message = format!("failed to delete snapshot API object {key} part of group snapshot {of}: {e}");
                self.event(reference(group), "Warning", "SnapshotDeleteError", message.clone());
                Err(message)
            }
            _ => Ok(()),
        }
    }
}
