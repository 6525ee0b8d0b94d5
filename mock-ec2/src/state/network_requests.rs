//! Creates and deletes VPCs and subnets of the account.

use std::collections::BTreeMap;

use substrate::ids as make_id;

use super::code::Code;
use super::command::Reply;
use super::error::{Ec2Error, Missing};
use super::instance::InstanceState;
use super::listing::{Entry, Field, Named, group, list, text};
use super::own_network::{Cidr, NetworkRequest, OwnSubnet};
use super::resource_errors::ResourceErrors;
use super::tags::check_tags;
use super::{Call, State};

/// Range of prefix lengths of a VPC or subnet.
const PREFIXES: std::ops::RangeInclusive<u32> = 16..=28;

impl State {
    pub(super) fn network_request(&mut self, call: Call<'_>, request: &NetworkRequest) -> Result<Reply, Ec2Error> {
        match request {
            NetworkRequest::CreateVpc(cidr, tags) => self.create_vpc(call, cidr, tags),
            NetworkRequest::DeleteVpc(id) => {
                self.known("vpc", id)?;
                if *id == self.vpc_id() || self.account.subnets.values().any(|subnet| subnet.vpc == *id) {
                    return Err(in_use("vpc", id));
                }
                call.check_dry_run()?;
                self.account.vpcs.remove(id);
                self.account.tags.remove(id);
                Ok(Reply::Done)
            }
            NetworkRequest::CreateSubnet { vpc, cidr, zone, zone_id, tags } => {
                let zone = match (zone, zone_id) {
                    (None, None) => self.settings.zones.first().map(|zone| zone.name.clone()).unwrap_or_default(),
                    (name, id) => {
                        self.zone_of(name.as_deref(), id.as_deref()).map_err(|error| self.no_subnets_there(error))?
                    }
                };
                self.create_subnet(call, vpc, cidr, zone, tags)
            }
            NetworkRequest::DeleteSubnet(id) => {
                self.known("subnet", id)?;
                let default = !self.account.subnets.contains_key(id);
                let uses = |i: &super::instance::Instance| {
                    i.subnet.as_ref() == Some(id) && i.state != InstanceState::Terminated
                };
                if self.instances.values().any(|i| uses(i)) {
                    return Err(in_use("subnet", id));
                }
                if default {
                    let text =
                        format!("The subnet '{id}' is a default one, which cannot be deleted: it is not emulated.");
                    return Err(Ec2Error::UnsupportedOperation(text));
                }
                call.check_dry_run()?;
                self.account.subnets.remove(id);
                self.account.tags.remove(id);
                Ok(Reply::Done)
            }
        }
    }

    /// Returns `error` as CreateSubnet words it: an unknown zone is an invalid value (kz8s/tack#67).
    fn no_subnets_there(&self, error: Ec2Error) -> Ec2Error {
        match error {
            Ec2Error::ZoneNotFound(Missing(unknown)) => {
                let zones: Vec<&str> = self.settings.zones.iter().map(|zone| zone.name.as_str()).collect();
                Ec2Error::InvalidParameterValue(format!(
                    "Value ({}) for parameter availabilityZone is invalid. Subnets can currently only be created in the \
                     following availability zones: {}.",
                    unknown.join(", "),
                    zones.join(", ")
                ))
            }
            error => error,
        }
    }

    fn known(&self, prefix: &str, id: &str) -> Result<(), Ec2Error> {
        if let Some(resource_errors) = ResourceErrors::of(prefix) {
            resource_errors.check(id)?;
        }
        self.resource_errors_of(id).map(drop)
    }

    fn create_vpc(&mut self, call: Call<'_>, cidr: &str, tags: &BTreeMap<String, String>) -> Result<Reply, Ec2Error> {
        let range = read(cidr)?;
        if !PREFIXES.contains(&range.prefix) {
            let text = format!("The CIDR '{cidr}' is invalid.");
            return Err(Ec2Error::Resource { code: Code::InvalidVpcRange, text });
        }
        check_tags(&BTreeMap::new(), tags)?;
        call.check_dry_run()?;
        let id = self.next_network_id("vpc");
        self.account.vpcs.insert(id.clone(), range);
        self.tag_network(&id, tags);
        let fields = self.with_tags(self.own_vpc_fields(&id, range, "pending"), tags);
        Ok(Reply::Fields(vec![group("vpc", fields)]))
    }

    fn create_subnet(
        &mut self,
        call: Call<'_>,
        vpc: &str,
        cidr: &str,
        zone: String,
        tags: &BTreeMap<String, String>,
    ) -> Result<Reply, Ec2Error> {
        self.known("vpc", vpc)?;
        let range = read(cidr)?;
        let ranges: Vec<Cidr> = match self.account.vpcs.get(vpc) {
            Some(own) => vec![*own],
            None => self.settings.zones.iter().filter_map(|zone| Cidr::parse(&self.cidr(&zone.name))).collect(),
        };
        if !PREFIXES.contains(&range.prefix) || !ranges.iter().any(|own| own.contains(range)) {
            let text = format!("The CIDR '{cidr}' is invalid.");
            return Err(Ec2Error::Resource { code: Code::InvalidSubnetRange, text });
        }
        let taken = self.account.subnets.values().filter(|subnet| subnet.vpc == vpc).map(|subnet| subnet.cidr);
        // The default subnets fill the ranges of the default VPC.
        let default = ranges.iter().copied().filter(|_| vpc == self.vpc_id());
        if taken.chain(default).any(|other| other.overlaps(range)) {
            let text = format!("The CIDR '{cidr}' conflicts with another subnet");
            return Err(Ec2Error::Resource { code: Code::InvalidSubnetConflict, text });
        }
        check_tags(&BTreeMap::new(), tags)?;
        call.check_dry_run()?;
        let id = self.next_network_id("subnet");
        let subnet = OwnSubnet { vpc: vpc.to_owned(), zone, cidr: range };
        self.account.subnets.insert(id.clone(), subnet.clone());
        self.tag_network(&id, tags);
        let entry = self.own_subnet(&id, &subnet);
        Ok(Reply::Fields(vec![group("subnet", self.with_tags(entry.fields, tags))]))
    }

