//! Names and properties of CSI volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolume;
use sha2::{Digest, Sha256};

use crate::kube::Kind;

/// A volume's unique name and a node's name.
pub type VolumeOnNode = (String, String);

/// Description of a volume for the loops (`volume.Spec` upstream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Name of the PersistentVolume.
    pub pv: String,
    /// CSI driver.
    pub driver: String,
    /// Volume handle: the cloud's volume id.
    pub handle: String,
    /// True if several nodes may attach it (`IsMultiAttachAllowed`): access modes are empty, or hold ReadWriteMany or
    /// ReadOnlyMany.
    pub multi_attach: bool,
}

impl VolumeSpec {
    /// Returns the spec of a CSI volume; None for other sources.
    pub fn from_pv(pv: &PersistentVolume) -> Option<Self> {
        let spec = pv.spec.as_ref()?;
        let csi = spec.csi.as_ref()?;
        let modes = spec.access_modes.as_deref().unwrap_or_default();
        Some(Self {
            pv: pv.name().to_owned(),
            driver: csi.driver.clone(),
            handle: csi.volume_handle.clone(),
            multi_attach: modes.is_empty() || modes.iter().any(|m| m == "ReadWriteMany" || m == "ReadOnlyMany"),
        })
    }

    /// Returns the volume's unique name. Two PVs with the same driver and handle are one volume.
    pub fn unique_name(&self) -> String {
        unique_name(&self.driver, &self.handle)
    }
}

/// Returns `kubernetes.io/csi/<driver>^<handle>`, the name in node statuses.
pub fn unique_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// Splits a unique name into driver and handle; None for a volume other than CSI.
pub fn parse_unique_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("kubernetes.io/csi/")?.split_once('^')
}

/// Numbers of attachments by driver. A driver without attachments stays with zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Counts an attachment of the volume with this unique name.
    pub fn added(&mut self, volume: &str) {
        *self.of_volume(volume) += 1;
    }

    /// Removes an attachment from the count.
    pub fn removed(&mut self, volume: &str) {
        let count = self.of_volume(volume);
        *count = count.checked_sub(1).expect("an attachment is counted before it is removed");
    }

    /// Returns the numbers.
    pub fn of(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    fn of_volume(&mut self, volume: &str) -> &mut u64 {
        let driver = parse_unique_name(volume).map_or("", |(driver, _)| driver);
        if !self.0.contains_key(driver) {
            self.0.insert(driver.to_owned(), 0);
        }
        self.0.get_mut(driver).expect("the driver is there")
    }
}

/// Returns the name of the VolumeAttachment. It is deterministic, so a deleting leftover blocks a new attachment.
pub fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    let digest = Sha256::new().chain_update(handle).chain_update(driver).chain_update(node).finalize();
    format!("csi-{}", hex::encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let name = unique_name("ebs.csi.aws.com", "vol-0123");
        assert_eq!(name, "kubernetes.io/csi/ebs.csi.aws.com^vol-0123");
        assert_eq!(parse_unique_name(&name), Some(("ebs.csi.aws.com", "vol-0123")));
        assert_eq!(parse_unique_name("kubernetes.io/nfs/x"), None);
    }

    #[test]
    fn an_attachment_is_named_by_the_hash_of_handle_driver_and_node() {
        // sha256("vol-0123ebs.csi.aws.comnode-a"), computed with coreutils.
        let name = attachment_name("vol-0123", "ebs.csi.aws.com", "node-a");
        assert_eq!(name.len(), 4 + 64);
        assert_eq!(name, "csi-75ca382fa280a2856eb71379f0b86ec93393f4c0275616e3d8d803542c2f3d83");
    }
}
