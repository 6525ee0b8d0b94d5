//! Capabilities of the driver, and their switches.
//!
//! A capability has its name in CSI, optionally after its service: `controller.LIST_VOLUMES`. A name without a service
//! means every service with that capability (`EXPAND_VOLUME` exists in the controller and on the node). The set can
//! change while the driver runs; each RPC checks it at its start.

use std::collections::BTreeSet;
use std::str::FromStr;

/// Services with capabilities.
const PLUGIN: &str = "plugin";
const CONTROLLER: &str = "controller";
const GROUP: &str = "group";
const NODE: &str = "node";

/// Capability of CSI 1.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The plugin has a controller service.
    ControllerService,
    /// Volumes are not accessible from every node.
    VolumeAccessibilityConstraints,
    /// The plugin has a group controller service.
    GroupControllerService,
    /// The plugin has a snapshot metadata service.
    SnapshotMetadataService,
    /// Volumes can grow while they are published.
    ExpansionOnline,
    /// Volumes can grow only while they are not published.
    ExpansionOffline,
    /// CreateVolume and DeleteVolume.
    CreateDeleteVolume,
    /// ControllerPublishVolume and ControllerUnpublishVolume.
    PublishUnpublishVolume,
    /// ListVolumes.
    ListVolumes,
    /// GetCapacity.
    GetCapacity,
    /// CreateSnapshot and DeleteSnapshot.
    CreateDeleteSnapshot,
    /// ListSnapshots.
    ListSnapshots,
    /// Volumes cloned from volumes.
    CloneVolume,
    /// `readonly` of ControllerPublishVolume.
    PublishReadonly,
    /// ControllerExpandVolume.
    ControllerExpandVolume,
    /// Published nodes in lists of volumes.
    ListVolumesPublishedNodes,
    /// Volume condition in lists of volumes (alpha).
    ControllerVolumeCondition,
    /// ControllerGetVolume (alpha).
    GetVolume,
    /// The access modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER, in the controller (alpha).
    ControllerSingleNodeMultiWriter,
    /// ControllerModifyVolume and `mutable_parameters`.
    ModifyVolume,
    /// GetSnapshot (alpha).
    GetSnapshot,
    /// RPCs of volume group snapshots.
    CreateDeleteGetVolumeGroupSnapshot,
    /// NodeStageVolume and NodeUnstageVolume.
    StageUnstageVolume,
    /// NodeGetVolumeStats.
    GetVolumeStats,
    /// NodeExpandVolume.
    NodeExpandVolume,
    /// Volume condition in NodeGetVolumeStats (alpha).
    NodeVolumeCondition,
    /// The access modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER, on the node (alpha).
    NodeSingleNodeMultiWriter,
    /// `volume_mount_group`: the driver gives the volume to a group.
    VolumeMountGroup,
}

