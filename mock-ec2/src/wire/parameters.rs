//! The names of the parameters that each action takes, for whoever checks a request before it is sent. What counts is
//! what [`super::decode`] takes; a test compares the two.

use super::decode;
use super::form::Form;
use crate::state::error::Ec2Error;

const FILTERS: &[&str] = &["Filter.N.Name", "Filter.N.Value.N"];
const PAGE: &[&str] = &["MaxResults", "NextToken"];
const TAG_SPECIFICATIONS: &[&str] =
    &["TagSpecification.N.ResourceType", "TagSpecification.N.Tag.N.Key", "TagSpecification.N.Tag.N.Value"];
const TAGS: &[&str] = &["ResourceId.N", "Tag.N.Key", "Tag.N.Value"];

/// An action, its own parameters, and those that it shares with others. A number in a name is `N`.
type Row = (&'static str, &'static [&'static str], &'static [&'static [&'static str]]);

const TABLE: &[Row] = &[
    ("AttachVolume", &["Device", "EbsCardIndex", "InstanceId", "VolumeId"], &[]),
    (
        "CopySnapshot",
        &[
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
        &["ClientToken", "Iops", "MultiAttachEnabled", "Size", "SourceVolumeId", "Throughput", "VolumeType"],
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
    ("DeleteSnapshot", &["SnapshotId"], &[]),
    ("DeleteTags", &[], &[TAGS]),
    ("DeleteVolume", &["VolumeId"], &[]),
    ("DescribeAvailabilityZones", &["AllAvailabilityZones", "ZoneId.N", "ZoneName.N"], &[FILTERS]),
    ("DescribeInstanceStatus", &["IncludeAllInstances", "InstanceId.N"], &[FILTERS, PAGE]),
    ("DescribeInstanceTypes", &["InstanceType.N"], &[FILTERS, PAGE]),
    ("DescribeInstances", &["InstanceId.N"], &[FILTERS, PAGE]),
    ("DescribeRegions", &["AllRegions", "RegionName.N"], &[FILTERS]),
    ("DescribeSnapshots", &["Owner.N", "RestorableBy.N", "SnapshotId.N"], &[FILTERS, PAGE]),
    ("DescribeTags", &[], &[FILTERS, PAGE]),
    ("DescribeVolumeAttribute", &["Attribute", "VolumeId"], &[]),
    ("DescribeVolumeStatus", &["VolumeId.N"], &[FILTERS, PAGE]),
    ("DescribeVolumes", &["VolumeId.N"], &[FILTERS, PAGE]),
    ("DescribeVolumesModifications", &["VolumeId.N"], &[FILTERS, PAGE]),
    ("DetachVolume", &["Device", "Force", "InstanceId", "VolumeId"], &[]),
    ("EnableFastSnapshotRestores", &["AvailabilityZone.N", "SourceSnapshotId.N"], &[]),
    ("LockSnapshot", &["CoolOffPeriod", "ExpirationDate", "LockDuration", "LockMode", "SnapshotId"], &[]),
    ("ModifyVolume", &["Iops", "MultiAttachEnabled", "Size", "Throughput", "VolumeId", "VolumeType"], &[]),
    ("ModifyVolumeAttribute", &["AutoEnableIO.Value", "VolumeId"], &[]),
    ("RebootInstances", &["InstanceId.N"], &[]),
    (
        "RunInstances",
        &["ClientToken", "ImageId", "InstanceType", "MaxCount", "MinCount", "Placement.AvailabilityZone", "SubnetId"],
        &[TAG_SPECIFICATIONS],
    ),
    ("StartInstances", &["InstanceId.N"], &[]),
    ("StopInstances", &["Force", "Hibernate", "InstanceId.N"], &[]),
    ("TerminateInstances", &["InstanceId.N"], &[]),
];

/// The parameters of `action` by name, each number as `N`; none for an action that is not known.
pub fn of(action: &str) -> Vec<&'static str> {
    let row = TABLE.iter().find(|row| row.0 == action);
    let names = row.into_iter().flat_map(|row| row.1.iter().chain(row.2.iter().copied().flatten()).copied());
    names.chain(row.map(|_| "DryRun")).collect()
}

/// Checks a request before it is sent: its action, the names of its parameters, and what can be told of their values
/// without knowing the cloud's state.
///
/// # Errors
/// What the cloud would answer.
pub fn check<'a>(action: &'a str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Ec2Error> {
    let all = [("Action", action), ("Version", super::VERSION)].into_iter().chain(parameters);
    decode::command(Form::of(all)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::command::ACTIONS;

    const GOOD: [&str; 7] =
        ["vol-0123456789abcdef0", "i-0123456789abcdef0", "snap-0123456789abcdef0", "1", "true", "volume", "regional"];

    /// What a request of an action needs at least.
    fn needed(action: &str) -> Vec<(&'static str, &'static str)> {
        let [volume, instance, snapshot, ..] = GOOD;
        let (volume, instance, snapshot) = (("VolumeId", volume), ("InstanceId", instance), ("SnapshotId", snapshot));
        match action {
            "AttachVolume" => vec![volume, instance, ("Device", "/dev/xvdba")],
            "CopySnapshot" => vec![("SourceSnapshotId", snapshot.1), ("SourceRegion", "us-east-1")],
            "CopyVolumes" => vec![("SourceVolumeId", volume.1)],
            "CreateSnapshots" => vec![("InstanceSpecification.InstanceId", instance.1)],
            "CreateTags" | "DeleteTags" => vec![("ResourceId.1", volume.1), ("Tag.9.Key", "k")],
            "DescribeVolumeAttribute" => vec![volume, ("Attribute", "autoEnableIO")],
            "EnableFastSnapshotRestores" => vec![("AvailabilityZone.1", "a"), ("SourceSnapshotId.1", snapshot.1)],
            "LockSnapshot" => vec![snapshot, ("LockMode", "governance")],
            "DeleteSnapshot" => vec![snapshot],
            "RunInstances" => vec![("ImageId", "ami-1"), ("MinCount", "1"), ("MaxCount", "1")],
            "RebootInstances" | "StartInstances" | "StopInstances" | "TerminateInstances" => {
                vec![("InstanceId.1", instance.1)]
            }
            "CreateSnapshot" | "DeleteVolume" | "DetachVolume" | "ModifyVolume" | "ModifyVolumeAttribute" => {
                vec![volume]
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_action_is_in_the_table_and_takes_its_parameters() {
        assert_eq!(TABLE.iter().map(|row| row.0).collect::<Vec<_>>(), ACTIONS);
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
