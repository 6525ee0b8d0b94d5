//! The bytes of answers equal Go's.

use http::Request;
use substrate::body::{call, collect, empty, full};

use super::client::Client;
use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the text of the answer to a GET with these headers.
async fn text(client: &Client, uri: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::get(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = call(client.service(), request.body(empty()).unwrap()).await.unwrap();
    let length = http_body::Body::size_hint(response.body()).exact();
    let bytes = collect(response.into_body(), 64 << 20).await.unwrap();
    assert_eq!(length, Some(bytes.len() as u64), "{uri}");
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn plain(client: &Client, uri: &str) -> String {
    text(client, uri, &[]).await
}

/// Returns the text between two others.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).unwrap_or_else(|| panic!("{text}")).0
}

#[test]
fn objects_are_written_in_the_order_of_their_structs_and_end_with_a_newline() {
    in_simulation(|client| async move {
        let map = json!({"metadata": {"name": "a", "labels": {"b": "1", "a": "2"}}, "data": {"k": "<&>\u{2028}"}, "immutable": true});
        assert_eq!(client.post(CONFIGS, map).await.0, 201);
        let object = plain(&client, &format!("{CONFIGS}/a")).await;
        assert!(object.starts_with("{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\""), "{object}");
        assert!(object.contains("\"labels\":{\"a\":\"2\",\"b\":\"1\"}}"), "{object}");
        assert!(
            object.ends_with("},\"immutable\":true,\"data\":{\"k\":\"\\u003c\\u0026\\u003e\\u2028\"}}\n"),
            "{object}"
        );
        let refusal = plain(&client, &format!("{CONFIGS}/b")).await;
        assert_eq!(
            refusal,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"configmaps \\\"b\\\" not found\",\
             \"reason\":\"NotFound\",\"details\":{\"name\":\"b\",\"kind\":\"configmaps\"},\"code\":404}\n"
        );
    });
}

#[test]
fn items_of_a_typed_list_are_the_bytes_of_objects_without_their_types() {
    in_simulation(|client| async move {
        for name in ["a", "b"] {
            client.post(CONFIGS, config(name)).await;
        }
        let list = plain(&client, &format!("{CONFIGS}?labelSelector=!x")).await;
        let revision = between(&list, "\"metadata\":{\"resourceVersion\":\"", "\"},\"items\":[");
        let mut items = String::new();
        for name in ["a", "b"] {
            let object = plain(&client, &format!("{CONFIGS}/{name}")).await;
            items += object.trim_end().strip_prefix("{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",").unwrap();
            items += if name == "a" { ",{" } else { "]}\n" };
        }
        assert_eq!(
            list,
            format!(
                "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{revision}\"}},\"items\":[{{{items}"
            )
        );
        let page = plain(&client, &format!("{CONFIGS}?limit=1")).await;
        assert!(
            between(&page, "\"metadata\":{\"resourceVersion\":\"", "\",\"remainingItemCount\":1},\"items\":[")
                .contains("\",\"continue\":\"")
        );
        let none = plain(&client, &format!("{PODS}?labelSelector=x")).await;
        assert!(none.ends_with("\"items\":[]}\n"), "{none}");
        // A view is converted for each answer, and has the same form.
        let event = json!({"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"kind": "Pod", "namespace": "default"}});
        assert_eq!(client.post("/api/v1/namespaces/default/events", event).await.0, 201);
        let events = plain(&client, "/apis/events.k8s.io/v1/events").await;
        assert!(events.contains("\"items\":[{\"metadata\":{\"name\":\"e\""), "{events}");
        // Partial metadata always have apiVersion and kind.
        let accept = ("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
        let partial = text(&client, CONFIGS, &[accept]).await;
        assert!(partial.contains("\"items\":[{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":\"a\""), "{partial}");
    });
}

#[test]
fn tables_and_discovery_have_the_order_of_their_structs() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let table = text(&client, CONFIGS, &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]).await;
        assert!(
            table.starts_with(
                "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":"
            ),
            "{table}"
        );
        assert!(
            table.contains(
                "\"columnDefinitions\":[{\"name\":\"Name\",\"type\":\"string\",\"format\":\"name\",\"description\":"
            ),
            "{table}"
        );
        assert!(table.contains("\"rows\":[{\"cells\":[\"a\",1,"), "{table}");
        assert!(table.contains("],\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"name\":\"a\",\"namespace\""), "{table}");
        let resources = plain(&client, "/api/v1").await;
        assert!(resources.starts_with("{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\"") || resources.starts_with("{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"v1\",\"resources\":[{\"name\":\"bindings\",\"singularName\":\"binding\",\"namespaced\":true,\"kind\":\"Binding\",\"verbs\":[\"create\"]}"), "{resources}");
        let groups = plain(&client, "/apis/apps").await;
        assert_eq!(
            groups,
            "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}],\"preferredVersion\":{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}}\n"
        );
        let aggregated = text(
            &client,
            "/api",
            &[("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")],
        )
        .await;
        assert!(aggregated.starts_with("{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"bindings\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Binding\"},\"scope\":\"Namespaced\",\"singularResource\":\"binding\",\"verbs\":[\"create\"]}"), "{aggregated}");
    });
}

#[test]
fn custom_objects_and_their_lists_are_sorted_and_say_all() {
    in_simulation(|client| async move {
        let definition = json!({"metadata": {"name": "cars.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "cars", "singular": "car", "kind": "Car", "listKind": "CarList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        assert_eq!(client.post(CRDS, definition).await.0, 201);
        let cars = "/apis/example.com/v1/namespaces/default/cars";
        let car = json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "a"}, "spec": {"b": 1.0, "a": 1e21}});
        let (code, answer) = client.post(cars, car).await;
        assert_eq!(code, 201, "{answer}");
        let object = plain(&client, &format!("{cars}/a")).await;
        assert!(
            object.starts_with(
                "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Car\",\"metadata\":{\"creationTimestamp\":"
            ),
            "{object}"
        );
        assert!(object.ends_with("\"},\"spec\":{\"a\":1e+21,\"b\":1}}\n"), "{object}");
        let list = plain(&client, cars).await;
        let revision = between(&list, "\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"", "\"}}\n");
        assert_eq!(
            list,
            format!(
                "{{\"apiVersion\":\"example.com/v1\",\"items\":[{}],\"kind\":\"CarList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{revision}\"}}}}\n",
                object.trim_end()
            )
        );
    });
}

#[test]
fn pretty_json_is_sent_on_request() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let uri = format!("{CONFIGS}/a");
        let compact = plain(&client, &uri).await;
        let start = "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"a\",";
        for (query, header, wanted) in [
            ("", ("user-agent", "curl/8.5.0"), true),
            ("", ("user-agent", "Wget/1.21"), true),
            ("", ("user-agent", "Mozilla/5.0 (X11)"), true),
            ("", ("user-agent", "kubectl/v1.36.0"), false),
            ("", ("accept", "application/json;pretty=1"), true),
            ("?pretty=true", ("user-agent", "x"), true),
            ("?pretty=1", ("user-agent", "x"), true),
            ("?pretty=yes", ("user-agent", "curl/8.5.0"), false),
            ("?pretty=false", ("user-agent", "curl/8.5.0"), false),
            ("?pretty=", ("user-agent", "curl/8.5.0"), true),
        ] {
            let answer = text(&client, &format!("{uri}{query}"), &[header]).await;
            assert_eq!(answer != compact, wanted, "{query} {header:?}");
            assert!(
                !wanted || (answer.starts_with(start) && answer.ends_with("  \"data\": {\n    \"k\": \"v\"\n  }\n}")),
                "{answer}"
            );
        }
        let people = [("user-agent", "curl/8.5.0")];
        for uri in ["/api", "/apis", "/api/v1", CONFIGS, "/api/v1/nodes/none", "/api/v1/none", "/version"] {
            assert!(text(&client, uri, &people).await.starts_with("{\n  \""), "{uri}");
        }
        // As upstream, these are indented for every client.
        assert_eq!(plain(&client, "/version").await, text(&client, "/version", &people).await);
        assert!(plain(&client, "/version").await.starts_with("{\n  \"major\": \"1\",\n  \"minor\": "));
        assert!(plain(&client, "/").await.starts_with("{\n  \"paths\": [\n    \"/api\","));
        // A stream has one line per event.
        let request =
            Request::get(format!("{CONFIGS}?watch=1&resourceVersion=0&pretty=true")).header("user-agent", "curl/8.5.0");
        let response = call(client.service(), request.body(empty()).unwrap()).await.unwrap();
        let mut lines = super::client::Lines::of(response);
        assert_eq!(
            lines.events_seen().await,
            ["ADDED kube-root-ca.crt", "ADDED a"]
                .into_iter()
                .filter(|reported| reported.ends_with(" a"))
                .collect::<Vec<_>>()
        );
    });
}

