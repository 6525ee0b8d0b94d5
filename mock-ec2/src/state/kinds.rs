//! Kinds that can only be listed: their request parameters and the place of their items in the answer.

/// Kind of listed things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Attributes of the account.
    AccountAttribute,
    /// Public addresses.
    Address,
    /// Groups of Auto Scaling.
    AutoScalingGroup,
    /// CPU credits of burstable instances.
    CreditSpecification,
    /// DHCP options.
    DhcpOptions,
    /// Fast restores of snapshots.
    FastRestore,
    /// Images.
    Image,
    /// Internet gateways.
    InternetGateway,
    /// Key pairs.
    KeyPair,
    /// Launch configurations of Auto Scaling.
    LaunchConfiguration,
    /// Launch templates.
    LaunchTemplate,
    /// Locks of snapshots.
    LockedSnapshot,
    /// NAT gateways.
    NatGateway,
    /// Network access lists.
    NetworkAcl,
    /// Network interfaces.
    NetworkInterface,
    /// Placement groups.
    PlacementGroup,
    /// Snapshots in the recycle bin.
    RecycledSnapshot,
    /// Volumes in the recycle bin.
    RecycledVolume,
    /// Replacements of root volumes.
    ReplaceRootTask,
    /// Reserved instances.
    ReservedInstances,
    /// Route tables.
    RouteTable,
    /// Security groups.
    SecurityGroup,
    /// Storage tiers of snapshots.
    SnapshotTier,
    /// Subnets.
    Subnet,
    /// Zones in which instance types are offered.
    TypeOffering,
    /// VPCs.
    Vpc,
    /// VPC endpoints.
    VpcEndpoint,
}

/// Request and answer format of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The kind.
    pub kind: Kind,
    /// The action that lists it.
    pub action: &'static str,
    /// Name of the list in the answer.
    pub set: &'static str,
    /// Parameter of ids, as in `VpcId.1`; empty if there is none.
    pub ids: &'static str,
    /// Prefix of the ids; empty for ids without one.
    pub prefix: &'static str,
    /// Further list parameters.
    pub lists: &'static [&'static str],
    /// Further boolean parameters.
    pub flags: &'static [&'static str],
    /// Further text parameters.
    pub words: &'static [&'static str],
    /// Parameter of filters.
    pub filter: &'static str,
    /// Filters besides those on tags.
    pub filters: &'static [&'static str],
    /// True if its things have tags.
    pub tagged: bool,
    /// True if an empty list of tags is present, too; clients of some kinds rely on it.
    pub bare_tags: bool,
}

/// Defaults of most kinds.
const PLAIN: Shape = Shape {
    kind: Kind::Vpc,
    action: "",
    set: "",
    ids: "",
    prefix: "",
    lists: &[],
    flags: &[],
    words: &[],
    filter: "Filter",
    filters: &[],
    tagged: true,
    bare_tags: false,
};

