//! Revisions of a set (`constructHistory`, `dedupCurHistories`, `cleanupHistory`).

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;

use super::nodes::HASH_LABEL;
use crate::kube::{Client, DeleteParams, Guard, Informer, Kind};
use crate::workload::controller_ref::controller_ref;
use crate::workload::hash::of_template;
use crate::workload::history::template_patch;
use crate::workload::ref_manager::RefManager;
use crate::workload::related::Selecting;

/// Current revision of a set, and the older ones.
#[derive(Debug)]
pub(super) struct Revisions {
    pub(super) current: Arc<ControllerRevision>,
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

impl Revisions {
    /// Returns the hash of the current revision.
    pub(super) fn hash(&self) -> &str {
        self.current.label(HASH_LABEL).unwrap_or_default()
    }
}

/// Finds or creates the current revision. `pods` returns the pods of the set.
///
/// # Errors
/// The API server's refusal, or no answer.
pub(super) async fn construct(
    client: &Client,
    revisions: &Informer<ControllerRevision>,
    set: &DaemonSet,
    pods: impl AsyncFnOnce() -> Result<Vec<Arc<Pod>>>,
) -> Result<Revisions> {
    let all = revisions.list_in(set.namespace());
    let mut all = RefManager::new(client, set).claim(all, |revision| set.selects(revision)).await?;
    let api = client.namespaced::<ControllerRevision>(set.namespace());
    for revision in all.iter_mut().filter(|revision| revision.label(HASH_LABEL).is_none()) {
        let mut labelled = ControllerRevision::clone(revision);
        let name = revision.name().to_owned();
        labelled.metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), name);
        *revision = api.replace(&labelled).await?;
    }
    let Some(spec) = &set.spec else { bail!("{} has no spec", set.name()) };
    let data = RawExtension(template_patch(&spec.template)?);
    let (mut same, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|revision| revision.data.as_ref() == Some(&data));
    let number = old.iter().map(|revision| revision.revision).max().unwrap_or(0) + 1;
    same.sort_by_key(|revision| revision.revision);
    let newest = same.pop();
    if let Some(newest) = newest.as_ref().filter(|_| !same.is_empty()) {
        unify(client, newest, &same, &pods().await?).await?;
    }
    let current = match newest {
        None => snapshot(client, set, data, number).await?,
        Some(current) if current.revision < number => {
            let raised = ControllerRevision { revision: number, ..ControllerRevision::clone(&current) };
            api.replace(&raised).await?
        }
        Some(current) => current,
    };
    Ok(Revisions { current, old })
}

/// Deletes revisions with the content of the newest one, once all pods have the label of that one (`dedupCurHistories`).
async fn unify(
    client: &Client,
    newest: &ControllerRevision,
    others: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
) -> Result<()> {
    let hash = newest.label(HASH_LABEL).unwrap_or_default();
    for pod in pods.iter().filter(|pod| pod.label(HASH_LABEL) != Some(hash)) {
        let mut labelled = Pod::clone(pod);
        labelled.metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.to_owned());
        client.namespaced::<Pod>(pod.namespace()).merge_patch(pod, &labelled, Guard::None).await?;
    }
    for other in others {
        let api = client.namespaced::<ControllerRevision>(other.namespace());
        api.delete(other.name(), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Creates a revision (`snapshot`). If another one has its name, counts a collision for the next round.
async fn snapshot(
    client: &Client,
    set: &DaemonSet,
    data: RawExtension,
    number: i64,
) -> Result<Arc<ControllerRevision>> {
    let spec = set.spec.clone().unwrap_or_default();
    let hash = of_template(&spec.template, set.status.as_ref().and_then(|status| status.collision_count));
    let mut labels = spec.template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let name = format!("{}-{hash}", set.name());
    labels.insert(HASH_LABEL.to_owned(), hash);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(set.namespace().to_owned()),
        labels: Some(labels),
        annotations: set.metadata.annotations.clone(),
        owner_references: Some(vec![controller_ref(set)]),
        ..ObjectMeta::default()
    };
    let revision = ControllerRevision { metadata, data: Some(data), revision: number };
    let api = client.namespaced::<ControllerRevision>(set.namespace());
    match api.create(&revision).await {
        Err(error) if error.is_already_exists() => {
            let present = api.get(&name).await?;
            if present.data == revision.data {
                return Ok(present);
            }
            let sets = client.namespaced::<DaemonSet>(set.namespace());
            let mut fresh = DaemonSet::clone(&*sets.get(set.name()).await?);
            let count = |set: &DaemonSet| set.status.as_ref().and_then(|status| status.collision_count);
            if count(&fresh) != count(set) {
                bail!("found a stale collision count of DaemonSet {}", set.name());
            }
            let next = count(&fresh).unwrap_or(0) + 1;
            fresh.status.get_or_insert_default().collision_count = Some(next);
            sets.replace_status(&fresh).await?;
            Err(error.into())
        }
        answer => Ok(answer?),
    }
}

/// Deletes the oldest revisions without pods beyond the limit.
///
/// # Errors
/// The API server's refusal, or no answer.
pub(super) async fn clean_up(
    client: &Client,
    set: &DaemonSet,
    old: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
) -> Result<()> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let live: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.label(HASH_LABEL)).collect();
    let mut sorted: Vec<_> = old.iter().collect();
    sorted.sort_by_key(|revision| revision.revision);
    let is_dead =
        |revision: &&&Arc<ControllerRevision>| revision.label(HASH_LABEL).is_none_or(|hash| !live.contains(hash));
    for revision in sorted.iter().filter(is_dead).take(surplus) {
        let api = client.namespaced::<ControllerRevision>(set.namespace());
        api.delete(revision.name(), &DeleteParams::default()).await?;
    }
    Ok(())
}
