//! Description of a volume as kubelet needs it: from its PersistentVolume, or from disk after a restart.

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

/// Lifetime of a volume, as CSI drivers receive it (`VolumeLifecycleMode`).
#[derive(Clone, Debug, PartialEq)]
pub enum LifeCycle {
    /// A PersistentVolume.
    Persistent,
    /// An inline volume: lives as long as its pod.
    Ephemeral {
        /// Secret for NodePublishVolume, in the pod's namespace.
        publish_secret: Option<SecretReference>,
    },
}

impl LifeCycle {
    /// Returns the value of `CSIDriver.spec.volumeLifecycleModes`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Persistent => "Persistent",
            Self::Ephemeral { .. } => EPHEMERAL,
        }
    }
}

/// Plugins of volumes that are paths of the machine.
const HOST_PATH: &str = "kubernetes.io/host-path";
const LOCAL: &str = "kubernetes.io/local-volume";

/// Lifecycle mode of an inline volume.
pub const EPHEMERAL: &str = "Ephemeral";

/// Volume as the volume manager sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeSpec {
    /// Unique name: the key in the desired and actual state.
    pub name: VolumeName,
    /// Name of the PersistentVolume, or of the inline volume in its pod. Used in messages and paths.
    pub pv: String,
    /// Its lifetime.
    pub life_cycle: LifeCycle,
    /// The CSI driver.
    pub driver: String,
    /// The CSI volume handle.
    pub handle: String,
    /// True if `spec.volumeMode` is Block: pods get the device itself.
    pub block: bool,
    /// `spec.csi.fsType`. If empty, the driver chooses.
    pub fs_type: String,
    /// `spec.mountOptions`.
    pub mount_options: Vec<String>,
    /// `spec.csi.volumeAttributes`: the CSI volume_context.
    pub attributes: BTreeMap<String, String>,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// `spec.csi.readOnly`.
    pub readonly: bool,
    /// The whole object, for its node affinity. None if the volume was found on disk.
    pub object: Option<Arc<PersistentVolume>>,
}

impl VolumeSpec {
    /// Reads `pv`.
    ///
    /// # Errors
    /// If it is not a CSI volume, or lacks driver or handle.
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

    /// Reads a PersistentVolume that is a path of the machine. None for another one, and for a raw device.
    pub fn of_machine(pv: &Arc<PersistentVolume>) -> Option<Self> {
        let spec = pv.spec.as_ref().filter(|spec| spec.volume_mode.as_deref() != Some("Block"))?;
        let plugin = match (&spec.host_path, &spec.local) {
            (Some(_), _) => HOST_PATH,
            (None, Some(_)) => LOCAL,
            (None, None) => return None,
        };
        let name = pv.metadata.name.as_deref().unwrap_or_default();
        Some(Self {
            name: VolumeName::of_machine(plugin, name),
            access_modes: spec.access_modes.clone().unwrap_or_default(),
            object: Some(pv.clone()),
            ..Self::reconstructed(plugin, name, name, false)
        })
    }

    /// Returns its path on the machine, if it is one.
    pub fn path_of_machine(&self) -> Option<&str> {
        let spec = self.object.as_ref()?.spec.as_ref()?;
        let host = spec.host_path.as_ref().map(|host| host.path.as_str());
        host.or_else(|| spec.local.as_ref().map(|local| local.path.as_str()))
    }

    /// Returns true if it is a hostPath, whose files keep their group.
    pub fn is_host_path(&self) -> bool {
        self.path_of_machine().is_some() && self.driver == HOST_PATH
    }

    /// Reads the inline volume `name` of `pod`.
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

    /// Describes an inline volume of pod `uid` that a restarted kubelet found on disk.
    pub fn reconstructed_inline(driver: &str, handle: &str, uid: &str, name: &str) -> Self {
        Self {
            name: VolumeName::of_pod(uid, name),
            life_cycle: LifeCycle::Ephemeral { publish_secret: None },
            ..Self::reconstructed(driver, handle, name, false)
        }
    }

    /// Describes a volume that a restarted kubelet found on disk.
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

    /// Returns `spec.csi` of its PersistentVolume, if that was seen.
    pub fn csi(&self) -> Option<&CSIPersistentVolumeSource> {
        self.object.as_ref()?.spec.as_ref()?.csi.as_ref()
    }

    /// Returns true for an inline volume: it is neither attached nor staged.
    pub fn is_inline(&self) -> bool {
        matches!(self.life_cycle, LifeCycle::Ephemeral { .. })
    }

    /// Returns the secret for NodePublishVolume.
    pub fn publish_secret(&self) -> Option<&SecretReference> {
        match &self.life_cycle {
            LifeCycle::Persistent => self.csi()?.node_publish_secret_ref.as_ref(),
            LifeCycle::Ephemeral { publish_secret } => publish_secret.as_ref(),
        }
    }

    /// Returns true if only one pod of the cluster may use it.
    pub fn is_read_write_once_pod(&self) -> bool {
        self.access_modes.iter().any(|m| m == "ReadWriteOncePod")
    }

    /// Returns the CSI access mode for the first of the volume's modes (upstream `csi_client.go` asCSIAccessModeV1).
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
