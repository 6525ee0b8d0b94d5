//! The Describe actions: by id, filtered, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::State;
use super::command::{
    DescribeAvailabilityZones, DescribeInstanceTypes, DescribeInstances, DescribeRegions, DescribeVolumes, Reply,
};
use super::error::{Ec2Error, Missing};
use super::filter::{Filter, Filterable, check, literal, matches};
use super::ids::VolumeId;
use super::instance_types::{self, InstanceType};
use super::listing::Field;
use super::network::{interface_id, mac};
use super::options::MetadataOptions;
use super::region_names::{opt_in_status, zone_group, zone_group_in_words};
use super::times::{seconds, time};
use super::volume::{Attachment, Volume};
use super::zone::{Zone, as_value};

impl State {
    pub(super) fn describe_volumes(&self, request: &DescribeVolumes) -> Result<Reply, Ec2Error> {
        let page = request.page.check((!request.ids.is_empty()).then_some("volumeSet"))?;
        check::<VolumeView<'_>>(&request.filters, true)?;
        let rows: Box<dyn Iterator<Item = &Arc<Volume>>> = match self.held_by(request) {
            Some(rows) => Box::new(rows.into_iter()),
            None => {
                let rows = self.volumes.select(&request.ids, &request.filters, page.after());
                rows.map_err(Ec2Error::VolumeNotFound)?
            }
        };
        let wanted = rows.filter(|v| matches(&VolumeView { volume: v, state: self }, &request.filters));
        let (volumes, next_token) = page.cut(wanted.cloned(), |v| v.id.as_str());
        Ok(Reply::Volumes { volumes, next_token })
    }

    /// Returns the volumes of the instances that `request` filters by; the instances list them.
    fn held_by(&self, request: &DescribeVolumes) -> Option<Vec<&Arc<Volume>>> {
        let exact = |f: &&Filter| f.name == "attachment.instance-id" && f.values.iter().all(|value| literal(value));
        let filter = request.filters.iter().filter(|_| request.ids.is_empty()).find(exact)?;
        let instances = filter.values.iter().filter_map(|id| self.instances.get(id.as_str()));
        let ids: BTreeSet<&VolumeId> = instances.flat_map(|i| i.slots.values()).collect();
        Some(self.volumes.named(ids))
    }

    pub(super) fn describe_instances(&self, request: &DescribeInstances) -> Result<Reply, Ec2Error> {
        let page = request.page.check((!request.ids.is_empty()).then_some("instancesSet"))?;
        check::<InstanceView<'_>>(&request.filters, true)?;
        let rows = self.instances.select(&request.ids, &request.filters, page.after());
        let wanted = rows
            .map_err(Ec2Error::InstanceNotFound)?
            .map(|i| self.with_mapping(i))
            .filter(|i| matches(&InstanceView { reply: i, state: self }, &request.filters));
        let (instances, next_token) = page.cut(wanted, |i| i.instance.id.as_str());
        Ok(Reply::Instances { instances, next_token })
    }

