//! Launching instances: with disks, in one reservation, with attributes that come back and can be changed.

use mock_ec2::Config;
use mock_ec2::LatencyProfile::{Aws, Instant};
use rstest::rstest;
use serde_json::json;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

const IMAGE: &str = "ImageId=ami-0123456789abcdef0";

async fn run(cloud: &Cloud, rest: &str) -> Answer {
    let usual = format!("{IMAGE}&InstanceType=m5.large&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-east-1a");
    call(cloud, "RunInstances", &format!("{usual}&{rest}")).await
}

async fn describe(cloud: &Cloud, instance: &str) -> Answer {
    call(cloud, "DescribeInstances", &format!("InstanceId.1={instance}")).await
}

/// Returns the text of the element `tag` of `xml`.
fn read(xml: &str, tag: &str) -> String {
    Answer { status: 200, request_id: String::new(), body: xml.to_owned() }.first(tag).unwrap_or_default()
}

fn first_id(answer: &Answer) -> String {
    answer.first("instanceId").unwrap_or_else(|| panic!("{}", answer.body))
}

/// Returns the volume at `device` of `instance`.
async fn volume_at(cloud: &Cloud, instance: &str, device: &str) -> Answer {
    let form = format!(
        "Filter.1.Name=attachment.instance-id&Filter.1.Value.1={instance}&Filter.2.Name=attachment.device\
         &Filter.2.Value.1={device}"
    );
    call(cloud, "DescribeVolumes", &form).await
}

#[test]
fn a_launch_brings_its_disks_with_tags_and_takes_them_along_at_its_end() {
    play(1, config(Instant), |cloud| async move {
        let source = cloud.volume().await;
        let snapshot = call(&cloud, "CreateSnapshot", &format!("VolumeId={source}")).await;
        let snapshot = snapshot.first("snapshotId").unwrap();
        let made = run(
            &cloud,
            &format!(
                "BlockDeviceMapping.1.DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeSize=20\
                 &BlockDeviceMapping.2.DeviceName=/dev/sdf&BlockDeviceMapping.2.Ebs.VolumeSize=10\
                 &BlockDeviceMapping.2.Ebs.VolumeType=io2&BlockDeviceMapping.2.Ebs.Iops=4000\
                 &BlockDeviceMapping.2.Ebs.DeleteOnTermination=false\
                 &BlockDeviceMapping.3.DeviceName=/dev/sdg&BlockDeviceMapping.3.Ebs.SnapshotId={snapshot}\
                 &BlockDeviceMapping.3.Ebs.Encrypted=true\
                 &BlockDeviceMapping.4.DeviceName=/dev/sdh&BlockDeviceMapping.4.NoDevice=\
                 &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=of\
                 &TagSpecification.1.Tag.1.Value=launch"
            ),
        )
        .await;
        let instance = first_id(&made);
        let reported = describe(&cloud, &instance).await;
        assert_eq!(reported.all("deviceName"), ["/dev/xvda", "/dev/sdf", "/dev/sdg"]);
        let [root, data, restored] = [
            volume_at(&cloud, &instance, "/dev/xvda").await,
            volume_at(&cloud, &instance, "/dev/sdf").await,
            volume_at(&cloud, &instance, "/dev/sdg").await,
        ];
        let facts = |volume: &Answer| {
            ["size", "volumeType", "encrypted", "deleteOnTermination"].map(|tag| volume.first(tag).unwrap())
        };
        assert_eq!(facts(&root), ["20", "gp3", "false", "true"]);
        assert_eq!(facts(&data), ["10", "io2", "false", "false"]);
        assert_eq!(data.first("iops").as_deref(), Some("4000"));
        assert_eq!(facts(&restored), ["4", "gp2", "true", "true"], "size of the snapshot, type of CreateVolume");
        assert_eq!(restored.first("snapshotId"), Some(snapshot));
        for volume in [&root, &data, &restored] {
            let tags = volume.first("tagSet").unwrap();
            assert_eq!((read(&tags, "key"), read(&tags, "value")), ("of".to_owned(), "launch".to_owned()));
        }
        call(&cloud, "TerminateInstances", &format!("InstanceId.1={instance}")).await;
        let id = |volume: &Answer| volume.first("volumeId").unwrap();
        assert_eq!(cloud.volume_status(&id(&data)).await, "available", "it stays");
        for gone in [&root, &restored] {
            assert_eq!(cloud.describe(&id(gone)).await.code(), "InvalidVolume.NotFound");
        }
    });
}

