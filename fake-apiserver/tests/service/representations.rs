use http::Request;
use substrate::body::{empty, full};

use super::*;

async fn get_as(client: &client::Client, uri: &str, accept: &str) -> (u16, Value) {
    client.request(Request::get(uri).header("accept", accept).body(empty()).unwrap()).await
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[test]
fn lists_and_objects_come_as_tables() {
    in_simulation(|client| async move {
        client.post(CLAIMS, claim("data")).await;
        for uri in [CLAIMS.to_owned(), format!("{CLAIMS}/data")] {
            let (code, table) = get_as(&client, &uri, TABLE).await;
            assert_eq!((code, &table["kind"]), (200, &json!("Table")));
            assert_eq!(table["rows"][0]["cells"][0], "data");
        }
        let (code, status) = get_as(&client, &format!("{CLAIMS}/none"), TABLE).await;
        assert_eq!((code, &status["kind"]), (404, &json!("Status")));
    });
}

#[test]
fn lists_and_watches_come_as_metadata_only() {
    in_simulation(|client| async move {
        client.post(CLAIMS, claim("data")).await;
        let (_, list) = get_as(&client, CLAIMS, PARTIAL).await;
        assert_eq!(
            (&list["kind"], &list["items"][0]["kind"]),
            (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
        );
        assert!(list["items"][0].get("spec").is_none());
        let mut watch = client
            .watch_as(&format!("{CLAIMS}?watch=1"), "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
            .await;
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("PartialObjectMetadata")));
    });
}

#[test]
fn an_unknown_media_type_is_406() {
    in_simulation(|client| async move {
        let (code, status) = get_as(&client, CLAIMS, "application/cbor").await;
        assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")));
        assert_eq!(get_as(&client, CLAIMS, "application/cbor,application/json").await.0, 200);
    });
}

#[test]
fn bodies_may_be_yaml() {
    in_simulation(|client| async move {
        let yaml =
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: gp3\nprovisioner: ebs.csi.aws.com\n";
        let request = |text: &'static str| {
            Request::post("/apis/storage.k8s.io/v1/storageclasses")
                .header("content-type", "application/yaml")
                .body(full(text))
                .unwrap()
        };
        assert_eq!(client.request(request(yaml)).await.0, 201);
        assert_eq!(client.request(request("a: [")).await.0, 400);
        let large = Request::post(CONFIGS).body(full(vec![b' '; (3 << 20) + 1])).unwrap();
        let (code, status) = client.request(large).await;
        assert_eq!(code, 413, "{status}");
    });
}

#[test]
fn unknown_fields_are_warned_of_refused_or_ignored() {
    in_simulation(|client| async move {
        let mut object = config("a");
        object["foo"] = json!(1);
        let send = |validation: &str| {
            Request::post(format!("{CONFIGS}?dryRun=All&fieldValidation={validation}"))
                .body(full(object.to_string()))
                .unwrap()
        };
        let response = substrate::body::call(client.service(), send("Warn")).await.unwrap();
        assert_eq!(response.status().as_u16(), 201);
        assert_eq!(response.headers()["warning"], "299 - \"unknown field \\\"foo\\\"\"");
        let response = substrate::body::call(client.service(), send("Ignore")).await.unwrap();
        assert!(response.headers().get("warning").is_none());
        assert_eq!(client.request(send("Strict")).await.0, 400);
        assert_eq!(client.request(send("Other")).await.0, 422);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
    });
}

#[test]
fn events_are_one_store_with_two_views() {
    in_simulation(|client| async move {
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "note": "n",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "type": "Normal",
            "reportingController": "c", "reportingInstance": "i", "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z"});
        let new = "/apis/events.k8s.io/v1/namespaces/default/events";
        let old = "/api/v1/namespaces/default/events";
        let mut watch = client.watch(&format!("{new}?watch=1")).await;
        let (code, created) = client.post(new, event).await;
        assert_eq!((code, &created["note"]), (201, &json!("n")));
        let (_, core) = client.get(&format!("{old}/e")).await;
        assert_eq!((&core["message"], &core["apiVersion"]), (&json!("n"), &json!("v1")));
        assert_eq!(core["involvedObject"]["name"], "p");
        let (_, list) = client.get(&format!("{old}?fieldSelector=involvedObject.name%3Dp")).await;
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let (_, list) = client.get(&format!("{new}?fieldSelector=regarding.name%3Dp")).await;
        assert_eq!(list["items"][0]["note"], "n");
        let (code, patched) = client.merge(&format!("{new}/e"), json!({"note": "m"})).await;
        assert_eq!((code, &patched["note"]), (200, &json!("m")));
        assert_eq!(client.get(&format!("{old}/e")).await.1["message"], "m");
        assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "events.k8s.io/v1");
    });
}

