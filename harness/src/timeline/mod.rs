//! The timeline of a run: for each volume the phases that a user knows, with start, duration and a bar.
//!
//! [`Timeline::build`] reads a trace and nothing else, so a recorded trace gives the timeline of the run that wrote
//! it. `gather` turns events into rows, `draw` turns rows into text.

mod draw;
mod faults;
mod gather;
mod names;
mod nodes;
mod summary;
mod waits;

pub use summary::Summary;

use std::sync::Arc;

use serde::Serialize;
use substrate::Event;

/// The phases of all volumes of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The end of the run, in milliseconds since the world began.
    pub end_ms: u64,
    /// When the story was over and what it had made was taken down; nothing when nothing happened to a volume any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub story_ms: Option<u64>,
    /// The volumes, in the order in which their claims were created.
    pub volumes: Vec<Volume>,
}

/// The life of one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// The claim, as `namespace/name`; nothing for a volume that nobody claimed.
    pub claim: Option<String>,
    /// The cloud volume's id, once there is one.
    pub volume: Option<String>,
    /// Its size in GiB.
    pub size_gib: Option<u64>,
    /// Its zone.
    pub zone: Option<String>,
    /// Milliseconds from the creation of the claim until a pod first ran with it.
    pub running_after_ms: Option<u64>,
    /// The phases, by start.
    pub rows: Vec<Row>,
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// Something happened at an instant.
    Moment,
    /// Something was done.
    Work,
    /// Something was so.
    State,
    /// Nobody could do anything before something else came.
    Wait,
    /// Something deserves a look.
    Warning,
    /// Something broke.
    Broken,
}

/// One phase of a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// When it began, in milliseconds since the world began.
    pub start_ms: u64,
    /// When it ended; nothing for a moment and for what lasted until the run ended.
    pub end_ms: Option<u64>,
    /// What it shows.
    pub shape: Shape,
    /// Its name: `NodeStage`, `running`.
    pub phase: String,
    /// The node that it was on.
    pub node: Option<String>,
    /// What there is to say; may be empty.
    pub detail: String,
    /// The instants of what happened more than once, the first of them too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_ms: Vec<u64>,
}

impl Timeline {
    /// Reads the timeline out of a trace.
    pub fn build(events: &[Arc<Event>]) -> Self {
        gather::gather(events)
    }

    /// The same, of a run whose story was over at `ms`.
    pub fn story_over(mut self, ms: u64) -> Self {
        let last = self.volumes.iter().flat_map(|v| &v.rows).map(|row| row.start_ms).max();
        self.story_ms = Some(ms).filter(|ms| last.is_some_and(|last| last > *ms));
        self
    }

    /// The timeline as text, with all rows of the first `volumes` volumes.
    pub fn render(&self, style: crate::output::Style, volumes: usize) -> String {
        draw::draw(self, style, volumes)
    }
}

#[cfg(test)]
mod tests;
