//! Instance types: size and attach limits (EC2 user guide, "Amazon EBS volume limits for Amazon EC2 instances").

mod table;

use table::ROWS;

/// Attach limit of a type. The numbers include the root volume and assume one network interface, like the EBS driver's
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachLimit {
    /// Shared with network interfaces beyond the first.
    Shared(u32),
    /// Volumes have their own slots.
    Dedicated(u32),
    /// A type that is not on Nitro. DescribeInstanceTypes returns this number; the EBS driver uses 39.
    Xen(u32),
    /// Unpublished: treated as shared, 27.
    Unknown,
}

impl AttachLimit {
    /// Returns the largest number of devices on an instance with this many network interfaces.
    pub fn devices(self, network_interfaces: u32) -> u32 {
        match self {
            Self::Shared(devices) => devices.saturating_sub(network_interfaces.saturating_sub(1)).max(1),
            Self::Dedicated(devices) => devices,
            Self::Xen(_) => 39,
            Self::Unknown => Self::Shared(27).devices(network_interfaces),
        }
    }
}

impl AttachLimit {
    /// Returns the fields of DescribeInstanceTypes, if known: the limit, and `shared` or `dedicated`.
    pub fn wire_form(self) -> (Option<u32>, Option<&'static str>) {
        match self {
            Self::Shared(devices) | Self::Xen(devices) => (Some(devices), Some("shared")),
            Self::Dedicated(devices) => (Some(devices), Some("dedicated")),
            Self::Unknown => (None, None),
        }
    }
}

/// Instance type as DescribeInstanceTypes returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Its name.
    pub name: &'static str,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Virtual CPUs per core.
    pub threads_per_core: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its limit.
    pub limit: AttachLimit,
    /// Largest number of network interfaces.
    pub network_interfaces: u32,
    /// Local disks, which are not emulated.
    pub disks: Disks,
    /// True for the current generation.
    pub current: bool,
    /// Number of EBS cards.
    pub ebs_cards: u32,
    /// True if the AWS Free Tier covers it.
    pub free_tier: bool,
}

/// Local disks of an instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disks {
    /// Number of disks.
    pub count: u32,
    /// Size of each in GB.
    pub size_gb: u32,
    /// `ssd` or `hdd`.
    pub kind: &'static str,
}

/// Returns the architecture of the type `name`: families with a `g` after their generation are Graviton or Grace.
pub fn architecture(name: &str) -> &'static str {
    let family = name.split('.').next().unwrap_or_default();
    let generation = family.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    match generation.trim_start_matches(|c: char| c.is_ascii_digit()) {
        _ if family == "mac1" => "x86_64_mac",
        _ if family.starts_with("mac") => "arm64_mac",
        options if family == "a1" || options.contains('g') => "arm64",
        _ => "x86_64",
    }
}

impl InstanceType {
    /// Returns the largest number of network interfaces.
    pub fn network_interfaces(&self) -> u32 {
        self.network_interfaces
    }

