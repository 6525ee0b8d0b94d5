//! The book of active faults: they are added, checked at every point, counted, and ended.

mod entry;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;

use entry::{Entry, stands_for};

use super::branch::{Branches, Turns};
use super::catalogue::{Catalogue, Mistake, Names, Operation, PROCESS};
use super::{Effect, Fault, Kind, Moment, Plane, skew_ms, wild};
use crate::clock::TimeScale;
use crate::latest;
use crate::seed::Seed;

/// A point of an operation at which a fault may fire.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// The layer.
    pub plane: Plane,
    /// The operation.
    pub op: &'a str,
    /// Attributes of the operation.
    pub attributes: &'a [(&'a str, &'a str)],
    /// The moment.
    pub moment: Moment,
}

/// A fault that fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The fault's name.
    pub name: String,
    /// Its effect.
    pub effect: Effect,
}

/// A fault that fired, for followers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Time in milliseconds since the world began.
    pub ms: u64,
    /// The fault's name.
    pub fault: String,
    /// Its number of hits so far.
    pub hits: u64,
    /// Process in which it fired.
    pub process: String,
    /// The operation.
    pub op: String,
    /// The moment.
    pub at: Moment,
    /// Attributes of the operation, without empty ones.
    #[serde(rename = "where")]
    pub attributes: IndexMap<String, String>,
    /// Its effect.
    pub effect: Effect,
}

/// Activity of a fault so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The fault, as written.
    pub fault: Fault,
    /// Number of times it fired.
    pub hits: u64,
    /// Number of times that plane and operation matched, but not the attributes or the condition.
    pub near_misses: u64,
    /// Latest distinct near misses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<String>,
    /// Time of the last hit, in milliseconds since the world began.
    pub last_hit_ms: Option<u64>,
}

/// The book of faults. Cheap to clone; all clones are one book.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

/// Callback of a follower. Returns true to be called again.
type Follower = Arc<dyn Fn(&Hit, Plane) -> bool + Send + Sync>;

/// A follower, registered until this is dropped.
#[must_use = "the follower is removed when this is dropped"]
pub struct Following {
    faults: Faults,
    follower: Follower,
}

impl std::fmt::Debug for Following {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Following").finish_non_exhaustive()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut followers = self.faults.0.followers.lock();
        followers.retain(|follower| !Arc::ptr_eq(follower, &self.follower));
    }
}

struct Inner {
    seed: Seed,
    scale: TimeScale,
    count: AtomicUsize,
    /// True if a fault skews wall time; every reading of a clock checks it.
    skews: AtomicBool,
    entries: Mutex<IndexMap<String, Entry>>,
    catalogue: Mutex<Catalogue>,
    followers: Mutex<Vec<Follower>>,
    /// Changes whenever a fault ends.
    ended: latest::Sender<u64>,
    branches: Mutex<Option<Branches>>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("count", &self.0.count).finish_non_exhaustive()
    }
}

impl Faults {
    /// Creates an empty book; `scale` divides the durations in conditions and leases.
    pub fn new(seed: Seed, scale: TimeScale) -> Self {
        let mut catalogue = Catalogue::default();
        catalogue.add(super::catalogue::OWN);
        Self(Arc::new(Inner {
            seed,
            scale,
            count: AtomicUsize::new(0),
            skews: AtomicBool::new(false),
            entries: Mutex::default(),
            catalogue: Mutex::new(catalogue),
            followers: Mutex::default(),
            ended: latest::Sender::new(0),
            branches: Mutex::default(),
        }))
    }

    /// Returns true if no fault is active; a cheap test for hot paths.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Adds operations to the catalogue.
    pub fn declare(&self, operations: &'static [Operation]) {
        self.catalogue().add(operations);
    }

    /// Sets the names of processes, nodes and servers.
    pub fn name(&self, names: Names) {
        self.catalogue().name(names);
    }

    /// Notes that faults are ended when their `when.until` holds.
    pub fn watch(&self) {
        self.catalogue().watch();
    }

    /// Returns the catalogue with the known names.
    pub fn known(&self) -> Catalogue {
        self.catalogue().clone()
    }

    /// Calls `follower` for each fault that fires.
    pub fn follow(&self, follower: impl Fn(&Hit) + Send + Sync + 'static) {
        self.follow_while(move |hit, _| {
            follower(hit);
            true
        });
    }

