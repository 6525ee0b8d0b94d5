//! What of EC2's behaviour can be switched while it runs: where clouds differ, and what tests need otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::command::ACTIONS;
use super::throttle::{self, Throttled};

/// What happens to an attach beyond the instance's limit; both happen (csi#2500, csi#1801).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitMode {
    /// It is refused with `AttachmentLimitExceeded`.
    #[default]
    Error,
    /// It is accepted and stays `attaching` until a slot is free.
    Stick,
}

/// The answer to DetachVolume while the detach is under way (E7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecondDetach {
    /// The current state, as AWS is believed to do.
    #[default]
    CurrentState,
    /// `IncorrectState`, which the EBS driver takes for success.
    IncorrectState,
}

/// All switches; `POST /admin/v1/switches` changes those that it names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Switches {
    /// What happens beyond the attach limit.
    pub limit_mode: LimitMode,
    /// What a second detach answers.
    pub second_detach: SecondDetach,
    /// Whether any volume can be attached to several instances, which then count it as a Multi-Attach volume. No cloud
    /// does that: it shows what two machines do to one filesystem.
    pub unsafe_multi_attach: bool,
    /// Whether a forced detach leaves its device name unusable until the instance reboots (reference §5.2).
    pub poison_names: bool,
    /// Whether a dry CreateVolume with both zone parameters is refused, as a comment in the EBS driver says.
    pub dry_run_zone_conflict: bool,
    /// Most volumes of the account, root volumes included.
    pub volume_quota: Option<u64>,
    /// Whether the quota is checked before a client token is looked up (csi#2512).
    pub quota_before_token: bool,
    /// Most snapshots of the account.
    pub snapshot_quota: Option<u64>,
    /// Least time between two snapshots of a volume in milliseconds (csi#1608); never with the latency `instant`.
    pub snapshot_spacing_ms: u64,
    /// Which actions are throttled, by class or name; none when empty.
    pub throttle: Throttled,
    /// How many milliseconds behind the reads of an action are, by action (A9, C4, D6).
    pub lag_ms: BTreeMap<String, u64>,
    /// Whether the metadata service answers without a session token (IMDSv1).
    pub imds_v1: bool,
}

impl Switches {
    /// Checks the names of actions.
    ///
    /// # Errors
    /// The field with what is unknown in it.
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
