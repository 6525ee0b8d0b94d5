//! Snapshots: state, and the properties that are fixed at their creation.

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
    /// Its bytes are being copied.
    Pending,
    /// It can be restored.
    Completed,
    /// Its bytes never arrived.
    Error,
    /// In the recycle bin.
    Recoverable,
    /// Leaving the recycle bin.
    Recovering,
}

impl SnapshotState {
    /// Returns the name on the wire.
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
    /// Requested.
    Enabling,
    /// Its blocks are being loaded.
    Optimizing,
    /// Volumes from it need no initialization.
    Enabled,
    /// Its end was requested.
    Disabling,
    /// Ended.
    Disabled,
}

impl FastRestoreState {
    /// Returns the name on the wire.
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
    /// Time of the request, wall time.
    pub enabling_time: Timestamp,
    /// Start of `optimizing`, wall time.
    #[serde(default)]
    pub optimizing_time: Option<Timestamp>,
    /// Start of `enabled`, wall time.
    #[serde(default)]
    pub enabled_time: Option<Timestamp>,
    /// Time of the request to end, wall time.
    #[serde(default)]
    pub disabling_time: Option<Timestamp>,
    /// Start of `disabled`, wall time.
    #[serde(default)]
    pub disabled_time: Option<Timestamp>,
    /// End of the stage.
    pub progress: Progress,
}

impl FastRestore {
    /// Begins fast restore at `enabling_time`.
    pub(super) fn begun(enabling_time: Timestamp, progress: Progress) -> Self {
        let (state, not_yet) = (FastRestoreState::Enabling, None);
        Self {
            state,
            enabling_time,
            optimizing_time: not_yet,
            enabled_time: not_yet,
            disabling_time: not_yet,
            disabled_time: not_yet,
            progress,
        }
    }

    /// Goes on to `state` at `now`.
    pub(super) fn enter(&mut self, state: FastRestoreState, now: Timestamp, progress: Progress) {
        let start = match state {
            FastRestoreState::Enabling => return,
            FastRestoreState::Optimizing => &mut self.optimizing_time,
            FastRestoreState::Enabled => &mut self.enabled_time,
            FastRestoreState::Disabling => &mut self.disabling_time,
            FastRestoreState::Disabled => &mut self.disabled_time,
        };
        *start = Some(now);
        (self.state, self.progress) = (state, progress);
    }

    /// Returns the reason of its state in EC2's words: the user's request, or what followed from it.
    pub(super) fn reason(&self) -> &'static str {
        match self.state {
            FastRestoreState::Enabling | FastRestoreState::Disabling => "Client.UserInitiated",
            _ => "Client.UserInitiated - Lifecycle state transition",
        }
    }
}

/// Mode of a snapshot lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    /// Users with the permission may unlock it.
    Governance,
    /// After the cool-off period, the lock cannot be removed.
    Compliance,
}

/// Lock that prevents the deletion of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotLock {
    /// Mode.
    pub mode: LockMode,
    /// Hours in which a compliance lock can still be reverted.
    pub cool_off_hours: Option<u64>,
    /// Requested days, or days until the given expiration date.
    pub duration_days: u64,
    /// Time of creation, wall time.
    pub created: Timestamp,
    /// Expiry, wall time.
    pub expires: Timestamp,
}

impl SnapshotLock {
    /// Returns the end of its cool-off period.
    pub fn cool_off_ends(&self) -> Option<Timestamp> {
        let hours = i64::try_from(self.cool_off_hours?).ok()?;
        self.created.checked_add(SignedDuration::from_hours(hours)).ok()
    }

    /// Returns the state of the lock at `wall`, as on the wire.
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
    /// Source volume, which may be deleted. A copy has a fixed id of no volume.
    pub volume: VolumeId,
    /// Size of the volume in GiB at the snapshot's creation.
    pub size_gib: u64,
    /// Its state.
    pub state: SnapshotState,
    /// Reason of the error state.
    pub status_message: Option<String>,
    /// Time of creation, wall time.
    pub start_time: Timestamp,
    /// Time at which its bytes had arrived, wall time.
    pub completion_time: Option<Timestamp>,
    /// Description.
    pub description: String,
    /// True if it is encrypted, like its volume.
    pub encrypted: bool,
    /// Encryption key.
    pub kms_key_id: Option<String>,
    /// True if it was copied from another snapshot.
    pub copied: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Fast restore by zone.
    pub fast_restores: BTreeMap<String, FastRestore>,
    /// Its lock.
    pub lock: Option<SnapshotLock>,
    /// Restore permissions.
    #[serde(default)]
    pub sharing: Sharing,
    /// Its storage tier.
    #[serde(default)]
    pub tier: Tier,
    /// Minutes after which a copy must be complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_minutes: Option<u64>,
    /// Progress of a snapshot that is written block by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assembly: Option<Assembly>,
    /// Start and due end of `pending`, as monotonic time; they determine the percentage.
    #[serde(skip)]
    pub span: (Duration, Duration),
    /// True while its bytes are being copied; `pending` does not end before.
    #[serde(skip)]
    pub copying: bool,
    /// End of `pending`.
    pub progress: Progress,
}

impl Snapshot {
    /// Returns its progress at `now` in percent.
    pub fn percent(&self, now: Now) -> u64 {
        if self.state == SnapshotState::Completed {
            return 100;
        }
        share(self.span, now.mono)
    }

    /// Returns the transfer type of a copy: `time-based` if a completion duration was requested.
    pub fn transfer_type(&self) -> &'static str {
        if self.completion_minutes.is_some() { "time-based" } else { "standard" }
    }

    /// Returns true if volumes from it need no initialization in `zone`.
    pub fn fast_in(&self, zone: &str) -> bool {
        self.fast_restores.get(zone).is_some_and(|f| f.state == FastRestoreState::Enabled)
    }
}

/// Returns the position of `now` within `span` in percent, at most 99.
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
