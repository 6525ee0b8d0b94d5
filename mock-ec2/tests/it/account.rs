//! Account-wide objects: key pairs, placement groups, networks, the recycle bin, the block of public access,
//! replacements of root volumes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::Request;
use mock_ec2::LatencyProfile::Instant;
use rstest::rstest;
use serde_json::{Value, json};
use substrate::body;

use crate::common::{Answer, Cloud, SIGNED, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn ok(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    let answer = call(cloud, action, rest).await;
    assert_eq!(answer.status, 200, "{action} {rest}: {}", answer.body);
    answer
}

/// Sends a request to the recycle bin's own service.
async fn rbin(cloud: &Cloud, method: &str, path: &str, json: &Value) -> (u16, Value) {
    let builder =
        Request::builder().method(method).uri(path).header("authorization", SIGNED.replace("/ec2/", "/rbin/"));
    let text = if json.is_null() { String::new() } else { json.to_string() };
    let answer = cloud.answer(builder.body(body::full(text)).unwrap()).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

fn rule(kind: &str, days: u64) -> Value {
    json!({ "ResourceType": kind, "RetentionPeriod": { "RetentionPeriodValue": days, "RetentionPeriodUnit": "DAYS" } })
}

#[rstest]
#[case("rsa", "-----BEGIN RSA PRIVATE KEY-----\n", 59, "ssh-rsa ")]
#[case("ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\n", 44, "ssh-ed25519 ")]
fn a_key_pair_shows_its_private_key_only_once(
    #[case] kind: &str,
    #[case] begin: &str,
    #[case] fingerprint: usize,
    #[case] public: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let form = format!("KeyName=mine&KeyType={kind}");
        let made = ok(&cloud, "CreateKeyPair", &form).await;
        assert!(made.first("keyMaterial").unwrap().starts_with(begin), "{}", made.body);
        assert_eq!(made.first("keyFingerprint").unwrap().len(), fingerprint);
        let reported = ok(&cloud, "DescribeKeyPairs", "KeyName.1=mine&IncludePublicKey=true").await;
        assert_eq!((reported.first("keyMaterial"), reported.first("keyType").as_deref()), (None, Some(kind)));
        assert!(reported.first("publicKey").unwrap().starts_with(public), "{}", reported.body);
        let again = call(&cloud, "CreateKeyPair", &form).await;
        assert_eq!(
            (again.code(), again.message()),
            ("InvalidKeyPair.Duplicate".into(), "The keypair 'mine' already exists.".into())
        );
        assert_eq!(ok(&cloud, "DeleteKeyPair", "KeyName=mine").await.first("keyPairId"), made.first("keyPairId"));
        assert_eq!(call(&cloud, "DescribeKeyPairs", "KeyName.1=mine").await.code(), "InvalidKeyPair.NotFound");
        assert_eq!(ok(&cloud, "DeleteKeyPair", "KeyName=mine").await.first("return").as_deref(), Some("true"));
    });
}

#[test]
fn an_imported_key_has_the_fingerprint_of_openssl() {
    play(1, config(Instant), |cloud| async move {
        // ssh-keygen -t ed25519; the fingerprint is that of ssh-keygen -l, with its padding.
        let key = "c3NoLWVkMjU1MTkgQUFBQUMzTnphQzFsWkRJMU5URTVBQUFBSUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
        let made = ok(&cloud, "ImportKeyPair", &format!("KeyName=mine&PublicKeyMaterial={key}")).await;
        assert_eq!(made.first("keyFingerprint").unwrap().len(), 44);
        for bad in ["c3NoLXJzYSBBQUFB", "aGVsbG8=", "*"] {
            let refused = call(&cloud, "ImportKeyPair", &format!("KeyName=other&PublicKeyMaterial={bad}")).await;
            assert_eq!(refused.code(), "InvalidKey.Format", "{bad}");
        }
    });
}