#[test]
fn watch_events_hold_the_bytes_of_objects() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let object = plain(&client, &format!("{CONFIGS}/a")).await;
        let request =
            Request::get(format!("{CONFIGS}?watch=1&resourceVersion=0&timeoutSeconds=1")).body(empty()).unwrap();
        let response = call(client.service(), request).await.unwrap();
        let bytes = collect(response.into_body(), 1 << 20).await.unwrap();
        assert_eq!(bytes, format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object.trim_end()));
    });
}

/// Checks the fields that decoding into Go structs and encoding omits, and those that it does not.
#[test]
fn empty_fields_with_omitempty_are_left_out() {
    let config = fake_apiserver::Config { track_managers: true, ..Default::default() };
    in_simulation_with(config, |client| async move {
        let map = json!({"metadata": {"name": "a", "labels": {}, "finalizers": []}, "data": {}, "binaryData": {}, "immutable": false});
        let (_, made) = client.post(CONFIGS, map).await;
        assert_eq!(
            (made.get("data"), made.get("binaryData"), &made["immutable"]),
            (None, None, &json!(false)),
            "{made}"
        );
        assert_eq!((made["metadata"].get("labels"), made["metadata"].get("finalizers")), (None, None));
        let pod = json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": false, "nodeSelector": {}, "tolerations": [], "volumes": [{"name": "e", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "args": [], "env": [], "tty": false, "securityContext": {}}]}});
        let (_, made) = client.post(PODS, pod).await;
        let (spec, container) = (made["spec"].as_object().unwrap(), made["spec"]["containers"][0].as_object().unwrap());
        for name in ["hostNetwork", "nodeSelector"] {
            assert!(!spec.contains_key(name), "{name}: {made}");
        }
        for name in ["args", "env", "tty"] {
            assert!(!container.contains_key(name), "{name}: {made}");
        }
        assert_eq!(
            (&spec["volumes"][0]["emptyDir"], &container["securityContext"], &container["resources"]),
            (&json!({}), &json!({}), &json!({}))
        );
        // A field without `omitempty` is written, and protobuf does not distinguish an empty list from an unset one.
        let role = json!({"metadata": {"name": "r"}, "rules": []});
        let (_, made) = client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
        assert_eq!(made.get("rules"), Some(&Value::Null), "{made}");
        // A manager that applies an empty field owns it, although the field is not shown.
        let uri = format!("{CONFIGS}/b?fieldManager=m");
        let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {}});
        let request = Request::patch(&uri)
            .header("content-type", "application/apply-patch+yaml")
            .body(full(applied.to_string()))
            .unwrap();
        let (_, made) = client.request(request).await;
        assert_eq!(
            (made.get("data"), &made["metadata"]["managedFields"][0]["fieldsV1"]),
            (None, &json!({"f:data": {}})),
            "{made}"
        );
        // A field that a patch empties is omitted, too.
        let (_, patched) = client.merge(&format!("{CONFIGS}/b"), json!({"data": {"k": "v"}})).await;
        assert_eq!(patched["data"], json!({"k": "v"}));
        let (_, patched) = client.merge(&format!("{CONFIGS}/b"), json!({"data": {"k": null}})).await;
        assert_eq!(patched.get("data"), None, "{patched}");
    });
}
