//! I11: objects and volumes live as long as requested. No driver deletes a volume that its PersistentVolume keeps
//! (reclaim policy Retain), or that a running pod uses. No controller removes a claim that a pod on a node uses, or a
//! bound PersistentVolume. No kubelet removes a pod that was not deleted, such as a new one of the same name. An
//! occasion is a driver that is asked to delete a volume, a claim that is removed while its volume is kept, or a claim,
//! volume or pod that a component removes.
//!
//! Volumes that are never deleted belong to I5. Removals by a user are not checked, nor pods that were placed on their
//! node after their claim was deleted.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::CsiCall;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;
use substrate::json::Text;

use super::stale_reads::{StaleReads, TEN_MINUTES};
use super::{Checked, Found, Id};
use crate::model::{ClaimKey, PodKey, RunModel};

/// Time in milliseconds after which each cache has a new object.
const NOTICE: u64 = 60 * 1000;

/// Processes whose removals are judged, by the beginning of their User-Agents.
const COMPONENTS: &[&str] = &["kube-controller-manager", "csi-provisioner", "kubelet"];

/// Deletions of claims in progress.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// By claim: the pods on a node that used it when it was deleted, and that still exist.
    ending: BTreeMap<ClaimKey, BTreeSet<PodKey>>,
    /// By claim: its VolumeAttributesClasses, and the time in milliseconds since which it has them.
    classes: BTreeMap<ClaimKey, ([Option<Text>; 3], u64)>,
    stale_reads: StaleReads,
}

impl Lifetimes {
    /// Checks an event.
    pub fn check(&mut self, model: &RunModel, checked: &mut Checked, event: &Event) -> Option<Found> {
        self.stale_reads.note(event, &[]);
        if let Some(commit) = event.get::<Commit>() {
            self.note_classes(commit, event.ms);
            if let Some(found) = self.class_in_use(checked, commit, event.ms) {
                return Some(found);
            }
            let is_gone = commit.r#type == EventType::Deleted;
            let is_claim = commit.resource == "persistentvolumeclaims";
            let kept = |claim: &str| model.objects.handle_of_claim(claim).is_some_and(|volume| model.is_kept(volume));
            checked.add(Id::I11, u64::from(is_gone && is_claim && kept(&commit.object)));
            return self.removed_early(model, checked, commit, is_gone);
        }
        let call = event.get::<CsiCall>().filter(|call| call.rpc == "DeleteVolume")?;
        let volume = call.volume.as_deref()?;
        checked.add(Id::I11, 1);
        let why = if model.is_kept(volume) {
            "although its PersistentVolume has the reclaim policy Retain".to_owned()
        } else if let Some(pod) = model.running_with(volume) {
            format!("while pod {pod} runs with it")
        } else {
            let (name, _) =
                model.attachments_of(volume).find(|(_, attachment)| self.is_known(attachment.since, event.ms))?;
            format!("while volumeattachment/{name} exists")
        };
        let message = format!("DeleteVolume was called for {volume} {why}");
        let volume = Some(volume.to_owned());
        Some(Found { message, operation: "DeleteVolume".to_owned(), volume, ..Found::default() })
    }

