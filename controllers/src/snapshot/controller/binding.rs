//! Binding of a snapshot to a content, in both directions.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, SecretReference};

use super::super::names::{SECRET_NAME, SECRET_NAMESPACE};
use super::super::objects::{
    VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent, VolumeSnapshotContentSource, VolumeSnapshotContentSpec,
};
use super::decide::{dynamic_content_name, snapshot_key};
use crate::binder::object::annotate;
use crate::kube::{Kind, Operation, reference};

/// A content that does not belong to the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Reason of the Event.
    pub reason: &'static str,
    /// Message of the Event, and of the snapshot's error.
    pub message: String,
    /// Error of the step.
    pub error: String,
}

impl Misfit {
    fn misbound(content: &str) -> Self {
        let message = format!("VolumeSnapshotContent [{content}] is bound to a different snapshot");
        Self { reason: "SnapshotContentMisbound", error: message.clone(), message }
    }
}

/// Checks the content that a pre-provisioned snapshot names (`getPreprovisionedContentFromStore`).
///
/// # Errors
/// If it is not for this snapshot.
pub fn preprovisioned(
    snapshot: &VolumeSnapshot,
    content: Arc<VolumeSnapshotContent>,
) -> Result<Arc<VolumeSnapshotContent>, Misfit> {
    if content.spec.source.snapshot_handle.is_none() {
        let message = "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one";
        let (key, name) = (snapshot_key(snapshot), content.name());
        return Err(Misfit {
            reason: "SnapshotContentMismatch",
            message: message.to_owned(),
            error: format!(
                "snapshot {key} expects a pre-provisioned VolumeSnapshotContent {name} but gets a dynamically \
                 provisioned one"
            ),
        });
    }
    // The content's author does not know the snapshot's uid.
    let is_ours = content.snapshot_key() == (snapshot.namespace().to_owned(), snapshot.name().to_owned())
        && (content.snapshot_uid().is_empty() || content.snapshot_uid() == snapshot.uid());
    if is_ours { Ok(content) } else { Err(Misfit::misbound(content.name())) }
}

/// Checks the content with the name of a snapshot's own content (`getDynamicallyProvisionedContentFromStore`).
///
/// # Errors
/// If it is not for this snapshot.
pub fn dynamically_provisioned(
    snapshot: &VolumeSnapshot,
    content: Arc<VolumeSnapshotContent>,
) -> Result<Arc<VolumeSnapshotContent>, Misfit> {
    if content.spec.source.volume_handle.is_none() {
        let (key, name) = (snapshot_key(snapshot), content.name());
        return Err(Misfit {
            reason: "SnapshotContentMismatch",
            message: format!(
                "VolumeSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
            ),
            error: format!(
                "snapshot {key} expects a dynamically provisioned VolumeSnapshotContent {name} but gets a \
                 pre-provisioned one"
            ),
        });
    }
    if content.is_of(snapshot) { Ok(content) } else { Err(Misfit::misbound(content.name())) }
}

/// Returns the patch that binds a pre-provisioned content to the snapshot; empty if it is bound
/// (`checkandBindSnapshotContent`).
///
/// # Errors
/// If the content is for another snapshot.
pub fn bind(snapshot: &VolumeSnapshot, content: &VolumeSnapshotContent) -> Result<Vec<Operation>, String> {
    let of = &content.spec.volume_snapshot_ref;
    let uid = content.snapshot_uid();
    if of.name.as_deref() != Some(snapshot.name()) || (!uid.is_empty() && uid != snapshot.uid()) {
        let (snapshot, content) = (snapshot.name(), content.name());
        return Err(format!(
            "Could not bind snapshot {snapshot} and content {content}, the VolumeSnapshotRef does not match"
        ));
    }
    if !uid.is_empty() && content.spec.volume_snapshot_class_name.is_some() {
        return Ok(Vec::new());
    }
    let replace = |path: &str, value: &str| Operation::Replace { path: path.to_owned(), value: value.into() };
    let mut operations = vec![replace("/spec/volumeSnapshotRef/uid", snapshot.uid())];
    if let Some(class) = &snapshot.spec.volume_snapshot_class_name {
        operations.push(replace("/spec/volumeSnapshotClassName", class));
    }
    Ok(operations)
}

