//! Encodes replies and errors as XML, with elements in EC2's order.

use std::collections::BTreeMap;

use super::services::Service;
use super::xml::Xml;
use crate::state::State;
use crate::state::command::{AttachmentReply, InstanceReply, ModificationReply, Reply};
use crate::state::error::Ec2Error;
use crate::state::instance_types::{self, InstanceType};
use crate::state::network::{interface_attachment_id, interface_id, mac};
use crate::state::reservation::reservations;
use crate::state::volume::{Attachment, Volume};
use crate::state::zone::Zone;
use crate::state::{Settings, opt_in_status, seconds, time, zone_group, zone_group_in_words};

mod listed;
mod more;
mod pieces;

pub use pieces::{Pieces, VolumeList};

/// Context of answers besides the reply.
#[derive(Clone, Debug)]
pub struct Surroundings {
    region: String,
    account_id: String,
    zones: Vec<Zone>,
    /// Prefix of the ARNs of volumes.
    volume_arn: String,
}

impl From<&Settings> for Surroundings {
    fn from(settings: &Settings) -> Self {
        let Settings { region, account_id, zones, .. } = settings.clone();
        Self { volume_arn: format!("arn:aws:ec2:{region}:{account_id}:volume/"), region, account_id, zones }
    }
}

impl From<&State> for Surroundings {
    fn from(state: &State) -> Self {
        state.settings().into()
    }
}

impl Surroundings {
    fn zone_id(&self, name: &str) -> &str {
        self.zones.iter().find(|z| z.name == name).map_or("", |z| z.id.as_str())
    }

    /// Encodes the answer to `action`.
    pub fn reply(&self, action: &str, request_id: &str, reply: &Reply) -> String {
        let mut xml = Xml::document();
        xml.reserve(1_200);
        let service = Service::of_action(action);
        xml.root(&[action, "Response"].concat(), service.namespace(), |xml| {
            if service == Service::Ec2 {
                xml.text("requestId", request_id);
                return self.content(xml, reply);
            }
            xml.element(&[action, "Result"].concat(), |xml| self.content(xml, reply));
            xml.element("ResponseMetadata", |xml| xml.text("RequestId", request_id));
        });
        xml.finish()
    }

