//! VPCs and subnets that the account created, as bare objects: with an address range and tags, and without their own
//! route, gateway, access list or security group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of addresses that AWS reserves in a subnet.
const RESERVED: u32 = 5;

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cidr {
    base: u32,
    pub(super) prefix: u32,
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

    pub(super) fn contains(self, other: Self) -> bool {
        self.base <= other.base && other.end() <= self.end()
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
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
