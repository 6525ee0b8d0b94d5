//! The default network: one VPC with a subnet in each zone, security group, route table, gateway, access list, DHCP
//! options, and the interfaces of instances. It can be read and referred to; only its tags can change.

use std::collections::BTreeMap;

use substrate::ids as make_id;

use super::State;
use super::command::{Reply, ResourceId};
use super::error::Ec2Error;
use super::instance::{Instance, InstanceState};
use super::listing::{Entry, Field, Named, group, list, text};
use super::resource_errors::ResourceErrors;
use super::times::seconds;
use super::zone::Zone;

/// Range that matches every address.
const ANYWHERE: &str = "0.0.0.0/0";

/// Returns the MAC address of interface `number`: locally administered, from the instance's ordinal.
pub(crate) fn mac(instance: &Instance, number: u32) -> String {
    let [_, _, a, b, c, d] = (instance.ordinal * 256 + u64::from(number)).to_be_bytes()[2..] else {
        return String::new();
    };
    format!("0e:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Returns the id of an instance's network interface: the instance's id, rotated by the number.
pub(crate) fn interface_id(instance: &str, number: u32) -> String {
    format!("eni-0{:016x}", turned(instance, number))
}

/// Returns the id of the attachment of an instance's network interface.
pub(crate) fn interface_attachment_id(instance: &str, number: u32) -> String {
    format!("eni-attach-0{:016x}", turned(instance, number).rotate_left(17))
}

fn turned(instance: &str, number: u32) -> u64 {
    let digits = instance.strip_prefix("i-").unwrap_or(instance);
    let tail = u64::from_str_radix(&digits[digits.len().saturating_sub(8)..], 16).unwrap_or(0);
    tail.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number))
}

impl State {
    /// Returns the id of the default VPC.
    pub(crate) fn vpc_id(&self) -> String {
        self.network_id("vpc", "vpc")
    }

    /// Returns the id of the default subnet in `zone`.
    pub(crate) fn subnet_id(&self, zone: &str) -> String {
        make_id::ec2(&mut self.seed.child("subnet").child(zone).rng(), "subnet")
    }

    /// Returns the VPC and the subnet of an instance.
    pub(super) fn place_of(&self, instance: &Instance) -> (String, String) {
        let own = instance.subnet.as_ref().and_then(|id| Some((id, self.account.subnets.get(id)?)));
        match own {
            Some((id, subnet)) => (subnet.vpc.clone(), id.clone()),
            None => (self.vpc_id(), self.subnet_id(&instance.zone)),
        }
    }

    /// Returns the id of the default security group.
    pub(crate) fn security_group_id(&self) -> String {
        self.network_id("security group", "sg")
    }

    /// Returns the address range of the default subnet in `zone`. Ranges do not overlap.
    pub(super) fn cidr(&self, zone: &str) -> String {
        format!("10.{}.0.0/16", self.zone_number(zone))
    }

    /// Returns the position of `zone` among the zones, from 0.
    pub(super) fn zone_number(&self, zone: &str) -> usize {
        self.settings.zones.iter().position(|z| z.name == zone).unwrap_or(0)
    }

    pub(super) fn network_id(&self, what: &str, prefix: &str) -> String {
        make_id::ec2(&mut self.seed.child(what).rng(), prefix)
    }

    pub(super) fn arn(&self, kind: &str, id: &str) -> String {
        format!("arn:aws:ec2:{}:{}:{kind}/{id}", self.settings.region, self.settings.account_id)
    }

    /// Returns the tags of a resource other than an instance, snapshot or volume.
    pub(super) fn tags_of_network(&self, id: &str) -> BTreeMap<String, String> {
        self.account.tags.get(id).cloned().unwrap_or_default()
    }

