//! What a CreateVolume request asks for: size, zone and parameters. Pure.

use std::collections::BTreeMap;

use csi_proto::csi::{CapacityRange, CreateVolumeRequest, TopologyRequirement};
use sha2::{Digest, Sha256};
use tonic::Status;

use super::ec2::{Form, pair};
use crate::check::{self, invalid};
use crate::identity::{WELL_KNOWN_ZONE_KEY, ZONE_KEY};

/// Bytes of a GiB.
pub(crate) const GIB: i64 = 1 << 30;
/// The size without a capacity range: the EBS driver's default, in GiB.
const DEFAULT_SIZE: u64 = 100;
/// The volume type without a parameter: the EBS driver's default.
const DEFAULT_TYPE: &str = "gp3";
/// The tag that names the volume; the driver finds volumes by it.
pub(crate) const NAME_TAG: &str = "CSIVolumeName";
/// Parameters with this prefix are the provisioner's own.
const PROVISIONER_PREFIX: &str = "csi.storage.k8s.io/";

/// What is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub name: String,
    /// GiB.
    pub size: u64,
    /// The zone; the cloud's first one when the request leaves it open.
    pub zone: Option<String>,
    pub volume_type: String,
    pub iops: Option<u64>,
    pub throughput: Option<u64>,
    pub encrypted: bool,
    pub tags: BTreeMap<String, String>,
}

impl Order {
    /// Reads a request.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the field named; OUT_OF_RANGE when no size in whole GiB fits the capacity range.
    pub fn read(request: &CreateVolumeRequest, extra: &BTreeMap<String, String>) -> Result<Self, Status> {
        let name = check::required("name", &request.name)?;
        if request.volume_capabilities.is_empty() {
            return Err(invalid("volume_capabilities", "at least one is required"));
        }
        for capability in &request.volume_capabilities {
            let capability = check::capability("volume_capabilities", Some(capability))?;
            check::single_node("volume_capabilities", &capability)?;
        }
        if request.volume_content_source.is_some() {
            return Err(invalid("volume_content_source", "this driver has neither snapshots nor clones"));
        }
        if !request.mutable_parameters.is_empty() {
            return Err(invalid("mutable_parameters", "this driver has no MODIFY_VOLUME capability"));
        }
        let mut order = Self {
            name: name.to_owned(),
            size: size(request.capacity_range.as_ref())?,
            zone: zone(request.accessibility_requirements.as_ref())?,
            volume_type: DEFAULT_TYPE.to_owned(),
            iops: None,
            throughput: None,
            encrypted: false,
            tags: extra.clone(),
        };
        order.tags.insert(NAME_TAG.to_owned(), name.to_owned());
        order.tags.insert("ebs.csi.aws.com/cluster".to_owned(), "true".to_owned());
        for (key, value) in &request.parameters {
            order.parameter(key, value)?;
        }
        Ok(order)
    }

    /// Parameter names do not depend on letter case (EBS driver).
    fn parameter(&mut self, key: &str, value: &str) -> Result<(), Status> {
        let number = || {
            let read = value.parse::<u64>().ok().filter(|n| *n > 0);
            read.ok_or_else(|| {
                invalid(&format!("parameters.{key}"), format_args!("`{value}` is not a whole number above 0"))
            })
        };
        match &*key.to_ascii_lowercase() {
            "type" => value.clone_into(&mut self.volume_type),
            "iops" => self.iops = Some(number()?),
            "throughput" => self.throughput = Some(number()?),
            "encrypted" => {
                self.encrypted = match value {
                    "true" => true,
                    "false" | "" => false,
                    _ => return Err(invalid("parameters.encrypted", format_args!("`{value}` is not true or false"))),
                }
            }
            // The filesystem comes with the capability; the provisioner puts it there.
            "fstype" => {}
            "csi.storage.k8s.io/pvc/name" => self.tag("kubernetes.io/created-for/pvc/name", value),
            "csi.storage.k8s.io/pvc/namespace" => self.tag("kubernetes.io/created-for/pvc/namespace", value),
            "csi.storage.k8s.io/pv/name" => self.tag("kubernetes.io/created-for/pv/name", value),
            other if other.starts_with(PROVISIONER_PREFIX) => {}
            _ => return Err(invalid("parameters", format_args!("`{key}` is not known to this driver"))),
        }
        Ok(())
    }

