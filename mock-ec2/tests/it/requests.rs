//! Request semantics: tokens, pages, filters, throttling, signatures, stale reads.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use mock_ec2::Config;
use mock_ec2::LatencyProfile::{Aws, Instant};
use rstest::rstest;
use serde_json::json;
use sha2::{Digest, Sha256};
use substrate::admin::Secret;
use substrate::body;

use crate::common::{Answer, Cloud, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

async fn switch(cloud: &Cloud, changes: serde_json::Value) {
    let (status, answer) = cloud.admin("POST", "switches", Some(changes)).await;
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn a_client_token_is_forgotten_after_twelve_hours() {
    play(1, config(Instant), |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&ClientToken=t";
        let first = call(&cloud, "CreateVolume", form).await.first("volumeId");
        cloud.sleep(12 * 3_600_000 - 1_000).await;
        assert_eq!(call(&cloud, "CreateVolume", form).await.first("volumeId"), first);
        // A repeated request may differ in region and zone.
        let elsewhere = form.replace("1a", "1b");
        assert_eq!(call(&cloud, "CreateVolume", &elsewhere).await.first("volumeId"), first);
        cloud.sleep(1_001).await;
        assert_ne!(call(&cloud, "CreateVolume", form).await.first("volumeId"), first);
    });
}

#[test]
fn a_burnt_token_and_a_quota_that_comes_first() {
    play(1, config(Instant), |cloud| async move {
        let form = "AvailabilityZone=us-east-1a&Size=4&ClientToken=t";
        let made = call(&cloud, "CreateVolume", form).await;
        assert_eq!(made.status, 200);
        switch(&cloud, json!({ "volumeQuota": 4 })).await;
        let full = call(&cloud, "CreateVolume", form).await;
        assert_eq!(full.code(), "VolumeLimitExceeded");
        switch(&cloud, json!({ "quotaBeforeToken": false })).await;
        assert_eq!(call(&cloud, "CreateVolume", form).await.first("volumeId"), made.first("volumeId"));
        assert_eq!(cloud.admin("POST", "tokens/burn", Some(json!({ "token": "t" }))).await.0, 200);
        let burnt = call(&cloud, "CreateVolume", form).await;
        assert_eq!(burnt.code(), "IdempotentParameterMismatch");
        assert!(burnt.message().contains("already deleted"));
    });
}

#[test]
fn two_instances_hold_one_volume_only_where_it_was_switched_on() {
    play(1, config(Instant), |cloud| async move {
        let volume =
            call(&cloud, "CreateVolume", "AvailabilityZone=us-east-1a&Size=1").await.first("volumeId").unwrap();
        let instances = cloud.ec2.instances();
        let attach = async |name: &str| {
            let instance = &instances.iter().find(|i| i.name == name).unwrap().id;
            call(&cloud, "AttachVolume", &format!("VolumeId={volume}&InstanceId={instance}&Device=/dev/xvdaa")).await
        };
        assert_eq!(attach("node-a").await.status, 200);
        assert_eq!(attach("node-b").await.code(), "VolumeInUse");
        switch(&cloud, json!({ "unsafeMultiAttach": true })).await;
        assert_eq!(attach("node-b").await.status, 200);
        let seen = call(&cloud, "DescribeVolumes", &format!("VolumeId.1={volume}")).await;
        assert_eq!(seen.first("multiAttachEnabled").as_deref(), Some("true"), "else a client would take it for broken");
        assert_eq!(attach("node-b").await.code(), "VolumeInUse", "each of them once");
    });
}

#[rstest]
#[case("DescribeVolumes", "VolumeId.1=VOLUME&MaxResults=5", "InvalidParameterCombination")]
#[case("DescribeInstances", "InstanceId.1=INSTANCE&MaxResults=5", "InvalidParameterCombination")]
#[case("DescribeVolumeStatus", "VolumeId.1=VOLUME&MaxResults=5", "InvalidParameterCombination")]
#[case("DescribeVolumesModifications", "VolumeId.1=VOLUME&MaxResults=5", "InvalidParameterCombination")]
#[case("DescribeInstanceTypes", "InstanceType.1=m5.large&MaxResults=5", "InvalidParameterCombination")]
#[case("DescribeInstanceTypes", "MaxResults=101", "InvalidParameterValue")]
#[case("DescribeSnapshots", "MaxResults=4", "InvalidParameterValue")]
#[case("DescribeTags", "MaxResults=1", "InvalidParameterValue")]
#[case("DescribeVolumes", "NextToken=banana", "InvalidNextToken")]
#[case("DescribeSnapshots", "Filter.1.Name=colour&Filter.1.Value.1=x", "InvalidParameterValue")]
#[case("DescribeVolumesModifications", "Filter.1.Name=colour&Filter.1.Value.1=x", "InvalidParameterValue")]
fn pages_and_filters_that_cannot_be_are_refused(#[case] action: &str, #[case] rest: &str, #[case] code: &str) {
    play(1, config(Instant), |cloud| async move {
        let rest = rest.replace("VOLUME", &cloud.volume().await).replace("INSTANCE", &cloud.instance("node-a"));
        assert_eq!(call(&cloud, action, &rest).await.code(), code);
    });
}

#[test]
fn documented_filters_find_what_they_say() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let snapshot = call(&cloud, "CreateSnapshot", &format!("VolumeId={volume}&Description=why")).await;
        let snapshot = snapshot.first("snapshotId").unwrap();
        let found = async |action: &str, name: &str, value: &str, tag: &str| {
            let answer = call(&cloud, action, &format!("Filter.1.Name={name}&Filter.1.Value.1={value}")).await;
            assert_eq!(answer.status, 200, "{name}: {}", answer.body);
            answer.all(tag)
        };
        for (name, value) in [
            ("attachment.instance-id", node.as_str()),
            ("attachment.status", "attached"),
            ("attachment.delete-on-termination", "false"),
            ("attachment.attach-time", "2026-*"),
            ("availability-zone-id", "use1-az1"),
            ("create-time", "2026-01-01T*"),
            ("encrypted", "fal?e"),
            ("multi-attach-enabled", "false"),
            ("size", "4"),
            ("volume-type", "gp*"),
            ("volume-id", volume.as_str()),
        ] {
            assert!(found("DescribeVolumes", name, value, "volumeId").await.contains(&volume), "{name}");
        }
        assert!(found("DescribeVolumes", "size", "5", "volumeId").await.is_empty());
        assert!(found("DescribeVolumes", "operator.principal", "*", "volumeId").await.is_empty());
        for (name, value) in [
            ("description", "w*"),
            ("encrypted", "false"),
            ("owner-id", "000000000000"),
            ("progress", "100%"),
            ("start-time", "2026*"),
            ("status", "completed"),
            ("storage-tier", "standard"),
            ("volume-size", "4"),
        ] {
            let value = value.replace('%', "%25");
            assert_eq!(found("DescribeSnapshots", name, &value, "snapshotId").await, [snapshot.as_str()], "{name}");
        }
        for (name, value) in [
            ("tag:Name", "node-a"),
            ("block-device-mapping.device-name", "/dev/sdf"),
            ("block-device-mapping.volume-id", volume.as_str()),
            ("private-dns-name", "ip-10-0-0-4.*"),
        ] {
            assert_eq!(found("DescribeInstances", name, value, "instanceId").await, [node.as_str()], "{name}");
        }
        let vpc = call(&cloud, "DescribeInstances", "").await.first("vpcId").unwrap();
        assert_eq!(found("DescribeInstances", "vpc-id", &vpc, "instanceId").await.len(), 3);
        assert!(found("DescribeInstances", "key-name", "*", "instanceId").await.is_empty());
    });
}