    /// Returns `nitro` or `xen`.
    pub fn hypervisor(&self) -> &'static str {
        if matches!(self.limit, AttachLimit::Xen(_)) { "xen" } else { "nitro" }
    }

    /// Returns EC2's word for EBS optimisation: `default`, `supported` or `unsupported`.
    pub fn ebs_optimized(&self) -> &'static str {
        let (family, size) = self.name.split_once('.').unwrap_or((self.name, ""));
        match (family, size) {
            _ if self.hypervisor() == "nitro" => "default",
            ("c4" | "d2" | "f1" | "g3" | "g3s" | "h1" | "i3" | "m4" | "p2" | "p3" | "r4" | "x1" | "x1e", _) => {
                "default"
            }
            ("c1" | "m1" | "m3", "xlarge" | "2xlarge") | ("m1", "large") => "supported",
            ("c3" | "g2" | "i2" | "m2" | "r3", "xlarge" | "2xlarge" | "4xlarge") if self.name != "m2.xlarge" => {
                "supported"
            }
            _ => "unsupported",
        }
    }

    /// Returns EC2's word for NVMe devices of volumes: `required`, `supported` or `unsupported`.
    pub fn ebs_nvme(&self) -> &'static str {
        match self.hypervisor() {
            "nitro" => "required",
            // The local disks of i3 are NVMe.
            _ if self.name.starts_with("i3.") => "supported",
            _ => "unsupported",
        }
    }

    /// Returns EC2's word for the Elastic Network Adapter: `required`, `supported` or `unsupported`.
    pub fn ena(&self) -> &'static str {
        let family = self.name.split('.').next().unwrap_or_default();
        match (self.hypervisor(), family) {
            ("nitro", _) => "required",
            (_, "f1" | "g3" | "g3s" | "h1" | "i3" | "p2" | "p3" | "r4" | "x1" | "x1e") => "supported",
            _ if self.name == "m4.16xlarge" => "supported",
            _ => "unsupported",
        }
    }

    /// Returns true for a bare-metal type.
    pub fn metal(&self) -> bool {
        self.name.contains(".metal")
    }

    /// Returns true if it has CPU credits.
    pub fn burstable(&self) -> bool {
        ["t2.", "t3.", "t3a.", "t4g.", "t8i."].iter().any(|family| self.name.starts_with(family))
    }
}

/// Returns the type `name`, if it exists.
pub fn find(name: &str) -> Option<InstanceType> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|at| ROWS.get(at).copied())
}

/// Returns all types, by name.
pub fn all() -> &'static [InstanceType] {
    &ROWS
}

/// Returns the limit of the type `name`. A type outside the table has that of most types.
pub fn limit(name: &str) -> AttachLimit {
    find(name).map_or(AttachLimit::Shared(27), |t| t.limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_reference() {
        for (name, interfaces, devices) in [
            ("m5.large", 1, 27),
            ("m5.large", 3, 25),
            ("m7i.large", 3, 32),
            ("m7i.24xlarge", 1, 64),
            ("r7i.48xlarge", 1, 128),
            ("m5.metal", 1, 31),
            ("d3.8xlarge", 1, 3),
            ("d3.8xlarge", 9, 1),
            ("m5d.large", 1, 26),
            ("t2.micro", 2, 39),
            ("p4d.24xlarge", 1, 28),
            ("i3.metal", 1, 27),
        ] {
            assert_eq!(limit(name).devices(interfaces), devices, "{name} with {interfaces}");
        }
    }

    #[test]
    fn graviton_follows_the_family() {
        let names = ["m6g.large", "r8gb.48xlarge", "t4g.nano", "g5.xlarge", "m5.large", "c6i.large", "mac1.metal"];
        let wanted = ["arm64", "arm64", "arm64", "x86_64", "x86_64", "x86_64", "x86_64_mac"];
        assert_eq!(names.map(architecture), wanted);
        let names = ["a1.large", "mac2.metal", "p6e-gb200.36xlarge", "im4gn.large", "gr6.4xlarge", "u-6tb1.metal"];
        assert_eq!(names.map(architecture), ["arm64", "arm64_mac", "arm64", "arm64", "x86_64", "x86_64"]);
    }

    #[test]
    fn old_new_and_large_types_are_known() {
        for name in ["t1.micro", "mac2.metal", "u-6tb1.metal", "cc2.8xlarge", "r9gd.large", "p6e-gb200.36xlarge"] {
            assert!(find(name).is_some(), "{name}");
        }
        let bursting: Vec<&str> = all().iter().filter(|t| t.burstable()).map(|t| t.name).collect();
        assert!(bursting.contains(&"t8i.nano") && !bursting.iter().any(|name| name.starts_with("trn")));
    }

    #[test]
    fn every_listed_type_is_found_once() {
        assert!(all().windows(2).all(|w| w[0].name < w[1].name));
        assert!(all().iter().all(|t| find(t.name) == Some(*t)));
        assert!(find("m5.banana").is_none() && find("banana").is_none());
    }
}