#[test]
fn a_placement_group_is_made_listed_and_deleted() {
    play(1, config(Instant), |cloud| async move {
        ok(&cloud, "CreatePlacementGroup", "GroupName=near&Strategy=cluster").await;
        ok(&cloud, "CreatePlacementGroup", "GroupName=parts&Strategy=partition&PartitionCount=3").await;
        let all = ok(&cloud, "DescribePlacementGroups", "").await;
        assert_eq!((all.all("groupName").len(), all.all("partitionCount")), (2, vec!["3".to_owned()]));
        let one = ok(&cloud, "DescribePlacementGroups", "Filter.1.Name=strategy&Filter.1.Value.1=cluster").await;
        assert_eq!(one.all("groupName"), ["near"]);
        assert_eq!(
            call(&cloud, "CreatePlacementGroup", "GroupName=near").await.code(),
            "InvalidPlacementGroup.Duplicate"
        );
        ok(&cloud, "DeletePlacementGroup", "GroupName=near").await;
        let gone = call(&cloud, "DescribePlacementGroups", "GroupName.1=near").await;
        assert_eq!(gone.message(), "The placement group 'near' is unknown");
        assert_eq!(ok(&cloud, "DescribeReservedInstances", "").await.all("item").len(), 0);
    });
}

#[test]
fn an_instance_starts_in_a_subnet_of_ones_own() {
    play(1, config(Instant), |cloud| async move {
        let vpc = ok(&cloud, "CreateVpc", "CidrBlock=172.16.0.5/16").await;
        assert_eq!(vpc.first("cidrBlock").as_deref(), Some("172.16.0.0/16"), "bits of the host are cleared");
        let vpc = vpc.first("vpcId").unwrap();
        let form = format!("VpcId={vpc}&CidrBlock=172.16.1.0/24&AvailabilityZone=us-east-1b");
        let subnet = ok(&cloud, "CreateSubnet", &form).await.first("subnetId").unwrap();
        let run =
            format!("ImageId=ami-0123456789abcdef0&MinCount=1&MaxCount=1&InstanceType=t3.micro&SubnetId={subnet}");
        let node = ok(&cloud, "RunInstances", &run).await;
        assert_eq!((node.first("subnetId"), node.first("vpcId")), (Some(subnet.clone()), Some(vpc.clone())));
        assert_eq!(node.first("privateIpAddress").as_deref(), Some("172.16.1.4"));
        assert_eq!(node.first("availabilityZone").as_deref(), Some("us-east-1b"));
        let reported = ok(&cloud, "DescribeSubnets", &format!("SubnetId.1={subnet}")).await;
        assert_eq!(reported.first("availableIpAddressCount").as_deref(), Some("250"));
        for (action, form) in [("DeleteSubnet", format!("SubnetId={subnet}")), ("DeleteVpc", format!("VpcId={vpc}"))] {
            assert_eq!(call(&cloud, action, &form).await.code(), "DependencyViolation", "{action}");
        }
        ok(&cloud, "TerminateInstances", &format!("InstanceId.1={}", node.first("instanceId").unwrap())).await;
        ok(&cloud, "DeleteSubnet", &format!("SubnetId={subnet}")).await;
        ok(&cloud, "DeleteVpc", &format!("VpcId={vpc}")).await;
        assert_eq!(call(&cloud, "DescribeVpcs", &format!("VpcId.1={vpc}")).await.code(), "InvalidVpcID.NotFound");
    });
}

#[rstest]
#[case("CreateVpc", "CidrBlock=10.0.0.0/8", "InvalidVpc.Range")]
#[case("CreateVpc", "CidrBlock=banana", "InvalidParameterValue")]
#[case("CreateSubnet", "VpcId={vpc}&CidrBlock=172.16.9.0/24&TagSpecification.1.Tag.1.Key=k", "InvalidParameter")]
#[case("CreateSubnet", "VpcId={vpc}&CidrBlock=10.9.0.0/24", "InvalidSubnet.Range")]
#[case("CreateSubnet", "VpcId={vpc}&CidrBlock=172.16.0.0/24", "InvalidSubnet.Conflict")]
#[case("CreateSubnet", "VpcId=vpc-0aaaaaaaaaaaaaaaa&CidrBlock=172.16.0.0/24", "InvalidVpcID.NotFound")]
fn networks_that_cannot_be_are_refused(#[case] action: &str, #[case] form: &str, #[case] code: &str) {
    play(1, config(Instant), |cloud| async move {
        let vpc = ok(&cloud, "CreateVpc", "CidrBlock=172.16.0.0/16").await.first("vpcId").unwrap();
        ok(&cloud, "CreateSubnet", &format!("VpcId={vpc}&CidrBlock=172.16.0.0/24")).await;
        assert_eq!(call(&cloud, action, &form.replace("{vpc}", &vpc)).await.code(), code);
    });
}

