//! Protection of VolumeAttributesClasses: a class that a claim or a volume names is not removed
//! (`vacprotection/vac_protection_controller.go`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use substrate::mutant;
use substrate::process::Ctx;

use super::finalizer::{self, Decision};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, Informer, Kind, ListParams, WorkQueue};

/// Name of the finalizer.
pub const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Decides about a class's finalizer, given its use.
pub fn decide(class: &VolumeAttributesClass, used: impl FnOnce() -> bool) -> Decision {
    finalizer::decide(&class.metadata, FINALIZER, used)
}

fn given<'a>(names: impl IntoIterator<Item = Option<&'a String>>) -> BTreeSet<&'a str> {
    names.into_iter().flatten().map(String::as_str).filter(|name| !name.is_empty()).collect()
}

/// Returns the target, current and in-progress classes of a claim.
pub fn of_claim(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let underway = status.and_then(|status| status.modify_volume_status.as_ref());
    given([
        spec.and_then(|spec| spec.volume_attributes_class_name.as_ref()),
        status.and_then(|status| status.current_volume_attributes_class_name.as_ref()),
        underway.and_then(|underway| underway.target_volume_attributes_class_name.as_ref()),
    ])
}

/// Returns the class of a volume.
pub fn of_volume(volume: &PersistentVolume) -> BTreeSet<&str> {
    given([volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_ref())])
}

/// Returns the classes that a change may have freed.
fn freed<K: Kind>(delta: &Delta<K>, of: fn(&K) -> BTreeSet<&str>) -> Vec<String> {
    let names = match delta {
        Delta::Applied { old: None, .. } => BTreeSet::new(),
        Delta::Applied { old: Some(old), new } => of(old).difference(&of(new)).copied().collect(),
        Delta::Deleted(gone) => of(gone),
    };
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the claim as it is when no modification is under way.
fn without_target(claim: &PersistentVolumeClaim) -> PersistentVolumeClaim {
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().modify_volume_status = None;
    claim
}

struct Listers {
    classes: Informer<VolumeAttributesClass>,
    claims: Informer<PersistentVolumeClaim>,
    volumes: Informer<PersistentVolume>,
    /// Seeded bug: the class that a claim is on the way to does not count.
    ignores_targets: bool,
}

impl Listers {
    fn uses(&self, class: &str) -> bool {
        let mut used = false;
        self.volumes.each(|volume| used |= of_volume(volume).contains(class));
        self.claims.each(|claim| {
            let without = self.ignores_targets.then(|| without_target(claim));
            used |= of_claim(without.as_ref().unwrap_or(claim)).contains(class);
        });
        used
    }
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub async fn run(ctx: Ctx, client: Client) {
    let listers = Listers {
        classes: Informer::start(&ctx, client.all(), ListParams::default()),
        claims: Informer::start(&ctx, client.all(), ListParams::default()),
        volumes: Informer::start(&ctx, client.all(), ListParams::default()),
        ignores_targets: mutant!(ctx, "target-class-not-protected"),
    };
    listers.classes.synced().await;
    listers.claims.synced().await;
    listers.volumes.synced().await;
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("vacprotection");
    let mut classes = listers.classes.subscribe();
    let (mut claims, mut volumes) = (listers.claims.subscribe(), listers.volumes.subscribe());
    let listers = Arc::new(listers);
    let forgets_uses = mutant!(ctx, "class-in-use-removed");
    let worker = queue.clone().run(1, move |name: String| {
        let (listers, client) = (listers.clone(), client.clone());
        async move {
            let Some(class) = listers.classes.get("", &name) else { return Outcome::Done };
            let decision = decide(&class, || listers.uses(&name) && !forgets_uses);
            finalizer::settle(&client, &*class, FINALIZER, decision).await
        }
    });
    ctx.spawn(worker);
    loop {
        tokio::select! { biased;
            Some(delta) = classes.recv() => if let Delta::Applied { new, .. } = delta
                && decide(&new, || false) != Decision::Keep
            {
                queue.add(new.name().to_owned());
            },
            Some(delta) = claims.recv() => freed(&delta, of_claim).into_iter().for_each(|name| queue.add(name)),
            Some(delta) = volumes.recv() => freed(&delta, of_volume).into_iter().for_each(|name| queue.add(name)),
            else => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn claim(spec: Value, status: Value) -> PersistentVolumeClaim {
        substrate::json::from_value(json!({"metadata": {"name": "c"}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn a_claim_holds_the_class_that_it_wants_has_and_is_on_the_way_to() {
        let claim = claim(
            json!({"volumeAttributesClassName": "gold"}),
            json!({
                "currentVolumeAttributesClassName": "silver",
                "modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "InProgress"},
            }),
        );
        assert_eq!(of_claim(&claim), BTreeSet::from(["gold", "silver"]));
    }

    #[test]
    fn a_class_released_by_a_claim_is_queued() {
        let old = Arc::new(claim(
            json!({"volumeAttributesClassName": "gold"}),
            json!({"currentVolumeAttributesClassName": "silver"}),
        ));
        let new = Arc::new(claim(
            json!({"volumeAttributesClassName": "gold"}),
            json!({"currentVolumeAttributesClassName": "gold"}),
        ));
        assert_eq!(freed(&Delta::Applied { old: None, new: new.clone() }, of_claim), Vec::<String>::new());
        assert_eq!(freed(&Delta::Applied { old: Some(old), new: new.clone() }, of_claim), ["silver"]);
        assert_eq!(freed(&Delta::Deleted(new), of_claim), ["gold"]);
    }
}
