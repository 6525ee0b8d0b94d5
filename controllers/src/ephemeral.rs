//! The ephemeral volume controller (`ephemeral-volume-controller`, `pkg/controller/volume/ephemeral/controller.go`): it
//! creates the claims of generic ephemeral volumes, owned by their pods. The garbage collector deletes them with the pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use substrate::mutant;
use substrate::process::Ctx;

use crate::binder::object::pod_claims;
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};

/// Source of its Events.
const SOURCE: &str = "ephemeral_volume";

/// Returns the generic ephemeral volumes of a pod.
fn ephemeral_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter(|volume| volume.ephemeral.is_some())
}

/// Returns the claim of a volume of a pod (`VolumeClaimName`); None if the volume has no template.
fn claim(pod: &Pod, volume: &Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
    let given = template.metadata.as_ref();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", pod.name(), volume.name)),
            namespace: Some(pod.namespace().to_owned()),
            owner_references: Some(vec![owner]),
            annotations: given.and_then(|given| given.annotations.clone()),
            labels: given.and_then(|given| given.labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(template.spec.clone()),
        status: None,
    })
}

/// Returns the error for an existing claim that does not belong to the pod (`VolumeIsForPod`).
fn not_for(pod: &Pod, claim: &PersistentVolumeClaim) -> Option<String> {
    let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let is_owner = owners.iter().any(|owner| owner.controller == Some(true) && owner.uid == pod.uid());
    (!is_owner).then(|| {
        let (namespace, name) = (claim.namespace(), claim.name());
        let (of, pod) = (pod.namespace(), pod.name());
        format!("PVC {namespace}/{name} was not created for pod {of}/{pod} (pod is not owner)")
    })
}

struct Controller {
    client: Client,
    pods: Informer<Pod>,
    claims: Informer<PersistentVolumeClaim>,
    recorder: EventRecorder,
    /// Seeded bug: creates claims without an owner.
    forgets_owner: bool,
    /// Seeded bug: creates all claims of a pod from its first template.
    repeats_template: bool,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client, workers: usize) {
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let claims: Informer<PersistentVolumeClaim> = Informer::start(&ctx, client.all(), ListParams::default());
    pods.synced().await;
    claims.synced().await;
    let (mut pod_changes, mut claim_changes) = (pods.subscribe(), claims.subscribe());
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("ephemeral_volume");
    let recorder = EventRecorder::new(&client, SOURCE);
    let forgets_owner = mutant!(ctx, "claim-without-owner");
    let repeats_template = mutant!(ctx, "first-template-repeated");
    let controller = Arc::new(Controller { client, pods, claims, recorder, forgets_owner, repeats_template });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    let enqueue = |pod: &Pod| {
        if !pod.is_deleting() && ephemeral_volumes(pod).next().is_some() {
            queue.add((pod.namespace().to_owned(), pod.name().to_owned()));
        }
    };
    loop {
        tokio::select! { biased;
            // The volumes of a pod do not change, so only new pods matter.
            Some(delta) = pod_changes.recv() => match delta {
                Delta::Applied { old, new } if old.as_ref().is_none_or(|old| old.uid() != new.uid()) => enqueue(&new),
                _ => {}
            },
            // A claim that is deleted while its pod exists is created again.
            Some(delta) = claim_changes.recv() => if let Delta::Deleted(claim) = delta {
                let uses = |pod: &Pod| {
                    pod.namespace() == claim.namespace() && pod_claims(pod).any(|(name, _)| name == claim.name())
                };
                controller.pods.list().iter().filter(|pod| uses(pod)).for_each(|pod| enqueue(pod));
            },
        }
    }
}

impl Controller {
    async fn sync(self: Arc<Self>, (namespace, name): (String, String)) -> Outcome {
        let Some(pod) = self.pods.get(&namespace, &name).filter(|pod| !pod.is_deleting()) else { return Outcome::Done };
        for volume in ephemeral_volumes(&pod) {
            if let Err(why) = self.create(&pod, volume).await {
                let message = format!("ephemeral volume {}: {why}", volume.name);
                self.recorder.event(reference(&*pod), "Warning", "FailedBinding", message);
                let gives_up = mutant!(self.client.ctx(), "ephemeral-claim-error-dropped");
                return if gives_up { Outcome::Done } else { Outcome::Retry };
            }
        }
        Outcome::Done
    }

    /// Creates the claim of a volume if it does not exist.
    async fn create(&self, pod: &Pod, volume: &Volume) -> Result<(), String> {
        let first = ephemeral_volumes(pod).next().filter(|_| self.repeats_template).and_then(|first| claim(pod, first));
        let Some(mut claim) = claim(pod, volume) else { return Ok(()) };
        if let Some(first) = first {
            claim.spec = first.spec;
        }
        if mutant!(self.client.ctx(), "template-metadata-dropped") {
            (claim.metadata.labels, claim.metadata.annotations) = (None, None);
        }
        if self.forgets_owner {
            claim.metadata.owner_references = None;
        }
        match self.claims.get(pod.namespace(), claim.name()) {
            Some(there) => not_for(pod, &there).map_or(Ok(()), Err),
            None => {
                let created = self.client.namespaced::<PersistentVolumeClaim>(pod.namespace()).create(&claim).await;
                created.map(drop).map_err(|error| format!("create PVC {}: {error}", claim.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json, to_value};

    use super::*;

    fn pod() -> Pod {
        let template = json!({
            "metadata": { "labels": { "kind": "scratch" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        from_value(json!({
            "metadata": { "namespace": "default", "name": "web", "uid": "u" },
            "spec": { "containers": [], "volumes": [
                { "name": "other", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": template } },
            ] },
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_is_named_by_pod_and_volume_and_owned_by_the_pod() {
        let pod = pod();
        let volumes: Vec<&Volume> = ephemeral_volumes(&pod).collect();
        let claim = claim(&pod, volumes[0]).unwrap();
        assert_eq!((volumes.len(), claim.name()), (1, "web-scratch"));
        let value = to_value(&claim).unwrap();
        assert_eq!(value["metadata"]["labels"]["kind"], "scratch");
        assert_eq!(value["spec"]["resources"]["requests"]["storage"], "1Gi");
        let owner = json!({
            "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": true, "blockOwnerDeletion": true,
        });
        assert_eq!(value["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(not_for(&pod, &claim), None);
    }

    #[test]
    fn a_claim_of_another_pod_is_refused_in_upstreams_words() {
        let (pod, mut claim) = (pod(), PersistentVolumeClaim::default());
        (claim.metadata.namespace, claim.metadata.name) = (Some("default".to_owned()), Some("web-scratch".to_owned()));
        let why = "PVC default/web-scratch was not created for pod default/web (pod is not owner)";
        assert_eq!(not_for(&pod, &claim).as_deref(), Some(why));
    }
}
