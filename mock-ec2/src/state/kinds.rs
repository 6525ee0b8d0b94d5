//! Kinds that can only be listed: their request parameters and the place of their items in the answer.

mod shapes;

use super::page::LEAST;

pub use shapes::SHAPES;

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
    /// Smallest page (`min` of MaxResults in EC2's API model).
    pub least: u64,
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
    least: LEAST,
};

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