#[test]
fn throttling_is_off_until_it_is_switched_on_by_class() {
    play(1, config(Instant), |cloud| async move {
        let burst = async |n: usize, action: &str, rest: &str| {
            let mut refused = 0;
            for _ in 0..n {
                let answer = call(&cloud, action, rest).await;
                if answer.code() == "RequestLimitExceeded" {
                    assert_eq!((answer.status, answer.message().as_str()), (503, "Request limit exceeded."));
                    refused += 1;
                }
            }
            refused
        };
        assert_eq!(burst(300, "DescribeVolumes", "").await, 0);
        switch(&cloud, json!({ "throttle": { "unfiltered-describe": {}, "DescribeInstances": { "size": 10 } } })).await;
        assert_eq!(burst(300, "DescribeVolumes", "").await, 250);
        assert_eq!(burst(300, "DescribeVolumes", "MaxResults=5").await, 0);
        assert_eq!(burst(30, "DescribeInstances", "MaxResults=5").await, 20);
        assert_eq!(burst(30, "DescribeAvailabilityZones", "").await, 0);
        cloud.sleep(2_000).await;
        assert_eq!(burst(30, "DescribeVolumes", "").await, 10);
        let (status, answer) = cloud.admin("POST", "switches", Some(json!({ "throttle": { "banana": {} } }))).await;
        assert_eq!((status, answer["error"].as_str().unwrap().contains("throttle.banana")), (400, true));
    });
}

