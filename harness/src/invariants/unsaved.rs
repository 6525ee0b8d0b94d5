//! Volumes of which a provisioner does not know that was started anew.
//!
//! Nothing records that a volume is being made until its PersistentVolume is saved. A provisioner that ends before that and
//! finds no claim when it is back does not go on, as upstream's does not.

use std::collections::BTreeMap;

use mock_ec2::events::{VolumeChanged, VolumePhase};
use substrate::Event;
use substrate::events::ProcessStarted;

/// The process that makes volumes; a second replica has a number behind its name.
const PROVISIONER: &str = "csi-provisioner";

/// The volumes of the cloud, and whether a provisioner was started anew since each was made.
#[derive(Debug, Default)]
pub(super) struct Unsaved(BTreeMap<String, bool>);

impl Unsaved {
    /// Takes in an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(VolumeChanged { volume, state: VolumePhase::Creating, .. }) = event.get() {
            self.0.entry(volume.to_string()).or_default();
        } else if event.process.starts_with(PROVISIONER)
            && event.get::<ProcessStarted>().is_some_and(|started| started.incarnation > 1)
        {
            self.0.values_mut().for_each(|restarted| *restarted = true);
        }
    }

    /// The volumes since which a provisioner was started anew.
    pub fn restarted(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter(|(_, restarted)| **restarted).map(|(volume, _)| volume)
    }

    /// Whether a provisioner was started anew since `volume` was made.
    pub fn restarted_since(&self, volume: &str) -> bool {
        self.0.get(volume).copied().unwrap_or_default()
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

    /// As which deviation the volume counts that is left when the provisioner was started as often before it was made, and
    /// after that.
    fn declared_after(before: u32, after: u32) -> Option<String> {
        let trace = Trace::new(Clock::live(), Level::Info);
        let provisioner: Arc<str> = PROVISIONER.into();
        (1..=before).for_each(|incarnation| trace.info(&provisioner, ProcessStarted { incarnation }));
        let (volume, zone) = (VOLUME.parse().unwrap(), "us-east-1a".into());
        let state = VolumePhase::Creating;
        let made = VolumeChanged { volume, state, zone, size_gib: 1, multi_attach: false, snapshot: None };
        trace.info(&"mock-ec2".into(), made);
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
    fn a_provisioner_that_starts_anew_forgets_a_volume_without_a_persistent_volume() {
        assert_eq!(declared_after(1, 1).as_deref(), Some("provisioner-forgets-volume-in-progress"));
        assert_eq!(declared_after(1, 0), None);
        assert_eq!(declared_after(2, 0), None);
    }
}
