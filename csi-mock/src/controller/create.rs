//! Parameters of a CreateVolume request: size, zone, source and shape. Pure.

use std::collections::BTreeMap;

use csi_proto::csi::volume_content_source::Type as SourceType;
use csi_proto::csi::{CapacityRange, CreateVolumeRequest, TopologyRequirement};
use sha2::{Digest, Sha256};
use tonic::Status;

use super::ec2::{Form, pair};
use super::iops::capped;
use super::parameters::Shape;
use super::xml::Volume;
use crate::capabilities::{Capabilities, Feature};
use crate::check::{self, invalid};
use crate::format;
use crate::identity::{WELL_KNOWN_ZONE_KEY, ZONE_ID_KEY, ZONE_KEY};

/// Bytes of a GiB.
pub(crate) const GIB: i64 = 1 << 30;
/// Largest volume of any type, in GiB (EBS user guide, "Amazon EBS volume types").
pub(crate) const LARGEST_GIB: i64 = 65_536;
/// Default size of the EBS driver, in GiB.
const DEFAULT_SIZE: u64 = 100;
/// Default volume type of the EBS driver.
const DEFAULT_TYPE: &str = "gp3";
/// Tag with the volume's name; the driver finds volumes by it.
pub(crate) const NAME_TAG: &str = "CSIVolumeName";

/// Source of a new volume's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Snapshot(String),
    Volume(String),
}

/// Volume to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub name: String,
    /// Smallest and largest size in bytes; 0 if open.
    range: (i64, i64),
    /// Size in GiB.
    pub size: u64,
    /// Allowed zones, best first; empty for all zones of the cloud.
    pub zones: Vec<String>,
    /// Ids of further allowed zones, best first.
    pub zone_ids: Vec<String>,
    pub source: Option<Source>,
    /// True for several instances at once (EBS driver: io2, raw block).
    pub multi_attach: bool,
    pub shape: Shape,
    pub tags: BTreeMap<String, String>,
}

impl Order {
    /// Parses a request to a driver with the capabilities `offered`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the field named; OUT_OF_RANGE if no size in whole GiB fits the capacity range.
    pub fn read(
        request: &CreateVolumeRequest,
        extra: &BTreeMap<String, String>,
        offered: &Capabilities,
    ) -> Result<Self, Status> {
        let name = check::name("name", &request.name)?;
        if request.volume_capabilities.is_empty() {
            return Err(invalid("volume_capabilities", "at least one is required"));
        }
        let mut shape = Shape::read(&request.parameters, &request.mutable_parameters)?;
        let mut multi_attach = false;
        for capability in &request.volume_capabilities {
            let capability = check::capability("volume_capabilities", Some(capability))?;
            let newer = offered.has(Feature::ControllerSingleNodeMultiWriter);
            check::supported("volume_capabilities", &capability, newer)?;
            shape.format = format::checked(shape.format, (!capability.block).then_some(&*capability.fs_type))?;
            multi_attach |= capability.many_nodes();
        }
        if !request.mutable_parameters.is_empty() && !offered.has(Feature::ModifyVolume) {
            return Err(invalid("mutable_parameters", "this driver has no MODIFY_VOLUME capability"));
        }
        if request.accessibility_requirements.is_some() && !offered.has(Feature::VolumeAccessibilityConstraints) {
            let why = "this driver has no VOLUME_ACCESSIBILITY_CONSTRAINTS capability";
            return Err(invalid("accessibility_requirements", why));
        }
        let range = request.capacity_range.as_ref();
        if multi_attach && shape.volume_type.as_deref() != Some("io2") {
            let why = "MULTI_NODE_MULTI_WRITER needs the parameter type: io2";
            return Err(invalid("volume_capabilities", why));
        }
        let mut tags = extra.clone();
        tags.extend(shape.tags.clone());
        tags.insert(NAME_TAG.to_owned(), name.to_owned());
        tags.insert("ebs.csi.aws.com/cluster".to_owned(), "true".to_owned());
        if shape.iops.is_some() && shape.iops_per_gib.is_some() {
            return Err(Status::internal(format!(
                "Could not create volume {name:?}: invalid StorageClass parameters; specify either IOPS or IOPSPerGb, \
                 not both"
            )));
        }
        let source = source(request, offered)?;
        let (zones, zone_ids) = zones(request.accessibility_requirements.as_ref())?;
        if matches!(source, Some(Source::Volume(_))) && shape.encrypted == Some(false) {
            return Err(Status::invalid_argument("Cannot make an unencrypted clone"));
        }
        Ok(Self {
            name: name.to_owned(),
            range: range.map_or((0, 0), |r| (r.required_bytes, r.limit_bytes)),
            size: size(range)?,
            zones,
            zone_ids,
            source,
            multi_attach,
            shape,
            tags,
        })
    }

