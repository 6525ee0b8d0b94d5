//! ListVolumes, ControllerGetVolume and GetCapacity.

use std::collections::BTreeMap;

use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus as EntryStatus};
use csi_proto::csi::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::csi::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, GetCapacityRequest, GetCapacityResponse,
    ListVolumesRequest, ListVolumesResponse, Volume as CsiVolume, VolumeCondition, VolumeContentSource,
    controller_get_volume_response,
};
use substrate::mutant;
use tonic::Status;

use super::create::{GIB, LARGEST_GIB, NAME_TAG};
use super::page;
use super::parameters::Shape;
use super::service::{ControllerService, gib, internal, is_id, no_volume};
use super::volumes::topology;
use super::xml::{Volume, tag};
use crate::calls::Call;
use crate::capabilities::Feature;
use crate::check;
use crate::identity::{WELL_KNOWN_ZONE_KEY, ZONE_KEY};

/// Initial quota of an account for a volume type in a region, in GiB (EBS quotas: 50 TiB).
const QUOTA_GIB: u64 = 50 << 10;

/// Converts a volume to CSI, with its source if the cloud knows it.
fn to_csi(volume: &Volume, spread: bool) -> CsiVolume {
    let source = if !volume.source_volume_id.is_empty() {
        Some(SourceType::Volume(VolumeSource { volume_id: volume.source_volume_id.clone() }))
    } else if !volume.snapshot_id.is_empty() {
        Some(SourceType::Snapshot(SnapshotSource { snapshot_id: volume.snapshot_id.clone() }))
    } else {
        None
    };
    CsiVolume {
        capacity_bytes: gib(volume.size),
        volume_id: volume.volume_id.clone(),
        volume_context: BTreeMap::new(),
        content_source: source.map(|source| VolumeContentSource { r#type: Some(source) }),
        accessible_topology: if spread { topology(&volume.availability_zone) } else { Vec::new() },
    }
}

/// Returns the nodes to which a volume is published.
fn nodes(volume: &Volume) -> Vec<String> {
    let attached = volume.attachment_set.item.iter().filter(|a| matches!(&*a.status, "attached" | "busy"));
    attached.map(|a| a.instance_id.clone()).collect()
}

/// Returns the condition of a volume; `impaired` if the cloud stopped its I/O.
fn condition(volume: &Volume, impaired: bool) -> VolumeCondition {
    let (abnormal, message) = match &*volume.status {
        "error" => (true, "the volume's state is `error`".to_owned()),
        _ if impaired => (true, "the volume's I/O is impaired".to_owned()),
        status => (false, format!("the volume is {status}")),
    };
    VolumeCondition { abnormal, message }
}

impl ControllerService {
    pub(super) async fn list(&self, call: &Call, request: ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let most = check::max_entries("max_entries", request.max_entries)?;
        let mut all = self.ec2.volumes().await.map_err(|e| internal("cannot list the volumes", &e))?;
        // Only volumes of the driver, of any process; root disks of instances are left out.
        all.retain(|v| tag(&v.tag_set, NAME_TAG).is_some() && !matches!(&*v.status, "deleting" | "deleted"));
        all.sort_by(|a, b| a.volume_id.cmp(&b.volume_id));
        let (page, next_token) = page::cut(all, |v| &v.volume_id, most, &request.starting_token)?;
        let offered = self.calls.settings().capabilities();
        let impaired = match (offered.has(Feature::ControllerVolumeCondition), page.is_empty()) {
            (true, false) => {
                let found = self.ec2.impaired(&[]).await;
                Some(found.map_err(|e| internal("cannot ask for the status of the volumes", &e))?)
            }
            _ => None,
        };
        let published = offered.has(Feature::ListVolumesPublishedNodes);
        let spread = offered.has(Feature::VolumeAccessibilityConstraints);
        let entries = page.iter().map(|volume| Entry {
            volume: Some(to_csi(volume, spread)),
            status: (published || impaired.is_some()).then(|| EntryStatus {
                published_node_ids: if published { nodes(volume) } else { Vec::new() },
                volume_condition: impaired.as_ref().map(|set| condition(volume, set.contains(&volume.volume_id))),
            }),
        });
        let mut entries = entries.collect();
        call.falsify_list(&mut entries, |entry: &Entry| {
            entry.status.as_ref().is_some_and(|status| !status.published_node_ids.is_empty())
        });
        Ok(ListVolumesResponse { entries, next_token })
    }

    pub(super) async fn get(&self, request: ControllerGetVolumeRequest) -> Result<ControllerGetVolumeResponse, Status> {
        let id = check::required("volume_id", &request.volume_id)?;
        let volume = self.volume(id).await?;
        let offered = self.calls.settings().capabilities();
        let condition = if offered.has(Feature::ControllerVolumeCondition) {
            let impaired = self.ec2.impaired(&[id]).await;
            let impaired = impaired.map_err(|e| internal(&format!("cannot ask for the status of `{id}`"), &e))?;
            Some(condition(&volume, impaired.contains(id)))
        } else {
            None
        };
        let published = offered.has(Feature::ListVolumesPublishedNodes);
        Ok(ControllerGetVolumeResponse {
            volume: Some(to_csi(&volume, offered.has(Feature::VolumeAccessibilityConstraints))),
            status: Some(controller_get_volume_response::VolumeStatus {
                published_node_ids: if published { nodes(&volume) } else { Vec::new() },
                volume_condition: condition,
            }),
        })
    }

    /// Reads the volume from the cloud.
    pub(super) async fn volume(&self, id: &str) -> Result<Volume, Status> {
        if !is_id(id, "vol") {
            return Err(no_volume(id));
        }
        self.ec2.describe_volume(id).await.map_err(|error| match error.code() {
            "InvalidVolume.NotFound" => no_volume(id),
            _ => internal(&format!("cannot look at volume `{id}`"), &error),
        })
    }

    /// Returns the free GiB of a zone, or of all zones.
    pub(super) async fn free_gib(&self, zone: Option<&str>) -> Result<u64, Status> {
        let zones = self.zones().await?;
        let names = zones.iter().map(|z| &*z.zone_name);
        let counted: Vec<&str> = names.filter(|name| zone.is_none_or(|zone| zone == *name)).collect();
        let volumes = self.ec2.volumes().await.map_err(|e| internal("cannot list the volumes", &e))?;
        let volumes = volumes.iter().filter(|v| tag(&v.tag_set, NAME_TAG).is_some());
        let used: u64 = volumes.filter(|v| counted.contains(&&*v.availability_zone)).map(|v| v.size).sum();
        let each = self.calls.settings().capacity_gib().unwrap_or(QUOTA_GIB);
        Ok(each.saturating_mul(counted.len() as u64).saturating_sub(used))
    }

    pub(super) async fn capacity(&self, request: GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        let newer = self.calls.settings().has(Feature::ControllerSingleNodeMultiWriter);
        for capability in &request.volume_capabilities {
            let capability = check::capability("volume_capabilities", Some(capability))?;
            check::supported("volume_capabilities", &capability, newer)?;
        }
        Shape::read(&request.parameters, &BTreeMap::new())?;
        // A topology without segments, as of a driver without topology, restricts nothing.
        let zone = match request.accessible_topology.as_ref().filter(|topology| !topology.segments.is_empty()) {
            None => None,
            Some(topology) => {
                let zone = topology.segments.get(WELL_KNOWN_ZONE_KEY).or_else(|| topology.segments.get(ZONE_KEY));
                // A topology of another driver has no capacity.
                Some(zone.map(String::as_str).unwrap_or_default())
            }
        };
        let zone = zone.filter(|_| !mutant!(self.calls.ctx(), "capacity-of-all-zones"));
        let free = gib(self.free_gib(zone).await?);
        Ok(GetCapacityResponse {
            available_capacity: free,
            maximum_volume_size: Some(free.min(LARGEST_GIB * GIB)),
            minimum_volume_size: Some(GIB),
        })
    }
}