#[test]
fn a_disk_of_a_launch_has_a_file_and_the_bytes_of_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let with_files = Config { volume_dir: Some(dir.path().to_owned()), ..config(Instant) };
    play(1, with_files, |cloud| async move {
        let source = cloud.volume().await;
        std::fs::write(dir.path().join(&source), b"precious").unwrap();
        let snapshot = call(&cloud, "CreateSnapshot", &format!("VolumeId={source}")).await.first("snapshotId").unwrap();
        let status =
            async || call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={snapshot}")).await.first("status");
        while status().await.as_deref() != Some("completed") {
            cloud.sleep(100).await;
        }
        let made = run(
            &cloud,
            &format!("BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.SnapshotId={snapshot}"),
        )
        .await;
        let disk = volume_at(&cloud, &first_id(&made), "/dev/sdf").await.first("volumeId").unwrap();
        while cloud.attachment_status(&disk).await != "attached" {
            cloud.sleep(100).await;
        }
        assert_eq!(std::fs::read(dir.path().join(&disk)).unwrap()[..8], *b"precious");
        // A failed launch leaves neither an instance nor a file.
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        let (instances, before) = (cloud.ec2.instances().len(), files());
        let refused = run(
            &cloud,
            "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=1\
             &BlockDeviceMapping.2.DeviceName=/dev/sdg&BlockDeviceMapping.2.Ebs.VolumeSize=99999",
        );
        assert_eq!(refused.await.code(), "InvalidParameterValue");
        assert_eq!((cloud.ec2.instances().len(), files()), (instances, before));
    });
}

#[test]
fn a_disk_of_a_launch_is_attaching_first_and_appears_as_a_device() {
    play(1, config(Aws), |cloud| async move {
        let made = run(&cloud, "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=1").await;
        let instance = first_id(&made);
        let mut devices = cloud.devices(&instance).await;
        let status = async || {
            let set = volume_at(&cloud, &instance, "/dev/sdf").await.first("attachmentSet").unwrap();
            read(&set, "status")
        };
        assert_eq!(status().await, "attaching");
        cloud.sleep(30_000).await;
        assert_eq!(status().await, "attached");
        let volume = volume_at(&cloud, &instance, "/dev/sdf").await.first("volumeId").unwrap();
        let mut seen = String::new();
        while !seen.contains(&volume) {
            seen = devices.next().await.to_string();
        }
    });
}

