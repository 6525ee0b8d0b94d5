//! Fault points of the cloud: each operation with its faults, as data.

use substrate::fault::catalogue::{ALL, Attribute, BEFORE, Operation, Possible, Values};
use substrate::fault::{Kind, Moment, Plane};

use crate::state::code::Code;

/// Pseudo-operation of a device: each line of the device stream that makes one appear.
pub const DEVICES: &str = "Devices";
/// Pseudo-operation of the metadata service: each request.
pub const IMDS: &str = "Imds";

/// Codes that a fault may name. Any other code is allowed unless it resembles one of these.
pub const ERROR_CODES: &[&str] = Code::ALL;

/// Largest number of revisions for `stale_read`.
pub const OLDEST_REVISION: u64 = 63;

const AFTER: &[Moment] = &[Moment::AfterEffect, Moment::BeforeReply];

const VOLUME: Attribute = Attribute::new("volume", "a volume that the request or its answer names");
const INSTANCE: Attribute = Attribute::new("instance", "an instance that the request or its answer names");
const SNAPSHOT: Attribute = Attribute::new("snapshot", "a snapshot that the request or its answer names");
const ZONE: Attribute = Attribute::new("zone", "the zone of an object that the request names, or of the new object");
const CALLER: Attribute =
    Attribute::new("caller", "the caller: the name of a program that the runner started, or the access key id");
const USER_AGENT: Attribute = Attribute::new("userAgent", "the User-Agent header");
const PATH: Attribute = Attribute::new("path", "the path of the request");

const ERROR: Possible = Possible::new(
    Kind::Error,
    ALL,
    Values::Code(ERROR_CODES),
    "the caller gets the error; at `before` the operation has no effect, and ec2.request has the code",
);
const HTTP: Possible = Possible::new(
    Kind::Http,
    ALL,
    Values::Number { least: 400, most: 599 },
    "the caller gets the bare status; at `before` the operation has no effect, and ec2.request has the status",
);
const DROP_REPLY: Possible =
    Possible::new(Kind::DropReply, ALL, Values::Flag, "the operation happens, and the caller sees a broken connection");
const DUPLICATE: Possible =
    Possible::new(Kind::Duplicate, BEFORE, Values::Number { least: 2, most: 100 }, "ec2.request, this many times");
const STALE: Possible = Possible::new(
    Kind::StaleRead,
    BEFORE,
    Values::Number { least: 1, most: OLDEST_REVISION },
    "the answer is that of this many changes ago",
);
const VANISH: Possible =
    Possible::new(Kind::Vanish, ALL, Values::Flag, "ec2.volume deleted, for the volumes that the operation names");
const VANISH_MADE: Possible =
    Possible::new(Kind::Vanish, AFTER, Values::Flag, "ec2.volume deleted, for the new volume");

const fn stick(states: &'static [&'static str]) -> Possible {
    Possible::new(Kind::Stick, BEFORE, Values::OneOf(states), "the state lasts until the fault ends")
}

/// Defines one action.
macro_rules! action {
    ($class:literal $name:literal, $about:literal, [$($attribute:expr),*], [$($can:expr),*]) => {
        Operation {
            plane: Plane::Ec2,
            name: $name,
            classes: &[$class],
            about: $about,
            attributes: &[CALLER, USER_AGENT, $($attribute),*],
            moments: ALL,
            can: &[ERROR, HTTP, DROP_REPLY, $($can),*],
        }
    };
}

