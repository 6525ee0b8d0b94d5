//! Counts calls and recordings of Events.

use substrate::json::Value;

use super::{Failure, Run, within};
use crate::runner::waiter::Trigger;
use crate::scenario::predicate::EventSeen;
use crate::scenario::predicate::{CallPlane, Calls, Subject};
use crate::spec::object::Kind;

/// Number of recordings of an Event.
pub(in crate::runner) fn event_count(event: &Value) -> u64 {
    let series = event["series"]["count"].as_u64().unwrap_or(0);
    event["count"].as_u64().unwrap_or(0).max(series).max(1)
}

/// Returns true if an Event matches.
pub(in crate::runner) fn is_event(event: &Value, wanted: &EventSeen) -> bool {
    let contains = wanted.contains.as_deref().unwrap_or_default();
    is_about(event, wanted)
        && event["reason"] == *wanted.reason
        && event["message"].as_str().is_some_and(|message| message.contains(contains))
}

fn is_about(event: &Value, wanted: &EventSeen) -> bool {
    let about = &event["involvedObject"];
    about["kind"] == wanted.object.kind.kind() && about["name"] == *wanted.object.name
}

impl Run<'_> {
    pub(super) async fn expect_event(&self, wanted: &EventSeen) -> Result<(), Failure> {
        let namespace = wanted.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let path = Subject::List(Kind::event(), Some(namespace)).collection_path();
        let says = wanted.contains.as_ref().map(|contains| format!(" that says {contains:?}")).unwrap_or_default();
        let (reason, object, times) = (&wanted.reason, &wanted.object, &wanted.times);
        let expected = format!("an event {reason} of {object}{says}, {times}{}", within(wanted.within));
        self.until(wanted.within, Trigger::Event(wanted.reason.clone()), async || {
            let (events, _) = self.api("list events", self.objects.list_tree(&path).await)?;
            let count: u64 = events.iter().filter(|event| is_event(event, wanted)).map(event_count).sum();
            if wanted.times.holds(count) {
                return Ok(());
            }
            let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let reported = events.iter().filter(|event| is_about(event, wanted)).map(|event| {
                let times = match event_count(event) {
                    1 => String::new(),
                    n => format!(" ({n} times)"),
                };
                format!("{} {:?}{times}", text(event, "reason"), text(event, "message"))
            });
            let reported: Vec<String> = reported.collect();
            let seen = if reported.is_empty() { "no event of it".to_owned() } else { reported.join("; ") };
            let seen = if count > 0 { format!("it was recorded {count} times: {seen}") } else { seen };
            Err(self.failure(expected.clone(), seen))
        })
        .await
    }

    pub(super) async fn expect_calls(&self, wanted: &Calls) -> Result<(), Failure> {
        let from = wanted.since.and_then(|step| self.recorded.get(step).copied()).unwrap_or(0);
        let since = match wanted.since.and_then(|step| self.scenario.steps.get(step)?.name.clone()) {
            Some(name) => format!(" since {name}"),
            None => String::new(),
        };
        let expected = format!("{wanted} {}{since}{}", wanted.times, within(wanted.within));
        let trigger = Trigger::Kinds(match wanted.plane {
            CallPlane::Csi => &["csi.call", "csi.done"],
            CallPlane::K8s => &["api.request"],
            CallPlane::Ec2 => &["ec2.request"],
        });
        self.until(wanted.within, trigger, async || match self.call_recorder.look(wanted, from) {
            (count, _) if wanted.times.holds(count) => Ok(()),
            (_, seen) => Err(self.failure(expected.clone(), seen)),
        })
        .await
    }
}
