//! Requests that are not plain EC2 over POST: other services, signed GETs, presigned URLs, signature version 2.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::Request;
use mock_ec2::Config;
use mock_ec2::LatencyProfile::Instant;
use rstest::rstest;
use serde_json::Value;
use substrate::body;

use crate::common::{self, Answer, Cloud, SIGNED, config, play};

fn header(service: &str) -> String {
    SIGNED.replace("/ec2/", &format!("/{service}/"))
}

/// Returns the answer with its content type.
async fn send(
    cloud: &Cloud,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    form: &str,
) -> (Answer, String, Option<String>) {
    let builder = Request::builder().method(method).uri(uri);
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    let response = cloud.send(builder.body(body::full(form.to_owned())).unwrap()).await.unwrap();
    let of = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (kind, error) = (of("content-type").unwrap_or_default(), of("x-amzn-errortype"));
    (common::read(response).await, kind, error)
}

#[rstest]
#[case("POST", "", "Action=GetCallerIdentity&Version=2011-06-15")]
#[case("GET", "?Action=GetCallerIdentity&Version=2011-06-15", "")]
fn the_caller_learns_who_it_is_by_post_and_by_get(#[case] method: &str, #[case] query: &str, #[case] form: &str) {
    let away = Config { region: "eu-west-3".to_owned(), ..Config::default() };
    for (config, region) in [(config(Instant), "us-east-1"), (away, "eu-west-3")] {
        play(1, config, |cloud| async move {
            let own = header("sts").replace("us-east-1", region);
            let headers = [("authorization", own.as_str()), ("content-type", "application/x-www-form-urlencoded")];
            let (answer, ..) = send(&cloud, method, &format!("/{query}"), &headers, form).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            let root = "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">";
            assert!(answer.body.contains(root), "{}", answer.body);
            let account = answer.first("Account").unwrap();
            assert_eq!(account, Config::default().account_id);
            assert!(answer.first("Arn").unwrap().starts_with(&format!("arn:aws:iam::{account}:")));
        });
    }
}

#[test]
fn an_unserved_action_is_refused_with_the_served_ones() {
    play(1, config(Instant), |cloud| async move {
        let own = header("sts");
        let form = "Action=AssumeRole&Version=2011-06-15";
        let (answer, ..) = send(&cloud, "POST", "/", &[("authorization", &own)], form).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidAction"));
        let wanted = "The action AssumeRole of the service sts is not served here. Served: sts (GetCallerIdentity).";
        assert_eq!(answer.message(), wanted);
        assert!(answer.body.contains("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"));
    });
}

#[rstest]
#[case::s3("s3", "GET", "/", &[], "", "application/xml", "<Error><Code>InvalidRequest</Code>")]
#[case::s3_key("s3", "PUT", "/bucket/snapshots/x", &[], "bytes", "application/xml", "<Error><Code>InvalidRequest</Code>")]
#[case::s3_named_like_ebs("s3", "GET", "/snapshots/x", &[], "", "application/xml", "<Error><Code>InvalidRequest</Code>")]
#[case::iam(
    "iam", "POST", "/", &[], "Action=ListRoles&Version=2010-05-08", "text/xml",
    "<ErrorResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><Error><Type>Sender</Type>"
)]
#[case::ssm(
    "ssm", "POST", "/", &[("x-amz-target", "AmazonSSM.GetParameter")], "{}", "application/x-amz-json-1.1",
    "{\"__type\":\"UnknownOperationException\",\"message\":\"The service ssm is not served here."
)]
#[case::eks("eks", "GET", "/clusters", &[], "", "application/json", "{\"message\":\"The service eks is not served here.")]
fn other_services_are_refused_in_their_own_form(
    #[case] service: &str,
    #[case] method: &str,
    #[case] path: &str,
    #[case] headers: &[(&str, &str)],
    #[case] form: &str,
    #[case] kind: &str,
    #[case] wanted: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let own = header(service);
        let headers: Vec<(&str, &str)> = headers.iter().copied().chain([("authorization", own.as_str())]).collect();
        let (answer, content_type, error) = send(&cloud, method, path, &headers, form).await;
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        assert_eq!(content_type, kind);
        assert!(answer.body.contains(wanted), "{}", answer.body);
        assert!(answer.body.contains("Served: ec2, "), "{}", answer.body);
        assert_eq!(error.is_some(), service == "eks");
        assert!(!answer.request_id.is_empty());
    });
}

