//! Volume plugins of Kubernetes itself: those that CSI drivers replaced (`csi-translation-lib/translate.go`), and those
//! that kube-controller-manager still has (`cmd/kube-controller-manager/app/plugins.go`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::{BETA_STORAGE_PROVISIONER, MIGRATED_TO, PROVISIONED_BY, STORAGE_PROVISIONER};
use super::object::{annotate, annotation, name, remove_annotation, volume_spec};

/// Plugins that a CSI driver replaced, each with its driver.
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];
/// Beginning of the names of plugins.
const PREFIX: &str = "kubernetes.io/";
/// The plugin of hostPath volumes.
pub const HOST_PATH: &str = "kubernetes.io/host-path";
/// The plugin of NFS volumes.
const NFS: &str = "kubernetes.io/nfs";
/// Finalizer of volumes that a plugin deletes (`PVDeletionInTreeProtectionFinalizer`).
const BY_PLUGIN: &str = "kubernetes.io/pv-controller";
/// Finalizer of volumes that an external provisioner deletes (`PVDeletionProtectionFinalizer`).
const BY_PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Returns the CSI driver that replaced a plugin (`GetCSINameFromInTreeName`).
pub fn driver_of(plugin: &str) -> Option<&'static str> {
    MIGRATED.iter().find(|(name, _)| *name == plugin).map(|(_, driver)| *driver)
}

/// Returns the replaced plugin that the source of a volume belongs to, and its driver (`GetInTreePluginNameFromSpec`).
pub fn plugin_of(volume: &PersistentVolume) -> Option<(&'static str, &'static str)> {
    let spec = volume_spec(volume);
    let is_of = [
        spec.aws_elastic_block_store.is_some(),
        spec.azure_disk.is_some(),
        spec.azure_file.is_some(),
        spec.cinder.is_some(),
        spec.gce_persistent_disk.is_some(),
        spec.portworx_volume.is_some(),
        spec.vsphere_volume.is_some(),
    ];
    is_of.iter().position(|is| *is).map(|at| MIGRATED[at])
}

/// Returns the error for a provisioner that is neither external nor a plugin that provisions
/// (`findProvisionablePlugin`).
pub fn cannot_provision(provisioner: &str) -> Option<String> {
    match provisioner {
        HOST_PATH => None,
        NFS => Some("no provisionable volume plugin matched".to_owned()),
        other if other.starts_with(PREFIX) && driver_of(other).is_none() => Some(no_plugin(other)),
        _ => None,
    }
}

fn no_plugin(name: &str) -> String {
    format!("no volume plugin matched name: {name}")
}

/// Way to delete a volume (`findDeletablePlugin`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleter {
    /// Its external provisioner deletes it.
    External,
    /// The plugin of hostPath volumes.
    HostPath,
    /// No plugin can delete it; the error.
    Missing(String),
}

impl Deleter {
    /// Returns the way to delete a volume.
    pub fn of(volume: &PersistentVolume) -> Self {
        let spec = volume_spec(volume);
        let provisioner = annotation(&volume.metadata, PROVISIONED_BY).unwrap_or_default();
        let unknown =
            |why: &str| format!("error getting deleter volume plugin for volume {:?}: {why}", name(&volume.metadata));
        match provisioner {
            "" if annotation(&volume.metadata, MIGRATED_TO).is_some() || spec.csi.is_some() => Self::External,
            "" if spec.host_path.is_some() => Self::HostPath,
            "" if spec.nfs.is_some() => Self::Missing(unknown("no deletable volume plugin matched")),
            "" => Self::Missing(unknown("no volume plugin matched")),
            HOST_PATH => Self::HostPath,
            NFS => Self::Missing("no deletable volume plugin matched".to_owned()),
            plugin if plugin.starts_with(PREFIX) => Self::Missing(no_plugin(plugin)),
            _ => Self::External,
        }
    }
}

/// Sets or removes the annotation with the driver that replaced the plugin `provisioner`; returns true if it was
/// changed (`updateMigrationAnnotations`).
pub fn mark_migrated(metadata: &mut ObjectMeta, provisioner: &str) -> bool {
    let marked = annotation(metadata, MIGRATED_TO).unwrap_or_default();
    match driver_of(provisioner) {
        Some(driver) if marked != driver => {
            annotate(metadata, MIGRATED_TO, driver);
            true
        }
        None if !marked.is_empty() => {
            remove_annotation(metadata, MIGRATED_TO);
            true
        }
        _ => false,
    }
}

