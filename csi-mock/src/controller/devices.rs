//! Allocation of device names. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time that a name refused by the cloud is avoided (EBS driver, likely bad device names: 1 h).
const AVOIDED: Duration = Duration::from_secs(3600);

/// Iterates over the 127 names of the EBS driver, in their allocation order.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let two = |first: char, last: char| ('a'..=last).map(move |c| format!("/dev/xvd{first}{c}"));
    let one = |prefix: &'static str| ('b'..='z').map(move |c| format!("{prefix}{c}"));
    two('a', 'z')
        .chain(two('b', 'z'))
        .chain(two('d', 'x'))
        .chain(one("/dev/xvd"))
        .chain(one("/dev/sd"))
        .chain(std::iter::once("/dev/sda2".to_owned()))
}

/// Returns the slot of a name: `sdX` and `xvdX` are one slot.
fn slot(name: &str) -> &str {
    let name = name.strip_prefix("/dev/").unwrap_or(name);
    name.strip_prefix("xvd").or_else(|| name.strip_prefix("sd")).unwrap_or(name)
}

/// Names in flight and names that the cloud refused, by instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Counter of instance reads and released names.
    events: u64,
    in_flight: BTreeMap<String, BTreeMap<String, String>>,
    /// Last release of each name: an earlier read does not list its attachment yet. Such a read may still be under way
    /// when a later one has allocated, so no entry is dropped.
    released: BTreeMap<String, BTreeMap<String, Released>>,
    likely_bad: BTreeMap<String, BTreeMap<String, Duration>>,
}

/// Release of a name.
#[derive(Clone, Copy, Debug)]
struct Released {
    /// Value of [`Names::events`] at the release.
    event: u64,
    /// The cloud listed the attachment.
    attached: bool,
}

/// Reason why a volume gets no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The instance has as many volumes as it may.
    Full,
    /// No name is left.
    NoName,
}

