//! Codes and texts that AWS has returned, each with the public report that quotes it.

use mock_ec2::LatencyProfile::{Aws, Instant};
use rstest::rstest;

use crate::common::{Cloud, config, play};

async fn refused(cloud: &Cloud, form: &str) -> (String, String) {
    let answer = cloud.ask(&format!("{form}&Version=2016-11-15")).await;
    assert_eq!(answer.status, 400, "{form}: {}", answer.body);
    (answer.code(), answer.message())
}

const CREATE: &str = "Action=CreateVolume&AvailabilityZone=us-east-1a";
const LAUNCH: &str = "Action=RunInstances&ImageId=ami-0123456789abcdef0&InstanceType=m5.large&MinCount=1&MaxCount=1\
                      &BlockDeviceMapping.1.DeviceName=/dev/sdf";

/// CreateVolume and a launch with such a disk return the same error.
#[rstest]
// kubernetes-sigs/aws-ebs-csi-driver#766, kubermatic/machine-controller#538
#[case::io1(
    "VolumeType=io1&Size=10",
    "InvalidParameterCombination",
    "The parameter iops must be specified for io1 volumes."
)]
// velero-io/velero-plugin-for-aws#119
#[case::io2(
    "VolumeType=io2&Size=10",
    "InvalidParameterCombination",
    "The parameter iops must be specified for io2 volumes."
)]
// rocicorp/mono#4410
#[case::ratio_gp3(
    "VolumeType=gp3&Size=20&Iops=15000",
    "InvalidParameterValue",
    "Iops to volume size ratio of 750.000000 is too high; maximum is 500"
)]
// ministryofjustice/cloud-platform-terraform-monitoring#110
#[case::ratio_io1(
    "VolumeType=io1&Size=15&Iops=4000",
    "InvalidParameterValue",
    "Iops to volume size ratio of 266.666667 is too high; maximum is 50"
)]
// libopenstorage/openstorage#121, kubernetes-retired/kube-aws#1208
#[case::iops_gp2(
    "VolumeType=gp2&Size=10&Iops=0",
    "InvalidParameterCombination",
    "The parameter iops is not supported for gp2 volumes."
)]
// aws/aws-sdk#542
#[case::iops_st1(
    "VolumeType=st1&Size=125&Iops=100",
    "InvalidParameterCombination",
    "The parameter iops is not supported for st1 volumes."
)]
// runs-on/runs-on#426
#[case::throughput(
    "VolumeType=io1&Size=10&Iops=100&Throughput=200",
    "InvalidParameterCombination",
    "throughput can only be specified for volumeType gp3."
)]
// runs-on/runs-on#260
#[case::throughput_ratio(
    "VolumeType=gp3&Size=10&Throughput=1000",
    "InvalidParameterValue",
    "Throughput (MiBps) to iops ratio of 0.333333 is too high; maximum is 0.250000 MiBps per iops"
)]
// fog/fog-aws#186
#[case::large(
    "VolumeType=standard&Size=2000",
    "InvalidParameterValue",
    "Volume of 2000GiB is too large for volume type standard; maximum is 1024GiB"
)]
// Seen by the reporter of an issue of this project.
#[case::no_type("VolumeType=io3&Size=1", "UnknownVolumeType", "Unsupported volume type 'io3' for volume creation.")]
fn a_volume_that_cannot_be_is_refused_in_the_words_of_aws(
    #[case] volume: &str,
    #[case] code: &str,
    #[case] text: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let wanted = (code.to_owned(), text.to_owned());
        assert_eq!(refused(&cloud, &format!("{CREATE}&{volume}")).await, wanted);
        let disk: String = volume.split('&').map(|p| format!("&BlockDeviceMapping.1.Ebs.{p}")).collect();
        let disk = disk.replace("Ebs.Size", "Ebs.VolumeSize");
        assert_eq!(refused(&cloud, &format!("{LAUNCH}{disk}")).await, wanted);
        // A copy and a modification of a volume of another type.
        let source = cloud.ask(&format!("{CREATE}&Size=1&Version=2016-11-15")).await.first("volumeId").unwrap();
        let copy = format!("Action=CopyVolumes&SourceVolumeId={source}&{volume}");
        assert_eq!(refused(&cloud, &copy).await, wanted);
        // With a new type ModifyVolume starts with 3,000 IOPS, as its documentation says.
        if !text.contains("must be specified") {
            let modify = format!("Action=ModifyVolume&VolumeId={source}&{volume}");
            assert_eq!(refused(&cloud, &modify).await, wanted);
        }
    });
}

#[rstest]
// getmoto/moto#2949, which asked EC2.
#[case("", "MissingParameter", "The request must contain the parameter ebs")]
// getmoto/moto#2949, hashicorp/packer#7802
#[case("Ebs.VolumeType=gp3", "MissingParameter", "The request must contain the parameter size or snapshotId")]
fn a_disk_of_a_launch_without_a_size_is_refused_in_the_words_of_aws(
    #[case] disk: &str,
    #[case] code: &str,
    #[case] text: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let more = if disk.is_empty() { String::new() } else { format!("&BlockDeviceMapping.1.{disk}") };
        assert_eq!(refused(&cloud, &format!("{LAUNCH}{more}")).await, (code.to_owned(), text.to_owned()));
    });
}

#[test]
fn an_instance_that_never_ran_cannot_be_stopped() {
    play(1, config(Aws), |cloud| async move {
        let form = LAUNCH.split("&BlockDevice").next().unwrap();
        let node = cloud.ask(&format!("{form}&Version=2016-11-15")).await.first("instanceId").unwrap();
        // cloud-custodian/cloud-custodian#6014
        let text = format!("Instance '{node}' cannot be stopped as it has never reached the 'running' state.");
        let stop = format!("Action=StopInstances&InstanceId.1={node}");
        assert_eq!(refused(&cloud, &stop).await, ("IncorrectInstanceState".to_owned(), text));
    });
}
