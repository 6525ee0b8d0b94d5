//! Rollbacks that an annotation asks for (`rollback.go`), as the API `extensions/v1beta1` did. `kubectl rollout undo` changes
//! the template itself.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use super::annotations::{self, ROLLBACK_TO};
use super::replica_sets::{HASH_LABEL, equal_ignoring_hash};
use super::sync::Round;
use crate::kube::{Kind, reference};

/// Reason of the Event about a revision that does not exist (`RollbackRevisionNotFound`).
const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

/// Returns the revision that an annotation asks for; zero stands for the one before the newest (`getRollbackTo`).
pub(super) fn wanted(deployment: &Deployment) -> Option<i64> {
    deployment.annotation(ROLLBACK_TO)?.parse().ok()
}

/// Returns the revision before the newest; zero if there is none (`LastRevision`).
fn last_revision<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    let (mut newest, mut before) = (0, 0);
    for revision in sets.into_iter().map(|set| annotations::revision(set)) {
        if revision >= newest {
            (newest, before) = (revision, newest);
        } else {
            before = before.max(revision);
        }
    }
    before
}

/// Takes template and annotations of a set (`rollbackToTemplate`). Returns false if the template is the present one.
fn restore(deployment: &mut Deployment, set: &ReplicaSet) -> bool {
    let spec = deployment.spec.get_or_insert_default();
    let Some(mut template) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else { return false };
    if equal_ignoring_hash(&spec.template, &template) {
        return false;
    }
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    spec.template = template;
    annotations::restore(deployment, set);
    true
}

impl Round<'_> {
    /// Rolls back to a revision, and removes the annotation that asks for it (`rollback`).
    pub(super) async fn roll_back(&mut self, all: &[Arc<ReplicaSet>], revision: i64) -> Result<()> {
        let sets = self.sets(all, true).await?;
        let wanted = if revision == 0 { last_revision(sets.all()) } else { revision };
        let warn = |round: &Self, reason: &str, message: String| {
            round.recorder.event(reference(&round.deployment), "Warning", reason, message);
        };
        if wanted == 0 {
            warn(self, NOT_FOUND, "Unable to find last revision.".to_owned());
            return self.clear_rollback().await;
        }
        let Some(set) = sets.all().find(|set| annotations::revision(set) == wanted) else {
            warn(self, NOT_FOUND, "Unable to find the revision to rollback to.".to_owned());
            return self.clear_rollback().await;
        };
        let name = self.deployment.name().to_owned();
        if restore(&mut self.deployment, set) {
            self.clear_rollback().await?;
            let message = format!("Rolled back deployment \"{name}\" to revision {wanted}");
            self.recorder.event(reference(&self.deployment), "Normal", "DeploymentRollback", message);
            return Ok(());
        }
        let message = format!("The rollback revision contains the same template as current deployment \"{name}\"");
        warn(self, "DeploymentRollbackTemplateUnchanged", message);
        self.clear_rollback().await
    }

    /// Writes the deployment without the annotation (`updateDeploymentAndClearRollbackTo`).
    async fn clear_rollback(&mut self) -> Result<()> {
        if let Some(annotations) = &mut self.deployment.metadata.annotations {
            annotations.remove(ROLLBACK_TO);
        }
        let api = self.client.namespaced::<Deployment>(self.deployment.namespace());
        api.replace(&self.deployment).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::annotations::REVISION;
    use super::*;

    fn set(revision: i64, image: &str, annotations: Value) -> Arc<ReplicaSet> {
        let mut annotations = annotations;
        annotations[REVISION] = revision.to_string().into();
        let template = json!({ "metadata": { "labels": { "app": "web", HASH_LABEL: "h" } },
            "spec": { "containers": [{ "name": "c", "image": image }] } });
        let metadata = json!({ "name": image, "annotations": annotations });
        Arc::new(from_value(json!({ "metadata": metadata, "spec": { "selector": {}, "template": template } })).unwrap())
    }

    #[rstest]
    #[case(&[], 0)]
    #[case(&[1], 0)]
    #[case(&[1, 3, 2], 2)]
    #[case(&[4, 1], 1)]
    fn the_last_revision_is_the_one_before_the_newest(#[case] revisions: &[i64], #[case] expected: i64) {
        let sets: Vec<_> = revisions.iter().map(|revision| set(*revision, "i", json!({}))).collect();
        assert_eq!(last_revision(&sets), expected);
    }

    #[test]
    fn template_and_annotations_of_the_set_return() {
        let template = json!({ "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "new" }] } });
        let annotations = json!({ ROLLBACK_TO: "1", "why": "new", REVISION: "2" });
        let metadata = json!({ "name": "web", "annotations": annotations });
        let mut deployment: Deployment =
            from_value(json!({ "metadata": metadata, "spec": { "selector": {}, "template": template } })).unwrap();
        assert_eq!(wanted(&deployment), Some(1));
        assert!(!restore(&mut deployment, &set(2, "new", json!({}))), "the present template");
        assert!(restore(&mut deployment, &set(1, "old", json!({ "cause": "old" }))));
        let all = deployment.metadata.annotations.clone().unwrap();
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        // Its own annotations stay, the others are the set's.
        assert_eq!(names, ["cause", REVISION, ROLLBACK_TO]);
        assert_eq!(all[REVISION], "2");
        let template = deployment.spec.unwrap().template;
        assert_eq!(template.metadata.unwrap().labels.unwrap().len(), 1, "without the hash");
        assert_eq!(template.spec.unwrap().containers[0].image.as_deref(), Some("old"));
    }
}
