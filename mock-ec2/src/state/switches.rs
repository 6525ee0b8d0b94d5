//! Switches of EC2's behaviour at run time: variants seen in the field, and settings for tests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::command::ACTIONS;
use super::throttle::{self, Throttled};

/// Effect of an attach beyond the instance's limit; AWS has shown both (aws-ebs-csi-driver#2500, #1801).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitMode {
    /// Refused with `AttachmentLimitExceeded`.
    #[default]
    Error,
    /// Accepted; stays `attaching` until a slot is free.
    Stick,
}

/// Answer to DetachVolume while a detach is under way. AWS's answer is not documented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondDetach {
    /// The current state, as AWS is believed to answer.
    #[default]
    CurrentState,
    /// `IncorrectState`, which the EBS driver treats as a success.
    IncorrectState,
}

/// All switches. `POST /admin/v1/switches` changes the named ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Switches {
    /// Effect of an attach beyond the limit.
    pub limit_mode: LimitMode,
    /// Answer to a second detach.
    pub second_detach: SecondDetach,
    /// If set, any volume can be attached to several instances and then counts as a Multi-Attach volume. AWS does not
    /// offer this: it shows the damage that two machines do to one filesystem.
    pub unsafe_multi_attach: bool,
    /// If set, a forced detach leaves its device name unusable until the instance reboots (EC2 user guide).
    pub poison_names: bool,
    /// If set, a dry-run CreateVolume with both zone parameters is refused, as a comment in the EBS driver says.
    pub dry_run_zone_conflict: bool,
    /// Volume quota of the account, including root volumes.
    pub volume_quota: Option<u64>,
    /// If set, the quota is checked before a client token (aws-ebs-csi-driver#2512).
    pub quota_before_token: bool,
    /// Snapshot quota of the account.
    pub snapshot_quota: Option<u64>,
    /// Smallest time between two snapshots of a volume in milliseconds (aws-ebs-csi-driver#1608). No effect with the
    /// latency `instant`.
    pub snapshot_spacing_ms: u64,
    /// Throttled actions, by class or name. If empty, none.
    pub throttle: Throttled,
    /// Lag of an action's reads in milliseconds, by action: eventual consistency (terraform-provider-aws#47951).
    pub lag_ms: BTreeMap<String, u64>,
    /// If set, the metadata service answers without a session token (IMDSv1).
    pub imds_v1: bool,
}

impl Switches {
    /// Checks the names of actions.
    ///
    /// # Errors
    /// The field and its unknown name.
    pub fn check(&self) -> Result<(), String> {
        throttle::check(&self.throttle)?;
        let reads = |action: &str| ACTIONS.contains(&action) && action.starts_with("Describe");
        match self.lag_ms.keys().find(|action| !reads(action)) {
            None => Ok(()),
            Some(action) => Err(format!("lagMs.{action}: only Describe actions can lag")),
        }
    }
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            limit_mode: LimitMode::default(),
            second_detach: SecondDetach::default(),
            unsafe_multi_attach: false,
            poison_names: true,
            dry_run_zone_conflict: false,
            volume_quota: None,
            quota_before_token: true,
            snapshot_quota: None,
            snapshot_spacing_ms: 15_000,
            throttle: Throttled::new(),
            lag_ms: BTreeMap::new(),
            imds_v1: true,
        }
    }
}
