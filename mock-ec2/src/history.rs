//! Earlier states of the cloud, for reads that lag behind; kept only while something lags.

use std::collections::VecDeque;
use std::time::Duration;

use crate::state::State;

/// Most states that are kept.
const MOST: usize = crate::faults::OLDEST_REVISION as usize + 1;

/// States with the monotonic time at which each began.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<(Duration, State)>);

impl History {
    /// Takes note of the state at `now`, if it is another than before.
    pub(crate) fn note(&mut self, now: Duration, state: &State) {
        if self.0.back().is_some_and(|(_, newest)| newest == state) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, state.clone()));
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it knows nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The state at `then`, or the oldest that is known.
    pub(crate) fn at(&self, then: Duration) -> Option<&State> {
        self.0.iter().rev().find(|(began, _)| *began <= then).or(self.0.front()).map(|(_, state)| state)
    }

    /// The state of `revisions` changes ago, or the oldest that is known.
    pub(crate) fn ago(&self, revisions: u32) -> Option<&State> {
        let newest = self.0.len().checked_sub(1)?;
        self.0.get(newest.saturating_sub(revisions as usize)).map(|(_, state)| state)
    }
}
