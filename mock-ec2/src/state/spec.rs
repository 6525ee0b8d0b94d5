//! Instances as requested before the machine runs, and their public description.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Instance of the seed list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Its `Name` tag; the harness finds the instance by it (see [`crate::Ec2::instances`]).
    pub name: String,
    /// Id, `i-` and 8 to 17 hex digits. Default: derived from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Type, such as `m5.large`; determines the attach limit.
    #[serde(default = "default_type")]
    pub instance_type: String,
    /// The availability zone.
    pub zone: String,
    /// Private DNS name. Default: derived from its private address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<String>,
    /// Number of network interfaces. On types with shared limits each takes a slot.
    #[serde(default = "one")]
    pub network_interfaces: u32,
    /// Further tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl InstanceSpec {
    /// Describes an m5.large `name` in `zone`.
    pub fn new(name: impl Into<String>, zone: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: None,
            instance_type: default_type(),
            zone: zone.into(),
            private_dns_name: None,
            network_interfaces: one(),
            tags: BTreeMap::new(),
        }
    }
}

fn default_type() -> String {
    "m5.large".to_owned()
}

fn one() -> u32 {
    1
}

/// Public description of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceInfo {
    /// Its id, `i-…`.
    pub id: String,
    /// `Name` tag; empty if it has none.
    pub name: String,
    /// The availability zone.
    pub zone: String,
    /// Its type.
    pub instance_type: String,
    /// Its private DNS name.
    pub private_dns_name: String,
    /// Its private IPv4 address.
    pub private_ip: String,
}
