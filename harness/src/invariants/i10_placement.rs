//! I10: volumes are provisioned, bound and used as requested. A provisioned volume has the size, access modes, volume
//! mode, mount options, reclaim policy, filesystem, type and zone of its claim, its StorageClass and the scheduler's
//! node. A claim is bound to a volume that satisfies it and is not being deleted. The scheduler puts a pod only on a node
//! from which its volumes can be reached. A ReadWriteOncePod volume is published once. An occasion is such a volume,
//! binding or publish.
//!
//! Volumes and bindings of a user are not checked, nor pods whose node a user chose.

use csi_mock::events::DiskPublished;
use fake_apiserver::events::{Claim, Commit, Spec, Volume};
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::{Checked, Found, Id, parameters};
use crate::model::{RunModel, Stored};

const GIB: u64 = 1 << 30;

/// Checks an event.
pub(super) fn check(model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
    let Some(commit) = event.get::<Commit>() else { return published_twice(model, checked, event.get()?) };
    let object = &commit.object;
    // The occasion is counted when the claim gets the volume.
    let (message, handle) = if let Some((pv, claim)) = taken_while_deleted(model, commit) {
        (format!("persistentvolume/{object} was bound to pvc/{claim} while it is being deleted"), pv.handle.clone())
    } else if commit.pv.is_some() {
        let pv = model.objects.volume(object)?;
        let (claim, classes) = provisioned_for(model, commit, pv)?;
        checked.add(Id::I10, 1);
        let name = pv.state.claim.as_deref().unwrap_or_default();
        let differs = wrongly_made(model, pv, claim, classes)?;
        (format!("persistentvolume/{object} was made for pvc/{name} {differs}"), pv.state.handle.clone())
    } else if commit.pvc.is_some() {
        let claim = model.objects.claim(object)?;
        let (name, pv) = newly_bound(model, commit, claim)?;
        checked.add(Id::I10, 1);
        (
            format!("pvc/{object} was bound to persistentvolume/{name} {}", unsatisfied(pv, claim)?),
            pv.state.handle.clone(),
        )
    } else {
        let node = newly_placed(model, commit)?;
        checked.add(Id::I10, 1);
        let (pv, zone) = out_of_reach(model, commit, node)?;
        (
            format!("pod/{object} was put on {node} in {zone}, and its volume is in {}", pv.spec.zones.join(", ")),
            pv.state.handle.clone(),
        )
    };
    let (operation, volume) = (commit.verb.to_string(), handle.map(|handle| handle.to_string()));
    Some(Found { message, operation, volume, ..Found::default() })
}

/// Finds a publish of a ReadWriteOncePod volume that is published elsewhere.
fn published_twice(model: &RunModel, checked: &mut Checked, published: &DiskPublished) -> Option<Found> {
    let DiskPublished { volume, node, path, .. } = published;
    let pv = model.objects.volume_of(volume)?;
    if pv.state.access_modes.is_empty() || pv.state.access_modes.iter().any(|mode| mode != "ReadWriteOncePod") {
        return None;
    }
    checked.add(Id::I10, 1);
    let here = model.name(node);
    let places = model.holders(volume).filter(|(_, hold)| !hold.forced);
    let mut places = places.flat_map(|(of, hold)| hold.published.keys().map(move |path| (of, path.as_str())));
    let (of, other) = places.find(|place| *place != (here, path.as_str()))?;
    let message = format!("{volume} is ReadWriteOncePod, and was published on {here} while {of} has it at {other}");
    let (operation, volume) = ("NodePublishVolume".to_owned(), Some(volume.to_string()));
    Some(Found { message, operation, volume, node: Some(here.to_owned()), ..Found::default() })
}

/// Returns a free volume that a component gives to a claim although the volume is being deleted, and the claim. The write
/// meets only the version that the component has read, so the component has seen the deletion. Upstream does not check
/// it if a user has reserved the volume for the claim, or if the claim has the volume already.
fn taken_while_deleted<'a>(model: &RunModel, commit: &'a Commit) -> Option<(&'a Volume, &'a Text)> {
    let pv = commit.pv.as_deref().filter(|pv| pv.deleting)?;
    let (key, uid) = (pv.claim.as_ref()?, pv.claim_uid.as_ref()?);
    let claim = model.objects.claim(key).filter(|claim| claim.state.uid == *uid)?;
    let was_free = model.objects.before.volume.as_ref()?.state.claim.is_none();
    let by_component = ["kube-controller-manager", "kube-scheduler"].iter().any(|name| commit.user.starts_with(name));
    (by_component && was_free && claim.state.volume.is_none()).then_some((pv, key))
}

