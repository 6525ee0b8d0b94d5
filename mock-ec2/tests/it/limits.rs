//! Small details that clients depend on: one request and its answer each.

use mock_ec2::LatencyProfile::Instant;
use mock_ec2::{Config, InstanceSpec};
use rstest::rstest;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

#[test]
fn filters_have_the_limits_that_aws_documents() {
    play(1, config(Instant), |cloud| async move {
        let values = |count: u32| -> String {
            let all: Vec<String> = (1..=count).map(|n| format!("Filter.1.Value.{n}=pvc-{n}")).collect();
            format!("Filter.1.Name=tag:CSIVolumeName&{}", all.join("&"))
        };
        assert_eq!(call(&cloud, "DescribeVolumes", &values(200)).await.status, 200);
        let many = call(&cloud, "DescribeVolumes", &values(201)).await;
        assert_eq!(many.code(), "FilterLimitExceeded");
        assert_eq!(many.message(), "The maximum number of filter values specified on a single call is 200");
        let filters = |count: u32| -> String {
            let all = (1..=count).map(|n| format!("Filter.{n}.Name=tag:{n}&Filter.{n}.Value.1=v"));
            all.collect::<Vec<_>>().join("&")
        };
        assert_eq!(call(&cloud, "DescribeInstances", &filters(50)).await.status, 200);
        assert_eq!(call(&cloud, "DescribeInstances", &filters(51)).await.code(), "FilterLimitExceeded");
    });
}

#[test]
fn filters_that_were_missing_are_known() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        call(&cloud, "CreateTags", &format!("ResourceId.1={volume}&Tag.1.Key=k&Tag.1.Value=needle")).await;
        let copy = call(&cloud, "CopyVolumes", &format!("SourceVolumeId={volume}")).await.first("volumeId").unwrap();
        let found = async |filter: &str, value: &str| {
            let form = format!("Filter.1.Name={filter}&Filter.1.Value.1={value}");
            call(&cloud, "DescribeVolumes", &form).await.all("volumeId")
        };
        assert_eq!(found("tag-value", "nee*").await, std::slice::from_ref(&volume));
        assert_eq!(found("source-volume-id", &volume).await, [copy]);
        assert_eq!(found("outpost-arn", "*").await, Vec::<String>::new());
        for action in ["DescribeSnapshots", "DescribeInstances"] {
            let form = "Filter.1.Name=tag-value&Filter.1.Value.1=x&Filter.2.Name=outpost-arn&Filter.2.Value.1=x";
            assert_eq!(call(&cloud, action, form).await.status, 200, "{action}");
        }
        let form = "Filter.1.Name=instance-storage-supported&Filter.1.Value.1=true&Filter.2.Name=instance-type\
                    &Filter.2.Value.1=m5*.large";
        assert_eq!(
            call(&cloud, "DescribeInstanceTypes", form).await.all("instanceType"),
            ["m5ad.large", "m5d.large", "m5dn.large"]
        );
    });
}

#[rstest]
#[case("CreateTags", "Tag.1.Key=k", "MissingParameter", "The request must contain the parameter resourceIdSet")]
#[case("DeleteTags", "Tag.1.Key=k", "MissingParameter", "The request must contain the parameter resourceIdSet")]
#[case("TerminateInstances", "", "InvalidParameterCombination", "No instances specified")]
#[case("StopInstances", "", "InvalidParameterCombination", "No instances specified")]
#[case(
    "CreateVolume",
    "AvailabilityZone=us-east-1a&Size=1&TagSpecification.1.ResourceType=volume",
    "InvalidParameterValue",
    "Tag specification must have at least one tag"
)]
fn requests_that_lack_something_say_what(
    #[case] action: &str,
    #[case] rest: &str,
    #[case] code: &str,
    #[case] message: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let answer = call(&cloud, action, rest).await;
        assert_eq!((answer.code().as_str(), answer.message().as_str()), (code, message));
    });
}

#[test]
fn a_tag_has_at_most_256_characters_of_value() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let tag = async |length: usize| {
            let form = format!("ResourceId.1={volume}&Tag.1.Key=k&Tag.1.Value={}", "v".repeat(length));
            call(&cloud, "CreateTags", &form).await
        };
        assert_eq!(tag(256).await.status, 200);
        assert_eq!(tag(257).await.code(), "InvalidParameterValue");
    });
}

#[test]
fn a_version_that_is_not_known_is_refused() {
    play(1, config(Instant), |cloud| async move {
        let answer = cloud.ask("Action=DescribeVolumes&Version=2012-12-12").await;
        assert_eq!(answer.code(), "NoSuchVersion");
        assert_eq!(answer.message(), "The requested version (2012-12-12) of service AmazonEC2 does not exist");
    });
}

#[test]
fn multi_attach_needs_a_nitro_instance() {
    let mut old = InstanceSpec::new("old", "us-east-1a");
    old.instance_type = "t2.medium".to_owned();
    let mut with_old = Config { ..config(Instant) };
    with_old.instances.push(old);
    play(1, with_old, |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&VolumeType=io2&Iops=100&MultiAttachEnabled=true";
        let volume = call(&cloud, "CreateVolume", form).await.first("volumeId").unwrap();
        let refused = cloud.attach(&volume, &cloud.instance("old"), "/dev/sdf").await;
        assert_eq!(refused.code(), "UnsupportedOperation");
        assert!(refused.message().contains("t2.medium"));
        assert_eq!(cloud.attach(&volume, &cloud.instance("node-a"), "/dev/sdf").await.status, 200);
    });
}

#[rstest]
#[case("m5d.large", "26", "shared", "true")]
#[case("m6gd.medium", "26", "shared", "true")]
#[case("i3.large", "40", "shared", "true")]
#[case("i4i.32xlarge", "19", "shared", "true")]
#[case("m5a.large", "27", "shared", "false")]
#[case("m7g.metal", "31", "shared", "false")]
#[case("c7i-flex.16xlarge", "48", "dedicated", "false")]
#[case("p4d.24xlarge", "28", "dedicated", "true")]
#[case("x2idn.32xlarge", "25", "shared", "true")]
#[case("t2.nano", "40", "shared", "false")]
fn instance_types_tell_their_limits(#[case] name: &str, #[case] most: &str, #[case] kind: &str, #[case] disks: &str) {
    play(1, config(Instant), |cloud| async move {
        let reported = call(&cloud, "DescribeInstanceTypes", &format!("InstanceType.1={name}")).await;
        let tags = ["maximumEbsAttachments", "attachmentLimitType", "instanceStorageSupported"];
        assert_eq!(tags.map(|tag| reported.first(tag).unwrap_or_default()), [most, kind, disks]);
    });
}

#[test]
fn an_undocumented_limit_is_absent() {
    play(1, config(Instant), |cloud| async move {
        let reported = call(&cloud, "DescribeInstanceTypes", "InstanceType.1=i3.metal").await;
        assert_eq!((reported.status, reported.first("maximumEbsAttachments")), (200, None));
    });
}
