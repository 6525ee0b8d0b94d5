//! Correlation of Events before they are written (client-go `tools/record/events_cache.go`): equal Events are counted,
//! similar ones are combined, and a source that reports too much about one object is silenced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use substrate::json::Text;

use super::events::Occurrence;

/// Number of messages of one reason and object from which on Events are combined (`defaultAggregateMaxEvents`).
const SIMILAR: usize = 10;
/// Time without a similar Event after which none are combined (`defaultAggregateIntervalInSeconds`).
pub(super) const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// Number of Events that a source may report about an object at once (`defaultSpamBurst`).
const BURST: i64 = 25;
/// Time until a silenced source may report another one (`defaultSpamQPS`).
pub(super) const REFILL: Duration = Duration::from_secs(300);
/// Size of each of client-go's caches (`maxLruCacheEntries`).
const MAX_KEYS: usize = 4096;

/// Event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Correlated {
    /// Key under which it is counted.
    pub(super) key: String,
    /// True if it stands for similar Events.
    pub(super) is_combined: bool,
    pub(super) message: Text,
    pub(super) name: String,
    /// Number of its occurrences. An Event that occurred before is patched.
    pub(super) count: i32,
    /// Time of its first occurrence.
    pub(super) first: Timestamp,
}

#[derive(Clone, Debug)]
struct Logged {
    name: String,
    count: i32,
    first: Timestamp,
}

/// Different messages of similar Events, and the time of the last one in milliseconds.
#[derive(Debug, Default)]
struct Group {
    messages: BTreeSet<String>,
    last: i64,
}

/// Token bucket in milliseconds: an Event costs the time of a refill.
#[derive(Debug)]
struct Budget {
    credit: i64,
    at: i64,
}

/// Caches of one recorder.
#[derive(Debug)]
pub(super) struct Correlator {
    similar_within: i64,
    refill: i64,
    groups: BTreeMap<String, Group>,
    logged: BTreeMap<String, Logged>,
    budgets: BTreeMap<String, Budget>,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the key of an object; with `path` for one of its fields.
fn object_key(of: &ObjectReference, path: bool) -> String {
    let path = of.field_path.as_ref().filter(|_| path);
    let fields = [&of.kind, &of.namespace, &of.name, &of.uid, &of.api_version].map(Option::as_ref);
    fields.into_iter().chain([path]).map(|field| field.map_or("", String::as_str)).collect::<Vec<_>>().join("\0")
}

/// Inserts an entry; a full cache loses another one.
fn insert<V>(cache: &mut BTreeMap<String, V>, key: String, value: V) {
    if cache.len() >= MAX_KEYS && !cache.contains_key(&key) {
        cache.pop_first();
    }
    cache.insert(key, value);
}

impl Correlator {
    /// Creates a correlator with the scaled times [`SIMILAR_WITHIN`] and [`REFILL`].
    pub(super) fn new(similar_within: Duration, refill: Duration) -> Self {
        Self {
            similar_within: millis(similar_within),
            refill: millis(refill),
            groups: BTreeMap::new(),
            logged: BTreeMap::new(),
            budgets: BTreeMap::new(),
        }
    }

    /// Returns the Event to write, if its source may still report about the object (`EventCorrelate`). `name` makes the
    /// name of a new Event.
    pub(super) fn correlate(&mut self, of: &Occurrence, name: impl FnOnce() -> String) -> Option<Correlated> {
        let about = [object_key(&of.object, false).as_str(), &*of.kind].join("\0");
        let similar = [about.as_str(), &*of.reason].join("\0");
        let is_combined = self.combines(&similar, of);
        let (key, message) = if is_combined {
            (similar, Text::from(format!("(combined from similar events): {}", of.message)))
        } else {
            let object = object_key(&of.object, true);
            ([object.as_str(), &*of.kind, &*of.reason, &*of.message].join("\0"), of.message.clone())
        };
        let logged = match self.logged.get_mut(&key) {
            Some(known) => {
                known.count += 1;
                known.clone()
            }
            None => {
                let new = Logged { name: name(), count: 1, first: of.at };
                insert(&mut self.logged, key.clone(), new.clone());
                new
            }
        };
        let Logged { name, count, first } = logged;
        self.spends(about, of.at).then_some(Correlated { key, is_combined, message, name, count, first })
    }

    /// Notes another name of an Event.
    pub(super) fn renamed(&mut self, key: &str, name: &str) {
        if let Some(logged) = self.logged.get_mut(key) {
            name.clone_into(&mut logged.name);
        }
    }

