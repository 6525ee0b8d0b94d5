//! Decisions about groups (`pkg/utils/util.go`, `groupsnapshot_controller_helper.go`).

use k8s_openapi::api::core::v1::PersistentVolume;

use super::super::super::group::names::{BOUND_FINALIZER, CONTENT_FINALIZER, DEFAULT_CLASS};
use super::super::super::group::objects::{VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent};
use crate::kube::Kind;

/// Returns `namespace/name` of a group, as in messages (`GroupSnapshotKey`).
pub fn group_key(group: &VolumeGroupSnapshot) -> String {
    format!("{}/{}", group.namespace(), group.name())
}

/// Returns the name of the content of a group that is taken of claims
/// (`GetDynamicSnapshotContentNameForGroupSnapshot`).
pub fn dynamic_content_name(group: &VolumeGroupSnapshot) -> String {
    format!("groupsnapcontent-{}", group.uid())
}

/// Returns true if the content must get its finalizer (`NeedToAddGroupSnapshotContentFinalizer`).
pub fn need_to_add_content_finalizer(content: &VolumeGroupSnapshotContent) -> bool {
    !content.is_deleting() && !content.has_finalizer(CONTENT_FINALIZER)
}

/// Returns true if the group must get its finalizer (`NeedToAddGroupSnapshotBoundFinalizer`).
pub fn need_to_add_bound_finalizer(group: &VolumeGroupSnapshot) -> bool {
    !group.is_deleting() && !group.has_finalizer(BOUND_FINALIZER) && group.content().is_some()
}

/// Returns true if the group is being deleted and has the finalizer of this loop (`IsGroupSnapshotDeletionCandidate`).
pub fn is_deletion_candidate(group: &VolumeGroupSnapshot) -> bool {
    group.is_deleting() && group.has_finalizer(BOUND_FINALIZER)
}

/// Returns the labels of the group's claims as a selector; empty for all claims. Upstream reads only `matchLabels`
/// (`getClaimsFromVolumeGroupSnapshot`).
pub fn selector(group: &VolumeGroupSnapshot) -> String {
    let labels = group.spec.source.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
    let pairs: Vec<String> = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// Returns the handles of volumes, which must all be of the class's driver (`createGroupSnapshotContent`).
///
/// # Errors
/// If a volume is not of this driver.
pub fn handles<'a>(
    key: &str,
    class: &VolumeGroupSnapshotClass,
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
) -> Result<Vec<String>, Foreign> {
    volumes.into_iter().map(|volume| handle(key, class, volume)).collect()
}

fn handle(key: &str, class: &VolumeGroupSnapshotClass, volume: &PersistentVolume) -> Result<String, Foreign> {
    let (name, wanted) = (volume.name(), &class.driver);
    let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) else {
        return Err(Foreign {
            message: format!("Cannot snapshot a non-CSI volume: {name}"),
            error: format!("cannot snapshot a non-CSI volume for group snapshot {key}: {name}"),
        });
    };
    if csi.driver != *wanted {
        let driver = &csi.driver;
        let message =
            format!("Volume CSI driver ({driver}) mismatch with VolumeGroupSnapshotClass ({wanted}) {key}: {name}");
        return Err(Foreign { error: super::super::super::update_error(key, &message), message });
    }
    Ok(csi.volume_handle.clone())
}

/// A volume that is not of the class's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Message of the Event.
    pub message: String,
    /// Error of the step.
    pub error: String,
}

/// Returns the default class of a driver (`SetDefaultGroupSnapshotClass`).
///
/// # Errors
/// If there is none, or more than one.
pub fn default_class<T: AsRef<VolumeGroupSnapshotClass>>(classes: Vec<T>, driver: &str) -> Result<T, String> {
    let is_default =
        |class: &VolumeGroupSnapshotClass| class.annotation(DEFAULT_CLASS) == Some("true") && class.driver == driver;
    let mut found: Vec<T> = classes.into_iter().filter(|class| is_default(class.as_ref())).collect();
    match found.len() {
        0 => Err("cannot find default group snapshot class".to_owned()),
        1 => Ok(found.remove(0)),
        many => Err(format!("{many} default snapshot classes were found")),
    }
}

