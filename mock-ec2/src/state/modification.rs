//! Modifications of volumes: what changes, and how far it has come (reference §5.3).

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
    /// Asked for; the volume is as it was.
    Modifying,
    /// The new size can be used; the performance is under way.
    Optimizing,
    /// Done.
    Completed,
    /// Given up; the volume is as it was.
    Failed,
}

impl ModificationState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modifying => "modifying",
            Self::Optimizing => "optimizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether it has ended.
    pub fn ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// What of a volume can be modified.
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
    /// Whether several instances may hold it.
    pub multi_attach_enabled: bool,
}

/// The latest modification of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modification {
    /// Its state.
    pub state: ModificationState,
    /// Why it failed.
    pub status_message: Option<String>,
    /// What the volume becomes.
    pub target: Shape,
    /// What it was.
    pub original: Shape,
    /// When it was asked for, wall time.
    pub start_time: Timestamp,
    /// When it ended, wall time.
    pub end_time: Option<Timestamp>,
    /// When its state began and is due to end, as monotonic time.
    #[serde(skip)]
    pub span: (Duration, Duration),
    /// The fault that will hold it in `optimizing`.
    #[serde(skip)]
    pub stick_optimizing: Option<String>,
    /// How its state ends.
    pub progress: Progress,
}

impl Modification {
    /// How far it has come at `now`, in percent: data moves while `optimizing`.
    pub fn percent(&self, now: Now) -> u64 {
        match self.state {
            ModificationState::Modifying | ModificationState::Failed => 0,
            ModificationState::Optimizing => share(self.span, now.mono),
            ModificationState::Completed => 100,
        }
    }
}