    /// Calls `follower` for each fault that fires, with its plane, until it returns false.
    pub fn follow_while(&self, follower: impl Fn(&Hit, Plane) -> bool + Send + Sync + 'static) {
        self.0.followers.lock().push(Arc::new(follower));
    }

    /// Calls `follower` for each fault that fires, with its plane, until the result is dropped.
    pub fn follow_for_now(&self, follower: impl Fn(&Hit, Plane) + Send + Sync + 'static) -> Following {
        let follower: Follower = Arc::new(move |hit, plane| {
            follower(hit, plane);
            true
        });
        self.0.followers.lock().push(follower.clone());
        Following { faults: self.clone(), follower }
    }

    /// Returns the number of followers.
    pub fn followers(&self) -> usize {
        self.0.followers.lock().len()
    }

    /// Removes all followers.
    pub(crate) fn forget_followers(&self) {
        let followers = std::mem::take(&mut *self.0.followers.lock());
        drop(followers);
    }

    /// Replaces the fault that `branches` names by the faults of the branches, once that fault is added.
    pub fn branch(&self, branches: Branches) {
        *self.0.branches.lock() = Some(branches);
    }

    /// Adds the places of branches.
    fn add_places(&self, now: Duration, branches: Branches) -> Result<(), Mistake> {
        let mut entries = self.entries();
        let mut places: Vec<Entry> = Vec::new();
        for (number, fault) in branches.faults {
            let able = self.catalogue().check(&fault)?;
            let nth = fault.when.nth.unwrap_or(1);
            let same = |entry: &&mut Entry| {
                entry.able == able
                    && entry.fault.at == fault.at
                    && entry.fault.effect.kind() == fault.effect.kind()
                    && entry.fault.effect.is_own_end() == fault.effect.is_own_end()
                    && entry.fault.matches == fault.matches
            };
            let entry = match places.iter_mut().rev().find(same) {
                Some(entry) => entry,
                None => {
                    let turns = Turns { at: BTreeMap::new(), parts: branches.parts.clone() };
                    let rng = self.0.seed.child(&fault.name).rng();
                    let mut entry = Entry::new(fault.clone(), able, now, rng);
                    (entry.fault.when.nth, entry.turns) = (None, Some(turns));
                    places.push(entry);
                    let last = places.len() - 1;
                    &mut places[last]
                }
            };
            if let Some(turns) = &mut entry.turns {
                turns.at.entry(nth).or_default().push((number, fault));
            }
        }
        for (at, place) in places.into_iter().enumerate() {
            entries.insert(format!("{} {at}", branches.instead_of), place);
        }
        self.counted(&entries);
        Ok(())
    }

    /// Removes the places of other branches once this run is one of them, and gives its fault its own name.
    fn settle(&self, entries: &mut IndexMap<String, Entry>, at: usize) -> Option<usize> {
        let (key, entry) = entries.get_index(at)?;
        if *key == entry.fault.name {
            return Some(at);
        }
        let (key, name) = (key.clone(), entry.fault.name.clone());
        entries.retain(|_, entry| entry.turns.is_none());
        let at = entries.get_index_of(&key)?;
        let (_, mut entry) = entries.shift_remove_index(at)?;
        entry.rng = self.0.seed.child(&name).rng();
        entries.shift_insert(at, name, entry);
        self.counted(entries);
        Some(at)
    }

    /// Adds a fault.
    ///
    /// # Errors
    /// A word that the catalogue does not know, or a name that is taken.
    pub fn add(&self, now: Duration, fault: Fault) -> Result<(), Mistake> {
        let branches = {
            let mut waiting = self.0.branches.lock();
            waiting.take_if(|branches| branches.instead_of == fault.name)
        };
        if let Some(branches) = branches {
            return self.add_places(now, branches);
        }
        let able = self.catalogue().check(&fault)?;
        let mut entries = self.entries();
        self.expire(now, &mut entries);
        if entries.contains_key(&fault.name) {
            return Err(Mistake::new("name", format!("a fault called `{}` is in force already", fault.name)));
        }
        if let Some(before) = fault.when.following.as_ref().filter(|before| !entries.contains_key(*before)) {
            let known: Vec<&str> = entries.keys().map(String::as_str).collect();
            return Err(Mistake::of("when.following", before, "no fault in force", &known));
        }
        let rng = self.0.seed.child(&fault.name).rng();
        entries.insert(fault.name.clone(), Entry::new(fault, able, now, rng));
        self.counted(&entries);
        Ok(())
    }