/// All capabilities: service, name, and number in the service's enumeration.
const TABLE: [(Feature, &str, &str, i32); 28] = [
    (Feature::ControllerService, PLUGIN, "CONTROLLER_SERVICE", 1),
    (Feature::VolumeAccessibilityConstraints, PLUGIN, "VOLUME_ACCESSIBILITY_CONSTRAINTS", 2),
    (Feature::GroupControllerService, PLUGIN, "GROUP_CONTROLLER_SERVICE", 3),
    (Feature::SnapshotMetadataService, PLUGIN, "SNAPSHOT_METADATA_SERVICE", 4),
    (Feature::ExpansionOnline, PLUGIN, "VOLUME_EXPANSION_ONLINE", 1),
    (Feature::ExpansionOffline, PLUGIN, "VOLUME_EXPANSION_OFFLINE", 2),
    (Feature::CreateDeleteVolume, CONTROLLER, "CREATE_DELETE_VOLUME", 1),
    (Feature::PublishUnpublishVolume, CONTROLLER, "PUBLISH_UNPUBLISH_VOLUME", 2),
    (Feature::ListVolumes, CONTROLLER, "LIST_VOLUMES", 3),
    (Feature::GetCapacity, CONTROLLER, "GET_CAPACITY", 4),
    (Feature::CreateDeleteSnapshot, CONTROLLER, "CREATE_DELETE_SNAPSHOT", 5),
    (Feature::ListSnapshots, CONTROLLER, "LIST_SNAPSHOTS", 6),
    (Feature::CloneVolume, CONTROLLER, "CLONE_VOLUME", 7),
    (Feature::PublishReadonly, CONTROLLER, "PUBLISH_READONLY", 8),
    (Feature::ControllerExpandVolume, CONTROLLER, "EXPAND_VOLUME", 9),
    (Feature::ListVolumesPublishedNodes, CONTROLLER, "LIST_VOLUMES_PUBLISHED_NODES", 10),
    (Feature::ControllerVolumeCondition, CONTROLLER, "VOLUME_CONDITION", 11),
    (Feature::GetVolume, CONTROLLER, "GET_VOLUME", 12),
    (Feature::ControllerSingleNodeMultiWriter, CONTROLLER, "SINGLE_NODE_MULTI_WRITER", 13),
    (Feature::ModifyVolume, CONTROLLER, "MODIFY_VOLUME", 14),
    (Feature::GetSnapshot, CONTROLLER, "GET_SNAPSHOT", 15),
    (Feature::CreateDeleteGetVolumeGroupSnapshot, GROUP, "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT", 1),
    (Feature::StageUnstageVolume, NODE, "STAGE_UNSTAGE_VOLUME", 1),
    (Feature::GetVolumeStats, NODE, "GET_VOLUME_STATS", 2),
    (Feature::NodeExpandVolume, NODE, "EXPAND_VOLUME", 3),
    (Feature::NodeVolumeCondition, NODE, "VOLUME_CONDITION", 4),
    (Feature::NodeSingleNodeMultiWriter, NODE, "SINGLE_NODE_MULTI_WRITER", 5),
    (Feature::VolumeMountGroup, NODE, "VOLUME_MOUNT_GROUP", 6),
];

/// Capabilities that are needed to create, attach and mount a volume.
const MINIMAL: [Feature; 5] = [
    Feature::ControllerService,
    Feature::VolumeAccessibilityConstraints,
    Feature::CreateDeleteVolume,
    Feature::PublishUnpublishVolume,
    Feature::StageUnstageVolume,
];

/// Further capabilities of the EBS driver, which has neither ListVolumes nor GetCapacity.
const EBS: [Feature; 10] = [
    Feature::ExpansionOnline,
    Feature::CreateDeleteSnapshot,
    Feature::ListSnapshots,
    Feature::CloneVolume,
    Feature::ControllerExpandVolume,
    Feature::ControllerSingleNodeMultiWriter,
    Feature::ModifyVolume,
    Feature::GetVolumeStats,
    Feature::NodeExpandVolume,
    Feature::NodeSingleNodeMultiWriter,
];

impl Feature {
    fn row(self) -> &'static (Feature, &'static str, &'static str, i32) {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// Returns the name in CSI (`LIST_VOLUMES`).
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns its number in the enumeration of its service.
    pub(crate) fn number(self) -> i32 {
        self.row().3
    }
}

/// Set of capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Feature>);

impl Default for Capabilities {
    /// Returns the capabilities of the EBS driver.
    fn default() -> Self {
        Self(MINIMAL.into_iter().chain(EBS).collect())
    }
}

impl Capabilities {
    /// Returns all capabilities of CSI 1.12; of the two kinds of expansion the online one.
    pub fn all() -> Self {
        Self(TABLE.iter().map(|row| row.0).filter(|c| *c != Feature::ExpansionOffline).collect())
    }

    /// Returns the capabilities that are needed to create, attach and mount a volume.
    pub fn minimal() -> Self {
        Self(MINIMAL.into_iter().collect())
    }

