//! Effects that the scenarios cannot show, each with its reason.

use substrate::fault::Plane;

pub const NOT_OBSERVED: &str = "both answers have the same fields, and no step tells what is in them";

/// Rows that fire without a difference in the trace of these scenarios, and the reason.
pub const UNSEEN: &[(&str, &str)] = &[
    (
        "k8s watch stale_read before",
        "the informers of a cluster list, and watch from there: no stream of theirs begins with what is there",
    ),
    ("ec2 DescribeSnapshotTierStatus stale_read before", NOT_OBSERVED),
    ("ec2 GetEbsDefaultKmsKeyId stale_read before", NOT_OBSERVED),
    ("ec2 GetEbsEncryptionByDefault stale_read before", NOT_OBSERVED),
    ("ec2 Devices wrong_device before", "a simulated disk has no files, and so none that could be another volume's"),
];

pub const NO_SNAPSHOTS: &str = "the loops that take snapshots are not there yet";
pub const NO_CALLER: &str = "no loop and no driver of a cluster calls it in these scenarios";
pub const LIST: &str = "it only lists, by the table that DescribeVpcs goes by";
pub const OTHER_SERVICE: &str = "it is of another service than EC2, for which no step signs";
pub const OF_ACCOUNT: &str = "no volume of a cluster depends on it; mock-ec2's own tests break it";
pub const NO_CLASS: &str = "no step gives a claim another VolumeAttributesClass";

/// Operations that no scenario reaches, and the reason.
pub const UNREACHED: &[(Plane, &str, &str)] = &[
    (Plane::Csi, "ControllerGetVolume", NO_CALLER),
    (Plane::Csi, "ControllerModifyVolume", NO_CLASS),
    (Plane::Csi, "CreateSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "CreateVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "DeleteSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "DeleteVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GetCapacity", NO_CALLER),
    (Plane::Csi, "GetMetadataAllocated", NO_SNAPSHOTS),
    (Plane::Csi, "GetMetadataDelta", NO_SNAPSHOTS),
    (Plane::Csi, "GetSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GetVolumeGroupSnapshot", NO_SNAPSHOTS),
    (Plane::Csi, "GroupControllerGetCapabilities", NO_SNAPSHOTS),
    (Plane::Csi, "ListSnapshots", NO_SNAPSHOTS),
    (Plane::Csi, "ListVolumes", NO_CALLER),
    (Plane::Csi, "NodeGetVolumeStats", NO_CALLER),
    (Plane::Csi, "ValidateVolumeCapabilities", NO_CALLER),
    (Plane::Disk, "usage", "only NodeGetVolumeStats asks for it"),
    (Plane::Ec2, "Imds", "no component asks the metadata service in a simulation"),
    (Plane::Ec2, "DescribeAccountAttributes", LIST),
    (Plane::Ec2, "DescribeAddresses", LIST),
    (Plane::Ec2, "DescribeDhcpOptions", LIST),
    (Plane::Ec2, "DescribeImages", LIST),
    (Plane::Ec2, "DescribeInstanceCreditSpecifications", LIST),
    (Plane::Ec2, "DescribeInstanceTypeOfferings", LIST),
    (Plane::Ec2, "DescribeInternetGateways", LIST),
    (Plane::Ec2, "DescribeKeyPairs", LIST),
    (Plane::Ec2, "DescribeLaunchTemplates", LIST),
    (Plane::Ec2, "DescribeNatGateways", LIST),
    (Plane::Ec2, "DescribeNetworkAcls", LIST),
    (Plane::Ec2, "DescribeNetworkInterfaces", LIST),
    (Plane::Ec2, "DescribeRouteTables", LIST),
    (Plane::Ec2, "DescribeSecurityGroups", LIST),
    (Plane::Ec2, "DescribeSubnets", LIST),
    (Plane::Ec2, "DescribeVpcAttribute", LIST),
    (Plane::Ec2, "DescribeVpcEndpoints", LIST),
    (Plane::Ec2, "ListSnapshotsInRecycleBin", LIST),
    (Plane::Ec2, "DescribeAutoScalingGroups", OTHER_SERVICE),
    (Plane::Ec2, "DescribeLaunchConfigurations", OTHER_SERVICE),
    (Plane::Ec2, "GetCallerIdentity", OTHER_SERVICE),
    (Plane::Ec2, "CreateImage", OF_ACCOUNT),
    (Plane::Ec2, "CreateKeyPair", OF_ACCOUNT),
    (Plane::Ec2, "CreatePlacementGroup", OF_ACCOUNT),
    (Plane::Ec2, "CreateReplaceRootVolumeTask", OF_ACCOUNT),
    (Plane::Ec2, "CreateSubnet", OF_ACCOUNT),
    (Plane::Ec2, "CreateVpc", OF_ACCOUNT),
    (Plane::Ec2, "DeleteKeyPair", OF_ACCOUNT),
    (Plane::Ec2, "DeletePlacementGroup", OF_ACCOUNT),
    (Plane::Ec2, "DeleteSubnet", OF_ACCOUNT),
    (Plane::Ec2, "DeleteVpc", OF_ACCOUNT),
    (Plane::Ec2, "DeregisterImage", OF_ACCOUNT),
    (Plane::Ec2, "DescribePlacementGroups", OF_ACCOUNT),
    (Plane::Ec2, "DescribeReplaceRootVolumeTasks", OF_ACCOUNT),
    (Plane::Ec2, "DescribeReservedInstances", OF_ACCOUNT),
    (Plane::Ec2, "DisableSnapshotBlockPublicAccess", OF_ACCOUNT),
    (Plane::Ec2, "EnableSnapshotBlockPublicAccess", OF_ACCOUNT),
    (Plane::Ec2, "GetSnapshotBlockPublicAccessState", OF_ACCOUNT),
    (Plane::Ec2, "ImportKeyPair", OF_ACCOUNT),
    (Plane::Ec2, "ListVolumesInRecycleBin", OF_ACCOUNT),
    (Plane::Ec2, "RegisterImage", OF_ACCOUNT),
    (Plane::Ec2, "RestoreSnapshotFromRecycleBin", OF_ACCOUNT),
    (Plane::Ec2, "RestoreVolumeFromRecycleBin", OF_ACCOUNT),
    (Plane::K8s, "deletecollection", "no loop deletes collections, and no step does"),
];
