//! Account-wide state: encryption by default, and objects other than instances, snapshots and volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use substrate::ids as make_id;

use super::command::Reply;
use super::error::Ec2Error;
use super::groups::PlacementGroup;
use super::images::OwnImage;
use super::keys::OwnKey;
use super::listing::text;
use super::own_network::{Cidr, OwnSubnet};
use super::public_access::PublicAccess;
use super::recycle::Bin;
use super::replace_root::ReplaceTask;
use super::{Call, State};

/// Alias of the key that AWS keeps for each account.
const AWS_KEY: &str = "alias/aws/ebs";

/// Settings of the account in this region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Account {
    /// True if every new volume is encrypted.
    pub encrypts: bool,
    /// Key for encryption when the request names none. None: AWS's own key.
    pub default_key: Option<String>,
    /// Tags of resources other than instances, snapshots and volumes, by id.
    pub tags: BTreeMap<String, BTreeMap<String, String>>,
    /// Images of the account, by id.
    pub images: BTreeMap<String, OwnImage>,
    /// Ids of deregistered images.
    pub gone_images: BTreeSet<String>,
    /// Number of images made so far; names the draws of ids.
    pub made_images: u64,
    /// Key pairs, by name.
    pub keys: BTreeMap<String, OwnKey>,
    /// Number of key pairs made so far.
    pub made_keys: u64,
    /// Placement groups, by name.
    pub groups: BTreeMap<String, PlacementGroup>,
    /// Number of placement groups made so far.
    pub made_groups: u64,
    /// VPCs that the account created, by id.
    pub vpcs: BTreeMap<String, Cidr>,
    /// Subnets that the account created, by id.
    pub subnets: BTreeMap<String, OwnSubnet>,
    /// Number of VPCs and subnets made so far.
    pub made_networks: u64,
    /// Block of public access to snapshots.
    pub public_access: PublicAccess,
    /// The recycle bin.
    pub bin: Bin,
    /// Replacements of root volumes, by id.
    pub replace_tasks: BTreeMap<String, ReplaceTask>,
    /// Ids of replacements, by client token.
    pub replace_tokens: BTreeMap<String, String>,
    /// Number of replacements made so far.
    pub made_tasks: u64,
}

/// Request about encryption by default.
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
    /// Returns the action's name.
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
