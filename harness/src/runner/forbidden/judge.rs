//! Checks forbidden conditions against objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_apiserver::cel::over::{Item, Over};
use substrate::json::Value;

use crate::runner::follow::Revision;
use crate::runner::steps::{event_count, is_event};
use crate::scenario::predicate::EventSeen;
use crate::scenario::predicate::{Holds, Subject, That};

/// Reason why a condition cannot be evaluated. Its text is created only when it is read.
#[derive(Clone, Debug)]
pub(super) enum Undecidable {
    Because(String),
    Of(That, Items),
}

impl Undecidable {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Because(why) => why.clone(),
            Self::Of(that, items) => that.seen(&items.value()),
        }
    }
}

/// Subject of a condition, at one revision.
#[derive(Clone, Debug)]
pub(super) enum Items {
    One(Arc<Item>),
    List(Vec<Arc<Item>>),
}

impl Items {
    fn value(&self) -> Value {
        match self {
            Self::One(item) => item.value().clone(),
            Self::List(items) => Value::Array(items.iter().map(|item| item.value().clone()).collect()),
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// The condition does not hold.
    Fine,
    /// The forbidden condition holds; with a description.
    Broken(String),
    /// The condition cannot be evaluated.
    Undecidable(Undecidable),
}

/// Checker of one forbidden condition.
#[derive(Debug)]
pub(super) enum Judge {
    /// A condition on an object or a list.
    That(Subject, That, Over),
    /// Events, by name: their counts at the beginning and now.
    Events(EventSeen, BTreeMap<String, (u64, u64)>),
}

impl Judge {
    pub(super) fn that(holds: &Holds) -> Self {
        Self::That(holds.of.clone(), holds.that.clone(), holds.that.over())
    }

    pub(super) fn events(event: &EventSeen) -> Self {
        Self::Events(event.clone(), BTreeMap::new())
    }

    /// Checks the initial objects.
    pub(super) fn begin(&mut self, objects: &BTreeMap<String, Arc<Item>>) -> Verdict {
        if let Self::Events(wanted, seen) = self {
            for (name, event) in objects.iter().filter(|(_, event)| is_event(event.value(), wanted)) {
                let count = event_count(event.value());
                seen.insert(name.clone(), (count, count));
            }
            return Verdict::Fine;
        }
        self.of(objects)
    }

    /// Checks the objects after a change.
    pub(super) fn look(&mut self, objects: &BTreeMap<String, Arc<Item>>, revision: &Revision) -> Verdict {
        let Self::Events(wanted, seen) = self else { return self.of(objects) };
        if let Some(event) =
            objects.get(&revision.key).map(|event| event.value()).filter(|event| is_event(event, wanted))
        {
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

    fn of(&mut self, objects: &BTreeMap<String, Arc<Item>>) -> Verdict {
        let Self::That(subject, that, over) = self else { return Verdict::Fine };
        let (wording, items) = match subject {
            Subject::Object(object) => match objects.get(&object.key()) {
                Some(item) => (that.holds(item.value()).ok(), Items::One(item.clone())),
                None => return Verdict::Undecidable(Undecidable::Because("it does not exist".to_owned())),
            },
            Subject::List(..) => (over.holds(objects.values()), Items::List(objects.values().cloned().collect())),
        };
        match wording {
            Some(true) => Verdict::Broken(that.seen(&items.value())),
            Some(false) => Verdict::Fine,
            None => Verdict::Undecidable(Undecidable::Of(that.clone(), items)),
        }
    }
}
