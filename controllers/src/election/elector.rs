//! One replica's knowledge of a lease, and its next action (`tryAcquireOrRenew`).

use std::time::Duration;

use substrate::clock::Now;

use super::record::Record;

/// Action on a record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The record does not exist: create it.
    Create(Record),
    /// Replace it with this.
    Update(Record),
    /// Another replica leads.
    Wait,
}

/// Replica that leads or wants to.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    seconds: i32,
    /// Length of a second in this world.
    second: Duration,
    observed: Record,
    /// Monotonic time at which `observed` was first seen, or written by this replica.
    observed_at: Duration,
    /// Record at the last read.
    read: Option<Record>,
}

impl Elector {
    /// Creates a replica that has not read the lease yet. Its lease lasts `seconds`; `second` is the length of a second
    /// after `time-scale`.
    pub fn new(identity: impl Into<String>, seconds: i32, second: Duration) -> Self {
        Self {
            identity: identity.into(),
            seconds,
            second,
            observed: Record::default(),
            observed_at: Duration::ZERO,
            read: None,
        }
    }

    /// Returns the replica's name in the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns true if it believes that it leads.
    pub fn is_leader(&self) -> bool {
        self.observed.holder == self.identity
    }

    /// Returns the number of leader changes that it knows.
    pub fn transitions(&self) -> i32 {
        self.observed.transitions
    }

    fn is_valid(&self, mono: Duration) -> bool {
        let seconds = u32::try_from(self.observed.seconds).unwrap_or_default();
        self.observed_at + self.second * seconds > mono
    }

    fn fresh(&self, now: Now) -> Record {
        Record {
            holder: self.identity.clone(),
            seconds: self.seconds,
            acquired: now.wall,
            renewed: now.wall,
            transitions: 0,
        }
    }

    /// Returns the record that a leader writes without a read, as long as its own lease is valid.
    pub fn renewal(&self, now: Now) -> Option<Record> {
        let Record { acquired, transitions, .. } = self.observed;
        (self.is_leader() && self.is_valid(now.mono)).then(|| Record { acquired, transitions, ..self.fresh(now) })
    }

    /// Returns the action on the record `found` at the monotonic time `read_at`, in an attempt that started at `now`.
    pub fn decide(&mut self, now: Now, read_at: Duration, found: Option<&Record>) -> Action {
        let Some(found) = found else { return Action::Create(self.fresh(now)) };
        if self.read.as_ref() != Some(found) {
            self.read = Some(found.clone());
            self.observed = found.clone();
            self.observed_at = read_at;
        }
        if !found.holder.is_empty() && self.is_valid(now.mono) && !self.is_leader() {
            return Action::Wait;
        }
        let mut next = self.fresh(now);
        if self.is_leader() {
            next.acquired = found.acquired;
            next.transitions = found.transitions;
        } else {
            next.transitions = found.transitions.saturating_add(1);
        }
        Action::Update(next)
    }

    /// Records that the server accepted `record`; the answer came at the monotonic time `at`.
    pub fn written(&mut self, at: Duration, record: Record) {
        self.observed = record;
        self.observed_at = at;
    }

    /// Returns the record that releases the lease.
    pub fn release(&self, now: Now, found: &Record) -> Record {
        Record { holder: String::new(), seconds: 1, transitions: found.transitions, ..self.fresh(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn elector(identity: &str) -> Elector {
        Elector::new(identity, 15, S(1))
    }

    fn at(seconds: u64) -> Now {
        Now::at(S(seconds))
    }

    /// Returns the record of an update at `seconds`.
    fn update(elector: &mut Elector, seconds: u64, found: &Record) -> Record {
        match elector.decide(at(seconds), S(seconds), Some(found)) {
            Action::Update(record) => record,
            other => panic!("{other:?}"),
        }
    }

    fn held_by(holder: &str, renewed: u64, transitions: i32) -> Record {
        let (acquired, renewed) = (at(0).wall, at(renewed).wall);
        Record { holder: holder.to_owned(), seconds: 15, acquired, renewed, transitions }
    }

    #[test]
    fn a_candidate_creates_a_lease_and_leads() {
        let mut a = elector("a");
        let Action::Create(record) = a.decide(at(3), S(3), None) else { panic!("not created") };
        assert_eq!((record.holder.as_str(), record.seconds, record.transitions), ("a", 15, 0));
        assert_eq!((record.acquired, record.renewed), (at(3).wall, at(3).wall));
        assert!(!a.is_leader(), "nothing is written yet");
        a.written(S(3), record);
        assert!(a.is_leader());
    }

    #[test]
    fn a_candidate_takes_over_a_record_unchanged_for_the_lease_duration() {
        let mut b = elector("b");
        assert_eq!(b.decide(at(4), S(4), Some(&held_by("a", 3, 7))), Action::Wait);
        assert_eq!(b.decide(at(8), S(8), Some(&held_by("a", 7, 7))), Action::Wait);
        assert_eq!(b.decide(at(22), S(22), Some(&held_by("a", 7, 7))), Action::Wait);
        let taken = update(&mut b, 23, &held_by("a", 7, 7));
        assert_eq!((taken.holder.as_str(), taken.transitions), ("b", 8));
        assert_eq!((taken.acquired, taken.renewed), (at(23).wall, at(23).wall));
    }

    #[test]
    fn the_times_in_a_record_are_not_believed() {
        // The holder's clock is years ahead or behind: only a change of the record matters.
        for renewed in [0, 1_000_000_000] {
            let mut b = elector("b");
            assert_eq!(b.decide(at(100), S(100), Some(&held_by("a", renewed, 0))), Action::Wait);
            assert_eq!(b.decide(at(114), S(114), Some(&held_by("a", renewed, 0))), Action::Wait);
            assert_eq!(update(&mut b, 115, &held_by("a", renewed, 0)).holder, "b");
        }
    }

    #[test]
    fn a_leader_renews_without_a_look_until_its_lease_is_over() {
        let mut a = elector("a");
        a.written(S(3), held_by("a", 3, 2));
        let renewal = a.renewal(at(17)).expect("valid");
        assert_eq!((renewal.acquired, renewal.renewed, renewal.transitions), (at(0).wall, at(17).wall, 2));
        assert_eq!(a.renewal(at(18)), None);
        assert_eq!(elector("b").renewal(at(1)), None);
    }

    #[test]
    fn a_leader_that_reads_its_own_record_keeps_its_term() {
        // Like a sidecar that restarts under the same name: no wait, no transition.
        let mut a = elector("a");
        let next = update(&mut a, 9, &held_by("a", 7, 4));
        assert_eq!((next.acquired, next.renewed, next.transitions), (at(0).wall, at(9).wall, 4));
    }

    #[test]
    fn a_leader_that_reads_another_ones_record_leads_no_more() {
        let mut a = elector("a");
        a.written(S(3), held_by("a", 3, 0));
        assert_eq!(a.decide(at(5), S(5), Some(&held_by("b", 5, 1))), Action::Wait);
        assert!(!a.is_leader() && a.renewal(at(5)).is_none());
    }

    #[test]
    fn a_lease_that_was_given_up_is_taken_at_once() {
        let mut a = elector("a");
        a.written(S(3), held_by("a", 3, 5));
        let released = a.release(at(4), &held_by("a", 3, 5));
        assert_eq!((released.holder.as_str(), released.seconds, released.transitions), ("", 1, 5));
        assert_eq!(update(&mut elector("b"), 4, &released).transitions, 6);
    }
}