    /// Returns no capabilities.
    pub(crate) fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Returns true if it is in the set.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.contains(&feature)
    }

    /// Returns the set with one more.
    #[must_use]
    pub fn with(mut self, feature: Feature) -> Self {
        self.0.insert(feature);
        self
    }

    /// Returns the set without one.
    #[must_use]
    pub fn without(mut self, feature: Feature) -> Self {
        self.0.remove(&feature);
        self
    }

    /// Returns the numbers of a service's capabilities, in order.
    fn of(&self, service: &str) -> impl Iterator<Item = i32> {
        self.0.iter().filter(move |c| c.row().1 == service).map(|c| c.number())
    }

    pub(crate) fn controller(&self) -> impl Iterator<Item = i32> {
        self.of(CONTROLLER)
    }

    pub(crate) fn group(&self) -> impl Iterator<Item = i32> {
        self.of(GROUP)
    }

    pub(crate) fn node(&self) -> impl Iterator<Item = i32> {
        self.of(NODE)
    }

    /// Returns the names with their services (`node.EXPAND_VOLUME`), in order.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|c| format!("{}.{}", c.row().1, c.row().2)).collect()
    }

    /// Applies `changes`, which are words of [`Capabilities::from_str`].
    ///
    /// # Errors
    /// The error in a word.
    pub fn changed(&self, changes: &str) -> Result<Self, String> {
        let mut set = self.0.clone();
        for word in changes.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let preset = match word {
                "all" => Some(Self::all()),
                "minimal" => Some(Self::minimal()),
                "ebs" => Some(Self::default()),
                "none" => Some(Self(BTreeSet::new())),
                _ => None,
            };
            if let Some(preset) = preset {
                set = preset.0;
                continue;
            }
            let (add, name) = match word.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, word.strip_prefix('+').unwrap_or(word)),
            };
            let (service, name) = name.split_once('.').map_or((None, name), |(s, n)| (Some(s), n));
            let fits = |row: &&(Feature, &str, &str, i32)| {
                row.2.eq_ignore_ascii_case(name) && service.is_none_or(|s| row.1.eq_ignore_ascii_case(s))
            };
            let mut found = TABLE.iter().filter(fits).map(|row| row.0).peekable();
            if found.peek().is_none() {
                return Err(format!(
                    "`{word}` is not a capability; write all, minimal, ebs, none, or names of CSI such as LIST_VOLUMES, \
                     -LIST_VOLUMES or node.EXPAND_VOLUME, with commas between them"
                ));
            }
            for capability in found {
                if add {
                    set.insert(capability);
                } else {
                    set.remove(&capability);
                }
            }
        }
        if set.contains(&Feature::ExpansionOnline) && set.contains(&Feature::ExpansionOffline) {
            return Err("VOLUME_EXPANSION_ONLINE and VOLUME_EXPANSION_OFFLINE exclude each other".to_owned());
        }
        Ok(Self(set))
    }
}

impl FromStr for Capabilities {
    type Err = String;

    /// Parses words separated by commas, applied from left to right: `all`, `minimal`, `ebs` (the default) and `none`
    /// are sets, `NAME` and `+NAME` add, `-NAME` removes.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::default().changed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_applied_one_after_another() {
        let set: Capabilities = "minimal, LIST_VOLUMES,EXPAND_VOLUME, -node.EXPAND_VOLUME".parse().unwrap();
        assert!(set.has(Feature::ListVolumes) && set.has(Feature::ControllerExpandVolume));
        assert!(!set.has(Feature::NodeExpandVolume) && !set.has(Feature::GetVolumeStats));
        assert_eq!("all".parse::<Capabilities>().unwrap(), Capabilities::all());
        assert_eq!("".parse::<Capabilities>().unwrap(), Capabilities::default());
        assert_eq!("none".parse::<Capabilities>().unwrap().names(), Vec::<String>::new());
        assert_eq!(Capabilities::all().controller().collect::<Vec<_>>(), (1..=15).collect::<Vec<_>>());
        assert_eq!(Capabilities::all().node().collect::<Vec<_>>(), (1..=6).collect::<Vec<_>>());
    }

    #[test]
    fn unknown_and_conflicting_names_are_refused() {
        for bad in ["LIST_VOLUME", "group.LIST_VOLUMES", "-", "all,VOLUME_EXPANSION_OFFLINE"] {
            assert!(bad.parse::<Capabilities>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_name_can_be_read_back() {
        for name in Capabilities::all().names() {
            let set = Capabilities(BTreeSet::new()).changed(&name).unwrap();
            assert_eq!(set.names(), [name]);
        }
    }
}
