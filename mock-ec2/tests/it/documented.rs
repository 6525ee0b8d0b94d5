//! Filters, parameters and answers as EC2's API model has them, or as they were recorded from AWS.

use mock_ec2::LatencyProfile::Instant;
use mock_ec2::{Config, InstanceSpec};
use rstest::rstest;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

/// getmoto/moto#8570, which asked EC2.
#[test]
fn a_filter_without_values_matches_nothing() {
    play(1, config(Instant), |cloud| async move {
        cloud.volume().await;
        for (action, filter, tag) in [
            ("DescribeVolumes", "status", "volumeId"),
            ("DescribeVolumes", "tag:Name", "volumeId"),
            ("DescribeInstances", "vpc-id", "instanceId"),
            ("DescribeSubnets", "vpc-id", "subnetId"),
            ("DescribeAvailabilityZones", "state", "zoneName"),
        ] {
            let none = call(&cloud, action, &format!("Filter.1.Name={filter}")).await;
            assert_eq!((none.status, none.all(tag)), (200, Vec::new()), "{action} {filter}");
        }
        assert_eq!(call(&cloud, "DescribeVolumes", "Filter.1.Value.1=x").await.code(), "InvalidParameterValue");
    });
}

#[rstest]
#[case("DescribeAvailabilityZones", "group-long-name", "US East (N.*", "zoneName", 3)]
#[case("DescribeAvailabilityZones", "group-name", "us-east-1-zg-1", "zoneName", 3)]
#[case("DescribeAvailabilityZones", "parent-zone-name", "*", "zoneName", 0)]
#[case("DescribeInstanceStatus", "attached-ebs-status.status", "ok", "instanceId", 3)]
#[case("DescribeInstanceStatus", "event.not-before", "*", "instanceId", 0)]
#[case("DescribeInstanceStatus", "operator.managed", "false", "instanceId", 3)]
#[case("DescribeNetworkAcls", "entry.port-range.from", "*", "networkAclId", 0)]
#[case("DescribeVpcs", "cidr-block", "10.0.0.0/16", "vpcId", 1)]
fn a_documented_filter_is_known(
    #[case] action: &str,
    #[case] name: &str,
    #[case] value: &str,
    #[case] tag: &str,
    #[case] hits: usize,
) {
    play(1, config(Instant), |cloud| async move {
        let found = call(&cloud, action, &format!("Filter.1.Name={name}&Filter.1.Value.1={value}")).await;
        assert_eq!((found.status, found.all(tag).len()), (200, hits), "{}", found.body);
    });
}

#[test]
fn modifications_are_found_by_multi_attach() {
    play(1, config(Instant), |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&VolumeType=io2&Iops=100";
        let volume = call(&cloud, "CreateVolume", form).await.first("volumeId").unwrap_or_default();
        call(&cloud, "ModifyVolume", &format!("VolumeId={volume}&MultiAttachEnabled=true")).await;
        let found = async |name: &str, value: &str| {
            let form = format!("Filter.1.Name={name}&Filter.1.Value.1={value}");
            call(&cloud, "DescribeVolumesModifications", &form).await.all("volumeId")
        };
        assert_eq!(found("originalMultiAttachEnabled", "false").await, std::slice::from_ref(&volume));
        assert_eq!(found("targetMultiAttachEnabled", "true").await, std::slice::from_ref(&volume));
        assert_eq!(found("targetMultiAttachEnabled", "false").await, Vec::<String>::new());
    });
}

#[rstest]
#[case("DescribeInstances", "IncludeManagedResources")]
#[case("DescribeInstanceStatus", "IncludeManagedResources")]
#[case("DescribeInstanceTypes", "IncludeUnsupportedInRegion")]
#[case("DescribeVolumes", "IncludeManagedResources")]
#[case("DescribeVolumesModifications", "IncludeManagedResources")]
#[case("DescribeVolumeStatus", "IncludeManagedResources")]
fn a_flag_without_effect_is_accepted(#[case] action: &str, #[case] flag: &str) {
    play(1, config(Instant), |cloud| async move {
        assert_eq!(call(&cloud, action, &format!("{flag}=true")).await.status, 200);
        assert_eq!(call(&cloud, action, &format!("{flag}=banana")).await.code(), "InvalidParameterValue");
    });
}

