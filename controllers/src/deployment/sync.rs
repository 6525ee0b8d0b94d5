//! One round of a deployment: its sets and its status (`sync.go`).

use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::mutant;

use super::conditions::{
    self, CREATE_ERROR, NEW_CREATED, NEW_FOUND, PAUSED, PROGRESSING, RESUMED, TIMED_OUT, condition,
};
use super::replica_sets::{self, HASH_LABEL, Sets, equal_ignoring_hash, fenceposts, size, sum, wanted};
use super::{annotations, rollback, status};
use crate::kube::{Client, DeleteParams, EventRecorder, Informer, Kind, reference};
use crate::workload::controller_ref::{controller_ref, is_controlled_by};
use crate::workload::hash;

/// A round of one deployment. As upstream's, it changes its copy of the deployment and does not read the answers of
/// its writes, so a second write of the status in one round conflicts, and the round is repeated.
pub(super) struct Round<'a> {
    pub(super) client: &'a Client,
    pub(super) recorder: &'a EventRecorder,
    pub(super) cached: &'a Informer<ReplicaSet>,
    pub(super) now: Timestamp,
    pub(super) deployment: Deployment,
    /// Seeded bug: removes old pods without regard to maxUnavailable.
    pub(super) ignores_unavailable: bool,
    /// Seeded bug: takes old pods from the newest old set first.
    pub(super) newest_first: bool,
    /// Seeded bug: adds new pods without regard to maxSurge.
    pub(super) ignores_surge: bool,
    /// Seeded bug: keeps all old sets.
    pub(super) keeps_old_sets: bool,
    /// Seeded bug: creates new pods before the old ones have ended.
    pub(super) recreates_at_once: bool,
}