#[rstest]
#[case(
    "DeviceName=banana&BlockDeviceMapping.1.Ebs.VolumeSize=1",
    "InvalidParameterValue",
    "not a valid EBS device name"
)]
#[case("DeviceName=/dev/sdf", "MissingParameter", "The request must contain the parameter ebs")]
#[case("DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeType=gp3", "MissingParameter", "size or snapshotId")]
#[case("DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=0", "InvalidParameterValue", "too small")]
#[case(
    "DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.SnapshotId=snap-0123456789abcdef0",
    "InvalidSnapshot.NotFound",
    "snap-0123456789abcdef0"
)]
#[case("DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeSize=4", "InvalidBlockDeviceMapping", "expect size")]
#[case("DeviceName=/dev/xvda&BlockDeviceMapping.1.NoDevice=", "InvalidBlockDeviceMapping", "cannot be left out")]
#[case(
    "DeviceName=/dev/sda1&BlockDeviceMapping.1.Ebs.VolumeSize=9",
    "InvalidBlockDeviceMapping",
    "used in more than one block-device mapping"
)]
#[case(
    "DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=1&BlockDeviceMapping.1.Ebs.KmsKeyId=k",
    "InvalidParameterDependency",
    "Encrypted"
)]
#[case("DeviceName=/dev/xvda&BlockDeviceMapping.1.Ebs.VolumeType=st1", "InvalidParameterValue", "root")]
#[case("DeviceName=/dev/sdf&BlockDeviceMapping.1.VirtualName=ephemeral0", "UnsupportedOperation", "VirtualName")]
fn a_disk_that_cannot_be_is_refused_and_nothing_starts(#[case] disk: &str, #[case] code: &str, #[case] text: &str) {
    play(1, config(Instant), |cloud| async move {
        let before = cloud.ec2.instances().len();
        let refused = run(&cloud, &format!("BlockDeviceMapping.1.{disk}")).await;
        assert_eq!(refused.code(), code, "{}", refused.body);
        assert!(refused.message().contains(text), "{}", refused.message());
        assert_eq!(cloud.ec2.instances().len(), before);
    });
}

#[test]
fn more_disks_than_slots_are_refused() {
    play(1, config(Instant), |cloud| async move {
        let disks = |count: u8| -> String {
            let disk = |n: u8| {
                let letter = char::from(b'a' + n);
                format!("BlockDeviceMapping.{n}.DeviceName=/dev/xvdb{letter}&BlockDeviceMapping.{n}.Ebs.VolumeSize=1")
            };
            (1..=count).map(disk).collect::<Vec<_>>().join("&")
        };
        let few = format!("{IMAGE}&InstanceType=d3.8xlarge&MinCount=1&MaxCount=1&{}", disks(2));
        assert_eq!(call(&cloud, "RunInstances", &few).await.status, 200);
        let many = format!("{IMAGE}&InstanceType=d3.8xlarge&MinCount=1&MaxCount=1&{}", disks(3));
        assert_eq!(call(&cloud, "RunInstances", &many).await.code(), "AttachmentLimitExceeded");
    });
}

#[test]
fn the_image_says_what_the_root_device_is_called() {
    play(1, config(Instant), |cloud| async move {
        let images =
            call(&cloud, "DescribeImages", "Owner.1=099720109477&Filter.1.Name=name&Filter.1.Value.1=*jammy*amd64*");
        let images = images.await;
        let ubuntu = images.first("imageId").unwrap();
        assert_eq!(images.first("rootDeviceName").as_deref(), Some("/dev/sda1"));
        let form = format!(
            "ImageId={ubuntu}&InstanceType=m5.large&MinCount=1&MaxCount=1&BlockDeviceMapping.1.DeviceName=/dev/sda1\
             &BlockDeviceMapping.1.Ebs.VolumeSize=50&BlockDeviceMapping.1.Ebs.DeleteOnTermination=false"
        );
        let instance = first_id(&call(&cloud, "RunInstances", &form).await);
        let reported = describe(&cloud, &instance).await;
        assert_eq!(reported.first("rootDeviceName").as_deref(), Some("/dev/sda1"));
        assert_eq!(reported.all("deviceName"), ["/dev/sda1"]);
        let root = volume_at(&cloud, &instance, "/dev/sda1").await;
        assert_eq!((root.first("size").as_deref(), root.first("snapshotId")), (Some("50"), images.first("snapshotId")));
        // The architecture must match the type's.
        let graviton = form.replace("m5.large", "m7g.large");
        assert!(call(&cloud, "RunInstances", &graviton).await.message().contains("does not match"));
    });
}

