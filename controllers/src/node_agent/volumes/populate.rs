//! The populator of the desired state of world: reads a pod's claims and volumes live (upstream
//! `desired_state_of_world_populator.go`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{CSIVolumeSource, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::context::VolumeContext;
use crate::binder::quantity;
use crate::kube::ApiError;
use crate::node_agent::events::LookupFailed;
use crate::node_agent::volume_manager::VolumeSpec;
use crate::node_agent::volume_manager::desired::{DesiredMount, Sizes};
use crate::protection::claim::FINALIZER;

/// Volume of a pod that the volume manager handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimUse {
    /// The name in the pod's `spec.volumes`.
    pub volume: String,
    /// The claim.
    pub claim: String,
    /// `persistentVolumeClaim.readOnly`.
    pub readonly: bool,
    /// True if the claim belongs to the pod (a generic ephemeral volume).
    pub ephemeral: bool,
    /// True if a container lists it in its `volumeMounts`.
    pub mounted: bool,
    /// True if a container lists it in its `volumeDevices`.
    pub device: bool,
}

/// Returns the claims that the pod's containers use, in the pod's order. A volume that no container uses is ignored.
pub fn claims(pod: &Pod) -> Vec<ClaimUse> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let Used { mounts, devices } = Used::by(pod);
    let uses = spec.volumes.iter().flatten().filter_map(|volume| claim(pod, volume)).map(|use_| {
        let (mounted, device) = (mounts.contains(&*use_.volume), devices.contains(&*use_.volume));
        ClaimUse { mounted, device, ..use_ }
    });
    uses.filter(|use_| use_.mounted || use_.device).collect()
}

/// Returns the inline volumes that the pod's containers use, in the pod's order.
pub fn inline(pod: &Pod) -> Vec<(&Volume, &CSIVolumeSource)> {
    let used = Used::by(pod);
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let described = volumes.filter_map(|volume| Some((volume, volume.csi.as_ref()?)));
    described
        .filter(|(volume, _)| used.mounts.contains(&*volume.name) || used.devices.contains(&*volume.name))
        .collect()
}

/// Returns the names in `spec.volumes` that must be mounted before the pod runs.
pub fn expected(pod: &Pod) -> Vec<String> {
    let claims = claims(pod).into_iter().map(|use_| use_.volume);
    claims.chain(inline(pod).into_iter().map(|(volume, _)| volume.name.clone())).collect()
}

/// Volumes that the containers of a pod use.
struct Used<'a> {
    mounts: BTreeSet<&'a str>,
    devices: BTreeSet<&'a str>,
}

impl<'a> Used<'a> {
    fn by(pod: &'a Pod) -> Self {
        let (mut mounts, mut devices) = (BTreeSet::new(), BTreeSet::new());
        let spec = pod.spec.iter();
        for container in spec.flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten())) {
            mounts.extend(container.volume_mounts.iter().flatten().map(|m| m.name.as_str()));
            devices.extend(container.volume_devices.iter().flatten().map(|d| d.name.as_str()));
        }
        Self { mounts, devices }
    }
}

/// Checks that the containers use a volume according to its mode.
///
/// # Errors
/// Upstream's text.
pub fn check_mode(use_: &ClaimUse, block: bool) -> Result<(), String> {
    let (mode, wrong) = if block { ("Block", "volumeMounts") } else { ("Filesystem", "volumeDevices") };
    if if block { use_.mounted } else { use_.device } {
        return Err(format!("volume {} has volumeMode {mode}, but is specified in {wrong}", use_.volume));
    }
    Ok(())
}

fn claim(pod: &Pod, volume: &Volume) -> Option<ClaimUse> {
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(ClaimUse {
            volume: volume.name.clone(),
            claim: source.claim_name.clone(),
            readonly: source.read_only.unwrap_or_default(),
            ephemeral: false,
            mounted: false,
            device: false,
        });
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    volume.ephemeral.as_ref().map(|_| ClaimUse {
        volume: volume.name.clone(),
        claim: format!("{name}-{}", volume.name),
        readonly: false,
        ephemeral: true,
        mounted: false,
        device: false,
    })
}

/// Returns the volume of a claim, or the reason why it cannot be used yet (`getPVCExtractPV`).
///
/// # Errors
/// Upstream's text.
pub fn volume_of_claim(claim: &PersistentVolumeClaim, pod: &Pod, use_: &ClaimUse) -> Result<String, String> {
    if use_.ephemeral {
        let owners = claim.metadata.owner_references.as_deref().unwrap_or_default();
        let owned = owners.iter().any(|o| o.controller == Some(true) && Some(&o.uid) == pod.metadata.uid.as_ref());
        if !owned {
            let part = |name: &Option<String>| name.clone().unwrap_or_default();
            return Err(format!(
                "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
                part(&claim.metadata.namespace),
                use_.claim,
                part(&pod.metadata.namespace),
                part(&pod.metadata.name),
            ));
        }
    }
    // A protected claim stays until its last pod is gone: a restarted kubelet must not take it from a running pod.
    let is_protected = || claim.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
    if claim.metadata.deletion_timestamp.is_some() && !is_protected() {
        return Err("PVC is being deleted".to_owned());
    }
    if claim.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Bound") {
        return Err("PVC is not bound".to_owned());
    }
    match claim.spec.as_ref().and_then(|s| s.volume_name.clone()) {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err("PVC has empty pvc.Spec.VolumeName".to_owned()),
    }
}