#[test]
fn reads_lag_behind_by_time_or_by_revisions() {
    play(1, config(Aws), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        switch(&cloud, json!({ "lagMs": { "DescribeInstances": 5_000 } })).await;
        cloud.attach(&volume, &node, "/dev/sdf").await;
        let mapped = async || {
            let answer = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
            answer.all("deviceName").contains(&"/dev/sdf".to_owned())
        };
        assert_eq!((cloud.attachment_status(&volume).await.as_str(), mapped().await), ("attaching", false));
        cloud.sleep(4_900).await;
        assert!(!mapped().await);
        cloud.sleep(200).await;
        assert!(mapped().await);
        switch(&cloud, json!({ "lagMs": {} })).await;
        cloud.sleep(30_000).await;
        let stale = json!({
            "name": "f", "match": {"plane": "ec2", "op": "DescribeVolumes"}, "when": {"nth": 3}, "effect": {"stale_read": 1}
        });
        assert_eq!(cloud.admin("POST", "faults", Some(stale)).await.0, 201);
        assert_eq!(cloud.attachment_status(&volume).await, "attached");
        cloud.detach(&volume).await;
        let seen = [
            cloud.attachment_status(&volume).await,
            cloud.attachment_status(&volume).await,
            cloud.attachment_status(&volume).await,
        ];
        assert_eq!(seen, ["detaching", "attached", "detaching"]);
    });
}

fn strict() -> Config {
    Config { credentials: [("AKID".to_owned(), Secret::new("secret"))].into(), ..config(Instant) }
}

fn hmac(key: &[u8], data: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(data.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Posts `form` with a real signature.
async fn signed(cloud: &Cloud, key: &str, secret: &str, date: &str, form: &str, sent: &str) -> Answer {
    let day = date.get(..8).unwrap_or(date);
    let hash = |text: &str| hex::encode(Sha256::digest(text.as_bytes()));
    let canonical = format!("POST\n/\n\nhost:localhost\nx-amz-date:{date}\n\nhost;x-amz-date\n{}", hash(form));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{day}/us-east-1/ec2/aws4_request\n{}", hash(&canonical));
    let mut derived = format!("AWS4{secret}").into_bytes();
    for part in [day, "us-east-1", "ec2", "aws4_request"] {
        derived = hmac(&derived, part);
    }
    let signature = hex::encode(hmac(&derived, &text));
    let request = Request::builder()
        .method("POST")
        .uri("/")
        .header("host", "localhost")
        .header("x-amz-date", date)
        .header(
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={key}/{day}/us-east-1/ec2/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={signature}"
            ),
        )
        .body(body::full(sent.to_owned()))
        .unwrap();
    cloud.answer(request).await
}

#[test]
fn signatures_are_verified_when_there_are_credentials() {
    play(1, strict(), |cloud| async move {
        let form = "Action=DescribeVolumes&Version=2016-11-15";
        let now = "20260101T000000Z";
        assert_eq!(signed(&cloud, "AKID", "secret", now, form, form).await.status, 200);
        let wrong = |answer: Answer| (answer.status, answer.code());
        let expect = |status: u16, code: &str| (status, code.to_owned());
        assert_eq!(wrong(signed(&cloud, "OTHER", "secret", now, form, form).await), expect(401, "AuthFailure"));
        assert_eq!(
            wrong(signed(&cloud, "AKID", "banana", now, form, form).await),
            expect(403, "SignatureDoesNotMatch")
        );
        let tampered = format!("{form}&MaxResults=5");
        assert_eq!(
            wrong(signed(&cloud, "AKID", "secret", now, form, &tampered).await),
            expect(403, "SignatureDoesNotMatch")
        );
        cloud.sleep(6 * 60_000).await;
        assert_eq!(wrong(signed(&cloud, "AKID", "secret", now, form, form).await), expect(400, "RequestExpired"));
        assert_eq!(wrong(signed(&cloud, "AKID", "secret", "2026", "", form).await).1, "IncompleteSignature");
        // The usual test signature is invalid.
        assert_eq!(cloud.ask(form).await.code(), "IncompleteSignature");
        assert!(!format!("{:?}", cloud.ec2).contains("secret\""));
    });
}
