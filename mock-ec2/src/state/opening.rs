//! Volumes that exist from the start: those of an imported cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::State;
use super::device::DeviceSlot;
use super::ids::{InstanceId, VolumeId};
use super::tags::check_tags;
use super::volume::{Attachment, AttachmentState, Volume, VolumeState, VolumeType};

/// Volume that exists from the start, filled with zeros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VolumeSpec {
    /// Id, `vol-` and 8 to 17 hex digits.
    pub id: String,
    /// Size in GiB.
    pub size: u64,
    /// Availability zone.
    pub zone: String,
    /// Type, such as `gp3`.
    #[serde(rename = "type")]
    pub volume_type: String,
    /// Provisioned IOPS; the default of its type if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Throughput in MiB/s; the default of its type if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<u64>,
    /// True if it is encrypted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// Key that it is encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    /// True if Multi-Attach is enabled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_attach: bool,
    /// Time of its creation; the start of the cloud if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Attachments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentSpec>,
}

/// Attachment that exists from the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttachmentSpec {
    /// Id of the instance.
    pub instance: String,
    /// Device name, such as `/dev/xvdaa`.
    pub device: String,
    /// Time of the attachment; the start of the cloud if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Timestamp>,
    /// True if the volume is deleted with the instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete_on_termination: bool,
}