    pub(super) fn describe_instance_types(&self, request: &DescribeInstanceTypes) -> Result<Reply, Ec2Error> {
        if let Some(n) = request.page.max_results.filter(|n| *n > 100) {
            let text = format!(
                "Value ( {n} ) for parameter maxResults is invalid. Expecting a value less than or equal to 100."
            );
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let page = request.page.check((!request.names.is_empty()).then_some("instanceTypes"))?;
        let page = page.repeating(self.seeded_bugs.repeats_last);
        check::<InstanceType>(&request.filters, false)?;
        let missing: Vec<&str> =
            request.names.iter().map(String::as_str).filter(|name| instance_types::find(name).is_none()).collect();
        if !missing.is_empty() {
            return Err(Ec2Error::InstanceTypeNotFound(missing.join(", ")));
        }
        let wanted = instance_types::all()
            .iter()
            .copied()
            .filter(|t| request.names.is_empty() || request.names.iter().any(|name| name == t.name))
            .filter(|t| matches(t, &request.filters));
        let (types, next_token) = page.cut(wanted, |t| t.name);
        Ok(Reply::InstanceTypes { types, next_token })
    }

    pub(super) fn describe_availability_zones(&self, request: &DescribeAvailabilityZones) -> Result<Reply, Ec2Error> {
        check::<ZoneView<'_>>(&request.filters, false)?;
        let zones = &self.settings.zones;
        let names = request.names.iter().filter(|name| !zones.iter().any(|z| z.name == **name));
        let ids = request.ids.iter().filter(|id| !zones.iter().any(|z| z.id == **id));
        let missing: Vec<String> = names.chain(ids).cloned().collect();
        if !missing.is_empty() {
            return Err(as_value(Ec2Error::ZoneNotFound(Missing(missing))));
        }
        let wanted = zones.iter().filter(|z| {
            (request.names.is_empty() || request.names.contains(&z.name))
                && (request.ids.is_empty() || request.ids.contains(&z.id))
                && matches(&ZoneView { zone: z, region: &self.settings.region }, &request.filters)
        });
        Ok(Reply::Zones(wanted.cloned().collect()))
    }

    pub(super) fn describe_regions(&self, request: &DescribeRegions) -> Result<Reply, Ec2Error> {
        let served = &self.settings.regions;
        check::<RegionView<'_>>(&request.filters, false)?;
        let missing: Vec<String> = request.names.iter().filter(|name| !served.contains(name)).cloned().collect();
        if !missing.is_empty() {
            let text = format!("Invalid region(s): {}", missing.join(", "));
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let asked = |region: &&String| request.names.is_empty() || request.names.contains(region);
        let passes = |region: &&String| matches(&RegionView { region }, &request.filters);
        Ok(Reply::Regions(served.iter().filter(asked).filter(passes).cloned().collect()))
    }

    /// Returns the id of the zone `name`.
    pub(crate) fn zone_id(&self, name: &str) -> &str {
        self.settings.zones.iter().find(|z| z.name == name).map_or("", |z| z.id.as_str())
    }
}

struct VolumeView<'a> {
    volume: &'a Volume,
    state: &'a State,
}

impl Filterable for VolumeView<'_> {
    const NAMES: &'static [&'static str] = &[
        "attachment.attach-time",
        "attachment.delete-on-termination",
        "attachment.device",
        "attachment.instance-id",
        "attachment.status",
        "availability-zone",
        "availability-zone-id",
        "create-time",
        "encrypted",
        "fast-restored",
        "multi-attach-enabled",
        "operator.managed",
        "operator.principal",
        "outpost-arn",
        "size",
        "snapshot-id",
        "source-volume-id",
        "status",
        "volume-id",
        "volume-type",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let volume = self.volume;
        if let Some(field) = name.strip_prefix("attachment.") {
            let most = if self.state.seeded_bugs.filters_first_attachment { 1 } else { volume.attachments.len() };
            for (instance, attachment) in volume.attachments.iter().take(most) {
                match field {
                    "instance-id" => found(instance.as_str()),
                    field => attachment_value(attachment, field, found),
                }
            }
            return;
        }
        match name {
            "availability-zone" => found(&volume.zone),
            "availability-zone-id" => found(self.state.zone_id(&volume.zone)),
            "create-time" => found(&time(volume.create_time)),
            "encrypted" => found(flag(volume.encrypted)),
            "fast-restored" => found(flag(volume.fast_restored)),
            "operator.managed" => found("false"),
            "multi-attach-enabled" => found(flag(volume.multi_attach_enabled)),
            "size" => found(&volume.size_gib.to_string()),
            "snapshot-id" => found(volume.snapshot.as_ref().map_or("", |s| s.as_str())),
            "source-volume-id" => volume.source_volume.iter().for_each(|v| found(v.as_str())),
            "status" => found(volume.state.as_str()),
            "volume-id" => found(volume.id.as_str()),
            "volume-type" => found(volume.volume_type.as_str()),
            // operator.principal, outpost-arn: not supported, so volumes have no value.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.volume.tags)
    }
}

