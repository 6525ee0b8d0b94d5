//! Phases of volumes.

use serde::Serialize;

/// Phases of all volumes of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// End of the run, in milliseconds since the start of the world.
    pub end_ms: u64,
    /// End of the steps, after which the teardown follows. None if no volume changed after it.
    #[serde(rename = "storyMs", skip_serializing_if = "Option::is_none")]
    pub steps_end_ms: Option<u64>,
    /// Beginning and end of the time without changes after the steps. It is not drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<(u64, u64)>,
    /// Volumes in the order in which their claims were created.
    pub volumes: Vec<Volume>,
}

/// The life of one volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Claim as `namespace/name`; none for an unclaimed volume.
    pub claim: Option<String>,
    /// Id of the cloud volume, once it exists.
    pub volume: Option<String>,
    /// Size in GiB.
    pub size_gib: Option<u64>,
    /// Zone of the volume.
    pub zone: Option<String>,
    /// Milliseconds from the creation of the claim until a pod first ran with it.
    pub running_after_ms: Option<u64>,
    /// Phases, sorted by start.
    pub rows: Vec<Row>,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// A single event.
    Moment,
    /// An operation.
    Work,
    /// A state.
    State,
    /// A wait in which no component could act.
    Wait,
    /// A warning.
    Warning,
    /// A failure.
    Broken,
}

/// One phase of a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Start, in milliseconds since the start of the world.
    pub start_ms: u64,
    /// End; none for a single event and for a phase that lasted until the end of the run.
    pub end_ms: Option<u64>,
    /// Kind of the row.
    pub shape: Shape,
    /// Name: `NodeStage`, `running`.
    pub phase: String,
    /// Node of the phase.
    pub node: Option<String>,
    /// Details; may be empty.
    pub detail: String,
    /// Times of repeated events, including the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_ms: Vec<u64>,
}