#[rstest]
#[case("DescribeFastSnapshotRestores", 200)]
#[case("DescribeLaunchTemplates", 200)]
#[case("DescribeReplaceRootVolumeTasks", 200)]
#[case("DescribeSubnets", 400)]
fn a_page_has_the_least_size_of_its_action(#[case] action: &str, #[case] status: u16) {
    play(1, config(Instant), |cloud| async move {
        assert_eq!(call(&cloud, action, "MaxResults=1").await.status, status);
    });
}

/// The words are those of AWS: hashicorp/terraform#6110, newsapps/beeswithmachineguns#90, kz8s/tack#67.
#[rstest]
#[case(
    "CreateVolume",
    "AvailabilityZone=us-west-2a&Size=1",
    "InvalidZone.NotFound",
    "The zone 'us-west-2a' does not exist."
)]
#[case(
    "RunInstances",
    "ImageId=ami-0123456789abcdef0&MinCount=1&MaxCount=1&Placement.AvailabilityZone=eu-west-1",
    "InvalidParameterValue",
    "Invalid availability zone: [eu-west-1]"
)]
#[case(
    "CreateSubnet",
    "VpcId=VPC&CidrBlock=10.0.0.0/16&AvailabilityZone=us-east-1x",
    "InvalidParameterValue",
    "Value (us-east-1x) for parameter availabilityZone is invalid. Subnets can currently only be created in the \
     following availability zones: us-east-1a, us-east-1b, us-east-1c."
)]
fn an_unknown_zone_is_refused_in_the_words_of_aws(
    #[case] action: &str,
    #[case] rest: &str,
    #[case] code: &str,
    #[case] text: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let vpc = call(&cloud, "DescribeVpcs", "").await.first("vpcId").unwrap_or_default();
        let refused = call(&cloud, action, &rest.replace("VPC", &vpc)).await;
        assert_eq!((refused.code().as_str(), refused.message().as_str()), (code, text));
    });
}

/// LocalStack recorded this answer of AWS in 2025.
#[test]
fn zones_have_a_group_with_a_name_in_words() {
    play(1, config(Instant), |cloud| async move {
        let zone = call(&cloud, "DescribeAvailabilityZones", "ZoneName.1=us-east-1a").await;
        let tags = ["groupName", "groupLongName", "networkBorderGroup", "optInStatus"];
        let wanted = ["us-east-1-zg-1", "US East (N. Virginia) 1", "us-east-1", "opt-in-not-required"];
        assert_eq!(tags.map(|tag| zone.first(tag).unwrap_or_default()), wanted);
    });
}

/// The EBS driver sends `Encrypted=false` with each restore for a class without encryption.
#[test]
fn a_restore_of_an_encrypted_snapshot_is_encrypted_whatever_it_asks_for() {
    play(1, config(Instant), |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&Encrypted=true&KmsKeyId=alias/mine";
        let volume = call(&cloud, "CreateVolume", form).await;
        let id = volume.first("volumeId").unwrap_or_default();
        let snapshot = call(&cloud, "CreateSnapshot", &format!("VolumeId={id}")).await.first("snapshotId");
        let form = format!("AvailabilityZone=us-east-1a&Encrypted=false&SnapshotId={}", snapshot.unwrap_or_default());
        let restored = call(&cloud, "CreateVolume", &form).await;
        assert_eq!(
            (restored.first("encrypted").as_deref(), restored.first("kmsKeyId")),
            (Some("true"), volume.first("kmsKeyId"))
        );
    });
}

#[test]
fn the_volumes_of_a_nitro_instance_have_a_status() {
    let mut old = InstanceSpec::new("old", "us-east-1a");
    old.instance_type = "t2.medium".to_owned();
    let mut with_old = Config { ..config(Instant) };
    with_old.instances.push(old);
    play(1, with_old, |cloud| async move {
        let status = async |name: &str| {
            call(&cloud, "DescribeInstanceStatus", &format!("InstanceId.1={}", cloud.instance(name))).await
        };
        assert!(status("node-a").await.body.contains("<attachedEbsStatus><status>ok</status>"));
        assert!(!status("old").await.body.contains("attachedEbsStatus"));
    });
}

