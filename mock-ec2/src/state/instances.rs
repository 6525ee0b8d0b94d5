//! RunInstances, the instances of the seed list, and what happens to instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use substrate::ids as make_id;

use super::command::{AttachmentReply, InstanceReply, Reply, RunInstances};
use super::device::DeviceSlot;
use super::error::{Ec2Error, Missing};
use super::ids::{InstanceId, VolumeId};
use super::instance::{Instance, InstanceState, ROOT_DEVICE};
use super::instance_types;
use super::latency::Operation;
use super::spec::InstanceSpec;
use super::tags::check_tags;
use super::timers::{Progress, Subject};
use super::volume::{Attachment, AttachmentState, Volume, VolumeState, VolumeType};
use super::{Call, State};
use crate::events::InstancePhase;

/// Size of root volumes in GiB.
const ROOT_GIB: u64 = 8;
/// Most instances that one request starts.
const MOST_PER_REQUEST: u64 = 1_000;

impl State {
    pub(super) fn seed_instances(&mut self, specs: &[InstanceSpec]) -> Result<(), (String, String)> {
        let mut names = BTreeSet::new();
        for (position, spec) in specs.iter().enumerate() {
            let bad = |field: &str, reason: String| (format!("instances[{position}].{field}"), reason);
            if !names.insert(spec.name.as_str()) {
                return Err(bad("name", format!("`{}` is used twice", spec.name)));
            }
            let zones = &self.settings.zones;
            if !zones.iter().any(|z| z.name == spec.zone) {
                let known: Vec<&str> = zones.iter().map(|z| z.name.as_str()).collect();
                return Err(bad("zone", format!("`{}` is not one of {}", spec.zone, known.join(", "))));
            }
            if instance_types::find(&spec.instance_type).is_none() {
                let reason = format!("`{}` is not a known instance type, such as m5.large", spec.instance_type);
                return Err(bad("instanceType", reason));
            }
            if spec.network_interfaces == 0 {
                return Err(bad("networkInterfaces", "an instance has at least one".to_owned()));
            }
            let id = match &spec.id {
                Some(id) => Some(id.parse::<InstanceId>().map_err(|e| bad("id", format!("`{id}` {e}")))?),
                None => None,
            };
            if id.as_ref().is_some_and(|id| self.instances.contains_key(id)) {
                return Err(bad("id", "is used twice".to_owned()));
            }
            let mut tags = spec.tags.clone();
            tags.insert("Name".to_owned(), spec.name.clone());
            check_tags(&BTreeMap::new(), &tags).map_err(|e| bad("tags", e.to_string()))?;
            let reservation = self.next_reservation_id();
            let id = id.unwrap_or_else(|| self.next_instance_id());
            let mut instance =
                self.new_instance(id, reservation, &spec.instance_type, &spec.zone, Timestamp::UNIX_EPOCH);
            instance.state = InstanceState::Running;
            instance.network_interfaces = spec.network_interfaces;
            instance.tags = tags;
            if let Some(name) = &spec.private_dns_name {
                instance.private_dns_name.clone_from(name);
            }
            self.add_instance(instance, BTreeMap::new());
        }
        Ok(())
    }

