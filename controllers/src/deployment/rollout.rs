//! Rollouts (`rolling.go`, `recreate.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::conditions::{self, PROGRESSING, TIMED_OUT};
use super::replica_sets::{Sets, active, actual, available, by_age, fenceposts, new_size, size, sum, wanted};
use super::status;
use super::sync::Round;

/// Time at which a deployment that makes no progress is processed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Only after a change.
    No,
    /// After the backoff.
    Soon,
    /// At its deadline.
    After(Duration),
}

impl Round<'_> {
    /// Moves pods from the old sets to the new one within the limits of the strategy (`rolloutRolling`).
    pub(super) async fn rolling(&mut self, all: &[Arc<ReplicaSet>]) -> Result<Again> {
        let mut sets = self.sets(all, true).await?;
        let Some(new) = sets.new.clone() else { return self.sync_rollout(&sets).await };
        let (wanted, own) = (wanted(&self.deployment), size(&new));
        let next = if own > wanted || self.ignores_surge {
            wanted
        } else {
            new_size(&self.deployment, sum(sets.all(), size), own)
        };
        if own != wanted && self.scale_set(&new, next).await?.is_some() {
            return self.sync_rollout(&sets).await;
        }
        if self.reconcile_old(&mut sets, &new).await {
            return self.sync_rollout(&sets).await;
        }
        if status::is_complete(&self.deployment, &status::of(&self.deployment)) {
            self.clean_up(&sets).await?;
        }
        self.sync_rollout(&sets).await
    }

    /// Removes old pods (`reconcileOldReplicaSets`): first those that are not available, then as many as availability
    /// allows. Returns true if it removed any. A write that failed ends the step without an error, as upstream.
    async fn reconcile_old(&self, sets: &mut Sets, new: &Arc<ReplicaSet>) -> bool {
        let mut old = active(&sets.old);
        if old.is_empty() {
            return false;
        }
        let least =
            if self.ignores_unavailable { 0 } else { wanted(&self.deployment) - fenceposts(&self.deployment).1 };
        let limit = sum(sets.all(), size) - least - (size(new) - available(new));
        if limit <= 0 {
            return false;
        }
        old.sort_by(|a, b| if self.newest_first { by_age(b, a) } else { by_age(a, b) });
        let Some(cleaned) = self.clean_unhealthy(&mut old, limit).await else { return false };
        let up = sum(old.iter().chain([new]), available);
        let mut left = (up - least).max(0);
        let mut removed = cleaned;
        for set in &old {
            let count = size(set).min(left);
            if count > 0 {
                if self.scale_set(set, size(set) - count).await.is_err() {
                    return false;
                }
                left -= count;
                removed += count;
            }
        }
        removed > 0
    }

    /// Removes old pods that are not available, at most `limit` (`cleanupUnhealthyReplicas`). None if a write failed, or
    /// if the status of a set still counts pods that were removed: this step must not add any.
    async fn clean_unhealthy(&self, old: &mut [Arc<ReplicaSet>], limit: i32) -> Option<i32> {
        let mut removed = 0;
        for set in old {
            if removed >= limit {
                break;
            }
            let unhealthy = size(set) - available(set);
            if size(set) == 0 || unhealthy == 0 {
                continue;
            }
            let count = (limit - removed).min(unhealthy);
            if count < 0 {
                return None;
            }
            if let Some(changed) = self.scale_set(set, size(set) - count).await.ok()? {
                *set = changed;
            }
            removed += count;
        }
        Some(removed)
    }

    /// Removes all old pods before it creates new ones (`rolloutRecreate`). `has_old_pods` is true if a pod of an old
    /// set has not ended.
    pub(super) async fn recreate(
        &mut self,
        all: &[Arc<ReplicaSet>],
        has_old_pods: impl Fn(Option<&ReplicaSet>) -> bool,
    ) -> Result<Again> {
        let mut sets = self.sets(all, false).await?;
        let mut is_scaled = false;
        for old in active(&sets.old) {
            is_scaled |= self.scale_set(&old, 0).await?.is_some();
        }
        let is_old = is_scaled || sum(&sets.old, actual) > 0 || has_old_pods(sets.new.as_deref());
        if is_old && !self.recreates_at_once {
            return self.sync_rollout(&sets).await;
        }
        if sets.new.is_none() {
            sets = self.sets(all, true).await?;
        }
        if let Some(new) = &sets.new {
            self.scale_set(new, wanted(&self.deployment)).await?;
        }
        if status::is_complete(&self.deployment, &status::of(&self.deployment)) {
            self.clean_up(&sets).await?;
        }
        self.sync_rollout(&sets).await
    }

    /// Writes the status of the rollout (`syncRolloutStatus`), or plans the check of its deadline
    /// (`requeueStuckDeployment`).
    async fn sync_rollout(&mut self, sets: &Sets) -> Result<Again> {
        let next = status::rollout(&self.deployment, sets, self.now);
        let is_complete = status::is_complete(&self.deployment, &next);
        if self.replace_status(next).await? {
            return Ok(Again::No);
        }
        let status = status::of(&self.deployment);
        if is_complete || conditions::reason(&status, PROGRESSING) == TIMED_OUT {
            return Ok(Again::No);
        }
        let Some(left) = conditions::left(&self.deployment, &status, self.now) else { return Ok(Again::No) };
        // A second more, because the times of objects are whole seconds.
        Ok(match u64::try_from(left) {
            Ok(left) if left >= 1_000_000_000 => Again::After(Duration::from_nanos(left) + Duration::from_secs(1)),
            _ => Again::Soon,
        })
    }
}
