//! Images of the account: created from instances and from snapshots, launched, and deregistered.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use mock_ec2::LatencyProfile::{Aws, Instant};
use rstest::rstest;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn ok(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    let answer = call(cloud, action, rest).await;
    assert_eq!(answer.status, 200, "{action} {rest}: {}", answer.body);
    answer
}

/// Returns device, size and snapshot of each disk of `instance`, in the order of devices.
async fn disks(cloud: &Cloud, instance: &str) -> Vec<(String, String, String)> {
    let form = format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={instance}");
    let answer = ok(cloud, "DescribeVolumes", &form).await;
    let columns = ["device", "size", "snapshotId"].map(|tag| answer.all(tag));
    let mut disks: Vec<_> =
        (0..columns[0].len()).map(|n| (columns[0][n].clone(), columns[1][n].clone(), columns[2][n].clone())).collect();
    disks.sort();
    disks
}

async fn launch(cloud: &Cloud, image: &str, rest: &str) -> Answer {
    let form = format!("ImageId={image}&InstanceType=m5.large&MinCount=1&MaxCount=1&{rest}");
    call(cloud, "RunInstances", &form).await
}

/// Creates an image of node-a with a disk of 4 GiB at /dev/sdf; returns its id, and the snapshots of root and disk.
async fn image(cloud: &Cloud, rest: &str) -> (String, [String; 2]) {
    let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
    cloud.attach(&volume, &node, "/dev/sdf").await;
    cloud.sleep(60_000).await;
    let image = ok(cloud, "CreateImage", &format!("InstanceId={node}&Name=golden&{rest}")).await;
    let image = image.first("imageId").unwrap();
    let reported = ok(cloud, "DescribeImages", &format!("ImageId.1={image}")).await;
    (image, reported.all("snapshotId").try_into().unwrap())
}

#[test]
fn an_instance_of_an_image_has_its_disks() {
    play(1, config(Instant), |cloud| async move {
        let tags = "TagSpecification.1.ResourceType=image&TagSpecification.1.Tag.1.Key=team\
                    &TagSpecification.1.Tag.1.Value=storage&TagSpecification.2.ResourceType=snapshot\
                    &TagSpecification.2.Tag.1.Key=of&TagSpecification.2.Tag.1.Value=golden";
        let (id, [root, disk]) = image(&cloud, tags).await;
        let own = ok(&cloud, "DescribeImages", "Owner.1=self&Filter.1.Name=tag:team&Filter.1.Value.1=storage").await;
        assert_eq!((own.all("imageId"), own.first("imageState").unwrap()), (vec![id.clone()], "available".to_owned()));
        assert_eq!(own.all("deviceName"), ["/dev/xvda", "/dev/sdf"]);
        let form = "Filter.1.Name=block-device-mapping.snapshot-id&Filter.1.Value.1=";
        assert_eq!(ok(&cloud, "DescribeImages", &format!("{form}{disk}")).await.all("imageId"), [id.as_str()]);
        let tagged = ok(&cloud, "DescribeSnapshots", "Filter.1.Name=tag:of&Filter.1.Value.1=golden").await;
        assert_eq!(tagged.all("snapshotId").len(), 2);

        let node = launch(&cloud, &id, "").await.first("instanceId").unwrap();
        let of_image = |size: &str| {
            vec![
                ("/dev/sdf".to_owned(), size.to_owned(), disk.clone()),
                ("/dev/xvda".to_owned(), "8".to_owned(), root.clone()),
            ]
        };
        assert_eq!(disks(&cloud, &node).await, of_image("4"));
        let larger = "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.Ebs.VolumeSize=9";
        let node = launch(&cloud, &id, larger).await.first("instanceId").unwrap();
        assert_eq!(disks(&cloud, &node).await, of_image("9"));
        let without = "BlockDeviceMapping.1.DeviceName=/dev/sdf&BlockDeviceMapping.1.NoDevice=";
        let node = launch(&cloud, &id, without).await.first("instanceId").unwrap();
        assert_eq!(disks(&cloud, &node).await, of_image("8")[1..]);
        let smaller = launch(&cloud, &id, &larger.replace("=9", "=3")).await;
        let text = format!("Volume of size 3GB is smaller than snapshot '{disk}', expect size &gt;= 4GB");
        assert_eq!((smaller.code(), smaller.message()), ("InvalidBlockDeviceMapping".to_owned(), text));
    });
}

