//! The faults in force: added, checked at every point, counted, ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::{Effect, Fault, Moment, Plane};
use crate::clock::TimeScale;
use crate::seed::{Seed, unit};

/// A place in an operation at which a fault may fire.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The layer.
    pub plane: Plane,
    /// The operation.
    pub op: &'a str,
    /// What it is about.
    pub attributes: &'a [(&'a str, &'a str)],
    /// The moment.
    pub moment: Moment,
}

/// A fault that fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The fault's name.
    pub name: String,
    /// What happens.
    pub effect: Effect,
}

/// What a fault has done so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The fault, as written.
    pub fault: Fault,
    /// How often it fired.
    pub hits: u64,
    /// How often the plane and operation matched, but not the attributes or the condition.
    pub near_misses: u64,
    /// When it last fired, in milliseconds since the world began.
    pub last_hit_ms: Option<u64>,
}

struct Entry {
    fault: Fault,
    added: Duration,
    seen: u64,
    hits: u64,
    near_misses: u64,
    last_hit: Option<Duration>,
    rng: ChaCha8Rng,
}

/// The book of faults. Cheap to clone; all clones are one book.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

struct Inner {
    seed: Seed,
    scale: TimeScale,
    count: AtomicUsize,
    entries: Mutex<IndexMap<String, Entry>>,
}

impl Faults {
    /// An empty book; `scale` divides the durations in conditions and leases.
    pub fn new(seed: Seed, scale: TimeScale) -> Self {
        Self(Arc::new(Inner { seed, scale, count: AtomicUsize::new(0), entries: Mutex::default() }))
    }

    /// Whether no fault is in force; a cheap test for hot paths.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Puts a fault in force.
    ///
    /// # Errors
    /// When the name is empty or taken, a number in `when` makes no sense, or the effect means nothing on its plane.
    pub fn add(&self, now: Duration, fault: Fault) -> Result<(), String> {
        if fault.name.is_empty() {
            return Err("name: a fault needs a name".to_owned());
        }
        if fault.when.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Err("when.probability: must lie between 0 and 1".to_owned());
        }
        if fault.when.every == Some(0) || fault.when.nth == Some(0) {
            return Err("when.every and when.nth count from 1".to_owned());
        }
        super::planes::check(&fault)?;
        let mut entries = self.entries();
        if entries.contains_key(&fault.name) {
            return Err(format!("name: a fault called `{}` is in force already", fault.name));
        }
        let rng = self.0.seed.child(&fault.name).rng();
        let entry = Entry { added: now, seen: 0, hits: 0, near_misses: 0, last_hit: None, rng, fault };
        entries.insert(entry.fault.name.clone(), entry);
        self.0.count.store(entries.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends a fault and says what it did.
    pub fn remove(&self, name: &str) -> Option<Report> {
        let mut entries = self.entries();
        let entry = entries.shift_remove(name)?;
        self.0.count.store(entries.len(), Ordering::Relaxed);
        Some(entry.report())
    }

    /// Ends all faults, or those of one owner.
    pub fn clear(&self, owner: Option<&str>) -> Vec<Report> {
        let mut entries = self.entries();
        let gone: Vec<String> = entries
            .values()
            .filter(|e| owner.is_none() || e.fault.lease.owner.as_deref() == owner)
            .map(|e| e.fault.name.clone())
            .collect();
        let reports = gone.iter().filter_map(|name| entries.shift_remove(name)).map(|e| e.report()).collect();
        self.0.count.store(entries.len(), Ordering::Relaxed);
        reports
    }

    /// What every fault in force has done.
    pub fn list(&self) -> Vec<Report> {
        self.entries().values().map(Entry::report).collect()
    }

    /// What one fault in force has done.
    pub fn get(&self, name: &str) -> Option<Report> {
        self.entries().get(name).map(Entry::report)
    }

    /// The first fault that fires at `point`, counted.
    pub fn check(&self, now: Duration, point: &Point<'_>) -> Option<Firing> {
        let mut entries = self.entries();
        self.expire(now, &mut entries);
        for entry in entries.values_mut() {
            if entry.fires(now, point, self.0.scale) {
                return Some(Firing { name: entry.fault.name.clone(), effect: entry.fault.effect.clone() });
            }
        }
        None
    }

    /// Whether the link fault `from` → `to` is cut by a partition now; counts a hit when it is.
    pub fn cut(&self, now: Duration, from: &str, to: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut entries = self.entries();
        self.expire(now, &mut entries);
        for entry in entries.values_mut() {
            let severs = match &entry.fault.effect {
                Effect::Partition([a, b]) => (wild(a, from) && wild(b, to)) || (wild(a, to) && wild(b, from)),
                Effect::PartitionOneWay([a, b]) => wild(a, from) && wild(b, to),
                _ => false,
            };
            if severs && entry.in_time(now, self.0.scale) {
                entry.hits += 1;
                entry.last_hit = Some(now);
                return Some(entry.fault.name.clone());
            }
        }
        None
    }

    fn expire(&self, now: Duration, entries: &mut IndexMap<String, Entry>) {
        let scale = self.0.scale;
        entries.retain(|_, e| e.fault.lease.ttl.is_none_or(|ttl| now < e.added + scale.apply(ttl.0)));
        self.0.count.store(entries.len(), Ordering::Relaxed);
    }

    fn entries(&self) -> MutexGuard<'_, IndexMap<String, Entry>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn report(&self) -> Report {
        Report {
            fault: self.fault.clone(),
            hits: self.hits,
            near_misses: self.near_misses,
            last_hit_ms: self.last_hit.map(|d| d.as_millis() as u64),
        }
    }