    fn content(&self, xml: &mut Xml, reply: &Reply) {
        match reply {
            Reply::Done => xml.text("return", "true"),
            Reply::Fields(all) => listed::fields(xml, all),
            Reply::Entries { kind, entries, next_token } => {
                self.entries(xml, *kind, entries, next_token.as_ref());
            }
            Reply::Attachment(a) => attachment(xml, a.volume.as_str(), a.instance.as_str(), &a.attachment),
            Reply::Volume(volume) => self.volume(xml, volume, false),
            Reply::Volumes { volumes, next_token } => {
                xml.list("volumeSet", volumes, |xml, volume| self.volume(xml, volume, true));
                // Absent on the last page: some clients loop until it is absent.
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Instances { instances, next_token } => {
                xml.list("reservationSet", reservations(instances), |xml, launched| self.reservation(xml, &launched));
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Reservation(instances) => self.reservation(xml, &instances.iter().collect::<Vec<_>>()),
            Reply::InstanceTypes { types, next_token } => {
                xml.list("instanceTypeSet", types, instance_type);
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::CopiedVolumes(volumes) => {
                xml.list("volumeSet", volumes, |xml, volume| self.volume(xml, volume, true));
            }
            Reply::FastRestores(all) => self.fast_restores(xml, all),
            Reply::ImageMade { id, .. } => xml.text("imageId", id),
            Reply::InstanceChanges { changes } => more::instance_changes(xml, changes),
            Reply::InstanceStatuses { instances, next_token } => {
                xml.list("instanceStatusSet", instances, |xml, instance| self.instance_status(xml, instance));
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Lock(snapshot, lock, state) => more::lock(xml, snapshot.as_str(), lock, state),
            Reply::Modification(m) => xml.element("volumeModification", |xml| more::modification(xml, m)),
            Reply::Modifications { modifications, next_token } => {
                xml.list("volumeModificationSet", modifications, |xml, m: &ModificationReply| {
                    more::modification(xml, m);
                });
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Regions(regions) => xml.list("regionInfo", regions, |xml, region| {
                xml.text("regionName", region);
                xml.text("regionEndpoint", &format!("ec2.{region}.amazonaws.com"));
                xml.text("optInStatus", opt_in_status(region));
            }),
            Reply::Snapshot(snapshot) => self.snapshot(xml, snapshot, false),
            Reply::SnapshotsMade(all) => {
                xml.list("snapshotSet", all, |xml, snapshot| self.snapshot_made(xml, snapshot));
            }
            Reply::SnapshotCopied(snapshot) => {
                xml.text("snapshotId", snapshot.id.as_str());
                tags(xml, &snapshot.tags);
            }
            Reply::Snapshots { snapshots, next_token } => {
                xml.list("snapshotSet", snapshots, |xml, snapshot| self.snapshot(xml, snapshot, true));
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Tags { tags, next_token } => {
                xml.list("tagSet", tags, |xml, tag| {
                    xml.text("resourceId", &tag.resource);
                    xml.text("resourceType", tag.kind);
                    xml.text("key", &tag.key);
                    xml.text("value", &tag.value);
                });
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::VolumeAttribute(volume, attribute) => more::volume_attribute(xml, volume, *attribute),
            Reply::VolumeStatuses { statuses, next_token } => {
                xml.list("volumeStatusSet", statuses, |xml, status| self.volume_status(xml, status));
                xml.optional("nextToken", next_token.as_ref());
            }
            Reply::Zones(zones) => xml.list("availabilityZoneInfo", zones, |xml, zone| self.zone(xml, zone)),
        }
    }

    fn volume(&self, xml: &mut Xml, volume: &Volume, described: bool) {
        xml.text("volumeId", volume.id.as_str());
        xml.number("size", volume.size_gib);
        // Present and empty without a snapshot (aws-ebs-csi-driver#1140).
        xml.text("snapshotId", volume.snapshot.as_ref().map_or("", |s| s.as_str()));
        xml.text("availabilityZone", &volume.zone);
        xml.text("availabilityZoneId", self.zone_id(&volume.zone));
        xml.text("status", volume.state.as_str());
        xml.text("createTime", &time(volume.create_time));
        if described {
            xml.list("attachmentSet", &volume.attachments, |xml, (instance, a)| {
                attachment(xml, volume.id.as_str(), instance.as_str(), a);
            });
        }
        xml.text("volumeType", volume.volume_type.as_str());
        xml.optional("iops", volume.iops);
        xml.optional("throughput", volume.throughput);
        xml.flag("encrypted", volume.encrypted);
        xml.optional("kmsKeyId", volume.kms_key_id.as_ref());
        if described {
            some_tags(xml, &volume.tags);
        } else {
            tags(xml, &volume.tags);
        }
        xml.flag("multiAttachEnabled", volume.multi_attach_enabled);
        // Not known yet to CreateVolume.
        xml.optional("fastRestored", (described && volume.snapshot.is_some()).then_some(volume.fast_restored));
        xml.optional("sourceVolumeId", volume.source_volume.as_ref());
        xml.optional("volumeInitializationRate", volume.initialization_rate);
        xml.element("volumeArn", |xml| {
            xml.raw(&self.volume_arn);
            xml.raw(volume.id.as_str());
        });
        xml.text("ownerId", &self.account_id);
        more::operator(xml);
    }

    fn reservation(&self, xml: &mut Xml, instances: &[&InstanceReply]) {
        let reservation = instances.first().map_or("", |i| i.instance.reservation_id.as_str());
        xml.text("reservationId", reservation);
        xml.text("ownerId", &self.account_id);
        xml.element("groupSet", |_| {});
        xml.list("instancesSet", instances, |xml, instance| self.instance(xml, instance));
    }

    fn instance(&self, xml: &mut Xml, reply: &InstanceReply) {
        let instance = &reply.instance;
        let options = &instance.options;
        let (state, number) = instance.state.wire();
        xml.text("instanceId", instance.id.as_str());
        xml.text("imageId", &instance.image_id);
        xml.element("instanceState", |xml| {
            xml.value("code", number);
            xml.text("name", state);
        });
        xml.text("privateDnsName", &instance.private_dns_name);
        xml.text("dnsName", "");
        xml.text("reason", &instance.reason());
        xml.optional("keyName", options.key_name.as_ref());
        xml.value("amiLaunchIndex", instance.launch_index);
        xml.element("productCodes", |_| {});
        xml.text("instanceType", &instance.instance_type);
        xml.value("launchTime", seconds(instance.launch_time));
        xml.element("placement", |xml| {
            xml.text("availabilityZone", &instance.zone);
            xml.text("availabilityZoneId", self.zone_id(&instance.zone));
            xml.text("groupName", "");
            xml.text("tenancy", "default");
        });
        xml.optional("platform", instance.windows.then_some("windows"));
        xml.element("monitoring", |xml| xml.text("state", options.monitoring_word()));
        xml.text("subnetId", &reply.network.subnet);
        xml.text("vpcId", &reply.network.vpc);
        xml.text("privateIpAddress", &instance.private_ip);
        xml.value("sourceDestCheck", options.source_dest_check);
        group_set(xml, reply);
        if let Some((code, message)) = instance.state_reason() {
            xml.element("stateReason", |xml| {
                xml.text("code", code);
                xml.text("message", message);
            });
        }
        xml.text("architecture", instance_types::architecture(&instance.instance_type));
        xml.text("rootDeviceType", "ebs");
        xml.text("rootDeviceName", &instance.root_device);
        xml.list("blockDeviceMapping", &reply.mapping, block_device);
        xml.text("virtualizationType", "hvm");
        xml.text("clientToken", &instance.client_token);
        some_tags(xml, &instance.tags);
        xml.text("hypervisor", "xen");
        xml.list("networkInterfaceSet", 0..instance.network_interfaces, |xml, number| {
            self.interface(xml, reply, number);
        });
        if let Some(arn) = &options.instance_profile {
            xml.element("iamInstanceProfile", |xml| xml.text("arn", arn));
        }
        xml.value("ebsOptimized", options.ebs_optimized);
        xml.value("enaSupport", true);
        xml.element("metadataOptions", |xml| listed::fields(xml, &options.metadata.fields()));
        xml.element("enclaveOptions", |xml| xml.flag("enabled", false));
        xml.element("hibernationOptions", |xml| xml.flag("configured", false));
        xml.text("platformDetails", if instance.windows { "Windows" } else { "Linux/UNIX" });
        xml.text("usageOperation", if instance.windows { "RunInstances:0002" } else { "RunInstances" });
        more::operator(xml);
    }

    fn interface(&self, xml: &mut Xml, reply: &InstanceReply, number: u32) {
        let instance = &reply.instance;
        xml.text("networkInterfaceId", &interface_id(instance.id.as_str(), number));
        xml.text("subnetId", &reply.network.subnet);
        xml.text("vpcId", &reply.network.vpc);
        xml.text("ownerId", &self.account_id);
        xml.text("status", "in-use");
        xml.text("macAddress", &mac(instance, number));
        if number == 0 {
            xml.text("privateIpAddress", &instance.private_ip);
            xml.text("privateDnsName", &instance.private_dns_name);
        }
        xml.value("sourceDestCheck", instance.options.source_dest_check);
        group_set(xml, reply);
        xml.element("attachment", |xml| {
            xml.text("attachmentId", &interface_attachment_id(instance.id.as_str(), number));
            xml.value("deviceIndex", number);
            xml.text("status", "attached");
            xml.value("attachTime", seconds(instance.launch_time));
            xml.value("deleteOnTermination", true);
        });
        let addresses = (number == 0).then_some(instance);
        xml.list("privateIpAddressesSet", addresses, |xml, instance| {
            xml.value("primary", true);
            xml.text("privateDnsName", &instance.private_dns_name);
            xml.text("privateIpAddress", &instance.private_ip);
        });
        xml.text("interfaceType", "interface");
    }

    fn zone(&self, xml: &mut Xml, zone: &Zone) {
        xml.text("zoneName", &zone.name);
        xml.text("zoneState", "available");
        xml.text("regionName", &self.region);
        xml.element("messageSet", |_| {});
        xml.text("optInStatus", "opt-in-not-required");
        xml.text("zoneId", &zone.id);
        xml.text("groupName", &zone_group(&self.region));
        xml.optional("groupLongName", zone_group_in_words(&self.region));
        xml.text("networkBorderGroup", &self.region);
        xml.text("zoneType", "availability-zone");
    }
}

/// Encodes the body of an error of `service`. In EC2's, `RequestID` is upper-case, and there is no namespace
/// (aws-ebs-csi-driver#1801).
pub fn error(service: Service, request_id: &str, error: &Ec2Error) -> String {
    if service != Service::Ec2 {
        return super::foreign::response(service.namespace(), error.code(), &error.to_string(), request_id);
    }
    let mut xml = Xml::document();
    xml.element("Response", |xml| {
        xml.element("Errors", |xml| {
            xml.element("Error", |xml| {
                xml.text("Code", error.code());
                xml.text("Message", &error.to_string());
            });
        });
        xml.text("RequestID", request_id);
    });
    xml.finish()
}

/// Encodes the groups of an instance: the default one.
fn group_set(xml: &mut Xml, reply: &InstanceReply) {
    xml.list("groupSet", [()], |xml, ()| {
        xml.text("groupId", &reply.network.group);
        xml.text("groupName", "default");
    });
}

fn attachment(xml: &mut Xml, volume: &str, instance: &str, attachment: &Attachment) {
    xml.text("volumeId", volume);
    xml.text("instanceId", instance);
    xml.text("device", &attachment.device);
    xml.text("status", attachment.state.as_str());
    xml.text("attachTime", &seconds(attachment.attach_time));
    xml.flag("deleteOnTermination", attachment.delete_on_termination);
    xml.number("ebsCardIndex", attachment.ebs_card_index.into());
}

fn block_device(xml: &mut Xml, item: &AttachmentReply) {
    xml.text("deviceName", &item.attachment.device);
    // Never without its volume: the EBS driver dereferences it.
    xml.element("ebs", |xml| {
        xml.text("volumeId", item.volume.as_str());
        xml.text("status", item.attachment.state.as_str());
        xml.value("attachTime", seconds(item.attachment.attach_time));
        xml.value("deleteOnTermination", item.attachment.delete_on_termination);
        xml.value("ebsCardIndex", item.attachment.ebs_card_index);
    });
}

fn tags(xml: &mut Xml, tags: &BTreeMap<String, String>) {
    xml.list("tagSet", tags, |xml, (key, value)| {
        xml.text("key", key);
        xml.text("value", value);
    });
}

/// Encodes tags as in Describe answers: without tags the list is absent, and scripts that print tags must cope with
/// that.
fn some_tags(xml: &mut Xml, all: &BTreeMap<String, String>) {
    if !all.is_empty() {
        tags(xml, all);
    }
}

fn instance_type(xml: &mut Xml, t: &InstanceType) {
    let metal = t.metal();
    xml.text("instanceType", t.name);
    xml.value("currentGeneration", t.current);
    xml.value("freeTierEligible", t.free_tier);
    xml.list("supportedUsageClasses", ["on-demand", "spot"], plain);
    xml.list("supportedRootDeviceTypes", ["ebs"], plain);
    xml.list("supportedVirtualizationTypes", ["hvm"], plain);
    xml.value("bareMetal", metal);
    // Bare metal has none.
    xml.optional("hypervisor", (!metal).then_some(t.hypervisor()));
    xml.element("processorInfo", |xml| {
        xml.list("supportedArchitectures", [instance_types::architecture(t.name)], plain);
    });
    xml.element("vCpuInfo", |xml| {
        xml.value("defaultVCpus", t.vcpus);
        xml.value("defaultCores", t.vcpus / t.threads_per_core);
        xml.value("defaultThreadsPerCore", t.threads_per_core);
    });
    xml.element("memoryInfo", |xml| xml.value("sizeInMiB", t.memory_mib));
    xml.value("instanceStorageSupported", t.disks.count > 0);
    if t.disks.count > 0 {
        xml.element("instanceStorageInfo", |xml| {
            xml.value("totalSizeInGB", t.disks.count * t.disks.size_gb);
            xml.list("disks", [t.disks], |xml, disks| {
                xml.value("sizeInGB", disks.size_gb);
                xml.value("count", disks.count);
                xml.text("type", disks.kind);
            });
        });
    }
    xml.element("ebsInfo", |xml| {
        xml.text("ebsOptimizedSupport", t.ebs_optimized());
        xml.text("encryptionSupport", "supported");
        xml.text("nvmeSupport", t.ebs_nvme());
        let (devices, kind) = t.limit.wire_form();
        xml.optional("maximumEbsAttachments", devices);
        xml.optional("attachmentLimitType", kind);
        xml.value("maximumEbsCards", t.ebs_cards);
        if t.ebs_cards > 1 {
            xml.list("ebsCardSet", 0..t.ebs_cards, |xml, card| xml.value("ebsCardIndex", card));
        }
    });
    xml.element("networkInfo", |xml| {
        xml.value("maximumNetworkInterfaces", t.network_interfaces());
        xml.value("maximumNetworkCards", 1);
        xml.value("defaultNetworkCardIndex", 0);
        xml.value("ipv6Supported", true);
        xml.text("enaSupport", t.ena());
    });
    xml.value("hibernationSupported", false);
    xml.value("burstablePerformanceSupported", t.burstable());
    xml.value("dedicatedHostsSupported", true);
    xml.value("autoRecoverySupported", true);
}

/// Encodes a text item.
fn plain(xml: &mut Xml, text: &str) {
    xml.raw(text);
}
