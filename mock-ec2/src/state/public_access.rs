//! Block of public access to snapshots.

use serde::{Deserialize, Serialize};

use super::command::Reply;
use super::error::Ec2Error;
use super::listing::text;
use super::{Call, State};

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

impl State {
    pub(super) fn block_request(&mut self, call: Call<'_>, request: BlockRequest) -> Result<Reply, Ec2Error> {
        call.check_dry_run()?;
        match request {
            BlockRequest::Get => {}
            BlockRequest::Enable(state) => self.account.public_access = state,
            BlockRequest::Disable => self.account.public_access = PublicAccess::Unblocked,
        }
        let mut fields = vec![text("state", self.account.public_access.as_str())];
        if request == BlockRequest::Get {
            fields.push(text("managedBy", "account"));
        }
        Ok(Reply::Fields(fields))
    }

    /// Checks that a snapshot may be shared publicly.
    pub(super) fn check_public(&self) -> Result<(), Ec2Error> {
        if self.account.public_access == PublicAccess::Unblocked {
            return Ok(());
        }
        Err(Ec2Error::Resource {
            code: "OperationNotPermitted",
            text: "Snapshots cannot be shared publicly: block public access is enabled for snapshots in this region."
                .to_owned(),
        })
    }
}
