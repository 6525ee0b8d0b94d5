//! Broken requests: valid ones with random mutations.

#![allow(missing_docs, reason = "helpers of tests")]

use substrate::seed::between;

/// Valid requests to start from.
pub const REQUESTS_TO_BREAK: [&str; 56] = [
    "Action=AttachVolume&VolumeId=VOLUME&InstanceId=INSTANCE&Device=/dev/sdf&EbsCardIndex=0",
    "Action=CopySnapshot&SourceSnapshotId=SNAPSHOT&SourceRegion=us-east-1&Encrypted=true",
    "Action=CopyVolumes&SourceVolumeId=VOLUME&Size=9&ClientToken=c",
    "Action=CreateSnapshot&VolumeId=VOLUME&Description=d&TagSpecification.1.ResourceType=snapshot&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v",
    "Action=CreateSnapshots&InstanceSpecification.InstanceId=INSTANCE&InstanceSpecification.ExcludeBootVolume=true",
    "Action=CreateTags&ResourceId.1=VOLUME&ResourceId.2=SNAPSHOT&Tag.1.Key=k&Tag.1.Value=v",
    "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3&Iops=3000&Throughput=125&ClientToken=t",
    "Action=CreateVolume&AvailabilityZoneId=use1-az1&SnapshotId=SNAPSHOT&VolumeInitializationRate=100&Encrypted=true&KmsKeyId=k",
    "Action=DeleteSnapshot&SnapshotId=SNAPSHOT",
    "Action=DeleteTags&ResourceId.1=VOLUME&Tag.1.Key=k",
    "Action=DeleteVolume&VolumeId=VOLUME",
    "Action=DescribeAvailabilityZones&ZoneName.1=us-east-1a&Filter.1.Name=state&Filter.1.Value.1=available",
    "Action=DescribeInstanceStatus&InstanceId.1=INSTANCE&IncludeAllInstances=true",
    "Action=DescribeInstanceTypes&MaxResults=5&Filter.1.Name=instance-type&Filter.1.Value.1=m5.*",
    "Action=DescribeInstances&InstanceId.1=INSTANCE&Filter.1.Name=tag:Name&Filter.1.Value.1=*&Filter.1.Value.2=?",
    "Action=DescribeRegions&RegionName.1=us-east-1",
    "Action=DescribeSnapshots&Owner.1=self&MaxResults=5&Filter.1.Name=volume-id&Filter.1.Value.1=VOLUME",
    "Action=DescribeTags&MaxResults=5&Filter.1.Name=key&Filter.1.Value.1=N*",
    "Action=DescribeVolumeAttribute&VolumeId=VOLUME&Attribute=autoEnableIO",
    "Action=DescribeVolumeStatus&VolumeId.1=VOLUME&Filter.1.Name=volume-status.status&Filter.1.Value.1=ok",
    "Action=DescribeVolumes&MaxResults=5&Filter.1.Name=attachment.device&Filter.1.Value.1=/dev/*",
    "Action=DescribeVolumesModifications&VolumeId.1=VOLUME",
    "Action=DetachVolume&VolumeId=VOLUME&InstanceId=INSTANCE&Force=true",
    "Action=EnableFastSnapshotRestores&AvailabilityZone.1=us-east-1a&SourceSnapshotId.1=SNAPSHOT",
    "Action=LockSnapshot&SnapshotId=SNAPSHOT&LockMode=compliance&CoolOffPeriod=1&LockDuration=1",
    "Action=LockSnapshot&SnapshotId=SNAPSHOT&LockMode=governance&ExpirationDate=2030-01-01T00:00:00Z",
    "Action=ModifyVolume&VolumeId=VOLUME&Size=9&VolumeType=io2&Iops=4000",
    "Action=ModifyVolumeAttribute&VolumeId=VOLUME&AutoEnableIO.Value=true",
    "Action=RebootInstances&InstanceId.1=INSTANCE",
    "Action=RunInstances&ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=1&MaxCount=2&Placement.AvailabilityZone=us-east-1a",
    "Action=StartInstances&InstanceId.1=INSTANCE",
    "Action=StopInstances&InstanceId.1=INSTANCE&Force=false",
    "Action=TerminateInstances&InstanceId.1=INSTANCE",
    "Action=DescribeAccountAttributes&AttributeName.1=default-vpc",
    "Action=DescribeFastSnapshotRestores&MaxResults=5&Filter.1.Name=state&Filter.1.Value.1=en*",
    "Action=DescribeImages&Owner.1=amazon&ExecutableBy.1=all&MaxResults=5&Filter.1.Name=name&Filter.1.Value.1=*",
    "Action=DescribeInstanceAttribute&InstanceId=INSTANCE&Attribute=blockDeviceMapping",
    "Action=DescribeInstanceTypeOfferings&LocationType=availability-zone&MaxResults=5",
    "Action=DescribeKeyPairs&KeyName.1=k&IncludePublicKey=true",
    "Action=DescribeLockedSnapshots&SnapshotId.1=SNAPSHOT&Filter.1.Name=lock-state&Filter.1.Value.1=*",
    "Action=DescribeNetworkInterfaces&Filter.1.Name=attachment.instance-id&Filter.1.Value.1=INSTANCE",
    "Action=DescribeSnapshotAttribute&SnapshotId=SNAPSHOT&Attribute=createVolumePermission",
    "Action=DescribeSnapshotTierStatus&MaxResults=5&Filter.1.Name=snapshot-id&Filter.1.Value.1=SNAPSHOT",
    "Action=DescribeSubnets&SubnetId.1=subnet-0123456789abcdef0&Filter.1.Name=cidr&Filter.1.Value.1=10.*",
    "Action=DescribeVpcAttribute&VpcId=vpc-0123456789abcdef0&Attribute=enableDnsSupport",
    "Action=DisableFastSnapshotRestores&AvailabilityZone.1=us-east-1a&SourceSnapshotId.1=SNAPSHOT",
    "Action=EnableVolumeIO&VolumeId=VOLUME",
    "Action=ModifyEbsDefaultKmsKeyId&KmsKeyId=arn:aws:kms:us-east-1:000000000000:alias/mine",
    "Action=ModifyInstanceAttribute&InstanceId=INSTANCE&Attribute=userData&Value=aGk=",
    "Action=ModifyInstanceAttribute&InstanceId=INSTANCE&BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true",
    "Action=ModifyInstanceMetadataOptions&InstanceId=INSTANCE&HttpTokens=required&HttpPutResponseHopLimit=2",
    "Action=ModifySnapshotAttribute&SnapshotId=SNAPSHOT&CreateVolumePermission.Add.1.UserId=111122223333&CreateVolumePermission.Remove.1.Group=all",
    "Action=ModifySnapshotTier&SnapshotId=SNAPSHOT&StorageTier=archive",
    "Action=RestoreSnapshotTier&SnapshotId=SNAPSHOT&TemporaryRestoreDays=2",
    "Action=RunInstances&ImageId=ami-0123456789abcdef0&InstanceType=t3.micro&MinCount=1&MaxCount=1&BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=1&BlockDeviceMapping.2.DeviceName=/dev/sdg&BlockDeviceMapping.2.Ebs.SnapshotId=SNAPSHOT&MetadataOptions.HttpTokens=required&NetworkInterface.1.DeviceIndex=0&CreditSpecification.CpuCredits=standard",
    "Action=UnlockSnapshot&SnapshotId=SNAPSHOT",
];