    /// Enlarges the volume for its source.
    ///
    /// # Errors
    /// OUT_OF_RANGE if the capacity range does not allow it.
    pub fn hold(&mut self, source_gib: u64) -> Result<(), Status> {
        if self.range == (0, 0) {
            self.size = source_gib;
        }
        let bytes = i64::try_from(source_gib).unwrap_or(i64::MAX).saturating_mul(GIB);
        if self.range.1 != 0 && bytes > self.range.1 {
            return Err(Status::out_of_range(format!(
                "capacity_range: the source has {source_gib} GiB, which is more than limit_bytes"
            )));
        }
        self.size = self.size.max(source_gib);
        Ok(())
    }

    /// Returns the difference between an existing volume of this name and the order; None if they match.
    pub fn differs(&self, there: &Volume) -> Option<String> {
        let bytes = i64::try_from(there.size).unwrap_or(i64::MAX).saturating_mul(GIB);
        if there.size < self.size || (self.range.1 != 0 && bytes > self.range.1) {
            return Some(format!("of {} GiB", there.size));
        }
        if !self.zones.is_empty() && !self.zones.contains(&there.availability_zone) {
            return Some(format!("in zone {}", there.availability_zone));
        }
        let (snapshot, volume) = match &self.source {
            None => ("", ""),
            Some(Source::Snapshot(id)) => (&**id, ""),
            Some(Source::Volume(id)) => ("", &**id),
        };
        // A copy of a volume that came from a snapshot names both; then the volume decides.
        if there.source_volume_id != volume || (volume.is_empty() && there.snapshot_id != snapshot) {
            return Some("of another source".to_owned());
        }
        None
    }

    /// Returns the IOPS to ask the cloud for.
    fn iops(&self) -> Option<u64> {
        let shape = &self.shape;
        let wanted = shape.iops.or(shape.iops_per_gib.map(|each| each.saturating_mul(self.size)))?;
        let volume_type = shape.volume_type.as_deref().unwrap_or(DEFAULT_TYPE);
        Some(capped(volume_type, self.size, wanted, shape.raises_iops))
    }

    /// Returns the EC2 request, CreateVolume or CopyVolumes for a clone, with the idempotency token of the
    /// `generation`-th attempt at this name.
    pub fn form(&self, zone: &str, generation: u32) -> (&'static str, Form) {
        let mut form = vec![pair("ClientToken", client_token(&self.name, generation)), pair("Size", self.size)];
        let action = match &self.source {
            Some(Source::Volume(source)) => {
                form.push(pair("SourceVolumeId", source));
                "CopyVolumes"
            }
            source => {
                form.push(pair("AvailabilityZone", zone));
                let kms_key = self.shape.kms_key.as_ref();
                form.push(pair("Encrypted", kms_key.is_some() || self.shape.encrypted == Some(true)));
                form.extend(kms_key.map(|key| pair("KmsKeyId", key)));
                form.extend(self.shape.initialization_rate.map(|n| pair("VolumeInitializationRate", n)));
                if let Some(Source::Snapshot(id)) = source {
                    form.push(pair("SnapshotId", id));
                }
                "CreateVolume"
            }
        };
        // A clone also gets the driver's default type unless the class sets one: EC2 does not copy the source's.
        form.push(pair("VolumeType", self.shape.volume_type.as_deref().unwrap_or(DEFAULT_TYPE)));
        form.extend(self.multi_attach.then(|| pair("MultiAttachEnabled", true)));
        form.extend(self.iops().map(|n| pair("Iops", n)));
        form.extend(self.shape.throughput.map(|n| pair("Throughput", n)));
        form.push(pair("TagSpecification.1.ResourceType", "volume"));
        for (n, (key, value)) in (1..).zip(&self.tags) {
            form.push(pair(&format!("TagSpecification.1.Tag.{n}.Key"), key));
            form.push(pair(&format!("TagSpecification.1.Tag.{n}.Value"), value));
        }
        (action, form)
    }
}

