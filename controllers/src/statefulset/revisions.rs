//! Revisions of a set (`getStatefulSetRevisions`, `truncateHistory`).

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::Pod;

use super::identity::pod_revision;
use crate::kube::Kind;
use crate::workload::history::{self, History};

/// Current and update revision of a set, and the number of name collisions.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) current: Arc<ControllerRevision>,
    pub(super) update: Arc<ControllerRevision>,
    pub(super) collision_count: i32,
}

/// Finds or creates the revisions of a set. `revisions` are sorted.
///
/// # Errors
/// The API server's refusal, or no answer.
pub(super) async fn live(
    history: &History,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    revisions: &[Arc<ControllerRevision>],
) -> Result<Live> {
    let status = set.status.as_ref();
    let mut collision_count = status.and_then(|status| status.collision_count).unwrap_or(0);
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let data = history::template_patch(&spec.template)?;
    let wanted = history::new_revision(set, labels, data, history::next(revisions), collision_count);
    let newest_equal = revisions.iter().rev().find(|revision| history::equal(revision, &wanted));
    let update = match newest_equal {
        Some(found) if revisions.last().is_some_and(|last| history::equal(last, found)) => {
            revisions.last().unwrap_or(found).clone()
        }
        // The set was rolled back: the old revision gets the next number.
        Some(found) => history.renumber(found, wanted.revision).await?,
        None => history.create(set, wanted, &mut collision_count).await?,
    };
    let current_name = status.and_then(|status| status.current_revision.as_deref()).unwrap_or_default();
    let current = revisions.iter().find(|revision| revision.name() == current_name).unwrap_or(&update).clone();
    Ok(Live { current, update, collision_count })
}

/// Returns the revisions to delete, the oldest first: those of no pod beyond the limit of the set.
pub(super) fn surplus(
    spec: &StatefulSetSpec,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
    live: Option<&Live>,
) -> Vec<Arc<ControllerRevision>> {
    let mut names: BTreeSet<&str> = pods.iter().map(|pod| pod_revision(pod)).collect();
    names.extend(live.iter().flat_map(|live| [live.current.name(), live.update.name()]));
    let old: Vec<_> = revisions.iter().filter(|revision| !names.contains(revision.name())).collect();
    // A negative limit keeps all.
    let Ok(limit) = usize::try_from(spec.revision_history_limit.unwrap_or(10)) else { return Vec::new() };
    let surplus = old.len().saturating_sub(limit);
    old.into_iter().take(surplus).cloned().collect()
}