/// Returns the claim for which a provisioner has created a volume, and the versions of its class.
fn provisioned_for<'a>(
    model: &'a RunModel,
    commit: &Commit,
    pv: &Stored<Volume>,
) -> Option<(&'a Stored<Claim>, &'a [Spec])> {
    if commit.r#type != EventType::Added || !commit.user.starts_with("csi-provisioner") {
        return None;
    }
    let claim = model.objects.claim(pv.state.claim.as_deref()?)?;
    if pv.state.claim_uid.as_ref().is_some_and(|uid| *uid != claim.state.uid) {
        // It was created for an earlier claim of that name.
        return None;
    }
    let classes = model.objects.class(claim.spec.class.as_deref()?);
    (!classes.is_empty()).then_some((claim, classes))
}

/// Returns the difference between a new volume and its requirements, as the end of a sentence.
fn wrongly_made(model: &RunModel, pv: &Stored<Volume>, claim: &Stored<Claim>, classes: &[Spec]) -> Option<String> {
    if let Some(differs) = unsatisfied(pv, claim) {
        return Some(differs);
    }
    let differs = classes.iter().map(|class| differs_from_class(pv, class)).collect::<Option<Vec<_>>>();
    if let Some(differs) = differs.and_then(|all| all.into_iter().next_back()) {
        return Some(differs);
    }
    let chosen = claim.spec.selected_node.as_deref().and_then(|node| model.objects.zone(node));
    if let Some(zone) = chosen.filter(|zone| !pv.spec.zones.is_empty() && !pv.spec.zones.contains(zone)) {
        let node = claim.spec.selected_node.as_deref().unwrap_or_default();
        return Some(format!("in {}, and the scheduler chose {node} in {zone}", pv.spec.zones.join(", ")));
    }
    let cloud = model.objects.in_cloud(pv.state.handle.as_deref()?)?;
    if !pv.spec.zones.is_empty() && !pv.spec.zones.contains(&cloud.zone) {
        return Some(format!("with the zones {}, and the cloud has it in {}", pv.spec.zones.join(", "), cloud.zone));
    }
    if pv.spec.capacity.is_some_and(|bytes| bytes > cloud.size_gib * GIB) {
        return Some(format!("with more bytes than the {} GiB that the cloud has", cloud.size_gib));
    }
    // A VolumeAttributesClass takes precedence over the parameters of the StorageClass.
    if claim.spec.attributes_class.is_some() {
        return None;
    }
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let has = |key: &str| match key {
        "type" => Some(cloud.volume_type.to_string()),
        "iops" => number(cloud.iops),
        "throughput" => number(cloud.throughput),
        "encrypted" => Some(cloud.encrypted.to_string()),
        _ => None,
    };
    let differs = |class: &Spec| {
        class.parameters.iter().find_map(|(key, value)| {
            let key = key.to_lowercase();
            let of = (&*cloud.volume_type, cloud.size_gib);
            let found = has(&key).filter(|found| !parameters::serves(of, &key, found, value))?;
            Some(format!("with the {key} {found} in the cloud, and its StorageClass asks for {value}"))
        })
    };
    classes.iter().map(differs).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().next_back())
}

/// Returns the difference between a volume and one version of its class.
fn differs_from_class(pv: &Stored<Volume>, class: &Spec) -> Option<String> {
    let asks = |what: &str, has: &str, wants: &str| {
        Some(format!("with the {what} {has}, and its StorageClass asks for {wants}"))
    };
    if pv.state.reclaim != class.reclaim {
        let word = |policy: &Option<Text>| policy.as_deref().unwrap_or("Delete").to_owned();
        return asks("reclaim policy", &word(&pv.state.reclaim), &word(&class.reclaim));
    }
    if pv.spec.mount_options != class.mount_options {
        return asks("mount options", &format!("{:?}", pv.spec.mount_options), &format!("{:?}", class.mount_options));
    }
    let key = |key: &Text| ["csi.storage.k8s.io/fstype", "fstype"].contains(&key.to_lowercase().as_str());
    let fs_type = class.parameters.iter().find(|(name, _)| key(name)).map(|(_, value)| value);
    if let Some(wants) =
        fs_type.filter(|wants| !pv.spec.block && !wants.is_empty() && pv.spec.fs_type.as_ref() != Some(wants))
    {
        return asks("filesystem", pv.spec.fs_type.as_deref().unwrap_or("of the driver"), wants);
    }
    let strange = pv.spec.zones.iter().find(|zone| !class.zones.is_empty() && !class.zones.contains(zone))?;
    asks("zone", strange, &class.zones.join(", "))
}