/// Checks that a volume belongs to a claim (`getPVSpec`).
///
/// # Errors
/// Upstream's text.
pub fn check_volume(pv: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), String> {
    let name = pv.metadata.name.as_deref().unwrap_or_default();
    let Some(reference) = pv.spec.as_ref().and_then(|s| s.claim_ref.as_ref()) else {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    };
    if reference.uid != claim.metadata.uid {
        return Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {} does not point to claim.UID {}",
            reference.uid.as_deref().unwrap_or_default(),
            claim.metadata.uid.as_deref().unwrap_or_default()
        ));
    }
    Ok(())
}

/// Populates a pod's volumes and wakes the reconciler.
pub(crate) async fn populate(room: Arc<VolumeContext>, pod: Arc<Pod>) {
    populate_pod(&room, &pod).await;
    room.changes.signal();
}

/// Looks up the volumes of a pod and adds them to the desired state of world.
pub(crate) async fn populate_pod(room: &VolumeContext, pod: &Arc<Pod>) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let want = |volume: &str, spec: VolumeSpec, attachable, readonly, sizes| {
        let mount = DesiredMount { pod: pod.clone(), volumes_in_pod: [volume.to_owned()].into(), readonly, sizes };
        room.volumes.lock().want(Arc::new(spec), attachable, &uid, mount);
    };
    // Inline volumes need no lookup, and no controller attaches them.
    for (volume, csi) in inline(pod) {
        let spec = VolumeSpec::inline(pod, &volume.name, csi);
        want(&volume.name, spec, false, csi.read_only.unwrap_or_default(), Sizes::default());
    }
    let mut complete = true;
    for use_ in claims(pod) {
        match look_up(room, pod, &use_).await {
            Ok((spec, attachable, sizes)) => want(&use_.volume, spec, attachable, use_.readonly, sizes),
            Err(error) => {
                complete = false;
                room.volumes.lock().lookup_failed(&uid, error);
            }
        }
    }
    if complete {
        // Clear errors of earlier attempts.
        room.volumes.lock().take_errors(&uid);
    }
}

async fn look_up(room: &VolumeContext, pod: &Pod, use_: &ClaimUse) -> Result<(VolumeSpec, bool, Sizes), String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let context = |error: String| format!("error processing PVC {namespace}/{}: {error}", use_.claim);
    let unread = |what: &str, error: &ApiError| {
        let error = context(format!("failed to fetch {what} from API server: {error}"));
        let pod = format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default());
        room.ctx.emit(LookupFailed { error: error.clone(), node: room.config.name(), pod: pod.into() });
        error
    };
    let claim = room
        .client
        .namespaced::<PersistentVolumeClaim>(namespace)
        .get(&use_.claim)
        .await
        .map_err(|e| unread("PVC", &e))?;
    if claim.metadata.deletion_timestamp.is_some() && substrate::mutant!(room.ctx, "deleting-claim-refused") {
        return Err(context("PVC is being deleted".to_owned()));
    }
    let takes_foreign = substrate::mutant!(room.ctx, "foreign-ephemeral-claim-used");
    let checked = ClaimUse { ephemeral: use_.ephemeral && !takes_foreign, ..use_.clone() };
    let name = volume_of_claim(&claim, pod, &checked).map_err(context)?;
    let pv = room.client.all::<PersistentVolume>().get(&name).await.map_err(|e| unread(&format!("PV {name}"), &e))?;
    check_volume(&pv, &claim).map_err(context)?;
    if let Some(spec) = VolumeSpec::of_machine(&pv).filter(|_| room.config.host_paths) {
        check_mode(use_, false)?;
        return Ok((spec, false, Sizes::default()));
    }
    let sizes = sizes(&pv, &claim);
    let spec = VolumeSpec::from_pv(pv).map_err(|e| context(e.to_string()))?;
    check_mode(use_, spec.block)?;
    // A driver without a CSIDriver object is attachable.
    let driver = room.drivers_of_cluster.get("", &spec.driver);
    let attachable = driver.is_none_or(|d| d.spec.attach_required != Some(false));
    Ok((spec, attachable, sizes))
}

