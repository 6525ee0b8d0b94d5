//! Source of a claim's content: another claim or a snapshot (external-provisioner `dataSource`, `getPVCSource`,
//! `getSnapshotSource`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::request::PrepareError;
use crate::binder::object::{claim_phase, requested_bytes, volume_name, volume_phase, volume_spec};
use crate::binder::quantity;
use crate::kube::Kind;
use crate::snapshot::{GROUP, VolumeSnapshot, VolumeSnapshotContent};

/// Finalizer of a claim while another one is cloned from it.
pub const CLONE_FINALIZER: &str = "provisioner.storage.kubernetes.io/cloning-protection";
/// Finalizer of a snapshot while a claim is restored from it.
pub const SNAPSHOT_FINALIZER: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Annotation that allows a volume mode other than the snapshot's.
const MODE_MAY_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";
/// Message for users about an unsuitable source volume; upstream logs the details.
const UNFIT: &str = "claim in dataSource not bound or invalid";

/// Source of a claim, in the claim's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A claim, to be cloned.
    Claim(String),
    /// A snapshot, to be restored.
    Snapshot(String),
}

impl Source {
    /// Returns its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Claim(_) => "PersistentVolumeClaim",
            Self::Snapshot(_) => "VolumeSnapshot",
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Claim(name) | Self::Snapshot(name) => name,
        }
    }
}

/// Returns the source that the claim names; None for an empty volume.
///
/// # Errors
/// If it names a source that the provisioner cannot read.
pub fn of(claim: &PersistentVolumeClaim) -> Result<Option<Source>, PrepareError> {
    let Some(spec) = &claim.spec else { return Ok(None) };
    let (kind, name, group) = match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), _) => (&source.kind, &source.name, &source.api_group),
        (None, Some(source)) if source.namespace.as_ref().is_some_and(|n| !n.is_empty()) => {
            return Err(PrepareError::OtherNamespace);
        }
        (None, Some(source)) => (&source.kind, &source.name, &source.api_group),
        (None, None) => return Ok(None),
    };
    if name.is_empty() {
        return Err(PrepareError::NoSourceName(claim.name().to_owned()));
    }
    match kind.as_str() {
        "VolumeSnapshot" if group.as_deref() != Some(GROUP) => {
            Err(PrepareError::SourceGroup(group.clone().unwrap_or_default()))
        }
        "VolumeSnapshot" => Ok(Some(Source::Snapshot(name.clone()))),
        "PersistentVolumeClaim" => Ok(Some(Source::Claim(name.clone()))),
        other => Err(PrepareError::Populator(other.to_owned())),
    }
}

/// Checks that `source` can be cloned for `claim`, according to the two claims.
///
/// # Errors
/// The reason why it cannot.
pub fn check_claim(claim: &PersistentVolumeClaim, source: &PersistentVolumeClaim) -> Result<(), String> {
    let name = source.name();
    let phase = claim_phase(source);
    if phase != "Bound" {
        let status = format!("{{{phase} [] map[] [] map[] map[] <nil> <nil>}}");
        return Err(format!("the PVC DataSource {name} must have a status of Bound.  Got {status}"));
    }
    if source.is_deleting() {
        return Err(format!("the PVC DataSource {name} is currently being deleted"));
    }
    let class = |claim: &PersistentVolumeClaim| claim.spec.as_ref().and_then(|s| s.storage_class_name.clone());
    if class(source).is_none() {
        return Err(format!("the source PVC ({name}) storageclass cannot be empty"));
    }
    if class(claim).is_none() {
        return Err(format!("the requested PVC ({}) storageclass cannot be empty", claim.name()));
    }
    let (asked, has) = (requested_bytes(claim), requested_bytes(source));
    if asked < has {
        return Err(format!(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, \
             requested {asked} but source is {has}"
        ));
    }
    if volume_name(source).is_empty() {
        return Err(format!("volume name is empty in source PVC {name}"));
    }
    Ok(())
}

