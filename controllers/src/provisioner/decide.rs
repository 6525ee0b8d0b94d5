//! Responsibility for claims and volumes (lib `shouldProvision`, `shouldDelete`, `isProvisionerForVolume`;
//! external-provisioner `canDeleteVolume`).

use super::persistent_volume::FINALIZER;
use crate::binder::annotations::{
    BETA_STORAGE_PROVISIONER, MIGRATED_TO, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER,
};
use crate::binder::object::{annotation, claim_class, name, volume_name, volume_phase, volume_spec};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};

/// Returns true if the driver should create a volume for the claim.
///
/// # Errors
/// The text of the refusal if the claim's class is missing.
pub fn should_provision(
    claim: &PersistentVolumeClaim,
    driver: &str,
    class: Option<&StorageClass>,
) -> Result<bool, String> {
    let provisioner = annotation(&claim.metadata, STORAGE_PROVISIONER)
        .or_else(|| annotation(&claim.metadata, BETA_STORAGE_PROVISIONER));
    if !volume_name(claim).is_empty() || provisioner != Some(driver) {
        return Ok(false);
    }
    let class = class.ok_or_else(|| format!("storageclass.storage.k8s.io {:?} not found", claim_class(claim)))?;
    let selected = annotation(&claim.metadata, SELECTED_NODE).is_some_and(|node| !node.is_empty());
    // If the class's provisioner changed since the claim was marked, another provisioner is responsible.
    Ok(class.provisioner == driver
        && (selected || class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer")))
}

/// Returns true if the driver is responsible for the volume: it created it, it replaced an in-tree plugin, or it is its
/// CSI driver.
pub fn is_ours(volume: &PersistentVolume, driver: &str) -> bool {
    let migrated = annotation(&volume.metadata, MIGRATED_TO) == Some(driver);
    match annotation(&volume.metadata, PROVISIONED_BY) {
        Some(provisioner) => provisioner == driver || migrated,
        None => volume_spec(volume).csi.as_ref().map_or(migrated, |csi| csi.driver == driver),
    }
}

/// Returns true if the volume should be deleted: released, by policy, and not deleted already.
pub fn should_delete(volume: &PersistentVolume) -> bool {
    let deleted_already = volume.metadata.deletion_timestamp.is_some() && !has_finalizer(volume);
    !deleted_already && volume_phase(volume) == "Released" && policy(volume) == Some("Delete")
}

/// Change of the finalizer before any other action (`handleProtectionFinalizer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerChange {
    /// A bound volume with policy Delete gets it, even one that a user created.
    Add,
    /// The policy is no longer Delete.
    Remove,
}

/// Returns the change of the finalizer that the volume needs, if any.
pub fn finalizer_change(volume: &PersistentVolume) -> Option<FinalizerChange> {
    let present = has_finalizer(volume);
    let alive = volume.metadata.deletion_timestamp.is_none();
    match policy(volume) {
        Some("Delete") if !present && alive && volume_phase(volume) == "Bound" => Some(FinalizerChange::Add),
        Some("Retain" | "Recycle") if present => Some(FinalizerChange::Remove),
        _ => None,
    }
}

/// Returns the volume with or without the finalizer.
pub fn with_finalizer(volume: &PersistentVolume, change: FinalizerChange) -> PersistentVolume {
    let mut volume = volume.clone();
    let mut finalizers = volume.metadata.finalizers.take().unwrap_or_default();
    match change {
        FinalizerChange::Add => finalizers.push(FINALIZER.to_owned()),
        FinalizerChange::Remove => finalizers.retain(|f| f != FINALIZER),
    }
    volume.metadata.finalizers = (!finalizers.is_empty()).then_some(finalizers);
    volume
}

/// Returns the node of a VolumeAttachment that still refers to the volume.
pub fn attached_to<'a>(
    volume: &PersistentVolume,
    mut attachments: impl Iterator<Item = &'a VolumeAttachment>,
) -> Option<&'a str> {
    let name = name(&volume.metadata);
    attachments
        .find(|va| va.spec.source.persistent_volume_name.as_deref() == Some(name))
        .map(|va| va.spec.node_name.as_str())
}

fn has_finalizer(volume: &PersistentVolume) -> bool {
    volume.metadata.finalizers.iter().flatten().any(|f| f == FINALIZER)
}

