//! Snapshots: what they are, and what is fixed the moment they are made (reference §5.4).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use substrate::Now;

use super::assembly::Assembly;
use super::ids::{SnapshotId, VolumeId};
use super::sharing::Sharing;
use super::table::Row;
use super::tier::Tier;
use super::timers::Progress;

/// States of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotState {
    /// Its bytes are under way.
    Pending,
    /// It can be restored.
    Completed,
    /// Its bytes never arrived.
    Error,
    /// In the recycle bin.
    Recoverable,
    /// On its way back from the recycle bin.
    Recovering,
}

impl SnapshotState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Completed => "completed",
            Self::Error => "error",
            Self::Recoverable => "recoverable",
            Self::Recovering => "recovering",
        }
    }
}

/// Stages of fast restore in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FastRestoreState {
    /// Asked for.
    Enabling,
    /// Its blocks are brought near.
    Optimizing,
    /// Volumes from it need no initialization.
    Enabled,
    /// Asked to end.
    Disabling,
    /// Ended.
    Disabled,
}

impl FastRestoreState {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabling => "enabling",
            Self::Optimizing => "optimizing",
            Self::Enabled => "enabled",
            Self::Disabling => "disabling",
            Self::Disabled => "disabled",
        }
    }
}

/// Fast restore in one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FastRestore {
    /// Its stage.
    pub state: FastRestoreState,
    /// When it was asked for, wall time.
    pub enabling_time: Timestamp,
    /// When it was asked to end, wall time.
    #[serde(default)]
    pub disabling_time: Option<Timestamp>,
    /// How the stage ends.
    pub progress: Progress,
}

/// How firmly a snapshot is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// Who has the permission may unlock it.
    Governance,
    /// Nobody may, once the cool-off period is over.
    Compliance,
}

/// A lock, which keeps a snapshot from being deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotLock {
    /// How firm it is.
    pub mode: LockMode,
    /// Hours in which a compliance lock can still be taken back.
    pub cool_off_hours: Option<u64>,
    /// Days that were asked for; those until the expiration date when that was given.
    pub duration_days: u64,
    /// When it was made, wall time.
    pub created: Timestamp,
    /// When it ends, wall time.
    pub expires: Timestamp,
}

impl SnapshotLock {
    /// When its cool-off period ends.
    pub fn cool_off_ends(&self) -> Option<Timestamp> {
        let hours = i64::try_from(self.cool_off_hours?).ok()?;
        self.created.checked_add(SignedDuration::from_hours(hours)).ok()
    }

    /// The state of the lock at `wall`, as it stands on the wire.
    pub fn state(&self, wall: Timestamp) -> &'static str {
        match self.mode {
            _ if wall >= self.expires => "expired",
            LockMode::Governance => "governance",
            LockMode::Compliance if self.cool_off_ends().is_some_and(|end| wall < end) => "compliance-cooloff",
            LockMode::Compliance => "compliance",
        }
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// The volume that it is of, which may be gone; of a copy one that never was.
    pub volume: VolumeId,
    /// Size of the volume in GiB when the snapshot was made.
    pub size_gib: u64,
    /// Its state.
    pub state: SnapshotState,
    /// Why it is in error.
    pub status_message: Option<String>,
    /// When it was made, wall time.
    pub start_time: Timestamp,
    /// When its bytes had arrived, wall time.
    pub completion_time: Option<Timestamp>,
    /// What its maker wrote.
    pub description: String,
    /// Whether it is encrypted; as its volume was.
    pub encrypted: bool,
    /// The key it is encrypted with.
    pub kms_key_id: Option<String>,
    /// Whether it was copied from another snapshot.
    pub copied: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Fast restore by zone.
    pub fast_restores: BTreeMap<String, FastRestore>,
    /// Its lock.
    pub lock: Option<SnapshotLock>,
    /// Who else may make volumes of it.
    #[serde(default)]
    pub sharing: Sharing,
    /// Its storage tier.
    #[serde(default)]
    pub tier: Tier,
    /// Minutes in which a copy was asked to be complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_minutes: Option<u64>,
    /// How it is put together, if it is written block by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assembly: Option<Assembly>,
    /// When `pending` began and is due to end, as monotonic time; its percentage comes from them.
    #[serde(skip)]
    pub span: (Duration, Duration),
    /// Whether its bytes are still being copied; `pending` does not end before.
    #[serde(skip)]
    pub copying: bool,
    /// How `pending` ends.
    pub progress: Progress,
}

impl Snapshot {
    /// How much of it has arrived at `now`, in percent.
    pub fn percent(&self, now: Now) -> u64 {
        if self.state == SnapshotState::Completed {
            return 100;
        }
        share(self.span, now.mono)
    }

    /// The kind of transfer of a copy: `time-based` if it was asked to be complete in time.
    pub fn transfer_type(&self) -> &'static str {
        if self.completion_minutes.is_some() { "time-based" } else { "standard" }
    }

    /// Whether volumes from it need no initialization in `zone`.
    pub fn fast_in(&self, zone: &str) -> bool {
        self.fast_restores.get(zone).is_some_and(|f| f.state == FastRestoreState::Enabled)
    }
}

/// How far `now` has come within `span`, in percent, never 100.
pub(super) fn share((from, to): (Duration, Duration), now: Duration) -> u64 {
    let (gone, whole) = (now.saturating_sub(from).as_millis(), to.saturating_sub(from).as_millis());
    u64::try_from((gone * 100).checked_div(whole).unwrap_or(0)).unwrap_or(99).min(99)
}

impl Row for Snapshot {
    type Id = SnapshotId;

    const ID_FILTER: &'static str = "snapshot-id";
    const FIXED: &'static [&'static str] = &["volume-id"];

    fn id(&self) -> &SnapshotId {
        &self.id
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    fn tags_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.tags
    }

    fn fixed(&self, _: &str) -> &str {
        self.volume.as_str()
    }
}
