//! Answers byte by byte, as files that can be compared with AWS's documentation.

use mock_ec2::LatencyProfile::Instant;

use crate::common::{config, play};

/// Puts one element per line, an empty one on one line; otherwise unchanged.
fn lines(xml: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    for line in xml.replace("><", ">\n<").lines() {
        match out.last_mut() {
            Some(open) if line.strip_prefix("</") == open.strip_prefix('<') => open.push_str(line),
            _ => out.push(line.to_owned()),
        }
    }
    out.join("\n")
}

#[test]
fn answers_have_ec2s_shape() {
    play(1, config(Instant), |cloud| async move {
        let create = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=4&VolumeType=gp3\
                      &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=CSIVolumeName\
                      &TagSpecification.1.Tag.1.Value=pvc-%3Ca%3E%26b";
        let created = cloud.ask(create).await;
        insta::assert_snapshot!("create_volume", lines(&created.body));
        let (volume, node) = (created.first("volumeId").unwrap(), cloud.instance("node-a"));
        insta::assert_snapshot!("attach_volume", lines(&cloud.attach(&volume, &node, "/dev/xvdaa").await.body));
        insta::assert_snapshot!("describe_volumes", lines(&cloud.describe(&volume).await.body));
        let instances = format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={node}");
        insta::assert_snapshot!("describe_instances", lines(&cloud.ask(&instances).await.body));
        let refused = cloud.attach(&volume, &node, "/dev/xvdaa").await;
        insta::assert_snapshot!("error", lines(&refused.body));
        insta::assert_snapshot!("detach_volume", lines(&cloud.detach(&volume).await.body));
        let delete = format!("Action=DeleteVolume&Version=2016-11-15&VolumeId={volume}");
        insta::assert_snapshot!("delete_volume", lines(&cloud.ask(&delete).await.body));
        let zones = "Action=DescribeAvailabilityZones&Version=2016-11-15&ZoneName.1=us-east-1b";
        insta::assert_snapshot!("describe_availability_zones", lines(&cloud.ask(zones).await.body));
        let types = "Action=DescribeInstanceTypes&Version=2016-11-15&InstanceType.1=m7i.large";
        insta::assert_snapshot!("describe_instance_types", lines(&cloud.ask(types).await.body));
    });
}
