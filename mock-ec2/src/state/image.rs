//! Images as launches and lists see them.

use super::ids::InstanceId;
use super::images::ImageDisk;

/// Image, as far as it affects instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The account that owns it, and the owner's alias.
    pub owner: (String, Option<&'static str>),
    /// The device name of root volumes.
    pub root_device: String,
    /// The architecture that it runs on, if known.
    pub architecture: Option<String>,
    /// True for Windows.
    pub windows: bool,
    /// Size of root volumes in GiB.
    pub size_gib: u64,
    /// Time of creation.
    pub created: String,
    /// Instance from which it was created.
    pub source_instance: Option<InstanceId>,
    /// Disks of an image of the account itself. Of other images only the root disk is known, without its snapshot.
    pub disks: Vec<ImageDisk>,
}