#[test]
fn public_access_to_snapshots_can_be_blocked() {
    play(1, config(Instant), |cloud| async move {
        let volume = cloud.volume().await;
        let snapshot = ok(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await.first("snapshotId").unwrap();
        let share = format!("SnapshotId={snapshot}&OperationType=add&UserGroup.1=all");
        let public = async || ok(&cloud, "DescribeSnapshots", "RestorableBy.1=all").await.all("snapshotId").len();
        ok(&cloud, "ModifySnapshotAttribute", &share).await;
        for (state, seen) in [("block-new-sharing", 1), ("block-all-sharing", 0)] {
            let answer = ok(&cloud, "EnableSnapshotBlockPublicAccess", &format!("State={state}")).await;
            assert_eq!(answer.first("state").as_deref(), Some(state));
            assert_eq!(
                ok(&cloud, "GetSnapshotBlockPublicAccessState", "").await.first("state").as_deref(),
                Some(state)
            );
            assert_eq!(call(&cloud, "ModifySnapshotAttribute", &share).await.code(), "OperationNotPermitted");
            assert_eq!(public().await, seen, "{state}");
        }
        let answer = ok(&cloud, "DisableSnapshotBlockPublicAccess", "").await;
        assert_eq!((answer.first("state").as_deref(), public().await), (Some("unblocked"), 1));
        ok(&cloud, "ModifySnapshotAttribute", &share).await;
    });
}

#[test]
fn deleted_snapshots_and_volumes_stay_in_the_recycle_bin_for_as_long_as_their_rule_says() {
    play(1, config(Instant), |cloud| async move {
        let tagged = json!([{ "ResourceTagKey": "keep" }]);
        let mut volumes = rule("EBS_VOLUME", 2);
        volumes["ResourceTags"] = tagged;
        let (status, made) = rbin(&cloud, "POST", "/rules", &volumes).await;
        assert_eq!((status, made["Status"].as_str()), (201, Some("pending")), "{made}");
        assert_eq!(rbin(&cloud, "POST", "/rules", &rule("EBS_SNAPSHOT", 1)).await.0, 201);
        let (volume, other) = (cloud.volume().await, cloud.volume().await);
        let snapshot = ok(&cloud, "CreateSnapshot", &format!("VolumeId={volume}")).await.first("snapshotId").unwrap();
        ok(&cloud, "CreateTags", &format!("ResourceId.1={volume}&Tag.1.Key=keep&Tag.1.Value=yes")).await;
        ok(&cloud, "DeleteSnapshot", &format!("SnapshotId={snapshot}")).await;
        for id in [&volume, &other] {
            ok(&cloud, "DeleteVolume", &format!("VolumeId={id}")).await;
        }
        let none = call(&cloud, "DescribeSnapshots", &format!("SnapshotId.1={snapshot}")).await;
        assert_eq!(none.code(), "InvalidSnapshot.NotFound");
        let bin = ok(&cloud, "ListVolumesInRecycleBin", "").await;
        assert_eq!((bin.all("volumeId"), bin.first("state").as_deref()), (vec![volume.clone()], Some("recoverable")));
        assert_eq!(
            ok(&cloud, "ListSnapshotsInRecycleBin", "").await.all("snapshotId"),
            std::slice::from_ref(&snapshot)
        );

        let back = ok(&cloud, "RestoreSnapshotFromRecycleBin", &format!("SnapshotId={snapshot}")).await;
        assert_eq!(
            (back.first("status").as_deref(), back.first("volumeSize").as_deref()),
            (Some("completed"), Some("4"))
        );
        let made = ok(&cloud, "CreateVolume", &format!("AvailabilityZone=us-east-1a&SnapshotId={snapshot}")).await;
        assert_eq!(made.first("size").as_deref(), Some("4"));
        ok(&cloud, "RestoreVolumeFromRecycleBin", &format!("VolumeId={volume}")).await;
        assert_eq!(cloud.volume_status(&volume).await, "available");

        ok(&cloud, "DeleteVolume", &format!("VolumeId={volume}")).await;
        cloud.sleep(47 * 3_600_000).await;
        assert_eq!(ok(&cloud, "ListVolumesInRecycleBin", "").await.all("volumeId"), std::slice::from_ref(&volume));
        cloud.sleep(2 * 3_600_000).await;
        assert_eq!(ok(&cloud, "ListVolumesInRecycleBin", "").await.all("volumeId").len(), 0);
        let gone = call(&cloud, "RestoreVolumeFromRecycleBin", &format!("VolumeId={volume}")).await;
        assert_eq!(gone.code(), "InvalidVolume.NotFound");
    });
}

#[test]
fn retention_rules_are_read_changed_listed_and_deleted() {
    play(1, config(Instant), |cloud| async move {
        let (_, made) = rbin(&cloud, "POST", "/rules", &rule("EBS_SNAPSHOT", 7)).await;
        let path = format!("/rules/{}", made["Identifier"].as_str().unwrap());
        let change = json!({ "Description": "a week", "RetentionPeriod": { "RetentionPeriodValue": 9, "RetentionPeriodUnit": "DAYS" } });
        assert_eq!(rbin(&cloud, "PATCH", &path, &change).await.0, 200);
        let (_, reported) = rbin(&cloud, "GET", &path, &Value::Null).await;
        assert_eq!(
            (&reported["Description"], &reported["RetentionPeriod"]["RetentionPeriodValue"]),
            (&json!("a week"), &json!(9))
        );
        let (_, listed) = rbin(&cloud, "POST", "/list-rules", &json!({ "ResourceType": "EBS_SNAPSHOT" })).await;
        assert_eq!(listed["Rules"].as_array().unwrap().len(), 1);
        assert_eq!(rbin(&cloud, "DELETE", &path, &Value::Null).await.0, 204);
        for (method, path, json, status) in [
            ("GET", path.as_str(), Value::Null, 404),
            ("DELETE", path.as_str(), Value::Null, 404),
            ("PATCH", "/rules/x/lock", json!({}), 404),
            ("POST", "/rules", json!({ "ResourceType": "EBS_SNAPSHOT" }), 400),
            ("POST", "/rules", rule("EC2_IMAGE", 7), 400),
            ("POST", "/rules", rule("EBS_SNAPSHOT", 4_000), 400),
            ("POST", "/rules", json!({ "Colour": "red" }), 400),
        ] {
            let (got, answer) = rbin(&cloud, method, path, &json).await;
            assert!(got == status && answer["Message"].is_string(), "{method} {path} {json}: {got} {answer}");
        }
    });
}

#[test]
fn a_running_instance_gets_another_root_volume() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let root = async || {
            let form = format!("Filter.1.Name=attachment.instance-id&Filter.1.Value.1={node}");
            ok(&cloud, "DescribeVolumes", &form).await.first("volumeId").unwrap()
        };
        let old = root().await;
        let snapshot = ok(&cloud, "CreateSnapshot", &format!("VolumeId={old}")).await.first("snapshotId").unwrap();
        let form = format!("InstanceId={node}&SnapshotId={snapshot}");
        let task = ok(&cloud, "CreateReplaceRootVolumeTask", &form).await;
        assert_eq!(task.first("taskState").as_deref(), Some("pending"));
        let reported = ok(&cloud, "DescribeReplaceRootVolumeTasks", "").await;
        assert_eq!(
            (reported.all("replaceRootVolumeTaskId").len(), reported.first("taskState").as_deref()),
            (1, Some("succeeded"))
        );
        let new = root().await;
        assert_ne!(new, old);
        assert_eq!(cloud.describe(&new).await.first("snapshotId"), Some(snapshot));
        assert_eq!(cloud.volume_status(&old).await, "available");
        ok(&cloud, "CreateReplaceRootVolumeTask", &format!("InstanceId={node}&DeleteReplacedRootVolume=true")).await;
        assert_eq!(cloud.describe(&new).await.code(), "InvalidVolume.NotFound");
        ok(&cloud, "StopInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!(call(&cloud, "CreateReplaceRootVolumeTask", &form).await.code(), "IncorrectState");
        ok(&cloud, "StartInstances", &format!("InstanceId.1={node}")).await;
    });
}
