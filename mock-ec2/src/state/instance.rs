//! Instances: the part of them that storage touches.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::device::DeviceSlot;
use super::ids::{InstanceId, VolumeId};
use super::instance_types;
use super::timers::Progress;
use crate::config::InstanceInfo;

/// States of an instance that this room enters. Stopping and terminating belong to the instance actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// Boots.
    Pending,
    /// Runs, as far as the cloud knows.
    Running,
}

impl InstanceState {
    /// The name and the number on the wire.
    pub fn wire(self) -> (&'static str, u8) {
        match self {
            Self::Pending => ("pending", 0),
            Self::Running => ("running", 16),
        }
    }
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// Its id.
    pub id: InstanceId,
    /// Position in the order of start, from 0.
    pub ordinal: u64,
    /// The reservation that it was started in.
    pub reservation_id: String,
    /// Its image.
    pub image_id: String,
    /// Position among the instances of its reservation.
    pub launch_index: u64,
    /// Its type.
    pub instance_type: String,
    /// Its availability zone.
    pub zone: String,
    /// Its state.
    pub state: InstanceState,
    /// Whether it lost power or hangs; the cloud still calls it running and keeps its attachments.
    pub impaired: bool,
    /// When it was started, wall time.
    pub launch_time: Timestamp,
    /// Its private DNS name.
    pub private_dns_name: String,
    /// Its private IPv4 address.
    pub private_ip: String,
    /// Its network interfaces; they take slots on types with shared limits.
    pub network_interfaces: u32,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Which volume holds which slot, the root volume included.
    #[serde(skip)]
    pub slots: BTreeMap<DeviceSlot, VolumeId>,
    /// How `pending` ends.
    pub progress: Progress,
}

/// The device name of root volumes.
pub const ROOT_DEVICE: &str = "/dev/xvda";

impl Instance {
    /// Most devices that it can have, the root volume included.
    pub fn device_limit(&self) -> u32 {
        instance_types::limit(&self.instance_type).devices(self.network_interfaces)
    }

    /// What others need to know of it.
    pub fn info(&self) -> InstanceInfo {
        InstanceInfo {
            id: self.id.to_string(),
            name: self.tags.get("Name").cloned().unwrap_or_default(),
            zone: self.zone.clone(),
            instance_type: self.instance_type.clone(),
            private_dns_name: self.private_dns_name.clone(),
            private_ip: self.private_ip.clone(),
        }
    }
}