fn policy(volume: &PersistentVolume) -> Option<&str> {
    volume_spec(volume).persistent_volume_reclaim_policy.as_deref()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;
    use crate::kube::Patch;

    const DRIVER: &str = "ebs.csi.aws.com";

    fn claim(provisioner: &str, node: Option<&str>, volume: Option<&str>) -> PersistentVolumeClaim {
        let mut annotations = json!({ STORAGE_PROVISIONER: provisioner });
        if let Some(node) = node {
            annotations[SELECTED_NODE] = json!(node);
        }
        substrate::json::from_value(json!({
            "metadata": { "name": "data", "annotations": annotations },
            "spec": { "storageClassName": "gp3", "volumeName": volume },
        }))
        .unwrap()
    }

    #[rstest]
    #[case::immediate(claim(DRIVER, None, None), "Immediate", true)]
    #[case::waiting(claim(DRIVER, None, None), "WaitForFirstConsumer", false)]
    #[case::selected(claim(DRIVER, Some("n"), None), "WaitForFirstConsumer", true)]
    #[case::reset(claim(DRIVER, Some(""), None), "WaitForFirstConsumer", false)]
    #[case::bound(claim(DRIVER, None, Some("v")), "Immediate", false)]
    #[case::another_driver(claim("efs.csi.aws.com", None, None), "Immediate", false)]
    fn claims(#[case] claim: PersistentVolumeClaim, #[case] mode: &str, #[case] expected: bool) {
        let class = substrate::json::from_value(json!({
            "metadata": { "name": "gp3" }, "provisioner": DRIVER, "volumeBindingMode": mode,
        }))
        .unwrap();
        assert_eq!(should_provision(&claim, DRIVER, Some(&class)), Ok(expected));
    }

    #[test]
    fn a_missing_class_is_an_error() {
        assert_eq!(
            should_provision(&claim(DRIVER, None, None), DRIVER, None),
            Err("storageclass.storage.k8s.io \"gp3\" not found".to_owned())
        );
    }

    fn volume(phase: &str, policy: &str, deleting: bool, finalizers: &[&str]) -> PersistentVolume {
        let at = deleting.then_some("2026-01-01T00:00:00Z");
        substrate::json::from_value(json!({
            "metadata": { "name": "v", "deletionTimestamp": at, "finalizers": finalizers },
            "spec": { "persistentVolumeReclaimPolicy": policy, "csi": { "driver": DRIVER, "volumeHandle": "vol-1" } },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    #[rstest]
    #[case(volume("Released", "Delete", false, &[FINALIZER]), true)]
    #[case(volume("Released", "Delete", true, &[FINALIZER]), true)]
    #[case::done_already(volume("Released", "Delete", true, &[]), false)]
    #[case(volume("Bound", "Delete", false, &[FINALIZER]), false)]
    #[case(volume("Released", "Retain", false, &[FINALIZER]), false)]
    #[case::failed_is_left_alone(volume("Failed", "Delete", false, &[FINALIZER]), false)]
    fn deletions(#[case] volume: PersistentVolume, #[case] expected: bool) {
        assert_eq!(should_delete(&volume), expected);
        assert!(is_ours(&volume, DRIVER));
    }

    #[rstest]
    #[case(volume("Bound", "Delete", false, &["kubernetes.io/pv-protection"]), Some(FinalizerChange::Add))]
    #[case(volume("Available", "Delete", false, &[]), None)]
    #[case(volume("Bound", "Retain", false, &[FINALIZER]), Some(FinalizerChange::Remove))]
    #[case(volume("Bound", "Delete", false, &[FINALIZER]), None)]
    fn finalizers(#[case] volume: PersistentVolume, #[case] expected: Option<FinalizerChange>) {
        assert_eq!(finalizer_change(&volume), expected);
    }

    #[test]
    fn the_finalizer_is_removed_by_a_primitive_list_directive() {
        let volume = volume("Released", "Delete", true, &["kubernetes.io/pv-protection", FINALIZER]);
        let patch = Patch::strategic(&volume, &with_finalizer(&volume, FinalizerChange::Remove)).unwrap();
        let expected = json!({ "metadata": {
            "$deleteFromPrimitiveList/finalizers": [FINALIZER],
            "$setElementOrder/finalizers": ["kubernetes.io/pv-protection"],
        } });
        assert_eq!(*patch.value(), expected);
    }

    #[test]
    fn a_volume_attachment_names_the_node_that_still_has_the_volume() {
        let va: VolumeAttachment = substrate::json::from_value(json!({
            "metadata": { "name": "csi-1" },
            "spec": { "attacher": DRIVER, "nodeName": "node-a", "source": { "persistentVolumeName": "v" } },
        }))
        .unwrap();
        let volume = volume("Released", "Delete", false, &[FINALIZER]);
        assert_eq!(attached_to(&volume, [va].iter()), Some("node-a"));
        assert_eq!(attached_to(&volume, [].iter()), None);
    }
}
