//! Instances as they are asked for before the machine runs, and as others know them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One instance of the seed list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Its `Name` tag; harnesses find the instance by it (see [`crate::Ec2::instances`]).
    pub name: String,
    /// Its id, `i-` and 8 or 17 hex digits; generated from the seed when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its type, such as `m5.large`; decides the attach limit.
    #[serde(default = "default_type")]
    pub instance_type: String,
    /// The availability zone.
    pub zone: String,
    /// Its private DNS name; made from its private address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dns_name: Option<String>,
    /// Network interfaces, each of which takes a slot on types with shared limits.
    #[serde(default = "one")]
    pub network_interfaces: u32,
    /// More tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl InstanceSpec {
    /// An m5.large called `name` in `zone`.
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

/// What others need to know of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceInfo {
    /// Its id, `i-…`.
    pub id: String,
    /// Its `Name` tag; empty when it has none.
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
