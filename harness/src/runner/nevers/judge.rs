//! Whether what must not be is so, by the objects that are there.

use std::collections::BTreeMap;

use substrate::json::Value;

use super::follow::Revision;
use crate::runner::steps::{event_count, is_event};
use crate::scenario::model::EventSeen;
use crate::scenario::predicate::{Holds, Subject, That};

/// What a look came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is not so.
    Fine,
    /// It is so, and this was seen.
    Broken(String),
    /// Nothing can be said.
    Unsaid(String),
}

/// Looks at objects.
#[derive(Debug)]
pub(super) enum Judge {
    /// A condition holds of an object or a list.
    That(Subject, That),
    /// Events were recorded: by name, how often before and how often now.
    Events(EventSeen, BTreeMap<String, (u64, u64)>),
}

impl Judge {
    pub(super) fn that(holds: &Holds) -> Self {
        Self::That(holds.of.clone(), holds.that.clone())
    }

    pub(super) fn events(event: &EventSeen) -> Self {
        Self::Events(event.clone(), BTreeMap::new())
    }

    /// Looks at what is there at the beginning.
    pub(super) fn begin(&mut self, objects: &BTreeMap<String, Value>) -> Verdict {
        if let Self::Events(wanted, seen) = self {
            for (name, event) in objects.iter().filter(|(_, event)| is_event(event, wanted)) {
                seen.insert(name.clone(), (event_count(event), event_count(event)));
            }
            return Verdict::Fine;
        }
        self.of(objects)
    }

    /// Looks at what is there after a change.
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