/// Values that break requests.
const POISON: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "5",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "4294967296",
    "1e309",
    "NaN",
    "true",
    "%00",
    "%FF",
    "%",
    "%F0%9F%92%A3",
    "%ef%bf%bf",
    "../../etc/passwd",
    "<b>%26amp;]]>",
    "*****?",
    "%5C",
    "vol-0aaaaaaaaaaaaaaaa",
    "YWZ0ZXI6",
    "9999-12-31T23:59:59Z",
];

/// Returns `text` with some of its parameters changed, doubled, renamed, poisoned or removed.
pub fn broken(text: &str, rng: &mut impl rand_core::Rng) -> String {
    let mut pairs: Vec<String> = text.split('&').map(str::to_owned).collect();
    for _ in 0..between(rng, 0, 3) {
        let at = between(rng, 0, pairs.len() as u64 - 1) as usize;
        let poison = POISON[between(rng, 0, POISON.len() as u64 - 1) as usize];
        let (name, value) =
            pairs[at].split_once('=').map_or((pairs[at].clone(), String::new()), |(n, v)| (n.into(), v.into()));
        match between(rng, 0, 7) {
            0..=2 => pairs[at] = format!("{name}={poison}"),
            3 => pairs[at] = format!("{name}{poison}={value}"),
            4 => {
                pairs.remove(at);
            }
            5 => pairs.push(pairs[at].clone()),
            6 => pairs[at] = format!("{name}={value}{}", poison.repeat(between(rng, 1, 300) as usize)),
            _ => pairs.push("DryRun=true".to_owned()),
        }
        if pairs.is_empty() {
            break;
        }
    }
    pairs.join("&")
}
