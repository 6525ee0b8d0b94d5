//! Restore permissions of snapshots: Describe-, Modify- and ResetSnapshotAttribute.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Users, besides the owner, who may create volumes from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sharing {
    /// True if all accounts may.
    pub everybody: bool,
    /// Permitted accounts.
    pub accounts: BTreeSet<String>,
}

impl Sharing {
    /// Returns true if the account `user` may, or if all accounts may.
    pub fn allows(&self, user: &str) -> bool {
        self.everybody || self.accounts.contains(user)
    }
}
