//! What a volume is, as far as kubelet needs it: taken from its PersistentVolume, or from disk after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::volume_capability::access_mode::Mode;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, CSIVolumeSource, PersistentVolume, Pod, SecretReference};

use super::super::names::{VolumeName, inline_handle};

/// Why a PersistentVolume cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum SpecError {
    /// PersistentVolume {0} has no CSI source: this node agent handles CSI volumes only
    NotCsi(String),
    /// PersistentVolume {pv}: spec.csi.{field} must not be empty
    Empty {
        /// The PersistentVolume.
        pv: String,
        /// The field.
        field: &'static str,
    },
}

/// How long a volume lives, as CSI drivers are told (`VolumeLifecycleMode`).
#[derive(Clone, Debug, PartialEq)]
pub enum LifeCycle {
    /// It has a PersistentVolume.
    Persistent,
    /// It comes and goes with the pod whose spec describes it.
    Ephemeral {
        /// The secret for publishing it, in the pod's namespace.
        publish_secret: Option<SecretReference>,
    },
}

impl LifeCycle {
    /// The word of `CSIDriver.spec.volumeLifecycleModes`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Persistent => "Persistent",
            Self::Ephemeral { .. } => EPHEMERAL,
        }
    }
}

/// The word for a volume that its pod describes.
pub const EPHEMERAL: &str = "Ephemeral";

/// A volume as the volume manager sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// The unique name, by which desired and actual state are keyed.
    pub name: VolumeName,
    /// The PersistentVolume's name, or the name in the pod that describes the volume; stands in messages and paths.
    pub pv: String,
    /// How long it lives.
    pub life_cycle: LifeCycle,
    /// The CSI driver.
    pub driver: String,
    /// The CSI volume handle.
    pub handle: String,
    /// `spec.volumeMode` is Block: pods get the device itself.
    pub block: bool,
    /// `spec.csi.fsType`; empty leaves the choice to the driver.
    pub fs_type: String,
    /// `spec.mountOptions`.
    pub mount_options: Vec<String>,
    /// `spec.csi.volumeAttributes`: the CSI volume_context.
    pub attributes: BTreeMap<String, String>,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.csi.readOnly`.
    pub readonly: bool,
    /// The whole object, for its node affinity; absent when the volume was found on disk.
    pub object: Option<Arc<PersistentVolume>>,
}

impl VolumeSpec {
    /// Reads `pv`.
    ///
    /// # Errors
    /// When it is not a CSI volume or lacks driver or handle.
    pub fn from_pv(pv: Arc<PersistentVolume>) -> Result<Self, SpecError> {
        let name = pv.metadata.name.clone().unwrap_or_default();
        let spec = pv.spec.as_ref();
        let Some(csi) = spec.and_then(|s| s.csi.as_ref()) else { return Err(SpecError::NotCsi(name)) };
        for (field, value) in [("driver", &csi.driver), ("volumeHandle", &csi.volume_handle)] {
            if value.is_empty() {
                return Err(SpecError::Empty { pv: name, field });
            }
        }
        Ok(Self {
            name: VolumeName::new(&csi.driver, &csi.volume_handle),
            driver: csi.driver.clone(),
            handle: csi.volume_handle.clone(),
            block: spec.and_then(|s| s.volume_mode.as_deref()) == Some("Block"),
            fs_type: csi.fs_type.clone().unwrap_or_default(),
            attributes: csi.volume_attributes.clone().unwrap_or_default(),
            readonly: csi.read_only.unwrap_or_default(),
            mount_options: spec.and_then(|s| s.mount_options.clone()).unwrap_or_default(),
            access_modes: spec.and_then(|s| s.access_modes.clone()).unwrap_or_default(),
            pv: name,
            life_cycle: LifeCycle::Persistent,
            object: Some(pv),
        })
    }

    /// Reads the volume `name` that `pod` describes in its own spec.
    pub fn inline(pod: &Pod, name: &str, csi: &CSIVolumeSource) -> Self {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let publish_secret = csi.node_publish_secret_ref.as_ref().map(|reference| SecretReference {
            name: Some(reference.name.clone()),
            namespace: pod.metadata.namespace.clone(),
        });
        Self {
            fs_type: csi.fs_type.clone().unwrap_or_default(),
            attributes: csi.volume_attributes.clone().unwrap_or_default(),
            readonly: csi.read_only.unwrap_or_default(),
            access_modes: vec!["ReadWriteOnce".to_owned()],
            life_cycle: LifeCycle::Ephemeral { publish_secret },
            ..Self::reconstructed_inline(&csi.driver, &inline_handle(uid, name), uid, name)
        }
    }

    /// What a restarted kubelet knows of a volume that pod `uid` describes and that it finds on disk.
    pub fn reconstructed_inline(driver: &str, handle: &str, uid: &str, name: &str) -> Self {
        Self {
            name: VolumeName::of_pod(uid, name),
            life_cycle: LifeCycle::Ephemeral { publish_secret: None },
            ..Self::reconstructed(driver, handle, name, false)
        }
    }

    /// What a restarted kubelet knows of a volume that it finds on disk.
    pub fn reconstructed(driver: &str, handle: &str, pv: &str, block: bool) -> Self {
        Self {
            name: VolumeName::new(driver, handle),
            pv: pv.to_owned(),
            life_cycle: LifeCycle::Persistent,
            driver: driver.to_owned(),
            handle: handle.to_owned(),
            block,
            fs_type: String::new(),
            mount_options: Vec::new(),
            attributes: BTreeMap::new(),
            access_modes: Vec::new(),
            readonly: false,
            object: None,
        }
    }

    /// `spec.csi` of its PersistentVolume, when that was seen.
    pub fn csi(&self) -> Option<&CSIPersistentVolumeSource> {
        self.object.as_ref()?.spec.as_ref()?.csi.as_ref()
    }

    /// Whether its pod describes it: it is neither attached nor staged.
    pub fn is_inline(&self) -> bool {
        matches!(self.life_cycle, LifeCycle::Ephemeral { .. })
    }

    /// The secret for publishing it.
    pub fn publish_secret(&self) -> Option<&SecretReference> {
        match &self.life_cycle {
            LifeCycle::Persistent => self.csi()?.node_publish_secret_ref.as_ref(),
            LifeCycle::Ephemeral { publish_secret } => publish_secret.as_ref(),
        }
    }

    /// Whether only one pod of the cluster may use it.
    pub fn is_read_write_once_pod(&self) -> bool {
        self.access_modes.iter().any(|m| m == "ReadWriteOncePod")
    }

    /// The CSI access mode: the first of the volume's modes decides (storage-controllers §9 "Access mode sent").
    /// `single_node_multi_writer` is the node capability of that name.
    pub fn access_mode(&self, single_node_multi_writer: bool) -> Mode {
        match self.access_modes.first().map_or("ReadWriteOnce", String::as_str) {
            "ReadOnlyMany" => Mode::MultiNodeReaderOnly,
            "ReadWriteMany" => Mode::MultiNodeMultiWriter,
            "ReadWriteOncePod" if single_node_multi_writer => Mode::SingleNodeSingleWriter,
            "ReadWriteOnce" if single_node_multi_writer => Mode::SingleNodeMultiWriter,
            _ => Mode::SingleNodeWriter,
        }
    }
}