    /// Returns the error words of `id`, if the resource exists and has one.
    pub(super) fn resource_errors_of(&self, id: &str) -> Result<&'static ResourceErrors, Ec2Error> {
        let resource_errors = ResourceErrors::of_id(id).ok_or_else(|| Ec2Error::InvalidId(id.to_owned()))?;
        let there = match resource_errors.prefix {
            // Each well-formed image id exists until it is deregistered.
            "ami" => !self.account.gone_images.contains(id),
            "acl" => id == self.network_id("network acl", "acl"),
            "dopt" => id == self.network_id("dhcp options", "dopt"),
            "eni" => self.interfaces().iter().any(|entry| entry.id == id),
            "igw" => id == self.network_id("internet gateway", "igw"),
            "key" => self.own_keys(&[], false).iter().chain(&self.key_pairs(&[])).any(|entry| entry.id == id),
            "pg" => self.account.groups.values().any(|group| group.id == id),
            "replacevol" => self.account.replace_tasks.contains_key(id),
            "rtb" => id == self.network_id("route table", "rtb"),
            "sg" => id == self.security_group_id(),
            "subnet" => {
                self.account.subnets.contains_key(id)
                    || self.settings.zones.iter().any(|zone| self.subnet_id(&zone.name) == id)
            }
            "vpc" => id == self.vpc_id() || self.account.vpcs.contains_key(id),
            _ => false,
        };
        if there { Ok(resource_errors) } else { Err(resource_errors.not_found(&[id])) }
    }

    /// Returns id, type and tags of all tagged resources other than instances, snapshots and volumes.
    pub(super) fn other_tags(&self) -> impl Iterator<Item = (&str, &'static str, &BTreeMap<String, String>)> {
        self.account.tags.iter().filter_map(|(id, tags)| Some((id.as_str(), ResourceErrors::of_id(id)?.resource, tags)))
    }

    pub(super) fn retag_other(&mut self, id: &str, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut tags = self.account.tags.remove(id).unwrap_or_default();
        change(&mut tags);
        if !tags.is_empty() {
            self.account.tags.insert(id.to_owned(), tags);
        }
    }

    pub(super) fn entry(&self, id: String, filter_fields: Vec<(&'static str, String)>, fields: Vec<Named>) -> Entry {
        let mut filter_fields = filter_fields;
        filter_fields.push(("owner-id", self.settings.account_id.clone()));
        Entry { tags: self.tags_of_network(&id), id, filter_fields, fields }
    }

    pub(super) fn vpcs(&self) -> Vec<Entry> {
        let (id, options) = (self.vpc_id(), self.network_id("dhcp options", "dopt"));
        let association =
            |zone: &Zone| make_id::ec2(&mut self.seed.child("vpc cidr").child(&zone.name).rng(), "vpc-cidr-assoc");
        let zones = &self.settings.zones;
        let cidr = zones.first().map(|zone| self.cidr(&zone.name)).unwrap_or_default();
        let mut filter_fields = vec![
            ("cidr", cidr.clone()),
            ("cidr-block", cidr.clone()),
            ("dhcp-options-id", options.clone()),
            ("is-default", "true".to_owned()),
            ("isDefault", "true".to_owned()),
            ("state", "available".to_owned()),
            ("vpc-id", id.clone()),
        ];
        for zone in zones {
            filter_fields.push(("cidr-block-association.cidr-block", self.cidr(&zone.name)));
            filter_fields.push(("cidr-block-association.association-id", association(zone)));
            filter_fields.push(("cidr-block-association.state", "associated".to_owned()));
        }
        let associations = zones.iter().map(|zone| {
            vec![
                text("associationId", association(zone)),
                text("cidrBlock", self.cidr(&zone.name)),
                group("cidrBlockState", vec![text("state", "associated")]),
            ]
        });
        let fields = vec![
            text("vpcId", &id),
            text("ownerId", &self.settings.account_id),
            text("state", "available"),
            text("cidrBlock", cidr),
            list("cidrBlockAssociationSet", associations),
            text("dhcpOptionsId", options),
            text("instanceTenancy", "default"),
            text("isDefault", true),
        ];
        [self.entry(id, filter_fields, fields)].into_iter().chain(self.own_vpcs()).collect()
    }

    pub(super) fn subnets(&self) -> Vec<Entry> {
        self.settings.zones.iter().map(|zone| self.subnet(zone)).chain(self.own_subnets()).collect()
    }

    fn subnet(&self, zone: &Zone) -> Entry {
        let (id, vpc, cidr) = (self.subnet_id(&zone.name), self.vpc_id(), self.cidr(&zone.name));
        let default = self.instances.values().filter(|i| i.subnet.is_none());
        let here = default.filter(|i| i.zone == zone.name && i.state != InstanceState::Terminated);
        let taken: usize = here.map(|i| i.network_interfaces as usize).sum();
        // AWS reserves the first four addresses and the last.
        let free = (65_536_usize - 5).saturating_sub(taken);
        let arn = self.arn("subnet", &id);
        let filter_fields = vec![
            ("availability-zone", zone.name.clone()),
            ("availability-zone-id", zone.id.clone()),
            ("availabilityZone", zone.name.clone()),
            ("available-ip-address-count", free.to_string()),
            ("cidr", cidr.clone()),
            ("cidr-block", cidr.clone()),
            ("cidrBlock", cidr.clone()),
            ("default-for-az", "true".to_owned()),
            ("defaultForAz", "true".to_owned()),
            ("enable-dns64", "false".to_owned()),
            ("ipv6-native", "false".to_owned()),
            ("map-customer-owned-ip-on-launch", "false".to_owned()),
            ("map-public-ip-on-launch", "false".to_owned()),
            ("private-dns-name-options-on-launch.enable-resource-name-dns-a-record", "false".to_owned()),
            ("private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record", "false".to_owned()),
            ("private-dns-name-options-on-launch.hostname-type", "ip-name".to_owned()),
            ("state", "available".to_owned()),
            ("subnet-arn", arn.clone()),
            ("subnet-id", id.clone()),
            ("vpc-id", vpc.clone()),
        ];
        let names = vec![
            text("hostnameType", "ip-name"),
            text("enableResourceNameDnsARecord", false),
            text("enableResourceNameDnsAAAARecord", false),
        ];
        let fields = vec![
            text("subnetId", &id),
            text("subnetArn", arn),
            text("state", "available"),
            text("ownerId", &self.settings.account_id),
            text("vpcId", vpc),
            text("cidrBlock", cidr),
            ("ipv6CidrBlockAssociationSet", Field::List(Vec::new())),
            text("availableIpAddressCount", free),
            text("availabilityZone", &zone.name),
            text("availabilityZoneId", &zone.id),
            text("defaultForAz", true),
            // Addresses here are not reachable from outside.
            text("mapPublicIpOnLaunch", false),
            text("mapCustomerOwnedIpOnLaunch", false),
            text("assignIpv6AddressOnCreation", false),
            text("enableDns64", false),
            text("ipv6Native", false),
            group("privateDnsNameOptionsOnLaunch", names),
        ];
        self.entry(id, filter_fields, fields)
    }

    pub(super) fn security_groups(&self, names: &[String]) -> Result<Vec<Entry>, Ec2Error> {
        if let (Some(other), Some(resource_errors)) =
            (names.iter().find(|name| *name != "default"), ResourceErrors::of("sg"))
        {
            return Err(resource_errors.not_found(&[other]));
        }
        let (id, vpc, account) = (self.security_group_id(), self.vpc_id(), &self.settings.account_id);
        let about = "default VPC security group";
        let filter_fields = vec![
            ("description", about.to_owned()),
            ("egress.ip-permission.cidr", ANYWHERE.to_owned()),
            ("egress.ip-permission.protocol", "-1".to_owned()),
            ("group-id", id.clone()),
            ("group-name", "default".to_owned()),
            ("ip-permission.group-id", id.clone()),
            ("ip-permission.group-name", "default".to_owned()),
            ("ip-permission.protocol", "-1".to_owned()),
            ("ip-permission.user-id", account.clone()),
            ("vpc-id", vpc.clone()),
        ];
        let rule = |groups: Vec<Vec<Named>>, ranges: Vec<Vec<Named>>| {
            vec![
                text("ipProtocol", "-1"),
                list("groups", groups),
                list("ipRanges", ranges),
                list("ipv6Ranges", []),
                list("prefixListIds", []),
            ]
        };
        let own = vec![text("userId", account), text("groupId", &id)];
        let fields = vec![
            text("ownerId", account),
            text("groupId", &id),
            text("groupName", "default"),
            text("groupDescription", about),
            text("vpcId", vpc),
            text("securityGroupArn", self.arn("security-group", &id)),
            list("ipPermissions", [rule(vec![own], Vec::new())]),
            list("ipPermissionsEgress", [rule(Vec::new(), vec![vec![text("cidrIp", ANYWHERE)]])]),
        ];
        Ok(vec![self.entry(id, filter_fields, fields)])
    }

    pub(super) fn route_tables(&self) -> Vec<Entry> {
        let (id, vpc) = (self.network_id("route table", "rtb"), self.vpc_id());
        let association = self.network_id("route table association", "rtbassoc");
        let gateway = self.network_id("internet gateway", "igw");
        let local = self.settings.zones.iter().map(|zone| (self.cidr(&zone.name), "local", "CreateRouteTable"));
        let routes: Vec<(String, &str, &str)> =
            local.chain([(ANYWHERE.to_owned(), gateway.as_str(), "CreateRoute")]).collect();
        let mut filter_fields = vec![
            ("association.main", "true".to_owned()),
            ("association.route-table-association-id", association.clone()),
            ("association.route-table-id", id.clone()),
            ("route-table-id", id.clone()),
            ("vpc-id", vpc.clone()),
        ];
        for (cidr, target, origin) in &routes {
            filter_fields.push(("route.destination-cidr-block", cidr.clone()));
            filter_fields.push(("route.gateway-id", (*target).to_owned()));
            filter_fields.push(("route.origin", (*origin).to_owned()));
            filter_fields.push(("route.state", "active".to_owned()));
        }
        let reported = routes.iter().map(|(cidr, target, origin)| {
            vec![
                text("destinationCidrBlock", cidr),
                text("gatewayId", target),
                text("state", "active"),
                text("origin", origin),
            ]
        });
        let main = vec![
            text("routeTableAssociationId", association),
            text("routeTableId", &id),
            text("main", true),
            group("associationState", vec![text("state", "associated")]),
        ];
        let fields = vec![
            text("routeTableId", &id),
            text("vpcId", vpc),
            text("ownerId", &self.settings.account_id),
            list("routeSet", reported),
            list("associationSet", [main]),
            list("propagatingVgwSet", []),
        ];
        vec![self.entry(id, filter_fields, fields)]
    }

    pub(super) fn internet_gateways(&self) -> Vec<Entry> {
        let (id, vpc) = (self.network_id("internet gateway", "igw"), self.vpc_id());
        let filter_fields = vec![
            ("attachment.state", "available".to_owned()),
            ("attachment.vpc-id", vpc.clone()),
            ("internet-gateway-id", id.clone()),
        ];
        let fields = vec![
            text("internetGatewayId", &id),
            text("ownerId", &self.settings.account_id),
            list("attachmentSet", [vec![text("vpcId", vpc), text("state", "available")]]),
        ];
        vec![self.entry(id, filter_fields, fields)]
    }

    pub(super) fn network_acls(&self) -> Vec<Entry> {
        let (id, vpc) = (self.network_id("network acl", "acl"), self.vpc_id());
        let mut filter_fields = vec![
            ("association.network-acl-id", id.clone()),
            ("default", "true".to_owned()),
            ("entry.cidr", ANYWHERE.to_owned()),
            ("entry.protocol", "-1".to_owned()),
            ("network-acl-id", id.clone()),
            ("vpc-id", vpc.clone()),
        ];
        let flags = ["true", "false"].map(|flag| ("entry.egress", flag.to_owned()));
        let actions = ["allow", "deny"].map(|action| ("entry.rule-action", action.to_owned()));
        let numbers = ["100", "32767"].map(|number| ("entry.rule-number", number.to_owned()));
        filter_fields.extend(flags.into_iter().chain(actions).chain(numbers));
        let entries = [(100, "allow", true), (32_767, "deny", true), (100, "allow", false), (32_767, "deny", false)];
        let entries = entries.map(|(number, action, egress)| {
            vec![
                text("ruleNumber", number),
                text("protocol", "-1"),
                text("ruleAction", action),
                text("egress", egress),
                text("cidrBlock", ANYWHERE),
            ]
        });
        let mut associations = Vec::new();
        for zone in &self.settings.zones {
            let association = make_id::ec2(&mut self.seed.child("acl association").child(&zone.name).rng(), "aclassoc");
            filter_fields.push(("association.association-id", association.clone()));
            filter_fields.push(("association.subnet-id", self.subnet_id(&zone.name)));
            associations.push(vec![
                text("networkAclAssociationId", association),
                text("networkAclId", &id),
                text("subnetId", self.subnet_id(&zone.name)),
            ]);
        }
        let fields = vec![
            text("networkAclId", &id),
            text("vpcId", vpc),
            text("ownerId", &self.settings.account_id),
            text("default", true),
            list("entrySet", entries),
            list("associationSet", associations),
        ];
        vec![self.entry(id, filter_fields, fields)]
    }

    pub(super) fn dhcp_options(&self) -> Vec<Entry> {
        let id = self.network_id("dhcp options", "dopt");
        let options = [("domain-name", self.private_domain()), ("domain-name-servers", "AmazonProvidedDNS".to_owned())];
        let mut filter_fields = vec![("dhcp-options-id", id.clone())];
        for (key, value) in &options {
            filter_fields.push(("key", (*key).to_owned()));
            filter_fields.push(("value", value.clone()));
        }
        let reported =
            options.map(|(key, value)| vec![text("key", key), list("valueSet", [vec![text("value", value)]])]);
        let fields = vec![
            text("dhcpOptionsId", &id),
            text("ownerId", &self.settings.account_id),
            list("dhcpConfigurationSet", reported),
        ];
        vec![self.entry(id, filter_fields, fields)]
    }

    /// Returns the domain of private DNS names.
    pub(super) fn private_domain(&self) -> String {
        let region = self.settings.region.as_str();
        if region == "us-east-1" { "ec2.internal".to_owned() } else { format!("{region}.compute.internal") }
    }

    pub(super) fn interfaces(&self) -> Vec<Entry> {
        let alive = self.instances.values().filter(|i| i.state != InstanceState::Terminated);
        alive.flat_map(|i| (0..i.network_interfaces).map(|number| self.interface(i, number))).collect()
    }

    fn interface(&self, instance: &Instance, number: u32) -> Entry {
        let id = interface_id(instance.id.as_str(), number);
        let attachment = interface_attachment_id(instance.id.as_str(), number);
        let account = &self.settings.account_id;
        let (vpc, subnet) = self.place_of(instance);
        let mac = mac(instance, number);
        let mut filter_fields = vec![
            ("attachment.attach-time", seconds(instance.launch_time)),
            ("attachment.attachment-id", attachment.clone()),
            ("attachment.delete-on-termination", "true".to_owned()),
            ("attachment.device-index", number.to_string()),
            ("attachment.instance-id", instance.id.to_string()),
            ("attachment.instance-owner-id", account.clone()),
            ("attachment.status", "attached".to_owned()),
            ("availability-zone", instance.zone.clone()),
            ("availability-zone-id", self.zone_id(&instance.zone).to_owned()),
            ("description", String::new()),
            ("group-id", self.security_group_id()),
            ("group-name", "default".to_owned()),
            ("interface-type", "interface".to_owned()),
            ("mac-address", mac.clone()),
            ("network-interface-id", id.clone()),
            ("operator.managed", "false".to_owned()),
            ("requester-managed", "false".to_owned()),
            ("source-dest-check", instance.options.source_dest_check.to_string()),
            ("status", "in-use".to_owned()),
            ("subnet-id", subnet.clone()),
            ("vpc-id", vpc.clone()),
        ];
        let mut addresses = Vec::new();
        if number == 0 {
            filter_fields.push(("private-dns-name", instance.private_dns_name.clone()));
            filter_fields.push(("private-ip-address", instance.private_ip.clone()));
            filter_fields.push(("addresses.private-ip-address", instance.private_ip.clone()));
            filter_fields.push(("addresses.primary", "true".to_owned()));
            addresses.push(vec![
                text("primary", true),
                text("privateDnsName", &instance.private_dns_name),
                text("privateIpAddress", &instance.private_ip),
            ]);
        }
        let attached = vec![
            text("attachmentId", attachment),
            text("attachTime", seconds(instance.launch_time)),
            text("deleteOnTermination", true),
            text("deviceIndex", number),
            text("networkCardIndex", 0),
            text("instanceId", &instance.id),
            text("instanceOwnerId", account),
            text("status", "attached"),
        ];
        let mut fields = vec![
            text("networkInterfaceId", &id),
            text("subnetId", subnet),
            text("vpcId", vpc),
            text("availabilityZone", &instance.zone),
            text("availabilityZoneId", self.zone_id(&instance.zone)),
            text("description", ""),
            text("ownerId", account),
            text("requesterManaged", false),
            text("status", "in-use"),
            text("macAddress", mac),
        ];
        if number == 0 {
            fields.push(text("privateIpAddress", &instance.private_ip));
            fields.push(text("privateDnsName", &instance.private_dns_name));
        }
        fields.extend([
            text("sourceDestCheck", instance.options.source_dest_check),
            list("groupSet", [self.default_group()]),
            group("attachment", attached),
            list("privateIpAddressesSet", addresses),
            list("ipv6AddressesSet", []),
            text("interfaceType", "interface"),
            group("operator", vec![text("managed", false)]),
        ]);
        self.entry(id, filter_fields, fields)
    }

    /// Returns the default security group as instances and interfaces list it.
    pub(super) fn default_group(&self) -> Vec<Named> {
        vec![text("groupId", self.security_group_id()), text("groupName", "default")]
    }

    /// Returns the key pairs of instances, or those called `names`.
    pub(super) fn key_pairs(&self, names: &[String]) -> Vec<Entry> {
        let used: BTreeMap<&str, &Instance> =
            self.instances.values().filter_map(|i| Some((i.options.key_name.as_deref()?, &**i))).collect();
        let used = used.into_iter().filter(|(name, _)| !self.account.keys.contains_key(*name));
        let wanted = used.filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name));
        wanted.map(|(name, first)| self.key_pair(name, first)).collect()
    }

    fn key_pair(&self, name: &str, first: &Instance) -> Entry {
        let draw = self.seed.child("key pair").child(name);
        let id = make_id::ec2(&mut draw.rng(), "key");
        let digits: Vec<char> =
            make_id::uuid(&mut draw.child("fingerprint").rng()).simple().to_string().chars().collect();
        let fingerprint = digits.chunks(2).map(|pair| pair.iter().collect()).collect::<Vec<String>>().join(":");
        let filter_fields =
            vec![("fingerprint", fingerprint.clone()), ("key-name", name.to_owned()), ("key-pair-id", id.clone())];
        let fields = vec![
            text("keyPairId", &id),
            text("keyName", name),
            text("keyType", "rsa"),
            text("keyFingerprint", fingerprint),
            text("createTime", super::times::time(first.launch_time)),
        ];
        Entry { tags: self.tags_of_network(&id), id, filter_fields, fields }
    }

    pub(super) fn describe_vpc_attribute(&self, id: &str, attribute: &'static str) -> Result<Reply, Ec2Error> {
        if let Some(resource_errors) = ResourceErrors::of("vpc") {
            resource_errors.check(id)?;
        }
        self.resource_errors_of(id)?;
        let default = id == self.vpc_id();
        let on = match attribute {
            "enableNetworkAddressUsageMetrics" => false,
            "enableDnsHostnames" => default,
            _ => true,
        };
        Ok(Reply::Fields(vec![text("vpcId", id), group(attribute, vec![text("value", on)])]))
    }

    /// Returns the caller's identity: the account's root user.
    pub(super) fn caller_identity(&self) -> Reply {
        let account = &self.settings.account_id;
        Reply::Fields(vec![
            text("Arn", format!("arn:aws:iam::{account}:root")),
            text("UserId", account),
            text("Account", account),
        ])
    }

    /// Returns the attributes of the account, with the values of a new AWS account.
    pub(super) fn account_attributes(&self, names: &[String]) -> Vec<Entry> {
        let all = [
            ("default-vpc", self.vpc_id()),
            ("max-elastic-ips", "5".to_owned()),
            ("max-instances", "20".to_owned()),
            ("supported-platforms", "VPC".to_owned()),
            ("vpc-max-elastic-ips", "5".to_owned()),
            ("vpc-max-security-groups-per-interface", "5".to_owned()),
        ];
        let wanted = all.into_iter().filter(|(name, _)| names.is_empty() || names.iter().any(|n| n == name));
        wanted
            .map(|(name, value)| {
                let values = list("attributeValueSet", [vec![text("attributeValue", value)]]);
                Entry { id: name.to_owned(), fields: vec![text("attributeName", name), values], ..Entry::default() }
            })
            .collect()
    }
}

impl ResourceId {
    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Volume(volume) => volume.as_str(),
            Self::Instance(instance) => instance.as_str(),
            Self::Snapshot(snapshot) => snapshot.as_str(),
            Self::Other(other) => other,
        }
    }
}
