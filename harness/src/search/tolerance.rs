//! Adapts a scenario to runs with faults: it gets time to recover, and keeps only expectations that must hold even if
//! recovery takes long.

use std::time::Duration;

use serde_json::{Map, Value, json};
use substrate::fault::Span;

use super::document::Document;

/// Added to each time limit: a forced detach after six minutes, the longest backoffs after it, and a reserve.
const MORE: Duration = Duration::from_secs(30 * 60);
/// Default time limit of a wait.
const WAIT: Duration = Duration::from_secs(5 * 60);
/// Default deadline of a scenario.
const DEADLINE: Duration = Duration::from_secs(30 * 60);
/// Added to the deadline; each wait of a scenario may need its additional time.
const LONGER: Duration = Duration::from_secs(6 * 3600);

/// Maximum pause that replaces a removed expectation.
const PAUSE: Duration = Duration::from_secs(60);

/// Expectations about counts and durations, which a fault may increase.
const COUNTED: &[&str] = &["event", "elapsed", "checked", "call", "metric", "violation"];

/// Expectations about the state at a moment.
const STATES: &[&str] = &["attached", "ec2", "object", "list"];

/// Returns the adapted scenario and the number of removed expectations.
pub fn tolerant(document: &Document) -> (Document, usize) {
    let mut document = document.clone();
    let mut left_out = 0;
    if let Some(Value::Array(steps)) = document.tree_mut().get_mut("steps") {
        left_out += leave_the_way_open(steps);
        left_out += demand_what_was_waited_for(steps);
    }
    document.lists_mut(&mut |list| {
        left_out += list.iter().filter(|item| is_counted(item)).count();
        *list = std::mem::take(list).into_iter().filter_map(uncounted).collect();
        list.iter_mut().for_each(wait_longer);
    });
    if let Value::Object(map) = document.tree_mut() {
        // Declared violations need not occur, and are recognized if they do.
        map.remove("violations");
        let deadline = span(map.get("deadline"), DEADLINE) + LONGER;
        map.insert("deadline".to_owned(), json!(Span(deadline)));
    }
    (document, left_out)
}

/// Replaces expectations about states by pauses, except those after the last step that acts or waits. A run with faults
/// may differ from the scenario's expectations: a machine that lost its power has nothing to unmount. The final state
/// is still checked.
fn leave_the_way_open(steps: &mut [Value]) -> usize {
    let only_looks = |item: &Value| ["expect", "never"].iter().any(|key| item.get(key).is_some());
    let end = steps.iter().rposition(|item| !only_looks(item)).map_or(0, |last| last + 1);
    leave_open(&mut steps[..end])
}

/// Replaces expectations about states by pauses.
fn leave_open(items: &mut [Value]) -> usize {
    let mut left_out = 0;
    for item in items {
        if let Some(Value::Array(inner)) = item.pointer_mut("/repeat/do") {
            left_out += leave_open(inner);
        }
        let Some(expect) = item.get("expect").filter(|expect| STATES.iter().any(|key| expect.get(key).is_some()))
        else {
            continue;
        };
        let within = expect.get("within").or_else(|| expect.get("attached")?.get("within"));
        let pause = json!(Span(span(within, Duration::ZERO).min(PAUSE)));
        if let Value::Object(map) = item {
            map.remove("expect");
            map.insert("sleep".to_owned(), pause);
        }
        left_out += 1;
    }
    left_out
}

/// Lowers the number of records that a pod must find to the number for which the scenario has waited, or one. The
/// number that a writer has written depends on how long its machine ran. Invariant I6 checks all other synced records.
fn demand_what_was_waited_for(items: &mut [Value]) -> usize {
    let (mut waited, mut left_out) = (1, 0);
    for item in items {
        waited = waited.max(item.pointer("/wait/records").and_then(Value::as_u64).unwrap_or_default());
        let Some(expect) = item.get_mut("expect").filter(|expect| expect.get("bytes-intact").is_some()) else {
            continue;
        };
        if let Some(records) = expect.get_mut("records").filter(|records| records.as_u64() > Some(waited)) {
            *records = waited.into();
            left_out += 1;
        }
    }
    left_out
}

fn is_counted(item: &Value) -> bool {
    let expect = item.get("expect").and_then(Value::as_object);
    item.get("never").is_some() || expect.is_some_and(|expect| COUNTED.iter().any(|key| expect.contains_key(*key)))
}

/// Removes an item that counts. An expected Event with `within` becomes a pause, because it orders the scenario: the
/// following steps must not come before the components had time for the action that the Event reports.
fn uncounted(item: Value) -> Option<Value> {
    if !is_counted(&item) {
        return Some(item);
    }
    let waits = item["expect"].get("event").and_then(|event| event.get("within"));
    waits.map(|within| json!({ "sleep": Span(span(Some(within), Duration::ZERO).min(PAUSE)) }))
}

fn wait_longer(item: &mut Value) {
    if let Some(Value::Object(wait)) = item.get_mut("wait") {
        add(wait, WAIT);
    }
    let Some(Value::Object(expect)) = item.get_mut("expect") else { return };
    if let Some(Value::Object(attached)) = expect.get_mut("attached") {
        add(attached, Duration::ZERO);
    } else if ["object", "list", "ec2"].iter().any(|key| expect.contains_key(*key)) {
        add(expect, Duration::ZERO);
    }
}

fn add(map: &mut Map<String, Value>, otherwise: Duration) {
    let within = span(map.get("within"), otherwise) + MORE;
    map.insert("within".to_owned(), json!(Span(within)));
}

fn span(value: Option<&Value>, otherwise: Duration) -> Duration {
    value.and_then(Value::as_str).and_then(|text| text.parse::<Span>().ok()).map_or(otherwise, |span| span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_get_more_time_and_counting_steps_are_left_out() {
        let text = "
name: t
nodes: {count: 1}
violations: [kubelet-forgets-staged-volume]
steps:
  - repeat: {count: 2, as: i, do: [{pod: {name: \"p-${i}\"}}, {wait: {object: \"pod/p-${i}\", is: Running}}]}
  - never: {call: {plane: csi, op: DeleteVolume}}
  - expect: {event: {object: pod/p-1, reason: Failed, within: 10s}}
  - expect: {elapsed: {at-most: 5m}}
  - expect: {attached: {claim: data, node: node-a, within: 5s}}
  - expect: {object: pod/p-1, that: \"false\"}
  - wait: {object: pod/p-1, records: 3}
  - expect: {bytes-intact: pod/p-1, records: 2}
  - expect: {bytes-intact: pod/p-1, records: 22}
  - delete: {object: pod/p-2}
  - wait: {object: pod/p-2, is: gone}
  - expect: {attached: {claim: data, node: node-a}}
  - expect: {object: pod/p-1, that: \"true\", within: 1m}
";
        let (tolerant, left_out) = tolerant(&Document::of_text("t", text).unwrap());
        assert_eq!(left_out, 6);
        let text = tolerant.text();
        for line in [
            "deadline: 390m",
            "  - sleep: 10s\n  - sleep: 5s\n  - sleep: \"0s\"\n",
            "  - expect: {bytes-intact: pod/p-1, records: 2}\n  - expect: {bytes-intact: pod/p-1, records: 3}\n",
            "wait: {object: \"pod/p-${i}\", is: Running, within: 35m}",
            "  - expect: {attached: {claim: data, node: node-a, within: 30m}}",
            "  - expect: {object: pod/p-1, that: \"true\", within: 31m}",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        assert!(!text.contains("violations") && !text.contains("never") && !text.contains("elapsed"), "{text}");
    }
}
