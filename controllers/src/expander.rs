//! The expander (`persistentvolume-expander-controller`, `pkg/controller/volume/expand/expand_controller.go`): it
//! expands volumes of kube-controller-manager's in-tree plugins. The resizer expands CSI volumes; for these the
//! expander only emits an event of the claim that says so. For a plugin that a CSI driver replaced, it also names the
//! driver.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use substrate::mutant;
use substrate::process::Ctx;

use crate::binder::object::annotate;
use crate::binder::{in_tree, quantity};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, EventRecorder, Guard, Informer, Kind, ListParams, WorkQueue, reference};

/// Source of its Events.
const SOURCE: &str = "volume_expand";
/// Number of claims processed at once.
const WORKERS: usize = 10;
/// Annotation of a claim with the CSI driver that expands its volume.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// Annotation that the resizer writes for nodes: the size of the filesystem.
const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Returns the size that a claim requests.
fn request(claim: &PersistentVolumeClaim) -> i128 {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    size(requests.and_then(|requests| requests.get("storage")))
}

/// Returns the capacity of a claim.
fn capacity(claim: &PersistentVolumeClaim) -> i128 {
    let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    size(capacity.and_then(|capacity| capacity.get("storage")))
}

fn size(quantity: Option<&Quantity>) -> i128 {
    quantity.and_then(quantity::milli).unwrap_or_default()
}

/// Returns true for a bound claim that is new, or whose request or capacity has grown.
fn is_news(old: Option<&PersistentVolumeClaim>, new: &PersistentVolumeClaim) -> bool {
    let bound = new.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    bound && old.is_none_or(|old| request(new) > request(old) || capacity(new) > capacity(old))
}

/// Returns true if the volume of a claim must be expanded.
fn is_wanted(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let annotated = volume.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(PRE_RESIZE_CAPACITY));
    request(claim) > capacity(claim) || annotated
}

/// Returns true if a volume belongs to a claim.
fn is_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    holder.is_some_and(|holder| {
        holder.namespace.as_deref() == Some(claim.namespace()) && holder.uid.as_deref() == Some(claim.uid())
    })
}

struct Controller {
    client: Client,
    claims: Informer<PersistentVolumeClaim>,
    recorder: EventRecorder,
    /// Seeded bug: emits the event for every claim.
    announces_all: bool,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client) {
    let claims: Informer<PersistentVolumeClaim> = Informer::start(&ctx, client.all(), ListParams::default());
    claims.synced().await;
    let mut changes = claims.subscribe();
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("volume_expand");
    let announces_all = mutant!(ctx, "expansion-announced-always");
    let controller =
        Arc::new(Controller { recorder: EventRecorder::new(&client, SOURCE), client, claims, announces_all });
    ctx.spawn(queue.clone().run(WORKERS, move |key| controller.clone().sync(key)));
    while let Some(delta) = changes.recv().await {
        if let Delta::Applied { old, new } = delta
            && is_news(old.as_deref(), &new)
        {
            queue.add((new.namespace().to_owned(), new.name().to_owned()));
        }
    }
}

impl Controller {
    async fn sync(self: Arc<Self>, (namespace, name): (String, String)) -> Outcome {
        let Some(claim) = self.claims.get(&namespace, &name) else { return Outcome::Done };
        let bound_to = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
        match self.client.all::<PersistentVolume>().get(bound_to).await {
            Ok(volume) if is_of(&volume, &claim) => {
                if !is_wanted(&claim, &volume) && !self.announces_all {
                    return Outcome::Done;
                }
                if let Some((plugin, driver)) = in_tree::plugin_of(&volume) {
                    return self.delegate(&claim, plugin, driver).await;
                }
                let message = "waiting for an external controller to expand this PVC";
                self.recorder.event(reference(&*claim), "Normal", "ExternalExpanding", message);
                Outcome::Done
            }
            _ => Outcome::Retry,
        }
    }

    /// Leaves the expansion to the CSI driver that replaced a plugin (`SetClaimResizer`).
    async fn delegate(&self, claim: &PersistentVolumeClaim, plugin: &str, driver: &str) -> Outcome {
        let message = format!("CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc");
        self.recorder.event(reference(claim), "Normal", "ExternalExpanding", message);
        let mut named = claim.clone();
        annotate(&mut named.metadata, RESIZER, driver);
        let claims = self.client.namespaced::<PersistentVolumeClaim>(claim.namespace());
        match claims.strategic_patch_status(claim, &named, Guard::ResourceVersion).await {
            Ok(_) => Outcome::Done,
            Err(error) => {
                let message = format!(
                    "error setting resizer annotation to pvc {}/{}, with error {error}",
                    claim.namespace(),
                    claim.name()
                );
                self.recorder.event(reference(claim), "Warning", "ExternalExpanding", message);
                Outcome::Retry
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn claim(request: &str, capacity: &str, phase: &str) -> PersistentVolumeClaim {
        from_value(json!({
            "metadata": {"namespace": "default", "name": "data", "uid": "u"},
            "spec": {"resources": {"requests": {"storage": request}}, "volumeName": "v"},
            "status": {"phase": phase, "capacity": {"storage": capacity}},
        }))
        .unwrap()
    }

    #[rstest]
    #[case::new(None, ("1Gi", "1Gi", "Bound"), true)]
    #[case::not_bound_yet(None, ("1Gi", "0", "Pending"), false)]
    #[case::asks_for_more(Some(("1Gi", "1Gi")), ("2Gi", "1Gi", "Bound"), true)]
    #[case::asks_for_less(Some(("3Gi", "1Gi")), ("2Gi", "1Gi", "Bound"), false)]
    #[case::has_more(Some(("2Gi", "1Gi")), ("2Gi", "2Gi", "Bound"), true)]
    #[case::something_else(Some(("2Gi", "1Gi")), ("2048Mi", "1Gi", "Bound"), false)]
    fn a_claim_that_grows_is_looked_at(
        #[case] old: Option<(&str, &str)>,
        #[case] new: (&str, &str, &str),
        #[case] expected: bool,
    ) {
        let old = old.map(|(request, capacity)| claim(request, capacity, "Bound"));
        assert_eq!(is_news(old.as_ref(), &claim(new.0, new.1, new.2)), expected);
    }

    #[rstest]
    #[case::larger(("2Gi", "1Gi"), json!({}), true)]
    #[case::as_large(("1Gi", "1024Mi"), json!({}), false)]
    #[case::still_annotated(("2Gi", "2Gi"), json!({"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}), true)]
    fn a_claim_above_its_capacity_is_expanded(
        #[case] (request, capacity): (&str, &str),
        #[case] annotations: Value,
        #[case] expected: bool,
    ) {
        let volume: PersistentVolume =
            from_value(json!({"metadata": {"name": "v", "annotations": annotations}})).unwrap();
        assert_eq!(is_wanted(&claim(request, capacity, "Bound"), &volume), expected);
    }

    #[rstest]
    #[case::its_own(json!({"namespace": "default", "name": "data", "uid": "u"}), true)]
    #[case::of_its_predecessor(json!({"namespace": "default", "name": "data", "uid": "before"}), false)]
    #[case::nobodys(Value::Null, false)]
    fn a_volume_has_to_name_its_claim(#[case] holder: Value, #[case] expected: bool) {
        let volume: PersistentVolume =
            from_value(json!({"metadata": {"name": "v"}, "spec": {"claimRef": holder}})).unwrap();
        assert_eq!(is_of(&volume, &claim("1Gi", "1Gi", "Bound")), expected);
    }
}
