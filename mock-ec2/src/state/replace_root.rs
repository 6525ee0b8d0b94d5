//! Replacement of the root volume of a running instance. It takes no time: the instance reboots at once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{InstanceId, SnapshotId};

/// Finished task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceTask {
    /// The instance.
    pub instance: InstanceId,
    /// Image of the new volume, if named.
    pub image: Option<String>,
    /// Snapshot of the new volume, if named.
    pub snapshot: Option<SnapshotId>,
    /// True if the old volume was deleted.
    pub deletes: bool,
    /// Start and end, wall time.
    pub at: Timestamp,
}

/// Parameters of CreateReplaceRootVolumeTask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceRoot {
    /// The instance.
    pub instance: InstanceId,
    /// The snapshot to restore.
    pub snapshot: Option<SnapshotId>,
    /// The image to restore.
    pub image: Option<String>,
    /// If set, the old volume is deleted.
    pub deletes: bool,
    /// MiB/s at which the blocks of the snapshot are loaded.
    pub initialization_rate: Option<u64>,
    /// Idempotency token.
    pub client_token: Option<String>,
    /// Tags of the task.
    pub tags: BTreeMap<String, String>,
}
