//! `time-scale`: which durations it divides, and which it leaves alone.
//!
//! A scale shortens a story as a whole: what somebody waits for and what comes in between are divided alike, so that it
//! happens in the same order. What a real machine needs for its work gets no shorter, and what only guards against a peer
//! that is dead must not cut it off.

use std::time::Duration;

/// A kind of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which durations.
    pub what: &'static str,
    /// Whether `time-scale` divides them.
    pub divided: bool,
    /// With which exception, or why not.
    pub note: &'static str,
}

/// All kinds. Whoever waits calls [`TimeScale::apply`] or [`TimeScale::patience`] for those that are divided.
pub const RULES: &[Rule] = &[
    divided("what control loops and the node agent wait: periods, polls, backoffs, grace periods", ""),
    divided("how long a Lease, a heartbeat or a toleration is believed", "the object has the number as it is"),
    divided(
        "the deadline that upstream gives a call: of a driver, of leader election, of the kubelet's heartbeats",
        FLOOR,
    ),
    divided("what the cloud, its states and its latencies take", ""),
    divided("of a fault: `delay`, `after`, `for` and its lease", ""),
    divided("of a scenario: `sleep`, `within`, `deadline`, how long a settled world stays so", ""),
    divided("how long a link waits for a peer that a partition hides", ""),
    left("how long a request to the API server may take, where upstream sets no deadline: 30s", GUARD),
    left("how long a message travels in simulation (`link`)", "it is given as it is"),
    left("how long `mooring` waits for a process, a server or a disk of its own", "they work in real time"),
    left(
        "what is written down: times and numbers in objects, events and the trace",
        "they are read with the scale in mind",
    ),
];

const FLOOR: &str = "never below a second, or the deadline itself where that is shorter: the peer's work is real";
const GUARD: &str = "it guards against a server that never answers, and a slow machine is none";

const fn divided(what: &'static str, note: &'static str) -> Rule {
    Rule { what, divided: true, note }
}

const fn left(what: &'static str, note: &'static str) -> Rule {
    Rule { what, divided: false, note }
}

/// The least that [`TimeScale::patience`] leaves of a deadline.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// `time-scale` of a scenario: divides the durations of [`RULES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale(f64);

impl Default for TimeScale {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TimeScale {
    /// A scale of `factor`; anything that is not a finite number above zero counts as 1.
    pub fn new(factor: f64) -> Self {
        Self(if factor.is_finite() && factor > 0.0 { factor } else { 1.0 })
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// `d` divided by the factor.
    pub fn apply(self, d: Duration) -> Duration {
        if self.0 == 1.0 { d } else { d.div_f64(self.0) }
    }

    /// The deadline of a call, divided by the factor, but never less than a second (or `limit` itself): a scaled-down
    /// deadline must not cut off real work of the peer, which no scale makes faster.
    pub fn patience(self, limit: Duration) -> Duration {
        self.apply(limit).max(limit.min(LEAST_PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn deadlines_are_divided_down_to_a_second() {
        let scale = TimeScale::new(20.0);
        assert_eq!(scale.patience(S(120)), S(6));
        assert_eq!(scale.patience(S(10)), S(1));
        assert_eq!(scale.patience(Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(scale.apply(S(10)), Duration::from_millis(500));
        assert_eq!(TimeScale::default().patience(S(10)), S(10));
    }
}
