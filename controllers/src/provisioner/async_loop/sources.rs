//! Reads the source of a volume, and protects it during the creation.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::VolumeContentSource;
use csi_proto::csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use substrate::mutant;
use tonic::Code;

use super::super::outcome::State;
use super::super::source::{self, CLONE_FINALIZER, SNAPSHOT_FINALIZER, Source};
use super::{Controller, Failure};
use crate::binder::object::volume_name;
use crate::kube::{ApiError, Kind};
use crate::snapshot::{VolumeSnapshot, VolumeSnapshotContent, refusal};

impl Controller {
    /// Returns the source as the driver knows it (`getVolumeContentSource`).
    pub(super) async fn content(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        source: &Source,
    ) -> Result<VolumeContentSource, String> {
        let found = match source {
            Source::Claim(name) => {
                Type::Volume(VolumeSource { volume_id: self.source_volume(claim, class, name).await? })
            }
            Source::Snapshot(name) => {
                Type::Snapshot(SnapshotSource { snapshot_id: self.source_snapshot(claim, class, name).await? })
            }
        };
        Ok(VolumeContentSource { r#type: Some(found) })
    }

    async fn source_volume(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        name: &str,
    ) -> Result<String, String> {
        let namespace = claim.namespace();
        let from = self.sources.claims.get(namespace, name).ok_or_else(|| {
            let missing = format!("persistentvolumeclaim {name:?} not found");
            format!("error getting PVC {name} (namespace {namespace:?}) from api server: {missing}")
        })?;
        if !from.is_deleting() || !mutant!(self.ctx, "deleting-claim-cloned") {
            source::check_claim(claim, &from)?;
        }
        let volume = self.client.all::<PersistentVolume>().get(volume_name(&from)).await.ok();
        source::volume_handle(claim, class, &from, volume.as_deref())
    }

    async fn source_snapshot(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        name: &str,
    ) -> Result<String, String> {
        let snapshot = self.client.namespaced::<VolumeSnapshot>(claim.namespace()).get(name).await;
        let snapshot = snapshot.map_err(|e| {
            format!("error getting snapshot {name} from api server: {}", refusal::<VolumeSnapshot>(&e, name))
        })?;
        let mut snapshot = snapshot;
        if mutant!(self.ctx, "snapshot-not-ready-restored")
            && let Some(status) = &mut Arc::make_mut(&mut snapshot).status
        {
            status.ready_to_use = Some(true);
        }
        if mutant!(self.ctx, "restore-size-not-compared")
            && let Some(status) = &mut Arc::make_mut(&mut snapshot).status
        {
            status.restore_size = None;
        }
        let content = source::content_name(&snapshot)?;
        let found = self.client.all::<VolumeSnapshotContent>().get(content).await;
        let content = found.map_err(|_| format!("error getting snapshotcontent {content} for snapshot {name}"))?;
        source::snapshot_handle(claim, class, &snapshot, &content)
    }

    /// Adds the finalizer to the source, so that it stays until the volume is created.
    pub(super) async fn hold(&self, claim: &PersistentVolumeClaim, source: &Source) -> Result<(), String> {
        let namespace = claim.namespace();
        match source {
            Source::Claim(_) if mutant!(self.ctx, "clone-source-not-protected") => Ok(()),
            Source::Claim(name) => {
                let from = self.sources.claims.get(namespace, name);
                let from = from.ok_or_else(|| format!("persistentvolumeclaim {name:?} not found"))?;
                if from.has_finalizer(CLONE_FINALIZER) {
                    return Ok(());
                }
                let held = with_finalizer(&*from, CLONE_FINALIZER);
                self.client.namespaced(namespace).replace(&held).await.map(drop).map_err(|e| e.to_string())
            }
            Source::Snapshot(name) => {
                let snapshots = self.client.namespaced::<VolumeSnapshot>(namespace);
                let refused = |e: ApiError| refusal::<VolumeSnapshot>(&e, name);
                let from = snapshots.get(name).await.map_err(refused)?;
                if from.has_finalizer(SNAPSHOT_FINALIZER) {
                    return Ok(());
                }
                snapshots.replace(&with_finalizer(&*from, SNAPSHOT_FINALIZER)).await.map(drop).map_err(refused)
            }
        }
    }

    /// Removes the finalizer from a restored snapshot. A failure here does not fail the volume.
    pub(super) async fn release_snapshot(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let snapshots = self.client.namespaced::<VolumeSnapshot>(namespace);
        let gone = |e: ApiError| if e.is_not_found() { Ok(()) } else { Err(e) };
        let held = match snapshots.get(name).await {
            Ok(held) => held,
            Err(e) => return gone(e),
        };
        if !held.has_finalizer(SNAPSHOT_FINALIZER) {
            return Ok(());
        }
        snapshots.replace(&without_finalizer(&*held, SNAPSHOT_FINALIZER)).await.map(drop).or_else(gone)
    }

    /// Returns the parameters of a VolumeAttributesClass for a new volume.
    pub(super) async fn mutable_parameters(&self, name: &str) -> Result<BTreeMap<String, String>, (Failure, State)> {
        let class = self.client.all::<VolumeAttributesClass>().get(name).await;
        let class = class.map_err(|e| (Failure::Other(e.to_string()), State::NoChange))?;
        if class.driver_name != self.driver.name {
            let text = format!(
                "VAC {name} referenced in PVC is for driver {} which does not match driver name {}",
                class.driver_name, self.driver.name
            );
            return Err((Failure::Other(text), State::Finished));
        }
        Ok(class.parameters.clone().unwrap_or_default())
    }

    /// Returns the key under which the topology of a claim is remembered: its uid, except for a seeded bug.
    pub(super) fn topology_key(&self, claim: &PersistentVolumeClaim) -> String {
        let key = if mutant!(self.ctx, "zones-remembered-by-name") { claim.name() } else { claim.uid() };
        key.to_owned()
    }

    /// Returns the allowed topologies of a class, except those that seeded bugs ignore.
    pub(super) fn allowed_topologies(&self, class: &StorageClass) -> Vec<TopologySelectorTerm> {
        let mut allowed = class.allowed_topologies.clone().unwrap_or_default();
        if mutant!(self.ctx, "allowed-topologies-ignored") {
            allowed.clear();
        }
        if mutant!(self.ctx, "first-allowed-zone-read") {
            allowed.truncate(1);
            for expression in allowed.iter_mut().flat_map(|term| term.match_label_expressions.iter_mut().flatten()) {
                expression.values.truncate(1);
            }
        }
        allowed
    }

    /// Seeded bugs: returns true if a creation that may still be under way counts as ended after the error `code`.
    pub(super) fn forgets_creation(&self, code: Code) -> bool {
        mutant!(self.ctx, "unfinished-creation-forgotten")
            || code == Code::Aborted && mutant!(self.ctx, "aborted-creation-is-over")
    }
}

fn with_finalizer<K: Kind>(object: &K, finalizer: &str) -> K {
    let mut object = object.clone();
    Metadata::metadata_mut(&mut object).finalizers.get_or_insert_default().push(finalizer.to_owned());
    object
}

/// Returns the object without one of its finalizers.
pub(super) fn without_finalizer<K: Kind>(object: &K, finalizer: &str) -> K {
    let mut object = object.clone();
    let finalizers = &mut Metadata::metadata_mut(&mut object).finalizers;
    finalizers.get_or_insert_default().retain(|f| f != finalizer);
    *finalizers = finalizers.take().filter(|all| !all.is_empty());
    object
}