    fn with_tags(&self, mut fields: Vec<Named>, tags: &BTreeMap<String, String>) -> Vec<Named> {
        let pair = |(key, value): (&String, &String)| vec![text("key", key), text("value", value)];
        fields.push(list("tagSet", tags.iter().map(pair)));
        fields
    }

    fn next_network_id(&mut self, prefix: &str) -> String {
        self.account.made_networks += 1;
        make_id::ec2(&mut self.seed.child("own network").child(&self.account.made_networks.to_string()).rng(), prefix)
    }

    fn tag_network(&mut self, id: &str, tags: &BTreeMap<String, String>) {
        if !tags.is_empty() {
            self.account.tags.insert(id.to_owned(), tags.clone());
        }
    }

    fn own_vpc_fields(&self, id: &str, cidr: Cidr, state: &str) -> Vec<Named> {
        let association = make_id::ec2(&mut self.seed.child("own vpc cidr").child(id).rng(), "vpc-cidr-assoc");
        let associated = vec![
            text("associationId", association),
            text("cidrBlock", cidr),
            group("cidrBlockState", vec![text("state", "associated")]),
        ];
        vec![
            text("vpcId", id),
            text("ownerId", &self.settings.account_id),
            text("state", state),
            text("cidrBlock", cidr),
            list("cidrBlockAssociationSet", [associated]),
            text("dhcpOptionsId", self.network_id("dhcp options", "dopt")),
            text("instanceTenancy", "default"),
            text("isDefault", false),
        ]
    }

    pub(super) fn own_vpcs(&self) -> impl Iterator<Item = Entry> {
        self.account.vpcs.iter().map(|(id, cidr)| {
            let filter_fields = vec![
                ("cidr", cidr.to_string()),
                ("cidr-block", cidr.to_string()),
                ("cidr-block-association.cidr-block", cidr.to_string()),
                ("cidr-block-association.state", "associated".to_owned()),
                ("dhcp-options-id", self.network_id("dhcp options", "dopt")),
                ("is-default", "false".to_owned()),
                ("isDefault", "false".to_owned()),
                ("state", "available".to_owned()),
                ("vpc-id", id.clone()),
            ];
            self.entry(id.clone(), filter_fields, self.own_vpc_fields(id, *cidr, "available"))
        })
    }

    pub(super) fn own_subnets(&self) -> impl Iterator<Item = Entry> {
        self.account.subnets.iter().map(|(id, subnet)| self.own_subnet(id, subnet))
    }

    fn own_subnet(&self, id: &str, subnet: &OwnSubnet) -> Entry {
        let here = self.instances.values().filter(|i| i.subnet.as_deref() == Some(id));
        let taken: u64 =
            here.filter(|i| i.state != InstanceState::Terminated).map(|i| u64::from(i.network_interfaces)).sum();
        let free = subnet.cidr.room().saturating_sub(taken);
        let (arn, zone_id) = (self.arn("subnet", id), self.zone_id(&subnet.zone).to_owned());
        let filter_fields = vec![
            ("availability-zone", subnet.zone.clone()),
            ("availability-zone-id", zone_id.clone()),
            ("availabilityZone", subnet.zone.clone()),
            ("available-ip-address-count", free.to_string()),
            ("cidr", subnet.cidr.to_string()),
            ("cidr-block", subnet.cidr.to_string()),
            ("cidrBlock", subnet.cidr.to_string()),
            ("default-for-az", "false".to_owned()),
            ("defaultForAz", "false".to_owned()),
            ("map-public-ip-on-launch", "false".to_owned()),
            ("state", "available".to_owned()),
            ("subnet-arn", arn.clone()),
            ("subnet-id", id.to_owned()),
            ("vpc-id", subnet.vpc.clone()),
        ];
        let fields = vec![
            text("subnetId", id),
            text("subnetArn", arn),
            text("state", "available"),
            text("ownerId", &self.settings.account_id),
            text("vpcId", &subnet.vpc),
            text("cidrBlock", subnet.cidr),
            ("ipv6CidrBlockAssociationSet", Field::List(Vec::new())),
            text("availableIpAddressCount", free),
            text("availabilityZone", &subnet.zone),
            text("availabilityZoneId", zone_id),
            text("defaultForAz", false),
            text("mapPublicIpOnLaunch", false),
            text("assignIpv6AddressOnCreation", false),
        ];
        self.entry(id.to_owned(), filter_fields, fields)
    }
}

fn read(cidr: &str) -> Result<Cidr, Ec2Error> {
    Cidr::parse(cidr).ok_or_else(|| {
        let text = format!("Value ({cidr}) for parameter cidrBlock is invalid. This is not a valid CIDR block.");
        Ec2Error::InvalidParameterValue(text)
    })
}

fn in_use(what: &str, id: &str) -> Ec2Error {
    Ec2Error::Resource {
        code: Code::DependencyViolation,
        text: format!("The {what} '{id}' has dependencies and cannot be deleted."),
    }
}
