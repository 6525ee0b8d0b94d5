//! A fault of the book: whether it fires at a point, when it ends, and its activity.

use std::collections::BTreeSet;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::{Hit, Point, Report};
use crate::clock::TimeScale;
use crate::fault::branch::Turns;
use crate::fault::catalogue::{Names, PROCESS, within};
use crate::fault::near::{Near, Why};
use crate::fault::{Fault, Kind, wild};
use crate::json::Text;
use crate::seed::unit;

/// An active fault, with its activity so far.
pub(super) struct Entry {
    pub fault: Fault,
    /// Operations in which it can fire.
    pub able: BTreeSet<&'static str>,
    pub added: Duration,
    /// True while the fault that it follows has not fired.
    pub waits: bool,
    pub seen: u64,
    pub hits: u64,
    pub near: Near,
    pub last_hit: Option<Duration>,
    pub rng: ChaCha8Rng,
    /// Set for the place of branches, which fires only in the run that is one of them.
    pub turns: Option<Turns>,
}

/// Returns true if `process` is `name`, or belongs to the group or node `name`.
pub(super) fn stands_for(names: Option<&Names>, name: &str, process: &str) -> bool {
    within(name, process)
        || names.and_then(|n| n.groups.get(name)).is_some_and(|group| group.iter().any(|p| p == process))
}

impl Entry {
    pub fn new(fault: Fault, able: BTreeSet<&'static str>, added: Duration, rng: ChaCha8Rng) -> Self {
        let waits = fault.when.following.is_some();
        Self { fault, able, added, waits, seen: 0, hits: 0, near: Near::default(), last_hit: None, rng, turns: None }
    }

    pub fn report(&self) -> Report {
        Report {
            fault: self.fault.clone(),
            hits: self.hits,
            near_misses: self.near.count,
            near: self.near.sentences(),
            last_hit_ms: self.last_hit.map(|d| d.as_millis() as u64),
        }
    }

    pub fn begin(&self, scale: TimeScale) -> Duration {
        self.added + self.fault.when.after.map_or(Duration::ZERO, |s| scale.apply(s.0))
    }

    /// Lets it fire from `now` on if it follows the fault `name`.
    pub fn follow(&mut self, name: &str, now: Duration) {
        if self.waits && self.fault.when.following.as_deref() == Some(name) {
            (self.waits, self.added) = (false, now);
        }
    }

    /// Returns the time at which it ends by itself, by `for` or by its lease.
    pub fn end(&self, scale: TimeScale) -> Option<Duration> {
        if self.waits {
            return None;
        }
        let lasting = self.fault.when.lasting.map(|s| self.begin(scale) + scale.apply(s.0));
        let lease = self.fault.lease.ttl.map(|s| self.added + scale.apply(s.0));
        [lasting, lease].into_iter().flatten().min()
    }

    pub fn is_over(&self, now: Duration, scale: TimeScale) -> bool {
        self.end(scale).is_some_and(|end| now >= end)
    }

    pub fn in_time(&self, now: Duration, scale: TimeScale) -> bool {
        !self.waits && now >= self.begin(scale) && !self.is_over(now, scale)
    }

    /// Returns the report of a hit.
    pub fn hit(&self, now: Duration, process: &str, point: &Point<'_>) -> Hit {
        let message = point.attributes.iter().filter(|(_, value)| !value.is_empty());
        Hit {
            ms: now.as_millis() as u64,
            fault: self.fault.name.clone(),
            hits: self.hits,
            process: process.to_owned(),
            op: point.op.to_owned(),
            at: point.moment,
            attributes: message.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            effect: self.fault.effect.clone(),
        }
    }

    pub fn fires(
        &mut self,
        now: Duration,
        process: &str,
        point: &Point<'_>,
        names: Option<&Names>,
        scale: TimeScale,
    ) -> bool {
        let m = &self.fault.matches;
        let kind = self.fault.effect.kind();
        if matches!(kind, Kind::Partition | Kind::PartitionOneWay | Kind::Skew)
            || m.plane != point.plane
            || self.fault.at != point.moment
            || self.turns.as_ref().is_some_and(|turns| turns.at.is_empty())
        {
            return false;
        }
        if !self.able.contains(point.op) {
            // An operation that the fault does not name is not a near miss.
            if m.op.as_ref().is_some_and(|ops| ops.iter().any(|pattern| wild(pattern, point.op))) {
                self.near.note(point.op, Why::Unable);
            }
            return false;
        }
        let differs = m.attributes.iter().find_map(|(key, pattern)| {
            if key == PROCESS.name {
                let here = wild(pattern, process) || stands_for(names, pattern, process);
                return (!here).then(|| (key, pattern, Some(Text::from(process))));
            }
            // An attribute may have several values, and any of them may match.
            let mut values = point.attributes.iter().filter(|(k, _)| k == key).map(|(_, value)| *value);
            let first = values.clone().next();
            let same = values.any(|value| wild(pattern, value));
            (!same).then(|| (key, pattern, first.filter(|v| !v.is_empty()).map(Text::from)))
        });
        if let Some((key, wanted, was)) = differs {
            let why = Why::Attribute { key: key.clone(), wanted: wanted.clone(), was };
            self.near.note(point.op, why);
            return false;
        }
        if self.fault.effect.is_own_end() && names.is_some_and(|names| !names.processes.contains(process)) {
            self.near.note(point.op, Why::NoProcess(process.into()));
            return false;
        }
        if !self.in_time(now, scale) {
            self.near.note(point.op, if self.waits { Why::Follows } else { Why::Time });
            return false;
        }
        self.seen += 1;
        if let Some(turns) = &mut self.turns {
            let Some(fault) = turns.taken(self.seen) else { return false };
            (self.fault, self.turns) = (fault, None);
            self.hits += 1;
            self.last_hit = Some(now);
            return true;
        }
        let when = &self.fault.when;
        let counted = when.first.is_none_or(|n| self.seen <= n)
            && when.nth.is_none_or(|n| self.seen == n)
            && when.every.is_none_or(|n| self.seen.is_multiple_of(n));
        if !counted {
            self.near.note(point.op, Why::Turn(self.seen));
            return false;
        }
        if when.probability.is_some_and(|p| unit(&mut self.rng) >= p) {
            self.near.note(point.op, Why::Chance);
            return false;
        }
        self.hits += 1;
        self.last_hit = Some(now);
        true
    }
}