#[test]
fn one_launch_is_one_reservation() {
    play(1, config(Instant), |cloud| async move {
        let form = format!("{IMAGE}&InstanceType=m5.large&MinCount=3&MaxCount=3");
        let made = call(&cloud, "RunInstances", &form).await;
        let reservation = made.first("reservationId").unwrap();
        let reported = call(&cloud, "DescribeInstances", "").await;
        // Three of the seed list, each in its own reservation, and the launch.
        assert_eq!(reported.all("reservationId").len(), 4);
        let ours = reported.body.split("<reservationId>").find(|part| part.starts_with(&reservation)).unwrap();
        let launched = Answer { status: 200, request_id: String::new(), body: ours.to_owned() };
        assert_eq!(launched.all("amiLaunchIndex"), ["0", "1", "2"]);
        assert_eq!(launched.all("instanceId"), made.all("instanceId"));
        let form = format!("Filter.1.Name=reservation-id&Filter.1.Value.1={reservation}");
        assert_eq!(call(&cloud, "DescribeInstances", &form).await.all("reservationId"), [reservation]);
    });
}

#[test]
fn launch_options_are_described() {
    play(1, config(Instant), |cloud| async move {
        let more = "KeyName=mine&IamInstanceProfile.Name=node&EbsOptimized=true&Monitoring.Enabled=true&ClientToken=t\
                    &MetadataOptions.HttpTokens=required&MetadataOptions.HttpPutResponseHopLimit=2\
                    &DisableApiTermination=true&InstanceInitiatedShutdownBehavior=terminate&UserData=IyEvYmluL3No\
                    &HibernationOptions.Configured=false";
        let instance = first_id(&run(&cloud, more).await);
        let reported = describe(&cloud, &instance).await;
        let has =
            |tag: &str, value: &str| assert!(reported.all(tag).contains(&value.to_owned()), "{tag}: {}", reported.body);
        has("keyName", "mine");
        has("arn", "arn:aws:iam::000000000000:instance-profile/node");
        has("ebsOptimized", "true");
        has("clientToken", "t");
        has("httpTokens", "required");
        has("httpPutResponseHopLimit", "2");
        assert_eq!(read(&reported.first("monitoring").unwrap(), "state"), "enabled");
        for (name, value) in [
            ("key-name", "mine"),
            ("client-token", "t"),
            ("ebs-optimized", "true"),
            ("monitoring-state", "enabled"),
            ("metadata-options.http-tokens", "required"),
            ("iam-instance-profile.arn", "*/node"),
        ] {
            let form = format!("Filter.1.Name={name}&Filter.1.Value.1={value}");
            assert_eq!(
                call(&cloud, "DescribeInstances", &form).await.all("instanceId"),
                std::slice::from_ref(&instance),
                "{name}"
            );
        }
        let attribute = async |name: &str| {
            let form = format!("InstanceId={instance}&Attribute={name}");
            call(&cloud, "DescribeInstanceAttribute", &form).await.first("value").unwrap_or_default()
        };
        assert_eq!(attribute("userData").await, "IyEvYmluL3No");
        assert_eq!(attribute("instanceInitiatedShutdownBehavior").await, "terminate");
        assert_eq!(attribute("disableApiTermination").await, "true");
        // Its metadata service requires a token.
        let imds = |token: bool| {
            let request = http::Request::builder().uri(format!("/imds/{instance}/latest/meta-data/instance-id"));
            let request = if token { request.header("x-aws-ec2-metadata-token", "none") } else { request };
            request.body(substrate::body::empty()).unwrap()
        };
        assert_eq!(cloud.answer(imds(false)).await.status, 401);
        let off = format!("InstanceId={instance}&HttpEndpoint=disabled");
        assert_eq!(
            call(&cloud, "ModifyInstanceMetadataOptions", &off).await.first("httpEndpoint").unwrap(),
            "disabled"
        );
        assert_eq!(cloud.answer(imds(false)).await.status, 403);
    });
}

