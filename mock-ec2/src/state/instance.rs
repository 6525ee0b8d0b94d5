//! Instances: the part that matters to storage.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::device::DeviceSlot;
use super::ids::{InstanceId, VolumeId};
use super::instance_types;
use super::network::interface_id;
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
    /// Runs, according to the cloud.
    Running,
    /// Terminating.
    ShuttingDown,
    /// Terminated; listed for one more hour.
    Terminated,
    /// Stopping.
    Stopping,
    /// Stopped; can be started again.
    Stopped,
}

impl InstanceState {
    /// Returns the name and the number on the wire.
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
    /// Position in the launch order, from 0.
    pub ordinal: u64,
    /// Reservation of its launch.
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
    /// True if it lost power or hangs. The cloud still calls it running and keeps its attachments.
    pub impaired: bool,
    /// Time of its launch, wall time.
    pub launch_time: Timestamp,
    /// Its private DNS name.
    pub private_dns_name: String,
    /// Its private IPv4 address.
    pub private_ip: String,
    /// Number of network interfaces; they take slots on types with shared limits.
    pub network_interfaces: u32,
    /// Its subnet, if it is one of the account's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Device name of its root volume, from its image.
    #[serde(default = "root_device")]
    pub root_device: String,
    /// Further launch options.
    #[serde(default)]
    pub options: LaunchOptions,
    /// Client token of its launch.
    #[serde(default)]
    pub client_token: String,
    /// True for a Windows image.
    #[serde(default)]
    pub windows: bool,
    /// Time at which a user stopped or terminated it, wall time.
    #[serde(default)]
    pub ended: Option<Timestamp>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Volume in each slot, including the root volume.
    #[serde(skip)]
    pub slots: BTreeMap<DeviceSlot, VolumeId>,
    /// Slots in use by devices that its mapping does not show, as some images have them (kubeone#2859).
    pub hidden: BTreeSet<DeviceSlot>,
    /// Slots whose last device was detached by force. An attach there stays `attaching` until the instance reboots.
    pub poisoned: BTreeSet<DeviceSlot>,
    /// Number of slots that other devices take, such as accelerators.
    pub reserved_slots: u32,
    /// Volumes with mounted devices, as reported by the node.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub mounted: BTreeSet<VolumeId>,
    /// Volumes with mounted devices, as observed in the kernel.
    #[serde(skip)]
    pub held: BTreeSet<VolumeId>,
    /// Devices that its metadata shows: those at the latest boot (aws-ebs-csi-driver#1808).
    pub boot_devices: Vec<String>,
    /// Number of durations drawn for it since its first start; names the next draw.
    pub draws: u32,
    /// End of its current state.
    pub progress: Progress,
}

/// Device name of root volumes if the image sets none.
pub const ROOT_DEVICE: &str = "/dev/xvda";

fn root_device() -> String {
    ROOT_DEVICE.to_owned()
}

impl Instance {
    /// Returns the largest number of devices, including the root volume.
    pub fn device_limit(&self) -> u32 {
        let hidden = self.hidden.len() as u32 + self.reserved_slots;
        instance_types::limit(&self.instance_type).devices(self.network_interfaces).saturating_sub(hidden).max(1)
    }

    /// Returns the ids of its network interfaces.
    pub(super) fn interface_ids(&self) -> impl Iterator<Item = String> {
        (0..self.network_interfaces).map(|number| interface_id(self.id.as_str(), number))
    }

    /// Returns true if its type is on the Nitro System; a type outside the table counts as such.
    pub fn on_nitro(&self) -> bool {
        instance_types::find(&self.instance_type).is_none_or(|t| t.hypervisor() == "nitro")
    }

    /// Returns true if the device of `volume` is mounted and so cannot go. An instance without power mounts nothing.
    pub fn holds_mounted(&self, volume: &VolumeId) -> bool {
        self.state == InstanceState::Running
            && !self.impaired
            && (self.mounted.contains(volume) || self.held.contains(volume))
    }

    /// Returns the `reason` field: the user's action and its time.
    pub fn reason(&self) -> String {
        let at = self.ended.map(|at| at.strftime("%Y-%m-%d %H:%M:%S GMT").to_string());
        at.map_or_else(String::new, |at| format!("User initiated ({at})"))
    }

    /// Returns code and text of the state's reason, if any.
    pub fn state_reason(&self) -> Option<(&'static str, &'static str)> {
        match self.state {
            InstanceState::Pending => Some(("pending", "pending")),
            _ if self.ended.is_some() => {
                Some(("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"))
            }
            _ => None,
        }
    }

    /// Records the devices at boot.
    pub(super) fn boot(&mut self) {
        self.boot_devices = self.slots.keys().map(ToString::to_string).collect();
    }

    /// Returns the public description of the instance.
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
