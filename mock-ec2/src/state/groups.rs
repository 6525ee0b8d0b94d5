//! Placement groups: created, listed and deleted. They have no effect: instances here have no distance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A placement group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementGroup {
    /// Its id.
    pub id: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// Partitions of a partition group.
    pub partitions: Option<u64>,
    /// `host` or `rack`, of a spread group.
    pub spread_level: Option<String>,
}

/// Request about placement groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// CreatePlacementGroup: the name, the group without its id, and tags.
    Create(String, PlacementGroup, BTreeMap<String, String>),
    /// DeletePlacementGroup: the name.
    Delete(String),
}

impl GroupRequest {
    /// Returns the action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Create(..) => "CreatePlacementGroup",
            Self::Delete(_) => "DeletePlacementGroup",
        }
    }
}