/// Invalid field, and the reason.
type Wrong = (&'static str, String);

/// Type, IOPS and throughput.
type Speed = (VolumeType, Option<u64>, Option<u64>);

impl VolumeSpec {
    /// Checks the volume by itself: id, type, size, speed, tags, and device names.
    ///
    /// # Errors
    /// The invalid field, and the reason.
    pub fn check(&self) -> Result<(), Wrong> {
        self.id.parse::<VolumeId>().map_err(|e| ("id", format!("`{}` {e}", self.id)))?;
        self.speed()?;
        for AttachmentSpec { instance, device, .. } in &self.attachments {
            instance.parse::<InstanceId>().map_err(|e| ("attachments", format!("instance: `{instance}` {e}")))?;
            if DeviceSlot::parse(device).is_none() {
                return Err(("attachments", format!("`{device}` is not a device name")));
            }
        }
        Ok(())
    }

    /// Returns type, IOPS and throughput after the checks that depend on the type.
    fn speed(&self) -> Result<Speed, Wrong> {
        let volume_type = VolumeType::parse(&self.volume_type).map_err(|e| ("type", e.to_string()))?;
        volume_type.check_size(self.size).map_err(|e| ("size", e.to_string()))?;
        // The IOPS of gp2 follow from the size; DescribeVolumes shows them.
        let asked = self.iops.filter(|_| volume_type.has_iops());
        let iops = volume_type.resolve_iops(self.size, asked).map_err(|e| ("iops", e.to_string()))?;
        let throughput = volume_type.resolve_throughput(self.throughput).map_err(|e| ("throughput", e.to_string()))?;
        if self.multi_attach && !volume_type.multi_attach() {
            return Err(("multiAttach", format!("{} volumes have no Multi-Attach", volume_type.as_str())));
        }
        if self.attachments.len() > 1 && !self.multi_attach {
            return Err(("attachments", "several instances need multiAttach".to_owned()));
        }
        check_tags(&BTreeMap::new(), &self.tags).map_err(|e| ("tags", e.to_string()))?;
        Ok((volume_type, iops, throughput))
    }
}

impl State {
    /// Adds volumes and their attachments.
    ///
    /// # Errors
    /// The invalid field, and the reason.
    pub(crate) fn open_with(&mut self, specs: &[VolumeSpec]) -> Result<(), (String, String)> {
        let mut opened = Vec::new();
        for (position, spec) in specs.iter().enumerate() {
            let bad = |field: &str, reason: String| (format!("volumes[{position}].{field}"), reason);
            let id: VolumeId = spec.id.parse().map_err(|e| bad("id", format!("`{}` {e}", spec.id)))?;
            if self.volumes.contains_key(&id) {
                return Err(bad("id", format!("{id} is used twice")));
            }
            let volume = self.opening_volume(id.clone(), spec).map_err(|(field, reason)| bad(field, reason))?;
            for attachment in volume.attachments.keys() {
                let instance = self.instances.get(attachment);
                let zone = instance.map(|instance| instance.zone.clone());
                let zone = zone.ok_or_else(|| bad("attachments", format!("instance {attachment} is missing")))?;
                if zone != spec.zone {
                    let reason = format!("{attachment} is in {zone}, and the volume is in {}", spec.zone);
                    return Err(bad("attachments", reason));
                }
            }
            self.volumes.insert(Arc::new(volume));
            opened.push(id);
        }
        self.fill_slots(|volume| opened.contains(&volume.id)).map_err(|reason| ("volumes".to_owned(), reason))?;
        for id in &opened {
            self.note_volume(id);
            let instances = self.volumes.get(id).map(|volume| volume.attachments.keys().cloned().collect::<Vec<_>>());
            instances.iter().flatten().for_each(|instance| self.note_attachment(id, instance));
        }
        Ok(())
    }

    fn opening_volume(&self, id: VolumeId, spec: &VolumeSpec) -> Result<Volume, Wrong> {
        if !self.settings.zones.iter().any(|zone| zone.name == spec.zone) {
            let known: Vec<&str> = self.settings.zones.iter().map(|zone| zone.name.as_str()).collect();
            return Err(("zone", format!("`{}` is not one of {}", spec.zone, known.join(", "))));
        }
        let (volume_type, iops, throughput) = spec.speed()?;
        let mut volume = Volume {
            size_gib: spec.size,
            zone: spec.zone.clone(),
            volume_type,
            iops,
            throughput,
            encrypted: spec.encrypted,
            kms_key_id: spec.kms_key_id.clone(),
            multi_attach_enabled: spec.multi_attach,
            create_time: spec.created.unwrap_or(Timestamp::UNIX_EPOCH),
            state: if spec.attachments.is_empty() { VolumeState::Available } else { VolumeState::InUse },
            tags: spec.tags.clone(),
            ..Volume::blank(id)
        };
        for attachment in &spec.attachments {
            let AttachmentSpec { instance, device, attached, delete_on_termination } = attachment;
            let id = instance.parse().map_err(|e| ("attachments", format!("instance: `{instance}` {e}")))?;
            let at = attached.unwrap_or(Timestamp::UNIX_EPOCH);
            let mut made = Attachment::new(device, at, AttachmentState::Attached);
            made.delete_on_termination = *delete_on_termination;
            if volume.attachments.insert(id, made).is_some() {
                return Err(("attachments", format!("{instance} is named twice")));
            }
        }
        Ok(volume)
    }
}

#[cfg(test)]
mod tests {
    use substrate::Seed;

    use crate::{AttachmentSpec, Config, Ec2, InstanceSpec, VolumeSpec};

    fn volume(id: &str) -> VolumeSpec {
        serde_json::from_value(serde_json::json!({ "id": id, "size": 4, "zone": "us-east-1a", "type": "gp3" }))
            .expect("a volume")
    }

    fn open(volumes: Vec<VolumeSpec>) -> Result<Ec2, String> {
        let mut instance = InstanceSpec::new("node-a", "us-east-1a");
        instance.id = Some("i-0123456789abcdef0".to_owned());
        let config = Config { instances: vec![instance], volumes, ..Config::default() };
        Ec2::new(&Seed::root(1), config).map_err(|e| e.to_string())
    }

    fn attached(device: &str) -> AttachmentSpec {
        let instance = "i-0123456789abcdef0".to_owned();
        AttachmentSpec { instance, device: device.to_owned(), attached: None, delete_on_termination: false }
    }

    #[test]
    fn a_volume_is_there_from_the_start_with_its_device() {
        let mut held = volume("vol-0123456789abcdef0");
        held.attachments.push(attached("/dev/xvdba"));
        let state = open(vec![held, volume("vol-0aaaaaaaaaaaaaaaa")]).expect("a cloud").dump();
        let volumes = state["volumes"].as_array().expect("a list");
        let of = |id: &str| volumes.iter().find(|volume| volume["id"] == id).expect("the volume");
        assert_eq!(of("vol-0123456789abcdef0")["state"], "in-use");
        assert_eq!(of("vol-0aaaaaaaaaaaaaaaa")["state"], "available");
        assert_eq!(of("vol-0aaaaaaaaaaaaaaaa")["iops"], 3000);
    }

    type Change = fn(&mut VolumeSpec);

    #[test]
    fn each_field_that_makes_no_sense_is_named() {
        let id = "vol-0123456789abcdef0";
        let with = |change: fn(&mut VolumeSpec)| {
            let mut spec = volume(id);
            change(&mut spec);
            open(vec![spec]).err().unwrap_or_default()
        };
        let cases: [(Change, &str); 9] = [
            (|v| v.id = "vol-x".into(), "volumes[0].id"),
            (|v| v.size = 0, "volumes[0].size"),
            (|v| v.zone = "mars".into(), "volumes[0].zone"),
            (|v| v.volume_type = "floppy".into(), "volumes[0].type"),
            (|v| v.iops = Some(1), "volumes[0].iops"),
            (|v| v.throughput = Some(1), "volumes[0].throughput"),
            (|v| v.multi_attach = true, "volumes[0].multiAttach"),
            (|v| v.attachments = vec![attached("nonsense")], "is not a device name"),
            (
                |v| v.attachments = vec![AttachmentSpec { instance: "i-00000000".into(), ..attached("/dev/sdf") }],
                "missing",
            ),
        ];
        for (change, expected) in cases {
            let error = with(change);
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(open(vec![volume(id), volume(id)]).is_err_and(|e| e.contains("used twice")));
        let both = ["vol-0aaaaaaaaaaaaaaaa", "vol-0bbbbbbbbbbbbbbbb"].map(|id| {
            let mut spec = volume(id);
            spec.attachments.push(attached("/dev/sdf"));
            spec
        });
        assert!(open(both.to_vec()).is_err_and(|e| e.contains("used twice")));
    }
}
