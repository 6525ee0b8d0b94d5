//! Timeline of a run: the phases of each volume with start, duration and a bar.
//!
//! [`Timeline::build`] reads only a trace, so a recorded trace gives the timeline of its run. `gather` converts events
//! to rows, `draw` converts rows to text.

mod draw;
mod faults;
mod gather;
mod names;
mod nodes;
mod rows;
mod summary;
mod waits;

pub use rows::{Row, Shape, Timeline, Volume};
pub use summary::Summary;

use std::sync::Arc;

use substrate::Event;

impl Timeline {
    /// Builds the timeline from a trace.
    pub fn build(events: &[Arc<Event>]) -> Self {
        gather::gather(events)
    }

    /// Sets the end of the steps to `ms`.
    pub fn steps_over(mut self, ms: u64) -> Self {
        let last = self.volumes.iter().flat_map(|v| &v.rows).map(|row| row.start_ms).max();
        self.steps_end_ms = Some(ms).filter(|ms| last.is_some_and(|last| last > *ms));
        self
    }

    /// Formats the timeline as text, with all rows of the first `volumes` volumes.
    pub fn render(&self, style: crate::output::Style, volumes: usize) -> String {
        draw::draw(self, style, volumes)
    }
}

#[cfg(test)]
mod tests;
