//! Validation that does not depend on the operation: the name, and conditions under which the fault could never fire.

use super::{Mistake, PROCESS};
use crate::fault::{Fault, Kind};

pub(super) fn check_name(name: &str) -> Result<(), Mistake> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        return Err(Mistake::new("name", "a fault needs a name"));
    }
    if name == "hits" || name.len() > 100 || !name.chars().all(good) {
        let message = "a fault's name has at most 100 letters, digits, `-`, `_` and `.`, and is not `hits`";
        return Err(Mistake { word: Some(name.to_owned()), ..Mistake::new("name", message) });
    }
    Ok(())
}

/// Refuses conditions under which the fault could never fire.
pub(super) fn check_when(fault: &Fault) -> Result<(), Mistake> {
    let when = &fault.when;
    if when.probability.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
        return Err(Mistake::key("when.probability", "must be more than 0 and at most 1"));
    }
    for (field, count) in [("first", when.first), ("nth", when.nth), ("every", when.every)] {
        if count == Some(0) {
            return Err(Mistake::key(format!("when.{field}"), "counts from 1; with 0 the fault could never fire"));
        }
    }
    match (when.first, when.nth, when.every) {
        (Some(_), Some(_), _) => {
            return Err(Mistake::key("when.nth", "does not go with `first`: write one of them"));
        }
        (_, Some(_), Some(_)) => {
            return Err(Mistake::key("when.every", "does not go with `nth`: write one of them"));
        }
        (Some(first), _, Some(every)) if first < every => {
            let message = format!("none of the first {first} is the {every}th: the fault could never fire");
            return Err(Mistake::key("when.every", message));
        }
        _ => {}
    }
    if when.lasting.is_some_and(|s| s.0.is_zero()) {
        return Err(Mistake::key("when.for", "must be longer than 0s"));
    }
    let Some(ttl) = fault.lease.ttl else { return Ok(()) };
    if ttl.0.is_zero() {
        return Err(Mistake::key("lease.ttl", "must be longer than 0s"));
    }
    if when.after.is_some_and(|after| after >= ttl) {
        return Err(Mistake::key("when.after", "the lease is over before: the fault could never fire"));
    }
    Ok(())
}

/// Checks lasting faults, partitions and skewed clocks, which are not tied to operations: they have no counts and few
/// attributes.
pub(super) fn check_steady(fault: &Fault) -> Result<(), Mistake> {
    let (kind, when) = (fault.effect.kind(), &fault.when);
    if !matches!(kind, Kind::Partition | Kind::PartitionOneWay | Kind::Skew) {
        return Ok(());
    }
    let turns = [("first", when.first.is_some()), ("nth", when.nth.is_some()), ("every", when.every.is_some())];
    let turns = turns.into_iter().chain([("probability", when.probability.is_some())]);
    if let Some((field, _)) = turns.into_iter().find(|(_, is)| *is) {
        let message = format!("{} lasts, and has no turns: use `after`, `for` or `until`", kind.name());
        return Err(Mistake::key(format!("when.{field}"), message));
    }
    let own = |key: &&String| kind != Kind::Skew || *key != PROCESS.name;
    if let Some(key) = fault.matches.attributes.keys().find(own) {
        let message = match kind {
            Kind::Skew => "a skewed clock is told by `process` alone",
            _ => "a partition cuts all messages between the two ends that it names",
        };
        return Err(Mistake { word: Some(key.clone()), ..Mistake::new(format!("match.where.{key}"), message) });
    }
    Ok(())
}
