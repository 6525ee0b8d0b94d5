//! No request causes a panic or a 5xx that blames the server.

use fake_apiserver::wire::protobuf::{encode, envelope};
use http::Request;
use proptest::prelude::*;
use substrate::body::{collect, full};

use super::*;

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("api".to_owned()),
        Just("apis".to_owned()),
        Just("v1".to_owned()),
        Just("namespaces".to_owned()),
        Just("default".to_owned()),
        Just("pods".to_owned()),
        Just("status".to_owned()),
        Just("binding".to_owned()),
        Just("storage.k8s.io".to_owned()),
        Just("storageclasses".to_owned()),
        Just("watch".to_owned()),
        Just("events".to_owned()),
        Just("events.k8s.io".to_owned()),
        Just("finalize".to_owned()),
        Just("admin".to_owned()),
        Just("faults".to_owned()),
        Just("x".to_owned()),
        "[a-z%0-9]{0,6}",
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"{}".to_vec()),
        Just(b"[]".to_vec()),
        "\\PC{0,40}".prop_map(String::into_bytes),
        Just(pod("x").to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|message| envelope("v1", "Pod", &message).to_vec()),
        Just(envelope("v1", "Pod", &encode("v1", "Pod", &pod("x")).unwrap()).to_vec()),
    ]
}

proptest! {
    #[test]
    fn any_request_gets_an_answer(
        method in prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE"), Just("HEAD")],
        segments in proptest::collection::vec(segment(), 0..7),
        query in "([a-zA-Z]{1,14}=[a-zA-Z0-9%.=]{0,8}&?){0,3}",
        watch in any::<bool>(),
        media in prop_oneof![Just("application/json"), Just("application/yaml"), Just("application/merge-patch+json"),
            Just("application/json-patch+json"), Just("application/strategic-merge-patch+json"), Just("text/plain"),
            Just("application/vnd.kubernetes.protobuf"), Just("application/apply-patch+yaml")],
        accept in prop_oneof![Just("application/json"), Just("application/vnd.kubernetes.protobuf")],
        body in body(),
    ) {
        let uri = format!("/{}?{query}{}", segments.join("/"), if watch { "&watch=1&timeoutSeconds=1" } else { "" });
        let request = Request::builder().method(method).uri(&uri).header("content-type", media).header("accept", accept).body(full(body));
        let Ok(request) = request else { return Ok(()) };
        let (code, reported) = in_simulation(|client| async move {
            let response = substrate::body::call(client.service(), request).await.unwrap();
            let code = response.status().as_u16();
            (code, collect(response.into_body(), 1 << 20).await.unwrap())
        });
        let reported = String::from_utf8_lossy(&reported);
        // Upstream answers 500 here, too.
        let meant = reported.contains("parsing");
        prop_assert!(code < 500 || matches!(code, 501 | 504) || meant, "{method} {uri}: {code} {reported}");
    }
}
