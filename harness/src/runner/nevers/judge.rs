//! Checks forbidden conditions against objects.

use std::collections::BTreeMap;

use substrate::json::Value;

use super::follow::Revision;
use crate::runner::steps::{event_count, is_event};
use crate::scenario::model::EventSeen;
use crate::scenario::predicate::{Holds, Subject, That};

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The condition does not hold.
    Fine,
    /// The forbidden condition holds; with a description.
    Broken(String),
    /// The condition cannot be evaluated.
    Unsaid(String),
}

/// Checker of one forbidden condition.
#[derive(Debug)]
pub(super) enum Judge {
    /// A condition on an object or a list.
    That(Subject, That),
    /// Events, by name: their counts at the beginning and now.
    Events(EventSeen, BTreeMap<String, (u64, u64)>),
}

impl Judge {
    pub(super) fn that(holds: &Holds) -> Self {
        Self::That(holds.of.clone(), holds.that.clone())
    }

    pub(super) fn events(event: &EventSeen) -> Self {
        Self::Events(event.clone(), BTreeMap::new())
    }

    /// Checks the initial objects.
    pub(super) fn begin(&mut self, objects: &BTreeMap<String, Value>) -> Verdict {
        if let Self::Events(wanted, seen) = self {
            for (name, event) in objects.iter().filter(|(_, event)| is_event(event, wanted)) {
                seen.insert(name.clone(), (event_count(event), event_count(event)));
            }
            return Verdict::Fine;
        }
        self.of(objects)
    }

    /// Checks the objects after a change.
    pub(super) fn look(&mut self, objects: &BTreeMap<String, Value>, revision: &Revision) -> Verdict {
        let Self::Events(wanted, seen) = self else { return self.of(objects) };
        if let Some(event) = objects.get(&revision.key).filter(|event| is_event(event, wanted)) {
            let count = event_count(event);
            let (_, now) = seen.entry(revision.key.clone()).or_insert((0, count));
            *now = count.max(*now);
            let all: u64 = seen.values().map(|(before, now)| now - before).sum();
            if all >= wanted.times.at_least {
                let message = event["message"].as_str().unwrap_or_default();
                return Verdict::Broken(format!("{} {message:?}, {all} times since", wanted.reason));
            }
        }
        Verdict::Fine
    }

    fn of(&self, objects: &BTreeMap<String, Value>) -> Verdict {
        let Self::That(subject, that) = self else { return Verdict::Fine };
        let list;
        let value = match subject {
            Subject::Object(object) => match objects.get(&object.key()) {
                Some(value) => value,
                None => return Verdict::Unsaid("it does not exist".to_owned()),
            },
            Subject::List(..) => {
                list = Value::Array(objects.values().cloned().collect());
                &list
            }
        };
        match that.holds(value) {
            Ok(true) => Verdict::Broken(that.seen(value)),
            Ok(false) => Verdict::Fine,
            Err(_) => Verdict::Unsaid(that.seen(value)),
        }
    }
}