impl Names {
    /// Starts a read of an instance; its number goes to [`Names::allocate`] with the result.
    pub fn look(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    /// Allocates a name like [`Names::allocate`], if volumes that the read does not list leave one of the `room` volumes
    /// that the instance takes beside the listed ones. Without `room` the cloud alone decides.
    ///
    /// # Errors
    /// There is no room, or no name.
    pub fn reserve(
        &mut self,
        now: Duration,
        instance: &str,
        volume: &str,
        read: (u64, &[String]),
        room: Option<usize>,
    ) -> Result<String, Refused> {
        if room.is_some_and(|room| self.unlisted(instance, volume, read) >= room) {
            return Err(Refused::Full);
        }
        self.allocate(now, instance, volume, read).ok_or(Refused::NoName)
    }

    /// Allocates the lowest free name for `volume` on `instance`. A volume keeps its name in flight, so that a name
    /// after a half-failed attach stays reserved. Refused names come last.
    fn allocate(
        &mut self,
        now: Duration,
        instance: &str,
        volume: &str,
        (look, used): (u64, &[String]),
    ) -> Option<String> {
        let bad = self.likely_bad.entry(instance.to_owned()).or_default();
        bad.retain(|_, since| now.saturating_sub(*since) < AVOIDED);
        let flying = self.in_flight.entry(instance.to_owned()).or_default();
        if let Some((name, _)) = flying.iter().find(|(name, v)| *v == volume && !bad.contains_key(*name))
            && !used.iter().any(|u| slot(u) == slot(name))
        {
            return Some(name.clone());
        }
        let released = self.released.get(instance).into_iter().flatten();
        let since = released.filter(|(_, release)| release.event > look).map(|(name, _)| name);
        let known = used.iter().chain(flying.keys()).chain(since);
        let taken: BTreeSet<&str> = known.map(|n| slot(n)).collect();
        let free = || names().filter(|n| !taken.contains(slot(n)));
        let name = free().find(|n| !bad.contains_key(n)).or_else(|| free().next())?;
        flying.insert(name.clone(), volume.to_owned());
        Some(name)
    }

    /// Counts volumes other than `volume` that the read `look` of `instance` does not list under the names `used`: those
    /// in flight, and those attached since the read.
    fn unlisted(&self, instance: &str, volume: &str, (look, used): (u64, &[String])) -> usize {
        let flying = self.in_flight.get(instance).into_iter().flatten();
        let flying = flying.filter(|(_, v)| *v != volume).map(|(name, _)| name);
        let released = self.released.get(instance).into_iter().flatten();
        let attached = released.filter(|(_, release)| release.attached && release.event > look).map(|(name, _)| name);
        let slots: BTreeSet<&str> = flying.chain(attached).map(|name| slot(name)).collect();
        slots.into_iter().filter(|taken| !used.iter().any(|name| slot(name) == *taken)).count()
    }

    /// Releases the name of a volume that the cloud lists as attached.
    pub fn attached(&mut self, instance: &str, volume: &str) {
        self.free(instance, volume, true);
    }

    /// Releases the name of a volume that will not be attached.
    pub fn release(&mut self, instance: &str, volume: &str) {
        self.free(instance, volume, false);
    }

    fn free(&mut self, instance: &str, volume: &str, attached: bool) {
        self.events += 1;
        let release = Released { event: self.events, attached };
        let Some(flying) = self.in_flight.get_mut(instance) else { return };
        let released = self.released.entry(instance.to_owned()).or_default();
        flying.retain(|name, v| {
            if v == volume {
                released.insert(name.clone(), release);
            }
            v != volume
        });
    }

    /// Records that the cloud refused a name as in use although it is not listed.
    pub fn refuse(&mut self, now: Duration, instance: &str, name: &str) {
        if let Some(flying) = self.in_flight.get_mut(instance) {
            flying.remove(name);
        }
        self.likely_bad.entry(instance.to_owned()).or_default().insert(name.to_owned(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_127_names_and_they_begin_with_xvdaa() {
        let all: Vec<_> = names().collect();
        assert_eq!((all.len(), &*all[0], &*all[126]), (127, "/dev/xvdaa", "/dev/sda2"));
        assert!(!all.iter().any(|n| n.starts_with("/dev/xvdc") && n.len() == 10));
    }

    #[test]
    fn the_lowest_free_name_is_taken_and_names_in_flight_are_not_free() {
        let mut names = Names::default();
        let now = Duration::ZERO;
        assert_eq!(names.allocate(now, "i", "v1", (9, &["/dev/xvdaa".into()])).unwrap(), "/dev/xvdab");
        assert_eq!(names.allocate(now, "i", "v2", (9, &["/dev/xvdaa".into()])).unwrap(), "/dev/xvdac");
        assert_eq!(names.allocate(now, "i", "v1", (9, &["/dev/xvdaa".into()])).unwrap(), "/dev/xvdab");
        assert_eq!(names.allocate(now, "other", "v3", (9, &[])).unwrap(), "/dev/xvdaa");
        names.release("i", "v1");
        assert_eq!(names.allocate(now, "i", "v4", (9, &[])).unwrap(), "/dev/xvdaa");
    }

    #[test]
    fn a_name_that_was_given_back_during_a_look_is_not_free_for_who_looked() {
        let mut names = Names::default();
        let now = Duration::ZERO;
        let (early, late) = (names.look(), names.look());
        assert_eq!(names.allocate(now, "i", "v1", (late, &[])).unwrap(), "/dev/xvdaa");
        names.release("i", "v1");
        assert_eq!(names.allocate(now, "i", "v2", (early, &[])).unwrap(), "/dev/xvdab", "attached meanwhile");
        let after = names.look();
        assert_eq!(names.allocate(now, "i", "v3", (after, &[])).unwrap(), "/dev/xvdaa", "detached meanwhile");
    }

    #[test]
    fn a_later_look_does_not_hide_what_an_earlier_one_missed() {
        let mut names = Names::default();
        let (now, early, used) = (Duration::ZERO, names.look(), ["/dev/xvdaa".to_owned()]);
        names.allocate(now, "i", "v1", (early, &[])).unwrap();
        names.attached("i", "v1");
        let late = names.look();
        assert_eq!(names.allocate(now, "i", "v2", (late, &used)).unwrap(), "/dev/xvdab");
        assert_eq!(names.unlisted("i", "v3", (early, &[])), 2);
        assert_eq!(names.allocate(now, "i", "v3", (early, &[])).unwrap(), "/dev/xvdac");
    }

    #[test]
    fn a_volume_attached_during_a_look_counts_for_who_looked() {
        let mut names = Names::default();
        let (early, used) = (names.look(), ["/dev/xvdaa".to_owned()]);
        names.allocate(Duration::ZERO, "i", "v1", (early, &[])).unwrap();
        names.allocate(Duration::ZERO, "i", "v2", (early, &[])).unwrap();
        assert_eq!(names.unlisted("i", "v3", (early, &[])), 2, "both in flight");
        assert_eq!(names.unlisted("i", "v2", (early, &[])), 1, "itself does not count");
        names.attached("i", "v1");
        assert_eq!(names.unlisted("i", "v3", (early, &[])), 2, "the early look does not list v1");
        assert_eq!(names.unlisted("i", "v3", (early, &used)), 1);
        let late = names.look();
        assert_eq!(names.unlisted("i", "v3", (late, &[])), 1, "v1 was detached before the late look");
        names.release("i", "v2");
        assert_eq!(names.unlisted("i", "v3", (early, &used)), 0, "v2 was refused");
    }

    #[test]
    fn the_last_place_is_given_once() {
        let mut names = Names::default();
        let (one, other, used) = (names.look(), names.look(), ["/dev/xvdaa".to_owned()]);
        let mut reserve = |volume, look| names.reserve(Duration::ZERO, "i", volume, (look, &used), Some(1));
        assert_eq!(reserve("v1", one), Ok("/dev/xvdab".to_owned()));
        assert_eq!(reserve("v2", other), Err(Refused::Full), "both looked before");
        assert_eq!(reserve("v1", other), Ok("/dev/xvdab".to_owned()), "again");
        let all: Vec<_> = super::names().collect();
        assert_eq!(names.reserve(Duration::ZERO, "j", "v", (9, &all), None), Err(Refused::NoName));
    }

    #[test]
    fn a_refused_name_is_avoided_for_an_hour() {
        let mut names = Names::default();
        let first = names.allocate(Duration::ZERO, "i", "v", (9, &[])).unwrap();
        names.refuse(Duration::ZERO, "i", &first);
        assert_eq!(names.allocate(Duration::ZERO, "i", "v", (9, &[])).unwrap(), "/dev/xvdab");
        names.release("i", "v");
        assert_eq!(names.allocate(AVOIDED, "i", "v", (9, &[])).unwrap(), "/dev/xvdaa");
    }

    #[test]
    fn both_spellings_of_a_slot_are_one_name() {
        let used: Vec<_> = names().filter(|n| !n.starts_with("/dev/sd")).collect();
        assert_eq!(Names::default().allocate(Duration::ZERO, "i", "v", (9, &used)).unwrap(), "/dev/sda2");
    }
}
