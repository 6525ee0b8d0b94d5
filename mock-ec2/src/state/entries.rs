//! Entries of each kind that can only be listed.

use substrate::Now;

use super::State;
use super::code::Code;
use super::error::Ec2Error;
use super::ids::{InstanceId, SnapshotId};
use super::instance::InstanceState;
use super::instance_types;
use super::kinds::Kind;
use super::listing::{Entry, Listing, Named, text};
use super::resource_errors::ResourceErrors;
use super::snapshot::{FastRestore, SnapshotLock};
use super::times::time;

impl State {
    /// Returns the candidates of `request`, before its ids and filters apply.
    pub(super) fn entries(&self, now: Now, request: &Listing) -> Result<Vec<Entry>, Ec2Error> {
        let shape = request.kind.shape();
        if let Some(resource_errors) = ResourceErrors::of(shape.prefix) {
            request.ids.iter().try_for_each(|id| resource_errors.check(id))?;
        }
        Ok(match request.kind {
            Kind::AccountAttribute => self.account_attributes(request.all("AttributeName")),
            // Addresses cannot be created here.
            Kind::Address => match request.all("PublicIp") {
                [] => Vec::new(),
                [first, ..] => {
                    let text = format!("Address '{first}' not found.");
                    return Err(Ec2Error::Resource { code: Code::InvalidAddressNotFound, text });
                }
            },
            Kind::LaunchTemplate => match request.all("LaunchTemplateName") {
                [] => Vec::new(),
                [first, ..] => return Err(no_launch_template(first)),
            },
            Kind::AutoScalingGroup | Kind::LaunchConfiguration | Kind::NatGateway | Kind::VpcEndpoint => Vec::new(),
            Kind::CreditSpecification => self.credits(&request.ids)?,
            Kind::DhcpOptions => self.dhcp_options(),
            Kind::FastRestore => self.all_fast_restores(),
            Kind::Image => self.images(request)?,
            Kind::InternetGateway => self.internet_gateways(),
            Kind::KeyPair => {
                let names = request.all("KeyName");
                let with_public = request.all("IncludePublicKey").iter().any(|on| on == "true");
                let mut found = self.own_keys(names, with_public);
                found.extend(self.key_pairs(names));
                let there =
                    |name: &&String| found.iter().any(|e| e.filter_fields.contains(&("key-name", (*name).clone())));
                if let (Some(missing), Some(resource_errors)) =
                    (names.iter().find(|name| !there(name)), ResourceErrors::of("key"))
                {
                    return Err(resource_errors.not_found(&[missing]));
                }
                found
            }
            Kind::LockedSnapshot => self.locked_snapshots(now, &request.ids)?,
            Kind::NetworkAcl => self.network_acls(),
            Kind::NetworkInterface => self.interfaces(),
            Kind::PlacementGroup => self.placement_groups(request.all("GroupName"))?,
            Kind::RecycledSnapshot => self.recycled_snapshots(&request.ids)?,
            Kind::RecycledVolume => self.recycled_volumes(&request.ids)?,
            Kind::ReplaceRootTask => self.replace_tasks(),
            // Reserved instances cannot be bought here.
            Kind::ReservedInstances => match request.all("ReservedInstancesId") {
                [] => Vec::new(),
                [first, ..] => {
                    let text = format!("The reserved instance ID '{first}' does not exist");
                    return Err(Ec2Error::Resource { code: Code::InvalidReservedInstancesId, text });
                }
            },
            Kind::RouteTable => self.route_tables(),
            Kind::SecurityGroup => self.security_groups(request.all("GroupName"))?,
            Kind::SnapshotTier => self.tiers(),
            Kind::Subnet => self.subnets(),
            Kind::TypeOffering => self.type_offerings(request)?,
            Kind::Vpc => self.vpcs(),
        })
    }

    /// Returns the credits of burstable instances: the requested value, else AWS's default of the family.
    fn credits(&self, ids: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        for id in ids {
            let id: InstanceId = id.parse().map_err(|_| Ec2Error::MalformedInstanceId(id.clone()))?;
            let instance = self.instance(&id)?;
            if !instance_types::find(&instance.instance_type).is_some_and(|t| t.burstable()) {
                let text = format!("The instance '{id}' is not of a burstable type.");
                return Err(Ec2Error::Resource { code: Code::IncorrectInstanceState, text });
            }
        }
        let alive = self.instances.values().filter(|i| i.state != InstanceState::Terminated);
        let burstable = alive.filter(|i| instance_types::find(&i.instance_type).is_some_and(|t| t.burstable()));
        let entries = burstable.map(|i| {
            let usual = if i.instance_type.starts_with("t2.") { "standard" } else { "unlimited" };
            let credits = i.options.cpu_credits.as_deref().unwrap_or(usual);
            Entry {
                id: i.id.to_string(),
                filter_fields: vec![("instance-id", i.id.to_string())],
                fields: vec![text("instanceId", &i.id), text("cpuCredits", credits)],
                ..Entry::default()
            }
        });
        Ok(entries.collect())
    }

