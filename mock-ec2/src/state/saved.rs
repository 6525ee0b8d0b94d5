//! The saved state of a stopped server, read at its next start.
//!
//! Transitions that were under way end at once after the load: the cloud continued meanwhile. Monotonic times are not
//! saved, so the modification rate and the spacing of snapshots restart.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::client_token::SavedToken;
use super::command::{CopyVolumes, CreateVolume, RunInstances};
use super::ids::{InstanceId, VolumeId};
use super::instance::Instance;
use super::snapshot::Snapshot;
use super::switches::Switches;
use super::volume::Volume;

/// State that outlives a stop.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Saved {
    pub(super) version: u32,
    /// Absent in files from before multi-region support.
    #[serde(default)]
    pub(super) region: Option<String>,
    pub(super) switches: Switches,
    pub(super) instances: Vec<Arc<Instance>>,
    pub(super) volumes: Vec<Arc<Volume>>,
    pub(super) snapshots: Vec<Arc<Snapshot>>,
    pub(super) volume_tokens: Vec<SavedToken<CreateVolume, VolumeId>>,
    pub(super) copy_tokens: Vec<SavedToken<CopyVolumes, VolumeId>>,
    pub(super) instance_tokens: Vec<SavedToken<RunInstances, Vec<InstanceId>>>,
    pub(super) made: Made,
    #[serde(default)]
    pub(super) account: Account,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) copies: Vec<PendingCopy>,
}

/// State outside the tables: small, and saved in full after each change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rest {
    pub(super) switches: Switches,
    #[serde(default)]
    pub(super) account: Account,
}

/// Numbers of objects made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) volumes: u64,
    pub(super) snapshots: u64,
    pub(super) instances: u64,
    pub(super) reservations: u64,
}

/// Copy under way: target and source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingCopy {
    /// Target volume or snapshot.
    pub into: String,
    /// Source volume or snapshot.
    pub from: String,
}

impl Saved {
    /// Returns the copies that were under way.
    pub(crate) fn copies(&self) -> &[PendingCopy] {
        &self.copies
    }

    /// Replaces the state outside the tables.
    pub(super) fn set_rest(&mut self, Rest { switches, account }: Rest) {
        (self.switches, self.account) = (switches, account);
    }

    /// Sets the numbers of objects made so far.
    pub(super) fn set_made(&mut self, made: Made) {
        self.made = made;
    }

    /// Sets the copies under way.
    pub(crate) fn set_copies(&mut self, copies: Vec<PendingCopy>) {
        self.copies = copies;
    }
}
