//! What belongs to the account and not to one resource: encryption by default, and tags of the default network.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use substrate::ids as make_id;

use super::command::Reply;
use super::error::Ec2Error;
use super::listing::text;
use super::{Call, State};

/// The key that AWS keeps for each account.
const AWS_KEY: &str = "alias/aws/ebs";

/// Settings of the account in this region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Account {
    /// Whether every new volume is encrypted.
    pub encrypts: bool,
    /// The key that encrypts where none is named, when it is not AWS's own.
    pub default_key: Option<String>,
    /// Tags of what is no instance, snapshot or volume, by id.
    pub tags: BTreeMap<String, BTreeMap<String, String>>,
}

/// What is asked of encryption by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// GetEbsEncryptionByDefault.
    Get,
    /// EnableEbsEncryptionByDefault.
    Enable,
    /// DisableEbsEncryptionByDefault.
    Disable,
    /// GetEbsDefaultKmsKeyId.
    GetKey,
    /// ModifyEbsDefaultKmsKeyId.
    SetKey(String),
    /// ResetEbsDefaultKmsKeyId.
    ResetKey,
}

impl Encryption {
    /// The action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Get => "GetEbsEncryptionByDefault",
            Self::Enable => "EnableEbsEncryptionByDefault",
            Self::Disable => "DisableEbsEncryptionByDefault",
            Self::GetKey => "GetEbsDefaultKmsKeyId",
            Self::SetKey(_) => "ModifyEbsDefaultKmsKeyId",
            Self::ResetKey => "ResetEbsDefaultKmsKeyId",
        }
    }
}

impl State {
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

    /// The key that encrypts volumes for which none is named.
    pub(super) fn default_key(&self) -> String {
        self.account.default_key.clone().unwrap_or_else(|| self.aws_key())
    }

    fn aws_key(&self) -> String {
        self.key(make_id::uuid(&mut self.seed.child("default key").rng()))
    }

    fn key(&self, id: impl Display) -> String {
        format!("arn:aws:kms:{}:{}:key/{id}", self.settings.region, self.settings.account_id)
    }

    /// The ARN of the key that `text` names by id, by alias or by the ARN of either.
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
