//! Several regions behind one address, over sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use http::Request;
use serde_json::Value;
use substrate::{body, dial};

use crate::common::program::{program, run, start};
use crate::common::{Answer, SIGNED, read};

/// Posts a form signed for `service` in `region`.
fn ask_as(endpoint: &str, region: &str, service: &str, form: &str) -> Answer {
    let signature = SIGNED.replace("us-east-1/ec2", &format!("{region}/{service}"));
    let request = Request::post("/")
        .header("authorization", signature)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body::full(format!("Version=2016-11-15&{form}")))
        .unwrap();
    run(async { read(body::call(dial::http(endpoint).unwrap(), request).await.unwrap()).await })
}

fn ask(endpoint: &str, region: &str, form: &str) -> Answer {
    ask_as(endpoint, region, "ec2", form)
}

fn admin(endpoint: &str, method: &str, path: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(format!("/admin/v1/{path}"));
    let request = request.header("content-type", "application/json").body(body::empty()).unwrap();
    run(async {
        let answer = read(body::call(dial::http(endpoint).unwrap(), request).await.unwrap()).await;
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    })
}

fn create(zone: &str) -> String {
    format!("Action=CreateVolume&AvailabilityZone={zone}&Size=1")
}

fn refused(flags: &[&str]) -> (Option<i32>, String) {
    let out = program().args(["--listen", "127.0.0.1:0"]).args(flags).output().unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn each_region_has_its_own_data_and_zones_and_the_scope_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let [seeds, state, files] = ["i.yaml", "s.json", "v"].map(|name| dir.path().join(name));
    std::fs::write(&seeds, "- {name: a, zone: us-east-1a}\n- {name: b, zone: eu-west-1b}").unwrap();
    let [i, s, v] = [&seeds, &state, &files].map(|path| path.to_str().unwrap());
    let flags =
        ["--region", "us-east-1", "--region", "eu-west-1", "--instances", i, "--state-file", s, "--volume-dir", v];
    let (mut running, endpoint) = start(dir.path(), &flags);
    let all = |region: &str, action: &str, tag: &str| -> Vec<String> {
        ask(&endpoint, region, &format!("Action={action}")).all(tag)
    };
    assert_eq!(all("us-east-1", "DescribeRegions", "regionName"), ["us-east-1", "eu-west-1"]);
    assert_eq!(all("eu-west-1", "DescribeAvailabilityZones", "zoneName"), ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    assert_eq!(all("eu-west-1", "DescribeAvailabilityZones", "zoneId")[0], "euw1-az1");
    let here = ask(&endpoint, "us-east-1", &create("us-east-1a")).first("volumeId").unwrap();
    let there = ask(&endpoint, "eu-west-1", &create("eu-west-1a")).first("volumeId").unwrap();
    assert_ne!(here, there, "an id is one volume's in the world");
    assert_eq!(ask(&endpoint, "eu-west-1", &create("us-east-1a")).code(), "InvalidZone.NotFound");
    for (region, own, other) in [("us-east-1", &here, &there), ("eu-west-1", &there, &here)] {
        let seen = all(region, "DescribeVolumes", "volumeId");
        assert!(seen.contains(own) && !seen.contains(other), "{region}: {seen:?}");
        let missing = ask(&endpoint, region, &format!("Action=DeleteVolume&VolumeId={other}"));
        assert_eq!(missing.code(), "InvalidVolume.NotFound");
        let instances = all(region, "DescribeInstances", "availabilityZone").into_iter().collect::<BTreeSet<_>>();
        assert!(instances.iter().all(|zone| zone.starts_with(region)) && !instances.is_empty(), "{instances:?}");
    }
    assert!(files.join(&here).exists() && files.join("eu-west-1").join(&there).exists());

    let dump = |query: &str| admin(&endpoint, "GET", &format!("state{query}")).1.to_string();
    assert!(dump("").contains(&here) && dump("?region=us-east-1").contains(&here) && !dump("").contains(&there));
    assert!(dump("?region=eu-west-1").contains(&there));
    let (status, error) = admin(&endpoint, "GET", "state?region=mars-1");
    assert_eq!(status, 404);
    assert!(error["error"].as_str().unwrap().contains("us-east-1, eu-west-1"), "{error}");

    // All state survives a kill; a region's file is not read as another's.
    running.end("KILL");
    let (mut running, endpoint) = start(dir.path(), &flags);
    for (region, own) in [("us-east-1", &here), ("eu-west-1", &there)] {
        assert!(ask(&endpoint, region, "Action=DescribeVolumes").all("volumeId").contains(own));
    }
    assert_eq!(admin(&endpoint, "POST", "reset?region=eu-west-1").0, 200);
    assert!(!ask(&endpoint, "eu-west-1", "Action=DescribeVolumes").all("volumeId").contains(&there));
    assert!(ask(&endpoint, "us-east-1", "Action=DescribeVolumes").all("volumeId").contains(&here));
    assert_eq!(admin(&endpoint, "POST", "reset").0, 200);
    assert!(!ask(&endpoint, "us-east-1", "Action=DescribeVolumes").all("volumeId").contains(&here));
    assert_eq!(running.end("TERM"), Some(0));
    let (code, text) = refused(&["--region", "eu-west-1", "--state-file", s]);
    assert_eq!((code, text.contains("it is of us-east-1, not of eu-west-1")), (Some(2), true), "{text}");
}

#[test]
fn a_region_that_is_not_served_is_refused_and_those_that_are_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_running, endpoint) = start(dir.path(), &["--region", "eu-central-1"]);
    assert_eq!(ask(&endpoint, "eu-central-1", "Action=DescribeVolumes").status, 200);
    for service in ["ec2", "sts", "autoscaling"] {
        let answer = ask_as(&endpoint, "us-east-1", service, "Action=DescribeVolumes");
        assert_eq!((answer.status, answer.code().as_str()), (401, "AuthFailure"), "{service}: {}", answer.body);
        let text = answer.message();
        assert!(text.contains("not 'us-east-1'") && text.contains("Served here: eu-central-1."), "{text}");
    }
    let blocks = Request::get("/snapshots/snap-0123456789abcdef0/blocks")
        .header("authorization", SIGNED.replace("ec2", "ebs"))
        .body(body::empty())
        .unwrap();
    let answer = run(async { read(body::call(dial::http(&endpoint).unwrap(), blocks).await.unwrap()).await });
    assert!(answer.status == 403 && answer.body.contains("Served here: eu-central-1."), "{}", answer.body);
    // A query can carry the scope, too.
    let query = "/?Action=DescribeVolumes&Version=2016-11-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0\
                 &X-Amz-Credential=k%2F20260101%2Fus-east-1%2Fec2%2Faws4_request";
    let request = Request::get(query).body(body::empty()).unwrap();
    let answer = run(async { read(body::call(dial::http(&endpoint).unwrap(), request).await.unwrap()).await });
    assert_eq!(answer.code(), "AuthFailure", "{}", answer.body);
}

#[test]
fn all_regions_of_aws_can_be_served_and_zones_belong_to_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let (_running, endpoint) =
        start(dir.path(), &["--region", "eu-west-1", "--region", "all", "--zones", "us-east-1f,eu-west-1a"]);
    let regions = ask(&endpoint, "sa-east-1", "Action=DescribeRegions").all("regionName");
    assert_eq!((regions.len(), regions[0].as_str()), (mock_ec2::regions::ALL.len(), "eu-west-1"));
    for region in &regions {
        let zones = ask(&endpoint, region, "Action=DescribeAvailabilityZones").all("zoneName");
        let expected = match region.as_str() {
            "us-east-1" => vec!["us-east-1f".to_owned()],
            "eu-west-1" => vec!["eu-west-1a".to_owned()],
            other => ["a", "b", "c"].map(|letter| format!("{other}{letter}")).to_vec(),
        };
        assert_eq!(zones, expected);
    }
    let two = ["--region", "us-east-1", "--region", "us-west-2"];
    let (code, text) = refused(&[&two[..], &["--zones", "eu-west-1a"]].concat());
    assert_eq!((code, text.contains("eu-west-1a")), (Some(2), true), "{text}");
    assert_eq!(refused(&["--region", "mars"]).0, Some(2));
}