#[rstest]
#[case("c4.large", "default", "unsupported", "unsupported")]
#[case("c3.large", "unsupported", "unsupported", "unsupported")]
#[case("c3.xlarge", "supported", "unsupported", "unsupported")]
#[case("i3.large", "default", "supported", "supported")]
#[case("m2.xlarge", "unsupported", "unsupported", "unsupported")]
#[case("m4.16xlarge", "default", "unsupported", "supported")]
#[case("t2.nano", "unsupported", "unsupported", "unsupported")]
#[case("m7g.large", "default", "required", "required")]
fn instance_types_have_the_words_of_aws(
    #[case] name: &str,
    #[case] optimized: &str,
    #[case] nvme: &str,
    #[case] ena: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let reported = call(&cloud, "DescribeInstanceTypes", &format!("InstanceType.1={name}")).await;
        let tags = ["ebsOptimizedSupport", "nvmeSupport", "enaSupport"];
        assert_eq!(tags.map(|tag| reported.first(tag).unwrap_or_default()), [optimized, nvme, ena]);
        let cores = reported.first("defaultCores").unwrap_or_default();
        let form = format!(
            "InstanceType.1={name}&Filter.1.Name=vcpu-info.default-cores&Filter.1.Value.1={cores}\
             &Filter.2.Name=ebs-info.ebs-optimized-support&Filter.2.Value.1={optimized}"
        );
        assert_eq!(call(&cloud, "DescribeInstanceTypes", &form).await.all("instanceType"), [name]);
    });
}

#[test]
fn a_launch_tags_its_network_interfaces() {
    play(1, config(Instant), |cloud| async move {
        let form = "ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=1&MaxCount=1\
                    &TagSpecification.1.ResourceType=network-interface&TagSpecification.1.Tag.1.Key=team\
                    &TagSpecification.1.Tag.1.Value=storage";
        let node = call(&cloud, "RunInstances", form).await.first("instanceId").unwrap_or_default();
        let filter = "Filter.1.Name=tag:team&Filter.1.Value.1=storage";
        let tagged = call(&cloud, "DescribeNetworkInterfaces", filter).await;
        assert_eq!(tagged.all("instanceId"), std::slice::from_ref(&node));
        call(&cloud, "TerminateInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!(call(&cloud, "DescribeTags", "Filter.1.Name=key&Filter.1.Value.1=team").await.all("key").len(), 0);
    });
}

#[test]
fn a_copy_of_a_plain_volume_can_be_encrypted() {
    play(1, config(Instant), |cloud| async move {
        let form = format!("SourceVolumeId={}", cloud.volume().await);
        let copy = async |more: &str| call(&cloud, "CopyVolumes", &format!("{form}{more}")).await;
        assert_eq!(copy("").await.first("encrypted").as_deref(), Some("false"));
        assert_eq!(copy("&KmsKeyId=alias/mine").await.code(), "InvalidParameterDependency");
        assert_eq!(copy("&Encrypted=true").await.first("encrypted").as_deref(), Some("true"));
        let encrypted = copy("&Encrypted=true&KmsKeyId=alias/mine").await;
        let key = encrypted.first("kmsKeyId");
        assert!(key.as_deref().is_some_and(|arn| arn.starts_with("arn:aws:kms:us-east-1:")), "{key:?}");
        let again = format!("SourceVolumeId={}&Encrypted=false", encrypted.first("volumeId").unwrap_or_default());
        let again = call(&cloud, "CopyVolumes", &again).await;
        assert_eq!((again.first("encrypted").as_deref(), again.first("kmsKeyId")), (Some("true"), key));
    });
}

#[test]
fn an_instance_ends_also_without_the_shutdown_of_its_guest() {
    play(1, config(Instant), |cloud| async move {
        let form = format!("InstanceId.1={}&Force=true&SkipOsShutdown=true", cloud.instance("node-a"));
        assert_eq!(call(&cloud, "StopInstances", &form).await.code(), "");
        assert_eq!(call(&cloud, "TerminateInstances", &form).await.code(), "");
    });
}
