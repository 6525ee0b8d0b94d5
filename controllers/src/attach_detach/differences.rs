//! Differences between desired and actual state, and the reconciler's work list of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::volume::VolumeOnNode;

/// Reason for a difference to wait, besides events of its volume or its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Wait for such an event only.
    Event,
    /// Wait until a monotonic time.
    Until(Duration),
}

/// Volumes on nodes whose desired and actual state differ. Some entries may be equal.
///
/// After a node failure most entries wait for minutes. A pass does not check waiting entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Differences {
    awake: BTreeSet<VolumeOnNode>,
    asleep: BTreeMap<VolumeOnNode, Wait>,
    alarms: BTreeSet<(Duration, VolumeOnNode)>,
}

impl Differences {
    /// Wakes all entries of a volume after an event of it on a node.
    pub fn touch(&mut self, place: VolumeOnNode) {
        self.wake_volume(&place.0);
        self.awake.insert(place);
    }

    /// Wakes all entries of a volume after an event of it.
    pub fn wake_volume(&mut self, volume: &str) {
        let first = (volume.to_owned(), String::new());
        let places = self.asleep.range(first..).map(|(place, _)| place).take_while(|(of, _)| of == volume);
        for place in places.cloned().collect::<Vec<_>>() {
            self.wake(place);
        }
    }

    /// Wakes all entries of a node after an event of it.
    pub fn wake_node(&mut self, node: &str) {
        let places = self.asleep.keys().filter(|(_, on)| on == node);
        for place in places.cloned().collect::<Vec<_>>() {
            self.wake(place);
        }
    }

    /// Wakes the entries whose wait is over.
    pub fn wake_due(&mut self, now: Duration) {
        while let Some((at, place)) = self.alarms.first()
            && *at <= now
        {
            let place = place.clone();
            self.wake(place);
        }
    }

    fn wake(&mut self, place: VolumeOnNode) {
        if let Some(Wait::Until(at)) = self.asleep.remove(&place) {
            self.alarms.remove(&(at, place.clone()));
        }
        self.awake.insert(place);
    }

    /// Returns the entries to check, by volume and node.
    pub fn awake(&self) -> impl Iterator<Item = &VolumeOnNode> {
        self.awake.iter()
    }

    /// Drops the awake entries for which `is_one` is false.
    pub fn retain(&mut self, is_one: impl FnMut(&VolumeOnNode) -> bool) {
        self.awake.retain(is_one);
    }

    /// Puts the awake entries that have a reason to wait to sleep.
    pub fn settle(&mut self, waits: impl Fn(&VolumeOnNode) -> Option<Wait>) {
        for place in std::mem::take(&mut self.awake) {
            match waits(&place) {
                None => {
                    self.awake.insert(place);
                }
                Some(wait) => {
                    if let Wait::Until(at) = wait {
                        self.alarms.insert((at, place.clone()));
                    }
                    self.asleep.insert(place, wait);
                }
            }
        }
    }

    /// Returns the earliest time for which an entry waits.
    pub fn next(&self) -> Option<Duration> {
        self.alarms.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn place(volume: &str, node: &str) -> VolumeOnNode {
        (volume.to_owned(), node.to_owned())
    }

    fn awake(differences: &Differences) -> Vec<VolumeOnNode> {
        differences.awake().cloned().collect()
    }

    /// Builds three waiting entries, one of them with a time.
    fn asleep() -> Differences {
        let mut all = Differences::default();
        for (volume, node) in [("v", "a"), ("v", "b"), ("w", "a")] {
            all.touch(place(volume, node));
        }
        all.settle(|(volume, _)| Some(if volume == "w" { Wait::Until(S(5)) } else { Wait::Event }));
        assert!(awake(&all).is_empty());
        all
    }

    #[test]
    fn a_touched_volume_is_looked_at_on_all_its_nodes() {
        let mut all = asleep();
        all.touch(place("v", "c"));
        assert_eq!(awake(&all), [place("v", "a"), place("v", "b"), place("v", "c")]);
    }

    #[test]
    fn a_node_wakes_its_volumes() {
        let mut all = asleep();
        all.wake_node("a");
        assert_eq!(awake(&all), [place("v", "a"), place("w", "a")]);
        assert_eq!(all.next(), None, "what was woken waits for no time");
    }

    #[test]
    fn time_wakes_at_the_instant_and_not_before() {
        let mut all = asleep();
        assert_eq!(all.next(), Some(S(5)));
        all.wake_due(S(5) - Duration::from_nanos(1));
        assert!(awake(&all).is_empty());
        all.wake_due(S(5));
        assert_eq!((awake(&all), all.next()), (vec![place("w", "a")], None));
    }

    #[test]
    fn a_settled_place_is_planned_again_and_an_absent_one_is_forgotten() {
        let mut all = asleep();
        all.touch(place("x", "a"));
        all.settle(|_| None);
        assert_eq!(awake(&all), [place("x", "a")]);
        all.retain(|_| false);
        assert!(awake(&all).is_empty());
    }
}
