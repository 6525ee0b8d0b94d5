//! I11: volumes live as long as was asked. No driver deletes a volume that its PersistentVolume keeps (reclaim policy
//! Retain), or with which a pod runs. An occasion is a driver that is asked to delete a volume, or a claim that goes while
//! its volume is kept.
//!
//! It does not ask whether a volume that nothing keeps is deleted in the end: that is I5.

use csi_mock::events::CsiCall;
use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use substrate::Event;

use super::facts::Facts;
use super::{Checked, Found, Id};

/// Looks at an event, with what was known before it.
pub(super) fn check(facts: &Facts, checked: &mut Checked, event: &Event) -> Option<Found> {
    if let Some(commit) = event.get::<Commit>() {
        let is_gone = commit.resource == "persistentvolumeclaims" && commit.r#type == EventType::Deleted;
        let kept = |claim: &str| facts.handle_of_claim(claim).is_some_and(|volume| facts.is_kept(volume));
        checked.add(Id::I11, u64::from(is_gone && kept(&commit.object)));
        return None;
    }
    let call = event.get::<CsiCall>().filter(|call| call.rpc == "DeleteVolume")?;
    let volume = call.volume.as_deref()?;
    checked.add(Id::I11, 1);
    let why = if facts.is_kept(volume) {
        "although its PersistentVolume has the reclaim policy Retain".to_owned()
    } else {
        format!("while pod {} runs with it", facts.running_with(volume)?)
    };
    let message = format!("DeleteVolume was called for {volume} {why}");
    let volume = Some(volume.to_owned());
    Some(Found { message, operation: "DeleteVolume".to_owned(), volume, ..Found::default() })
}

#[cfg(test)]
mod tests {
    use fake_apiserver::events::{Pod, Volume};
    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::Invariants;

    const VOLUME: &str = "vol-0123456789abcdef0";

    /// The violations of a run in which a driver is asked to delete a volume with this reclaim policy. A pod with the claim
    /// of that name is in this phase, and the volume itself in the other.
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
        let call = CsiCall {
            caller: None,
            rpc: "DeleteVolume".into(),
            volume: Some(VOLUME.into()),
            node: None,
            target: None,
            ordinal: 1,
            stages_nothing: false,
        };
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

    #[test]
    fn a_volume_that_nothing_wants_is_deleted() {
        for (phase, of_volume) in [
            (None, "Bound"),
            (Some("Succeeded"), "Bound"),
            (Some("Pending"), "Bound"),
            // The claim was made again under its name, and has another volume.
            (Some("Running"), "Released"),
        ] {
            assert!(violations(None, phase, of_volume).is_empty(), "{phase:?} {of_volume}");
        }
    }
}
