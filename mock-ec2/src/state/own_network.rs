//! VPCs and subnets that the account created, as bare objects: with an address range and tags, and without their own
//! route, gateway, access list or security group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use substrate::ids as make_id;

use super::command::Reply;
use super::error::Ec2Error;
use super::instance::InstanceState;
use super::listing::{Entry, Field, Named, group, list, text};
use super::resource_errors::ResourceErrors;
use super::tags::check_tags;
use super::{Call, State};

/// Range of prefix lengths of a VPC or subnet.
const PREFIXES: std::ops::RangeInclusive<u32> = 16..=28;
/// Number of addresses that AWS reserves in a subnet.
const RESERVED: u32 = 5;

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cidr {
    base: u32,
    prefix: u32,
}

impl Cidr {
    /// Parses a range. Bits beyond the prefix are cleared, as AWS does.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        Some(Self { base: u32::from(address) & mask, prefix })
    }

    fn size(self) -> u64 {
        1 << (32 - self.prefix)
    }

    fn end(self) -> u64 {
        u64::from(self.base) + self.size()
    }

    fn contains(self, other: Self) -> bool {
        self.base <= other.base && other.end() <= self.end()
    }

    fn overlaps(self, other: Self) -> bool {
        u64::from(self.base) < other.end() && u64::from(other.base) < self.end()
    }

    /// Returns the address `number`, from 0.
    pub(super) fn address(self, number: u64) -> std::net::Ipv4Addr {
        let within = u32::try_from(number % self.size()).unwrap_or(0);
        std::net::Ipv4Addr::from(self.base + within)
    }

    /// Returns the number of addresses for instances.
    pub(super) fn room(self) -> u64 {
        self.size().saturating_sub(u64::from(RESERVED))
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", std::net::Ipv4Addr::from(self.base), self.prefix)
    }
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnSubnet {
    /// Its VPC.
    pub vpc: String,
    /// Its zone.
    pub zone: String,
    /// Its addresses.
    pub cidr: Cidr,
}

/// A request about a VPC or a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkRequest {
    /// CreateVpc: the addresses and tags.
    CreateVpc(String, BTreeMap<String, String>),
    /// DeleteVpc.
    DeleteVpc(String),
    /// CreateSubnet.
    CreateSubnet {
        /// The VPC.
        vpc: String,
        /// The addresses.
        cidr: String,
        /// The zone by name.
        zone: Option<String>,
        /// The zone by id.
        zone_id: Option<String>,
        /// Tags.
        tags: BTreeMap<String, String>,
    },
    /// DeleteSubnet.
    DeleteSubnet(String),
}

impl NetworkRequest {
    /// Returns the action's name.
    pub fn action(&self) -> &'static str {
        match self {
            Self::CreateVpc(..) => "CreateVpc",
            Self::DeleteVpc(_) => "DeleteVpc",
            Self::CreateSubnet { .. } => "CreateSubnet",
            Self::DeleteSubnet(_) => "DeleteSubnet",
        }
    }
}

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
                    (name, id) => self.zone_of(name.as_deref(), id.as_deref())?,
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
            return Err(Ec2Error::Resource { code: "InvalidVpc.Range", text });
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
            return Err(Ec2Error::Resource { code: "InvalidSubnet.Range", text });
        }
        let taken = self.account.subnets.values().filter(|subnet| subnet.vpc == vpc).map(|subnet| subnet.cidr);
        // The default subnets fill the ranges of the default VPC.
        let default = ranges.iter().copied().filter(|_| vpc == self.vpc_id());
        if taken.chain(default).any(|other| other.overlaps(range)) {
            let text = format!("The CIDR '{cidr}' conflicts with another subnet");
            return Err(Ec2Error::Resource { code: "InvalidSubnet.Conflict", text });
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
            let facets = vec![
                ("cidr", cidr.to_string()),
                ("cidr-block-association.cidr-block", cidr.to_string()),
                ("cidr-block-association.state", "associated".to_owned()),
                ("dhcp-options-id", self.network_id("dhcp options", "dopt")),
                ("is-default", "false".to_owned()),
                ("isDefault", "false".to_owned()),
                ("state", "available".to_owned()),
                ("vpc-id", id.clone()),
            ];
            self.entry(id.clone(), facets, self.own_vpc_fields(id, *cidr, "available"))
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
        let facets = vec![
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
        self.entry(id.to_owned(), facets, fields)
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
        code: "DependencyViolation",
        text: format!("The {what} '{id}' has dependencies and cannot be deleted."),
    }
}