#[test]
fn snapshots_of_an_image_stay_until_it_is_deregistered() {
    play(1, config(Instant), |cloud| async move {
        let (id, [root, disk]) = image(&cloud, "").await;
        let refused = call(&cloud, "DeleteSnapshot", &format!("SnapshotId={disk}")).await;
        let text = format!("The snapshot {disk} is currently in use by {id}");
        assert_eq!((refused.code(), refused.message()), ("InvalidSnapshot.InUse".to_owned(), text));
        let gone = ok(&cloud, "DeregisterImage", &format!("ImageId={id}&DeleteAssociatedSnapshots=true")).await;
        assert_eq!(
            (gone.all("snapshotId"), gone.all("returnCode")),
            (vec![root, disk.clone()], vec!["success".to_owned(); 2])
        );
        assert_eq!(
            call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={disk}")).await.code(),
            "InvalidSnapshot.NotFound"
        );
        let again = call(&cloud, "DeregisterImage", &format!("ImageId={id}")).await;
        let text = format!("The image ID '{id}' is no longer available");
        assert_eq!((again.code(), again.message()), ("InvalidAMIID.Unavailable".to_owned(), text));
        for answer in [launch(&cloud, &id, "").await, call(&cloud, "DescribeImages", &format!("ImageId.1={id}")).await]
        {
            assert_eq!(answer.message(), format!("The image id '[{id}]' does not exist"));
        }
        assert!(!ok(&cloud, "DescribeImages", "Owner.1=self").await.all("imageId").contains(&id));
    });
}

#[test]
fn an_image_is_pending_until_its_snapshots_are_complete() {
    play(1, config(Aws), |cloud| async move {
        let (id, [_, disk]) = image(&cloud, "NoReboot=true").await;
        let state =
            async || ok(&cloud, "DescribeImages", &format!("ImageId.1={id}")).await.first("imageState").unwrap();
        assert_eq!(state().await, "pending");
        assert_eq!(launch(&cloud, &id, "").await.code(), "InvalidAMIID.Unavailable");
        while ok(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={disk}")).await.first("status").unwrap()
            == "pending"
        {
            cloud.sleep(10_000).await;
        }
        cloud.sleep(600_000).await;
        assert_eq!(state().await, "available");
        assert_eq!(launch(&cloud, &id, "").await.status, 200);
    });
}

#[test]
fn an_image_of_a_snapshot_is_registered_and_launched() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let snapshot = ok(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await.first("snapshotId").unwrap();
        let form = format!(
            "Name=mine&RootDeviceName=/dev/sda1&Architecture=x86_64&VirtualizationType=hvm&EnaSupport=true\
             &BlockDeviceMapping.1.DeviceName=/dev/sda1&BlockDeviceMapping.1.Ebs.SnapshotId={snapshot}\
             &BlockDeviceMapping.2.DeviceName=/dev/sdb&BlockDeviceMapping.2.Ebs.VolumeSize=5"
        );
        let id = ok(&cloud, "RegisterImage", &form).await.first("imageId").unwrap();
        let node = launch(&cloud, &id, "").await.first("instanceId").unwrap();
        let wanted = [("/dev/sda1", "4", snapshot.as_str()), ("/dev/sdb", "5", "")];
        assert_eq!(disks(&cloud, &node).await, wanted.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
        let again = call(&cloud, "RegisterImage", &form).await;
        let text = format!("AMI name mine is already in use by AMI {id}");
        assert_eq!((again.code(), again.message()), ("InvalidAMIName.Duplicate".to_owned(), text));
    });
}

#[rstest]
#[case("CreateImage", "InstanceId=i-0aaaaaaaaaaaaaaaa&Name=abc", "InvalidInstanceID.NotFound")]
#[case("CreateImage", "InstanceId={node}&Name=a", "InvalidAMIName.Malformed")]
#[case("CreateImage", "InstanceId={node}", "MissingParameter")]
#[case("RegisterImage", "Name=abc&RootDeviceName=/dev/xvda", "InvalidBlockDeviceMapping")]
#[case("RegisterImage", "Name=abc&RootDeviceName=/dev/xvda&ImageLocation=bucket/x", "UnsupportedOperation")]
#[case("RegisterImage", "Name=abc&RootDeviceName=/dev/xvda&Architecture=vax", "InvalidParameterValue")]
#[case("DeregisterImage", "ImageId=banana", "InvalidAMIID.Malformed")]
#[case("DeregisterImage", "ImageId=ami-760aaa0f", "AuthFailure")]
fn requests_about_images_that_cannot_be_are_refused(#[case] action: &str, #[case] form: &str, #[case] code: &str) {
    play(1, config(Instant), |cloud| async move {
        let form = form.replace("{node}", &cloud.instance("node-a"));
        assert_eq!(call(&cloud, action, &form).await.code(), code);
    });
}
