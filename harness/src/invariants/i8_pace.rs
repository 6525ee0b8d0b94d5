//! I8: a component that repeats a failed call pauses between its attempts, and attach-detach pauses longer each time.
//!
//! The shortest backoff of upstream's components starts at half a second and doubles. A new pod or a restart starts it
//! again, so only many failures within a short time are a violation. Attach-detach keeps its backoff for each volume
//! until it detaches the volume (`nestedpendingoperations`), so eight attempts to attach fit in a minute, and eight more
//! after each start of a process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use controllers::events::{Attach, Detach};
use csi_mock::events::CsiDone;
use substrate::Event;
use substrate::clock::TimeScale;
use substrate::json::Text;

use super::Found;
use crate::model::RunModel;

/// Number of failures of one call within [`SPAN`] that no backoff allows.
const MOST: usize = 30;
/// Span in milliseconds.
const SPAN: u64 = 10_000;
/// Number of attempts to attach a volume to a node within [`ATTACH_SPAN`] that no growing backoff allows.
const MOST_ATTACHES: usize = 40;
/// Span of attempts to attach, in milliseconds.
const ATTACH_SPAN: u64 = 60_000;

/// Operation, volume, node and target of a call.
type Key = (Text, Text, Text, Text);

/// Recent failures of each call.
#[derive(Debug, Default)]
pub(super) struct Pace {
    failures: BTreeMap<Key, VecDeque<u64>>,
    /// Calls for which a violation was reported.
    reported: BTreeSet<Key>,
    /// Recent attempts to attach a volume to a node, since the volume was last detached.
    attaches: BTreeMap<(Text, Text), VecDeque<u64>>,
}

impl Pace {
    pub fn check(&mut self, model: &RunModel, scale: TimeScale, event: &Event) -> Option<Found> {
        if let Some(attach) = event.get::<Attach>() {
            return self.attach(scale, event.ms, attach);
        }
        if let Some(detach) = event.get::<Detach>() {
            // Another operation on the volume starts its backoff again.
            self.attaches.retain(|(volume, _), _| *volume != detach.volume);
            return None;
        }
        let done = event.get::<CsiDone>()?;
        let call = model.calls.answered().filter(|call| call.caller.is_none())?;
        let target = call.target.clone().unwrap_or_default();
        let (volume, node) = (done.volume.clone().unwrap_or_default(), done.node.clone().unwrap_or_default());
        let key = (done.rpc.clone(), volume.clone(), node.clone(), target);
        if done.code == "OK" {
            self.failures.remove(&key);
            return None;
        }
        let failures = self.failures.entry(key.clone()).or_default();
        note(failures, scale, event.ms, SPAN);
        if failures.len() < MOST || !self.reported.insert(key) {
            return None;
        }
        let message =
            format!("{} of {volume} failed {MOST} times within {SPAN} ms: its caller does not wait", done.rpc);
        let (volume, node) = (Some(volume.to_string()), Some(model.name(&node).to_owned()));
        let node = node.filter(|node| !node.is_empty());
        Some(Found { message, operation: done.rpc.to_string(), volume, node, ..Found::default() })
    }

    fn attach(&mut self, scale: TimeScale, ms: u64, attach: &Attach) -> Option<Found> {
        let Attach { volume, node, .. } = attach;
        let attempts = self.attaches.entry((volume.clone(), node.clone())).or_default();
        note(attempts, scale, ms, ATTACH_SPAN);
        if attempts.len() < MOST_ATTACHES {
            return None;
        }
        // Each further attempt would be found again.
        attempts.clear();
        let message = format!(
            "attach-detach tried {MOST_ATTACHES} times within {ATTACH_SPAN} ms to attach {volume}: its pauses do not grow"
        );
        let (volume, node) = (Some(volume.to_string()), Some(node.to_string()));
        Some(Found { message, operation: "attach".to_owned(), volume, node, ..Found::default() })
    }
}

/// Adds the present to recent times, and drops those that are older than `span` milliseconds.
fn note(times: &mut VecDeque<u64>, scale: TimeScale, now: u64, span: u64) {
    times.push_back(now);
    let span = scale.apply(Duration::from_millis(span)).as_millis();
    times.retain(|ms| u128::from(now.saturating_sub(*ms)) < span);
}

#[cfg(test)]
mod tests {
    use csi_mock::events::CsiCall;
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
        let (mut model, mut pace) = (RunModel::default(), Pace::default());
        let found = events.iter().filter_map(|event| {
            model.observe(event);
            pace.check(&model, TimeScale::default(), event)
        });
        found.count()
    }

    #[test]
    fn a_caller_that_does_not_wait_is_found() {
        assert_eq!(found(40, Duration::from_millis(10), "INTERNAL"), 1);
        assert_eq!(found(200, Duration::from_millis(500), "INTERNAL"), 0, "the shortest backoff, again and again");
        assert_eq!(found(100, Duration::from_millis(10), "OK"), 0);
    }

    /// Returns the number of findings of a run that attaches a volume this often, with this time between, and detaches
    /// it at each `nth` time.
    fn attached(times: u64, between: Duration, nth: u64) -> usize {
        let events = simulate(Options::default(), async move |world| {
            let process = "kube-controller-manager".into();
            let (volume, pv, node) = (Text::from("vol-1"), Text::from("pv-1"), Text::from("node-a"));
            for count in 1..=times {
                let attach = Attach { volume: volume.clone(), pv: pv.clone(), node: node.clone(), forced: false };
                world.trace().info(&process, attach);
                if count.is_multiple_of(nth) {
                    let (volume, pv, node) = (volume.clone(), pv.clone(), node.clone());
                    world.trace().info(&process, Detach { volume, pv, node, forced: false, reason: None });
                }
                world.clock().sleep_until(between * count as u32).await;
            }
            world.trace().events()
        });
        let (model, mut pace) = (RunModel::default(), Pace::default());
        events.iter().filter_map(|event| pace.check(&model, TimeScale::default(), event)).count()
    }

    #[test]
    fn attempts_to_attach_become_rare() {
        assert_eq!(attached(60, Duration::from_millis(600), 1000), 1);
        assert_eq!(attached(200, Duration::from_secs(10), 1000), 0, "rare enough");
        assert_eq!(attached(200, Duration::from_millis(600), 8), 0, "a detach starts the backoff again");
    }
}
