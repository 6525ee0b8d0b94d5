//! Near misses: operations at which a fault almost fired.

use std::collections::VecDeque;

use crate::json::Text;

/// Number of near misses that are kept, the latest ones.
const KEPT: usize = 3;

/// Reason why a fault did not fire at an operation that it names.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// An attribute had another value or was absent.
    Attribute { key: String, wanted: String, was: Option<Text> },
    /// `after` or `for` excluded this time.
    Time,
    /// The fault that it follows had not fired.
    Follows,
    /// `first`, `nth` or `every` excluded this operation.
    Turn(u64),
    /// `probability` excluded it.
    Chance,
    /// The moment was another one, or the effect is not possible for this operation.
    Unable,
    /// `crash: self`, but the caller is not a process.
    NoProcess(Text),
}

/// Latest near misses of a fault.
#[derive(Clone, Debug, Default)]
pub(super) struct Near {
    pub count: u64,
    latest: VecDeque<(Text, Why)>,
}

impl Near {
    pub fn note(&mut self, op: &str, why: Why) {
        self.count += 1;
        if self.latest.iter().any(|(o, w)| o == op && *w == why) {
            return;
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back((op.into(), why));
    }

    /// Returns a sentence for each.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(op, why): &(Text, Why)| match why {
            Why::Attribute { key, wanted, was: Some(was) } => format!("{op}: {key} was `{was}`, not `{wanted}`"),
            Why::Attribute { key, wanted, was: None } => format!("{op}: it has no {key}, and `{wanted}` is asked for"),
            Why::Time => format!("{op}: it came before `after`, or when `for` was over"),
            Why::Follows => format!("{op}: it came before the fault that is followed had fired"),
            Why::Turn(nth) => format!("{op}: it was the {}, which is not its turn", ordinal(*nth)),
            Why::Chance => format!("{op}: chance was against it"),
            Why::NoProcess(who) => format!("{op}: it is of `{who}`, which is not a process that can crash"),
            Why::Unable => format!("{op}: the effect does not act there"),
        };
        self.latest.iter().map(sentence).collect()
    }
}

fn ordinal(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}