/// Returns the handle of the volume to clone, which is bound to `source`. An absent volume was not found.
///
/// # Errors
/// The reason why it cannot be cloned.
pub fn volume_handle(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    source: &PersistentVolumeClaim,
    volume: Option<&PersistentVolume>,
) -> Result<String, String> {
    let fit = volume.and_then(|volume| {
        let spec = volume_spec(volume);
        let csi = spec.csi.as_ref().filter(|csi| csi.driver == class.provisioner)?;
        let bound = spec.claim_ref.as_ref().is_some_and(|r| {
            r.uid.as_deref() == Some(source.uid())
                && r.namespace.as_deref() == Some(source.namespace())
                && r.name.as_deref() == Some(source.name())
        });
        (bound && volume_phase(volume) == "Bound").then_some((spec, csi))
    });
    let (spec, csi) = fit.ok_or_else(|| UNFIT.to_owned())?;
    let is_block = |mode: Option<&String>| mode.is_some_and(|mode| mode == "Block");
    let asked = claim.spec.as_ref().and_then(|s| s.volume_mode.as_ref());
    let differ = match (is_block(spec.volume_mode.as_ref()), is_block(asked)) {
        (true, false) => Some("Source is Block, but new PVC requested Filesystem"),
        (false, true) => Some("Source is Filesystem, but new PVC requested Block"),
        _ => None,
    };
    match differ {
        Some(how) => {
            Err(format!("the source PVC and destination PVCs must have the same volume mode for cloning.  {how}"))
        }
        None => Ok(csi.volume_handle.clone()),
    }
}

/// Returns the name of the content that the snapshot is bound to.
///
/// # Errors
/// If the snapshot is being deleted, or is not bound yet.
pub fn content_name(snapshot: &VolumeSnapshot) -> Result<&str, String> {
    // A snapshot with the finalizer existed when the work on this claim started.
    if snapshot.is_deleting() && !snapshot.has_finalizer(SNAPSHOT_FINALIZER) {
        return Err(format!("snapshot {} is being deleted", snapshot.name()));
    }
    snapshot.content().ok_or_else(|| format!("snapshot {} not bound", snapshot.name()))
}

/// Returns the driver's handle of the snapshot that `claim` is restored from.
///
/// # Errors
/// The reason why it cannot be restored.
pub fn snapshot_handle(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    snapshot: &VolumeSnapshot,
    content: &VolumeSnapshotContent,
) -> Result<String, String> {
    let (name, content_name) = (snapshot.name(), content.name());
    if !content.is_of(snapshot) {
        return Err(format!("snapshotcontent {content_name} for snapshot {name} is bound to a different snapshot"));
    }
    if content.spec.driver != class.provisioner {
        return Err(format!(
            "snapshotcontent {content_name} for snapshot {name} is not handled by CSI driver of StorageClass {}",
            class.name()
        ));
    }
    if !snapshot.is_ready() {
        return Err(format!("snapshot {name} is not Ready"));
    }
    let handle = content.handle().ok_or_else(|| format!("snapshot handle {name} is not available"))?;
    let asked = requested_bytes(claim);
    if let Some(least) = snapshot.restore_size().map(quantity::value).filter(|least| asked < *least) {
        return Err(format!(
            "requested volume size {asked} is less than the size {least} for the source snapshot {name}"
        ));
    }
    check_mode(claim, content)?;
    Ok(handle.to_owned())
}

