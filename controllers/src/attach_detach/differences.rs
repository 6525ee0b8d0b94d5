//! Where the two worlds differ, and what of it has to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::volume::VolumeOnNode;

/// What a difference waits for, besides something that happens to its volume or its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// For nothing else.
    Event,
    /// For a monotonic time.
    Until(Duration),
}

/// The volumes on nodes where the two worlds differ, and perhaps some where they do not.
///
/// When a node is gone most of them wait, for minutes, while others come and go: what waits is not looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Differences {
    awake: BTreeSet<VolumeOnNode>,
    asleep: BTreeMap<VolumeOnNode, Wait>,
    alarms: BTreeSet<(Duration, VolumeOnNode)>,
}

impl Differences {
    /// Something happened to a volume on a node: all that is known of that volume is looked at.
    pub fn touch(&mut self, place: VolumeOnNode) {
        self.wake_volume(&place.0);
        self.awake.insert(place);
    }

    /// Something happened to a volume, wherever it is.
    pub fn wake_volume(&mut self, volume: &str) {
        let first = (volume.to_owned(), String::new());
        let places = self.asleep.range(first..).map(|(place, _)| place).take_while(|(of, _)| of == volume);
        for place in places.cloned().collect::<Vec<_>>() {
            self.wake(place);
        }
    }

    /// Something happened to a node.
    pub fn wake_node(&mut self, node: &str) {
        let places = self.asleep.keys().filter(|(_, on)| on == node);
        for place in places.cloned().collect::<Vec<_>>() {
            self.wake(place);
        }
    }

    /// Wakes what waits for a time that has come.
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

    /// What has to be looked at, by volume and node.
    pub fn awake(&self) -> impl Iterator<Item = &VolumeOnNode> {
        self.awake.iter()
    }

    /// Forgets those of the awake that are none.
    pub fn retain(&mut self, is_one: impl FnMut(&VolumeOnNode) -> bool) {
        self.awake.retain(is_one);
    }

    /// Has those of the awake sleep that wait for something.
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

    /// The first time that something waits for.
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

    /// Three that wait: one of them for a time.
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
    fn what_waits_for_nothing_is_looked_at_again_and_what_is_none_is_forgotten() {
        let mut all = asleep();
        all.touch(place("x", "a"));
        all.settle(|_| None);
        assert_eq!(awake(&all), [place("x", "a")]);
        all.retain(|_| false);
        assert!(awake(&all).is_empty());
    }
}
