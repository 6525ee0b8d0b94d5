//! Instances of the seed list, and the properties of every new instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use substrate::ids as make_id;

use super::State;
use super::command::{AttachmentReply, InstanceReply, Network, Reply};
use super::device::DeviceSlot;
use super::error::Ec2Error;
use super::ids::{InstanceId, VolumeId};
use super::instance::{Instance, InstanceState, ROOT_DEVICE};
use super::instance_types;
use super::options::LaunchOptions;
use super::spec::InstanceSpec;
use super::tags::check_tags;
use super::timers::Progress;
use super::volume::Volume;
use crate::events::InstancePhase;

/// Size of root volumes in GiB.
const ROOT_GIB: u64 = 8;

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
            let root = self.plain_root(&instance, ROOT_GIB);
            self.add_instance(instance, root);
        }
        Ok(())
    }

    /// Cuts the power of instance `id`. The cloud still calls it running and keeps its attachments, as EC2 does with an
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

    /// Returns an instance with the volumes in its mapping.
    pub(super) fn with_mapping(&self, instance: &Arc<Instance>) -> InstanceReply {
        let held = instance.slots.values().filter_map(|volume| {
            let attachment = self.volumes.get(volume)?.attachments.get(&instance.id)?.clone();
            Some(AttachmentReply { volume: volume.clone(), instance: instance.id.clone(), attachment })
        });
        let (vpc, subnet) = self.place_of(instance);
        let network = Network { vpc, subnet, group: self.security_group_id() };
        InstanceReply { instance: instance.clone(), mapping: held.collect(), network }
    }

    pub(super) fn reservation(&self, ids: &[InstanceId]) -> Reply {
        Reply::Reservation(ids.iter().filter_map(|id| Some(self.with_mapping(self.instances.get(id)?))).collect())
    }

    pub(super) fn new_instance(
        &self,
        id: InstanceId,
        reservation_id: String,
        instance_type: &str,
        zone: &str,
        launch_time: Timestamp,
    ) -> Instance {
        let ordinal = self.made.instances;
        // AWS reserves the first addresses of a subnet.
        let (high, low) = ((ordinal / 250) % 256, ordinal % 250 + 4);
        let (domain, subnet) = (self.private_domain(), self.zone_number(zone));
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
            private_dns_name: format!("ip-10-{subnet}-{high}-{low}.{domain}"),
            private_ip: format!("10.{subnet}.{high}.{low}"),
            network_interfaces: 1,
            subnet: None,
            tags: BTreeMap::new(),
            root_device: ROOT_DEVICE.to_owned(),
            options: LaunchOptions::default(),
            client_token: String::new(),
            windows: false,
            ended: None,
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
    pub(super) fn add_instance(&mut self, mut instance: Instance, root: Volume) {
        instance.slots.insert(DeviceSlot::root(), root.id.clone());
        instance.boot();
        self.made.instances += 1;
        self.note_instance(&instance.id, instance.state);
        self.volumes.insert(Arc::new(root));
        self.instances.insert(Arc::new(instance));
    }

    pub(super) fn root_volume_id(&self, ordinal: u64) -> VolumeId {
        let mut rng = self.seed.child("root volume").child(&ordinal.to_string()).rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, VolumeId::PREFIX).parse()
                && !self.volumes.contains_key(&id)
            {
                return id;
            }
        }
    }

    pub(super) fn next_instance_id(&self) -> InstanceId {
        let mut rng = self.seed.child("instance").child(&self.made.instances.to_string()).rng();
        loop {
            if let Ok(id) = make_id::ec2(&mut rng, InstanceId::PREFIX).parse()
                && !self.instances.contains_key(&id)
            {
                return id;
            }
        }
    }

    pub(super) fn next_reservation_id(&mut self) -> String {
        self.made.reservations += 1;
        make_id::ec2(&mut self.seed.child("reservation").child(&self.made.reservations.to_string()).rng(), "r")
    }
}
