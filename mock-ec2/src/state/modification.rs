//! Modifications of volumes and their progress (EBS user guide, "Monitor the progress of volume modifications").

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use substrate::Now;

use super::snapshot::share;
use super::timers::Progress;
use super::volume::VolumeType;

/// States of a modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModificationState {
    /// Requested; the volume is unchanged.
    Modifying,
    /// The new size is usable; the performance change is in progress.
    Optimizing,
    /// Completed.
    Completed,
    /// Failed; the volume is unchanged.
    Failed,
}

impl ModificationState {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modifying => "modifying",
            Self::Optimizing => "optimizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Returns true in a final state.
    pub fn ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Modifiable properties of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// Size in GiB.
    pub size_gib: u64,
    /// Type.
    pub volume_type: VolumeType,
    /// IOPS.
    pub iops: Option<u64>,
    /// Throughput in MiB/s.
    pub throughput: Option<u64>,
    /// True if Multi-Attach is enabled.
    pub multi_attach_enabled: bool,
}

/// The latest modification of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modification {
    /// Its state.
    pub state: ModificationState,
    /// Reason of a failure.
    pub status_message: Option<String>,
    /// Properties after the modification.
    pub target: Shape,
    /// Properties before it.
    pub original: Shape,
    /// Time of the request, wall time.
    pub start_time: Timestamp,
    /// Time of its end, wall time.
    pub end_time: Option<Timestamp>,
    /// Start and due end of its state, as monotonic time.
    #[serde(skip)]
    pub span: (Duration, Duration),
    /// Fault that will hold it in `optimizing`.
    #[serde(skip)]
    pub stick_optimizing: Option<String>,
    /// End of its state.
    pub progress: Progress,
}

impl Modification {
    /// Returns the progress at `now` in percent: data moves while `optimizing`.
    pub fn percent(&self, now: Now) -> u64 {
        match self.state {
            ModificationState::Modifying | ModificationState::Failed => 0,
            ModificationState::Optimizing => share(self.span, now.mono),
            ModificationState::Completed => 100,
        }
    }
}
