//! The perturbations.

use std::fmt;

use serde::Serialize;

/// A perturbation. The order is that of the columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The program is killed before the call has an effect.
    CrashBefore,
    /// The program is killed when the call has had its effect.
    CrashAfter,
    /// As [`Kind::CrashAfter`], and after its restart the program reads stale state.
    StaleList,
    /// The program is killed after the call, and the user's next step happens while it is down.
    NextStep,
    /// The program is killed after the call, and the user deletes everything while it is down.
    Delete,
    /// The call arrives only after the user's next step.
    Slow,
    /// The request is lost.
    LostRequest,
    /// The call has its effect, and its answer is lost.
    LostReply,
    /// The call has its effect, and the answer is 504.
    Timeout,
    /// The answer to a write is that the object has changed.
    Conflict,
    /// The call is refused once because of too many requests.
    Throttle,
    /// The call fails for a while.
    Outage,
    /// The driver answers that another operation is in progress.
    Aborted,
    /// The driver does its work, but answers that its deadline was exceeded.
    Deadline,
    /// The driver cannot be reached.
    Unavailable,
    /// Events of a watch come late.
    Lag,
    /// A watch ends with 410 Gone.
    Gone,
    /// A watch ends with 410 Gone, and the next list comes late: states in between are never seen.
    Unobserved,
    /// All watches of the program are silent for a while.
    Stall,
    /// A watch leaves out an event. No real server does this, so it is tried only on request.
    Gap,
    /// The cloud answers with stale state.
    StaleDescribe,
    /// A transition of the cloud takes long.
    Stuck,
    /// A volume disappears from the cloud forever, and the user deletes everything.
    Vanish,
}

impl Kind {
    /// All perturbations, in the order of the table.
    pub const ALL: &'static [Self] = &[
        Self::CrashBefore,
        Self::CrashAfter,
        Self::StaleList,
        Self::NextStep,
        Self::Delete,
        Self::Slow,
        Self::LostRequest,
        Self::LostReply,
        Self::Timeout,
        Self::Conflict,
        Self::Throttle,
        Self::Outage,
        Self::Aborted,
        Self::Deadline,
        Self::Unavailable,
        Self::Lag,
        Self::Gone,
        Self::Unobserved,
        Self::Stall,
        Self::Gap,
        Self::StaleDescribe,
        Self::Stuck,
        Self::Vanish,
    ];

    /// Returns its name on the command line and in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::StaleList => "stale-list",
            Self::NextStep => "next-step",
            Self::Delete => "delete",
            Self::Slow => "slow",
            Self::LostRequest => "lost-request",
            Self::LostReply => "lost-reply",
            Self::Timeout => "timeout",
            Self::Conflict => "conflict",
            Self::Throttle => "throttle",
            Self::Outage => "outage",
            Self::Aborted => "aborted",
            Self::Deadline => "deadline",
            Self::Unavailable => "unavailable",
            Self::Lag => "lag",
            Self::Gone => "gone",
            Self::Unobserved => "unobserved",
            Self::Stall => "stall",
            Self::Gap => "gap",
            Self::StaleDescribe => "stale-describe",
            Self::Stuck => "stuck",
            Self::Vanish => "vanish",
        }
    }

    /// Describes it in one sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::CrashBefore => {
                "SIGKILL when the call arrives, before it has an effect; then the program is started again"
            }
            Self::CrashAfter => "SIGKILL when the call has had its effect, before its answer; then a start again",
            Self::StaleList => {
                "crash-after, and reads from the API server's cache see the past until the watch catches up"
            }
            Self::NextStep => "crash-after, and the user's next step happens while the program is down",
            Self::Delete => "crash-after, and the user deletes everything while the program is down",
            Self::Slow => "the call arrives late: the user's next step has happened before",
            Self::LostRequest => "the connection breaks before the call arrives",
            Self::LostReply => "the call has its effect, and the connection breaks before the answer",
            Self::Timeout => "the call has its effect, and the answer is 504 Timeout",
            Self::Conflict => "the answer to an update or a patch is 409 Conflict",
            Self::Throttle => "429 TooManyRequests, or RequestLimitExceeded of the cloud, once",
            Self::Outage => "each try of the call fails for 1.5 seconds",
            Self::Aborted => "the driver answers ABORTED: an operation on the volume is under way",
            Self::Deadline => "the driver has done the work, and the answer is DEADLINE_EXCEEDED",
            Self::Unavailable => "the driver answers UNAVAILABLE and does nothing",
            Self::Lag => "an event of a watch, and those behind it, come 0.6 seconds late",
            Self::Gone => "a watch ends with 410 Gone",
            Self::Unobserved => "410 Gone, and the list that follows comes 0.7 seconds late",
            Self::Stall => "all watches of the program are silent for a second",
            Self::Gap => "an event of a watch is left out, which no real server does: tried only if it is named here",
            Self::StaleDescribe => "an answer of the cloud is that of two changes ago",
            Self::Stuck => "a transition of the cloud does not end for some seconds",
            Self::Vanish => "the volume of the call is gone from the cloud for good, and the user deletes everything",
        }
    }

    /// Returns true if the trial has steps of its own.
    pub fn changes_workload(self) -> bool {
        matches!(self, Self::NextStep | Self::Delete | Self::Slow | Self::Vanish)
    }

    /// Returns true if a real server, network or machine can do it. Other perturbations are tried only on request.
    pub fn is_possible(self) -> bool {
        self != Self::Gap
    }

    /// Returns the perturbation with this name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_stands_in_the_table_once_and_is_found_by_its_word() {
        assert!(Kind::ALL.is_sorted());
        for kind in Kind::ALL {
            assert_eq!(Kind::of_word(kind.word()), Some(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
        assert_eq!(Kind::of_word("crash"), None);
    }
}
