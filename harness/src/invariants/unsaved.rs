//! Volumes that no provisioner knows.
//!
//! Until its PersistentVolume is saved, a new volume has no record. If a provisioner ends before that and finds no
//! claim after its restart, it does not continue, like upstream's, even if the cloud creates the volume later. The same
//! happens if the driver has created the volume and answered with an error that denies it, and the claim is then
//! deleted.

use std::collections::{BTreeMap, BTreeSet};

use csi_mock::events::{CsiCall, CsiDone};
use mock_ec2::events::{VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::{ProcessCrashed, ProcessStarted};

/// The process that creates volumes; a second replica has a number after its name.
const PROVISIONER: &str = "csi-provisioner";

/// Codes after which a provisioner assumes that the volume may still be created, and asks again (external-provisioner,
/// `checkError`).
const IN_BACKGROUND: [&str; 4] = ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED"];

/// Volumes of the cloud.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    /// For each volume, true if a provisioner has restarted since its creation.
    restarted: BTreeMap<String, bool>,
    /// Volumes that the driver has created, although it answered that it had not.
    denied: BTreeSet<String>,
    /// Open CreateVolume calls, by process and ordinal.
    open: BTreeSet<(String, u64)>,
    /// Number of abandoned calls: the cloud may still create a volume for each.
    given_up: usize,
    /// Number of calls that were open or abandoned when a provisioner restarted, and that have not created a volume
    /// since.
    lost: usize,
}

