//! Replicas of the controllers of pods (`getExpectedScale` and its finders).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale as Subresource;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use substrate::mutant;

use crate::kube::discovery::resources;
use crate::kube::{Client, Informer, Kind, decode};
use crate::workload::controller_ref::controller_of;
use crate::workload::related::resolve;

/// Caches of the controllers.
pub(super) struct Controllers {
    pub(super) client: Client,
    pub(super) deployments: Informer<Deployment>,
    pub(super) replica_sets: Informer<ReplicaSet>,
    pub(super) stateful_sets: Informer<StatefulSet>,
}

/// Replicas of the controllers of pods.
#[derive(Debug, Default)]
pub(super) struct Scale {
    /// Sum over the controllers.
    pub(super) replicas: i32,
    /// True if a pod has no controller.
    pub(super) has_unmanaged: bool,
}

impl Controllers {
    /// Adds up the replicas of the controllers of `pods`.
    ///
    /// # Errors
    /// A pod whose controller is gone or has no replicas.
    pub(super) async fn scale(&self, pods: &[std::sync::Arc<Pod>]) -> Result<Scale, String> {
        let mut known: BTreeMap<String, i32> = BTreeMap::new();
        let mut scale = Scale::default();
        for pod in pods {
            let Some(reference) = controller_of(&pod.metadata) else {
                scale.has_unmanaged = true;
                continue;
            };
            if known.contains_key(&reference.uid) {
                continue;
            }
            let found = self.find(pod.namespace(), reference).await?;
            let (mut uid, replicas) =
                found.ok_or_else(|| format!("found no controllers for pod \"{}\"", pod.name()))?;
            if mutant!(self.client.ctx(), "old-and-new-set-counted") {
                uid.clone_from(&reference.uid);
            }
            known.insert(uid, replicas);
        }
        scale.replicas = known.values().sum();
        Ok(scale)
    }

    /// Returns uid and replicas of a controller; a deployment instead of its set.
    async fn find(&self, namespace: &str, reference: &OwnerReference) -> Result<Option<(String, i32)>, String> {
        // The API server sets the replicas.
        let replicas = |count: Option<i32>| count.unwrap_or(1);
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, reference.kind.as_str()) {
            ("apps" | "extensions", "ReplicaSet") => {
                let Some(set) = resolve(&self.replica_sets, namespace, reference) else { return Ok(None) };
                let of = controller_of(&set.metadata).filter(|of| of.kind == "Deployment");
                let Some(of) = of else {
                    let count = set.spec.as_ref().and_then(|spec| spec.replicas);
                    return Ok(Some((set.uid().to_owned(), replicas(count))));
                };
                let found = resolve(&self.deployments, namespace, of);
                Ok(found.map(|found| {
                    (found.uid().to_owned(), replicas(found.spec.as_ref().and_then(|spec| spec.replicas)))
                }))
            }
            ("apps", "StatefulSet") => {
                let found = resolve(&self.stateful_sets, namespace, reference);
                Ok(found.map(|found| {
                    (found.uid().to_owned(), replicas(found.spec.as_ref().and_then(|spec| spec.replicas)))
                }))
            }
            ("", "ReplicationController") => {
                let api = self.client.namespaced::<ReplicationController>(namespace);
                match api.get(&reference.name).await {
                    Ok(found) if found.uid() == reference.uid => {
                        let count = found.spec.as_ref().and_then(|spec| spec.replicas);
                        Ok(Some((found.uid().to_owned(), replicas(count))))
                    }
                    Ok(_) => Ok(None),
                    Err(error) if error.is_not_found() => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            }
            ("batch", "Job") => Err("jobs.batch does not implement the scale subresource".to_owned()),
            ("apps", "DaemonSet") => Err("daemonsets.apps does not implement the scale subresource".to_owned()),
            _ => self.scaled(namespace, reference).await,
        }
    }

    /// Asks for the scale of a controller of another kind (`getScaleController`).
    async fn scaled(&self, namespace: &str, reference: &OwnerReference) -> Result<Option<(String, i32)>, String> {
        let OwnerReference { api_version, kind, name, .. } = reference;
        let unknown = || format!("no matches for kind \"{kind}\" in version \"{api_version}\"");
        let all = resources(&self.client, api_version).await;
        let all = all.map_err(|error| if error.is_not_found() { unknown() } else { error.to_string() })?.resources;
        let resource = all.iter().find(|one| one.is(kind)).ok_or_else(unknown)?;
        match self.client.get(&resource.item(api_version, namespace, name, "scale")).await {
            Ok(answer) => {
                let scale: Subresource = decode(&answer).map_err(|error| error.to_string())?;
                let is_it = scale.uid() == reference.uid;
                let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
                Ok(is_it.then(|| (reference.uid.clone(), replicas)))
            }
            Err(error) if error.is_not_found() => {
                let plural = &resource.name;
                if all.iter().any(|one| one.name == format!("{plural}/scale")) {
                    return Ok(None);
                }
                let group = api_version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
                Err(format!("{plural}{group} does not implement the scale subresource"))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
