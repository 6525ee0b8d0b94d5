//! RunInstances: placement, options and disks of new instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use substrate::Now;

use super::code::Code;
use super::command::{CreateVolume, LaunchDevice, LaunchDisk, Reply, RunInstances};
use super::device::DeviceSlot;
use super::error::{Ec2Error, Missing};
use super::ids::{InstanceId, VolumeId};
use super::image::Image;
use super::instance::Instance;
use super::instance_types::{self, InstanceType};
use super::latency::Operation;
use super::options::{LaunchOptions, check_user_data};
use super::resource_errors::ResourceErrors;
use super::tags::check_tags;
use super::timers::{Progress, Subject};
use super::volume::{Attachment, AttachmentState, Volume, VolumeState, VolumeType};
use super::volumes::NewVolume;
use super::zone::as_value;
use super::{Call, State};

/// Largest number of instances in one request.
const MOST_PER_REQUEST: u64 = 1_000;

/// Validated RunInstances.
struct Plan {
    zone: String,
    image: Image,
    options: LaunchOptions,
    root: Disk,
    data: Vec<Disk>,
}

/// Disk of each instance; its volume has no id and no attachment yet.
#[derive(Clone, Debug)]
struct Disk {
    device: String,
    delete_on_termination: bool,
    card: u32,
    volume: Volume,
}

impl State {
    pub(super) fn run_instances(&mut self, call: Call<'_>, request: &RunInstances) -> Result<Reply, Ec2Error> {
        let plan = self.plan_launch(call, request)?;
        let essence = RunInstances { client_token: None, ..request.clone() };
        if let Some(token) = self.launch_token(request)
            && let Some(ids) = self.instance_tokens.replay(call.now.mono, token, &essence)?
        {
            call.check_dry_run()?;
            return Ok(self.reservation(&ids));
        }
        self.check_room_for_volumes(request.max_count * (1 + plan.data.len() as u64))?;
        call.check_dry_run()?;

        let reservation = self.next_reservation_id();
        let mut ids = Vec::new();
        for launch_index in 0..request.max_count {
            let id = self.next_instance_id();
            let now = call.now.wall;
            let mut instance =
                self.new_instance(id.clone(), reservation.clone(), &request.instance_type, &plan.zone, now);
            instance.launch_index = launch_index;
            instance.image_id.clone_from(&request.image_id);
            instance.root_device.clone_from(&plan.root.device);
            instance.network_interfaces = request.interfaces.max(1);
            self.place(&mut instance, request.subnet.as_ref());
            instance.tags.clone_from(&request.tags);
            instance.options.clone_from(&plan.options);
            instance.client_token = request.client_token.clone().unwrap_or_default();
            instance.windows = plan.image.windows;
            if !request.interface_tags.is_empty() {
                let own = instance.interface_ids().map(|interface| (interface, request.interface_tags.clone()));
                self.account.tags.extend(own);
            }
            let root = self.root_volume_of(&instance, &plan.root);
            self.add_instance(instance, root);
            for disk in &plan.data {
                self.add_disk(call, &id, disk);
            }
            if let Some(instance) = self.instances.get_mut(&id) {
                Arc::make_mut(instance).boot();
            }
            let progress =
                self.begin(call, Operation::RunInstances, format_args!("run {id}"), Subject::Instance(id.clone()));
            if let Some(instance) = self.instances.get_mut(&id) {
                Arc::make_mut(instance).progress = progress;
            }
            ids.push(id);
        }
        if let Some(token) = &request.client_token {
            self.instance_tokens.remember(call.now.mono, token, essence, ids.clone());
        }
        Ok(self.reservation(&ids))
    }

