//! Account-wide state: encryption by default, and objects other than instances, snapshots and volumes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::groups::PlacementGroup;
use super::images::OwnImage;
use super::own_key::OwnKey;
use super::own_network::{Cidr, OwnSubnet};
use super::public_access::PublicAccess;
use super::recycle::Bin;
use super::replace_root::ReplaceTask;

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
