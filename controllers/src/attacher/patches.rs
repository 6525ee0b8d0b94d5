//! The attacher's writes: changed attachments, and patches of volumes (upstream `util.go`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentStatus, VolumeError};
use substrate::json::{Value, json};

use crate::binder::object::annotate;
use crate::csi::RpcError;
use crate::kube::{Kind, Operation, Patch, time};

/// Annotation that keeps the node's id in case the CSINode is deleted.
pub const NODE_ID_ANNOTATION: &str = "csi.alpha.kubernetes.io/node-id";

/// Returns a driver's finalizer of PersistentVolumes and VolumeAttachments: `external-attacher/ebs-csi-aws-com`.
pub fn finalizer(driver: &str) -> String {
    let mut name: String = driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    format!("external-attacher/{name}")
}

/// Builds a JSON patch that adds the PV's finalizer; None if it exists. A merge patch could restore finalizers that
/// others have removed since the cache was filled (`addFinalizerPatch`).
pub fn add_pv_finalizer(pv: &PersistentVolume, finalizer: &str) -> Option<Patch> {
    if pv.has_finalizer(finalizer) {
        return None;
    }
    let all = "/metadata/finalizers".to_owned();
    let one = json!([finalizer]);
    Some(Patch::json(&match pv.metadata.finalizers.as_deref() {
        None | Some([]) => {
            vec![Operation::Test { path: all.clone(), value: Value::Null }, Operation::Add { path: all, value: one }]
        }
        Some(_) => vec![Operation::Add { path: format!("{all}/-"), value: finalizer.into() }],
    }))
}

