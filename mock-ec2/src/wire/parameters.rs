//! Names of the parameters of each action, for checks before a request is sent. [`super::decode`] is authoritative; a
//! test compares the two.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::decode;
use super::form::Form;
use super::services::Service;
use crate::state::error::Ec2Error;
use crate::state::kinds::SHAPES;

const FILTERS: &[&str] = &["Filter.N.Name", "Filter.N.Value.N"];
const PAGE: &[&str] = &["MaxResults", "NextToken"];
const TAG_SPECIFICATIONS: &[&str] =
    &["TagSpecification.N.ResourceType", "TagSpecification.N.Tag.N.Key", "TagSpecification.N.Tag.N.Value"];
const TAGS: &[&str] = &["ResourceId.N", "Tag.N.Key", "Tag.N.Value"];

const DEVICES: &[&str] = &[
    "BlockDeviceMapping.N.DeviceName",
    "BlockDeviceMapping.N.Ebs.DeleteOnTermination",
    "BlockDeviceMapping.N.Ebs.EbsCardIndex",
    "BlockDeviceMapping.N.Ebs.Encrypted",
    "BlockDeviceMapping.N.Ebs.Iops",
    "BlockDeviceMapping.N.Ebs.KmsKeyId",
    "BlockDeviceMapping.N.Ebs.SnapshotId",
    "BlockDeviceMapping.N.Ebs.Throughput",
    "BlockDeviceMapping.N.Ebs.VolumeInitializationRate",
    "BlockDeviceMapping.N.Ebs.VolumeSize",
    "BlockDeviceMapping.N.Ebs.VolumeType",
    "BlockDeviceMapping.N.NoDevice",
];

const RUN_INSTANCES: &[&str] = &[
    "ClientToken",
    "CreditSpecification.CpuCredits",
    "DisableApiStop",
    "DisableApiTermination",
    "EbsOptimized",
    "HibernationOptions.Configured",
    "IamInstanceProfile.Arn",
    "IamInstanceProfile.Name",
    "ImageId",
    "InstanceInitiatedShutdownBehavior",
    "InstanceType",
    "KeyName",
    "LaunchTemplate.LaunchTemplateId",
    "LaunchTemplate.LaunchTemplateName",
    "LaunchTemplate.Version",
    "MaxCount",
    "MetadataOptions.HttpEndpoint",
    "MetadataOptions.HttpProtocolIpv6",
    "MetadataOptions.HttpPutResponseHopLimit",
    "MetadataOptions.HttpTokens",
    "MetadataOptions.InstanceMetadataTags",
    "MinCount",
    "Monitoring.Enabled",
    "NetworkInterface.N.AssociatePublicIpAddress",
    "NetworkInterface.N.DeleteOnTermination",
    "NetworkInterface.N.DeviceIndex",
    "NetworkInterface.N.SecurityGroupId.N",
    "NetworkInterface.N.SubnetId",
    "Placement.AvailabilityZone",
    "Placement.AvailabilityZoneId",
    "Placement.Tenancy",
    "SecurityGroup.N",
    "SecurityGroupId.N",
    "SubnetId",
    "UserData",
];

/// Action, its own parameters, and those that it shares with others. `N` stands for a number in a name.
type Row = (&'static str, &'static [&'static str], &'static [&'static [&'static str]]);