#[test]
fn a_guest_reads_its_metadata() {
    play(1, config(Instant), |cloud| async move {
        let tag = "TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=role&TagSpecification.1.Tag.1.Value=db";
        let plain = first_id(&run(&cloud, tag).await);
        let reported = first_id(
            &run(&cloud, &format!("{tag}&UserData=IyEvYmluL3No&MetadataOptions.InstanceMetadataTags=enabled")).await,
        );
        let page = async |instance: &str, path: &str| {
            let request = http::Request::builder().uri(format!("/imds/{instance}/latest/{path}"));
            let answer = cloud.answer(request.body(substrate::body::empty()).unwrap()).await;
            (answer.status, answer.body)
        };
        assert_eq!(page(&reported, "user-data").await, (200, "#!/bin/sh".to_owned()));
        assert_eq!(page(&reported, "meta-data/tags/instance").await, (200, "role".to_owned()));
        assert_eq!(page(&reported, "meta-data/tags/instance/role").await, (200, "db".to_owned()));
        for path in ["user-data", "meta-data/tags/instance", "meta-data/tags/instance/role"] {
            assert_eq!(page(&plain, path).await.0, 404, "{path}");
        }
    });
}

#[rstest]
#[case("ImageId=banana", "InvalidAMIID.Malformed")]
#[case("SecurityGroupId.1=sg-0123456789abcdef0", "InvalidGroup.NotFound")]
#[case("SecurityGroupId.1=banana", "InvalidGroupId.Malformed")]
#[case("SecurityGroup.1=mine", "InvalidGroup.NotFound")]
#[case("LaunchTemplate.LaunchTemplateId=lt-0123456789abcdef0", "InvalidLaunchTemplateId.NotFound")]
#[case("LaunchTemplate.LaunchTemplateName=mine", "InvalidLaunchTemplateName.NotFoundException")]
#[case("HibernationOptions.Configured=true", "UnsupportedOperation")]
#[case("CpuOptions.CoreCount=1", "UnsupportedOperation")]
#[case("InstanceMarketOptions.MarketType=spot", "UnsupportedOperation")]
#[case("CreditSpecification.CpuCredits=unlimited", "InvalidParameterCombination")]
#[case("UserData=***", "InvalidUserData.Malformed")]
#[case("MetadataOptions.HttpTokens=maybe", "InvalidParameterValue")]
#[case("IamInstanceProfile.Name=a&IamInstanceProfile.Arn=b", "InvalidParameterCombination")]
#[case("NetworkInterface.1.DeviceIndex=0&NetworkInterface.1.AssociatePublicIpAddress=true", "UnsupportedOperation")]
#[case("NetworkInterface.1.DeviceIndex=0&SubnetId=subnet-0123456789abcdef0", "InvalidParameterCombination")]
#[case("NetworkInterface.1.DeviceIndex=7", "InvalidParameterValue")]
#[case("Placement.Tenancy=dedicated", "UnsupportedOperation")]
#[case("InstanceType=m5.9xlarge", "InvalidParameterValue")]
fn invalid_launches_are_refused(#[case] rest: &str, #[case] code: &str) {
    play(1, config(Instant), |cloud| async move {
        let mut form = format!("{IMAGE}&InstanceType=m5.large&MinCount=1&MaxCount=1");
        if let Some((name, _)) = rest.split_once('=').filter(|(name, _)| form.contains(&format!("{name}="))) {
            let kept: Vec<&str> = form.split('&').filter(|pair| !pair.starts_with(&format!("{name}="))).collect();
            form = kept.join("&");
        }
        let refused = call(&cloud, "RunInstances", &format!("{form}&{rest}")).await;
        assert_eq!(refused.code(), code, "{}", refused.body);
    });
}

