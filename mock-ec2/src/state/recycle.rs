//! The recycle bin: retention rules, and the deleted snapshots and volumes that they retain.
//!
//! Binned resources are in no table, so other actions do not see them. They leave the bin at the first call after their
//! expiry.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{SnapshotId, VolumeId};
use super::snapshot::Snapshot;
use super::volume::Volume;

/// Kind of resources to which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Retained {
    /// Snapshots.
    EbsSnapshot,
    /// Volumes.
    EbsVolume,
}

/// Tag in a rule; without a value, any value matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ResourceTag {
    /// The key.
    pub resource_tag_key: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_tag_value: Option<String>,
}

/// A retention rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The kind of resources.
    pub kind: Retained,
    /// Retention in days.
    pub days: i64,
    /// The description.
    pub description: String,
    /// Tags of which a resource must have one. If empty, the rule applies to the whole region.
    pub tags: Vec<ResourceTag>,
    /// Tags that exclude a resource.
    pub excluded: Vec<ResourceTag>,
}

/// Binned resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binned<T> {
    /// The resource.
    pub thing: Arc<T>,
    /// Time at which it entered, wall time.
    pub entered: Timestamp,
    /// Time at which it leaves, wall time.
    pub leaves: Timestamp,
}

/// Rules and contents of the bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Bin {
    /// The rules, by identifier.
    pub rules: BTreeMap<String, Rule>,
    /// Number of rules made so far; names the draws of identifiers.
    pub made: u64,
    /// Snapshots in the bin.
    pub snapshots: BTreeMap<SnapshotId, Binned<Snapshot>>,
    /// Volumes in the bin.
    pub volumes: BTreeMap<VolumeId, Binned<Volume>>,
}

/// Resource to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreRequest {
    /// RestoreSnapshotFromRecycleBin.
    Snapshot(SnapshotId),
    /// RestoreVolumeFromRecycleBin.
    Volume(VolumeId),
}

impl RestoreRequest {
    /// Returns the action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Snapshot(_) => "RestoreSnapshotFromRecycleBin",
            Self::Volume(_) => "RestoreVolumeFromRecycleBin",
        }
    }
}

fn has(tags: &BTreeMap<String, String>, wanted: &ResourceTag) -> bool {
    let value = tags.get(&wanted.resource_tag_key);
    value.is_some_and(|value| wanted.resource_tag_value.as_ref().is_none_or(|wanted| wanted == value))
}

impl Bin {
    /// Returns the retention in days of a resource of `kind` with `tags`: the longest of all matching rules.
    pub(super) fn days(&self, kind: Retained, tags: &BTreeMap<String, String>) -> Option<i64> {
        let about = |rule: &&Rule| {
            rule.kind == kind
                && (rule.tags.is_empty() || rule.tags.iter().any(|tag| has(tags, tag)))
                && !rule.excluded.iter().any(|tag| has(tags, tag))
        };
        self.rules.values().filter(about).map(|rule| rule.days).max()
    }

    /// Returns true if the file `name` belongs to a binned resource.
    pub fn keeps(&self, name: &str) -> bool {
        name.parse().is_ok_and(|id: SnapshotId| self.snapshots.contains_key(&id))
            || name.parse().is_ok_and(|id: VolumeId| self.volumes.contains_key(&id))
    }

    /// Returns the ids of all binned resources.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        self.snapshots.keys().map(ToString::to_string).chain(self.volumes.keys().map(ToString::to_string))
    }
}