/// Finds the volume with a handle (`findPersistentVolumeByCSIDriverHandle`); None if there is none, or more than one.
pub fn volume_by_handle<T: AsRef<PersistentVolume>>(volumes: Vec<T>, driver: &str, handle: &str) -> Option<T> {
    let of = |volume: &PersistentVolume| {
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        csi.is_some_and(|csi| csi.driver == driver && csi.volume_handle == handle)
    };
    let mut found: Vec<T> = volumes.into_iter().filter(|volume| of(volume.as_ref())).collect();
    if found.len() == 1 { found.pop() } else { None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::json::{Value, from_value, json};

    use super::*;

    fn group(metadata: Value, status: Value) -> VolumeGroupSnapshot {
        let labels = json!({ "tier": "db", "app": "shop" });
        let spec = json!({ "source": { "selector": { "matchLabels": labels } } });
        from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
    }

    fn class(name: &str, driver: &str, value: &str) -> Arc<VolumeGroupSnapshotClass> {
        let metadata = json!({ "name": name, "annotations": { DEFAULT_CLASS: value } });
        from_value(json!({ "metadata": metadata, "driver": driver, "deletionPolicy": "Delete" })).unwrap()
    }

    fn volume(name: &str, driver: &str, handle: &str) -> Arc<PersistentVolume> {
        let csi = json!({ "driver": driver, "volumeHandle": handle });
        from_value(json!({ "metadata": { "name": name }, "spec": { "csi": csi } })).unwrap()
    }

    #[test]
    fn a_bound_group_is_held_until_its_content_is_gone() {
        let bound = json!({ "boundVolumeGroupSnapshotContentName": "c" });
        assert!(need_to_add_bound_finalizer(&group(json!({}), bound.clone())));
        assert!(!need_to_add_bound_finalizer(&group(json!({}), Value::Null)));
        let held = json!({ "finalizers": [BOUND_FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let going = group(held, bound);
        assert!(is_deletion_candidate(&going) && !need_to_add_bound_finalizer(&going));
        assert_eq!(selector(&going), "app=shop,tier=db");
    }

    #[test]
    fn each_volume_is_of_the_driver_of_the_class() {
        let (ours, theirs) = (volume("a", "ebs", "vol-1"), volume("b", "nfs", "share"));
        let class = class("gold", "ebs", "true");
        assert_eq!(handles("shop/g", &class, [&*ours]).unwrap(), ["vol-1"]);
        let error = handles("shop/g", &class, [&*ours, &*theirs]).unwrap_err();
        let message = "Volume CSI driver (nfs) mismatch with VolumeGroupSnapshotClass (ebs) shop/g: b";
        assert_eq!(error.message, message);
        let local: PersistentVolume = from_value(json!({ "metadata": { "name": "l" } })).unwrap();
        assert_eq!(handles("shop/g", &class, [&local]).unwrap_err().message, "Cannot snapshot a non-CSI volume: l");
        assert_eq!(volume_by_handle(vec![ours, theirs], "ebs", "vol-1").unwrap().name(), "a");
        assert!(volume_by_handle(vec![volume("b", "nfs", "vol-1")], "ebs", "vol-1").is_none());
    }

    #[test]
    fn a_driver_has_one_default_class() {
        let of =
            |classes: Vec<Arc<VolumeGroupSnapshotClass>>| default_class(classes, "ebs").map(|c| c.name().to_owned());
        assert_eq!(of(vec![class("a", "ebs", "true"), class("n", "nfs", "true")]), Ok("a".to_owned()));
        assert_eq!(of(Vec::new()), Err("cannot find default group snapshot class".to_owned()));
        let two = vec![class("a", "ebs", "true"), class("b", "ebs", "true")];
        assert_eq!(of(two), Err("2 default snapshot classes were found".to_owned()));
    }
}