    /// Notes an Event, and returns true if it is combined with similar ones (`EventAggregate`).
    fn combines(&mut self, similar: &str, of: &Occurrence) -> bool {
        let now = of.at.as_millisecond();
        let mut group = self.groups.remove(similar).filter(|group| now - group.last <= self.similar_within);
        let known = group.get_or_insert_default();
        known.messages.insert(of.message.to_string());
        known.last = now;
        let combines = known.messages.len() >= SIMILAR;
        if combines {
            // Upstream forgets any of them.
            known.messages.pop_first();
        }
        insert(&mut self.groups, similar.to_owned(), group.unwrap_or_default());
        combines
    }

    /// Takes an Event from the budget of a source and an object (`EventSourceObjectSpamFilter`).
    fn spends(&mut self, about: String, at: Timestamp) -> bool {
        let (now, refill) = (at.as_millisecond(), self.refill);
        let full = refill.saturating_mul(BURST);
        let mut budget = self.budgets.remove(&about).unwrap_or(Budget { credit: full, at: now });
        budget.credit = budget.credit.saturating_add((now - budget.at).max(0)).min(full);
        budget.at = now;
        let has_credit = budget.credit >= refill;
        if has_credit {
            budget.credit -= refill;
        }
        insert(&mut self.budgets, about, budget);
        has_credit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn occurrence(name: &str, reason: &str, message: &str, second: i64) -> Occurrence {
        let object = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        let [kind, reason, message] = ["Normal", reason, message].map(Text::from);
        Occurrence { object: Arc::new(object), kind, reason, message, at: Timestamp::from_second(second).unwrap() }
    }

    fn correlator() -> Correlator {
        Correlator::new(SIMILAR_WITHIN, REFILL)
    }

    /// Returns the name, the count and the message of the Event that is written.
    fn written(correlator: &mut Correlator, of: &Occurrence, name: &str) -> Option<(String, i32, String)> {
        let event = correlator.correlate(of, || name.to_owned())?;
        Some((event.name, event.count, event.message.to_string()))
    }

    #[test]
    fn equal_events_are_counted() {
        let mut all = correlator();
        let event = occurrence("a", "Pulled", "x", 1);
        assert_eq!(written(&mut all, &event, "first"), Some(("first".to_owned(), 1, "x".to_owned())));
        assert_eq!(written(&mut all, &event, "unused"), Some(("first".to_owned(), 2, "x".to_owned())));
        let other = occurrence("b", "Pulled", "x", 1);
        assert_eq!(written(&mut all, &other, "second"), Some(("second".to_owned(), 1, "x".to_owned())));
    }

    #[test]
    fn the_tenth_similar_event_is_combined_with_those_after_it() {
        let mut all = correlator();
        let at = |number: i64| occurrence("a", "Created", &format!("pod {number:02}"), number);
        for number in 1..10 {
            let event = all.correlate(&at(number), || "own".to_owned()).unwrap();
            assert!(!event.is_combined && event.count == 1, "{event:?}");
        }
        for (number, count) in [(10, 1), (11, 2)] {
            let event = all.correlate(&at(number), || "together".to_owned()).unwrap();
            let message = format!("(combined from similar events): pod {number}");
            assert_eq!((event.name.as_str(), event.count, &*event.message), ("together", count, &*message));
            assert!(event.is_combined && event.first == Timestamp::from_second(10).unwrap());
        }
        // Another reason, and a later time.
        assert!(!all.correlate(&occurrence("a", "Deleted", "pod", 12), String::new).unwrap().is_combined);
        assert!(!all.correlate(&occurrence("a", "Created", "late", 700), String::new).unwrap().is_combined);
    }

    #[test]
    fn a_source_that_reports_too_much_is_silenced_but_its_events_are_counted() {
        let mut all = correlator();
        let event = |second| occurrence("a", "Failed", "x", second);
        for count in 1..=25 {
            assert_eq!(written(&mut all, &event(1), "n").map(|event| event.1), Some(count));
        }
        assert_eq!(written(&mut all, &event(1), "n"), None);
        assert_eq!(written(&mut all, &event(300), "n"), None);
        assert_eq!(written(&mut all, &event(301), "n").map(|event| event.1), Some(28));
        assert_eq!(written(&mut all, &event(301), "n"), None);
        // Each object has a budget of its own.
        assert!(written(&mut all, &occurrence("b", "Failed", "x", 301), "n").is_some());
    }
}
