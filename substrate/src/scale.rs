//! `time-scale`: the durations that it divides, and those that it does not divide.
//!
//! A scale shortens a whole run: it divides waits and the events between them alike, so that their order does not
//! change. The time that a real machine needs for its work does not change. A deadline that only protects against a
//! dead peer must not interrupt such work.

use std::time::Duration;

/// A class of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The durations of this class.
    pub what: &'static str,
    /// True if `time-scale` divides them.
    pub divided: bool,
    /// An exception, or the reason.
    pub note: &'static str,
}

/// All classes. Code that waits calls [`TimeScale::apply`], [`TimeScale::scaled_timeout`] or [`TimeScale::live_limit`] for
/// those that are divided.
pub const RULES: &[Rule] = &[
    divided("waits of control loops and of the node agent: periods, polls, backoffs, grace periods", ""),
    divided("validity of a Lease, of a node's heartbeat and of a toleration", "the object keeps the unscaled number"),
    divided(
        "deadlines that upstream sets for calls: of a driver, of leader election, of the kubelet's heartbeats",
        FLOOR,
    ),
    divided("latencies and state transitions of the cloud", ""),
    divided("`delay`, `after`, `for` and the lease of a fault", ""),
    divided("`sleep` of a scenario, and the time that a settled cluster must stay unchanged", ""),
    divided("`within` and `deadline` of a scenario, and the limits of the Rust library", REAL),
    divided("time that a link waits for a peer behind a partition", ""),
    left("limit of a request to the API server for which upstream sets no deadline: 30s", GUARD),
    left("travel time of a message in simulation (`link`)", "it is used as written"),
    left("time that `mooring` waits for its own processes, servers and disks", "they work in real time"),
    left(
        "times and numbers in objects, events and the trace",
        "they are recorded unchanged; apply the scale when you read them",
    ),
];

const FLOOR: &str = "at least one second, or the deadline itself if that is shorter: the peer's work takes real time";
const REAL: &str = "in the live world at least 90 s, and 5 minutes of a `deadline`, or the limit itself if that is shorter: \
     the components' work takes real time";
const GUARD: &str = "it guards against a server that never answers, not against a slow machine";

const fn divided(what: &'static str, note: &'static str) -> Rule {
    Rule { what, divided: true, note }
}

const fn left(what: &'static str, note: &'static str) -> Rule {
    Rule { what, divided: false, note }
}

/// Minimum factor: a minute takes most of a day.
pub const LEAST: f64 = 0.001;
/// Maximum factor: a minute takes less than a tenth of a millisecond.
pub const MOST: f64 = 1_000_000.0;
/// Minimum result of [`TimeScale::scaled_timeout`].
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// `time-scale` of a scenario, which divides the durations of [`RULES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale(f64);

impl Default for TimeScale {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TimeScale {
    /// Creates a scale of `factor`; a factor that [`TimeScale::check`] refuses counts as 1.
    pub fn new(factor: f64) -> Self {
        Self::check(factor).unwrap_or_default()
    }

    /// Creates a scale of `factor`, if it is in the allowed range.
    ///
    /// # Errors
    /// The allowed range.
    pub fn check(factor: f64) -> Result<Self, String> {
        if (LEAST..=MOST).contains(&factor) {
            return Ok(Self(factor));
        }
        Err(format!("must be a number from {LEAST} to {MOST}; 1 leaves time as it is"))
    }

    /// Returns the factor.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// Returns `d` divided by the factor.
    pub fn apply(self, d: Duration) -> Duration {
        if self.0 == 1.0 { d } else { d.div_f64(self.0) }
    }

    /// Returns a duration times the factor: the reverse of [`apply`](Self::apply).
    pub fn undo(self, d: Duration) -> Duration {
        if self.0 == 1.0 { d } else { d.mul_f64(self.0) }
    }

    /// Returns the deadline of a call, divided by the factor, but at least a second (or `limit` itself, if that is
    /// shorter): a scaled deadline must not cut off real work of the peer, which a scale does not make faster.
    pub fn scaled_timeout(self, limit: Duration) -> Duration {
        self.live_limit(limit, LEAST_TIMEOUT)
    }

    /// Returns a time limit of the live world, divided by the factor, but at least `least` (or `limit` itself, if that is
    /// shorter): a busy machine needs real time for the work that the limit allows.
    pub fn live_limit(self, limit: Duration, least: Duration) -> Duration {
        self.apply(limit).max(limit.min(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn deadlines_are_divided_down_to_a_second() {
        let scale = TimeScale::new(20.0);
        assert_eq!(scale.scaled_timeout(S(120)), S(6));
        assert_eq!(scale.scaled_timeout(S(10)), S(1));
        assert_eq!(scale.scaled_timeout(Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(scale.apply(S(10)), Duration::from_millis(500));
        assert_eq!(scale.undo(scale.apply(S(10))), S(10));
        assert_eq!(TimeScale::default().scaled_timeout(S(10)), S(10));
    }

    #[test]
    fn limits_of_the_live_world_leave_a_busy_machine_its_time() {
        let scale = TimeScale::new(20.0);
        assert_eq!(scale.live_limit(S(60), S(90)), S(60));
        assert_eq!(scale.live_limit(S(300), S(90)), S(90));
        assert_eq!(scale.live_limit(S(3600), S(90)), S(180));
        assert_eq!(TimeScale::default().live_limit(S(5), S(90)), S(5));
        assert_eq!(TimeScale::new(0.5).live_limit(S(5), S(90)), S(10));
    }

    #[test]
    fn a_factor_that_no_duration_survives_is_none() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            assert!(TimeScale::check(factor).is_err(), "{factor}");
            assert_eq!(TimeScale::new(factor), TimeScale::default());
        }
        assert_eq!(TimeScale::new(0.001).apply(S(3_600)), S(3_600_000));
    }
}
