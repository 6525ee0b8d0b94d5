//! ControllerRevisions of a StatefulSet or DaemonSet (`pkg/controller/history`).

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Map, Value, json};

use super::controller_ref::{controller_of, controller_ref};
use super::hash::{fnv1, safe_encode};
use super::related::Selecting;
use super::retry::{DEFAULT_BACKOFF, Retry};
use crate::kube::{Client, DeleteParams, Informer, Kind, Patch};

/// Label with the hash of a revision's data.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Longest part of the owner's name in a revision's name.
const PREFIX_LIMIT: usize = 223;

/// Returns the data of a revision (`getPatch`): the patch that restores the pod template.
///
/// # Errors
/// If the template cannot be encoded as JSON.
pub(crate) fn template_patch(template: &PodTemplateSpec) -> Result<Value> {
    let mut template = serde_json::to_value(template)?;
    // Go writes these structs even if they are empty.
    if let Some(map) = template.as_object_mut() {
        map.entry("metadata").or_insert_with(|| json!({}));
        map.insert("$patch".to_owned(), "replace".into());
    }
    for list in ["containers", "initContainers"] {
        let containers = template.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    Ok(json!({ "spec": { "template": template } }))
}

/// Returns the pod template that a revision restores.
///
/// # Errors
/// If the revision holds no pod template.
pub(crate) fn template_of(revision: &ControllerRevision) -> Result<PodTemplateSpec> {
    let data = revision.data.as_ref().map(|data| &data.0);
    let template = data.and_then(|data| data.get("spec")).and_then(|spec| spec.get("template"));
    let Some(Value::Object(map)) = template else { bail!("{} holds no pod template", revision.name()) };
    let map: Map<String, Value> =
        map.iter().filter(|(name, _)| *name != "$patch").map(|(n, v)| (n.clone(), v.clone())).collect();
    Ok(serde_json::from_value(Value::Object(map))?)
}

/// Computes the hash of a revision's data (`HashControllerRevision`); `probe` is the number of name collisions.
fn hash(data: &Value, probe: i32) -> String {
    // Go escapes these characters in JSON.
    let text = data.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    safe_encode(&fnv1(text.into_bytes().into_iter().chain(probe.to_string().into_bytes())).to_string())
}

fn revision_name(parent: &str, hash: &str) -> String {
    // Names of objects are ASCII.
    format!("{}-{hash}", parent.get(..PREFIX_LIMIT).unwrap_or(parent))
}

/// Builds a revision of `parent` (`NewControllerRevision`).
pub(crate) fn new_revision<O: Kind>(
    parent: &O,
    template_labels: Option<&BTreeMap<String, String>>,
    data: Value,
    revision: i64,
    collision_count: i32,
) -> ControllerRevision {
    let hash = hash(&data, collision_count);
    let mut labels = template_labels.cloned().unwrap_or_default();
    let name = revision_name(parent.name(), &hash);
    labels.insert(HASH_LABEL.to_owned(), hash);
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels),
        annotations: parent.metadata().annotations.clone(),
        owner_references: Some(vec![controller_ref(parent)]),
        ..ObjectMeta::default()
    };
    ControllerRevision { metadata, data: Some(RawExtension(data)), revision }
}

/// Sorts revisions by number, then by age, then by name (`SortControllerRevisions`).
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let age = |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
        a.revision.cmp(&b.revision).then(age(a).cmp(&age(b))).then(a.name().cmp(b.name()))
    });
}

/// Returns true if two revisions hold the same data.
pub(crate) fn equal(a: &ControllerRevision, b: &ControllerRevision) -> bool {
    a.data == b.data
}

/// Returns the number after the highest of sorted revisions (`nextRevision`).
pub(crate) fn next(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.last().map_or(1, |last| last.revision + 1)
}

/// Stored revisions.
pub(crate) struct History {
    client: Client,
    revisions: Informer<ControllerRevision>,
}

impl History {
    /// Creates the view of the revisions in `revisions`.
    pub(crate) fn new(client: &Client, revisions: &Informer<ControllerRevision>) -> Self {
        Self { client: client.clone(), revisions: revisions.clone() }
    }