/// Checks the volume mode, as with `--prevent-volume-mode-conversion`, which is on.
fn check_mode(claim: &PersistentVolumeClaim, content: &VolumeSnapshotContent) -> Result<(), String> {
    let asked = claim.spec.as_ref().and_then(|s| s.volume_mode.as_deref());
    let same = content.spec.source_volume_mode.as_deref().zip(asked).is_none_or(|(source, asked)| source == asked);
    let allowed = content.annotation(MODE_MAY_CHANGE);
    if same || allowed.is_some_and(|text| matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True")) {
        return Ok(());
    }
    let why = match allowed {
        None => format!("{MODE_MAY_CHANGE} annotation is not present on snapshotcontent {}", content.name()),
        Some("0" | "f" | "F" | "FALSE" | "false" | "False") => {
            format!("{MODE_MAY_CHANGE} is set to false on snapshotcontent {}", content.name())
        }
        Some(text) => format!(
            "failed to convert {MODE_MAY_CHANGE} annotation value to boolean with error: \
             strconv.ParseBool: parsing {text:?}: invalid syntax"
        ),
    };
    Err(format!(
        "requested volume {}/{} modifies the mode of the source volume but does not have permission to do so. {why}",
        claim.namespace(),
        claim.name()
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    const DRIVER: &str = "ebs.csi.aws.com";

    fn with(mut base: Value, changes: &Value) -> Value {
        for (name, value) in changes.as_object().unwrap() {
            base[name] = if value.is_object() && base[name].is_object() {
                with(base[name].clone(), value)
            } else {
                value.clone()
            };
        }
        base
    }

    fn claim(changes: &Value) -> PersistentVolumeClaim {
        let base = json!({
            "metadata": { "name": "data", "namespace": "shop", "uid": "u" },
            "spec": {
                "storageClassName": "gp3", "volumeName": "pv", "resources": { "requests": { "storage": "4Gi" } },
            },
            "status": { "phase": "Bound" },
        });
        from_value(with(base, changes)).unwrap()
    }

    fn class() -> StorageClass {
        from_value(json!({ "metadata": { "name": "gp3" }, "provisioner": DRIVER })).unwrap()
    }

    #[rstest]
    #[case(json!({}), Ok(None))]
    #[case(
        json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "a" } }),
        Ok(Some(Source::Claim("a".to_owned())))
    )]
    #[case(
        json!({ "dataSourceRef": { "apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "s" } }),
        Ok(Some(Source::Snapshot("s".to_owned())))
    )]
    #[case(
        json!({ "dataSource": { "apiGroup": "x.io", "kind": "VolumeSnapshot", "name": "s" } }),
        Err("the PVC source does not belong to the right APIGroup. Expected snapshot.storage.k8s.io, Got x.io")
    )]
    #[case(
        json!({ "dataSourceRef": { "kind": "PersistentVolumeClaim", "name": "a", "namespace": "other" } }),
        Err("dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled")
    )]
    #[case(
        json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "" } }),
        Err("the PVC source not found for PVC data")
    )]
    fn sources(#[case] spec: Value, #[case] expected: Result<Option<Source>, &str>) {
        let found = of(&claim(&json!({ "spec": spec })));
        assert_eq!(found.map_err(|e| e.to_string()), expected.map_err(str::to_owned));
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(
        json!({ "status": { "phase": "Pending" } }),
        Some("the PVC DataSource data must have a status of Bound.  Got {Pending [] map[] [] map[] map[] <nil> <nil>}")
    )]
    #[case(
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
        Some("the PVC DataSource data is currently being deleted")
    )]
    #[case(
        json!({ "spec": { "resources": { "requests": { "storage": "5Gi" } } } }),
        Some("error, new PVC request must be greater than or equal in size to the specified PVC data source, \
              requested 4294967296 but source is 5368709120")
    )]
    fn claims_that_cannot_be_cloned_say_why(#[case] source: Value, #[case] why: Option<&str>) {
        assert_eq!(check_claim(&claim(&json!({})), &claim(&source)).err().as_deref(), why);
    }

    #[rstest]
    #[case(json!({}), json!({}), Ok("vol-1"))]
    #[case(json!({ "status": { "phase": "Released" } }), json!({}), Err(UNFIT))]
    #[case(json!({ "spec": { "claimRef": { "uid": "older" } } }), json!({}), Err(UNFIT))]
    #[case(json!({ "spec": { "csi": { "driver": "efs" } } }), json!({}), Err(UNFIT))]
    #[case(
        json!({ "spec": { "volumeMode": "Block" } }),
        json!({}),
        Err("the source PVC and destination PVCs must have the same volume mode for cloning.  \
             Source is Block, but new PVC requested Filesystem")
    )]
    #[case(
        json!({}),
        json!({ "spec": { "volumeMode": "Block" } }),
        Err("the source PVC and destination PVCs must have the same volume mode for cloning.  \
             Source is Filesystem, but new PVC requested Block")
    )]
    fn volumes_that_cannot_be_cloned_say_why(
        #[case] volume: Value,
        #[case] asked: Value,
        #[case] expected: Result<&str, &str>,
    ) {
        let base = json!({
            "metadata": { "name": "pv" },
            "spec": {
                "csi": { "driver": DRIVER, "volumeHandle": "vol-1" },
                "claimRef": { "uid": "u", "namespace": "shop", "name": "data" },
            },
            "status": { "phase": "Bound" },
        });
        let volume: PersistentVolume = from_value(with(base, &volume)).unwrap();
        let found = volume_handle(&claim(&asked), &class(), &claim(&json!({})), Some(&volume));
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
        assert_eq!(volume_handle(&claim(&asked), &class(), &claim(&json!({})), None), Err(UNFIT.to_owned()));
    }

    fn snapshot(status: &Value) -> VolumeSnapshot {
        let metadata = json!({ "name": "s", "namespace": "shop", "uid": "su" });
        from_value(json!({ "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": metadata,
            "spec": {}, "status": status.clone() }))
        .unwrap()
    }

    #[rstest]
    #[case(json!({}), json!({}), json!({}), Ok("snap-1"))]
    #[case(json!({ "readyToUse": false }), json!({}), json!({}), Err("snapshot s is not Ready"))]
    #[case(
        json!({ "restoreSize": "8Gi" }), json!({}), json!({}),
        Err("requested volume size 4294967296 is less than the size 8589934592 for the source snapshot s")
    )]
    #[case(
        json!({}), json!({ "spec": { "volumeSnapshotRef": { "uid": "older" } } }), json!({}),
        Err("snapshotcontent c for snapshot s is bound to a different snapshot")
    )]
    #[case(
        json!({}), json!({ "spec": { "driver": "efs" } }), json!({}),
        Err("snapshotcontent c for snapshot s is not handled by CSI driver of StorageClass gp3")
    )]
    #[case(json!({}), json!({ "status": null }), json!({}), Err("snapshot handle s is not available"))]
    #[case(
        json!({}), json!({}), json!({ "spec": { "volumeMode": "Block" } }),
        Err("requested volume shop/data modifies the mode of the source volume but does not have permission to do so. \
             snapshot.storage.kubernetes.io/allow-volume-mode-change annotation is not present on snapshotcontent c")
    )]
    #[case(
        json!({}), json!({ "metadata": { "annotations": { MODE_MAY_CHANGE: "true" } } }),
        json!({ "spec": { "volumeMode": "Block" } }), Ok("snap-1")
    )]
    #[case(
        json!({}), json!({ "metadata": { "annotations": { MODE_MAY_CHANGE: "yes" } } }),
        json!({ "spec": { "volumeMode": "Block" } }),
        Err("requested volume shop/data modifies the mode of the source volume but does not have permission to do so. \
             failed to convert snapshot.storage.kubernetes.io/allow-volume-mode-change annotation value to boolean \
             with error: strconv.ParseBool: parsing \"yes\": invalid syntax")
    )]
    fn snapshots_that_cannot_be_restored_say_why(
        #[case] status: Value,
        #[case] content: Value,
        #[case] asked: Value,
        #[case] expected: Result<&str, &str>,
    ) {
        let status = with(json!({ "readyToUse": true, "restoreSize": "4Gi" }), &status);
        let base = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": { "name": "c", "annotations": {} },
            "spec": {
                "driver": DRIVER,
                "sourceVolumeMode": "Filesystem",
                "volumeSnapshotRef": { "uid": "su", "namespace": "shop", "name": "s" },
            },
            "status": { "snapshotHandle": "snap-1" },
        });
        let content = from_value(with(base, &content)).unwrap();
        let found = snapshot_handle(&claim(&asked), &class(), &snapshot(&status), &content);
        assert_eq!(found.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_snapshot_that_is_not_bound_has_no_content_yet() {
        assert_eq!(content_name(&snapshot(&json!({}))), Err("snapshot s not bound".to_owned()));
        let bound = snapshot(&json!({ "boundVolumeSnapshotContentName": "c" }));
        assert_eq!(content_name(&bound), Ok("c"));
        let mut going = bound;
        k8s_openapi::Metadata::metadata_mut(&mut going).deletion_timestamp =
            Some(crate::kube::time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(content_name(&going), Err("snapshot s is being deleted".to_owned()));
    }
}
