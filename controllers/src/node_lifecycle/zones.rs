//! Rate of tainting nodes in a zone: zone states and the rate-limited queue.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::health::Ready;
use crate::kube::Kind;

/// Zones of at most this size stop evictions when they are unhealthy (`--large-cluster-size-threshold`).
pub const LARGE_ZONE: usize = 50;
/// Fraction of unready nodes that makes a zone unhealthy (`--unhealthy-zone-threshold`).
pub const UNHEALTHY_PART: f64 = 0.55;

/// Health of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneState {
    /// Not evaluated yet.
    #[default]
    Initial,
    /// Enough nodes are ready.
    Normal,
    /// At least 55 % and at least 3 nodes are not ready.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

/// Returns the state of a zone (`ComputeZoneState`).
pub fn zone_state(ready: usize, not_ready: usize) -> ZoneState {
    if ready == 0 && not_ready > 0 {
        ZoneState::FullDisruption
    } else if not_ready > 2 && not_ready as f64 / (not_ready + ready) as f64 >= UNHEALTHY_PART {
        ZoneState::PartialDisruption
    } else {
        ZoneState::Normal
    }
}

impl ZoneState {
    /// Returns the nodes per second that may be tainted in a zone of `size` nodes.
    pub fn rate(self, size: usize, normal: f64, secondary: f64) -> f64 {
        match self {
            Self::Initial | Self::Normal | Self::FullDisruption => normal,
            Self::PartialDisruption => {
                if size > LARGE_ZONE {
                    secondary
                } else {
                    0.0
                }
            }
        }
    }
}

/// Returns region and zone of a node as a key (`GetZoneKey`).
pub fn zone_key(node: &Node) -> String {
    let label = |key: &str| node.label(key).unwrap_or_default();
    let (region, zone) = (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
    if region.is_empty() && zone.is_empty() { String::new() } else { [region, ":\0:", zone].concat() }
}

/// Returns true if the monitor counts the node as ready.
pub fn is_ready(current: Option<Ready>) -> bool {
    current == Some(Ready::True)
}

/// Token bucket of one token with the nodes that wait for it (`RateLimitedTimedQueue`).
#[derive(Clone, Debug)]
pub struct TaintQueue {
    interval: Option<Duration>,
    next_token: Duration,
    queue: VecDeque<String>,
    /// Nodes that were added and not removed since; they are not queued twice.
    known: BTreeSet<String>,
}

impl TaintQueue {
    /// Creates an empty queue with a token available. `interval` between tokens; None for never.
    pub fn new(interval: Option<Duration>) -> Self {
        Self { interval, next_token: Duration::ZERO, queue: VecDeque::new(), known: BTreeSet::new() }
    }

    /// Changes the rate. A spent token is not restored.
    pub fn set_interval(&mut self, now: Duration, interval: Option<Duration>) {
        if self.interval == interval {
            return;
        }
        let had_token = self.interval.is_some() && now >= self.next_token;
        self.interval = interval;
        self.next_token = match interval {
            Some(interval) if !had_token => now + interval,
            _ => now,
        };
    }

    /// Queues a node unless it was queued before. Returns true if it is new.
    pub fn add(&mut self, node: &str) -> bool {
        if !self.known.insert(node.to_owned()) {
            return false;
        }
        self.queue.push_back(node.to_owned());
        true
    }

    /// Removes a node. Returns true if it was queued or done.
    pub fn remove(&mut self, node: &str) -> bool {
        self.queue.retain(|queued| queued != node);
        self.known.remove(node)
    }

    /// Takes the next node and a token.
    pub fn take(&mut self, now: Duration) -> Option<String> {
        let interval = self.interval?;
        if self.queue.is_empty() || now < self.next_token {
            return None;
        }
        self.next_token = now + interval;
        self.queue.pop_front()
    }

    /// Returns a node to the front after a failed taint.
    pub fn put_back(&mut self, node: String) {
        if self.known.contains(&node) {
            self.queue.push_front(node);
        }
    }

    /// Returns the time of the next node; None if none waits or the rate is zero.
    pub fn next_turn(&self) -> Option<Duration> {
        self.interval.filter(|_| !self.queue.is_empty()).map(|_| self.next_token)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[rstest]
    #[case(3, 0, ZoneState::Normal)]
    #[case(1, 2, ZoneState::Normal)]
    #[case(2, 3, ZoneState::PartialDisruption)]
    #[case(3, 3, ZoneState::Normal)]
    #[case(0, 1, ZoneState::FullDisruption)]
    fn zones_are_judged_by_their_nodes(#[case] ready: usize, #[case] not_ready: usize, #[case] expected: ZoneState) {
        assert_eq!(zone_state(ready, not_ready), expected);
    }

    #[test]
    fn a_small_unhealthy_zone_stops_and_a_large_one_slows_down() {
        assert_eq!(ZoneState::PartialDisruption.rate(50, 0.1, 0.01), 0.0);
        assert_eq!(ZoneState::PartialDisruption.rate(51, 0.1, 0.01), 0.01);
        assert_eq!(ZoneState::FullDisruption.rate(5, 0.1, 0.01), 0.1);
    }

    #[test]
    fn one_node_in_ten_seconds_is_tainted() {
        let mut queue = TaintQueue::new(Some(S(10)));
        for node in ["a", "b", "c"] {
            assert!(queue.add(node));
        }
        assert!(!queue.add("a"));
        assert_eq!(queue.take(S(100)).as_deref(), Some("a"));
        assert_eq!(queue.take(S(109)), None);
        assert_eq!(queue.next_turn(), Some(S(110)));
        assert_eq!(queue.take(S(110)).as_deref(), Some("b"));
        assert!(queue.remove("c"));
        assert_eq!((queue.take(S(200)), queue.next_turn()), (None, None));
    }

    #[test]
    fn a_node_that_was_tainted_is_queued_again_only_after_it_was_removed() {
        let mut queue = TaintQueue::new(Some(S(10)));
        queue.add("a");
        queue.take(S(0));
        assert!(!queue.add("a"));
        queue.remove("a");
        assert!(queue.add("a"));
    }

    #[test]
    fn a_stopped_queue_starts_again_without_a_burst() {
        let mut queue = TaintQueue::new(Some(S(10)));
        queue.add("a");
        queue.set_interval(S(0), None);
        assert_eq!((queue.take(S(50)), queue.next_turn()), (None, None));
        queue.set_interval(S(50), Some(S(10)));
        assert_eq!(queue.take(S(59)), None);
        assert_eq!(queue.take(S(60)).as_deref(), Some("a"));
    }
}