    fn in_time(&self, now: Duration, scale: TimeScale) -> bool {
        let from = self.added + self.fault.when.after.map_or(Duration::ZERO, |s| scale.apply(s.0));
        now >= from && self.fault.when.lasting.is_none_or(|s| now < from + scale.apply(s.0))
    }

    fn fires(&mut self, now: Duration, point: &Point<'_>, scale: TimeScale) -> bool {
        let m = &self.fault.matches;
        if matches!(self.fault.effect, Effect::Partition(_) | Effect::PartitionOneWay(_)) {
            return false;
        }
        if m.plane != point.plane
            || self.fault.at != point.moment
            || m.op.as_deref().is_some_and(|op| !wild(op, point.op))
        {
            return false;
        }
        let attributes = m
            .attributes
            .iter()
            .all(|(key, pattern)| point.attributes.iter().any(|(k, value)| k == key && wild(pattern, value)));
        if !attributes || !self.in_time(now, scale) {
            self.near_misses += 1;
            return false;
        }
        self.seen += 1;
        let when = &self.fault.when;
        let counted = when.first.is_none_or(|n| self.seen <= n)
            && when.nth.is_none_or(|n| self.seen == n)
            && when.every.is_none_or(|n| self.seen.is_multiple_of(n));
        let fires = counted && when.probability.is_none_or(|p| unit(&mut self.rng) < p);
        if fires {
            self.hits += 1;
            self.last_hit = Some(now);
        } else {
            self.near_misses += 1;
        }
        fires
    }
}

/// Whether `value` equals `pattern`, or begins with it where it ends in `*`.
fn wild(pattern: &str, value: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == value, |prefix| value.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::{Lease, Match, When};
    use super::*;
    use crate::fault::Span;

    fn fault(when: When) -> Fault {
        Fault {
            name: "f".into(),
            matches: Match {
                plane: Plane::Ec2,
                op: Some("AttachVolume".into()),
                attributes: [("volume".to_owned(), "vol-1*".to_owned())].into_iter().collect(),
            },
            when,
            effect: Effect::Error("IncorrectState".into()),
            at: Moment::Before,
            lease: Lease::default(),
        }
    }

    fn book(when: When) -> Faults {
        let book = Faults::new(Seed::root(1), TimeScale::default());
        book.add(Duration::ZERO, fault(when)).unwrap();
        book
    }

    fn attach(volume: &str) -> bool {
        volume.starts_with("vol-1")
    }

    fn hits(book: &Faults, volumes: &[&str]) -> Vec<bool> {
        volumes
            .iter()
            .map(|v| {
                let attributes = [("volume", *v)];
                let point =
                    Point { plane: Plane::Ec2, op: "AttachVolume", attributes: &attributes, moment: Moment::Before };
                book.check(Duration::from_secs(1), &point).is_some()
            })
            .collect()
    }

    #[test]
    fn a_fault_fires_only_where_its_match_says() {
        let book = book(When::default());
        let volumes = ["vol-10", "vol-2", "vol-1"];
        assert_eq!(hits(&book, &volumes), volumes.map(attach));
        let report = book.get("f").unwrap();
        assert_eq!((report.hits, report.near_misses, report.last_hit_ms), (2, 1, Some(1000)));
    }

    #[test]
    fn first_nth_and_every_count_matching_operations() {
        let v = ["vol-1"; 4];
        assert_eq!(hits(&book(When { first: Some(2), ..When::default() }), &v), [true, true, false, false]);
        assert_eq!(hits(&book(When { nth: Some(3), ..When::default() }), &v), [false, false, true, false]);
        assert_eq!(hits(&book(When { every: Some(2), ..When::default() }), &v), [false, true, false, true]);
    }

    #[test]
    fn a_fault_does_not_outlive_its_lease() {
        let book = Faults::new(Seed::root(1), TimeScale::default());
        let mut f = fault(When::default());
        f.lease.ttl = Some(Span(Duration::from_millis(500)));
        book.add(Duration::ZERO, f).unwrap();
        assert_eq!(hits(&book, &["vol-1"]), [false]);
        assert!(book.is_empty());
    }

    #[test]
    fn a_partition_cuts_both_ways_and_a_one_way_partition_one() {
        let book = Faults::new(Seed::root(1), TimeScale::default());
        let mut f = fault(When::default());
        f.matches.plane = Plane::Link;
        f.effect = Effect::Partition(["a".into(), "b".into()]);
        book.add(Duration::ZERO, f.clone()).unwrap();
        assert!(book.cut(Duration::ZERO, "a", "b").is_some() && book.cut(Duration::ZERO, "b", "a").is_some());
        book.remove("f");
        f.effect = Effect::PartitionOneWay(["a".into(), "b".into()]);
        book.add(Duration::ZERO, f).unwrap();
        assert!(book.cut(Duration::ZERO, "a", "b").is_some() && book.cut(Duration::ZERO, "b", "a").is_none());
    }

    #[test]
    fn a_bad_fault_is_refused_with_the_field_named() {
        let book = book(When::default());
        assert!(book.add(Duration::ZERO, fault(When::default())).unwrap_err().starts_with("name"));
        let mut f = fault(When { probability: Some(2.0), ..When::default() });
        f.name = "g".into();
        assert!(book.add(Duration::ZERO, f).unwrap_err().starts_with("when.probability"));
    }
}