#[test]
fn interfaces_say_where_an_instance_is_and_how_many_it_has() {
    play(1, config(Instant), |cloud| async move {
        let form = "Filter.1.Name=availability-zone&Filter.1.Value.1=us-east-1b";
        let subnet = call(&cloud, "DescribeSubnets", form).await.first("subnetId").unwrap();
        let group = call(&cloud, "DescribeSecurityGroups", "GroupName.1=default").await.first("groupId").unwrap();
        let form = format!(
            "{IMAGE}&InstanceType=m5.large&MinCount=1&MaxCount=1&NetworkInterface.1.DeviceIndex=0\
             &NetworkInterface.1.SubnetId={subnet}&NetworkInterface.1.SecurityGroupId.1={group}\
             &NetworkInterface.2.DeviceIndex=1&NetworkInterface.2.SubnetId={subnet}"
        );
        let instance = first_id(&call(&cloud, "RunInstances", &form).await);
        let reported = describe(&cloud, &instance).await;
        assert_eq!(reported.first("availabilityZone").as_deref(), Some("us-east-1b"));
        assert_eq!(
            reported.first("privateIpAddress").unwrap().split('.').nth(1),
            Some("1"),
            "an address of its subnet"
        );
        let ids = reported.all("networkInterfaceId");
        let form = format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={instance}");
        let mut listed = call(&cloud, "DescribeNetworkInterfaces", &form).await.all("networkInterfaceId");
        listed.sort_by_key(|id| ids.iter().position(|own| own == id));
        assert_eq!((listed, ids.len()), (ids, 2));
    });
}

#[test]
fn protected_instances_stay_and_a_stop_has_a_reason() {
    play(1, config(Aws), |cloud| async move {
        let node = cloud.instance("node-a");
        let other = cloud.instance("node-c");
        let power = async |action: &str| call(&cloud, action, &format!("InstanceId.1={node}")).await;
        let set =
            async |rest: &str| call(&cloud, "ModifyInstanceAttribute", &format!("InstanceId={node}&{rest}")).await;
        assert_eq!(set("DisableApiTermination.Value=true").await.status, 200);
        assert_eq!(set("Attribute=disableApiStop&Value=true").await.status, 200);
        let refused = call(&cloud, "TerminateInstances", &format!("InstanceId.1={other}&InstanceId.2={node}")).await;
        assert_eq!(refused.code(), "OperationNotPermitted");
        assert_eq!(
            refused.message(),
            format!(
                "The instance '{node}' may not be terminated. Modify its 'disableApiTermination' instance attribute \
                 and try again."
            )
        );
        assert_eq!(read(&describe(&cloud, &other).await.body, "name"), "running", "none of them ends");
        assert_eq!(power("StopInstances").await.code(), "OperationNotPermitted");
        set("DisableApiStop.Value=false").await;
        assert_eq!(power("StopInstances").await.status, 200);
        cloud.sleep(60_000).await;
        let reported = describe(&cloud, &node).await;
        let reason = reported.first("reason").unwrap();
        assert!(reason.starts_with("User initiated (2026-01-01 00:0") && reason.ends_with(" GMT)"), "{reason}");
        assert_eq!(read(&reported.first("stateReason").unwrap(), "code"), "Client.UserInitiatedShutdown");
        power("StartInstances").await;
        cloud.sleep(60_000).await;
        let reported = describe(&cloud, &node).await;
        assert_eq!((reported.first("reason").as_deref(), reported.first("stateReason")), (Some(""), None));
        set("DisableApiTermination.Value=false").await;
        assert_eq!(power("TerminateInstances").await.status, 200);
    });
}

