//! Encryption by default.

use std::fmt::Display;

use substrate::ids as make_id;

use super::account::{Account, Encryption};
use super::command::Reply;
use super::error::Ec2Error;
use super::listing::text;
use super::{Call, State};

/// Alias of the key that AWS keeps for each account.
const AWS_KEY: &str = "alias/aws/ebs";

impl State {
    /// Returns the settings and objects of the account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    pub(super) fn encryption(&mut self, call: Call<'_>, request: &Encryption) -> Result<Reply, Ec2Error> {
        call.check_dry_run()?;
        match request {
            Encryption::Enable => self.account.encrypts = true,
            Encryption::Disable => self.account.encrypts = false,
            Encryption::SetKey(key) => self.account.default_key = Some(self.key_arn(key)).filter(|_| key != AWS_KEY),
            Encryption::ResetKey => self.account.default_key = None,
            Encryption::Get | Encryption::GetKey => {}
        }
        let key = || text("kmsKeyId", self.account.default_key.as_deref().unwrap_or(AWS_KEY));
        Ok(Reply::Fields(match request {
            Encryption::Get => vec![text("ebsEncryptionByDefault", self.account.encrypts), text("sseType", "sse-ebs")],
            Encryption::Enable | Encryption::Disable => vec![text("ebsEncryptionByDefault", self.account.encrypts)],
            Encryption::GetKey | Encryption::SetKey(_) | Encryption::ResetKey => vec![key()],
        }))
    }

    /// Returns the key for volumes whose request names none.
    pub(super) fn default_key(&self) -> String {
        self.account.default_key.clone().unwrap_or_else(|| self.aws_key())
    }

    fn aws_key(&self) -> String {
        self.key(make_id::uuid(&mut self.seed.child("default key").rng()))
    }

    fn key(&self, id: impl Display) -> String {
        format!("arn:aws:kms:{}:{}:key/{id}", self.settings.region, self.settings.account_id)
    }

    /// Returns the ARN of the key `text`, which is an id, an alias or the ARN of either.
    pub(super) fn key_arn(&self, text: &str) -> String {
        let resource = text.strip_prefix("arn:").and_then(|rest| rest.splitn(5, ':').nth(4));
        match resource.unwrap_or(text) {
            AWS_KEY => self.aws_key(),
            alias if alias.starts_with("alias/") => {
                self.key(make_id::uuid(&mut self.seed.child("key alias").child(alias).rng()))
            }
            _ if resource.is_some() => text.to_owned(),
            id => self.key(id),
        }
    }
}
