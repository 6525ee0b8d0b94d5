//! `event`: a Kubernetes Event about an object was recorded.

use super::times::{TIMES, Times, WrittenTimes};
use crate::scenario::prelude::*;

pub(super) static KEY: Key = one("event", Of::Map(&EVENT), "A Kubernetes Event about an object.").like(&[
    "- expect: {event: {object: pod/web, reason: Scheduled}}",
    "- expect: {event: {object: pod/web, reason: Scheduled, contains: node-a, times: 1}}",
]);

pub(in crate::scenario) static EVENT: Map = Map {
    name: "event",
    about: "A Kubernetes Event.",
    keys: &[
        must("object", Of::Object, "The object of the Event."),
        must("reason", Of::Text, "Its reason, exactly."),
        may("contains", Of::Text, "A part of its message."),
        may("times", TIMES, "Number of occurrences; at least one when absent."),
        may("within", Of::Span, "Time limit; the Event must exist now when absent."),
    ],
};

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::scenario) struct Written {
    object: Spanned<String>,
    reason: String,
    contains: Option<String>,
    pub times: Option<Spanned<WrittenTimes>>,
    pub within: Option<Span>,
}

/// A Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSeen {
    pub object: ObjectRef,
    pub reason: String,
    pub contains: Option<String>,
    pub times: Times,
    /// If zero, it must exist already.
    pub within: Duration,
}

pub(super) fn lower(event: Spanned<Written>, _: Expect, steps: &mut Steps<'_>) -> Checked<Expectation> {
    check(event.value, steps).map(Expectation::Event)
}

pub(in crate::scenario) fn check(event: Written, steps: &Steps<'_>) -> Checked<EventSeen> {
    let Written { object, reason, contains, times, within } = event;
    let times = times.map(|times| times.value.check(times.place, within.is_some())).transpose()?.unwrap_or_default();
    let within = within.map_or(Duration::ZERO, |within| within.0);
    let object = steps.object(&object)?;
    Ok(EventSeen { object, reason, contains, times, within })
}

pub(super) fn summary(event: &EventSeen) -> Summary {
    let says = event.contains.as_ref().map(|part| format!(" says \"{part}\"")).unwrap_or_default();
    let times = if event.times == Times::default() { String::new() } else { format!(", {}", event.times) };
    let text = format!("an event {} of {}{says}{times}{}", event.reason, event.object, Within(event.within));
    Summary::check(text).of(&event.object)
}