/// Builds a JSON patch that removes the PV's finalizer by index, guarded by a test; None if it does not exist.
pub fn remove_pv_finalizer(pv: &PersistentVolume, finalizer: &str) -> Option<Patch> {
    let index = pv.metadata.finalizers.as_ref()?.iter().position(|f| f == finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    let test = Operation::Test { path: path.clone(), value: finalizer.into() };
    Some(Patch::json(&[test, Operation::Remove { path }]))
}

/// Returns the attachment with finalizer and node id; None if it has both.
pub fn prepared(attachment: &VolumeAttachment, finalizer: &str, node_id: &str) -> Option<VolumeAttachment> {
    let (has_finalizer, has_node) =
        (attachment.has_finalizer(finalizer), attachment.annotation(NODE_ID_ANNOTATION) == Some(node_id));
    if has_finalizer && has_node {
        return None;
    }
    let mut attachment = attachment.clone();
    if !has_finalizer {
        attachment.metadata.finalizers.get_or_insert_default().push(finalizer.to_owned());
    }
    if !has_node {
        annotate(&mut attachment.metadata, NODE_ID_ANNOTATION, node_id);
    }
    Some(attachment)
}

/// Returns the attachment without its finalizer: the first write after Unpublish (external-attacher#587).
pub fn released(attachment: &VolumeAttachment, finalizer: &str) -> VolumeAttachment {
    let mut attachment = attachment.clone();
    let finalizers = attachment.metadata.finalizers.take().unwrap_or_default();
    let rest: Vec<String> = finalizers.into_iter().filter(|f| f != finalizer).collect();
    attachment.metadata.finalizers = (!rest.is_empty()).then_some(rest);
    attachment
}

/// Returns the attachment after ControllerPublish.
pub fn attached(attachment: &VolumeAttachment, publish_context: BTreeMap<String, String>) -> VolumeAttachment {
    changed(attachment, |status| {
        status.attached = true;
        status.attachment_metadata = Some(publish_context).filter(|context| !context.is_empty());
        status.attach_error = None;
    })
}

/// Returns the attachment after ControllerUnpublish: the second write.
pub fn detached(attachment: &VolumeAttachment) -> VolumeAttachment {
    changed(attachment, |status| {
        status.attached = false;
        status.detach_error = None;
        status.attachment_metadata = None;
    })
}

/// Returns the attachment after a failed attach, with the gRPC code of the driver's error: 8 (RESOURCE_EXHAUSTED) marks
/// a full node.
pub fn attach_failed(attachment: &VolumeAttachment, error: &RpcError, now: Timestamp) -> VolumeAttachment {
    let error_code = error.code().map(i32::from);
    changed(attachment, |status| {
        status.attach_error = Some(VolumeError { error_code, message: Some(error.to_string()), time: Some(time(now)) });
    })
}

/// Returns the attachment after a failed detach.
pub fn detach_failed(attachment: &VolumeAttachment, error: &RpcError, now: Timestamp) -> VolumeAttachment {
    changed(attachment, |status| {
        status.detach_error =
            Some(VolumeError { error_code: None, message: Some(error.to_string()), time: Some(time(now)) });
    })
}

fn changed(attachment: &VolumeAttachment, change: impl FnOnce(&mut VolumeAttachmentStatus)) -> VolumeAttachment {
    let mut attachment = attachment.clone();
    change(attachment.status.get_or_insert_default());
    attachment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_are_sanitised() {
        assert_eq!(finalizer("ebs.csi.aws.com"), "external-attacher/ebs-csi-aws-com");
        assert_eq!(finalizer("a.b."), "external-attacher/a-b-X");
    }

    #[test]
    fn the_pv_finalizer_is_removed_by_index_under_a_test() {
        let pv = json!({ "metadata": { "name": "pv", "finalizers": ["kubernetes.io/pv-protection", "external-attacher/d"] } });
        let pv: PersistentVolume = substrate::json::from_value(pv).expect("a volume");
        let patch = remove_pv_finalizer(&pv, "external-attacher/d").expect("a patch");
        let expected = json!([
            { "op": "test", "path": "/metadata/finalizers/1", "value": "external-attacher/d" },
            { "op": "remove", "path": "/metadata/finalizers/1" },
        ]);
        assert_eq!(*patch.value(), expected);
        assert_eq!(add_pv_finalizer(&pv, "external-attacher/d"), None);
    }

    #[test]
    fn the_first_finalizer_of_a_volume_is_added_only_while_there_is_none() {
        let pv = json!({ "metadata": { "name": "pv" } });
        let pv: PersistentVolume = substrate::json::from_value(pv).expect("a volume");
        let expected = json!([
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": ["external-attacher/d"] },
        ]);
        assert_eq!(*add_pv_finalizer(&pv, "external-attacher/d").expect("a patch").value(), expected);
    }

    fn attachment(status: Value) -> VolumeAttachment {
        let spec = json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "pv" } });
        let metadata = json!({ "name": "csi-1", "finalizers": ["external-attacher/d"] });
        substrate::json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).expect("one")
    }

    fn patch(old: &VolumeAttachment, new: &VolumeAttachment) -> Value {
        Patch::merge(old, new).expect("a patch").value().clone()
    }

    #[test]
    fn only_attach_errors_carry_a_code() {
        let before = attachment(json!({ "attached": false }));
        let error = RpcError::from(tonic::Status::resource_exhausted("full"));
        let wording =
            json!({ "message": "rpc error: code = ResourceExhausted desc = full", "time": "1970-01-01T00:00:00Z" });
        let detach = detach_failed(&before, &error, Timestamp::UNIX_EPOCH);
        assert_eq!(patch(&before, &detach), json!({ "status": { "detachError": wording.clone() } }));
        let mut with_code = wording;
        with_code["errorCode"] = 8.into();
        let attach = attach_failed(&before, &error, Timestamp::UNIX_EPOCH);
        assert_eq!(patch(&before, &attach), json!({ "status": { "attachError": with_code } }));
        let early = attach_failed(&before, &RpcError::Other("no".to_owned()), Timestamp::UNIX_EPOCH);
        assert_eq!(patch(&before, &early)["status"]["attachError"].get("errorCode"), None);
    }

    #[test]
    fn a_status_says_only_what_changes() {
        let before = attachment(json!({ "attached": false }));
        let after = attached(&before, BTreeMap::new());
        assert_eq!(patch(&before, &after), json!({ "status": { "attached": true } }));
        let context = BTreeMap::from([("devicePath".to_owned(), "/dev/xvdaa".to_owned())]);
        let failed = attachment(json!({ "attached": false, "attachError": { "message": "no" } }));
        let expected = json!({ "status": {
            "attached": true, "attachError": null, "attachmentMetadata": { "devicePath": "/dev/xvdaa" },
        } });
        let after = attached(&failed, context);
        assert_eq!(patch(&failed, &after), expected);
        let free = released(&after, "external-attacher/d");
        assert_eq!(patch(&after, &free), json!({ "metadata": { "finalizers": null } }));
        let expected = json!({ "status": { "attached": false, "attachmentMetadata": null } });
        assert_eq!(patch(&free, &detached(&free)), expected);
    }
}