/// Returns the volume's size according to its two objects.
fn sizes(pv: &PersistentVolume, claim: &PersistentVolumeClaim) -> Sizes {
    let bytes = |capacity: Option<&BTreeMap<String, Quantity>>| {
        capacity.and_then(|c| c.get("storage")).map_or(0, quantity::value)
    };
    Sizes {
        volume: bytes(pv.spec.as_ref().and_then(|s| s.capacity.as_ref())),
        claim: bytes(claim.status.as_ref().and_then(|s| s.capacity.as_ref())),
    }
}

/// Runs the populator's first pass after all sources were ready. After it, mounts on disk that no pod wants may be
/// unmounted (`hasAddedPods`). A pod is included even if its volumes could not be looked up.
pub(crate) async fn first_pass(room: Arc<VolumeContext>, pods: Vec<Arc<Pod>>) {
    for pod in pods {
        populate_pod(&room, &pod).await;
    }
    room.volumes.lock().set_populated();
    room.changes.signal();
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        substrate::json::from_value(json!({ "metadata": { "name": "p", "namespace": "d", "uid": "u" }, "spec": spec }))
            .expect("a pod")
    }

    #[test]
    fn claims_that_no_container_mounts_are_ignored() {
        let pod = pod(json!({
            "containers": [{ "name": "c", "volumeMounts": [
                { "name": "data", "mountPath": "/data" }, { "name": "scratch", "mountPath": "/scratch" }] }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "a", "readOnly": true } },
                { "name": "unused", "persistentVolumeClaim": { "claimName": "b" } },
                { "name": "scratch", "ephemeral": {} },
            ],
        }));
        let found: Vec<_> = claims(&pod).into_iter().map(|c| (c.claim, c.readonly, c.ephemeral)).collect();
        assert_eq!(found, [("a".to_owned(), true, false), ("p-scratch".to_owned(), false, true)]);
    }

    fn use_(volume: &str) -> ClaimUse {
        let (volume, claim) = (volume.to_owned(), "a".to_owned());
        ClaimUse { volume, claim, readonly: false, ephemeral: false, mounted: true, device: false }
    }

    #[test]
    fn a_volume_is_used_as_what_it_is() {
        let mounted = use_("v");
        assert_eq!(check_mode(&mounted, false), Ok(()));
        let error = "volume v has volumeMode Block, but is specified in volumeMounts".to_owned();
        assert_eq!(check_mode(&mounted, true), Err(error));
        let device = ClaimUse { mounted: false, device: true, ..mounted };
        assert_eq!(check_mode(&device, true), Ok(()));
        let error = "volume v has volumeMode Filesystem, but is specified in volumeDevices".to_owned();
        assert_eq!(check_mode(&device, false), Err(error));
    }

    fn claim(phase: &str, volume: Option<&str>) -> PersistentVolumeClaim {
        substrate::json::from_value(json!({
            "metadata": { "name": "a", "uid": "c1" }, "spec": { "volumeName": volume }, "status": { "phase": phase },
        }))
        .expect("a claim")
    }

    #[test]
    fn only_a_bound_claim_names_its_volume() {
        let pod = pod(json!({ "containers": [] }));
        let use_ = ClaimUse { ephemeral: false, ..use_("v") };
        assert_eq!(volume_of_claim(&claim("Bound", Some("pv")), &pod, &use_), Ok("pv".to_owned()));
        assert_eq!(volume_of_claim(&claim("Pending", Some("pv")), &pod, &use_), Err("PVC is not bound".to_owned()));
        let mine = ClaimUse { ephemeral: true, ..use_ };
        assert!(volume_of_claim(&claim("Bound", Some("pv")), &pod, &mine).is_err());
    }

    #[test]
    fn a_claim_that_is_being_deleted_names_its_volume_as_long_as_it_is_protected() {
        let pod = pod(json!({ "containers": [] }));
        let mut claim = claim("Bound", Some("pv"));
        claim.metadata.deletion_timestamp = substrate::json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        assert_eq!(volume_of_claim(&claim, &pod, &use_("v")), Err("PVC is being deleted".to_owned()));
        claim.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
        assert_eq!(volume_of_claim(&claim, &pod, &use_("v")), Err("PVC is being deleted".to_owned()));
        claim.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        assert_eq!(volume_of_claim(&claim, &pod, &use_("v")), Ok("pv".to_owned()));
    }

    #[test]
    fn a_volume_of_another_claim_is_refused() {
        let pv = |uid: &str| -> PersistentVolume {
            substrate::json::from_value(json!({ "metadata": { "name": "pv" }, "spec": { "claimRef": { "uid": uid } } }))
                .expect("a volume")
        };
        assert_eq!(check_volume(&pv("c1"), &claim("Bound", None)), Ok(()));
        let error = check_volume(&pv("c2"), &claim("Bound", None)).expect_err("another claim");
        assert_eq!(error, "found PV object pv but its pv.Spec.ClaimRef.UID c2 does not point to claim.UID c1");
    }
}