fn attachment_value(attachment: &Attachment, field: &str, found: &mut dyn FnMut(&str)) {
    match field {
        "attach-time" => found(&seconds(attachment.attach_time)),
        "delete-on-termination" => found(flag(attachment.delete_on_termination)),
        "device" | "device-name" => found(&attachment.device),
        "status" => found(attachment.state.as_str()),
        _ => {}
    }
}

struct InstanceView<'a> {
    reply: &'a super::command::InstanceReply,
    state: &'a State,
}

impl Filterable for InstanceView<'_> {
    const NAMES: &'static [&'static str] = &[
        "affinity",
        "architecture",
        "availability-zone",
        "availability-zone-id",
        "block-device-mapping.attach-time",
        "block-device-mapping.delete-on-termination",
        "block-device-mapping.device-name",
        "block-device-mapping.status",
        "block-device-mapping.volume-id",
        "boot-mode",
        "capacity-reservation-id",
        "capacity-reservation-specification.capacity-reservation-preference",
        "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id",
        "capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn",
        "client-token",
        "current-instance-boot-mode",
        "dns-name",
        "ebs-optimized",
        "ena-support",
        "enclave-options.enabled",
        "hibernation-options.configured",
        "host-id",
        "hypervisor",
        "iam-instance-profile.arn",
        "iam-instance-profile.id",
        "image-id",
        "instance-id",
        "instance-lifecycle",
        "instance-state-code",
        "instance-state-name",
        "instance-type",
        "instance.group-id",
        "instance.group-name",
        "ip-address",
        "ipv6-address",
        "kernel-id",
        "key-name",
        "launch-index",
        "launch-time",
        "maintenance-options.auto-recovery",
        "metadata-options.http-endpoint",
        "metadata-options.http-protocol-ipv4",
        "metadata-options.http-protocol-ipv6",
        "metadata-options.http-put-response-hop-limit",
        "metadata-options.http-tokens",
        "metadata-options.instance-metadata-tags",
        "metadata-options.state",
        "monitoring-state",
        "network-interface.addresses.association.allocation-id",
        "network-interface.addresses.association.association-id",
        "network-interface.addresses.association.carrier-ip",
        "network-interface.addresses.association.customer-owned-ip",
        "network-interface.addresses.association.ip-owner-id",
        "network-interface.addresses.association.public-dns-name",
        "network-interface.addresses.association.public-ip",
        "network-interface.addresses.primary",
        "network-interface.addresses.private-dns-name",
        "network-interface.addresses.private-ip-address",
        "network-interface.association.allocation-id",
        "network-interface.association.association-id",
        "network-interface.association.carrier-ip",
        "network-interface.association.customer-owned-ip",
        "network-interface.association.ip-owner-id",
        "network-interface.association.public-dns-name",
        "network-interface.association.public-ip",
        "network-interface.attachment.attach-time",
        "network-interface.attachment.attachment-id",
        "network-interface.attachment.delete-on-termination",
        "network-interface.attachment.device-index",
        "network-interface.attachment.instance-id",
        "network-interface.attachment.instance-owner-id",
        "network-interface.attachment.network-card-index",
        "network-interface.attachment.status",
        "network-interface.availability-zone",
        "network-interface.deny-all-igw-traffic",
        "network-interface.description",
        "network-interface.group-id",
        "network-interface.group-name",
        "network-interface.ipv4-prefixes.ipv4-prefix",
        "network-interface.ipv6-address",
        "network-interface.ipv6-addresses.ipv6-address",
        "network-interface.ipv6-addresses.is-primary-ipv6",
        "network-interface.ipv6-native",
        "network-interface.ipv6-prefixes.ipv6-prefix",
        "network-interface.mac-address",
        "network-interface.network-interface-id",
        "network-interface.operator.managed",
        "network-interface.operator.principal",
        "network-interface.outpost-arn",
        "network-interface.owner-id",
        "network-interface.private-dns-name",
        "network-interface.private-ip-address",
        "network-interface.public-dns-name",
        "network-interface.requester-id",
        "network-interface.requester-managed",
        "network-interface.source-dest-check",
        "network-interface.status",
        "network-interface.subnet-id",
        "network-interface.tag-key",
        "network-interface.tag-value",
        "network-interface.vpc-id",
        "network-performance-options.bandwidth-weighting",
        "operator.managed",
        "operator.principal",
        "outpost-arn",
        "owner-id",
        "placement-group-name",
        "placement-partition-number",
        "platform",
        "platform-details",
        "private-dns-name",
        "private-dns-name-options.enable-resource-name-dns-a-record",
        "private-dns-name-options.enable-resource-name-dns-aaaa-record",
        "private-dns-name-options.hostname-type",
        "private-ip-address",
        "product-code",
        "product-code.type",
        "ramdisk-id",
        "reason",
        "requester-id",
        "reservation-id",
        "root-device-name",
        "root-device-type",
        "source-dest-check",
        "spot-instance-request-id",
        "state-reason-code",
        "state-reason-message",
        "subnet-id",
        "tenancy",
        "tpm-support",
        "usage-operation",
        "usage-operation-update-time",
        "virtualization-type",
        "vpc-id",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let instance = &self.reply.instance;
        let options = &instance.options;
        if let Some(field) = name.strip_prefix("block-device-mapping.") {
            for item in &self.reply.mapping {
                match field {
                    "volume-id" => found(item.volume.as_str()),
                    field => attachment_value(&item.attachment, field, found),
                }
            }
            return;
        }
        match name {
            "availability-zone" => found(&instance.zone),
            "availability-zone-id" => found(self.state.zone_id(&instance.zone)),
            "image-id" => found(&instance.image_id),
            "instance-id" => found(instance.id.as_str()),
            "instance-state-code" => found(&instance.state.wire().1.to_string()),
            "instance-state-name" => found(instance.state.wire().0),
            "instance-type" => found(&instance.instance_type),
            "owner-id" => found(&self.state.settings.account_id),
            "private-dns-name" => found(&instance.private_dns_name),
            "private-ip-address" => found(&instance.private_ip),
            "reservation-id" => found(&instance.reservation_id),
            "root-device-name" => found(&instance.root_device),
            "root-device-type" => found("ebs"),
            "architecture" => found(instance_types::architecture(&instance.instance_type)),
            "ena-support" => found("true"),
            "source-dest-check" | "network-interface.source-dest-check" => found(flag(options.source_dest_check)),
            "ebs-optimized" => found(flag(options.ebs_optimized)),
            "enclave-options.enabled" | "hibernation-options.configured" | "operator.managed" => found("false"),
            "client-token" => found(&instance.client_token),
            "iam-instance-profile.arn" => options.instance_profile.iter().for_each(|arn| found(arn)),
            "key-name" => options.key_name.iter().for_each(|name| found(name)),
            "instance.group-id" | "network-interface.group-id" => found(&self.reply.network.group),
            "instance.group-name" | "network-interface.group-name" => found("default"),
            "platform" if instance.windows => found("windows"),
            "platform-details" => found(if instance.windows { "Windows" } else { "Linux/UNIX" }),
            "usage-operation" => found(if instance.windows { "RunInstances:0002" } else { "RunInstances" }),
            "reason" => found(&instance.reason()),
            "state-reason-code" => instance.state_reason().iter().for_each(|(code, _)| found(code)),
            "state-reason-message" => instance.state_reason().iter().for_each(|(_, text)| found(text)),
            "network-interface.network-interface-id" => {
                (0..instance.network_interfaces).for_each(|n| found(&interface_id(instance.id.as_str(), n)));
            }
            "network-interface.mac-address" => (0..instance.network_interfaces).for_each(|n| found(&mac(instance, n))),
            "network-interface.availability-zone" => found(&instance.zone),
            "network-interface.owner-id" => found(&self.state.settings.account_id),
            "network-interface.private-ip-address" | "network-interface.addresses.private-ip-address" => {
                found(&instance.private_ip);
            }
            "network-interface.private-dns-name" => found(&instance.private_dns_name),
            "network-interface.attachment.instance-id" => found(instance.id.as_str()),
            name if name.starts_with("metadata-options.") => metadata_value(&options.metadata, name, found),
            "hypervisor" => found("xen"),
            "launch-index" => found(&instance.launch_index.to_string()),
            "launch-time" => found(&seconds(instance.launch_time)),
            "monitoring-state" => found(options.monitoring_word()),
            "network-interface.status" => found("in-use"),
            "network-interface.attachment.status" => found("attached"),
            "network-interface.subnet-id" | "subnet-id" => found(&self.reply.network.subnet),
            "network-interface.vpc-id" | "vpc-id" => found(&self.reply.network.vpc),
            "tenancy" => found("default"),
            "virtualization-type" => found("hvm"),
            // An attribute that instances here lack has no value: a filter on it never matches.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.reply.instance.tags)
    }
}

