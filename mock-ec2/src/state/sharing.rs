//! Restore permissions of snapshots: Describe-, Modify- and ResetSnapshotAttribute.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::error::Ec2Error;

/// Returns true for the twelve digits of an account.
pub fn is_account(user: &str) -> bool {
    user.len() == 12 && user.bytes().all(|b| b.is_ascii_digit())
}

/// Checks that each of `users` is an account or one of `words`.
///
/// # Errors
/// `InvalidUserID.Malformed`.
pub fn check_users(users: &[String], words: &[&str]) -> Result<(), Ec2Error> {
    match users.iter().find(|user| !is_account(user) && !words.contains(&user.as_str())) {
        None => Ok(()),
        Some(user) => {
            Err(Ec2Error::Resource { code: Code::InvalidUserIDMalformed, text: format!("Invalid user id: \"{user}\"") })
        }
    }
}

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