impl Round<'_> {
    /// Writes the status of the round's deployment.
    pub(super) async fn write_status(&self) -> Result<()> {
        let api = self.client.namespaced::<Deployment>(self.deployment.namespace());
        api.replace_status(&self.deployment).await?;
        Ok(())
    }

    fn set_condition(&mut self, type_: &str, state: &str, reason: &str, message: String) {
        let condition = condition(type_, state, reason, message, self.now);
        conditions::set(self.deployment.status.get_or_insert_default(), condition);
    }

    /// Notes in the conditions that the deployment is paused or resumed (`checkPausedConditions`).
    pub(super) async fn check_paused(&mut self) -> Result<()> {
        let status = status::of(&self.deployment);
        let reason = conditions::reason(&status, PROGRESSING);
        if conditions::deadline(&self.deployment).is_none() || reason == TIMED_OUT {
            return Ok(());
        }
        let is_paused = self.deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
        match (is_paused, reason == PAUSED) {
            (true, false) => self.set_condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned()),
            (false, true) => self.set_condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed".to_owned()),
            _ => return Ok(()),
        }
        self.write_status().await
    }

    /// Finds the new set and the old ones, and updates revisions (`getAllReplicaSetsAndSyncRevision`). Creates the new
    /// set if `creates`.
    ///
    /// # Errors
    /// The first write that failed.
    pub(super) async fn sets(&mut self, all: &[Arc<ReplicaSet>], creates: bool) -> Result<Sets> {
        let Sets { new: found, old } = Sets::of(&self.deployment, all);
        let revision = old.iter().map(|set| annotations::revision(set)).max().unwrap_or(0) + 1;
        let new = match found {
            Some(found) => Some(self.sync_new(&found, revision).await?),
            None if creates => Some(self.create_new(&old, revision).await?),
            None => None,
        };
        Ok(Sets { new, old })
    }

    async fn sync_new(&mut self, found: &Arc<ReplicaSet>, revision: i64) -> Result<Arc<ReplicaSet>> {
        let mut set = ReplicaSet::clone(found);
        let has_changed = annotations::set_new(&self.deployment, &mut set, revision);
        let min_ready = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let own = set.spec.get_or_insert_default();
        let passes_on = !mutant!(self.client.ctx(), "min-ready-seconds-not-passed-on");
        if has_changed || (passes_on && own.min_ready_seconds.unwrap_or(0) != min_ready) {
            own.min_ready_seconds = (min_ready != 0).then_some(min_ready);
            return Ok(self.client.namespaced::<ReplicaSet>(set.namespace()).replace(&set).await?);
        }
        let number = set.annotation(annotations::REVISION).unwrap_or_default().to_owned();
        let mut needs_update = annotations::set_revision(&mut self.deployment, &number);
        let has_progress = conditions::get(&status::of(&self.deployment), PROGRESSING).is_some();
        if conditions::deadline(&self.deployment).is_some() && !has_progress {
            let message = format!("Found new replica set \"{}\"", set.name());
            self.set_condition(PROGRESSING, "True", NEW_FOUND, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status().await?;
        }
        Ok(Arc::new(set))
    }

    /// Builds the set of the deployment's template.
    fn build_new(&self, old: &[Arc<ReplicaSet>], revision: i64) -> ReplicaSet {
        let spec = self.deployment.spec.clone().unwrap_or_default();
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = hash::of_template(&spec.template, collisions);
        let mut template = spec.template;
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector;
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
        let count = replica_sets::new_size(&self.deployment, sum(old, size), 0);
        let metadata = ObjectMeta {
            name: Some(replica_sets::set_name(self.deployment.name(), &hash)),
            namespace: Some(self.deployment.namespace().to_owned()),
            owner_references: Some(vec![controller_ref(&self.deployment)]),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let own = ReplicaSetSpec {
            replicas: Some(count),
            min_ready_seconds: spec.min_ready_seconds.filter(|seconds| *seconds != 0),
            selector,
            template: Some(template),
        };
        let mut set = ReplicaSet { metadata, spec: Some(own), status: None };
        annotations::set_new(&self.deployment, &mut set, revision);
        let wanted = wanted(&self.deployment);
        annotations::set_sizes(&mut set, wanted, wanted + fenceposts(&self.deployment).0);
        set
    }

    async fn create_new(&mut self, old: &[Arc<ReplicaSet>], revision: i64) -> Result<Arc<ReplicaSet>> {
        let set = self.build_new(old, revision);
        let api = self.client.namespaced::<ReplicaSet>(set.namespace());
        let mut exists = false;
        let created = match api.create(&set).await {
            Ok(created) => created,
            Err(error) if error.is_already_exists() => {
                // The cache is behind, or the hash collides.
                let Some(present) = self.cached.get(set.namespace(), set.name()) else { return Err(error.into()) };
                let template = self.deployment.spec.as_ref().map(|spec| &spec.template);
                let own = present.spec.as_ref().and_then(|spec| spec.template.as_ref());
                let is_equal = template.zip(own).is_some_and(|(template, own)| equal_ignoring_hash(template, own));
                let takes_any = mutant!(self.client.ctx(), "set-of-another-used");
                let is_own = is_controlled_by(&present.metadata, &self.deployment) && is_equal;
                if !(is_own || takes_any) {
                    let status = self.deployment.status.get_or_insert_default();
                    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                    // The error of the creation is returned, and the next round tries another hash.
                    let _ = self.write_status().await;
                    return Err(error.into());
                }
                exists = true;
                present
            }
            Err(error) if error.is_namespace_terminating() => return Err(error.into()),
            Err(error) => {
                let message = format!("Failed to create new replica set \"{}\": {error}", set.name());
                if conditions::deadline(&self.deployment).is_some() {
                    self.set_condition(PROGRESSING, "False", CREATE_ERROR, message.clone());
                    // The error of the creation matters more.
                    let _ = self.write_status().await;
                }
                self.recorder.event(reference(&self.deployment), "Warning", CREATE_ERROR, message);
                return Err(error.into());
            }
        };
        let count = size(&set);
        if !exists && count > 0 {
            let message = format!("Scaled up replica set {} from 0 to {count}", created.name());
            self.recorder.event(reference(&self.deployment), "Normal", "ScalingReplicaSet", message);
        }
        let mut needs_update = annotations::set_revision(&mut self.deployment, &revision.to_string());
        if !exists && conditions::deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set \"{}\"", created.name());
            self.set_condition(PROGRESSING, "True", NEW_CREATED, message);
            needs_update = true;
        }
        if needs_update {
            self.write_status().await?;
        }
        Ok(created)
    }

    /// Scales and reports, without a rollout (`sync`): for a paused deployment and after a change of its size.
    pub(super) async fn sync(&mut self, all: &[Arc<ReplicaSet>]) -> Result<()> {
        let sets = self.sets(all, false).await?;
        self.scale(&sets).await?;
        let is_paused = self.deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true);
        if is_paused && rollback::wanted(&self.deployment).is_none() {
            self.clean_up(&sets).await?;
        }
        self.sync_status(&sets).await
    }

    /// Reports only (`syncStatusOnly`): for a deployment that is being deleted.
    pub(super) async fn status_only(&mut self, all: &[Arc<ReplicaSet>]) -> Result<()> {
        let sets = self.sets(all, false).await?;
        self.sync_status(&sets).await
    }

    async fn sync_status(&mut self, sets: &Sets) -> Result<()> {
        let next = status::calculate(&self.deployment, sets, self.now);
        self.replace_status(next).await.map(drop)
    }

    /// Writes a status; returns false if it is the present one.
    pub(super) async fn replace_status(&mut self, next: DeploymentStatus) -> Result<bool> {
        if status::of(&self.deployment) == next {
            return Ok(false);
        }
        self.deployment.status = Some(next);
        self.write_status().await.map(|()| true)
    }

    /// Deletes the oldest empty sets beyond the limit of the history (`cleanupDeployment`).
    pub(super) async fn clean_up(&self, sets: &Sets) -> Result<()> {
        let limit = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX && !self.keeps_old_sets) else { return Ok(()) };
        let mut alive: Vec<&Arc<ReplicaSet>> = sets.old.iter().filter(|set| !set.is_deleting()).collect();
        let surplus = alive.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        alive.sort_by(|a, b| {
            let revision = |set: &ReplicaSet| annotations::revision(set);
            revision(a).cmp(&revision(b)).then_with(|| replica_sets::by_age(a, b))
        });
        for set in alive.into_iter().take(surplus) {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
            let is_behind = set.metadata.generation.unwrap_or(0) > observed;
            if replica_sets::actual(set) != 0 || size(set) != 0 || is_behind {
                continue;
            }
            let api = self.client.namespaced::<ReplicaSet>(set.namespace());
            match api.delete(set.name(), &DeleteParams::default()).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