/// Returns the source of the volume's content.
fn source(request: &CreateVolumeRequest, offered: &Capabilities) -> Result<Option<Source>, Status> {
    let Some(source) = &request.volume_content_source else { return Ok(None) };
    match &source.r#type {
        None => Err(invalid("volume_content_source", "type is required: snapshot or volume")),
        Some(SourceType::Snapshot(_)) if !offered.has(Feature::CreateDeleteSnapshot) => {
            Err(invalid("volume_content_source", "this driver has no CREATE_DELETE_SNAPSHOT capability"))
        }
        Some(SourceType::Snapshot(source)) => {
            let id = check::required("volume_content_source.snapshot.snapshot_id", &source.snapshot_id)?;
            Ok(Some(Source::Snapshot(id.to_owned())))
        }
        Some(SourceType::Volume(_)) if !offered.has(Feature::CloneVolume) => {
            Err(invalid("volume_content_source", "this driver has no CLONE_VOLUME capability"))
        }
        Some(SourceType::Volume(source)) => {
            let id = check::required("volume_content_source.volume.volume_id", &source.volume_id)?;
            Ok(Some(Source::Volume(id.to_owned())))
        }
    }
}

/// Returns hex(sha256(name)), or of `name-2`, `name-3` … after the previous token belongs to a deleted volume (EBS
/// driver, `cloud.go`).
pub(crate) fn client_token(name: &str, generation: u32) -> String {
    let text = if generation < 2 { name.to_owned() } else { format!("{name}-{generation}") };
    hex::encode(Sha256::digest(text))
}

/// Returns the size in GiB, rounded up.
pub(crate) fn size(range: Option<&CapacityRange>) -> Result<u64, Status> {
    let Some(range) = range else { return Ok(DEFAULT_SIZE) };
    let (required, limit) = (range.required_bytes, range.limit_bytes);
    if required < 0 || limit < 0 {
        return Err(invalid("capacity_range", "must not be negative"));
    }
    if required == 0 && limit == 0 {
        return Err(invalid("capacity_range", "required_bytes or limit_bytes must be set"));
    }
    if limit != 0 && required > limit {
        return Err(invalid("capacity_range", "required_bytes is above limit_bytes"));
    }
    // Without a lower bound the default size, limited by the upper bound.
    let wanted = if required == 0 { limit.min(DEFAULT_SIZE as i64 * GIB) } else { required };
    let gib = wanted / GIB + i64::from(required != 0 && wanted % GIB != 0);
    if gib == 0 || (limit != 0 && gib * GIB > limit) {
        return Err(Status::out_of_range(format!(
            "capacity_range: no whole number of GiB lies between {required} and {limit} bytes"
        )));
    }
    if gib > LARGEST_GIB {
        return Err(Status::out_of_range(format!(
            "capacity_range: {gib} GiB is more than a volume can have, {LARGEST_GIB} GiB"
        )));
    }
    Ok(gib.unsigned_abs())
}