#[rstest]
#[case("POST", "/snapshots", "", 403, "AccessDeniedException")]
#[case("DELETE", "/snapshots/snap-0123456789abcdef0/blocks", "ebs", 405, "ValidationException")]
#[case("GET", "/", "ebs", 404, "ResourceNotFoundException")]
#[case("GET", "/snapshots/snap-0123456789abcdef0/blocks", "ebs", 404, "ResourceNotFoundException")]
fn the_direct_api_refuses_in_json(
    #[case] method: &str,
    #[case] path: &str,
    #[case] service: &str,
    #[case] status: u16,
    #[case] kind: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let own = header(service);
        let headers: &[(&str, &str)] = if service.is_empty() { &[] } else { &[("authorization", &own)] };
        let (answer, content_type, error) = send(&cloud, method, path, headers, "{}").await;
        assert_eq!((answer.status, content_type.as_str(), error.as_deref()), (status, "application/json", Some(kind)));
        assert!(serde_json::from_str::<Value>(&answer.body).unwrap()["Message"].is_string(), "{}", answer.body);
    });
}

const CREATE: &str = "Action=CreateVolume&Version=2016-11-15&AvailabilityZone=us-east-1a&Size=1";
const VERSION_2: &str = "AWSAccessKeyId=me&SignatureVersion=2&SignatureMethod=HmacSHA256&Signature=x%3D";
const PRESIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=0&\
                         X-Amz-Credential=me%2F20260101%2Fus-east-1%2Fec2%2Faws4_request";

#[test]
fn a_get_changes_state_only_when_no_page_can_have_sent_it() {
    play(1, config(Instant), |cloud| async move {
        let own = ("user-agent", "libcloud/3.9.1");
        let page = ("user-agent", "Mozilla/5.0");
        let url = |signature: &str| format!("/?{CREATE}&{signature}");
        let made = |answer: &Answer| answer.first("volumeId").is_some();

        let (answer, ..) = send(&cloud, "GET", &url(""), &[("authorization", SIGNED)], "").await;
        assert!(made(&answer), "{}", answer.body);
        let (answer, ..) = send(&cloud, "GET", &url(VERSION_2), &[own], "").await;
        assert!(made(&answer), "{}", answer.body);
        let (answer, ..) = send(&cloud, "POST", "/", &[own], &format!("{CREATE}&{VERSION_2}")).await;
        assert!(made(&answer), "{}", answer.body);

        for (signature, headers) in [(PRESIGNED, vec![own]), (VERSION_2, vec![page]), (VERSION_2, vec![])] {
            let (answer, ..) = send(&cloud, "GET", &url(signature), &headers, "").await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidRequest"), "{signature}");
        }
        let (answer, ..) = send(&cloud, "GET", &url(""), &[own], "").await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "MissingAuthenticationToken"));
        let (answer, ..) =
            send(&cloud, "GET", &format!("/?Action=DescribeVolumes&Version=2016-11-15&{PRESIGNED}"), &[own], "").await;
        assert_eq!((answer.status, answer.all("volumeArn").len()), (200, 3 + cloud.ec2.instances().len()));
    });
}

#[test]
fn signatures_of_version_2_are_not_verified_so_they_are_refused_where_signatures_count() {
    let mut strict = config(Instant);
    strict.credentials = [("me".to_owned(), substrate::admin::Secret::new("secret"))].into_iter().collect();
    play(1, strict, |cloud| async move {
        let url = format!("/?Action=DescribeVolumes&Version=2016-11-15&{VERSION_2}");
        let (answer, ..) = send(&cloud, "GET", &url, &[("user-agent", "libcloud/3.9.1")], "").await;
        assert_eq!(answer.code(), "IncompleteSignature");
        assert!(answer.message().contains("version 2"), "{}", answer.message());
    });
}