const TABLE: &[Row] = &[
    ("AttachVolume", &["Device", "EbsCardIndex", "InstanceId", "VolumeId"], &[]),
    (
        "CopySnapshot",
        &[
            "CompletionDurationMinutes",
            "Description",
            "DestinationRegion",
            "Encrypted",
            "KmsKeyId",
            "PresignedUrl",
            "SourceRegion",
            "SourceSnapshotId",
        ],
        &[TAG_SPECIFICATIONS],
    ),
    (
        "CopyVolumes",
        &[
            "ClientToken",
            "Encrypted",
            "Iops",
            "KmsKeyId",
            "MultiAttachEnabled",
            "Size",
            "SourceVolumeId",
            "Throughput",
            "VolumeType",
        ],
        &[TAG_SPECIFICATIONS],
    ),
    ("CreateImage", &["Description", "InstanceId", "Name", "NoReboot"], &[DEVICES, TAG_SPECIFICATIONS]),
    ("CreateKeyPair", &["KeyFormat", "KeyName", "KeyType"], &[TAG_SPECIFICATIONS]),
    ("CreatePlacementGroup", &["GroupName", "PartitionCount", "SpreadLevel", "Strategy"], &[TAG_SPECIFICATIONS]),
    (
        "CreateReplaceRootVolumeTask",
        &["ClientToken", "DeleteReplacedRootVolume", "ImageId", "InstanceId", "SnapshotId", "VolumeInitializationRate"],
        &[TAG_SPECIFICATIONS],
    ),
    ("CreateSnapshot", &["Description", "Location", "OutpostArn", "VolumeId"], &[TAG_SPECIFICATIONS]),
    (
        "CreateSnapshots",
        &[
            "CopyTagsFromSource",
            "Description",
            "InstanceSpecification.ExcludeBootVolume",
            "InstanceSpecification.ExcludeDataVolumeId.N",
            "InstanceSpecification.InstanceId",
            "Location",
            "OutpostArn",
        ],
        &[TAG_SPECIFICATIONS],
    ),
    ("CreateSubnet", &["AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "VpcId"], &[TAG_SPECIFICATIONS]),
    ("CreateTags", &[], &[TAGS]),
    (
        "CreateVolume",
        &[
            "AvailabilityZone",
            "AvailabilityZoneId",
            "ClientToken",
            "Encrypted",
            "Iops",
            "KmsKeyId",
            "MultiAttachEnabled",
            "OutpostArn",
            "Size",
            "SnapshotId",
            "Throughput",
            "VolumeInitializationRate",
            "VolumeType",
        ],
        &[TAG_SPECIFICATIONS],
    ),
    ("CreateVpc", &["AmazonProvidedIpv6CidrBlock", "CidrBlock", "InstanceTenancy"], &[TAG_SPECIFICATIONS]),
    ("DeleteKeyPair", &["KeyName", "KeyPairId"], &[]),
    ("DeletePlacementGroup", &["GroupName"], &[]),
    ("DeleteSnapshot", &["SnapshotId"], &[]),
    ("DeleteSubnet", &["SubnetId"], &[]),
    ("DeleteTags", &[], &[TAGS]),
    ("DeleteVolume", &["VolumeId"], &[]),
    ("DeleteVpc", &["VpcId"], &[]),
    ("DeregisterImage", &["DeleteAssociatedSnapshots", "ImageId"], &[]),
    ("DescribeAvailabilityZones", &["AllAvailabilityZones", "ZoneId.N", "ZoneName.N"], &[FILTERS]),
    ("DescribeInstanceAttribute", &["Attribute", "InstanceId"], &[]),
    ("DescribeInstanceStatus", &["IncludeAllInstances", "IncludeManagedResources", "InstanceId.N"], &[FILTERS, PAGE]),
    ("DescribeInstanceTypes", &["IncludeUnsupportedInRegion", "InstanceType.N"], &[FILTERS, PAGE]),
    ("DescribeInstances", &["IncludeManagedResources", "InstanceId.N"], &[FILTERS, PAGE]),
    ("DescribeRegions", &["AllRegions", "RegionName.N"], &[FILTERS]),
    ("DescribeSnapshotAttribute", &["Attribute", "SnapshotId"], &[]),
    ("DescribeSnapshots", &["Owner.N", "RestorableBy.N", "SnapshotId.N"], &[FILTERS, PAGE]),
    ("DescribeTags", &[], &[FILTERS, PAGE]),
    ("DescribeVolumeAttribute", &["Attribute", "VolumeId"], &[]),
    ("DescribeVolumeStatus", &["IncludeManagedResources", "VolumeId.N"], &[FILTERS, PAGE]),
    ("DescribeVolumes", &["IncludeManagedResources", "VolumeId.N"], &[FILTERS, PAGE]),
    ("DescribeVolumesModifications", &["IncludeManagedResources", "VolumeId.N"], &[FILTERS, PAGE]),
    ("DescribeVpcAttribute", &["Attribute", "VpcId"], &[]),
    ("DetachVolume", &["Device", "Force", "InstanceId", "VolumeId"], &[]),
    ("DisableEbsEncryptionByDefault", &[], &[]),
    ("DisableFastSnapshotRestores", &["AvailabilityZone.N", "AvailabilityZoneId.N", "SourceSnapshotId.N"], &[]),
    ("DisableSnapshotBlockPublicAccess", &[], &[]),
    ("EnableEbsEncryptionByDefault", &[], &[]),
    ("EnableFastSnapshotRestores", &["AvailabilityZone.N", "AvailabilityZoneId.N", "SourceSnapshotId.N"], &[]),
    ("EnableSnapshotBlockPublicAccess", &["State"], &[]),
    ("EnableVolumeIO", &["VolumeId"], &[]),
    ("GetCallerIdentity", &[], &[]),
    ("GetEbsDefaultKmsKeyId", &[], &[]),
    ("GetEbsEncryptionByDefault", &[], &[]),
    ("GetSnapshotBlockPublicAccessState", &[], &[]),
    ("ImportKeyPair", &["KeyName", "PublicKeyMaterial"], &[TAG_SPECIFICATIONS]),
    ("LockSnapshot", &["CoolOffPeriod", "ExpirationDate", "LockDuration", "LockMode", "SnapshotId"], &[]),
    ("ModifyEbsDefaultKmsKeyId", &["KmsKeyId"], &[]),
    (
        "ModifyInstanceAttribute",
        &[
            "Attribute",
            "BlockDeviceMapping.N.DeviceName",
            "BlockDeviceMapping.N.Ebs.DeleteOnTermination",
            "BlockDeviceMapping.N.Ebs.VolumeId",
            "DisableApiStop.Value",
            "DisableApiTermination.Value",
            "EbsOptimized.Value",
            "GroupId.N",
            "InstanceId",
            "InstanceInitiatedShutdownBehavior.Value",
            "InstanceType.Value",
            "SourceDestCheck.Value",
            "UserData.Value",
            "Value",
        ],
        &[],
    ),
    (
        "ModifyInstanceMetadataOptions",
        &[
            "HttpEndpoint",
            "HttpProtocolIpv6",
            "HttpPutResponseHopLimit",
            "HttpTokens",
            "InstanceId",
            "InstanceMetadataTags",
        ],
        &[],
    ),
    (
        "ModifySnapshotAttribute",
        &[
            "Attribute",
            "CreateVolumePermission.Add.N.Group",
            "CreateVolumePermission.Add.N.UserId",
            "CreateVolumePermission.Remove.N.Group",
            "CreateVolumePermission.Remove.N.UserId",
            "OperationType",
            "SnapshotId",
            "UserGroup.N",
            "UserId.N",
        ],
        &[],
    ),
    ("ModifySnapshotTier", &["SnapshotId", "StorageTier"], &[]),
    ("ModifyVolume", &["Iops", "MultiAttachEnabled", "Size", "Throughput", "VolumeId", "VolumeType"], &[]),
    ("ModifyVolumeAttribute", &["AutoEnableIO.Value", "VolumeId"], &[]),
    ("MonitorInstances", &["InstanceId.N"], &[]),
    ("RebootInstances", &["InstanceId.N"], &[]),
    (
        "RegisterImage",
        &[
            "Architecture",
            "BootMode",
            "Description",
            "EnaSupport",
            "Name",
            "RootDeviceName",
            "SriovNetSupport",
            "VirtualizationType",
        ],
        &[DEVICES, TAG_SPECIFICATIONS],
    ),
    ("ResetEbsDefaultKmsKeyId", &[], &[]),
    ("ResetSnapshotAttribute", &["Attribute", "SnapshotId"], &[]),
    ("RestoreSnapshotFromRecycleBin", &["SnapshotId"], &[]),
    ("RestoreSnapshotTier", &["PermanentRestore", "SnapshotId", "TemporaryRestoreDays"], &[]),
    ("RestoreVolumeFromRecycleBin", &["VolumeId"], &[]),
    ("RunInstances", RUN_INSTANCES, &[DEVICES, TAG_SPECIFICATIONS]),
    ("StartInstances", &["InstanceId.N"], &[]),
    ("StopInstances", &["Force", "Hibernate", "InstanceId.N", "SkipOsShutdown"], &[]),
    ("TerminateInstances", &["Force", "InstanceId.N", "SkipOsShutdown"], &[]),
    ("UnlockSnapshot", &["SnapshotId"], &[]),
    ("UnmonitorInstances", &["InstanceId.N"], &[]),
];

/// Parameters of the actions that only list things.
static LISTED: LazyLock<BTreeMap<&'static str, Vec<String>>> =
    LazyLock::new(|| SHAPES.iter().map(|shape| (shape.action, super::listed::names(shape))).collect());

/// Returns the parameters of `action` by name, with `N` for numbers; none for an unknown action.
pub fn of(action: &str) -> Vec<&'static str> {
    if let Some(names) = LISTED.get(action) {
        return names.iter().map(String::as_str).chain(["DryRun"]).collect();
    }
    let row = TABLE.iter().find(|row| row.0 == action);
    let names = row.into_iter().flat_map(|row| row.1.iter().chain(row.2.iter().copied().flatten()).copied());
    names.chain(row.map(|_| "DryRun")).collect()
}

/// Checks a request before it is sent: its action, the names of its parameters, and their values as far as the cloud's
/// state does not matter.
///
/// # Errors
/// The cloud's answer.
pub fn check<'a>(action: &'a str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Ec2Error> {
    let service = Service::of_action(action);
    let all = [("Action", action), ("Version", service.version())].into_iter().chain(parameters);
    decode::command(service, Form::of(all)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::command::ACTIONS;
    use crate::state::kinds::Kind;

    const GOOD: [&str; 7] =
        ["vol-0123456789abcdef0", "i-0123456789abcdef0", "snap-0123456789abcdef0", "1", "true", "volume", "regional"];

    /// Returns the minimal parameters of an action.
    fn needed(action: &str) -> Vec<(&'static str, &'static str)> {
        let [volume, instance, snapshot, ..] = GOOD;
        let (volume, instance, snapshot) = (("VolumeId", volume), ("InstanceId", instance), ("SnapshotId", snapshot));
        match action {
            "AttachVolume" => vec![volume, instance, ("Device", "/dev/xvdba")],
            "CopySnapshot" => vec![("SourceSnapshotId", snapshot.1), ("SourceRegion", "us-east-1")],
            "CopyVolumes" => vec![("SourceVolumeId", volume.1)],
            "CreateImage" => vec![instance, ("Name", "image")],
            "DeregisterImage" => vec![("ImageId", "ami-0123456789abcdef0")],
            "CreateKeyPair" | "DeleteKeyPair" => vec![("KeyName", "mine")],
            "ImportKeyPair" => vec![("KeyName", "mine"), ("PublicKeyMaterial", "c3NoLXJzYQ==")],
            "CreatePlacementGroup" | "DeletePlacementGroup" => vec![("GroupName", "mine")],
            "CreateVpc" => vec![("CidrBlock", "10.0.0.0/16")],
            "CreateSubnet" => vec![("CidrBlock", "10.0.0.0/16"), ("VpcId", "vpc-0123456789abcdef0")],
            "DeleteVpc" => vec![("VpcId", "vpc-0123456789abcdef0")],
            "DeleteSubnet" => vec![("SubnetId", "subnet-0123456789abcdef0")],
            "EnableSnapshotBlockPublicAccess" => vec![("State", "block-all-sharing")],
            "CreateReplaceRootVolumeTask" => vec![instance],
            "RegisterImage" => vec![("Name", "image"), ("RootDeviceName", "/dev/xvda")],
            "CreateSnapshots" => vec![("InstanceSpecification.InstanceId", instance.1)],
            "CreateTags" | "DeleteTags" => vec![("ResourceId.1", volume.1), ("Tag.9.Key", "k")],
            "DescribeVolumeAttribute" => vec![volume, ("Attribute", "autoEnableIO")],
            "EnableFastSnapshotRestores" => vec![("AvailabilityZone.1", "a"), ("SourceSnapshotId.1", snapshot.1)],
            "LockSnapshot" => vec![snapshot, ("LockMode", "governance")],
            "DescribeSnapshotAttribute" | "ResetSnapshotAttribute" => {
                vec![snapshot, ("Attribute", "createVolumePermission")]
            }
            "DescribeInstanceAttribute" => vec![instance, ("Attribute", "userData")],
            "DescribeVpcAttribute" => vec![("VpcId", "vpc-0123456789abcdef0"), ("Attribute", "enableDnsSupport")],
            "DisableFastSnapshotRestores" => vec![("AvailabilityZone.1", "a"), ("SourceSnapshotId.1", snapshot.1)],
            "ModifyEbsDefaultKmsKeyId" => vec![("KmsKeyId", "alias/aws/ebs")],
            "ModifyInstanceAttribute" => vec![instance, ("GroupId.1", "sg-0123456789abcdef0")],
            "ModifyInstanceMetadataOptions" => vec![instance],
            "ModifySnapshotAttribute" => vec![snapshot, ("UserGroup.1", "all"), ("OperationType", "add")],
            "DeleteSnapshot"
            | "ModifySnapshotTier"
            | "RestoreSnapshotFromRecycleBin"
            | "RestoreSnapshotTier"
            | "UnlockSnapshot" => vec![snapshot],
            "RunInstances" => vec![("ImageId", "ami-0123456789abcdef0"), ("MinCount", "1"), ("MaxCount", "1")],
            "MonitorInstances" | "RebootInstances" | "StartInstances" | "StopInstances" | "TerminateInstances"
            | "UnmonitorInstances" => {
                vec![("InstanceId.1", instance.1)]
            }
            "CreateSnapshot"
            | "DeleteVolume"
            | "DetachVolume"
            | "EnableVolumeIO"
            | "ModifyVolume"
            | "ModifyVolumeAttribute"
            | "RestoreVolumeFromRecycleBin" => {
                vec![volume]
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_action_is_in_the_table_and_takes_its_parameters() {
        let listed = |action: &str| Kind::of(action).is_some();
        let others: Vec<&str> = ACTIONS.iter().copied().filter(|action| !listed(action)).collect();
        assert_eq!(TABLE.iter().map(|row| row.0).collect::<Vec<_>>(), others);
        for action in ACTIONS {
            check(action, needed(action)).unwrap_or_else(|e| panic!("{action}: {e}"));
            for name in of(action) {
                let parts: Vec<&str> = name.split('.').map(|part| if part == "N" { "9" } else { part }).collect();
                let name = parts.join(".");
                let refused = |value: &str| {
                    let mut all = needed(action);
                    all.retain(|(known, _)| *known != name);
                    all.push((&name, value));
                    let error = check(action, all).err().map(|e| e.code().to_owned());
                    error.is_some_and(|code| code == "UnknownParameter")
                };
                assert!(GOOD.iter().all(|value| !refused(value)), "{action} {name}");
            }
            assert!(of(action).contains(&"DryRun"));
            let with_another = needed(action).into_iter().chain([("Colour", "red")]);
            assert_eq!(check(action, with_another).unwrap_err().to_string(), "The parameter Colour is not recognized");
        }
        assert!(of("DetachVolumes").is_empty());
    }
}
