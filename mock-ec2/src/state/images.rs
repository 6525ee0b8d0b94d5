//! Images of the account itself, created from an instance or from snapshots, limited to snapshots and block devices.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::LaunchDevice;
use super::ids::{InstanceId, SnapshotId};
use super::image::Image;

/// Disk in an image's mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDisk {
    /// The device name.
    pub device: String,
    /// Snapshot of the disk; None for an empty disk.
    pub snapshot: Option<SnapshotId>,
    /// Size in GiB.
    pub size_gib: u64,
    /// Name of the volume type.
    pub volume_type: String,
    /// IOPS, if set.
    pub iops: Option<u64>,
    /// Throughput in MiB/s, if set.
    pub throughput: Option<u64>,
    /// True if the disk is encrypted.
    pub encrypted: bool,
    /// True if the disk is deleted with its instance.
    pub delete_on_termination: bool,
}

/// An image of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnImage {
    /// Name, unique in the account.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The device name of root volumes.
    pub root_device: String,
    /// The architecture that it runs on.
    pub architecture: String,
    /// True for Windows.
    pub windows: bool,
    /// Time of creation, wall time.
    pub created: Timestamp,
    /// Instance from which it was created.
    pub source_instance: Option<InstanceId>,
    /// Disks, including the root disk.
    pub disks: Vec<ImageDisk>,
}

/// Parameters of CreateImage.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateImage {
    /// The instance.
    pub instance: InstanceId,
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// If set, the instance is not rebooted.
    pub no_reboot: bool,
    /// Changes to its disks, and additional disks.
    pub devices: Vec<LaunchDevice>,
    /// Tags of the image.
    pub tags: BTreeMap<String, String>,
    /// Tags of the snapshots.
    pub snapshot_tags: BTreeMap<String, String>,
}

/// Parameters of RegisterImage.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterImage {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The architecture.
    pub architecture: String,
    /// The device name of root volumes.
    pub root_device: String,
    /// The disks.
    pub devices: Vec<LaunchDevice>,
    /// Tags of the image.
    pub tags: BTreeMap<String, String>,
}

/// A request about an image of the account.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageRequest {
    /// CreateImage.
    Create(CreateImage),
    /// RegisterImage.
    Register(RegisterImage),
    /// DeregisterImage: the image, and true if its snapshots are deleted too.
    Deregister(String, bool),
}

impl ImageRequest {
    /// Returns the action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Create(_) => "CreateImage",
            Self::Register(_) => "RegisterImage",
            Self::Deregister(..) => "DeregisterImage",
        }
    }
}

impl OwnImage {
    /// Returns the image for a launch.
    pub(super) fn image(&self, id: &str, account: &str) -> Image {
        let root = self.disks.iter().find(|disk| disk.device == self.root_device);
        Image {
            id: id.to_owned(),
            name: self.name.clone(),
            description: self.description.clone(),
            owner: (account.to_owned(), None),
            root_device: self.root_device.clone(),
            architecture: Some(self.architecture.clone()),
            windows: self.windows,
            size_gib: root.map_or(0, |disk| disk.size_gib),
            created: super::time(self.created),
            source_instance: self.source_instance.clone(),
            disks: self.disks.clone(),
        }
    }
}