    /// Records the VolumeAttributesClasses of a claim.
    fn note_classes(&mut self, commit: &Commit, ms: u64) {
        if commit.pvc.is_none() {
            return;
        }
        if commit.r#type == EventType::Deleted {
            self.classes.remove(&*commit.object);
            return;
        }
        let spec = commit.spec.as_deref();
        let classes = [
            spec.and_then(|spec| spec.attributes_class.clone()),
            spec.and_then(|spec| spec.current_attributes_class.clone()),
            spec.and_then(|spec| spec.target_attributes_class.clone()),
        ];
        let entry = self.classes.entry((&commit.object).into()).or_insert_with(|| (classes.clone(), ms));
        if entry.0 != classes {
            *entry = (classes, ms);
        }
    }

    /// Returns true if each cache has what exists since `since`.
    fn is_known(&self, since: u64, ms: u64) -> bool {
        ms >= since + NOTICE && !self.stale_reads.within(2 * TEN_MINUTES, ms)
    }

    /// Finds a VolumeAttributesClass that a component removes although a claim has it or is on the way to it.
    fn class_in_use(&self, checked: &mut Checked, commit: &Commit, ms: u64) -> Option<Found> {
        let is_removed = commit.r#type == EventType::Deleted && commit.resource == "volumeattributesclasses";
        if !is_removed || !COMPONENTS.iter().any(|component| commit.user.starts_with(component)) {
            return None;
        }
        checked.add(Id::I11, 1);
        let has = |classes: &[Option<Text>]| classes.iter().flatten().any(|class| **class == *commit.object);
        let mut users = self.classes.iter().filter(|(_, (classes, _))| has(classes));
        let (claim, (classes, _)) = users.find(|(_, (_, since))| self.is_known(*since, ms))?;
        let how = if has(&classes[..2]) { "has it" } else { "is on the way to it" };
        let message = format!("volumeattributesclass/{} was removed while pvc/{claim} {how}", commit.object);
        Some(Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }

    /// Finds a claim, a PersistentVolume or a pod that a component has removed too early.
    fn removed_early(
        &mut self,
        model: &RunModel,
        checked: &mut Checked,
        commit: &Commit,
        is_gone: bool,
    ) -> Option<Found> {
        let object = &commit.object;
        let by_component = COMPONENTS.iter().any(|component| commit.user.starts_with(component));
        let mut removed = |checks: bool| checked.add(Id::I11, u64::from(checks && is_gone && by_component));
        let message = if let Some(claim) = &commit.pvc {
            removed(true);
            if !is_gone {
                if claim.deleting && !self.ending.contains_key(&**object) {
                    let users = model.objects.pods_of(object).filter(|(_, pod)| pod.state.node.is_some());
                    self.ending.insert(object.into(), users.map(|(key, _)| key.clone()).collect());
                }
                return None;
            }
            let users = self.ending.remove(&**object)?;
            let still = |key: &&PodKey| model.objects.pods_of(object).any(|(user, _)| user == *key);
            let user = users.iter().find(still)?;
            format!("pvc/{object} was removed while pod/{user} uses it")
        } else if let Some(pv) = &commit.pv {
            removed(true);
            (is_gone && pv.phase.as_deref() == Some("Bound"))
                .then(|| format!("persistentvolume/{object} was removed while it is bound"))?
        } else {
            let pod = commit.pod.as_ref()?;
            let by_kubelet = commit.user.starts_with("kubelet");
            // A deletion without grace is two commits.
            let before = model.objects.before.pod.as_ref();
            let is_alive = before.is_some_and(|before| before.state.uid == pod.uid && !before.state.deleting);
            if by_kubelet && pod.deleting && is_alive {
                let message = format!("pod/{object} was removed by a kubelet, and was not deleted");
                return Some(Found { message, operation: commit.verb.to_string(), ..Found::default() });
            }
            if !is_gone {
                return None;
            }
            for users in self.ending.values_mut() {
                users.remove(&**object);
            }
            removed(by_kubelet);
            (by_kubelet && !pod.deleting)
                .then(|| format!("pod/{object} was removed by a kubelet, and was not deleted"))?
        };
        by_component.then(|| Found { message, operation: commit.verb.to_string(), ..Found::default() })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fake_apiserver::events::{Attachment, Claim, Pod, Spec, Volume};
    use substrate::clock::TimeScale;
    use substrate::events::FaultFired;
    use substrate::world::{Options, simulate};
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";

    /// A commit: resource, object, user, type, and a change of it.
    pub type CommitSpec<'a> = (&'a str, &'a str, &'a str, EventType, &'a dyn Fn(&mut Commit));

    /// Returns the violations of a run in which a driver is asked to delete a volume with this reclaim policy. A pod
    /// with the claim of that name has one phase, and the volume has the other.
    fn violations(reclaim: Option<&str>, phase: Option<&str>, of_volume: &str) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let mut rv = 0;
        let mut commit = |resource: &str, object: &str, say: &dyn Fn(&mut Commit)| {
            rv += 1;
            let mut commit = Commit::new(resource, object, rv, EventType::Added);
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        };
        let pv = Volume {
            claim: Some("default/data".into()),
            handle: Some(VOLUME.into()),
            phase: Some(of_volume.into()),
            reclaim: reclaim.map(Into::into),
            ..Volume::default()
        };
        commit("persistentvolumes", "pv-1", &|commit| commit.pv = Some(Box::new(pv.clone())));
        if let Some(phase) = phase {
            let pod = Pod { claims: vec!["data".into()], phase: Some(phase.into()), ..Pod::default() };
            commit("pods", "default/web", &|commit| commit.pod = Some(Box::new(pod.clone())));
        }
        let call = CsiCall { volume: Some(VOLUME.into()), ..CsiCall::new("DeleteVolume", 1) };
        trace.info(&"csi-controller".into(), call);
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        assert_eq!(invariants.checked().get(Id::I11), 1);
        invariants.violations().into_iter().map(|violation| format!("{} {}", violation.id, violation.message)).collect()
    }

    #[test]
    fn a_volume_that_is_kept_or_used_is_not_deleted() {
        let called = format!("I11 DeleteVolume was called for {VOLUME}");
        let kept = violations(Some("Retain"), None, "Released");
        assert_eq!(kept, [format!("{called} although its PersistentVolume has the reclaim policy Retain")]);
        let used = violations(None, Some("Running"), "Bound");
        assert_eq!(used, [format!("{called} while pod default/web runs with it")]);
    }

    /// Returns the violations of a run of commits: resource, object, user, whether the object ends, and the change.
    pub fn removals(steps: &[CommitSpec<'_>]) -> Vec<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        for (rv, (resource, object, user, r#type, say)) in (1..).zip(steps) {
            let mut commit = Commit::new(*resource, *object, rv, *r#type);
            commit.user = (*user).into();
            say(&mut commit);
            trace.info(&"fake-apiserver".into(), commit);
        }
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter();
        all.filter(|violation| violation.id == "I11").map(|violation| violation.message).collect()
    }

    #[test]
    fn a_claim_that_a_pod_uses_is_not_removed() {
        let pod = |deleting, node: Option<&'static str>| {
            let (claims, node) = (vec!["data".into()], node.map(Into::into));
            let pod = Pod { claims, deleting, node, phase: Some("Running".into()), ..Pod::default() };
            move |commit: &mut Commit| commit.pod = Some(Box::new(pod.clone()))
        };
        let claim =
            |deleting| move |commit: &mut Commit| commit.pvc = Some(Box::new(Claim { deleting, ..Claim::default() }));
        let controller = "kube-controller-manager/v1 pvc-protection-controller";
        let used = |user, pod: &dyn Fn(&mut Commit), later: &dyn Fn(&mut Commit), end| {
            removals(&[
                ("persistentvolumeclaims", "default/data", "me", EventType::Added, &claim(false)),
                ("pods", "default/web", "me", EventType::Added, pod),
                ("persistentvolumeclaims", "default/data", "me", EventType::Modified, &claim(true)),
                ("pods", "default/web", "me", end, later),
                ("persistentvolumeclaims", "default/data", user, EventType::Deleted, &claim(true)),
            ])
        };
        let (runs, ends) = (pod(false, Some("node-a")), pod(true, Some("node-a")));
        let found = ["pvc/default/data was removed while pod/default/web uses it"];
        assert_eq!(used(controller, &runs, &runs, EventType::Modified), found);
        assert!(used("me", &runs, &runs, EventType::Modified).is_empty(), "a user took the finalizer");
        assert_eq!(used(controller, &runs, &ends, EventType::Modified), found, "the pod ends, and is there");
        assert_eq!(used(controller, &ends, &ends, EventType::Modified), found);
        assert!(used(controller, &runs, &ends, EventType::Deleted).is_empty(), "the pod is gone");
        let unscheduled = pod(false, None);
        assert!(used(controller, &unscheduled, &runs, EventType::Modified).is_empty(), "it came to its node later");
    }

    #[test]
    fn a_bound_volume_and_an_undeleted_pod_are_not_removed() {
        let pv = |phase: &'static str| {
            move |commit: &mut Commit| {
                commit.pv = Some(Box::new(Volume { phase: Some(phase.into()), ..Volume::default() }));
            }
        };
        let gone = |phase, user| removals(&[("persistentvolumes", "pv-1", user, EventType::Deleted, &pv(phase))]);
        let controller = "kube-controller-manager/v1 pv-protection-controller";
        assert_eq!(gone("Bound", controller), ["persistentvolume/pv-1 was removed while it is bound"]);
        assert!(gone("Released", controller).is_empty());
        assert!(gone("Bound", "kubectl").is_empty());
        let pod = |deleting| move |commit: &mut Commit| commit.pod = Some(Box::new(Pod { deleting, ..Pod::default() }));
        let gone = |deleting, user| removals(&[("pods", "default/web", user, EventType::Deleted, &pod(deleting))]);
        assert_eq!(gone(false, "kubelet"), ["pod/default/web was removed by a kubelet, and was not deleted"]);
        assert!(gone(true, "kubelet").is_empty());
        assert!(gone(false, "kubectl").is_empty());
        // A deletion without grace marks the pod first.
        let marked = |user| {
            removals(&[
                ("pods", "default/web", "me", EventType::Added, &pod(false)),
                ("pods", "default/web", user, EventType::Modified, &pod(true)),
                ("pods", "default/web", "kubelet", EventType::Deleted, &pod(true)),
            ])
        };
        assert_eq!(marked("kubelet"), ["pod/default/web was removed by a kubelet, and was not deleted"]);
        assert!(marked("kubectl").is_empty());
    }

    #[test]
    fn a_volume_that_nothing_wants_is_deleted() {
        for (phase, of_volume) in [
            (None, "Bound"),
            (Some("Succeeded"), "Bound"),
            (Some("Pending"), "Bound"),
            // The claim was created again under its name, and has another volume.
            (Some("Running"), "Released"),
        ] {
            assert!(violations(None, phase, of_volume).is_empty(), "{phase:?} {of_volume}");
        }
    }

    /// Returns the violations of a run in which a VolumeAttachment is `after` seconds old when its volume is deleted, and a
    /// claim has its class for as long when the class is removed.
    fn after(seconds: u64, fault: Option<&'static str>, claim: &Spec) -> Vec<String> {
        let events = simulate(Options::default(), async |world| {
            let commit = |resource: &str, object: &str, r#type, say: &dyn Fn(&mut Commit)| {
                let mut commit = Commit::new(resource, object, 1, r#type);
                commit.user = "kube-controller-manager/v1 vac-protection-controller".into();
                say(&mut commit);
                world.trace().info(&"fake-apiserver".into(), commit);
            };
            commit("persistentvolumes", "pv-1", EventType::Added, &|commit| {
                let (handle, phase) = (Some(VOLUME.into()), Some("Released".into()));
                commit.pv = Some(Box::new(Volume { handle, phase, ..Volume::default() }));
            });
            commit("volumeattachments", "csi-1", EventType::Added, &|commit| {
                let pv = Some("pv-1".into());
                commit.volumeattachment = Some(Box::new(Attachment { attached: true, pv, ..Attachment::default() }));
            });
            commit("persistentvolumeclaims", "default/data", EventType::Added, &|commit| {
                commit.pvc = Some(Box::default());
                commit.spec = Some(Box::new(claim.clone()));
            });
            if let Some(op) = fault {
                let mut fired = FaultFired::new("f", "get", substrate::fault::Effect::DropReply(true));
                fired.op = op.into();
                world.trace().info(&"fake-apiserver".into(), fired);
            }
            world.clock().sleep_until(std::time::Duration::from_secs(seconds)).await;
            let call = CsiCall { volume: Some(VOLUME.into()), ..CsiCall::new("DeleteVolume", 1) };
            world.trace().info(&"csi-controller".into(), call);
            commit("volumeattributesclasses", "gold", EventType::Deleted, &|_| ());
            world.trace().events()
        });
        let invariants = Invariants::new(TimeScale::default());
        events.iter().for_each(|event| invariants.observe(event));
        let all = invariants.violations().into_iter().filter(|violation| violation.id == "I11");
        all.map(|violation| violation.message).collect()
    }

    #[test]
    fn an_attached_volume_and_a_class_in_use_stay() {
        let deleted = format!("DeleteVolume was called for {VOLUME} while volumeattachment/csi-1 exists");
        let removed = |how: &str| format!("volumeattributesclass/gold was removed while pvc/default/data {how}");
        let gold = || Some("gold".into());
        let asks = Spec { attributes_class: gold(), ..Spec::default() };
        assert_eq!(after(61, None, &asks), [deleted.clone(), removed("has it")]);
        assert!(after(10, None, &asks).is_empty(), "a cache may not have the objects yet");
        assert!(after(61, Some("watch"), &asks).is_empty(), "a watch may be late");
        let (attributes_class, target_attributes_class) = (Some("silver".into()), gold());
        let gets = Spec { attributes_class, target_attributes_class, ..Spec::default() };
        assert_eq!(after(61, None, &gets), [deleted, removed("is on the way to it")]);
    }
}
