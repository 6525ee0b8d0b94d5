//! Creates, registers and deregisters images of the account.

use std::collections::BTreeMap;

use substrate::ids as make_id;

use super::code::Code;
use super::command::{LaunchDevice, LaunchDisk, Reply};
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::ids::SnapshotId;
use super::image::Image;
use super::images::{CreateImage, ImageDisk, ImageRequest, OwnImage, RegisterImage};
use super::instance::InstanceState;
use super::listing::{Named, list, text};
use super::resource_errors::ResourceErrors;
use super::snapshot::SnapshotState;
use super::tags::check_tags;
use super::volume::VolumeType;
use super::{Call, State};
use crate::events::InstancePhase;

/// Shortest and longest name.
const NAME: std::ops::RangeInclusive<usize> = 3..=128;

impl State {
    pub(super) fn image_request(&mut self, call: Call<'_>, request: &ImageRequest) -> Result<Reply, Ec2Error> {
        match request {
            ImageRequest::Create(create) => self.create_image(call, create),
            ImageRequest::Register(register) => self.register_image(call, register),
            ImageRequest::Deregister(id, snapshots) => self.deregister_image(call, id, *snapshots),
        }
    }

    /// Returns the state of an image: pending until all its snapshots are completed.
    pub(super) fn image_state(&self, image: &Image) -> &'static str {
        let snapshots = image.disks.iter().filter_map(|disk| self.snapshots.get(disk.snapshot.as_ref()?));
        let states: Vec<SnapshotState> = snapshots.map(|snapshot| snapshot.state).collect();
        match () {
            () if states.contains(&SnapshotState::Error) => "failed",
            () if states.contains(&SnapshotState::Pending) => "pending",
            () => "available",
        }
    }

    /// Checks that no image uses `snapshot`.
    pub(super) fn check_unused(&self, snapshot: &SnapshotId) -> Result<(), Ec2Error> {
        let uses = |image: &OwnImage| image.disks.iter().any(|disk| disk.snapshot.as_ref() == Some(snapshot));
        match self.account.images.iter().find(|(_, image)| uses(image)) {
            None => Ok(()),
            Some((id, _)) => Err(Ec2Error::Resource {
                code: Code::InvalidSnapshotInUse,
                text: format!("The snapshot {snapshot} is currently in use by {id}"),
            }),
        }
    }

    fn create_image(&mut self, call: Call<'_>, request: &CreateImage) -> Result<Reply, Ec2Error> {
        let instance = self.instance(&request.instance)?.clone();
        if !matches!(instance.state, InstanceState::Running | InstanceState::Stopped | InstanceState::Stopping) {
            let text = format!("Instance '{}' is not in a state from which an image can be made.", instance.id);
            return Err(Ec2Error::Resource { code: Code::IncorrectState, text });
        }
        self.check_name(&request.name)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        check_tags(&BTreeMap::new(), &request.snapshot_tags)?;
        let mut changes: BTreeMap<DeviceSlot, &LaunchDevice> = BTreeMap::new();
        for change in &request.devices {
            let slot = DeviceSlot::parse(&change.device).ok_or_else(|| Ec2Error::BadDevice(change.device.clone()))?;
            changes.insert(slot, change);
        }
        let mut kept = Vec::new();
        for (slot, id) in &instance.slots {
            let change = changes.remove(slot);
            let root = *slot == DeviceSlot::root();
            if change.is_some_and(|change| change.no_device) && !root {
                continue;
            }
            let Some(volume) = self.volumes.get(id).cloned() else { continue };
            let Some(attachment) = volume.attachments.get(&instance.id) else { continue };
            let changed = change.and_then(|change| change.disk.as_ref());
            let size_gib = changed.and_then(|disk| disk.size_gib).unwrap_or(volume.size_gib);
            let volume_type = changed.and_then(|disk| disk.volume_type.as_deref());
            let volume_type = volume_type.map_or(Ok(volume.volume_type), VolumeType::parse)?;
            volume_type.check_size(size_gib)?;
            if size_gib < volume.size_gib {
                return Err(Ec2Error::Resource {
                    code: Code::InvalidBlockDeviceMapping,
                    text: format!(
                        "Volume of size {size_gib}GB is smaller than volume '{id}', expect size >= {}GB",
                        volume.size_gib
                    ),
                });
            }
            self.check_snapshot(call, &volume)?;
            let disk = ImageDisk {
                device: if root { instance.root_device.clone() } else { attachment.device.clone() },
                snapshot: None,
                size_gib,
                volume_type: volume_type.as_str().to_owned(),
                iops: volume.iops.filter(|_| volume_type.has_iops()),
                throughput: volume.throughput.filter(|_| volume_type == VolumeType::Gp3),
                encrypted: volume.encrypted,
                delete_on_termination: changed
                    .and_then(|disk| disk.delete_on_termination)
                    .unwrap_or(attachment.delete_on_termination),
            };
            kept.push((volume, disk));
        }
        if !kept.iter().any(|(_, disk)| disk.device == instance.root_device) {
            return Err(no_root(&instance.root_device));
        }
        let more = changes.into_values().filter(|change| !change.no_device);
        let more = more.map(|change| self.new_disk(change)).collect::<Result<Vec<_>, _>>()?;
        self.check_snapshot_quota(kept.len())?;
        call.check_dry_run()?;
        let id = self.next_image_id();
        if !request.no_reboot && instance.state == InstanceState::Running {
            self.guest_ended(call.now, &instance.id);
            self.note_instance(&instance.id, InstancePhase::Rebooted);
        }
        let description = format!("Created by CreateImage({}) for {id}", instance.id);
        let mut disks = Vec::new();
        let mut snapshots = Vec::new();
        for (volume, disk) in kept {
            let snapshot = self.make_snapshot(call, &volume, &description, request.snapshot_tags.clone());
            disks.push(ImageDisk { snapshot: Some(snapshot.id.clone()), ..disk });
            snapshots.push(snapshot);
        }
        disks.extend(more);
        let image = OwnImage {
            name: request.name.clone(),
            description: request.description.clone(),
            root_device: instance.root_device.clone(),
            architecture: super::instance_types::architecture(&instance.instance_type).to_owned(),
            windows: instance.windows,
            created: call.now.wall,
            source_instance: Some(instance.id.clone()),
            disks,
        };
        self.add_image(&id, image, &request.tags);
        Ok(Reply::ImageMade { id, snapshots })
    }

    fn register_image(&mut self, call: Call<'_>, request: &RegisterImage) -> Result<Reply, Ec2Error> {
        self.check_name(&request.name)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        let mut slots = std::collections::BTreeSet::new();
        let mut disks = Vec::new();
        for device in request.devices.iter().filter(|device| !device.no_device) {
            let slot = DeviceSlot::parse(&device.device).ok_or_else(|| Ec2Error::BadDevice(device.device.clone()))?;
            if !slots.insert(slot) {
                let text = format!("The device '{}' is used in more than one block-device mapping", device.device);
                return Err(Ec2Error::Resource { code: Code::InvalidBlockDeviceMapping, text });
            }
            disks.push(self.new_disk(device)?);
        }
        if !disks.iter().any(|disk| disk.device == request.root_device && disk.snapshot.is_some()) {
            return Err(no_root(&request.root_device));
        }
        call.check_dry_run()?;
        let id = self.next_image_id();
        let image = OwnImage {
            name: request.name.clone(),
            description: request.description.clone(),
            root_device: request.root_device.clone(),
            architecture: request.architecture.clone(),
            windows: false,
            created: call.now.wall,
            source_instance: None,
            disks,
        };
        self.add_image(&id, image, &request.tags);
        Ok(Reply::ImageMade { id, snapshots: Vec::new() })
    }

    fn deregister_image(&mut self, call: Call<'_>, id: &str, with_snapshots: bool) -> Result<Reply, Ec2Error> {
        if let Some(resource_errors) = ResourceErrors::of("ami") {
            resource_errors.check(id)?;
        }
        if self.account.gone_images.contains(id) {
            let text = format!("The image ID '{id}' is no longer available");
            return Err(Ec2Error::Resource { code: Code::InvalidAMIIDUnavailable, text });
        }
        let image = self.image(id)?;
        if image.owner.0 != self.settings.account_id {
            return Err(Ec2Error::Resource {
                code: Code::AuthFailure,
                text: format!("Not authorized for image:{id}; it is of the account {}", image.owner.0),
            });
        }
        call.check_dry_run()?;
        self.account.images.remove(id);
        self.account.tags.remove(id);
        self.account.gone_images.insert(id.to_owned());
        let mut results: Vec<Vec<Named>> = Vec::new();
        let snapshots = image.disks.iter().filter_map(|disk| disk.snapshot.as_ref()).filter(|_| with_snapshots);
        for snapshot in snapshots {
            let word = match self.delete_snapshot(Call { dry_run: false, ..call }, snapshot) {
                Ok(_) => "success",
                Err(Ec2Error::SnapshotNotFound(_)) => "missing-permissions",
                Err(_) => "skipped",
            };
            results.push(vec![text("snapshotId", snapshot), text("returnCode", word)]);
        }
        let mut fields = vec![text("return", true)];
        if with_snapshots {
            fields.push(list("deleteSnapshotResultSet", results));
        }
        Ok(Reply::Fields(fields))
    }

    /// Builds a disk that the request describes completely.
    fn new_disk(&self, device: &LaunchDevice) -> Result<ImageDisk, Ec2Error> {
        let LaunchDevice { device, disk, .. } = device;
        let Some(LaunchDisk { size_gib, volume_type, iops, throughput, snapshot_id, .. }) = disk else {
            return Err(Ec2Error::MissingParameter("ebs".to_owned()));
        };
        let disk = disk.as_ref();
        let snapshot = snapshot_id.as_ref().map(|id| self.snapshot(id)).transpose()?;
        let size = size_gib.or(snapshot.map(|snapshot| snapshot.size_gib));
        let size_gib = size.ok_or_else(|| Ec2Error::MissingParameter("size or snapshotId".to_owned()))?;
        if let Some(snapshot) = snapshot.filter(|snapshot| size_gib < snapshot.size_gib) {
            return Err(Ec2Error::Resource {
                code: Code::InvalidBlockDeviceMapping,
                text: format!(
                    "Volume of size {size_gib}GB is smaller than snapshot '{}', expect size >= {}GB",
                    snapshot.id, snapshot.size_gib
                ),
            });
        }
        if snapshot.is_some() && disk.is_some_and(|disk| disk.encrypted.is_some()) {
            let text =
                format!("the encrypted flag cannot be specified since device {device} has a snapshot specified.");
            return Err(Ec2Error::Resource { code: Code::InvalidBlockDeviceMapping, text });
        }
        // Images default to magnetic disks; current launches make them gp2.
        let volume_type = volume_type.as_deref().map_or(Ok(VolumeType::Gp2), VolumeType::parse)?;
        volume_type.check_size(size_gib)?;
        volume_type.resolve_iops(size_gib, *iops)?;
        volume_type.resolve_throughput(*throughput)?;
        Ok(ImageDisk {
            device: device.clone(),
            snapshot: snapshot.map(|snapshot| snapshot.id.clone()),
            size_gib,
            volume_type: volume_type.as_str().to_owned(),
            iops: *iops,
            throughput: *throughput,
            encrypted: snapshot.map_or_else(|| disk.and_then(|disk| disk.encrypted).unwrap_or(false), |s| s.encrypted),
            delete_on_termination: disk.and_then(|disk| disk.delete_on_termination).unwrap_or(true),
        })
    }

    fn check_name(&self, name: &str) -> Result<(), Ec2Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "()[] ./-'@_".contains(c);
        if !NAME.contains(&name.chars().count()) || !name.chars().all(allowed) {
            return Err(Ec2Error::Resource {
                code: Code::InvalidAMINameMalformed,
                text:
                    "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', \
                       '.', '-', '/' and '_'"
                        .to_owned(),
            });
        }
        match self.account.images.iter().find(|(_, image)| image.name == name) {
            None => Ok(()),
            Some((id, _)) => Err(Ec2Error::Resource {
                code: Code::InvalidAMINameDuplicate,
                text: format!("AMI name {name} is already in use by AMI {id}"),
            }),
        }
    }

    fn next_image_id(&mut self) -> String {
        self.account.made_images += 1;
        make_id::ec2(&mut self.seed.child("own image").child(&self.account.made_images.to_string()).rng(), "ami")
    }

    fn add_image(&mut self, id: &str, image: OwnImage, tags: &BTreeMap<String, String>) {
        self.account.images.insert(id.to_owned(), image);
        if !tags.is_empty() {
            self.account.tags.insert(id.to_owned(), tags.clone());
        }
    }
}

/// Returns the error for an unknown image.
pub(super) fn no_image(id: &str) -> Ec2Error {
    Ec2Error::Resource { code: Code::InvalidAMIIDNotFound, text: format!("The image id '[{id}]' does not exist") }
}

fn no_root(device: &str) -> Ec2Error {
    Ec2Error::Resource {
        code: Code::InvalidBlockDeviceMapping,
        text: format!("The block device mappings have no snapshot for the root device {device}"),
    }
}