/// Returns the content of a snapshot of a volume (`createSnapshotContent`).
pub fn new_content(
    snapshot: &VolumeSnapshot,
    class: &VolumeSnapshotClass,
    volume: &PersistentVolume,
    volume_handle: &str,
    secret: Option<&SecretReference>,
) -> VolumeSnapshotContent {
    let spec = VolumeSnapshotContentSpec {
        volume_snapshot_ref: reference(snapshot),
        deletion_policy: class.deletion_policy.clone(),
        driver: class.driver.clone(),
        volume_snapshot_class_name: Some(class.name().to_owned()),
        source: VolumeSnapshotContentSource { volume_handle: Some(volume_handle.to_owned()), snapshot_handle: None },
        source_volume_mode: volume.spec.as_ref().and_then(|spec| spec.volume_mode.clone()),
    };
    let mut content = VolumeSnapshotContent::new(dynamic_content_name(snapshot), spec);
    if let Some(secret) = secret {
        annotate(&mut content.metadata, SECRET_NAME, secret.name.as_deref().unwrap_or_default());
        annotate(&mut content.metadata, SECRET_NAMESPACE, secret.namespace.as_deref().unwrap_or_default());
    }
    content
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json, to_value};

    use super::*;

    fn snapshot() -> VolumeSnapshot {
        from_value(json!({
            "metadata": { "namespace": "shop", "name": "s", "uid": "u", "resourceVersion": "7" },
            "spec": { "source": { "persistentVolumeClaimName": "data" }, "volumeSnapshotClassName": "gold" },
        }))
        .unwrap()
    }

    fn content(uid: &str, source: Value, class: Option<&str>) -> Arc<VolumeSnapshotContent> {
        let of = json!({ "namespace": "shop", "name": "s", "uid": uid });
        let spec = json!({ "volumeSnapshotRef": of, "source": source, "volumeSnapshotClassName": class });
        from_value(json!({ "metadata": { "name": "snapcontent-u" }, "spec": spec })).unwrap()
    }

    #[test]
    fn a_dynamic_content_has_a_volume_and_the_snapshots_uid() {
        let volume = json!({ "volumeHandle": "vol-1" });
        assert!(dynamically_provisioned(&snapshot(), content("u", volume.clone(), None)).is_ok());
        for uid in ["", "older"] {
            let error = dynamically_provisioned(&snapshot(), content(uid, volume.clone(), None)).unwrap_err();
            assert_eq!(error.message, "VolumeSnapshotContent [snapcontent-u] is bound to a different snapshot");
        }
        let existing = content("u", json!({ "snapshotHandle": "snap-1" }), None);
        assert_eq!(dynamically_provisioned(&snapshot(), existing).unwrap_err().reason, "SnapshotContentMismatch");
    }

    #[test]
    fn a_pre_provisioned_content_is_bound_by_its_uid_and_class() {
        let existing = json!({ "snapshotHandle": "snap-1" });
        let free = preprovisioned(&snapshot(), content("", existing.clone(), None)).unwrap();
        let operation = |path: &str, value: &str| Operation::Replace { path: path.to_owned(), value: value.into() };
        let both = [operation("/spec/volumeSnapshotRef/uid", "u"), operation("/spec/volumeSnapshotClassName", "gold")];
        assert_eq!(bind(&snapshot(), &free).unwrap(), both);
        assert_eq!(bind(&snapshot(), &content("u", existing.clone(), Some("gold"))), Ok(Vec::new()));
        let taken = content("older", existing, None);
        assert_eq!(preprovisioned(&snapshot(), taken.clone()).unwrap_err().reason, "SnapshotContentMisbound");
        assert_eq!(
            bind(&snapshot(), &taken).unwrap_err(),
            "Could not bind snapshot s and content snapcontent-u, the VolumeSnapshotRef does not match"
        );
    }

    #[test]
    fn a_new_content_has_upstreams_fields() {
        let class = json!({ "metadata": { "name": "gold" }, "driver": "ebs", "deletionPolicy": "Retain" });
        let class: VolumeSnapshotClass = from_value(class).unwrap();
        let volume: PersistentVolume = from_value(json!({ "spec": { "volumeMode": "Block" } })).unwrap();
        let secret = SecretReference { name: Some("key".to_owned()), namespace: Some("shop".to_owned()) };
        let made = new_content(&snapshot(), &class, &volume, "vol-1", Some(&secret));
        let of = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "namespace": "shop", "name": "s",
            "uid": "u", "resourceVersion": "7",
        });
        let expected = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": { "name": "snapcontent-u", "annotations": { SECRET_NAME: "key", SECRET_NAMESPACE: "shop" } },
            "spec": {
                "volumeSnapshotRef": of, "deletionPolicy": "Retain", "driver": "ebs", "volumeSnapshotClassName": "gold",
                "source": { "volumeHandle": "vol-1" }, "sourceVolumeMode": "Block",
            },
        });
        assert_eq!(to_value(&made).unwrap(), expected);
    }
}
