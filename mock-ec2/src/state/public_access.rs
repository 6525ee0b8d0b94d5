//! Block of public access to snapshots.

use serde::{Deserialize, Serialize};

/// Extent of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicAccess {
    /// Snapshots can be shared publicly.
    #[default]
    Unblocked,
    /// No new public sharing; existing sharing stays.
    BlockNewSharing,
    /// No public sharing; existing sharing has no effect.
    BlockAllSharing,
}

impl PublicAccess {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unblocked => "unblocked",
            Self::BlockNewSharing => "block-new-sharing",
            Self::BlockAllSharing => "block-all-sharing",
        }
    }
}

/// Request about the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRequest {
    /// GetSnapshotBlockPublicAccessState.
    Get,
    /// EnableSnapshotBlockPublicAccess.
    Enable(PublicAccess),
    /// DisableSnapshotBlockPublicAccess.
    Disable,
}

impl BlockRequest {
    /// Returns the action's name.
    pub fn action(self) -> &'static str {
        match self {
            Self::Get => "GetSnapshotBlockPublicAccessState",
            Self::Enable(_) => "EnableSnapshotBlockPublicAccess",
            Self::Disable => "DisableSnapshotBlockPublicAccess",
        }
    }
}
