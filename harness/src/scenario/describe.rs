//! Descriptions of expectations for progress, traces and failure reports.

use std::fmt;

use substrate::fault::Span;

use super::model::Expectation;
use super::predicate::{Times, Within};

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => {
                write!(f, "an event {} of {}", event.reason, event.object)?;
                if let Some(part) = &event.contains {
                    write!(f, " says \"{part}\"")?;
                }
                if event.times != Times::default() {
                    write!(f, ", {}", event.times)?;
                }
                Within(event.within).fmt(f)
            }
            Self::BytesIntact(bytes) => {
                write!(f, "{} found at least {} intact records when it started", bytes.pod, bytes.records)
            }
            Self::Attached(attached) => {
                write!(f, "the volume of {} is attached to {}", attached.claim, attached.node)?;
                Within(attached.within).fmt(f)
            }
            Self::Checked(counts) => {
                let counts: Vec<String> = counts.iter().map(|(id, least)| format!("{id} on {least}")).collect();
                write!(f, "by the end invariants were looked at: {} occasions or more", counts.join(", "))
            }
            Self::Holds(holds) => {
                write!(f, "{} satisfies `{}`", holds.of, holds.that)?;
                Within(holds.within).fmt(f)
            }
            Self::Calls(calls) => {
                write!(f, "{calls} {}", calls.times)?;
                if let Some(step) = calls.since {
                    write!(f, " since step {} began", step + 1)?;
                }
                Within(calls.within).fmt(f)
            }
            Self::Metric(metric) => {
                metric.fmt(f)?;
                Within(metric.within).fmt(f)
            }
            Self::Cloud(cloud) => {
                cloud.fmt(f)?;
                Within(cloud.within).fmt(f)
            }
            Self::Fired(fired) => {
                write!(f, "the fault {} has fired", fired.fault)?;
                Within(fired.within).fmt(f)
            }
            Self::Writes(writes) => {
                let (lines, since) = (writes.lines.len(), writes.since + 1);
                write!(f, "the API server was written to as in {lines} lines since step {since} began")
            }
            Self::Violation(id) => write!(f, "by the end the declared deviation {id} occurred"),
            Self::Elapsed(elapsed) => {
                f.write_str("the time since ")?;
                match elapsed.since {
                    Some(step) => write!(f, "step {} began", step + 1)?,
                    None => f.write_str("the first step began")?,
                }
                match (elapsed.at_least, elapsed.at_most) {
                    (Some(least), Some(most)) => write!(f, " is {} to {}", Span(least), Span(most)),
                    (Some(least), None) => write!(f, " is at least {}", Span(least)),
                    (None, Some(most)) => write!(f, " is at most {}", Span(most)),
                    (None, None) => f.write_str(" is anything"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    #[test]
    fn a_step_says_what_it_does() {
        let text = "name: t
nodes: {count: 2}
steps:
  - {name: go, apply: [{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}, {apiVersion: v1, kind: Node, metadata: {name: n}}]}
  - wait: {object: pod/web, is: Running, on: node-a, records: 5, within: 90s}
  - expect: {event: {object: pod/a/web, reason: R, contains: c, within: 30s}}
  - expect: {elapsed: {since: go, at-least: 710s, at-most: 20m}}
  - expect: {attached: {claim: data, node: node-b}}
  - delete: {object: pod/web, force: true}
  - wait: {object: pod/web, is: Running, that: \"has(self.spec)\", within: 90s}
  - wait: {list: pods, that: \"self.size() == 1\", within: 90s}
  - expect: {call: {plane: csi, op: NodeStageVolume, where: {volume: pvc/data, code: OK}, times: 2}, since: go, within: 5s}
  - expect: {metric: {of: mock-ec2, name: m, where: {state: error}, value: {at-least: 1}}}
  - expect: {ec2: {volume: pvc/data, state: in-use, attached: [node-a]}, within: 5s}
  - never: {event: {object: pod/a/web, reason: R}, until: end}
  - {name: end, expect: {event: {object: pod/a/web, reason: R, times: {at-most: 1}}}}
";
        let steps = parse("t.yaml", text).expect("valid").steps;
        let message: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            message,
            [
                "go: apply pod/web, node/n",
                "wait until pod/web is Running on node-a and has written 5 records within 1m30s",
                "expect that an event R of pod/a/web says \"c\" within 30s",
                "expect that the time since step 1 began is 11m50s to 20m",
                "expect that the volume of pvc/data is attached to node-b",
                "force delete pod/web",
                "wait until pod/web is Running and satisfies `has(self.spec)` within 1m30s",
                "wait until the list of pods satisfies `self.size() == 1` within 1m30s",
                "expect that NodeStageVolume of csi volume=pvc/data ending in OK 2 times since step 1 began within 5s",
                "expect that m of mock-ec2 where state=\"error\" is at least 1",
                "expect that the cloud's volume of pvc/data is in-use and is attached to node-a alone within 5s",
                "see that never an event R of pod/a/web at least once until end",
                "end: expect that an event R of pod/a/web, at most once",
            ]
        );
    }
}