/// Returns the volume that a claim is bound to from this commit on, with its name; `None` if the user chose the volume.
fn newly_bound<'a>(
    model: &'a RunModel,
    commit: &Commit,
    claim: &'a Stored<Claim>,
) -> Option<(&'a Text, &'a Stored<Volume>)> {
    let before = model.objects.before.claim.as_ref().filter(|_| commit.r#type == EventType::Modified)?;
    let name = claim.state.volume.as_ref().filter(|_| before.state.volume.is_none())?;
    Some((name, model.objects.volume(name)?))
}

/// Returns the requirement of a claim that a volume does not satisfy, as the end of a sentence.
fn unsatisfied(pv: &Stored<Volume>, claim: &Stored<Claim>) -> Option<String> {
    if let Some(mode) = claim.spec.access_modes.iter().find(|mode| !pv.state.access_modes.contains(mode)) {
        return Some(format!("without the access mode {mode} of its claim"));
    }
    if pv.spec.block != claim.spec.block {
        let mode = |block| if block { "Block" } else { "Filesystem" };
        return Some(format!(
            "with the volume mode {}, and its claim asks for {}",
            mode(pv.spec.block),
            mode(claim.spec.block)
        ));
    }
    if let (Some(has), Some(wants)) = (pv.spec.capacity, claim.spec.request)
        && has < wants
    {
        return Some(format!("with {has} bytes, and its claim asks for {wants}"));
    }
    let word = |class: &Option<Text>| class.as_deref().unwrap_or_default().to_owned();
    let (has, wants) = (word(&pv.spec.class), word(&claim.spec.class));
    (has != wants).then(|| format!("with the StorageClass `{has}`, and its claim asks for `{wants}`"))
}

/// Returns the node that the scheduler has chosen for a pod with this commit.
pub(super) fn newly_placed<'a>(model: &RunModel, commit: &'a Commit) -> Option<&'a Text> {
    let before = model.objects.before.pod.as_ref().filter(|_| commit.user.starts_with("kube-scheduler"))?;
    commit.pod.as_ref()?.node.as_ref().filter(|_| before.state.node.is_none())
}