    /// Returns the revisions that `parent` selects and owns, or that have no controller (`ListControllerRevisions`).
    pub(crate) fn list<O: Selecting>(&self, parent: &O) -> Vec<Arc<ControllerRevision>> {
        let free_or_own = |revision: &ControllerRevision| {
            controller_of(&revision.metadata).is_none_or(|reference| reference.uid == parent.uid())
        };
        let all = self.revisions.list_in(parent.namespace()).into_iter();
        all.filter(|revision| parent.selects(&**revision) && free_or_own(revision)).collect()
    }

    /// Creates a revision. If another one has its name, counts a collision and tries the next name
    /// (`CreateControllerRevision`).
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(crate) async fn create<O: Kind>(
        &self,
        parent: &O,
        mut revision: ControllerRevision,
        collision_count: &mut i32,
    ) -> Result<Arc<ControllerRevision>> {
        let api = self.client.namespaced::<ControllerRevision>(parent.namespace());
        let data = revision.data.as_ref().map_or(Value::Null, |data| data.0.clone());
        loop {
            let name = revision_name(parent.name(), &hash(&data, *collision_count));
            revision.metadata.name = Some(name.clone());
            match api.create(&revision).await {
                Err(error) if error.is_already_exists() => {
                    let present = api.get(&name).await?;
                    if equal(&present, &revision) {
                        return Ok(present);
                    }
                    *collision_count += 1;
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Sets the number of a revision (`UpdateControllerRevision`).
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(crate) async fn renumber(&self, revision: &ControllerRevision, number: i64) -> Result<Arc<ControllerRevision>> {
        let api = self.client.namespaced::<ControllerRevision>(revision.namespace());
        let mut clone = revision.clone();
        let mut retry = Retry::new(self.client.ctx(), DEFAULT_BACKOFF);
        loop {
            if clone.revision == number {
                return Ok(Arc::new(clone));
            }
            clone.revision = number;
            match api.replace(&clone).await {
                Err(error) if error.is_conflict() && retry.again(clone.name()).await => {
                    if let Some(cached) = self.revisions.get(clone.namespace(), clone.name()) {
                        clone = ControllerRevision::clone(&cached);
                    }
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Deletes a revision.
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub(crate) async fn delete(&self, revision: &ControllerRevision) -> Result<()> {
        let api = self.client.namespaced::<ControllerRevision>(revision.namespace());
        Ok(api.delete(revision.name(), &DeleteParams::default()).await?)
    }

    /// Adds a controller reference to a revision without a controller (`AdoptControllerRevision`).
    ///
    /// # Errors
    /// If it has a controller; the API server's refusal, or no answer.
    pub(crate) async fn adopt<O: Kind>(&self, parent: &O, revision: &ControllerRevision) -> Result<()> {
        if let Some(owner) = controller_of(&revision.metadata) {
            bail!("attempt to adopt revision owned by {} {}", owner.kind, owner.name);
        }
        let patch = Patch::adopt(Some(revision.uid()), &controller_ref(parent), &[])?;
        let api = self.client.namespaced::<ControllerRevision>(parent.namespace());
        Ok(api.patch_unread(revision.name(), &patch).await?)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;

    use super::*;

    #[test]
    fn a_revision_restores_its_template() {
        let container = json!({ "name": "c", "image": "a&b" });
        let template: PodTemplateSpec =
            serde_json::from_value(json!({ "spec": { "containers": [container] } })).unwrap();
        let data = template_patch(&template).unwrap();
        assert_eq!(data["spec"]["template"]["$patch"], "replace");
        assert_eq!(data["spec"]["template"]["spec"]["containers"][0]["resources"], json!({}));
        let mut parent = StatefulSet::default();
        parent.metadata.name = Some("db".to_owned());
        let (first, second) =
            (new_revision(&parent, None, data.clone(), 1, 0), new_revision(&parent, None, data.clone(), 2, 1));
        assert!(equal(&first, &second) && first.name() != second.name() && first.name().starts_with("db-"));
        let restored = template_of(&first).unwrap();
        assert_eq!(restored.spec.unwrap().containers[0].image.as_deref(), Some("a&b"));
        assert_eq!(next(&[Arc::new(second)]), 3);
    }
}
