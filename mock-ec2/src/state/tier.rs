//! Storage tiers of snapshots: ModifySnapshotTier and RestoreSnapshotTier. An archived snapshot must be restored before
//! volumes can be created from it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::timers::Progress;

/// Change of a snapshot's tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tiering {
    /// Move to the archive.
    Archival,
    /// Permanent restore.
    PermanentRestore,
    /// Temporary restore.
    TemporaryRestore,
}

impl Tiering {
    /// Returns the status word of the change, in progress or completed.
    pub(super) fn word(self, over: bool) -> &'static str {
        match (self, over) {
            (Self::Archival, false) => "archival-in-progress",
            (Self::Archival, true) => "archival-completed",
            (Self::PermanentRestore, false) => "permanent-restore-in-progress",
            (Self::PermanentRestore, true) => "permanent-restore-completed",
            (Self::TemporaryRestore, false) => "temporary-restore-in-progress",
            (Self::TemporaryRestore, true) => "temporary-restore-completed",
        }
    }
}

/// Tier of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tier {
    /// True if it is archived.
    pub archived: bool,
    /// Last change.
    pub last: Option<Tiering>,
    /// Start of that change, wall time.
    pub started: Option<Timestamp>,
    /// Time at which it was archived, wall time.
    pub archived_at: Option<Timestamp>,
    /// Days of a temporary restore.
    pub days: Option<u64>,
    /// End of a temporary restore, wall time.
    pub back_until: Option<Timestamp>,
    /// End of the change under way.
    pub progress: Progress,
}

impl Tier {
    /// Returns the word of the tier.
    pub fn word(&self) -> &'static str {
        if self.archived { "archive" } else { "standard" }
    }

    /// Returns true if volumes can be created from it at `wall`.
    pub fn usable(&self, wall: Timestamp) -> bool {
        !self.archived || self.back_until.is_some_and(|until| wall < until)
    }

    pub(super) fn under_way(&self) -> bool {
        self.progress != Progress::Settled
    }
}