/// Operations with fault points.
pub const OPERATIONS: &[Operation] = &[
    action!(
        "write" "AttachVolume", "attaches a volume to an instance",
        [VOLUME, INSTANCE, ZONE], [DUPLICATE, VANISH, stick(&["attaching"])]
    ),
    action!("write" "CopySnapshot", "copies a snapshot", [SNAPSHOT], [DUPLICATE, stick(&["pending"])]),
    action!(
        "write" "CopyVolumes", "copies a volume",
        [VOLUME, ZONE], [DUPLICATE, VANISH, stick(&["creating"])]
    ),
    action!("write" "CreateImage", "creates an image of an instance", [INSTANCE, SNAPSHOT.made(), ZONE], [DUPLICATE, stick(&["pending"])]),
    action!("write" "CreateKeyPair", "creates a key pair", [], [DUPLICATE]),
    action!("write" "CreatePlacementGroup", "creates a placement group", [], [DUPLICATE]),
    action!("write" "CreateReplaceRootVolumeTask", "replaces the root volume of an instance", [INSTANCE, SNAPSHOT, ZONE], [DUPLICATE]),
    action!(
        "write" "CreateSnapshot", "creates a snapshot of a volume",
        [VOLUME, SNAPSHOT.made(), ZONE], [DUPLICATE, VANISH, stick(&["pending"])]
    ),
    action!(
        "write" "CreateSnapshots", "creates snapshots of all volumes of an instance",
        [INSTANCE, SNAPSHOT.made(), ZONE], [DUPLICATE, stick(&["pending"])]
    ),
    action!("write" "CreateSubnet", "creates a subnet", [], [DUPLICATE]),
    action!("write" "CreateTags", "sets tags", [VOLUME, INSTANCE, SNAPSHOT, ZONE], [DUPLICATE, VANISH]),
    action!(
        "write" "CreateVolume", "creates a volume",
        [VOLUME.made(), SNAPSHOT, ZONE], [DUPLICATE, VANISH_MADE, stick(&["creating"])]
    ),
    action!("write" "CreateVpc", "creates a VPC", [], [DUPLICATE]),
    action!("write" "DeleteKeyPair", "deletes a key pair", [], [DUPLICATE]),
    action!("write" "DeletePlacementGroup", "deletes a placement group", [], [DUPLICATE]),
    action!("write" "DeleteSnapshot", "deletes a snapshot", [SNAPSHOT], [DUPLICATE]),
    action!("write" "DeleteSubnet", "deletes a subnet", [], [DUPLICATE]),
    action!("write" "DeleteTags", "removes tags", [VOLUME, INSTANCE, SNAPSHOT, ZONE], [DUPLICATE, VANISH]),
    action!("write" "DeleteVolume", "deletes a volume", [VOLUME, ZONE], [DUPLICATE, VANISH, stick(&["deleting"])]),
    action!("write" "DeleteVpc", "deletes a VPC", [], [DUPLICATE]),
    action!("write" "DeregisterImage", "deletes an image", [], [DUPLICATE]),
    action!("read" "DescribeAccountAttributes", "lists attributes of the account", [], []),
    action!("read" "DescribeAddresses", "lists public addresses; there are none", [], []),
    action!("read" "DescribeAutoScalingGroups", "lists Auto Scaling groups; there are none", [], []),
    action!("read" "DescribeAvailabilityZones", "lists zones", [], []),
    action!("read" "DescribeDhcpOptions", "lists DHCP options", [], []),
    action!("read" "DescribeFastSnapshotRestores", "lists fast restores of snapshots", [], [STALE]),
    action!("read" "DescribeImages", "lists images", [], [STALE]),
    action!("read" "DescribeInstanceAttribute", "returns an attribute of an instance", [INSTANCE, ZONE], [STALE]),
    action!("read" "DescribeInstanceCreditSpecifications", "lists CPU credits of burstable instances", [], [STALE]),
    action!("read" "DescribeInstanceStatus", "lists status checks of instances", [INSTANCE, ZONE], [STALE]),
    action!("read" "DescribeInstanceTypeOfferings", "lists locations that offer instance types", [], []),
    action!("read" "DescribeInstanceTypes", "lists instance types", [], []),
    action!("read" "DescribeInstances", "lists instances", [INSTANCE, ZONE], [STALE]),
    action!("read" "DescribeInternetGateways", "lists internet gateways", [], []),
    action!("read" "DescribeKeyPairs", "lists key pairs", [], []),
    action!("read" "DescribeLaunchConfigurations", "lists Auto Scaling launch configurations; there are none", [], []),
    action!("read" "DescribeLaunchTemplates", "lists launch templates; there are none", [], []),
    action!("read" "DescribeLockedSnapshots", "lists locks of snapshots", [], [STALE]),
    action!("read" "DescribeNatGateways", "lists NAT gateways; there are none", [], []),
    action!("read" "DescribeNetworkAcls", "lists network ACLs", [], []),
    action!("read" "DescribeNetworkInterfaces", "lists network interfaces", [], [STALE]),
    action!("read" "DescribePlacementGroups", "lists placement groups", [], [STALE]),
    action!("read" "DescribeRegions", "lists regions", [], []),
    action!("read" "DescribeReplaceRootVolumeTasks", "lists replacements of root volumes", [], [STALE]),
    action!("read" "DescribeReservedInstances", "lists reserved instances; there are none", [], []),
    action!("read" "DescribeRouteTables", "lists route tables", [], []),
    action!("read" "DescribeSecurityGroups", "lists security groups", [], []),
    action!("read" "DescribeSnapshotAttribute", "returns an attribute of a snapshot", [SNAPSHOT], [STALE]),
    action!("read" "DescribeSnapshotTierStatus", "lists storage tiers of snapshots", [], [STALE]),
    action!("read" "DescribeSnapshots", "lists snapshots", [SNAPSHOT], [STALE]),
    action!("read" "DescribeSubnets", "lists subnets", [], [STALE]),
    action!("read" "DescribeTags", "lists tags", [], [STALE]),
    action!("read" "DescribeVolumeAttribute", "returns an attribute of a volume", [VOLUME, ZONE], [STALE, VANISH]),
    action!("read" "DescribeVolumeStatus", "lists status checks of volumes", [VOLUME, ZONE], [STALE, VANISH]),
    action!("read" "DescribeVolumes", "lists volumes", [VOLUME, ZONE], [STALE, VANISH]),
    action!("read" "DescribeVolumesModifications", "lists modifications of volumes", [VOLUME, ZONE], [STALE, VANISH]),
    action!("read" "DescribeVpcAttribute", "returns an attribute of the VPC", [], []),
    action!("read" "DescribeVpcEndpoints", "lists VPC endpoints; there are none", [], []),
    action!("read" "DescribeVpcs", "lists VPCs", [], []),
    action!(
        "write" "DetachVolume", "detaches a volume from an instance",
        [VOLUME, INSTANCE, ZONE], [DUPLICATE, VANISH, stick(&["detaching", "busy"])]
    ),
    action!("write" "DisableEbsEncryptionByDefault", "stops encrypting new volumes by default", [], [DUPLICATE]),
    action!("write" "DisableFastSnapshotRestores", "ends fast restore of snapshots", [SNAPSHOT], [DUPLICATE]),
    action!("write" "DisableSnapshotBlockPublicAccess", "allows snapshots to be shared publicly", [], [DUPLICATE]),
    action!("write" "EnableEbsEncryptionByDefault", "encrypts new volumes by default", [], [DUPLICATE]),
    action!(
        "write" "EnableFastSnapshotRestores", "prepares snapshots to be restored without initialization",
        [SNAPSHOT], [DUPLICATE]
    ),
    action!("write" "EnableSnapshotBlockPublicAccess", "forbids snapshots to be shared publicly", [], [DUPLICATE]),
    action!("write" "EnableVolumeIO", "enables I/O of an impaired volume again", [VOLUME, ZONE], [DUPLICATE, VANISH]),
    action!("read" "GetCallerIdentity", "returns the account of the caller (STS)", [], []),
    action!("read" "GetEbsDefaultKmsKeyId", "returns the default encryption key", [], [STALE]),
    action!("read" "GetEbsEncryptionByDefault", "returns whether new volumes are encrypted", [], [STALE]),
    action!("read" "GetSnapshotBlockPublicAccessState", "returns whether snapshots can be shared publicly", [], [STALE]),
    action!("write" "ImportKeyPair", "imports a public key", [], [DUPLICATE]),
    action!("read" "ListSnapshotsInRecycleBin", "lists snapshots in the recycle bin", [], [STALE]),
    action!("read" "ListVolumesInRecycleBin", "lists volumes in the recycle bin", [], [STALE]),
    action!("write" "LockSnapshot", "protects a snapshot from deletion", [SNAPSHOT], [DUPLICATE]),
    action!("write" "ModifyEbsDefaultKmsKeyId", "sets the default encryption key", [], [DUPLICATE]),
    action!("write" "ModifyInstanceAttribute", "changes an attribute of an instance", [INSTANCE, ZONE], [DUPLICATE]),
    action!("write" "ModifyInstanceMetadataOptions", "changes options of the metadata service", [INSTANCE, ZONE], [DUPLICATE]),
    action!("write" "ModifySnapshotAttribute", "shares a snapshot", [SNAPSHOT], [DUPLICATE]),
    action!("write" "ModifySnapshotTier", "archives a snapshot", [SNAPSHOT], [DUPLICATE, stick(&["archival-in-progress"])]),
    action!(
        "write" "ModifyVolume", "changes size, type or speed of a volume",
        [VOLUME, ZONE], [DUPLICATE, VANISH, stick(&["modifying", "optimizing"])]
    ),
    action!("write" "ModifyVolumeAttribute", "changes an attribute of a volume", [VOLUME, ZONE], [DUPLICATE, VANISH]),
    action!("write" "MonitorInstances", "starts detailed monitoring of instances", [INSTANCE, ZONE], [DUPLICATE]),
    action!("write" "RebootInstances", "reboots instances", [INSTANCE, ZONE], [DUPLICATE]),
    action!("write" "RegisterImage", "creates an image from snapshots", [SNAPSHOT], [DUPLICATE]),
    action!("write" "ResetEbsDefaultKmsKeyId", "sets the default encryption key back to the key of AWS", [], [DUPLICATE]),
    action!("write" "ResetSnapshotAttribute", "stops sharing a snapshot", [SNAPSHOT], [DUPLICATE]),
    action!("write" "RestoreSnapshotFromRecycleBin", "brings a snapshot back from the recycle bin", [SNAPSHOT], [DUPLICATE]),
    action!("write" "RestoreSnapshotTier", "brings a snapshot back from the archive", [SNAPSHOT], [DUPLICATE, stick(&["permanent-restore-in-progress", "temporary-restore-in-progress"])]),
    action!("write" "RestoreVolumeFromRecycleBin", "brings a volume back from the recycle bin", [VOLUME], [DUPLICATE]),
    action!(
        "write" "RunInstances", "starts new instances",
        [INSTANCE.made(), SNAPSHOT, ZONE], [DUPLICATE, stick(&["pending"])]
    ),
    action!("write" "StartInstances", "starts instances again", [INSTANCE, ZONE], [DUPLICATE, stick(&["pending"])]),
    action!("write" "StopInstances", "stops instances", [INSTANCE, ZONE], [DUPLICATE, stick(&["stopping"])]),
    action!(
        "write" "TerminateInstances", "terminates instances",
        [INSTANCE, ZONE], [DUPLICATE, stick(&["shutting-down"])]
    ),
    action!("write" "UnlockSnapshot", "removes the lock of a snapshot", [SNAPSHOT], [DUPLICATE]),
    action!("write" "UnmonitorInstances", "ends detailed monitoring of instances", [INSTANCE, ZONE], [DUPLICATE]),
    Operation {
        plane: Plane::Ec2,
        name: DEVICES,
        classes: &[],
        about: "a device appears on an instance",
        attributes: &[VOLUME, INSTANCE],
        moments: BEFORE,
        can: &[
            Possible::new(Kind::DropReply, BEFORE, Values::Flag, "it never appears"),
            Possible::new(
                Kind::WrongDevice,
                BEFORE,
                Values::Flag,
                "it has the bytes of another volume: the newest one",
            ),
        ],
    },
    Operation {
        plane: Plane::Ec2,
        name: IMDS,
        classes: &[],
        about: "a request to the metadata service of an instance",
        attributes: &[INSTANCE, PATH, USER_AGENT],
        moments: BEFORE,
        can: &[
            Possible::new(
                Kind::Http,
                BEFORE,
                Values::Number { least: 400, most: 599 },
                "the caller gets the bare status",
            ),
            Possible::new(Kind::DropReply, BEFORE, Values::Flag, "the caller sees a broken connection"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::command::ACTIONS;

    #[test]
    fn codes_are_sorted() {
        assert!(ERROR_CODES.is_sorted());
    }

    #[test]
    fn documented_codes_are_possible_and_misspelled_ones_are_not() {
        let add = |code: &str| {
            let faults =
                substrate::fault::Faults::new(substrate::Seed::root(1), substrate::clock::TimeScale::default());
            faults.declare(OPERATIONS);
            let fault = serde_json::json!({
                "name": "f", "match": { "plane": "ec2", "op": "AttachVolume" }, "effect": { "error": code },
            });
            let added = faults.add(std::time::Duration::ZERO, serde_json::from_value(fault).unwrap());
            added.map_err(|mistake| mistake.nearest.unwrap_or_default())
        };
        // EC2's documented codes about volumes, snapshots and instances that this cloud never returns.
        for code in [
            "ConcurrentTagAccess",
            "IncorrectStateException",
            "InstanceLimitExceeded",
            "InsufficientInstanceCapacity",
            "InvalidAttachmentID.NotFound",
            "InvalidDevice.InUse",
            "InvalidInstanceID",
            "InvalidInstanceID.NotLinkable",
            "InvalidInstanceState",
            "InvalidSnapshot.InUse",
            "InvalidSnapshotID.Malformed",
            "InvalidVolume.NotAttached",
            "InvalidVolumeID.Duplicate",
            "InvalidVolumeID.Malformed",
            "InvalidVolumeID.ZoneMismatch",
            "PendingSnapshotLimitExceeded",
            "PriorRequestNotComplete",
            "RequestThrottled",
            "Throttling",
            "TooManyTagsOnResource",
            "UnsupportedInstanceAttribute",
            "VolumeModificationSizeLimitExceeded",
            "VolumeTypeNotAvailableInZone",
            "MyOwnCode",
            "My.OwnCode",
        ] {
            assert_eq!(add(code), Ok(()), "{code}");
        }
        for (code, meant) in [
            ("IncorectState", "IncorrectState"),
            ("RequestLimitExceded", "RequestLimitExceeded"),
            ("InvalidVolumeID.NotFound", "InvalidVolume.NotFound"),
            ("invalidParameterValue", "InvalidParameterValue"),
        ] {
            assert_eq!(add(code), Err(meant.to_owned()), "{code}");
        }
    }

    #[test]
    fn every_action_is_in_the_table_once_and_reads_are_those_that_change_nothing() {
        let names: Vec<&str> =
            OPERATIONS.iter().map(|o| o.name).filter(|name| ![DEVICES, IMDS].contains(name)).collect();
        assert_eq!(names, ACTIONS);
        for operation in OPERATIONS.iter().filter(|o| !o.classes.is_empty()) {
            let reads = crate::state::command::reads_only(operation.name);
            assert_eq!(operation.classes, [if reads { "read" } else { "write" }], "{}", operation.name);
        }
    }
}