fn metadata_value(options: &MetadataOptions, name: &str, found: &mut dyn FnMut(&str)) {
    let wanted = match name {
        "metadata-options.http-endpoint" => "httpEndpoint",
        "metadata-options.http-protocol-ipv6" => "httpProtocolIpv6",
        "metadata-options.http-put-response-hop-limit" => "httpPutResponseHopLimit",
        "metadata-options.http-tokens" => "httpTokens",
        "metadata-options.instance-metadata-tags" => "instanceMetadataTags",
        "metadata-options.state" => "state",
        _ => return,
    };
    for (field, value) in options.fields() {
        if let (true, Field::Text(value)) = (field == wanted, value) {
            found(&value);
        }
    }
}

impl Filterable for InstanceType {
    const NAMES: &'static [&'static str] = &[
        "auto-recovery-supported",
        "bare-metal",
        "burstable-performance-supported",
        "current-generation",
        "dedicated-hosts-supported",
        "ebs-info.attachment-limit-type",
        "ebs-info.ebs-optimized-info.baseline-bandwidth-in-mbps",
        "ebs-info.ebs-optimized-info.baseline-iops",
        "ebs-info.ebs-optimized-info.baseline-throughput-in-mbps",
        "ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps",
        "ebs-info.ebs-optimized-info.maximum-iops",
        "ebs-info.ebs-optimized-info.maximum-throughput-in-mbps",
        "ebs-info.ebs-optimized-support",
        "ebs-info.encryption-support",
        "ebs-info.maximum-ebs-attachments",
        "ebs-info.nvme-support",
        "free-tier-eligible",
        "hibernation-supported",
        "hypervisor",
        "instance-storage-info.disk.count",
        "instance-storage-info.disk.size-in-gb",
        "instance-storage-info.disk.type",
        "instance-storage-info.encryption-support",
        "instance-storage-info.nvme-support",
        "instance-storage-info.total-size-in-gb",
        "instance-storage-supported",
        "instance-type",
        "memory-info.size-in-mib",
        "network-info.bandwidth-weightings",
        "network-info.efa-info.maximum-efa-interfaces",
        "network-info.efa-supported",
        "network-info.ena-support",
        "network-info.encryption-in-transit-supported",
        "network-info.flexible-ena-queues-support",
        "network-info.ipv4-addresses-per-interface",
        "network-info.ipv6-addresses-per-interface",
        "network-info.ipv6-supported",
        "network-info.maximum-network-cards",
        "network-info.maximum-network-interfaces",
        "network-info.network-performance",
        "nitro-enclaves-support",
        "nitro-tpm-info.supported-versions",
        "nitro-tpm-support",
        "processor-info.supported-architecture",
        "processor-info.supported-features",
        "processor-info.sustained-clock-speed-in-ghz",
        "reboot-migration-support",
        "supported-boot-mode",
        "supported-root-device-type",
        "supported-usage-class",
        "supported-virtualization-type",
        "vcpu-info.default-cores",
        "vcpu-info.default-threads-per-core",
        "vcpu-info.default-vcpus",
        "vcpu-info.valid-cores",
        "vcpu-info.valid-threads-per-core",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        let (attachments, kind) = self.limit.wire_form();
        match name {
            "auto-recovery-supported" | "dedicated-hosts-supported" | "network-info.ipv6-supported" => found("true"),
            "bare-metal" => found(flag(self.metal())),
            "burstable-performance-supported" => found(flag(self.burstable())),
            "current-generation" => found(flag(self.current)),
            "ebs-info.attachment-limit-type" => kind.iter().for_each(|kind| found(kind)),
            "ebs-info.encryption-support" => found("supported"),
            "ebs-info.ebs-optimized-support" => found(self.ebs_optimized()),
            "ebs-info.maximum-ebs-attachments" => attachments.iter().for_each(|n| found(&n.to_string())),
            "ebs-info.nvme-support" => found(self.ebs_nvme()),
            "free-tier-eligible" => found(flag(self.free_tier)),
            "hibernation-supported" => found("false"),
            "hypervisor" if !self.metal() => found(self.hypervisor()),
            "instance-storage-info.disk.count" if self.disks.count > 0 => found(&self.disks.count.to_string()),
            "instance-storage-info.disk.size-in-gb" if self.disks.count > 0 => found(&self.disks.size_gb.to_string()),
            "instance-storage-info.disk.type" if self.disks.count > 0 => found(self.disks.kind),
            "instance-storage-info.total-size-in-gb" if self.disks.count > 0 => {
                found(&(self.disks.count * self.disks.size_gb).to_string());
            }
            "instance-storage-supported" => found(flag(self.disks.count > 0)),
            "instance-type" => found(self.name),
            "memory-info.size-in-mib" => found(&self.memory_mib.to_string()),
            "network-info.ena-support" => found(self.ena()),
            "network-info.maximum-network-cards" => found("1"),
            "network-info.maximum-network-interfaces" => found(&self.network_interfaces.to_string()),
            "processor-info.supported-architecture" => found(instance_types::architecture(self.name)),
            "supported-root-device-type" => found("ebs"),
            "supported-usage-class" => ["on-demand", "spot"].into_iter().for_each(found),
            "supported-virtualization-type" => found("hvm"),
            "vcpu-info.default-cores" => found(&(self.vcpus / self.threads_per_core).to_string()),
            "vcpu-info.default-threads-per-core" => found(&self.threads_per_core.to_string()),
            "vcpu-info.default-vcpus" => found(&self.vcpus.to_string()),
            // A field that DescribeInstanceTypes does not return here has no value.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}

struct ZoneView<'a> {
    zone: &'a Zone,
    region: &'a str,
}

impl Filterable for ZoneView<'_> {
    const NAMES: &'static [&'static str] = &[
        "group-long-name",
        "group-name",
        "message",
        "opt-in-status",
        "parent-zone-id",
        "parent-zone-name",
        "region-name",
        "state",
        "zone-id",
        "zone-name",
        "zone-type",
    ];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        match name {
            "group-long-name" => zone_group_in_words(self.region).iter().for_each(|words| found(words)),
            "group-name" => found(&zone_group(self.region)),
            "opt-in-status" => found("opt-in-not-required"),
            "region-name" => found(self.region),
            "state" => found("available"),
            "zone-id" => found(&self.zone.id),
            "zone-name" => found(&self.zone.name),
            "zone-type" => found("availability-zone"),
            // message, parent-zone-id, parent-zone-name: zones here have none.
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}

struct RegionView<'a> {
    region: &'a str,
}

impl Filterable for RegionView<'_> {
    const NAMES: &'static [&'static str] = &["endpoint", "opt-in-status", "region-name"];

    fn values(&self, name: &str, found: &mut dyn FnMut(&str)) {
        match name {
            "endpoint" => found(&format!("ec2.{}.amazonaws.com", self.region)),
            "opt-in-status" => found(opt_in_status(self.region)),
            "region-name" => found(self.region),
            _ => {}
        }
    }

    fn tags(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
}

pub(super) fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
