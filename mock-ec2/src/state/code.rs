//! EC2's error codes: those of this cloud, those that the EBS driver handles, and those of EC2's documentation that
//! resemble one of these.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>

macro_rules! codes {
    ($($code:ident = $text:literal,)*) => {
        /// An error code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = concat!("`", $text, "`.")] $code,)*
        }

        impl Code {
            /// All codes on the wire, sorted.
            pub const ALL: &'static [&'static str] = &[$($text),*];

            /// Returns the code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $text,)* }
            }
        }
    };
}

codes! {
    AttachmentLimitExceeded = "AttachmentLimitExceeded",
    AuthFailure = "AuthFailure",
    ConcurrentSnapshotLimitExceeded = "ConcurrentSnapshotLimitExceeded",
    DependencyViolation = "DependencyViolation",
    DryRunOperation = "DryRunOperation",
    FilterLimitExceeded = "FilterLimitExceeded",
    IdempotentParameterMismatch = "IdempotentParameterMismatch",
    IncompleteSignature = "IncompleteSignature",
    IncorrectInstanceState = "IncorrectInstanceState",
    IncorrectModificationState = "IncorrectModificationState",
    IncorrectState = "IncorrectState",
    InsufficientVolumeCapacity = "InsufficientVolumeCapacity",
    InternalError = "InternalError",
    InternalFailure = "InternalFailure",
    InvalidAMIAttributeItemValue = "InvalidAMIAttributeItemValue",
    InvalidAMIIDMalformed = "InvalidAMIID.Malformed",
    InvalidAMIIDNotFound = "InvalidAMIID.NotFound",
    InvalidAMIIDUnavailable = "InvalidAMIID.Unavailable",
    InvalidAMINameDuplicate = "InvalidAMIName.Duplicate",
    InvalidAMINameMalformed = "InvalidAMIName.Malformed",
    InvalidAction = "InvalidAction",
    InvalidAddressNotFound = "InvalidAddress.NotFound",
    InvalidAllocationIDMalformed = "InvalidAllocationID.Malformed",
    InvalidAllocationIDNotFound = "InvalidAllocationID.NotFound",
    InvalidAttachmentNotFound = "InvalidAttachment.NotFound",
    InvalidAttachmentIDNotFound = "InvalidAttachmentID.NotFound",
    InvalidBlockDeviceMapping = "InvalidBlockDeviceMapping",
    InvalidDhcpOptionIDNotFound = "InvalidDhcpOptionID.NotFound",
    InvalidDhcpOptionsIDMalformed = "InvalidDhcpOptionsID.Malformed",
    InvalidGroupNotFound = "InvalidGroup.NotFound",
    InvalidGroupIdMalformed = "InvalidGroupId.Malformed",
    InvalidID = "InvalidID",
    InvalidInstanceAttributeValue = "InvalidInstanceAttributeValue",
    InvalidInstanceIDMalformed = "InvalidInstanceID.Malformed",
    InvalidInstanceIDNotFound = "InvalidInstanceID.NotFound",
    InvalidInstanceType = "InvalidInstanceType",
    InvalidInternetGatewayIDMalformed = "InvalidInternetGatewayID.Malformed",
    InvalidInternetGatewayIDNotFound = "InvalidInternetGatewayID.NotFound",
    InvalidKeyFormat = "InvalidKey.Format",
    InvalidKeyPairDuplicate = "InvalidKeyPair.Duplicate",
    InvalidKeyPairFormat = "InvalidKeyPair.Format",
    InvalidKeyPairNotFound = "InvalidKeyPair.NotFound",
    InvalidLaunchTemplateIdMalformed = "InvalidLaunchTemplateId.Malformed",
    InvalidLaunchTemplateIdNotFound = "InvalidLaunchTemplateId.NotFound",
    InvalidLaunchTemplateNameNotFoundException = "InvalidLaunchTemplateName.NotFoundException",
    InvalidNetworkAclIDMalformed = "InvalidNetworkAclID.Malformed",
    InvalidNetworkAclIDNotFound = "InvalidNetworkAclID.NotFound",
    InvalidNetworkInterfaceIDMalformed = "InvalidNetworkInterfaceID.Malformed",
    InvalidNetworkInterfaceIDNotFound = "InvalidNetworkInterfaceID.NotFound",
    InvalidNextToken = "InvalidNextToken",
    InvalidParameter = "InvalidParameter",
    InvalidParameterCombination = "InvalidParameterCombination",
    InvalidParameterDependency = "InvalidParameterDependency",
    InvalidParameterValue = "InvalidParameterValue",
    InvalidPlacementGroupDuplicate = "InvalidPlacementGroup.Duplicate",
    InvalidPlacementGroupUnknown = "InvalidPlacementGroup.Unknown",
    InvalidPlacementGroupIdMalformed = "InvalidPlacementGroupId.Malformed",
    InvalidPlacementGroupIdNotFound = "InvalidPlacementGroupId.NotFound",
    InvalidReplaceRootVolumeTaskIdMalformed = "InvalidReplaceRootVolumeTaskId.Malformed",
    InvalidReplaceRootVolumeTaskIdNotFound = "InvalidReplaceRootVolumeTaskId.NotFound",
    InvalidRequest = "InvalidRequest",
    InvalidReservedInstancesId = "InvalidReservedInstancesId",
    InvalidRouteTableIDNotFound = "InvalidRouteTableID.NotFound",
    InvalidRouteTableIdMalformed = "InvalidRouteTableId.Malformed",
    InvalidSnapshotInUse = "InvalidSnapshot.InUse",
    InvalidSnapshotNotFound = "InvalidSnapshot.NotFound",
    InvalidSubnetConflict = "InvalidSubnet.Conflict",
    InvalidSubnetRange = "InvalidSubnet.Range",
    InvalidSubnetIDNotFound = "InvalidSubnetID.NotFound",
    InvalidSubnetIdMalformed = "InvalidSubnetId.Malformed",
    InvalidUserDataMalformed = "InvalidUserData.Malformed",
    InvalidUserIDMalformed = "InvalidUserID.Malformed",
    InvalidVolumeNotFound = "InvalidVolume.NotFound",
    InvalidVolumeZoneMismatch = "InvalidVolume.ZoneMismatch",
    InvalidVolumeIDZoneMismatch = "InvalidVolumeID.ZoneMismatch",
    InvalidVolumeModificationNotFound = "InvalidVolumeModification.NotFound",
    InvalidVpcRange = "InvalidVpc.Range",
    InvalidVpcEndpointIdMalformed = "InvalidVpcEndpointId.Malformed",
    InvalidVpcEndpointIdNotFound = "InvalidVpcEndpointId.NotFound",
    InvalidVpcIDNotFound = "InvalidVpcID.NotFound",
    InvalidVpcIdMalformed = "InvalidVpcId.Malformed",
    InvalidZoneNotFound = "InvalidZone.NotFound",
    MaxIOPSLimitExceeded = "MaxIOPSLimitExceeded",
    MissingAuthenticationToken = "MissingAuthenticationToken",
    MissingParameter = "MissingParameter",
    NatGatewayMalformed = "NatGatewayMalformed",
    NatGatewayNotFound = "NatGatewayNotFound",
    NoSuchVersion = "NoSuchVersion",
    OperationNotPermitted = "OperationNotPermitted",
    RequestEntityTooLarge = "RequestEntityTooLarge",
    RequestExpired = "RequestExpired",
    RequestLimitExceeded = "RequestLimitExceeded",
    ServiceUnavailable = "ServiceUnavailable",
    SignatureDoesNotMatch = "SignatureDoesNotMatch",
    SlowDown = "SlowDown",
    SnapshotCreationPerVolumeRateExceeded = "SnapshotCreationPerVolumeRateExceeded",
    SnapshotLimitExceeded = "SnapshotLimitExceeded",
    SnapshotLockNotFound = "SnapshotLock.NotFound",
    TagLimitExceeded = "TagLimitExceeded",
    ThrottlingException = "ThrottlingException",
    UnauthorizedOperation = "UnauthorizedOperation",
    Unavailable = "Unavailable",
    UnknownParameter = "UnknownParameter",
    UnknownVolumeType = "UnknownVolumeType",
    UnsupportedOperation = "UnsupportedOperation",
    VolumeIOPSLimit = "VolumeIOPSLimit",
    VolumeInUse = "VolumeInUse",
    VolumeLimitExceeded = "VolumeLimitExceeded",
    VolumeModificationRateExceeded = "VolumeModificationRateExceeded",
}