    /// Ends a fault and returns its report.
    pub fn remove(&self, name: &str) -> Option<Report> {
        let mut entries = self.entries();
        let entry = entries.shift_remove(name)?;
        self.counted(&entries);
        drop(entries);
        self.tell_end();
        Some(entry.report())
    }

    /// Ends all faults, or those of one owner.
    pub fn clear(&self, owner: Option<&str>) -> Vec<Report> {
        let mut entries = self.entries();
        // Including the places of branches, whose keys are not names of faults.
        let gone: Vec<String> = entries
            .iter()
            .filter(|(_, e)| owner.is_none() || e.fault.lease.owner.as_deref() == owner)
            .map(|(key, _)| key.clone())
            .collect();
        let reports = gone.iter().filter_map(|name| entries.shift_remove(name)).map(|e| e.report()).collect();
        self.counted(&entries);
        drop(entries);
        self.tell_end();
        reports
    }

    /// Returns the reports of all active faults.
    pub fn list(&self) -> Vec<Report> {
        self.entries().values().map(Entry::report).collect()
    }

    /// Returns the report of an active fault.
    pub fn get(&self, name: &str) -> Option<Report> {
        self.entries().get(name).map(Entry::report)
    }

    /// Returns the first fault that fires at `point` in `process`. Counts it and calls the followers. A fault with the
    /// effect `count` does not prevent others from firing.
    pub fn check(&self, now: Duration, process: &str, point: &Point<'_>) -> Option<Firing> {
        let mut hits = Vec::new();
        {
            let mut entries = self.entries();
            self.expire(now, &mut entries);
            let names = self.catalogue().names().cloned();
            let mut from = 0;
            let mut fires = |e: &mut Entry| e.fires(now, process, point, names.as_deref(), self.0.scale);
            while let Some(after) = entries.values_mut().skip(from).position(&mut fires) {
                let Some(at) = self.settle(&mut entries, from + after) else { break };
                let Some((_, entry)) = entries.get_index(at) else { break };
                hits.push(entry.hit(now, process, point));
                if !matches!(entry.fault.effect, Effect::Count(_)) {
                    break;
                }
                from = at + 1;
            }
            // A fault never follows within the operation that it was waiting for.
            hits.iter().for_each(|hit| follow(&mut entries, &hit.fault, now));
        }
        hits.iter().for_each(|hit| self.tell(hit));
        hits.pop().map(|hit| Firing { name: hit.fault, effect: hit.effect })
    }

    /// Returns the fault whose partition currently cuts the way `from` → `to`, and true if this is its first hit.
    pub fn cut(&self, now: Duration, from: &str, to: &str) -> Option<(Firing, bool)> {
        if self.is_empty() {
            return None;
        }
        let hit = {
            let mut entries = self.entries();
            self.expire(now, &mut entries);
            let names = self.catalogue().names().cloned();
            let is = |pattern: &str, end: &str| {
                let process = names.as_ref().and_then(|n| n.servers.get(end));
                let here = |end: &str| wild(pattern, end) || stands_for(names.as_deref(), pattern, end);
                here(end) || process.is_some_and(|process| here(process))
            };
            let severs = |entry: &&mut Entry| {
                let cuts = match &entry.fault.effect {
                    Effect::Partition([a, b]) => (is(a, from) && is(b, to)) || (is(a, to) && is(b, from)),
                    Effect::PartitionOneWay([a, b]) => is(a, from) && is(b, to),
                    _ => false,
                };
                cuts && entry.in_time(now, self.0.scale)
            };
            let entry = entries.values_mut().find(severs)?;
            entry.hits += 1;
            entry.last_hit = Some(now);
            let hit = Hit {
                ms: now.as_millis() as u64,
                fault: entry.fault.name.clone(),
                hits: entry.hits,
                process: from.to_owned(),
                op: "request".to_owned(),
                at: Moment::Before,
                attributes: [("from", from), ("to", to)]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into_iter()
                    .collect(),
                effect: entry.fault.effect.clone(),
            };
            follow(&mut entries, &hit.fault, now);
            hit
        };
        self.tell(&hit);
        Some((Firing { name: hit.fault, effect: hit.effect }, hit.hits == 1))
    }