#[test]
fn attributes_of_an_instance_are_changed_one_by_one() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let volume = cloud.volume().await;
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let set =
            async |rest: &str| call(&cloud, "ModifyInstanceAttribute", &format!("InstanceId={node}&{rest}")).await;
        let value = async |name: &str| {
            let form = format!("InstanceId={node}&Attribute={name}");
            call(&cloud, "DescribeInstanceAttribute", &form).await.first("value").unwrap_or_default()
        };
        for rest in ["InstanceType.Value=m5.xlarge", "UserData.Value=aGk=", "EbsOptimized.Value=true"] {
            let refused = set(rest).await;
            assert_eq!(refused.code(), "IncorrectInstanceState", "{rest}");
            assert!(refused.message().contains("not in the 'stopped' state"));
        }
        let both = "DisableApiStop.Value=true&SourceDestCheck.Value=false";
        assert_eq!(set(both).await.message(), "Fields for multiple attribute types specified");
        assert_eq!(set("").await.code(), "MissingParameter");
        assert_eq!(set("Kernel.Value=aki-1").await.code(), "UnsupportedOperation");
        assert_eq!(set("SourceDestCheck.Value=false").await.status, 200);
        assert_eq!(value("sourceDestCheck").await, "false");
        // A disk attribute: delete it with the instance, or keep it.
        let keep = "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true";
        assert_eq!(set(keep).await.status, 200);
        assert_eq!(cloud.describe(&volume).await.first("deleteOnTermination").as_deref(), Some("true"));
        assert_eq!(set(&keep.replace("sdf", "sdg")).await.code(), "InvalidInstanceAttributeValue");
        let named = |volume: &str| format!("{keep}&BlockDeviceMapping.1.Ebs.VolumeId={volume}");
        assert_eq!(set(&named(&volume)).await.status, 200);
        assert_eq!(set(&named("vol-0123456789abcdef0")).await.code(), "InvalidInstanceAttributeValue");
        call(&cloud, "StopInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!(set("InstanceType.Value=banana").await.code(), "InvalidInstanceAttributeValue");
        assert!(set("InstanceType.Value=m7g.large").await.status == 200, "of that image only the id is known");
        assert_eq!(set("InstanceType.Value=t3.small").await.status, 200);
        assert_eq!(value("instanceType").await, "t3.small");
        assert_eq!(describe(&cloud, &node).await.first("instanceType").as_deref(), Some("t3.small"));
        call(&cloud, "TerminateInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!(cloud.describe(&volume).await.code(), "InvalidVolume.NotFound");
    });
}

#[test]
fn an_instance_without_a_root_volume_does_not_start() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let power = async |action: &str| call(&cloud, action, &format!("InstanceId.1={node}")).await;
        power("StopInstances").await;
        let root = describe(&cloud, &node).await.first("volumeId").unwrap();
        cloud.detach(&root).await;
        let refused = power("StartInstances").await;
        assert_eq!(refused.code(), "InvalidParameterValue");
        assert!(refused.message().ends_with("does not have a volume attached at root (/dev/xvda)"));
        let another = cloud.volume().await;
        cloud.attach(&another, &node, "/dev/sda1").await;
        assert_eq!(power("StartInstances").await.status, 200);
        assert_eq!(cloud.detach(&another).await.code(), "OperationNotPermitted", "it is the root volume now");
    });
}

#[test]
fn a_launch_is_counted_against_the_quota_of_volumes() {
    play(1, config(Instant), |cloud| async move {
        let (status, answer) = cloud.admin("POST", "switches", Some(json!({ "volumeQuota": 4 }))).await;
        assert_eq!(status, 200, "{answer}");
        let disk = "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=1";
        assert_eq!(run(&cloud, disk).await.code(), "VolumeLimitExceeded");
        assert_eq!(run(&cloud, "").await.status, 200);
    });
}

#[test]
fn an_instance_of_every_type_starts_and_takes_a_volume() {
    play(1, config(Instant), |cloud| async move {
        for kind in mock_ec2::state::instance_types::all() {
            let form = format!("{IMAGE}&InstanceType={}&MinCount=1&MaxCount=1", kind.name);
            let made = call(&cloud, "RunInstances", &form).await;
            assert_eq!(made.status, 200, "{}: {}", kind.name, made.body);
            let node = first_id(&made);
            let zone = made.first("availabilityZone").unwrap();
            let form = format!("AvailabilityZone={zone}&Size=1");
            let volume = call(&cloud, "CreateVolume", &form).await.first("volumeId").unwrap();
            let attached = cloud.attach(&volume, &node, "/dev/sdf").await;
            assert_eq!(attached.status, 200, "{}: {}", kind.name, attached.body);
            call(&cloud, "TerminateInstances", &format!("InstanceId.1={node}")).await;
        }
    });
}
