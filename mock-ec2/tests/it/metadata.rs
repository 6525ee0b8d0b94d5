//! The metadata service of an instance, the event stream, the metrics.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::{Request, Response};
use http_body_util::BodyExt;
use mock_ec2::LatencyProfile::Instant;
use serde_json::{Value, json};
use substrate::{Body, body};

use crate::common::{Cloud, config, play};

async fn ask(cloud: &Cloud, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let id = cloud.instance("node-a").parse().unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = body::call(cloud.ec2.metadata(&cloud.ctx, &id), request.body(body::empty()).unwrap()).await.unwrap();
    text(response).await
}

async fn text(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    let bytes = body::collect(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn get(cloud: &Cloud, path: &str) -> (u16, String) {
    ask(cloud, "GET", &format!("/latest/{path}"), &[]).await
}

#[test]
fn a_driver_finds_where_it_runs_and_what_is_attached() {
    play(1, config(Instant), |cloud| async move {
        let node = cloud.instance("node-a");
        let document: Value = serde_json::from_str(&get(&cloud, "dynamic/instance-identity/document").await.1).unwrap();
        assert_eq!(
            (&document["instanceId"], &document["instanceType"], &document["region"], &document["availabilityZone"]),
            (&json!(node), &json!("m5.large"), &json!("us-east-1"), &json!("us-east-1a"))
        );
        assert_eq!(get(&cloud, "meta-data/outpost-arn").await.0, 404);
        let hardware = json!({ "networkInterfaces": 3 });
        cloud.admin("POST", &format!("instances/{node}/hardware"), Some(hardware)).await;
        let macs = get(&cloud, "meta-data/network/interfaces/macs/").await.1;
        assert_eq!(macs.lines().count(), 3);
        let first = macs.lines().next().unwrap().trim_end_matches('/').to_owned();
        assert_eq!(get(&cloud, "meta-data/mac").await, (200, first.clone()));
        assert_eq!(get(&cloud, &format!("meta-data/network/interfaces/macs/{first}/device-number")).await.1, "0");
        assert_eq!(get(&cloud, "meta-data/placement/availability-zone-id").await.1, "use1-az1");
        for path in ["meta-data/nowhere", "user-data", "meta-data/network/interfaces/macs/0e:ff", "meta-data/iam"] {
            assert_eq!(get(&cloud, path).await.0, 404, "{path}");
        }
    });
}

#[test]
fn the_mapping_is_that_of_the_latest_boot() {
    play(1, config(Instant), |cloud| async move {
        let (volume, node) = (cloud.volume().await, cloud.instance("node-a"));
        let mapping = async || get(&cloud, "meta-data/block-device-mapping/").await.1;
        cloud.attach(&volume, &node, "/dev/xvdaa").await;
        assert_eq!(mapping().await, "ami\nroot");
        for action in ["StopInstances", "StartInstances"] {
            cloud.ask(&format!("Action={action}&Version=2016-11-15&InstanceId.1={node}")).await;
        }
        assert_eq!(mapping().await, "ami\nebs1\nroot");
        assert_eq!(get(&cloud, "meta-data/block-device-mapping/ebs1").await.1, "xvdaa");
        cloud.detach(&volume).await;
        assert_eq!(mapping().await, "ami\nebs1\nroot");
    });
}

#[test]
fn a_session_token_is_sealed_ends_and_is_needed_once_version_1_is_off() {
    play(1, config(Instant), |cloud| async move {
        const TTL: &str = "X-aws-ec2-metadata-token-ttl-seconds";
        let token = async |headers: &[(&str, &str)]| ask(&cloud, "PUT", "/latest/api/token", headers).await;
        assert_eq!(
            (token(&[]).await.0, token(&[(TTL, "0")]).await.0, token(&[(TTL, "21601")]).await.0),
            (400, 400, 400)
        );
        assert_eq!(token(&[(TTL, "60"), ("X-Forwarded-For", "1.2.3.4")]).await.0, 403);
        let (status, good) = token(&[(TTL, "60")]).await;
        assert_eq!(status, 200);
        cloud.admin("POST", "switches", Some(json!({ "imdsV1": false }))).await;
        let with = async |token: &str| {
            ask(&cloud, "GET", "/latest/meta-data/instance-id", &[("X-aws-ec2-metadata-token", token)]).await
        };
        assert_eq!(get(&cloud, "meta-data/instance-id").await.0, 401);
        assert_eq!(with(&good).await, (200, cloud.instance("node-a")));
        assert_eq!((with("banana").await.0, with("").await.0), (401, 401));
        cloud.sleep(60_001).await;
        assert_eq!(with(&good).await.0, 401);
        assert_eq!(ask(&cloud, "POST", "/latest/api/token", &[]).await.0, 405);
    });
}

#[test]
fn an_instance_that_was_run_has_its_metadata_on_the_main_port() {
    play(1, config(Instant), |cloud| async move {
        let form = "Action=RunInstances&Version=2016-11-15&ImageId=ami-0123456789abcdef0&InstanceType=m7i.large&MinCount=1&MaxCount=1\
                    &Placement.AvailabilityZone=us-east-1b";
        let made = cloud.ask(form).await.first("instanceId").unwrap();
        let at = async |method: &str, path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri(format!("/imds/{path}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            text(cloud.send(request.body(body::empty()).unwrap()).await.unwrap()).await
        };
        let ttl = [("X-aws-ec2-metadata-token-ttl-seconds", "60")];
        let (status, token) = at("PUT", &format!("{made}/latest/api/token"), &ttl).await;
        assert_eq!(status, 200);
        let token = [("X-aws-ec2-metadata-token", token.as_str())];
        let document = at("GET", &format!("{made}/latest/dynamic/instance-identity/document"), &token).await.1;
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(
            (&document["instanceId"], &document["instanceType"], &document["availabilityZone"]),
            (&json!(made), &json!("m7i.large"), &json!("us-east-1b"))
        );
        let id = |instance: &str| format!("{instance}/latest/meta-data/instance-id");
        let other = cloud.instance("node-a");
        assert_eq!(at("GET", &id(&other), &[]).await, (200, other.clone()));
        assert_eq!(at("GET", &id(&other), &token).await.0, 401, "a token of another instance");
        for unknown in ["i-0aaaaaaaaaaaaaaaa", "banana", ""] {
            assert_eq!(at("GET", &id(unknown), &[]).await.0, 404, "{unknown}");
        }
    });
}

#[test]
fn the_metadata_service_can_fail() {
    play(1, config(Instant), |cloud| async move {
        let fault = json!({
            "name": "f", "match": {"plane": "ec2", "op": "Imds", "where": {"path": "/latest/api/*"}},
            "when": {"first": 1}, "effect": {"http": 503}
        });
        assert_eq!(cloud.admin("POST", "faults", Some(fault)).await.0, 201);
        assert_eq!(ask(&cloud, "PUT", "/latest/api/token", &[]).await.0, 503);
        assert_eq!(ask(&cloud, "PUT", "/latest/api/token", &[]).await.0, 400);
    });
}

#[test]
fn every_transition_is_an_event_and_everything_is_counted() {
    play(1, config(Instant), |cloud| async move {
        let request = Request::builder().uri("/admin/v1/events").body(body::empty()).unwrap();
        let mut events = cloud.send(request).await.unwrap();
        assert_eq!(events.headers()["content-type"], "text/event-stream");
        let volume = cloud.volume().await;
        let frame = events.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        let event = String::from_utf8(frame.to_vec()).unwrap();
        let data = format!(
            r#"{{"iops":3000,"size_gib":4,"state":"creating","throughput":125,"volume":"{volume}","volume_type":"gp3","zone":"us-east-1a"}}"#
        );
        assert_eq!(event, format!("id: 0\nevent: ec2.volume\ndata: {data}\n\n"));
        cloud.detach(&volume).await;
        let request = Request::builder().uri("/metrics").body(body::empty()).unwrap();
        let (status, metrics) = text(cloud.send(request).await.unwrap()).await;
        assert_eq!(status, 200);
        for line in [
            "mock_ec2_requests_total{action=\"CreateVolume\",outcome=\"ok\"} 1",
            "mock_ec2_requests_total{action=\"DetachVolume\",outcome=\"IncorrectState\"} 1",
            "mock_ec2_volumes{state=\"available\"} 1",
            "mock_ec2_instances{state=\"running\"} 3",
            "# TYPE mock_ec2_attachments gauge",
        ] {
            assert!(metrics.lines().any(|l| l == line), "{line}:\n{metrics}");
        }
    });
}