    pub(super) fn run_instances(&mut self, call: Call<'_>, request: &RunInstances) -> Result<Reply, Ec2Error> {
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
        if instance_types::find(instance_type).is_none() {
            let text = format!("Invalid value '{instance_type}' for InstanceType.");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let zones = &self.settings.zones;
        let of_subnet = match &request.subnet {
            Some(id) => {
                let zone = zones.iter().find(|z| self.subnet_id(&z.name) == *id);
                Some(&zone.ok_or_else(|| Ec2Error::SubnetNotFound(id.clone()))?.name)
            }
            None => None,
        };
        let zone = match (&request.zone, of_subnet) {
            (Some(name), Some(other)) if name != other => {
                let text =
                    format!("The subnet '{}' is not in the zone {name}.", request.subnet.as_deref().unwrap_or(""));
                return Err(Ec2Error::InvalidParameterCombination(text));
            }
            (Some(name), _) if zones.iter().any(|z| z.name == *name) => name.clone(),
            (Some(name), _) => return Err(Ec2Error::ZoneNotFound(Missing(vec![name.clone()]))),
            (None, Some(name)) => name.clone(),
            (None, None) => zones.first().map(|z| z.name.clone()).unwrap_or_default(),
        };
        check_tags(&BTreeMap::new(), &request.tags)?;
        check_tags(&BTreeMap::new(), &request.volume_tags)?;
        let essence = RunInstances { client_token: None, ..request.clone() };
        if let Some(token) = &request.client_token
            && let Some(ids) = self.instance_tokens.replay(call.now.mono, token, &essence)?
        {
            call.check_dry_run()?;
            return Ok(self.reservation(&ids));
        }
        call.check_dry_run()?;

        let reservation = self.next_reservation_id();
        let mut ids = Vec::new();
        for launch_index in 0..*max_count {
            let id = self.next_instance_id();
            let mut instance = self.new_instance(id.clone(), reservation.clone(), instance_type, &zone, call.now.wall);
            instance.launch_index = launch_index;
            instance.image_id.clone_from(&request.image_id);
            instance.tags.clone_from(&request.tags);
            self.add_instance(instance, request.volume_tags.clone());
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

    /// Lets instance `id` lose power. The cloud still calls it running and keeps its attachments, as EC2 does with an
    /// instance that fails its status checks.
    ///
    /// # Errors
    /// `InvalidInstanceID.NotFound`.
    pub fn crash_instance(&mut self, id: &InstanceId) -> Result<(), Ec2Error> {
        self.instance(id)?;
        if let Some(instance) = self.instances.get_mut(id) {
            Arc::make_mut(instance).impaired = true;
            self.note_instance(id, InstancePhase::Impaired);
        }
        Ok(())
    }

    /// An instance with the volumes in its mapping.
    pub(super) fn with_mapping(&self, instance: &Arc<Instance>) -> InstanceReply {
        let held = instance.slots.values().filter_map(|volume| {
            let attachment = self.volumes.get(volume)?.attachments.get(&instance.id)?.clone();
            Some(AttachmentReply { volume: volume.clone(), instance: instance.id.clone(), attachment })
        });
        let network = (self.vpc_id(), self.subnet_id(&instance.zone));
        InstanceReply { instance: instance.clone(), mapping: held.collect(), network }
    }

    fn reservation(&self, ids: &[InstanceId]) -> Reply {
        Reply::Reservation(ids.iter().filter_map(|id| Some(self.with_mapping(self.instances.get(id)?))).collect())
    }

    fn new_instance(
        &self,
        id: InstanceId,
        reservation_id: String,
        instance_type: &str,
        zone: &str,
        launch_time: Timestamp,
    ) -> Instance {
        let ordinal = self.made.instances;
        // The first addresses of a subnet are AWS's own.
        let (high, low) = ((ordinal / 250) % 256, ordinal % 250 + 4);
        let region = self.settings.region.as_str();
        let domain =
            if region == "us-east-1" { "ec2.internal".to_owned() } else { format!("{region}.compute.internal") };
        Instance {
            id,
            ordinal,
            reservation_id,
            image_id: "ami-0123456789abcdef0".to_owned(),
            launch_index: 0,
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            state: InstanceState::Pending,
            impaired: false,
            launch_time,
            private_dns_name: format!("ip-10-0-{high}-{low}.{domain}"),
            private_ip: format!("10.0.{high}.{low}"),
            network_interfaces: 1,
            tags: BTreeMap::new(),
            slots: BTreeMap::new(),
            hidden: BTreeSet::new(),
            poisoned: BTreeSet::new(),
            reserved_slots: 0,
            mounted: BTreeSet::new(),
            held: BTreeSet::new(),
            boot_devices: Vec::new(),
            draws: 0,
            progress: Progress::Settled,
        }
    }

    /// Adds `instance` and its root volume.
    fn add_instance(&mut self, mut instance: Instance, volume_tags: BTreeMap<String, String>) {
        let volume = self.root_volume(&instance, volume_tags);
        instance.slots.insert(DeviceSlot::root(), volume.id.clone());
        instance.boot();
        self.made.instances += 1;
        self.note_instance(&instance.id, instance.state);
        self.volumes.insert(Arc::new(volume));
        self.instances.insert(Arc::new(instance));
    }

    fn root_volume(&self, instance: &Instance, tags: BTreeMap<String, String>) -> Volume {
        let attachment = Attachment {
            device: ROOT_DEVICE.to_owned(),
            state: AttachmentState::Attached,
            attach_time: instance.launch_time,
            delete_on_termination: true,
            ebs_card_index: 0,
            forced: false,
            stick_busy: None,
            progress: Progress::Settled,
        };
        Volume {
            size_gib: ROOT_GIB,
            zone: instance.zone.clone(),
            volume_type: VolumeType::Gp3,
            iops: Some(3_000),
            throughput: Some(125),
            encrypted: false,
            kms_key_id: None,
            multi_attach_enabled: false,
            create_time: instance.launch_time,
            state: VolumeState::InUse,
            attachments: BTreeMap::from([(instance.id.clone(), attachment)]),
            tags,
            root: true,
            progress: Progress::Settled,
            draws: 0,
            ..Volume::blank(self.root_volume_id(instance.ordinal))
        }
    }

    fn root_volume_id(&self, ordinal: u64) -> VolumeId {
        let mut rng = self.seed.child("root volume").child(&ordinal.to_string()).rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, VolumeId::PREFIX).parse()
                && !self.volumes.contains_key(&id)
            {
                return id;
            }
        }
    }

    fn next_instance_id(&self) -> InstanceId {
        let mut rng = self.seed.child("instance").child(&self.made.instances.to_string()).rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, InstanceId::PREFIX).parse()
                && !self.instances.contains_key(&id)
            {
                return id;
            }
        }
    }

    fn next_reservation_id(&mut self) -> String {
        self.made.reservations += 1;
        make_id::ec2(&mut self.seed.child("reservation").child(&self.made.reservations.to_string()).rng(), "r")
    }
}
