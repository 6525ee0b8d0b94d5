//! I8: a component that repeats a failed call pauses between its attempts.
//!
//! The shortest backoff of upstream's components starts at half a second and doubles. A new pod or a restart starts it
//! again, so only many failures within a short time are a violation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use csi_mock::events::{CsiCall, CsiDone};
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::json::Text;

use super::{Found, facts::Facts};

/// Number of failures of one call within [`SPAN`] that no backoff allows.
const MOST: usize = 30;
/// Span in milliseconds.
const SPAN: u64 = 10_000;

/// Operation, volume, node and target of a call.
type Key = (Text, Text, Text, Text);

/// Recent failures of each call.
#[derive(Debug, Default)]
pub(super) struct Pace {
    open: BTreeMap<(Arc<str>, u64), Text>,
    failures: BTreeMap<Key, VecDeque<u64>>,
    /// Calls for which a violation was reported.
    reported: BTreeSet<Key>,
}

impl Pace {
    pub fn check(&mut self, facts: &Facts, scale: TimeScale, event: &Event) -> Option<Found> {
        if let Some(call) = event.get::<CsiCall>() {
            if call.caller.is_none() {
                let target = call.target.clone().unwrap_or_default();
                self.open.insert((event.process.clone(), call.ordinal), target);
            }
            return None;
        }
        let done = event.get::<CsiDone>()?;
        let target = self.open.remove(&(event.process.clone(), done.ordinal))?;
        let (volume, node) = (done.volume.clone().unwrap_or_default(), done.node.clone().unwrap_or_default());
        let key = (done.rpc.clone(), volume.clone(), node.clone(), target);
        if done.code == "OK" {
            self.failures.remove(&key);
            return None;
        }
        let failures = self.failures.entry(key.clone()).or_default();
        failures.push_back(event.ms);
        let span = scale.apply(std::time::Duration::from_millis(SPAN)).as_millis();
        failures.retain(|ms| u128::from(event.ms - ms) < span);
        if failures.len() < MOST || !self.reported.insert(key) {
            return None;
        }
        let message =
            format!("{} of {volume} failed {MOST} times within {SPAN} ms: its caller does not wait", done.rpc);
        let (volume, node) = (Some(volume.to_string()), Some(facts.name(&node).to_owned()));
        let node = node.filter(|node| !node.is_empty());
        Some(Found { message, operation: done.rpc.to_string(), volume, node, ..Found::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns the number of findings of a run in which a call fails this often, with this time between.
    fn found(times: u64, between: Duration, code: &'static str) -> usize {
        let events = simulate(Options::default(), async move |world| {
            let process = "csi-controller".into();
            for ordinal in 1..=times {
                let (rpc, volume) = (Text::from("ControllerPublishVolume"), Some(Text::from("vol-1")));
                let call = CsiCall { volume: volume.clone(), ..CsiCall::new(rpc.clone(), ordinal) };
                world.trace().info(&process, call);
                let code = code.into();
                world
                    .trace()
                    .info(&process, CsiDone { rpc, volume, node: None, ordinal, code, took_ms: 1, message: None });
                world.clock().sleep_until(between * ordinal as u32).await;
            }
            world.trace().events()
        });
        let (facts, mut pace) = (Facts::default(), Pace::default());
        events.iter().filter_map(|event| pace.check(&facts, TimeScale::default(), event)).count()
    }

    #[test]
    fn a_caller_that_does_not_wait_is_found() {
        assert_eq!(found(40, Duration::from_millis(10), "INTERNAL"), 1);
        assert_eq!(found(200, Duration::from_millis(500), "INTERNAL"), 0, "the shortest backoff, again and again");
        assert_eq!(found(100, Duration::from_millis(10), "OK"), 0);
    }
}
