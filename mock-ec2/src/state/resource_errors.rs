//! Names of resources in errors, by the prefix of their ids.

use super::code::Code;
use super::error::Ec2Error;

/// Error words of one kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceErrors {
    /// Prefix of its ids, without the dash.
    pub prefix: &'static str,
    /// Error code for an unknown id.
    pub unknown: Code,
    /// Error code for a malformed id.
    pub malformed: Code,
    /// Text before an unknown id.
    pub before: &'static str,
    /// Resource type in DescribeTags; empty if the kind has no tags.
    pub resource: &'static str,
}

const fn resource_errors(
    prefix: &'static str,
    unknown: Code,
    malformed: Code,
    before: &'static str,
    resource: &'static str,
) -> ResourceErrors {
    ResourceErrors { prefix, unknown, malformed, before, resource }
}

/// All kinds with their own id prefix, except instances, snapshots and volumes.
pub const RESOURCE_ERRORS: &[ResourceErrors] = &[
    resource_errors(
        "acl",
        Code::InvalidNetworkAclIDNotFound,
        Code::InvalidNetworkAclIDMalformed,
        "The networkAcl ID",
        "network-acl",
    ),
    resource_errors("ami", Code::InvalidAMIIDNotFound, Code::InvalidAMIIDMalformed, "The image id", "image"),
    resource_errors(
        "dopt",
        Code::InvalidDhcpOptionIDNotFound,
        Code::InvalidDhcpOptionsIDMalformed,
        "The dhcpOption ID",
        "dhcp-options",
    ),
    resource_errors(
        "eipalloc",
        Code::InvalidAllocationIDNotFound,
        Code::InvalidAllocationIDMalformed,
        "The allocation ID",
        "elastic-ip",
    ),
    resource_errors(
        "eni",
        Code::InvalidNetworkInterfaceIDNotFound,
        Code::InvalidNetworkInterfaceIDMalformed,
        "The networkInterface ID",
        "network-interface",
    ),
    resource_errors(
        "igw",
        Code::InvalidInternetGatewayIDNotFound,
        Code::InvalidInternetGatewayIDMalformed,
        "The internetGateway ID",
        "internet-gateway",
    ),
    resource_errors("key", Code::InvalidKeyPairNotFound, Code::InvalidKeyPairFormat, "The key pair", "key-pair"),
    resource_errors(
        "lt",
        Code::InvalidLaunchTemplateIdNotFound,
        Code::InvalidLaunchTemplateIdMalformed,
        "The launch template",
        "launch-template",
    ),
    resource_errors("nat", Code::NatGatewayNotFound, Code::NatGatewayMalformed, "The NAT gateway", "natgateway"),
    resource_errors(
        "pg",
        Code::InvalidPlacementGroupIdNotFound,
        Code::InvalidPlacementGroupIdMalformed,
        "The placement group ID",
        "placement-group",
    ),
    resource_errors(
        "replacevol",
        Code::InvalidReplaceRootVolumeTaskIdNotFound,
        Code::InvalidReplaceRootVolumeTaskIdMalformed,
        "The replace root volume task ID",
        "replace-root-volume-task",
    ),
    resource_errors(
        "rtb",
        Code::InvalidRouteTableIDNotFound,
        Code::InvalidRouteTableIdMalformed,
        "The routeTable ID",
        "route-table",
    ),
    resource_errors(
        "sg",
        Code::InvalidGroupNotFound,
        Code::InvalidGroupIdMalformed,
        "The security group",
        "security-group",
    ),
    resource_errors("subnet", Code::InvalidSubnetIDNotFound, Code::InvalidSubnetIdMalformed, "The subnet ID", "subnet"),
    resource_errors("vpc", Code::InvalidVpcIDNotFound, Code::InvalidVpcIdMalformed, "The vpc ID", "vpc"),
    resource_errors(
        "vpce",
        Code::InvalidVpcEndpointIdNotFound,
        Code::InvalidVpcEndpointIdMalformed,
        "The Vpc Endpoint Id",
        "vpc-endpoint",
    ),
];

impl ResourceErrors {
    /// Returns the error words of ids with `prefix`.
    pub fn of(prefix: &str) -> Option<&'static Self> {
        RESOURCE_ERRORS.iter().find(|resource_errors| resource_errors.prefix == prefix)
    }

    /// Returns the error words of the well-formed id `id`.
    pub fn of_id(id: &str) -> Option<&'static Self> {
        let (prefix, digits) = id.rsplit_once('-')?;
        Self::of(prefix).filter(|_| is_hex(digits))
    }

    /// Returns true if `id` is of this kind.
    pub fn fits(&self, id: &str) -> bool {
        id.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_hex)
    }

    /// Checks that `id` is of this kind.
    ///
    /// # Errors
    /// The kind's own.
    pub fn check(&self, id: &str) -> Result<(), Ec2Error> {
        if self.fits(id) {
            return Ok(());
        }
        Err(Ec2Error::Resource {
            code: self.malformed,
            text: format!("Invalid id: \"{id}\" (expecting \"{}-...\")", self.prefix),
        })
    }

    /// Returns the error for unknown ids.
    pub fn not_found(&self, missing: &[&str]) -> Ec2Error {
        let text = match (self.prefix, missing) {
            ("ami", ids) => format!("The image id '[{}]' does not exist", ids.join(", ")),
            (_, [one]) => format!("{} '{one}' does not exist", self.before),
            (_, ids) => format!("{}s '{}' do not exist", self.before, ids.join(", ")),
        };
        Ec2Error::Resource { code: self.unknown, text }
    }
}

/// Returns true for the digits of EC2's short or long ids.
fn is_hex(digits: &str) -> bool {
    (8..=17).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_noun_of_its_prefix() {
        assert_eq!(ResourceErrors::of_id("subnet-0123456789abcdef0").unwrap().resource, "subnet");
        assert_eq!(ResourceErrors::of_id("vpc-banana"), None);
        assert_eq!(ResourceErrors::of_id("vol-0123456789abcdef0"), None);
        let error = ResourceErrors::of("ami").unwrap().check("banana").unwrap_err();
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("InvalidAMIID.Malformed", "Invalid id: \"banana\" (expecting \"ami-...\")")
        );
    }
}