impl Unsaved {
    /// Records an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(VolumeChanged { volume, state: VolumePhase::Creating, .. }) = event.get() {
            let is_lost = self.lost > 0;
            if self.open.is_empty() {
                (self.lost, self.given_up) = (self.lost.saturating_sub(1), self.given_up.saturating_sub(1));
            }
            *self.restarted.entry(volume.to_string()).or_default() |= is_lost;
        } else if event.process.starts_with(PROVISIONER)
            && event.get::<ProcessStarted>().is_some_and(|started| started.incarnation > 1)
        {
            self.restarted.values_mut().for_each(|restarted| *restarted = true);
            self.lost = self.open.len() + self.given_up;
        } else if event.is::<ProcessStarted>() || event.is::<ProcessCrashed>() {
            let before = self.open.len();
            self.open.retain(|(process, _)| *process != *event.process);
            self.given_up += before - self.open.len();
        } else if let Some(CsiCall { rpc, ordinal, .. }) = event.get() {
            if &**rpc == "CreateVolume" {
                self.open.insert((event.process.to_string(), *ordinal));
            }
        } else if let Some(done) = event.get::<CsiDone>().filter(|done| &*done.rpc == "CreateVolume") {
            self.on_done(&event.process, done);
        }
    }

    fn on_done(&mut self, process: &str, done: &CsiDone) {
        self.open.remove(&(process.to_owned(), done.ordinal));
        let volume = done.volume.as_deref();
        if done.code == "OK" {
            // An abandoned request was repeated under the same name.
            self.given_up = self.given_up.saturating_sub(1);
            volume.map(|volume| self.denied.remove(volume));
            // The current provisioner knows the volume: while its claim exists, upstream asks again after a start, and
            // gets the volume by its name.
            if let Some(restarted) = volume.and_then(|volume| self.restarted.get_mut(volume)) {
                *restarted = false;
            }
        } else if IN_BACKGROUND.contains(&&*done.code) {
            self.given_up += usize::from(volume.is_none());
            volume.map(|volume| self.denied.remove(volume));
        } else {
            self.denied.extend(volume.map(str::to_owned));
        }
    }

    /// Returns the volumes after whose creation a provisioner restarted.
    pub fn restarted(&self) -> impl Iterator<Item = &String> {
        self.restarted.iter().filter(|(_, restarted)| **restarted).map(|(volume, _)| volume)
    }

    /// Returns the reason why no provisioner knows `volume`, if none does and the reason is known.
    pub fn why(&self, volume: &str) -> Option<&'static str> {
        if self.restarted.get(volume).copied().unwrap_or_default() {
            return Some("provisionerRestartedSinceMade");
        }
        self.denied.contains(volume).then_some("madeByFailedCall")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use substrate::clock::TimeScale;
    use substrate::{Clock, Level, Trace};

    use super::*;
    use crate::invariants::{Invariants, Leftovers, declared};

    const VOLUME: &str = "vol-0123456789abcdef0";

    fn made() -> VolumeChanged {
        VolumeChanged::new(VOLUME.parse().unwrap(), VolumePhase::Creating, "us-east-1a", 1)
    }

    /// Returns the declared deviation of the volume that is left if the provisioner started this often before and after
    /// its creation.
    fn declared_after(before: u32, after: u32) -> Option<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let provisioner: Arc<str> = PROVISIONER.into();
        (1..=before).for_each(|incarnation| trace.info(&provisioner, ProcessStarted { incarnation }));
        trace.info(&"mock-ec2".into(), made());
        let then = before + 1..=before + after;
        then.for_each(|incarnation| trace.info(&provisioner, ProcessStarted { incarnation }));
        let invariants = Invariants::new(TimeScale::default());
        trace.events().iter().for_each(|event| invariants.observe(event));
        invariants.at_end(&Leftovers { cloud_volumes: vec![VOLUME.to_owned()], ..Leftovers::default() });
        let violations = invariants.violations();
        let found = violations.iter().find(|v| v.id == "I5").unwrap();
        assert_eq!(found.message, format!("a cloud volume is left over: {VOLUME}"));
        let known = declared::all().unwrap();
        known.iter().find(|deviation| deviation.is(found).unwrap()).map(|deviation| deviation.id.clone())
    }

    #[test]
    fn a_volume_that_the_cloud_makes_after_the_provisioner_has_gone_is_unknown_to_the_next() {
        let why = |answered: bool| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let driver: Arc<str> = "csi-controller".into();
            let call = CsiCall {
                caller: None,
                rpc: "CreateVolume".into(),
                volume: None,
                node: None,
                ordinal: 1,
                target: None,
                stages_nothing: false,
            };
            trace.info(&driver, call);
            if answered {
                let (rpc, code) = ("CreateVolume".into(), "INTERNAL".into());
                trace.info(
                    &driver,
                    CsiDone { rpc, volume: None, node: None, ordinal: 1, code, took_ms: 1, message: None },
                );
            }
            trace.info(&PROVISIONER.into(), ProcessStarted { incarnation: 2 });
            trace.info(&"mock-ec2".into(), made());
            let mut unsaved = Unsaved::default();
            trace.events().iter().for_each(|event| unsaved.observe(event));
            unsaved.why(VOLUME)
        };
        assert_eq!(why(false), Some("provisionerRestartedSinceMade"));
        assert_eq!(why(true), None, "nothing was under way");
    }

    #[test]
    fn what_a_driver_has_made_and_denies_is_told_until_it_says_that_it_is_there() {
        let done = |code: &str| CsiDone {
            rpc: "CreateVolume".into(),
            volume: Some(VOLUME.into()),
            node: None,
            ordinal: 1,
            code: code.to_owned().into(),
            took_ms: 1,
            message: None,
        };
        let why = |codes: &[&str]| {
            let trace = Trace::new(Clock::live(), Level::Info);
            codes.iter().for_each(|code| trace.info(&"csi-controller".into(), done(code)));
            let mut unsaved = Unsaved::default();
            trace.events().iter().for_each(|event| unsaved.observe(event));
            unsaved.why(VOLUME)
        };
        assert_eq!(why(&["INTERNAL"]), Some("madeByFailedCall"));
        assert_eq!(why(&["UNAVAILABLE"]), None, "the provisioner asks again");
        assert_eq!(why(&["INTERNAL", "OK"]), None);
    }

    #[test]
    fn a_provisioner_that_was_told_of_a_volume_after_its_start_is_not_excused() {
        let why = |told: bool, restarts: bool| {
            let trace = Trace::new(Clock::live(), Level::Info);
            let start = |incarnation: u32| trace.info(&PROVISIONER.into(), ProcessStarted { incarnation });
            start(1);
            trace.info(&"mock-ec2".into(), made());
            start(2);
            if told {
                let (rpc, volume, code) = ("CreateVolume".into(), Some(VOLUME.into()), "OK".into());
                let done = CsiDone { rpc, volume, node: None, ordinal: 1, code, took_ms: 1, message: None };
                trace.info(&"csi-controller".into(), done);
            }
            if restarts {
                start(3);
            }
            let mut unsaved = Unsaved::default();
            trace.events().iter().for_each(|event| unsaved.observe(event));
            unsaved.why(VOLUME)
        };
        assert_eq!(why(false, false), Some("provisionerRestartedSinceMade"));
        assert_eq!(why(true, false), None);
        assert_eq!(why(true, true), Some("provisionerRestartedSinceMade"));
    }

    #[test]
    fn a_provisioner_that_starts_anew_forgets_a_volume_without_a_persistent_volume() {
        assert_eq!(declared_after(1, 1).as_deref(), Some("provisioner-forgets-volume-in-progress"));
        assert_eq!(declared_after(1, 0), None);
        assert_eq!(declared_after(2, 0), None);
    }
}