#[test]
fn health_version_and_discovery_answer() {
    in_simulation(|client| async move {
        for probe in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
            assert_eq!(client.get(probe).await, (200, json!("ok")), "{probe}");
        }
        let (code, verbose) = client.get("/readyz?verbose&exclude=etcd&exclude=nothing").await;
        let lines: Vec<&str> = verbose.as_str().unwrap().lines().collect();
        assert_eq!((code, lines[0], lines[2]), (200, "[+]ping ok", "[+]etcd excluded: ok"));
        assert!(lines.contains(&"[+]informer-sync ok") && lines.contains(&"readyz check passed"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("warn:") && line.contains("\"nothing\"")), "{lines:?}");
        assert_eq!(client.get("/livez/informer-sync").await.0, 404);
        let (_, index) = client.get("/").await;
        assert!(index["paths"].as_array().unwrap().contains(&json!("/apis/storage.k8s.io/v1")), "{index}");
        let version = client.get("/version").await.1;
        let numbers = ["major", "minor", "emulationMajor", "emulationMinor"].map(|field| version[field].clone());
        assert_eq!(numbers, ["1", "36", "1", "36"].map(Value::from));
        assert_eq!((&version["minCompatibilityMajor"], &version["minCompatibilityMinor"]), (&json!("1"), &json!("35")));
        for probe in ["healthz", "livez", "readyz"] {
            let (_, verbose) = client.get(&format!("/{probe}?verbose")).await;
            let at = |check: &str| verbose.as_str().unwrap().lines().position(|line| line == format!("[+]{check} ok"));
            let hook = |name: &str| at(&format!("poststarthook/{name}"));
            let before = hook("start-kube-apiserver-identity-lease-garbage-collector").unwrap();
            assert_eq!(hook("storage-readiness"), Some(before + 1), "{verbose}");
            assert_eq!(client.get(&format!("/{probe}/poststarthook/storage-readiness")).await, (200, json!("ok")));
        }
        assert_eq!(client.get("/api/v1").await.1["kind"], "APIResourceList");
        assert_eq!(client.get("/nothing").await.0, 404);
        // Only an unknown resource of a served version is answered with a Status.
        for (method, uri) in [
            (Method::GET, "/apis/nothing"),
            (Method::GET, "/apis/nothing/v1"),
            (Method::GET, "/apis/nothing/v1/things"),
            (Method::POST, "/apis/nothing/v1/namespaces/default/things"),
            (Method::DELETE, "/apis/nothing/v1/things/x"),
            (Method::GET, "/apis/apps/v9"),
            (Method::GET, "/apis/apps/v9/deployments"),
            (Method::PATCH, "/apis/apps/v9/namespaces/default/deployments/x"),
            (Method::GET, "/api/v2/pods"),
            (Method::PUT, "/nothing"),
        ] {
            let answer = client.send(method.clone(), uri, "application/json", Some(json!({}))).await;
            assert_eq!(answer, (404, json!("404 page not found\n")), "{method} {uri}");
        }
        for uri in ["/apis/apps/v1/things", "/api/v1/things", "/api/v1/namespaces/default/things/x"] {
            let (code, status) = client.get(uri).await;
            assert_eq!((code, &status["reason"], &status["details"]), (404, &json!("NotFound"), &json!({})), "{uri}");
        }
        let (code, status) = client.get("/api/v1/componentstatuses?watch=true").await;
        let why = "watch is not supported on resources of kind \"componentstatuses\"";
        assert_eq!((code, &status["message"], &status["reason"]), (405, &json!(why), &json!("MethodNotAllowed")));
        assert_eq!(client.get("/api/v1/componentstatuses?watch=false").await.1["kind"], "ComponentStatusList");
        assert_eq!(client.post("/version", json!({})).await.0, 405);
        assert_eq!(client.get(&format!("{PODS}/p/log")).await.0, 501);
    });
}

#[test]
fn a_scale_has_a_table_of_its_own() {
    in_simulation(|client| async move {
        let uri = "/apis/apps/v1/namespaces/default/deployments";
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": pod});
        assert_eq!(client.post(uri, json!({"metadata": {"name": "web"}, "spec": spec})).await.0, 201);
        let (code, table) = get_as(&client, &format!("{uri}/web/scale"), TABLE).await;
        assert_eq!((code, &table["kind"]), (200, &json!("Table")));
        let columns = table["columnDefinitions"].as_array().unwrap();
        let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
        assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!((&cells[0], &cells[1], &cells[2], cells.len()), (&json!("web"), &json!(2), &json!(0), 4));
    });
}
