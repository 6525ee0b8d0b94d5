//! Attachment of a volume, as the Node and the VolumeAttachment report it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;

use super::context::VolumeContext;
use crate::node_agent::names::attachment_name;
use crate::node_agent::plugins::csi::PublishContext;
use crate::node_agent::volume_manager::{StepError, Task, VolumeSpec};

/// Returns the names in `status.volumesAttached` of `node`.
pub(super) fn names_of_attached(node: &Node) -> BTreeSet<String> {
    let status = node.status.as_ref();
    status.and_then(|s| s.volumes_attached.as_ref()).into_iter().flatten().map(|v| v.name.clone()).collect()
}

pub(super) async fn verify_attached(room: &VolumeContext, spec: &VolumeSpec) -> Result<(), StepError> {
    let node = room
        .client
        .all::<Node>()
        .get(&room.config.node_name)
        .await
        .map_err(|e| StepError::Transient(format!("failed fetching node: {e}")))?;
    if names_of_attached(&node).contains(spec.name.as_str()) || substrate::mutant!(room.ctx, "attachment-not-awaited") {
        Ok(())
    } else {
        Err(StepError::Transient("Volume not attached according to node status".to_owned()))
    }
}

/// Reads the VolumeAttachment once. It must be attached. Returns the publish_context.
pub(super) async fn attachment(room: &VolumeContext, spec: &VolumeSpec) -> Result<PublishContext, StepError> {
    let name = attachment_name(&spec.handle, &spec.driver, &room.config.node_name);
    let attachment = room.client.all::<VolumeAttachment>().get(&name).await.map_err(|e| {
        StepError::Transient(format!("volume {} has GET error for volume attachment {name}: {e}", spec.handle))
    })?;
    match attached(&attachment, spec) {
        Err(_) if substrate::mutant!(room.ctx, "attachment-not-awaited") => Ok(PublishContext::new()),
        context => context.map_err(StepError::Transient),
    }
}

/// Evaluates a VolumeAttachment (`verifyAttachmentStatus`).
fn attached(attachment: &VolumeAttachment, spec: &VolumeSpec) -> Result<PublishContext, String> {
    if attachment.metadata.deletion_timestamp.is_some() {
        return Err("volume attachment is being deleted".to_owned());
    }
    match &attachment.status {
        Some(status) if status.attached => Ok(status.attachment_metadata.clone().unwrap_or_default()),
        status => Err(match status.as_ref().and_then(|s| s.attach_error.as_ref()) {
            Some(error) => error.message.clone().unwrap_or_default(),
            None => format!(
                "volume {} is not attached for volume attachment {}",
                spec.handle,
                attachment.metadata.name.as_deref().unwrap_or_default()
            ),
        }),
    }
}

pub(super) async fn publish_context(room: &VolumeContext, task: &Task) -> Result<PublishContext, StepError> {
    if substrate::mutant!(room.ctx, "publish-context-not-passed") {
        return Ok(PublishContext::new());
    }
    if task.attachable { attachment(room, &task.spec).await } else { Ok(PublishContext::new()) }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn verdict(metadata: Value, status: Value) -> Result<PublishContext, String> {
        let attachment: VolumeAttachment = substrate::json::from_value(json!({
            "metadata": metadata, "status": status,
            "spec": { "attacher": "d", "nodeName": "n", "source": {} },
        }))
        .expect("an attachment");
        attached(&attachment, &VolumeSpec::reconstructed("d", "vol-1", "pv", false))
    }

    #[test]
    fn only_an_attached_attachment_that_stays_will_do() {
        let name = json!({ "name": "csi-x" });
        let context =
            verdict(name.clone(), json!({ "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdaa" } }));
        assert_eq!(context.map(|c| c["devicePath"].clone()), Ok("/dev/xvdaa".to_owned()));
        assert_eq!(
            verdict(name.clone(), json!({ "attached": false })),
            Err("volume vol-1 is not attached for volume attachment csi-x".to_owned())
        );
        assert_eq!(
            verdict(name, json!({ "attached": false, "attachError": { "message": "no" } })),
            Err("no".to_owned())
        );
        let going = json!({ "name": "csi-x", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(verdict(going, json!({ "attached": true })), Err("volume attachment is being deleted".to_owned()));
    }
}
