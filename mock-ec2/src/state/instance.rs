//! Instances: the part of them that storage touches.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::device::DeviceSlot;
use super::ids::{InstanceId, VolumeId};
use super::instance_types;
use super::options::LaunchOptions;
use super::spec::InstanceInfo;
use super::table::Row;
use super::timers::Progress;

/// States of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// Boots.
    Pending,
    /// Runs, as far as the cloud knows.
    Running,
    /// Is about to be gone.
    ShuttingDown,
    /// Is gone; still listed for an hour.
    Terminated,
    /// Is about to stop.
    Stopping,
    /// Is switched off and can be started again.
    Stopped,
}

impl InstanceState {
    /// The name and the number on the wire.
    pub fn wire(self) -> (&'static str, u8) {
        match self {
            Self::Pending => ("pending", 0),
            Self::Running => ("running", 16),
            Self::ShuttingDown => ("shutting-down", 32),
            Self::Terminated => ("terminated", 48),
            Self::Stopping => ("stopping", 64),
            Self::Stopped => ("stopped", 80),
        }
    }
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Its subnet, if it is one of the account's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The device name of its root volume, which its image says.
    #[serde(default = "root_device")]
    pub root_device: String,
    /// What else it was asked to be.
    #[serde(default)]
    pub options: LaunchOptions,
    /// The client token of its launch.
    #[serde(default)]
    pub client_token: String,
    /// Whether its image is one of Windows.
    #[serde(default)]
    pub windows: bool,
    /// When somebody stopped or terminated it, wall time.
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Which volume holds which slot, the root volume included.
    #[serde(skip)]
    pub slots: BTreeMap<DeviceSlot, VolumeId>,
    /// Slots in use by devices that its mapping does not show, as an image can bring them (reference §6).
    pub hidden: BTreeSet<DeviceSlot>,
    /// Slots whose last device was pulled by force; an attach there sticks until the instance reboots.
    pub poisoned: BTreeSet<DeviceSlot>,
    /// Slots that something else takes, such as accelerators.
    pub reserved_slots: u32,
    /// The volumes whose devices are mounted, as the node says.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub mounted: BTreeSet<VolumeId>,
    /// The volumes whose devices are mounted, as the kernel says.
    #[serde(skip)]
    pub held: BTreeSet<VolumeId>,
    /// The devices that its metadata shows: those at the latest boot (csi#1808).
    pub boot_devices: Vec<String>,
    /// Durations drawn for it since its first start; names the next draw.
    pub draws: u32,
    /// How its state ends.
    pub progress: Progress,
}

/// The device name of root volumes where the image does not say another.
pub const ROOT_DEVICE: &str = "/dev/xvda";

fn root_device() -> String {
    ROOT_DEVICE.to_owned()
}

impl Instance {
    /// Most devices that it can have, the root volume included.
    pub fn device_limit(&self) -> u32 {
        let hidden = self.hidden.len() as u32 + self.reserved_slots;
        instance_types::limit(&self.instance_type).devices(self.network_interfaces).saturating_sub(hidden).max(1)
    }

    /// Whether the device of `volume` cannot go because it is mounted: a machine without power mounts nothing.
    pub fn holds_mounted(&self, volume: &VolumeId) -> bool {
        self.state == InstanceState::Running
            && !self.impaired
            && (self.mounted.contains(volume) || self.held.contains(volume))
    }

    /// Why it is in its state, as `reason` tells it: what somebody did to it, and when.
    pub fn reason(&self) -> String {
        let at = self.ended.map(|at| at.strftime("%Y-%m-%d %H:%M:%S GMT").to_string());
        at.map_or_else(String::new, |at| format!("User initiated ({at})"))
    }

    /// Code and text of the reason for its state, where there is one.
    pub fn state_reason(&self) -> Option<(&'static str, &'static str)> {
        match self.state {
            InstanceState::Pending => Some(("pending", "pending")),
            _ if self.ended.is_some() => {
                Some(("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"))
            }
            _ => None,
        }
    }

    /// Takes note of the devices that are there at boot.
    pub(super) fn boot(&mut self) {
        self.boot_devices = self.slots.keys().map(ToString::to_string).collect();
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

impl Row for Instance {
    type Id = InstanceId;

    const ID_FILTER: &'static str = "instance-id";
    const FIXED: &'static [&'static str] = &["private-dns-name"];

    fn id(&self) -> &InstanceId {
        &self.id
    }

    fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    fn tags_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.tags
    }

    fn fixed(&self, _: &str) -> &str {
        &self.private_dns_name
    }
}