/// All kinds, in the order of their actions.
pub const SHAPES: &[Shape] = &[
    Shape {
        kind: Kind::AccountAttribute,
        action: "DescribeAccountAttributes",
        set: "accountAttributeSet",
        lists: &["AttributeName"],
        filter: "",
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::Address,
        action: "DescribeAddresses",
        set: "addressesSet",
        ids: "AllocationId",
        prefix: "eipalloc",
        lists: &["PublicIp"],
        filters: &[
            "allocation-id",
            "association-id",
            "domain",
            "instance-id",
            "network-border-group",
            "network-interface-id",
            "network-interface-owner-id",
            "private-ip-address",
            "public-ip",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::AutoScalingGroup,
        action: "DescribeAutoScalingGroups",
        set: "AutoScalingGroups",
        lists: &["AutoScalingGroupNames.member"],
        flags: &["IncludeInstances"],
        filter: "Filters.member",
        filters: &["tag-key", "tag-value", "key", "value"],
        ..PLAIN
    },
    Shape {
        kind: Kind::DhcpOptions,
        bare_tags: true,
        action: "DescribeDhcpOptions",
        set: "dhcpOptionsSet",
        ids: "DhcpOptionsId",
        prefix: "dopt",
        filters: &["dhcp-options-id", "key", "owner-id", "value"],
        ..PLAIN
    },
    Shape {
        kind: Kind::FastRestore,
        action: "DescribeFastSnapshotRestores",
        set: "fastSnapshotRestoreSet",
        filters: &["availability-zone", "availability-zone-id", "owner-id", "snapshot-id", "state"],
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::Image,
        action: "DescribeImages",
        set: "imagesSet",
        ids: "ImageId",
        prefix: "ami",
        lists: &["ExecutableBy", "Owner"],
        flags: &["IncludeDeprecated", "IncludeDisabled"],
        filters: &[
            "architecture",
            "block-device-mapping.delete-on-termination",
            "block-device-mapping.device-name",
            "block-device-mapping.encrypted",
            "block-device-mapping.snapshot-id",
            "block-device-mapping.volume-size",
            "block-device-mapping.volume-type",
            "boot-mode",
            "creation-date",
            "description",
            "ena-support",
            "free-tier-eligible",
            "hypervisor",
            "image-allowed",
            "image-id",
            "image-type",
            "is-public",
            "kernel-id",
            "manifest-location",
            "name",
            "owner-alias",
            "owner-id",
            "platform",
            "product-code",
            "product-code.type",
            "public-ssm-parameter-name",
            "ramdisk-id",
            "root-device-name",
            "root-device-type",
            "source-image-id",
            "source-image-region",
            "source-instance-id",
            "sriov-net-support",
            "state",
            "state-reason-code",
            "state-reason-message",
            "virtualization-type",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::CreditSpecification,
        action: "DescribeInstanceCreditSpecifications",
        set: "instanceCreditSpecificationSet",
        ids: "InstanceId",
        filters: &["instance-id"],
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::TypeOffering,
        action: "DescribeInstanceTypeOfferings",
        set: "instanceTypeOfferingSet",
        words: &["LocationType"],
        filters: &["instance-type", "location"],
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::InternetGateway,
        bare_tags: true,
        action: "DescribeInternetGateways",
        set: "internetGatewaySet",
        ids: "InternetGatewayId",
        prefix: "igw",
        filters: &["attachment.state", "attachment.vpc-id", "internet-gateway-id", "owner-id"],
        ..PLAIN
    },
    Shape {
        kind: Kind::KeyPair,
        bare_tags: true,
        action: "DescribeKeyPairs",
        set: "keySet",
        ids: "KeyPairId",
        prefix: "key",
        lists: &["KeyName"],
        flags: &["IncludePublicKey"],
        filters: &["fingerprint", "key-name", "key-pair-id"],
        ..PLAIN
    },
    Shape {
        kind: Kind::LaunchConfiguration,
        action: "DescribeLaunchConfigurations",
        set: "LaunchConfigurations",
        lists: &["LaunchConfigurationNames.member"],
        filter: "",
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::LaunchTemplate,
        action: "DescribeLaunchTemplates",
        set: "launchTemplates",
        ids: "LaunchTemplateId",
        prefix: "lt",
        lists: &["LaunchTemplateName"],
        flags: &["IncludeManagedResources"],
        filters: &["create-time", "launch-template-name"],
        ..PLAIN
    },
    Shape {
        kind: Kind::LockedSnapshot,
        action: "DescribeLockedSnapshots",
        set: "snapshotSet",
        ids: "SnapshotId",
        filters: &["lock-state"],
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::NatGateway,
        action: "DescribeNatGateways",
        set: "natGatewaySet",
        ids: "NatGatewayId",
        prefix: "nat",
        filters: &["nat-gateway-id", "state", "subnet-id", "vpc-id"],
        ..PLAIN
    },
    Shape {
        kind: Kind::NetworkAcl,
        bare_tags: true,
        action: "DescribeNetworkAcls",
        set: "networkAclSet",
        ids: "NetworkAclId",
        prefix: "acl",
        filters: &[
            "association.association-id",
            "association.network-acl-id",
            "association.subnet-id",
            "default",
            "entry.cidr",
            "entry.egress",
            "entry.protocol",
            "entry.rule-action",
            "entry.rule-number",
            "network-acl-id",
            "owner-id",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::NetworkInterface,
        bare_tags: true,
        action: "DescribeNetworkInterfaces",
        set: "networkInterfaceSet",
        ids: "NetworkInterfaceId",
        prefix: "eni",
        flags: &["IncludeManagedResources"],
        filters: &[
            "addresses.association.owner-id",
            "addresses.association.public-ip",
            "addresses.primary",
            "addresses.private-ip-address",
            "association.allocation-id",
            "association.association-id",
            "association.ip-owner-id",
            "association.public-dns-name",
            "association.public-ip",
            "attachment.attach-time",
            "attachment.attachment-id",
            "attachment.delete-on-termination",
            "attachment.device-index",
            "attachment.instance-id",
            "attachment.instance-owner-id",
            "attachment.status",
            "availability-zone",
            "availability-zone-id",
            "description",
            "group-id",
            "group-name",
            "interface-type",
            "ipv6-addresses.ipv6-address",
            "mac-address",
            "network-interface-id",
            "operator.managed",
            "operator.principal",
            "owner-id",
            "private-dns-name",
            "private-ip-address",
            "requester-id",
            "requester-managed",
            "source-dest-check",
            "status",
            "subnet-id",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::PlacementGroup,
        action: "DescribePlacementGroups",
        set: "placementGroupSet",
        ids: "GroupId",
        prefix: "pg",
        lists: &["GroupName"],
        filters: &["group-arn", "group-name", "spread-level", "state", "strategy"],
        ..PLAIN
    },
    Shape {
        kind: Kind::ReplaceRootTask,
        action: "DescribeReplaceRootVolumeTasks",
        set: "replaceRootVolumeTaskSet",
        ids: "ReplaceRootVolumeTaskId",
        prefix: "replacevol",
        filters: &["instance-id"],
        ..PLAIN
    },
    Shape {
        kind: Kind::ReservedInstances,
        action: "DescribeReservedInstances",
        set: "reservedInstancesSet",
        lists: &["ReservedInstancesId"],
        words: &["OfferingClass", "OfferingType"],
        filters: &[
            "availability-zone",
            "duration",
            "end",
            "fixed-price",
            "instance-type",
            "product-description",
            "reserved-instances-id",
            "scope",
            "start",
            "state",
            "usage-price",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::RouteTable,
        bare_tags: true,
        action: "DescribeRouteTables",
        set: "routeTableSet",
        ids: "RouteTableId",
        prefix: "rtb",
        filters: &[
            "association.gateway-id",
            "association.main",
            "association.route-table-association-id",
            "association.route-table-id",
            "association.subnet-id",
            "owner-id",
            "route-table-id",
            "route.destination-cidr-block",
            "route.destination-ipv6-cidr-block",
            "route.destination-prefix-list-id",
            "route.egress-only-internet-gateway-id",
            "route.gateway-id",
            "route.instance-id",
            "route.nat-gateway-id",
            "route.origin",
            "route.state",
            "route.transit-gateway-id",
            "route.vpc-peering-connection-id",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::SecurityGroup,
        action: "DescribeSecurityGroups",
        set: "securityGroupInfo",
        ids: "GroupId",
        prefix: "sg",
        lists: &["GroupName"],
        filters: &[
            "description",
            "egress.ip-permission.cidr",
            "egress.ip-permission.from-port",
            "egress.ip-permission.group-id",
            "egress.ip-permission.group-name",
            "egress.ip-permission.ipv6-cidr",
            "egress.ip-permission.prefix-list-id",
            "egress.ip-permission.protocol",
            "egress.ip-permission.to-port",
            "egress.ip-permission.user-id",
            "group-id",
            "group-name",
            "ip-permission.cidr",
            "ip-permission.from-port",
            "ip-permission.group-id",
            "ip-permission.group-name",
            "ip-permission.ipv6-cidr",
            "ip-permission.prefix-list-id",
            "ip-permission.protocol",
            "ip-permission.to-port",
            "ip-permission.user-id",
            "owner-id",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::SnapshotTier,
        action: "DescribeSnapshotTierStatus",
        set: "snapshotTierStatusSet",
        filters: &["last-tiering-operation", "snapshot-id", "volume-id"],
        ..PLAIN
    },
    Shape {
        kind: Kind::Subnet,
        bare_tags: true,
        action: "DescribeSubnets",
        set: "subnetSet",
        ids: "SubnetId",
        prefix: "subnet",
        filters: &[
            "availability-zone",
            "availability-zone-id",
            "availabilityZone",
            "available-ip-address-count",
            "cidr",
            "cidr-block",
            "cidrBlock",
            "customer-owned-ipv4-pool",
            "default-for-az",
            "defaultForAz",
            "enable-dns64",
            "enable-lni-at-device-index",
            "ipv6-cidr-block-association.association-id",
            "ipv6-cidr-block-association.ipv6-cidr-block",
            "ipv6-cidr-block-association.state",
            "ipv6-native",
            "map-customer-owned-ip-on-launch",
            "map-public-ip-on-launch",
            "outpost-arn",
            "owner-id",
            "private-dns-name-options-on-launch.enable-resource-name-dns-a-record",
            "private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record",
            "private-dns-name-options-on-launch.hostname-type",
            "state",
            "subnet-arn",
            "subnet-id",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::VpcEndpoint,
        action: "DescribeVpcEndpoints",
        set: "vpcEndpointSet",
        ids: "VpcEndpointId",
        prefix: "vpce",
        filters: &[
            "ip-address-type",
            "service-name",
            "service-region",
            "vpc-endpoint-id",
            "vpc-endpoint-state",
            "vpc-endpoint-type",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::Vpc,
        action: "DescribeVpcs",
        set: "vpcSet",
        ids: "VpcId",
        prefix: "vpc",
        filters: &[
            "cidr",
            "cidr-block-association.association-id",
            "cidr-block-association.cidr-block",
            "cidr-block-association.state",
            "dhcp-options-id",
            "ipv6-cidr-block-association.association-id",
            "ipv6-cidr-block-association.ipv6-cidr-block",
            "ipv6-cidr-block-association.ipv6-pool",
            "ipv6-cidr-block-association.state",
            "is-default",
            "isDefault",
            "owner-id",
            "state",
            "vpc-id",
        ],
        ..PLAIN
    },
    Shape {
        kind: Kind::RecycledSnapshot,
        action: "ListSnapshotsInRecycleBin",
        set: "snapshotSet",
        ids: "SnapshotId",
        filter: "",
        tagged: false,
        ..PLAIN
    },
    Shape {
        kind: Kind::RecycledVolume,
        action: "ListVolumesInRecycleBin",
        set: "volumeSet",
        ids: "VolumeId",
        filter: "",
        tagged: false,
        ..PLAIN
    },
];

impl Kind {
    /// Returns the kind that `action` lists.
    pub fn of(action: &str) -> Option<Self> {
        SHAPES.iter().find(|shape| shape.action == action).map(|shape| shape.kind)
    }

    /// Returns the request and answer format.
    pub fn shape(self) -> &'static Shape {
        SHAPES.iter().find(|shape| shape.kind == self).unwrap_or(&PLAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_shape_and_its_filters_are_in_order() {
        assert!(SHAPES.is_sorted_by_key(|shape| shape.action));
        for shape in SHAPES {
            assert_eq!(Kind::of(shape.action), Some(shape.kind));
            assert_eq!(shape.kind.shape().action, shape.action);
            assert!(shape.kind == Kind::AutoScalingGroup || shape.filters.is_sorted(), "{}", shape.action);
        }
    }
}