    fn tag(&mut self, key: &str, value: &str) {
        self.tags.insert(key.to_owned(), value.to_owned());
    }

    /// The EC2 request, with the idempotency token of the `generation`-th attempt to create a volume of this name.
    pub fn form(&self, zone: &str, generation: u32) -> Form {
        let mut form = vec![
            pair("AvailabilityZone", zone),
            pair("ClientToken", client_token(&self.name, generation)),
            pair("Encrypted", self.encrypted),
            pair("Size", self.size),
            pair("VolumeType", &self.volume_type),
        ];
        form.extend(self.iops.map(|n| pair("Iops", n)));
        form.extend(self.throughput.map(|n| pair("Throughput", n)));
        form.push(pair("TagSpecification.1.ResourceType", "volume"));
        for (n, (key, value)) in (1..).zip(&self.tags) {
            form.push(pair(&format!("TagSpecification.1.Tag.{n}.Key"), key));
            form.push(pair(&format!("TagSpecification.1.Tag.{n}.Value"), value));
        }
        form
    }
}

/// hex(sha256(name)), or of `name-2`, `name-3` … once the token before it belongs to a deleted volume
/// (ec2-api.md §3, §4.1).
pub(crate) fn client_token(name: &str, generation: u32) -> String {
    let text = if generation < 2 { name.to_owned() } else { format!("{name}-{generation}") };
    hex::encode(Sha256::digest(text))
}

/// The size in GiB, rounded up.
fn size(range: Option<&CapacityRange>) -> Result<u64, Status> {
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
    // Without a lower bound the default, as far as the limit lets it.
    let wanted = if required == 0 { limit.min(DEFAULT_SIZE as i64 * GIB) } else { required };
    let gib = wanted / GIB + i64::from(required != 0 && wanted % GIB != 0);
    if gib == 0 || (limit != 0 && gib * GIB > limit) {
        return Err(Status::out_of_range(format!(
            "capacity_range: no whole number of GiB lies between {required} and {limit} bytes"
        )));
    }
    Ok(gib.unsigned_abs())
}

/// The zone of the first topology that has one, preferred before requisite.
fn zone(requirement: Option<&TopologyRequirement>) -> Result<Option<String>, Status> {
    let Some(requirement) = requirement else { return Ok(None) };
    let all = || requirement.preferred.iter().chain(&requirement.requisite);
    let found = all().find_map(|t| t.segments.get(WELL_KNOWN_ZONE_KEY).or_else(|| t.segments.get(ZONE_KEY)));
    if found.is_none() && all().next().is_some() {
        // CSI: code 8 when the topology cannot be provisioned.
        return Err(Status::resource_exhausted(format!(
            "accessibility_requirements: no topology has the key {WELL_KNOWN_ZONE_KEY} or {ZONE_KEY}"
        )));
    }
    Ok(found.cloned())
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
    #[case(range(i64::MAX, 0), Ok(8_589_934_592))]
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
        assert_eq!(zone(Some(&requirement)).unwrap().as_deref(), Some("b"));
        requirement.preferred.clear();
        assert_eq!(zone(Some(&requirement)).unwrap().as_deref(), Some("a"));
        requirement.requisite = vec![in_zone("rack", "7")];
        assert_eq!(zone(Some(&requirement)).unwrap_err().code(), Code::ResourceExhausted);
    }

    #[test]
    fn the_client_token_is_the_hash_of_the_name_and_new_for_each_generation() {
        assert_eq!(client_token("pvc-1", 1).len(), 64);
        assert_eq!(client_token("pvc-1", 1), hex::encode(Sha256::digest("pvc-1")));
        assert_eq!(client_token("pvc-1", 2), hex::encode(Sha256::digest("pvc-1-2")));
    }
}
