//! Earlier states of the cloud for stale reads; kept only while reads lag.

use std::collections::VecDeque;
use std::time::Duration;

use crate::state::State;

/// Largest number of kept states.
const MOST: usize = crate::faults::OLDEST_REVISION as usize + 1;

/// States with their start as monotonic time.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<(Duration, State)>);

impl History {
    /// Adds the state at `now`, if it changed.
    pub(crate) fn note(&mut self, now: Duration, state: &State) {
        if self.0.back().is_some_and(|(_, newest)| newest == state) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, state.clone()));
    }

    /// Drops all states.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns true if it has no states.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the state at `then`, or the oldest kept.
    pub(crate) fn at(&self, then: Duration) -> Option<&State> {
        self.0.iter().rev().find(|(began, _)| *began <= then).or(self.0.front()).map(|(_, state)| state)
    }

    /// Returns the state of `revisions` changes ago, or the oldest kept.
    pub(crate) fn ago(&self, revisions: u32) -> Option<&State> {
        let newest = self.0.len().checked_sub(1)?;
        self.0.get(newest.saturating_sub(revisions as usize)).map(|(_, state)| state)
    }
}