/// Returns the claim with the right annotation of the migration, or None if it has it
/// (`updateClaimMigrationAnnotations`).
pub fn remarked_claim(claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaim> {
    let metadata = &claim.metadata;
    let provisioner =
        annotation(metadata, STORAGE_PROVISIONER).or_else(|| annotation(metadata, BETA_STORAGE_PROVISIONER))?;
    let mut changed = metadata.clone();
    mark_migrated(&mut changed, provisioner).then(|| PersistentVolumeClaim { metadata: changed, ..claim.clone() })
}

/// Returns the volume with the right annotation of the migration and the right finalizers, or None if it has both
/// (`updateVolumeMigrationAnnotationsAndFinalizers`).
pub fn remarked_volume(volume: &PersistentVolume) -> Option<PersistentVolume> {
    let provisioner = annotation(&volume.metadata, PROVISIONED_BY)?;
    let mut metadata = volume.metadata.clone();
    let marked = mark_migrated(&mut metadata, provisioner);
    let policy = volume_spec(volume).persistent_volume_reclaim_policy.as_deref();
    let finalizers = finalizers(provisioner, policy, metadata.finalizers.as_deref().unwrap_or_default());
    if !marked && finalizers.is_none() {
        return None;
    }
    if let Some(finalizers) = finalizers {
        metadata.finalizers = (!finalizers.is_empty()).then_some(finalizers);
    }
    Some(PersistentVolume { metadata, ..volume.clone() })
}

/// Returns the finalizers of a provisioned volume, or None if it has these (`modifyDeletionFinalizers`).
fn finalizers(provisioner: &str, policy: Option<&str>, now: &[String]) -> Option<Vec<String>> {
    let migrated = driver_of(provisioner).is_some();
    if !migrated && !provisioner.starts_with(PREFIX) {
        return None;
    }
    let deletes = !migrated && policy == Some("Delete");
    let mut wanted = now.to_vec();
    wanted.retain(|name| (name != BY_PLUGIN || deletes) && (name != BY_PROVISIONER || migrated));
    if deletes && !wanted.iter().any(|name| name == BY_PLUGIN) {
        wanted.push(BY_PLUGIN.to_owned());
    }
    (wanted != now).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn volume(provisioner: &str, spec: Value, finalizers: &[&str]) -> PersistentVolume {
        let annotations = json!({ PROVISIONED_BY: provisioner });
        let annotations = if provisioner.is_empty() { Value::Null } else { annotations };
        let metadata = json!({ "name": "v", "annotations": annotations, "finalizers": finalizers });
        from_value(json!({ "metadata": metadata, "spec": spec })).expect("a volume")
    }

    #[rstest]
    #[case::external("ebs.csi.aws.com", json!({}), Deleter::External)]
    #[case::csi("", json!({ "csi": { "driver": "d", "volumeHandle": "h" } }), Deleter::External)]
    #[case::host_path("", json!({ "hostPath": { "path": "/tmp/x" } }), Deleter::HostPath)]
    #[case::nfs("", json!({ "nfs": { "server": "s", "path": "/" } }), Deleter::Missing(
        "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched".to_owned()
    ))]
    #[case::local("", json!({ "local": { "path": "/x" } }), Deleter::Missing(
        "error getting deleter volume plugin for volume \"v\": no volume plugin matched".to_owned()
    ))]
    #[case::removed_plugin("kubernetes.io/glusterfs", json!({}), Deleter::Missing(
        "no volume plugin matched name: kubernetes.io/glusterfs".to_owned()
    ))]
    fn a_volume_is_deleted_by_its_provisioner_or_a_plugin(
        #[case] provisioner: &str,
        #[case] spec: Value,
        #[case] expected: Deleter,
    ) {
        assert_eq!(Deleter::of(&volume(provisioner, spec, &[])), expected);
    }

    #[rstest]
    #[case::migrated("kubernetes.io/aws-ebs", "Delete", &["a", BY_PLUGIN, BY_PROVISIONER], Some(vec!["a", BY_PROVISIONER]))]
    #[case::plugin_deletes("kubernetes.io/glusterfs", "Delete", &["a", BY_PROVISIONER], Some(vec!["a", BY_PLUGIN]))]
    #[case::plugin_retains("kubernetes.io/glusterfs", "Retain", &["a", BY_PLUGIN], Some(vec!["a"]))]
    #[case::right_already("kubernetes.io/glusterfs", "Delete", &["a", BY_PLUGIN], None)]
    #[case::external("ebs.csi.aws.com", "Delete", &["a", BY_PLUGIN], None)]
    fn finalizers_follow_the_deleter(
        #[case] provisioner: &str,
        #[case] policy: &str,
        #[case] now: &[&str],
        #[case] expected: Option<Vec<&str>>,
    ) {
        let now: Vec<String> = now.iter().map(|name| (*name).to_owned()).collect();
        let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<String>>());
        assert_eq!(finalizers(provisioner, Some(policy), &now), expected);
    }

    #[test]
    fn the_annotation_of_a_migration_follows_the_provisioner() {
        let marked = remarked_volume(&volume("kubernetes.io/aws-ebs", json!({}), &[])).expect("a change");
        assert_eq!(annotation(&marked.metadata, MIGRATED_TO), Some("ebs.csi.aws.com"));
        assert_eq!(remarked_volume(&marked), None);
        assert_eq!(remarked_volume(&volume("", json!({}), &[])), None);
        let claim = |provisioner: &str, driver: &str| -> PersistentVolumeClaim {
            let annotations = json!({ STORAGE_PROVISIONER: provisioner, MIGRATED_TO: driver });
            from_value(json!({ "metadata": { "name": "c", "annotations": annotations } })).expect("a claim")
        };
        let unmarked = remarked_claim(&claim("ebs.csi.aws.com", "ebs.csi.aws.com")).expect("a change");
        assert_eq!(annotation(&unmarked.metadata, MIGRATED_TO), None);
        assert_eq!(remarked_claim(&claim("kubernetes.io/aws-ebs", "ebs.csi.aws.com")), None);
    }

    #[rstest]
    #[case("ebs.csi.aws.com", None)]
    #[case("kubernetes.io/aws-ebs", None)]
    #[case("kubernetes.io/nfs", Some("no provisionable volume plugin matched"))]
    #[case("kubernetes.io/no-provisioner", Some("no volume plugin matched name: kubernetes.io/no-provisioner"))]
    fn only_names_of_plugins_can_be_wrong(#[case] provisioner: &str, #[case] error: Option<&str>) {
        assert_eq!(cannot_provision(provisioner).as_deref(), error);
    }

    #[test]
    fn the_source_names_the_plugin() {
        let source = json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } });
        assert_eq!(plugin_of(&volume("", source, &[])), Some(("kubernetes.io/aws-ebs", "ebs.csi.aws.com")));
        assert_eq!(plugin_of(&volume("", json!({ "hostPath": { "path": "/tmp/x" } }), &[])), None);
    }
}