    /// Returns the token by which a request is recognised.
    fn launch_token<'a>(&self, request: &'a RunInstances) -> Option<&'a String> {
        request.client_token.as_ref().filter(|_| !self.seeded_bugs.launches_again)
    }

    /// Places an instance in a subnet that the account created, with an address there.
    fn place(&self, instance: &mut Instance, subnet: Option<&String>) {
        let Some((id, own)) = subnet.and_then(|id| Some((id, self.account.subnets.get(id)?))) else { return };
        let here = self.instances.values().filter(|i| i.subnet.as_ref() == Some(id)).count() as u64;
        let address = own.cidr.address(4 + here % own.cidr.room().max(1));
        instance.subnet = Some(id.clone());
        instance.private_ip = address.to_string();
        instance.private_dns_name = format!("ip-{}.{}", instance.private_ip.replace('.', "-"), self.private_domain());
    }

    /// Returns the volumes with backing files that RunInstances would make at `now`, so that the files can be created
    /// first.
    ///
    /// # Errors
    /// Those of RunInstances.
    pub fn preview_launch(&mut self, now: Now, request: &RunInstances, dry: bool) -> Result<Vec<NewVolume>, Ec2Error> {
        self.catch_up(now);
        let call = Call { now, dry_run: dry, stick: None };
        let plan = self.plan_launch(call, request)?;
        let essence = RunInstances { client_token: None, ..request.clone() };
        if let Some(token) = self.launch_token(request)
            && self.instance_tokens.replay(now.mono, token, &essence)?.is_some()
        {
            return Ok(Vec::new());
        }
        self.check_room_for_volumes(request.max_count * (1 + plan.data.len() as u64))?;
        call.check_dry_run()?;
        let disks = (0..request.max_count).flat_map(|_| &plan.data);
        let made = disks.zip(0..).map(|(disk, n)| {
            let Volume { size_gib, snapshot, .. } = &disk.volume;
            let source = snapshot.clone().map(super::Source::Snapshot);
            NewVolume { id: self.volume_id(self.made.volumes + n), size_gib: *size_gib, source }
        });
        Ok(made.collect())
    }

    fn plan_launch(&self, call: Call<'_>, request: &RunInstances) -> Result<Plan, Ec2Error> {
        let RunInstances { min_count, max_count, instance_type, .. } = request;
        if *min_count == 0 || max_count < min_count {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Value ({min_count}) for parameter minCount is invalid. It must lie between 1 and maxCount ({max_count})."
            )));
        }
        if *max_count > MOST_PER_REQUEST {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Value ({max_count}) for parameter maxCount is invalid. At most {MOST_PER_REQUEST} are started at once."
            )));
        }
        let Some(kind) = instance_types::find(instance_type) else {
            let text = format!("Invalid value '{instance_type}' for InstanceType.");
            return Err(Ec2Error::InvalidParameterValue(text));
        };
        let image = self.image(&request.image_id)?;
        if self.image_state(&image) != "available" {
            let text = format!("The image ID '{}' is not available", image.id);
            return Err(Ec2Error::Resource { code: Code::InvalidAMIIDUnavailable, text });
        }
        check_architecture(&image, instance_type)?;
        let zone = self.launch_zone(request)?;
        self.check_groups(&request.groups, &request.group_names)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        check_tags(&BTreeMap::new(), &request.volume_tags)?;
        check_tags(&BTreeMap::new(), &request.interface_tags)?;
        let options = self.launch_options(request, &kind)?;
        if request.interfaces > kind.network_interfaces() {
            let text = format!(
                "You have specified {} network interfaces, which exceeds the maximum of {} that an {instance_type} \
                 instance supports.",
                request.interfaces,
                kind.network_interfaces()
            );
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let (root, data) = self.plan_disks(call, request, &zone, &image)?;
        let limit = kind.limit.devices(request.interfaces.max(1));
        if 1 + data.len() > limit as usize {
            return Err(Ec2Error::AttachmentLimit(limit));
        }
        Ok(Plan { zone, image, options, root, data })
    }

    fn launch_zone(&self, request: &RunInstances) -> Result<String, Ec2Error> {
        let zones = &self.settings.zones;
        let of_subnet = match &request.subnet {
            Some(id) => {
                if let Some(resource_errors) = ResourceErrors::of("subnet") {
                    resource_errors.check(id)?;
                }
                let own = self.account.subnets.get(id).map(|subnet| &subnet.zone);
                let default = || zones.iter().find(|z| self.subnet_id(&z.name) == *id).map(|zone| &zone.name);
                Some(own.or_else(default).ok_or_else(|| Ec2Error::SubnetNotFound(id.clone()))?)
            }
            None => None,
        };
        let named = match (&request.zone, &request.zone_id) {
            (None, None) => None,
            (name, id) => Some(self.zone_of(name.as_deref(), id.as_deref()).map_err(as_value)?),
        };
        match (named, of_subnet) {
            (Some(name), Some(other)) if name != *other => {
                let text =
                    format!("The subnet '{}' is not in the zone {name}.", request.subnet.as_deref().unwrap_or(""));
                Err(Ec2Error::InvalidParameterCombination(text))
            }
            (Some(name), _) => Ok(name),
            (None, Some(name)) => Ok(name.clone()),
            (None, None) => match zones.first() {
                Some(first) => Ok(first.name.clone()),
                None => Err(Ec2Error::ZoneNotFound(Missing(Vec::new()))),
            },
        }
    }

    fn launch_options(&self, request: &RunInstances, kind: &InstanceType) -> Result<LaunchOptions, Ec2Error> {
        let mut options = request.options.clone();
        if let Some(data) = &options.user_data {
            check_user_data(data)?;
        }
        if options.cpu_credits.is_some() && !kind.burstable() {
            let text = format!("The CpuCredits parameter is not supported for {} instances.", kind.name);
            return Err(Ec2Error::InvalidParameterCombination(text));
        }
        if let Some(profile) = &options.instance_profile
            && !profile.starts_with("arn:")
        {
            let arn = format!("arn:aws:iam::{}:instance-profile/{profile}", self.settings.account_id);
            options.instance_profile = Some(arn);
        }
        Ok(options)
    }

    /// Plans the root disk and the other disks.
    fn plan_disks(
        &self,
        call: Call<'_>,
        request: &RunInstances,
        zone: &str,
        image: &Image,
    ) -> Result<(Disk, Vec<Disk>), Ec2Error> {
        let (mut root, mut data) = (None, Vec::new());
        let mut slots = std::collections::BTreeSet::new();
        for mapping in &request.devices {
            let LaunchDevice { device, no_device, disk } = mapping;
            let slot = DeviceSlot::parse(device).ok_or_else(|| Ec2Error::BadDevice(device.clone()))?;
            let is_root = *device == image.root_device;
            let taken = !is_root && slot == DeviceSlot::root();
            if !slots.insert(slot) || taken {
                return Err(bad_mapping(format!(
                    "The device '{device}' is used in more than one block-device mapping"
                )));
            }
            if *no_device {
                if is_root || disk.is_some() {
                    let text = format!("The device '{device}' cannot be left out: it has a volume");
                    return Err(bad_mapping(text));
                }
                continue;
            }
            let Some(disk) = disk else { return Err(Ec2Error::MissingParameter("ebs".to_owned())) };
            let made = self.plan_disk(call, request, zone, image, mapping, disk)?;
            if is_root { root = Some(made) } else { data.push(made) }
        }
        // The image's disks whose devices the request does not mention.
        for own in image.disks.iter().filter(|own| own.device != image.root_device) {
            if DeviceSlot::parse(&own.device).is_none_or(|slot| slots.insert(slot)) {
                let mapping = LaunchDevice { device: own.device.clone(), no_device: false, disk: None };
                data.push(self.plan_disk(call, request, zone, image, &mapping, &LaunchDisk::default())?);
            }
        }
        let root = match root {
            Some(root) => root,
            None => {
                let mapping = LaunchDevice { device: image.root_device.clone(), no_device: false, disk: None };
                self.plan_disk(call, request, zone, image, &mapping, &LaunchDisk::default())?
            }
        };
        Ok((root, data))
    }

    fn plan_disk(
        &self,
        call: Call<'_>,
        request: &RunInstances,
        zone: &str,
        image: &Image,
        mapping: &LaunchDevice,
        disk: &LaunchDisk,
    ) -> Result<Disk, Ec2Error> {
        let device = mapping.device.clone();
        let root = device == image.root_device;
        let slot = DeviceSlot::parse(&device);
        let own = image.disks.iter().find(|own| own.device == device || DeviceSlot::parse(&own.device) == slot);
        // The image's values apply if the request has none.
        let least = own.filter(|own| own.snapshot.is_some()).map(|own| own.size_gib);
        let least = least.or(root.then_some(image.size_gib));
        let size_gib = disk.size_gib.or(own.map(|own| own.size_gib)).or(least);
        let snapshot = own.and_then(|own| own.snapshot.clone());
        let foreign = (root && own.is_none()).then(|| self.image_snapshot(&image.id));
        let of_image = snapshot.as_ref().map(ToString::to_string).or(foreign);
        let same_type =
            disk.volume_type.is_none() || disk.volume_type.as_deref() == own.map(|own| own.volume_type.as_str());
        let volume_type = disk.volume_type.clone().or_else(|| own.map(|own| own.volume_type.clone()));
        let volume_type = volume_type.or_else(|| root.then(|| "gp3".to_owned()));
        if let (Some(size), Some(least), Some(of_image)) = (disk.size_gib, least, &of_image)
            && size < least
        {
            return Err(bad_mapping(format!(
                "Volume of size {size}GB is smaller than snapshot '{of_image}', expect size >= {least}GB"
            )));
        }
        if let (Some(asked), Some(of_image)) = (&disk.snapshot_id, &of_image)
            && asked.as_str() != of_image
        {
            let what = if root { "root device" } else { "device" };
            return Err(bad_mapping(format!("snapshotId cannot be modified on {what} {device}")));
        }
        if root && matches!(volume_type.as_deref(), Some("st1" | "sc1")) {
            let text = format!("{} volumes cannot be root volumes.", volume_type.unwrap_or_default());
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let cards = instance_types::find(&request.instance_type).map_or(1, |t| t.ebs_cards);
        let card = disk.ebs_card_index.unwrap_or(0);
        if card >= cards {
            return Err(Ec2Error::InvalidParameterValue(format!(
                "Value ({card}) for parameter EbsCardIndex is invalid. Instance type {} has {cards} EBS card(s).",
                request.instance_type
            )));
        }
        if !root && size_gib.is_none() && disk.snapshot_id.is_none() {
            return Err(Ec2Error::MissingParameter("size or snapshotId".to_owned()));
        }
        let wanted = CreateVolume {
            size_gib,
            volume_type,
            iops: disk.iops.or(own.and_then(|own| own.iops).filter(|_| same_type)),
            throughput: disk.throughput.or(own.and_then(|own| own.throughput).filter(|_| same_type)),
            encrypted: disk.encrypted.or(own.filter(|own| own.snapshot.is_none() && own.encrypted).map(|_| true)),
            kms_key_id: disk.kms_key_id.clone(),
            snapshot_id: snapshot.or_else(|| disk.snapshot_id.clone().filter(|_| !root)),
            initialization_rate: disk.initialization_rate,
            tags: request.volume_tags.clone(),
            ..CreateVolume::default()
        };
        let smaller = disk.snapshot_id.as_ref().and_then(|id| self.snapshot(id).ok()).filter(|_| !root);
        if let (Some(snapshot), Some(size)) = (smaller, disk.size_gib)
            && size < snapshot.size_gib
        {
            return Err(bad_mapping(format!(
                "Volume of size {size}GB is smaller than snapshot '{}', expect size >= {}GB",
                snapshot.id, snapshot.size_gib
            )));
        }
        let volume = self.blueprint(call, &wanted, zone.to_owned())?;
        let goes = disk.delete_on_termination.or(own.map(|own| own.delete_on_termination));
        Ok(Disk { device, delete_on_termination: goes.unwrap_or(true), card, volume })
    }

    /// Returns the root volume of `instance` from `disk`.
    fn root_volume_of(&self, instance: &Instance, disk: &Disk) -> Volume {
        let id = self.root_volume_id(instance.ordinal);
        let attachment = Attachment {
            delete_on_termination: disk.delete_on_termination,
            ebs_card_index: disk.card,
            ..Attachment::new(&disk.device, instance.launch_time, AttachmentState::Attached)
        };
        Volume {
            id,
            state: VolumeState::InUse,
            attachments: BTreeMap::from([(instance.id.clone(), attachment)]),
            snapshot: disk.volume.snapshot.clone().or_else(|| self.image_snapshot(&instance.image_id).parse().ok()),
            root: true,
            ..disk.volume.clone()
        }
    }

    /// Creates a data disk of instance `id`, attached while the instance starts.
    fn add_disk(&mut self, call: Call<'_>, id: &InstanceId, disk: &Disk) {
        let volume_id: VolumeId = self.volume_id(self.made.volumes);
        self.made.volumes += 1;
        let Some(slot) = DeviceSlot::parse(&disk.device) else { return };
        let attachment = Attachment {
            delete_on_termination: disk.delete_on_termination,
            ebs_card_index: disk.card,
            ..Attachment::new(&disk.device, call.now.wall, AttachmentState::Attaching)
        };
        let mut volume = Volume {
            id: volume_id.clone(),
            state: VolumeState::InUse,
            attachments: BTreeMap::from([(id.clone(), attachment)]),
            ..disk.volume.clone()
        };
        volume.initialization = self.initialization(call.now.mono, &volume);
        let operation = super::attach::attach_operation(&volume);
        self.volumes.insert(Arc::new(volume));
        if let Some(instance) = self.instances.get_mut(id) {
            Arc::make_mut(instance).slots.insert(slot, volume_id.clone());
        }
        // A fault that holds the instance in `pending` does not apply to its disks.
        let call = Call { stick: None, ..call };
        let progress = self.begin_attachment(call, operation, "attach", &volume_id, id);
        if let Some(volume) = self.volumes.get_mut(&volume_id)
            && let Some(attachment) = Arc::make_mut(volume).attachments.get_mut(id)
        {
            attachment.progress = progress;
        }
        self.note_volume(&volume_id);
        self.note_attachment(&volume_id, id);
    }

    /// Returns the root volume of an instance of the seed list, from its image.
    pub(super) fn plain_root(&self, instance: &Instance, size_gib: u64) -> Volume {
        let id = self.root_volume_id(instance.ordinal);
        let attachment = Attachment {
            delete_on_termination: true,
            ..Attachment::new(&instance.root_device, instance.launch_time, AttachmentState::Attached)
        };
        Volume {
            size_gib,
            zone: instance.zone.clone(),
            volume_type: VolumeType::Gp3,
            iops: Some(3_000),
            throughput: Some(125),
            create_time: instance.launch_time,
            state: VolumeState::InUse,
            attachments: BTreeMap::from([(instance.id.clone(), attachment)]),
            snapshot: self.image_snapshot(&instance.image_id).parse().ok(),
            root: true,
            progress: Progress::Settled,
            ..Volume::blank(id)
        }
    }
}

fn bad_mapping(text: String) -> Ec2Error {
    Ec2Error::Resource { code: Code::InvalidBlockDeviceMapping, text }
}

/// Checks that `image` runs on the type `name`.
pub(super) fn check_architecture(image: &Image, name: &str) -> Result<(), Ec2Error> {
    let own = instance_types::architecture(name);
    match &image.architecture {
        Some(other) if other != own => Err(Ec2Error::InvalidParameterValue(format!(
            "The architecture '{own}' of the specified instance type does not match the architecture '{other}' of the \
             specified AMI. Specify an instance type and an AMI that have matching architectures, and try again."
        ))),
        _ => Ok(()),
    }
}
