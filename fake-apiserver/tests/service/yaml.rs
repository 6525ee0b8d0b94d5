//! YAML answers, with the same content as in JSON.

use http::Request;
use substrate::body::{call, collect, empty, full};

use super::*;

/// Returns the answer to a request that accepts `accept`: code, media type, text.
async fn answer(
    client: &client::Client,
    method: &str,
    uri: &str,
    accept: &str,
    body: Option<Value>,
) -> (u16, String, String) {
    let request = Request::builder().method(method).uri(uri).header("accept", accept);
    let body = body.map_or_else(empty, |body| full(body.to_string()));
    let response = call(client.service(), request.body(body).unwrap()).await.unwrap();
    let (code, media) = (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap().to_owned());
    let bytes = collect(response.into_body(), 64 << 20).await.unwrap();
    (code, media, String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn yaml_answers_equal_json_answers() {
    in_simulation(|client| async move {
        let definition = json!({"metadata": {"name": "as.x.y"}, "spec": {"group": "x.y", "scope": "Namespaced",
            "names": {"plural": "as", "kind": "A"}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.post(definitions, definition).await.0, 201);
        let custom = "/apis/x.y/v1/namespaces/default/as";
        let (code, media, text) = answer(
            &client,
            "POST",
            custom,
            "application/yaml",
            Some(json!({"metadata": {"name": "a"}, "kind": "A",
                "apiVersion": "x.y/v1", "text": "a\nb\n"})),
        )
        .await;
        assert_eq!((code, media.as_str()), (201, "application/yaml"));
        assert!(
            text.starts_with("apiVersion: x.y/v1\nkind: A\nmetadata:\n  creationTimestamp: \"")
                && text.ends_with("text: |\n  a\n  b\n"),
            "{text}"
        );
        client.post(CONFIGS, config("c")).await;
        for (method, uri, wanted) in [
            ("GET", format!("{CONFIGS}/c"), 200),
            ("GET", CONFIGS.to_owned(), 200),
            ("GET", format!("{custom}/a"), 200),
            ("GET", custom.to_owned(), 200),
            ("GET", format!("{CONFIGS}/none"), 404),
            ("GET", format!("{CONFIGS}?limit=x"), 400),
            ("POST", "/api/v1/pods".to_owned(), 405),
            ("GET", "/api/v1/nothing".to_owned(), 404),
            ("GET", "/api".to_owned(), 200),
            ("GET", "/apis".to_owned(), 200),
            ("GET", "/apis/apps".to_owned(), 200),
            ("GET", "/apis/apps/v1".to_owned(), 200),
            ("GET", "/api/v1/componentstatuses".to_owned(), 200),
        ] {
            let (code, media, text) = answer(&client, method, &uri, "application/yaml, application/json", None).await;
            assert_eq!((code, media.as_str()), (wanted, "application/yaml"), "{method} {uri}");
            let (_, media, json) = answer(&client, method, &uri, "application/json, application/yaml", None).await;
            assert_eq!(media, "application/json");
            let read: Value = substrate::yaml::from_str(&text).unwrap();
            assert_eq!(read, serde_json::from_str::<Value>(&json).unwrap(), "{method} {uri}");
        }
        // A Table can be YAML, too.
        let (_, _, text) = answer(&client, "GET", CONFIGS, "application/yaml;as=Table;g=meta.k8s.io;v=v1", None).await;
        assert!(text.contains("kind: Table\n"), "{text}");
    });
}

#[test]
fn there_is_no_watch_in_yaml() {
    in_simulation(|client| async move {
        for accept in ["application/yaml", "application/yaml, application/json"] {
            let (code, media, text) = answer(&client, "GET", &format!("{CONFIGS}?watch=1"), accept, None).await;
            let why = "only the following media types are accepted: application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
            let status: Value = substrate::yaml::from_str(&text).unwrap();
            assert_eq!((code, media.as_str(), &status["message"]), (406, "application/yaml", &json!(why)));
        }
        let (code, _, text) = answer(&client, "GET", CONFIGS, "text/csv", None).await;
        let why = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
        assert_eq!((code, text.contains(why)), (406, true), "{text}");
    });
}