/// Returns a volume of a pod that cannot be reached from its node, and the zone of the node.
fn out_of_reach<'a>(model: &'a RunModel, commit: &Commit, node: &Text) -> Option<(&'a Stored<Volume>, &'a Text)> {
    let zone = model.objects.zone(node)?;
    let (namespace, _) = commit.object.split_once('/')?;
    let claims =
        commit.pod.as_ref()?.claims.iter().filter_map(|claim| model.objects.claim(&format!("{namespace}/{claim}")));
    let mut volumes = claims.filter_map(|claim| model.objects.volume(claim.state.volume.as_deref()?));
    volumes.find(|pv| !pv.spec.zones.is_empty() && !pv.spec.zones.contains(zone)).map(|pv| (pv, zone))
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::Pod;
    use mock_ec2::events::{VolumeChanged, VolumePhase};
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";
    const ZONE: &str = "us-east-1a";

    /// A claim, its class, its provisioned volume, and the volume of the cloud.
    struct History {
        claim: Spec,
        class: Spec,
        of_pv: Volume,
        pv: Spec,
        cloud: VolumeChanged,
        provisioner: &'static str,
    }

    impl History {
        fn new() -> Self {
            let modes = vec![Text::from("ReadWriteOnce")];
            let mut cloud = VolumeChanged::new(VOLUME.parse().unwrap(), VolumePhase::Available, ZONE, 4);
            cloud.volume_type = "gp3".into();
            Self {
                claim: Spec {
                    access_modes: modes.clone(),
                    class: Some("fast".into()),
                    request: Some(4 * GIB),
                    selected_node: Some("node-a".into()),
                    ..Spec::default()
                },
                class: Spec {
                    parameters: [("type".into(), "gp3".into())].into(),
                    zones: vec![ZONE.into()],
                    ..Spec::default()
                },
                of_pv: Volume {
                    access_modes: modes,
                    claim: Some("default/data".into()),
                    handle: Some(VOLUME.into()),
                    ..Volume::default()
                },
                pv: Spec {
                    capacity: Some(4 * GIB),
                    class: Some("fast".into()),
                    zones: vec![ZONE.into()],
                    ..Spec::default()
                },
                cloud,
                provisioner: "csi-provisioner",
            }
        }

        /// Returns the sentences of I10 without their first words, after a change of the steps.
        fn found(change: impl FnOnce(&mut Self)) -> Vec<String> {
            let mut history = Self::new();
            change(&mut history);
            let Self { claim, class, of_pv, pv, cloud, provisioner } = history;
            let trace = Trace::new(Clock::live(), Level::Info);
            trace.info(&"mock-ec2".into(), cloud);
            let mut rv = 0;
            let mut commit = |resource: &str, object: &str, user: &str, spec: &Spec, say: &dyn Fn(&mut Commit)| {
                rv += 1;
                let mut commit = Commit::new(resource, object, rv, EventType::Added);
                (commit.user, commit.spec) = (user.into(), Some(Box::new(spec.clone())));
                say(&mut commit);
                trace.info(&"fake-apiserver".into(), commit);
            };
            let node = Spec { zones: vec![ZONE.into()], ..Spec::default() };
            commit("nodes", "node-a", "kubelet", &node, &|commit| commit.node = Some(Box::default()));
            commit("storageclasses", "fast", "me", &class, &|_| {});
            let (claims, key) = ("persistentvolumeclaims", "default/data");
            commit(claims, key, "me", &claim, &|commit| commit.pvc = Some(Box::default()));
            commit("persistentvolumes", "pv-1", provisioner, &pv, &|commit| commit.pv = Some(Box::new(of_pv.clone())));
            let bound = Claim { volume: Some("pv-1".into()), ..Claim::default() };
            commit(claims, key, "kube-controller-manager", &claim, &|commit| {
                (commit.r#type, commit.pvc) = (EventType::Modified, Some(Box::new(bound.clone())));
            });
            let pod = |node: Option<&str>| {
                Some(Box::new(Pod { claims: vec!["data".into()], node: node.map(Into::into), ..Pod::default() }))
            };
            commit("pods", "default/web", "me", &Spec::default(), &|commit| commit.pod = pod(None));
            commit("pods", "default/web", "kube-scheduler", &Spec::default(), &|commit| {
                commit.pod = pod(Some("node-a"))
            });
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
            let words = |message: String| {
                let message = message.replace("persistentvolume/pv-1 was made for pvc/default/data", "made");
                message.replace("pvc/default/data was bound to persistentvolume/pv-1", "bound")
            };
            all.map(|violation| words(violation.message)).collect()
        }
    }

    #[test]
    fn a_volume_that_is_as_asked_is_no_violation() {
        assert!(History::found(|_| {}).is_empty());
        // The provisioner used the previous version of the class, or the cloud encrypts by default.
        assert!(History::found(|history| history.cloud.encrypted = true).is_empty());
        assert!(History::found(|history| history.claim.attributes_class = Some("gold".into())).is_empty());
    }

    #[test]
    fn a_volume_that_differs_from_its_claim_or_class_is_a_violation() {
        let size = History::found(|history| history.pv.capacity = Some(GIB));
        let why = format!("with {GIB} bytes, and its claim asks for {}", 4 * GIB);
        assert_eq!(size, [format!("made {why}"), format!("bound {why}")]);
        let former = History::found(|history| {
            (history.pv.capacity, history.of_pv.claim_uid) = (Some(GIB), Some("former".into()));
        });
        assert_eq!(former, [format!("bound {why}")], "it was made for a former claim of that name");
        let modes = History::found(|history| history.of_pv.access_modes.clear());
        assert_eq!(modes[0], "made without the access mode ReadWriteOnce of its claim");
        let mode = History::found(|history| history.pv.block = true);
        assert_eq!(mode[0], "made with the volume mode Block, and its claim asks for Filesystem");
        let class = History::found(|history| history.pv.class = None);
        assert_eq!(class[0], "made with the StorageClass ``, and its claim asks for `fast`");
        let retain = History::found(|history| history.class.reclaim = Some("Retain".into()));
        assert_eq!(retain, ["made with the reclaim policy Delete, and its StorageClass asks for Retain"]);
        let options = History::found(|history| history.class.mount_options = vec!["noatime".into()]);
        assert_eq!(options, [r#"made with the mount options [], and its StorageClass asks for ["noatime"]"#]);
        let xfs = |history: &mut History| {
            drop(history.class.parameters.insert("csi.storage.k8s.io/fstype".into(), "xfs".into()))
        };
        assert_eq!(History::found(xfs), ["made with the filesystem of the driver, and its StorageClass asks for xfs"]);
        let io2 = History::found(|history| drop(history.class.parameters.insert("type".into(), "io2".into())));
        assert_eq!(io2, ["made with the type gp3 in the cloud, and its StorageClass asks for io2"]);
        let small = History::found(|history| history.cloud.size_gib = 1);
        assert_eq!(small, ["made with more bytes than the 1 GiB that the cloud has"]);
    }

    #[test]
    fn a_volume_out_of_its_zone_is_a_violation() {
        let elsewhere = || vec![Text::from("us-east-1b")];
        let made = History::found(|history| (history.pv.zones, history.class.zones) = (elsewhere(), Vec::new()));
        let chosen = "made in us-east-1b, and the scheduler chose node-a in us-east-1a";
        let put = "pod/default/web was put on node-a in us-east-1a, and its volume is in us-east-1b";
        assert_eq!(made, [chosen, put]);
        let class = History::found(|history| history.class.zones = elsewhere());
        assert_eq!(class, ["made with the zone us-east-1a, and its StorageClass asks for us-east-1b"]);
        let cloud = History::found(|history| history.cloud.zone = "us-east-1b".into());
        assert_eq!(cloud, ["made with the zones us-east-1a, and the cloud has it in us-east-1b"]);
    }

    #[test]
    fn a_volume_that_a_user_made_is_judged_when_it_is_bound_only() {
        let retain = History::found(|history| {
            (history.provisioner, history.class.reclaim) = ("kubectl", Some("Retain".into()));
        });
        assert!(retain.is_empty());
        let small = History::found(|history| (history.provisioner, history.pv.capacity) = ("kubectl", Some(GIB)));
        assert_eq!(small, [format!("bound with {GIB} bytes, and its claim asks for {}", 4 * GIB)]);
    }

    #[test]
    fn a_free_volume_that_is_being_deleted_is_bound_to_no_claim() {
        let found = |user: &str, deleting: bool, reserved: bool, has: Option<&str>| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let commit = |user: &str, resource: &str, object: &str, r#type, say: &dyn Fn(&mut Commit)| {
                let mut commit = Commit::new(resource, object, 1, r#type);
                commit.user = user.into();
                say(&mut commit);
                trace.info(&"fake-apiserver".into(), commit);
            };
            let claim = Claim { uid: "u".into(), volume: has.map(Into::into), ..Claim::default() };
            commit("me", "persistentvolumeclaims", "default/data", EventType::Added, &|commit| {
                commit.pvc = Some(Box::new(claim.clone()));
            });
            let free = Volume { deleting, ..Volume::default() };
            let before = Volume { claim: reserved.then(|| "default/data".into()), ..free.clone() };
            let bound = Volume { claim: Some("default/data".into()), claim_uid: Some("u".into()), ..free };
            commit("me", "persistentvolumes", "pv-1", EventType::Added, &|commit| {
                commit.pv = Some(Box::new(before.clone()));
            });
            commit(user, "persistentvolumes", "pv-1", EventType::Modified, &|commit| {
                commit.pv = Some(Box::new(bound.clone()));
            });
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let message = ["persistentvolume/pv-1 was bound to pvc/default/data while it is being deleted"];
        let binder = "kube-controller-manager/v1 persistent-volume-binder";
        assert_eq!(found(binder, true, false, None), message);
        assert_eq!(found("kube-scheduler/v1", true, false, None), message);
        assert!(found(binder, false, false, None).is_empty());
        assert!(found(binder, true, true, None).is_empty(), "a user has reserved it");
        assert!(found(binder, true, false, Some("pv-1")).is_empty(), "the claim has it already");
        assert!(found("me", true, false, None).is_empty());
    }

    #[test]
    fn a_volume_of_one_pod_is_published_once() {
        let twice = |mode: &str, paths: &[&str]| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let mut commit = Commit::new("persistentvolumes", "pv-1", 1, EventType::Added);
            let (access_modes, handle) = (vec![mode.into()], Some(VOLUME.into()));
            commit.pv = Some(Box::new(Volume { access_modes, handle, ..Volume::default() }));
            trace.info(&"fake-apiserver".into(), commit);
            for path in paths {
                let (volume, node, path) = (VOLUME.into(), "node-a".into(), (*path).into());
                trace.info(
                    &"node-a/csi-node".into(),
                    DiskPublished { volume, node, path, readonly: false, options: None },
                );
            }
            let invariants = Invariants::new(TimeScale::default());
            trace.events().iter().for_each(|event| invariants.observe(event));
            let all = invariants.violations().into_iter().filter(|violation| violation.id == "I10");
            all.map(|violation| violation.message).collect::<Vec<_>>()
        };
        let found = twice("ReadWriteOncePod", &["/a", "/b"]);
        let message = format!("{VOLUME} is ReadWriteOncePod, and was published on node-a while node-a has it at /a");
        assert_eq!(found, [message]);
        assert!(twice("ReadWriteOncePod", &["/a", "/a"]).is_empty());
        assert!(twice("ReadWriteOnce", &["/a", "/b"]).is_empty());
    }
}