    /// Returns the skew of the wall time of `process` in milliseconds.
    pub fn skew_ms(&self, now: Duration, process: &str) -> i64 {
        if !self.0.skews.load(Ordering::Relaxed) {
            return 0;
        }
        let names = self.catalogue().names().cloned();
        let mut entries = self.entries();
        self.expire(now, &mut entries);
        let (mut sum, mut first) = (0, Vec::new());
        for entry in entries.values_mut() {
            let Effect::Skew(text) = &entry.fault.effect else { continue };
            let wanted = entry.fault.matches.attributes.get(PROCESS.name);
            let here = wanted.is_none_or(|w| wild(w, process) || stands_for(names.as_deref(), w, process));
            if here && entry.in_time(now, self.0.scale) {
                // It was parsed when the fault was added.
                sum += skew_ms(text).unwrap_or(0);
                entry.hits += 1;
                entry.last_hit = Some(now);
                // Clocks are read all the time, so only the first hit is reported.
                if entry.hits == 1 {
                    first.push(Hit {
                        ms: now.as_millis() as u64,
                        fault: entry.fault.name.clone(),
                        hits: 1,
                        process: process.to_owned(),
                        op: "wall".to_owned(),
                        at: Moment::Before,
                        attributes: IndexMap::new(),
                        effect: entry.fault.effect.clone(),
                    });
                }
            }
        }
        first.iter().for_each(|hit| follow(&mut entries, &hit.fault, now));
        drop(entries);
        first.iter().for_each(|hit| self.tell(hit));
        sum
    }

    /// Returns true if the fault `name` is active.
    pub fn is_in_force(&self, now: Duration, name: &str) -> bool {
        let mut entries = self.entries();
        self.expire(now, &mut entries);
        entries.get(name).is_some_and(|e| !e.is_over(now, self.0.scale))
    }

    /// Returns the time at which the fault `name` ends by itself, and a receiver of changes when any fault ends
    /// earlier.
    pub(crate) fn end_of(&self, name: &str) -> (Option<Duration>, latest::Receiver<u64>) {
        let ended = self.0.ended.subscribe();
        (self.entries().get(name).and_then(|e| e.end(self.0.scale)), ended)
    }

    fn tell(&self, hit: &Hit) {
        let plane = self.entries().get(&hit.fault).map(|e| e.fault.matches.plane);
        let Some(plane) = plane else { return };
        let followers = self.0.followers.lock().clone();
        let tired: Vec<Follower> = followers.into_iter().filter(|follower| !follower(hit, plane)).collect();
        if !tired.is_empty() {
            let mut followers = self.0.followers.lock();
            followers.retain(|f| !tired.iter().any(|t| Arc::ptr_eq(t, f)));
        }
    }

    fn tell_end(&self) {
        self.0.ended.send_modify(|count| *count += 1);
    }

    fn expire(&self, now: Duration, entries: &mut IndexMap<String, Entry>) {
        let (scale, before) = (self.0.scale, entries.len());
        entries.retain(|_, e| e.waits || e.fault.lease.ttl.is_none_or(|ttl| now < e.added + scale.apply(ttl.0)));
        if entries.len() != before {
            self.counted(entries);
            self.tell_end();
        }
    }

    fn counted(&self, entries: &IndexMap<String, Entry>) {
        let skews = entries.values().any(|e| e.fault.effect.kind() == Kind::Skew);
        self.0.skews.store(skews, Ordering::Relaxed);
        self.0.count.store(entries.len(), Ordering::Relaxed);
    }

    fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        self.0.catalogue.lock()
    }

    fn entries(&self) -> MutexGuard<'_, IndexMap<String, Entry>> {
        self.0.entries.lock()
    }
}

/// Lets the faults fire that follow the fault `name`.
fn follow(entries: &mut IndexMap<String, Entry>, name: &str, now: Duration) {
    entries.values_mut().for_each(|entry| entry.follow(name, now));
}

#[cfg(test)]
mod tests;