/// Returns the names of the allowed zones, and the ids of those without a name. Both have no duplicates, and the
/// preferred ones go before the requisite ones.
fn zones(requirement: Option<&TopologyRequirement>) -> Result<(Vec<String>, Vec<String>), Status> {
    let (mut names, mut ids): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let Some(requirement) = requirement else { return Ok((names, ids)) };
    let all = || requirement.preferred.iter().chain(&requirement.requisite);
    for topology in all() {
        let segments = &topology.segments;
        let (zone, list) = match segments.get(WELL_KNOWN_ZONE_KEY).or_else(|| segments.get(ZONE_KEY)) {
            Some(name) => (Some(name), &mut names),
            None => (segments.get(ZONE_ID_KEY), &mut ids),
        };
        if let Some(zone) = zone.filter(|z| !list.contains(z)) {
            list.push(zone.clone());
        }
    }
    if names.is_empty() && ids.is_empty() && all().next().is_some() {
        // CSI: code 8 if the topology cannot be provisioned.
        return Err(Status::resource_exhausted(format!(
            "accessibility_requirements: no topology has the key {WELL_KNOWN_ZONE_KEY}, {ZONE_KEY} or {ZONE_ID_KEY}"
        )));
    }
    Ok((names, ids))
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::Topology;
    use rstest::rstest;
    use tonic::Code;

    use super::*;

    fn range(required: i64, limit: i64) -> CapacityRange {
        CapacityRange { required_bytes: required, limit_bytes: limit }
    }

    #[rstest]
    #[case(range(1, 0), Ok(1))]
    #[case(range(GIB, 0), Ok(1))]
    #[case(range(GIB + 1, 0), Ok(2))]
    #[case(range(GIB + 1, GIB + 2), Err(Code::OutOfRange))]
    #[case(range(0, 10 * GIB), Ok(10))]
    #[case(range(0, 1000 * GIB), Ok(100))]
    #[case(range(0, 1), Err(Code::OutOfRange))]
    #[case(range(2 * GIB, GIB), Err(Code::InvalidArgument))]
    #[case(range(-1, 0), Err(Code::InvalidArgument))]
    #[case(range(0, 0), Err(Code::InvalidArgument))]
    #[case(range(i64::MAX, 0), Err(Code::OutOfRange))]
    #[case(range(LARGEST_GIB * GIB, 0), Ok(65_536))]
    fn sizes_are_rounded_up_to_whole_gib(#[case] asked: CapacityRange, #[case] expected: Result<u64, Code>) {
        assert_eq!(size(Some(&asked)).map_err(|s| s.code()), expected);
    }

    #[test]
    fn the_preferred_zone_goes_before_the_requisite_one() {
        let in_zone = |key: &str, zone: &str| Topology { segments: [(key.to_owned(), zone.to_owned())].into() };
        let mut requirement = TopologyRequirement {
            requisite: vec![in_zone(ZONE_KEY, "a"), in_zone(ZONE_KEY, "b")],
            preferred: vec![in_zone(WELL_KNOWN_ZONE_KEY, "b")],
        };
        assert_eq!(zones(Some(&requirement)).unwrap().0, ["b", "a"]);
        requirement.preferred.clear();
        assert_eq!(zones(Some(&requirement)).unwrap().0, ["a", "b"]);
        requirement.preferred = vec![in_zone(ZONE_ID_KEY, "use1-az2")];
        let (names, ids) = zones(Some(&requirement)).unwrap();
        assert_eq!((names.join(","), ids.join(",")), ("a,b".to_owned(), "use1-az2".to_owned()));
        requirement.preferred.clear();
        requirement.requisite = vec![in_zone("rack", "7")];
        assert_eq!(zones(Some(&requirement)).unwrap_err().code(), Code::ResourceExhausted);
    }

    #[test]
    fn the_client_token_is_the_hash_of_the_name_and_new_for_each_generation() {
        assert_eq!(client_token("pvc-1", 1).len(), 64);
        assert_eq!(client_token("pvc-1", 1), hex::encode(Sha256::digest("pvc-1")));
        assert_eq!(client_token("pvc-1", 2), hex::encode(Sha256::digest("pvc-1-2")));
    }
}
