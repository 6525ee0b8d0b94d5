//! Writes of the sizes of sets (`scale`, `scaleReplicaSet`).

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::apps::v1::ReplicaSet;
use substrate::mutant;

use super::annotations;
use super::proportions::shares;
use super::replica_sets::{self, Sets, active, fenceposts, size, wanted};
use super::sync::Round;
use crate::kube::{Kind, reference};

impl Round<'_> {
    /// Scales the sets after a change of the deployment's size, in proportion during a rollout.
    pub(super) async fn scale(&self, sets: &Sets) -> Result<()> {
        let wanted = wanted(&self.deployment);
        if let Some(only) = replica_sets::active_or_latest(sets) {
            if size(&only) != wanted {
                self.scale_set(&only, wanted).await?;
            }
            return Ok(());
        }
        if replica_sets::is_saturated(&self.deployment, sets.new.as_ref()) {
            for old in active(sets.old.iter().rev()) {
                self.scale_set(&old, 0).await?;
            }
            return Ok(());
        }
        if replica_sets::is_rolling(&self.deployment) {
            for (set, size) in &shares(&self.deployment, active(sets.to_scale())) {
                self.write_size(set, *size).await?;
            }
        }
        Ok(())
    }

    /// Sets the size of a set, with an Event (`scaleReplicaSet`). Returns the changed set; none if it has
    /// the size.
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(super) async fn scale_set(&self, set: &Arc<ReplicaSet>, next: i32) -> Result<Option<Arc<ReplicaSet>>> {
        if size(set) == next {
            return Ok(None);
        }
        self.write_size(set, next).await
    }

    async fn write_size(&self, set: &Arc<ReplicaSet>, next: i32) -> Result<Option<Arc<ReplicaSet>>> {
        let wanted = wanted(&self.deployment);
        let most = wanted + fenceposts(&self.deployment).0;
        let before = size(set);
        if before == next && !annotations::sizes_differ(set, wanted, most) {
            return Ok(None);
        }
        let mut changed = ReplicaSet::clone(set);
        changed.spec.get_or_insert_default().replicas = Some(next);
        if !mutant!(self.client.ctx(), "scaled-size-not-annotated") {
            annotations::set_sizes(&mut changed, wanted, most);
        }
        let written = self.client.namespaced::<ReplicaSet>(set.namespace()).replace(&changed).await?;
        if before != next {
            let direction = if before < next { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {before} to {next}", written.name());
            self.recorder.event(reference(&self.deployment), "Normal", "ScalingReplicaSet", message);
        }
        Ok(Some(written))
    }
}
