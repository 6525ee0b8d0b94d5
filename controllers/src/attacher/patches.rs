//! The attacher's writes, as patches.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use substrate::json::{Value, json};

use crate::csi::RpcError;
use crate::kube::{Kind, Patch, time};

/// The annotation that keeps the node's id for the time when the CSINode is gone.
pub const NODE_ID_ANNOTATION: &str = "csi.alpha.kubernetes.io/node-id";

/// The finalizer of a driver, on PersistentVolumes and VolumeAttachments: `external-attacher/ebs-csi-aws-com`.
pub fn finalizer(driver: &str) -> String {
    let mut name: String = driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.ends_with('-') {
        name.push('X');
    }
    format!("external-attacher/{name}")
}

/// JSON patch that adds the PV's finalizer; nothing when it is there.
pub fn add_pv_finalizer(pv: &PersistentVolume, finalizer: &str) -> Option<Patch> {
    if pv.has_finalizer(finalizer) {
        return None;
    }
    let empty = pv.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
    let add = if empty {
        json!({ "op": "add", "path": "/metadata/finalizers", "value": [finalizer] })
    } else {
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": finalizer })
    };
    Some(Patch::Json(json!([add])))
}

/// JSON patch that removes the PV's finalizer by index, guarded by a test; nothing when it is not there.
pub fn remove_pv_finalizer(pv: &PersistentVolume, finalizer: &str) -> Option<Patch> {
    let index = pv.metadata.finalizers.as_ref()?.iter().position(|f| f == finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(Patch::Json(json!([
        { "op": "test", "path": path, "value": finalizer },
        { "op": "remove", "path": path },
    ])))
}

/// Merge patch with finalizer and node id; nothing when both are there.
pub fn prepare_attachment(attachment: &VolumeAttachment, finalizer: &str, node_id: &str) -> Option<Patch> {
    let mut metadata = substrate::json::Map::new();
    if !attachment.has_finalizer(finalizer) {
        let mut all = attachment.metadata.finalizers.clone().unwrap_or_default();
        all.push(finalizer.to_owned());
        metadata.insert("finalizers", json!(all));
    }
    if attachment.annotation(NODE_ID_ANNOTATION) != Some(node_id) {
        metadata.insert("annotations", json!({ NODE_ID_ANNOTATION: node_id }));
    }
    (!metadata.is_empty()).then(|| Patch::Merge(json!({ "metadata": metadata })))
}

/// Merge patch that removes the attachment's finalizer: the first write after Unpublish (att#587).
pub fn release_attachment(attachment: &VolumeAttachment, finalizer: &str) -> Patch {
    let rest: Vec<&String> =
        attachment.metadata.finalizers.iter().flatten().filter(|f| f.as_str() != finalizer).collect();
    let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
    Patch::Merge(json!({ "metadata": { "finalizers": rest } }))
}

/// Merge patch of the status after ControllerPublish.
pub fn attached(publish_context: &BTreeMap<String, String>) -> Patch {
    // An empty context is left out, as Go's omitempty does.
    let metadata = if publish_context.is_empty() { Value::Null } else { json!(publish_context) };
    Patch::Merge(json!({ "status": { "attached": true, "attachmentMetadata": metadata, "attachError": null } }))
}

/// Merge patch of the status after ControllerUnpublish: the second write.
pub fn detached() -> Patch {
    Patch::Merge(json!({ "status": { "attached": false, "detachError": null, "attachmentMetadata": null } }))
}

/// Merge patch of the status after a failure; `field` is `attachError` or `detachError`.
pub fn failed(field: &str, error: &RpcError, now: Timestamp) -> Patch {
    let mut value = json!({ "message": error.to_string(), "time": time(now) });
    if let (Some(code), "attachError") = (error.code(), field) {
        value["errorCode"] = i32::from(code).into();
    }
    Patch::Merge(json!({ "status": { field: value } }))
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
        let Some(Patch::Json(patch)) = remove_pv_finalizer(&pv, "external-attacher/d") else { panic!() };
        assert_eq!(patch[0], json!({ "op": "test", "path": "/metadata/finalizers/1", "value": "external-attacher/d" }));
        assert_eq!(patch[1], json!({ "op": "remove", "path": "/metadata/finalizers/1" }));
        assert_eq!(add_pv_finalizer(&pv, "external-attacher/d"), None);
    }

    #[test]
    fn only_attach_errors_carry_a_code() {
        let error = RpcError::from(tonic::Status::resource_exhausted("full"));
        let Patch::Merge(attach) = failed("attachError", &error, Timestamp::UNIX_EPOCH) else { panic!() };
        assert_eq!(attach["status"]["attachError"]["errorCode"], 8);
        let Patch::Merge(detach) = failed("detachError", &error, Timestamp::UNIX_EPOCH) else { panic!() };
        assert_eq!(detach["status"]["detachError"].get("errorCode"), None);
    }
}
