//! The CSI driver's controller service, as the attacher calls it.

use std::collections::BTreeMap;

use csi_proto::csi::controller_service_capability::rpc::Type as Rpc;
use csi_proto::csi::plugin_capability::service::Type as Service;
use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, ListVolumesRequest};

use crate::csi::{Connection, RpcError};

/// Capabilities of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// True if it attaches volumes at all; otherwise the trivial handler is used.
    pub publish: bool,
    /// PUBLISH_READONLY.
    pub readonly: bool,
    /// SINGLE_NODE_MULTI_WRITER.
    pub single_node_multi_writer: bool,
    /// LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES.
    pub list_published: bool,
}

impl From<&crate::csi::Driver> for Capabilities {
    fn from(driver: &crate::csi::Driver) -> Self {
        if !driver.serves(Service::ControllerService) {
            return Self::default();
        }
        Self {
            publish: driver.can(Rpc::PublishUnpublishVolume),
            readonly: driver.can(Rpc::PublishReadonly),
            single_node_multi_writer: driver.can(Rpc::SingleNodeMultiWriter),
            list_published: driver.can(Rpc::ListVolumes) && driver.can(Rpc::ListVolumesPublishedNodes),
        }
    }
}

/// Calls to the driver.
#[derive(Clone)]
pub struct Driver(pub Connection);

impl Driver {
    /// Calls ControllerPublishVolume; returns the publish_context.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn publish(&self, request: ControllerPublishVolumeRequest) -> Result<BTreeMap<String, String>, RpcError> {
        Ok(self.0.call(self.0.controller().controller_publish_volume(request)).await?.publish_context)
    }

    /// Calls ControllerUnpublishVolume.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn unpublish(&self, request: ControllerUnpublishVolumeRequest) -> Result<(), RpcError> {
        self.0.call(self.0.controller().controller_unpublish_volume(request)).await.map(drop)
    }

    /// Calls ListVolumes for all pages; returns volume → ids of the nodes where it is published.
    ///
    /// # Errors
    /// The driver's status, or DEADLINE_EXCEEDED.
    pub async fn published(&self) -> Result<BTreeMap<String, Vec<String>>, RpcError> {
        let mut published = BTreeMap::new();
        let mut starting_token = String::new();
        loop {
            let request = ListVolumesRequest { max_entries: 0, starting_token };
            let page = self.0.call(self.0.controller().list_volumes(request)).await?;
            for entry in page.entries {
                if let Some(volume) = entry.volume {
                    published.insert(volume.volume_id, entry.status.map(|s| s.published_node_ids).unwrap_or_default());
                }
            }
            if page.next_token.is_empty() {
                return Ok(published);
            }
            starting_token = page.next_token;
        }
    }
}
