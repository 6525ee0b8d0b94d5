//! The EBS direct API writes snapshots block by block, and snapshots are copied between regions with their bytes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use mock_ec2::LatencyProfile::{Aws, Instant};
use mock_ec2::{Config, Regions};
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use substrate::{HttpService, Process, Seed, body};

use crate::common::{Answer, Cloud, SIGNED, config, play, read};

const BLOCK: usize = 512 << 10;

fn sum(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

fn with_bytes(dir: &tempfile::TempDir, latency: mock_ec2::LatencyProfile) -> Config {
    Config { volume_dir: Some(dir.path().to_owned()), ..config(latency) }
}

/// Sends a request to the direct API; returns status and body.
async fn ebs(
    service: &HttpService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    bytes: &[u8],
) -> (u16, Vec<u8>) {
    let builder = Request::builder().method(method).uri(path).header("authorization", SIGNED.replace("/ec2/", "/ebs/"));
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let response = body::call(service.clone(), builder.body(body::full(bytes.to_vec())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    (status, body::collect(response.into_body(), 1 << 20).await.unwrap().to_vec())
}

async fn start(cloud: &Cloud, json: Value) -> (u16, Value) {
    let (status, text) = ebs(&cloud.service, "POST", "/snapshots", &[], json.to_string().as_bytes()).await;
    (status, serde_json::from_slice(&text).unwrap())
}

async fn put(cloud: &Cloud, snapshot: &str, block: u64, bytes: &[u8], checksum: &str) -> (u16, String) {
    let length = bytes.len().to_string();
    let headers =
        [("x-amz-data-length", length.as_str()), ("x-amz-checksum", checksum), ("x-amz-checksum-algorithm", "SHA256")];
    let path = format!("/snapshots/{snapshot}/blocks/{block}");
    let (status, text) = ebs(&cloud.service, "PUT", &path, &headers, bytes).await;
    (status, String::from_utf8(text).unwrap())
}

async fn complete(cloud: &Cloud, snapshot: &str, blocks: &str) -> (u16, String) {
    let path = format!("/snapshots/completion/{snapshot}");
    let (status, text) = ebs(&cloud.service, "POST", &path, &[("x-amz-changedblockscount", blocks)], b"").await;
    (status, String::from_utf8(text).unwrap())
}

/// Returns the listed blocks of a snapshot, with their tokens.
async fn blocks(service: &HttpService, snapshot: &str) -> Vec<(u64, String)> {
    let (status, text) = ebs(service, "GET", &format!("/snapshots/{snapshot}/blocks"), &[], b"").await;
    let reported: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(status, 200, "{reported}");
    let block = |b: &Value| (b["BlockIndex"].as_u64().unwrap(), b["BlockToken"].as_str().unwrap().to_owned());
    reported["Blocks"].as_array().unwrap().iter().map(block).collect()
}

#[test]
fn a_snapshot_is_written_block_by_block_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    play(1, with_bytes(&dir, Instant), |cloud| async move {
        let wanted =
            json!({ "VolumeSize": 1, "Description": "d", "ClientToken": "t", "Tags": [{ "Key": "k", "Value": "v" }] });
        let (status, made) = start(&cloud, wanted.clone()).await;
        assert_eq!((status, &made["Status"], &made["BlockSize"]), (201, &json!("pending"), &json!(BLOCK)), "{made}");
        let id = made["SnapshotId"].as_str().unwrap();
        assert_eq!(start(&cloud, wanted).await.1["SnapshotId"], id, "the same request");
        assert_eq!(start(&cloud, json!({ "VolumeSize": 2, "ClientToken": "t" })).await.0, 409);
        let bytes = vec![7; BLOCK];
        for block in [0, 2_047] {
            assert_eq!(put(&cloud, id, block, &bytes, &sum(&bytes)).await, (201, String::new()));
        }
        assert_eq!(complete(&cloud, id, "3").await.0, 400);
        let (status, text) = complete(&cloud, id, "2").await;
        assert_eq!((status, text.as_str()), (202, r#"{"Status":"pending"}"#));
        let reported = cloud.ask(&format!("Action=DescribeSnapshots&Version=2016-11-15&SnapshotId.1={id}")).await;
        assert_eq!(
            (reported.first("status").as_deref(), reported.first("value").as_deref()),
            (Some("completed"), Some("v"))
        );
        let listed = blocks(&cloud.service, id).await;
        assert_eq!(listed.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [0, 2_047]);
        let get = async |block: u64, token: &str| {
            let token = token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            ebs(&cloud.service, "GET", &format!("/snapshots/{id}/blocks/{block}?blockToken={token}"), &[], b"").await
        };
        assert_eq!(get(2_047, &listed[1].1).await, (200, bytes));
        assert_eq!(get(0, &listed[1].1).await.0, 400, "the token of another block");

        // A child has its parent's bytes, and a volume has the snapshot's.
        let (_, child) = start(&cloud, json!({ "VolumeSize": 2, "ParentSnapshotId": id })).await;
        let child = child["SnapshotId"].as_str().unwrap();
        assert_eq!(complete(&cloud, child, "0").await.0, 202);
        assert_eq!(blocks(&cloud.service, child).await.len(), 2);
        let form = format!("Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&SnapshotId={child}");
        let volume = cloud.ask(&form).await.first("volumeId").unwrap();
        while cloud.volume_status(&volume).await == "creating" {
            cloud.sleep(100).await;
        }
        assert_eq!(cloud.volume_status(&volume).await, "available");
    });
    let volumes = std::fs::read_dir(dir.path()).unwrap().filter_map(Result::ok);
    assert!(
        !volumes.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("vol-")),
        "all are gone"
    );
}

#[rstest]
#[case::short(&[7; 100], "", 0)]
#[case::checksum(&[7; BLOCK], "AAAA", 0)]
#[case::beyond(&[7; BLOCK], "", 2_048)]
fn a_block_that_cannot_be_written_is_refused_in_json(#[case] bytes: &[u8], #[case] checksum: &str, #[case] block: u64) {
    let dir = tempfile::tempdir().unwrap();
    let checksum = if checksum.is_empty() { sum(bytes) } else { checksum.to_owned() };
    play(1, with_bytes(&dir, Instant), |cloud| async move {
        let (_, made) = start(&cloud, json!({ "VolumeSize": 1 })).await;
        let id = made["SnapshotId"].as_str().unwrap();
        let (status, text) = put(&cloud, id, block, bytes, &checksum).await;
        let reported: Value = serde_json::from_str(&text).unwrap();
        assert!(status == 400 && reported["Message"].is_string(), "{status} {reported}");
        assert_eq!(complete(&cloud, id, "0").await.0, 202);
        assert_eq!(put(&cloud, id, 0, &[7; BLOCK], &sum(&[7; BLOCK])).await.0, 400, "it is complete");
    });
}

#[rstest]
#[case(json!({}))]
#[case(json!({ "VolumeSize": 0 }))]
#[case(json!({ "VolumeSize": 1, "Timeout": 1 }))]
#[case(json!({ "VolumeSize": 1, "Colour": "red" }))]
#[case(json!({ "VolumeSize": 1, "KmsKeyArn": "k" }))]
#[case(json!({ "VolumeSize": 1, "ParentSnapshotId": "banana" }))]
fn a_snapshot_that_cannot_be_started_is_refused_in_json(#[case] wanted: Value) {
    let dir = tempfile::tempdir().unwrap();
    play(1, with_bytes(&dir, Instant), |cloud| async move {
        let (status, reported) = start(&cloud, wanted).await;
        assert!(status == 400 && reported["Message"].is_string(), "{status} {reported}");
    });
}

#[test]
fn a_snapshot_without_writes_fails_after_its_timeout() {
    let dir = tempfile::tempdir().unwrap();
    play(1, with_bytes(&dir, Aws), |cloud| async move {
        let (_, made) = start(&cloud, json!({ "VolumeSize": 1, "Timeout": 10 })).await;
        let id = made["SnapshotId"].as_str().unwrap();
        let state = async || {
            let form = format!("Action=DescribeSnapshots&Version=2016-11-15&SnapshotId.1={id}");
            cloud.ask(&form).await.first("status").unwrap()
        };
        cloud.sleep(9 * 60_000).await;
        assert_eq!(put(&cloud, id, 0, &[7; BLOCK], &sum(&[7; BLOCK])).await.0, 201);
        cloud.sleep(9 * 60_000).await;
        assert_eq!(state().await, "pending");
        cloud.sleep(2 * 60_000).await;
        assert_eq!(state().await, "error");
        assert_eq!(complete(&cloud, id, "1").await.0, 400);
    });
}

/// Sends a request to one region of several.
async fn ask(service: &HttpService, region: &str, form: &str) -> Answer {
    let request = Request::post("/")
        .header("authorization", SIGNED.replace("us-east-1", region))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body::full(format!("{form}&Version=2016-11-15")))
        .unwrap();
    read(body::call(service.clone(), request).await.unwrap()).await
}

#[test]
fn a_snapshot_is_copied_to_another_region_with_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    play(1, config(Instant), |cloud| async move {
        let of = |region: &str| {
            let zones = vec![format!("{region}a")];
            let dir = Some(path.join(region));
            Config { region: region.to_owned(), zones, volume_dir: dir, instances: Vec::new(), ..config(Aws) }
        };
        for region in ["us-east-1", "eu-west-1"] {
            std::fs::create_dir(path.join(region)).unwrap();
        }
        let regions = Regions::new(&Seed::root(1), vec![of("us-east-1"), of("eu-west-1")]).unwrap();
        let process = Process::start(&cloud.world, "regions", |_| std::future::pending());
        let service = regions.start(&process.ctx().unwrap());
        let form = "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1";
        let volume = ask(&service, "us-east-1", form).await.first("volumeId").unwrap();
        cloud.sleep(60_000).await;
        let file = std::fs::OpenOptions::new().write(true).open(path.join("us-east-1").join(&volume)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"bytes", 5 * BLOCK as u64).unwrap();
        let form = format!("Action=CreateSnapshot&VolumeId={volume}");
        let snapshot = ask(&service, "us-east-1", &form).await.first("snapshotId").unwrap();
        let copy = format!("Action=CopySnapshot&SourceRegion=us-east-1&SourceSnapshotId={snapshot}");
        assert_eq!(ask(&service, "eu-west-1", &copy).await.code(), "IncorrectState", "it is not complete yet");
        cloud.sleep(600_000).await;
        let copied = ask(&service, "eu-west-1", &format!("{copy}&CompletionDurationMinutes=30")).await;
        let copied = copied.first("snapshotId").unwrap_or_else(|| panic!("{}", copied.body));
        let describe = format!("Action=DescribeSnapshots&SnapshotId.1={copied}");
        cloud.sleep(29 * 60_000).await;
        let reported = ask(&service, "eu-west-1", &describe).await;
        let fields = ["status", "transferType", "completionDurationMinutes"].map(|tag| reported.first(tag).unwrap());
        assert_eq!(fields, ["pending", "time-based", "30"]);
        cloud.sleep(2 * 60_000).await;
        assert_eq!(ask(&service, "eu-west-1", &describe).await.first("status").as_deref(), Some("completed"));
        let bytes = std::fs::read(path.join("eu-west-1").join(&copied)).unwrap();
        assert_eq!(&bytes[5 * BLOCK..][..5], b"bytes");

        let unknown = copy.replace(&snapshot, "snap-0aaaaaaaaaaaaaaaa");
        assert_eq!(ask(&service, "eu-west-1", &unknown).await.code(), "InvalidSnapshot.NotFound");
        let elsewhere = ask(&service, "eu-west-1", &copy.replace("=us-east-1", "=mars-1")).await;
        assert_eq!(elsewhere.message(), "Invalid region: mars-1; served here: us-east-1, eu-west-1.");
        for minutes in ["14", "20", "2895", "x"] {
            let answer = ask(&service, "eu-west-1", &format!("{copy}&CompletionDurationMinutes={minutes}")).await;
            assert_eq!(answer.code(), "InvalidParameterValue", "{minutes}");
        }
        regions.close();
    });
}
