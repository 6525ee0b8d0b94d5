//! Text that is not UTF-8, and unpaired surrogates: decoded as Go does.

use http::Request;
use substrate::body::{Body, full};

use super::*;

fn request(method: Method, uri: &str, media: &str, body: &[u8]) -> Request<Body> {
    Request::builder().method(method).uri(uri).header("content-type", media).body(full(body.to_vec())).unwrap()
}

#[test]
fn invalid_utf_8_is_replaced_in_every_body() {
    const STRANGE: &[u8] = b"a\xff\xe2\x82 \\ud800 \\ud83d\\ude00 \\udc00z";
    const READ: &str = "a\u{fffd}\u{fffd}\u{fffd} \u{fffd} \u{1f600} \u{fffd}z";
    in_simulation(|client| async move {
        let around = |before: &str, after: &str| [before.as_bytes(), STRANGE, after.as_bytes()].concat();
        let whole = around(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":""#, r#""}}"#);
        let uri = format!("{CONFIGS}/c");
        let merge = around(r#"{"data":{"k":""#, r#""}}"#);
        let json_patch = around(r#"[{"op":"add","path":"/data/k","value":""#, r#""}]"#);
        for (method, uri, media, body) in [
            (Method::POST, CONFIGS, "application/json", &whole),
            (Method::PUT, &uri, "application/json", &whole),
            (Method::PATCH, &uri, "application/merge-patch+json", &merge),
            (Method::PATCH, &uri, "application/strategic-merge-patch+json", &merge),
            (Method::PATCH, &uri, "application/json-patch+json", &json_patch),
        ] {
            let (code, answer) = client.request(request(method.clone(), uri, media, body)).await;
            assert_eq!((code / 100, &answer["data"]["k"]), (2, &json!(READ)), "{method} {media}: {answer}");
            assert_eq!(client.get(&format!("{CONFIGS}/c")).await.1["data"]["k"], READ);
            client.merge(&format!("{CONFIGS}/c"), json!({"data": {"k": "other"}})).await;
        }
        // Names of members, and strict validation.
        let strict = format!("{CONFIGS}?fieldValidation=Strict");
        let twice = br#"{"metadata":{"name":"d"},"da\ud800ta":{},"data":{}}"#;
        let (code, refused) = client.request(request(Method::POST, &strict, "application/json", twice)).await;
        let message = refused["message"].as_str().unwrap();
        assert!(code == 400 && message.ends_with("unknown field \"da\u{fffd}ta\""), "{message}");
        // A text that is invalid JSON for another reason is refused.
        let (code, _) = client.request(request(Method::POST, CONFIGS, "application/json", b"{\"a\":\"\xff\"")).await;
        assert_eq!(code, 400);
    });
}

#[test]
fn a_query_is_read_as_go_reads_it() {
    in_simulation(|client| async move {
        let (code, refused) = client.get(&format!("{CONFIGS}?limit=%ff%e2%82")).await;
        let why = "strconv.ParseInt: parsing \"\u{fffd}\u{fffd}\u{fffd}\": invalid syntax";
        assert_eq!((code, &refused["message"]), (400, &json!(why)));
    });
}
