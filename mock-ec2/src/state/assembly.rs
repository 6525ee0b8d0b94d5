//! Snapshots written block by block through the EBS direct API: StartSnapshot, PutSnapshotBlock, CompleteSnapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ids::SnapshotId;

/// A snapshot under construction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assembly {
    /// Checksum of each written block, as the caller gave it.
    pub written: BTreeMap<u64, String>,
    /// Parent snapshot.
    pub parent: Option<SnapshotId>,
    /// Minutes without a write after which it fails.
    pub timeout_minutes: u64,
    /// The token of the request that started it.
    pub client_token: Option<String>,
    /// Time of the last block write, as monotonic time.
    #[serde(skip)]
    pub last: Duration,
}

/// Parameters of StartSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartSnapshot {
    /// Size in GiB.
    pub size_gib: u64,
    /// Parent snapshot.
    pub parent: Option<SnapshotId>,
    /// Description.
    pub description: String,
    /// If set, the snapshot is encrypted.
    pub encrypted: bool,
    /// Encryption key.
    pub kms_key: Option<String>,
    /// Minutes without a write after which it fails.
    pub timeout_minutes: u64,
    /// Idempotency token.
    pub client_token: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}
