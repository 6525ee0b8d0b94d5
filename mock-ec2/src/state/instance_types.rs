//! Instance types: size, and how many devices each can have (reference §7).

/// How many devices a type can have. The numbers count the root volume and assume one network interface, as the EBS
/// driver's table does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachLimit {
    /// Network interfaces beyond the first take slots too.
    Shared(u32),
    /// Volumes have slots of their own.
    Dedicated(u32),
}

impl AttachLimit {
    /// Most devices on an instance with this many network interfaces.
    pub fn devices(self, network_interfaces: u32) -> u32 {
        match self {
            Self::Shared(devices) => devices.saturating_sub(network_interfaces.saturating_sub(1)).max(1),
            Self::Dedicated(devices) => devices,
        }
    }
}

/// What DescribeInstanceTypes tells of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceType {
    /// Its name.
    pub name: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// `nitro` or `xen`.
    pub hypervisor: &'static str,
    /// Its limit.
    pub limit: AttachLimit,
    /// EBS cards.
    pub ebs_cards: u32,
}

/// What the type called `name` computes with: families with a `g` after their generation are Graviton.
pub fn architecture(name: &str) -> &'static str {
    let family = name.split('.').next().unwrap_or_default();
    let generation = family.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    match generation.trim_start_matches(|c: char| c.is_ascii_digit()) {
        options if options.contains('g') => "arm64",
        _ if family.starts_with("mac") => "x86_64_mac",
        _ => "x86_64",
    }
}

impl InstanceType {
    /// Most network interfaces: as on m5, by size.
    pub fn network_interfaces(&self) -> u32 {
        match self.vcpus {
            0..=1 => 2,
            2 => 3,
            3..=8 => 4,
            9..=63 => 8,
            _ => 15,
        }
    }
}

/// The sizes of a family and their virtual CPUs.
type Sizes = &'static [(&'static str, u32)];

const COMMON: Sizes = &[
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("48xlarge", 192),
];
const BURSTABLE: Sizes =
    &[("nano", 2), ("micro", 2), ("small", 2), ("medium", 2), ("large", 2), ("xlarge", 4), ("2xlarge", 8)];

const HUGE: Sizes = &[
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("48xlarge", 192),
    ("96xlarge", 384),
];

/// Types with two EBS cards (reference §7): the largest of the network- and EBS-optimised families.
const TWO_CARDS: &[&str] = &["c8gn.48xlarge", "m8gb.48xlarge", "m8gb.96xlarge", "r8gb.48xlarge", "r8gb.96xlarge"];

/// Family, GiB of memory per CPU, sizes, whether it has dedicated limits.
const FAMILIES: &[(&str, u64, Sizes, bool)] = &[
    ("c5", 2, COMMON, false),
    ("c6g", 2, COMMON, false),
    ("c6i", 2, COMMON, false),
    ("c7i", 2, COMMON, true),
    ("c8g", 2, COMMON, true),
    ("c8gn", 2, COMMON, true),
    ("m5", 4, COMMON, false),
    ("m6g", 4, COMMON, false),
    ("m6i", 4, COMMON, false),
    ("m7i", 4, COMMON, true),
    ("m8g", 4, COMMON, true),
    ("m8gb", 4, HUGE, true),
    ("r5", 8, COMMON, false),
    ("r6i", 8, COMMON, false),
    ("r7i", 8, COMMON, true),
    ("r8gb", 8, HUGE, true),
    ("t3", 4, BURSTABLE, false),
    ("t3a", 4, BURSTABLE, false),
    ("t4g", 4, BURSTABLE, false),
];

/// Types that follow no rule: name, CPUs, GiB, hypervisor, limit.
const SINGULAR: &[(&str, u32, u64, &str, AttachLimit)] = &[
    ("d3.8xlarge", 32, 256, "nitro", AttachLimit::Shared(3)),
    ("g5.xlarge", 4, 16, "nitro", AttachLimit::Shared(25)),
    ("inf1.24xlarge", 96, 192, "nitro", AttachLimit::Shared(11)),
    ("m1.small", 1, 2, "xen", AttachLimit::Dedicated(39)),
    ("m4.large", 2, 8, "xen", AttachLimit::Dedicated(39)),
    ("m5.metal", 96, 384, "nitro", AttachLimit::Shared(31)),
    ("mac1.metal", 12, 32, "nitro", AttachLimit::Shared(16)),
    ("t2.medium", 2, 4, "xen", AttachLimit::Dedicated(39)),
    ("t2.micro", 1, 1, "xen", AttachLimit::Dedicated(39)),
];

/// The type called `name`, if it exists.
pub fn find(name: &str) -> Option<InstanceType> {
    if let Some((name, vcpus, gib, hypervisor, limit)) = SINGULAR.iter().find(|t| t.0 == name) {
        let (name, memory_mib) = ((*name).to_owned(), gib * 1024);
        return Some(InstanceType { name, vcpus: *vcpus, memory_mib, hypervisor, limit: *limit, ebs_cards: 1 });
    }
    let (family, size) = name.split_once('.')?;
    let (_, gib_per_cpu, sizes, dedicated) = FAMILIES.iter().find(|f| f.0 == family)?;
    let (_, vcpus) = sizes.iter().find(|s| s.0 == size)?;
    let ebs_cards = if TWO_CARDS.contains(&name) { 2 } else { 1 };
    let limit = if *dedicated { dedicated_limit(*vcpus) } else { AttachLimit::Shared(27) };
    let memory_mib = match size {
        "nano" => 512,
        "micro" => 1_024,
        "small" => 2_048,
        "medium" => 4_096,
        _ => u64::from(*vcpus) * gib_per_cpu * 1_024,
    };
    Some(InstanceType { name: name.to_owned(), vcpus: *vcpus, memory_mib, hypervisor: "nitro", limit, ebs_cards })
}

/// All types, by name.
pub fn all() -> Vec<InstanceType> {
    let families = FAMILIES.iter().flat_map(|f| f.2.iter().map(move |s| format!("{}.{}", f.0, s.0)));
    let mut names: Vec<String> = families.chain(SINGULAR.iter().map(|t| t.0.to_owned())).collect();
    names.sort_unstable();
    names.iter().filter_map(|name| find(name)).collect()
}

/// The limit of the type called `name`; that of most types when it is not in the table.
pub fn limit(name: &str) -> AttachLimit {
    find(name).map_or(AttachLimit::Shared(27), |t| t.limit)
}

/// m7i and its like: 32 up to 8xlarge, 64 on 24xlarge, 128 on 48xlarge and larger.
fn dedicated_limit(vcpus: u32) -> AttachLimit {
    AttachLimit::Dedicated(match vcpus {
        0..=32 => 32,
        33..=64 => 48,
        65..=96 => 64,
        _ => 128,
    })
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
        ] {
            assert_eq!(limit(name).devices(interfaces), devices, "{name} with {interfaces}");
        }
    }

    #[test]
    fn graviton_is_told_by_the_family() {
        let names = ["m6g.large", "r8gb.48xlarge", "t4g.nano", "g5.xlarge", "m5.large", "c6i.large", "mac1.metal"];
        let wanted = ["arm64", "arm64", "arm64", "x86_64", "x86_64", "x86_64", "x86_64_mac"];
        assert_eq!(names.map(architecture), wanted);
    }

    #[test]
    fn every_listed_type_is_found_once() {
        let all = all();
        assert!(all.windows(2).all(|w| w[0].name < w[1].name));
        assert!(find("m5.banana").is_none() && find("banana").is_none());
    }
}