    fn type_offerings(&self, request: &Listing) -> Result<Vec<Entry>, Ec2Error> {
        let kind = request.all("LocationType").first().map_or("region", String::as_str);
        let zones = &self.settings.zones;
        let places: Vec<&str> = match kind {
            "region" => vec![&self.settings.region],
            "availability-zone" => zones.iter().map(|z| z.name.as_str()).collect(),
            "availability-zone-id" => zones.iter().map(|z| z.id.as_str()).collect(),
            other => {
                let text = format!(
                    "Value ({other}) for parameter locationType is invalid. Use region, availability-zone or \
                     availability-zone-id."
                );
                return Err(Ec2Error::InvalidParameterValue(text));
            }
        };
        let all = instance_types::all();
        let entries = all.iter().flat_map(|t| places.iter().map(move |place| (t, *place))).map(|(t, place)| Entry {
            id: format!("{} {place}", t.name),
            filter_fields: vec![("instance-type", t.name.to_owned()), ("location", place.to_owned())],
            fields: vec![text("instanceType", t.name), text("locationType", kind), text("location", place)],
            ..Entry::default()
        });
        Ok(entries.collect())
    }

    fn all_fast_restores(&self) -> Vec<Entry> {
        let all = self.snapshots.values().flat_map(|s| s.fast_restores.iter().map(move |(zone, f)| (&s.id, zone, f)));
        all.map(|(id, zone, restore)| Entry {
            id: format!("{id} {zone}"),
            filter_fields: vec![
                ("availability-zone", zone.clone()),
                ("availability-zone-id", self.zone_id(zone).to_owned()),
                ("owner-id", self.settings.account_id.clone()),
                ("snapshot-id", id.to_string()),
                ("state", restore.state.as_str().to_owned()),
            ],
            fields: self.fast_restore_fields(id, zone, restore),
            ..Entry::default()
        })
        .collect()
    }

    /// Returns the fields of fast restore of one snapshot in one zone.
    pub(super) fn fast_restore_fields(&self, id: &SnapshotId, zone: &str, restore: &FastRestore) -> Vec<Named> {
        let mut fields = vec![
            text("snapshotId", id),
            text("availabilityZone", zone),
            text("availabilityZoneId", self.zone_id(zone)),
            text("state", restore.state.as_str()),
            text("stateTransitionReason", restore.reason()),
            text("ownerId", &self.settings.account_id),
            text("enablingTime", time(restore.enabling_time)),
        ];
        let times = [
            ("optimizingTime", restore.optimizing_time),
            ("enabledTime", restore.enabled_time),
            ("disablingTime", restore.disabling_time),
            ("disabledTime", restore.disabled_time),
        ];
        fields.extend(times.into_iter().filter_map(|(name, at)| Some(text(name, time(at?)))));
        fields
    }

    fn snapshots_of(&self, ids: &[String]) -> Result<(), Ec2Error> {
        for id in ids {
            let id: SnapshotId = id.parse().map_err(|_| Ec2Error::MalformedVolumeId {
                parameter: "snapshotId",
                value: id.clone(),
                expected: SnapshotId::PREFIX,
            })?;
            self.snapshot(&id)?;
        }
        Ok(())
    }

    fn locked_snapshots(&self, now: Now, ids: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        self.snapshots_of(ids)?;
        let locked = self.snapshots.values().filter_map(|s| Some((s, s.lock.as_ref()?)));
        Ok(locked
            .map(|(snapshot, lock)| {
                let state = lock.state(now.wall);
                let mut fields = vec![text("ownerId", &self.settings.account_id), text("snapshotId", &snapshot.id)];
                fields.extend(lock_fields(lock, state));
                Entry {
                    id: snapshot.id.to_string(),
                    filter_fields: vec![("lock-state", state.to_owned())],
                    fields,
                    ..Entry::default()
                }
            })
            .collect())
    }
}

/// Returns the fields of a lock, except its snapshot and owner.
pub(crate) fn lock_fields(lock: &SnapshotLock, state: &str) -> Vec<Named> {
    let mut fields = vec![text("lockState", state), text("lockDuration", lock.duration_days)];
    fields.extend(lock.cool_off_hours.map(|hours| text("coolOffPeriod", hours)));
    fields.extend(lock.cool_off_ends().map(|at| text("coolOffPeriodExpiresOn", time(at))));
    fields.push(text("lockCreatedOn", time(lock.created)));
    fields.push(text("lockExpiresOn", time(lock.expires)));
    fields.push(text("lockDurationStartTime", time(lock.created)));
    fields
}

/// Returns the error for a launch template by name: templates cannot be created here.
pub(crate) fn no_launch_template(name: &str) -> Ec2Error {
    Ec2Error::Resource {
        code: Code::InvalidLaunchTemplateNameNotFoundException,
        text: format!("At least one of the launch templates specified in the request does not exist: {name}"),
    }
}
