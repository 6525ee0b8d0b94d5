//! The requirements of the Kubernetes API that real clients rely on, one test each, over HTTP. Details are tested
//! beside the parts of the server that they concern.

use http::{Request, header};
use substrate::body::{call, collect, empty, full};

use super::*;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn attachment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}})
}

async fn headers(client: &client::Client, uri: &str, accept: &str) -> (u16, http::HeaderMap, Vec<u8>) {
    let request = Request::get(uri).header("accept", accept).header("user-agent", "test").body(empty()).unwrap();
    let response = call(client.service(), request).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, collect(body, 64 << 20).await.unwrap().to_vec())
}

#[test]
fn versions_are_decimal_and_from_one_counter() {
    in_simulation(|client| async move {
        let a = client.post(CONFIGS, config("a")).await.1;
        let b = client.post(CLAIMS, claim("b")).await.1;
        assert_eq!(version(&b), version(&a) + 1);
        // The revision of a list is the store's, not that of its newest item.
        assert_eq!(version(&client.get(CONFIGS).await.1), version(&b));
    });
}

#[test]
fn a_put_is_conditional_by_version_and_by_kind() {
    in_simulation(|client| async move {
        let first = client.post(CONFIGS, config("a")).await.1;
        let uri = format!("{CONFIGS}/a");
        client.merge(&uri, json!({"data": {"x": "1"}})).await;
        let (code, conflict) = client.put(&uri, first).await;
        assert_eq!((code, &conflict["reason"]), (409, &json!("Conflict")));
        assert_eq!(client.put(&uri, config("a")).await.0, 200);
        client.post(ATTACHMENTS, attachment("v")).await;
        let (code, invalid) = client.put(&format!("{ATTACHMENTS}/v"), attachment("v")).await;
        assert!(code == 422 && invalid["message"].as_str().unwrap().contains("must be specified for an update"));
    });
}

#[test]
fn a_write_that_changes_nothing_has_no_revision() {
    in_simulation(|client| async move {
        let made = client.post(CONFIGS, config("a")).await.1;
        let same = client.merge(&format!("{CONFIGS}/a"), json!({"data": {"k": "v"}})).await.1;
        assert_eq!(version(&same), version(&made));
        assert_eq!(version(&client.get(CONFIGS).await.1), version(&made));
    });
}

#[test]
fn patches_are_bounded_and_fail_by_their_own_codes() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let uri = format!("{CONFIGS}/a");
        let patch = |body: Value| client.send(Method::PATCH, &uri, "application/json-patch+json", Some(body));
        assert_eq!(patch(json!([{"op": "test", "path": "/data/k", "value": "other"}])).await.0, 422);
        assert_eq!(patch(json!({"op": "test"})).await.0, 400);
        let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/k", "value": "v"})).collect();
        assert_eq!(patch(many.into()).await.0, 413);
        let (code, _) = client.merge(&uri, json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "w"}})).await;
        assert_eq!(code, 409);
        let big = "x".repeat((3 << 20) + 1);
        assert_eq!(client.post(CONFIGS, json!({"metadata": {"name": "big"}, "data": {"k": big}})).await.0, 413);
    });
}

#[test]
fn system_fields_are_the_servers() {
    in_simulation(|client| async move {
        let mut sent = config("a");
        sent["metadata"]["uid"] = "mine".into();
        sent["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z".into();
        let made = client.post(CONFIGS, sent).await.1;
        assert_ne!(made["metadata"]["uid"], "mine");
        assert_ne!(made["metadata"]["creationTimestamp"], "2000-01-01T00:00:00Z");
        let (code, _) = client.merge(&format!("{CONFIGS}/a"), json!({"metadata": {"uid": "mine"}})).await;
        assert!(code == 409 || code == 422, "{code}");
    });
}

#[test]
fn generation_counts_the_spec_and_the_first_deletion() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        let uri = format!("{PODS}/p");
        let generation = |o: Value| o["metadata"]["generation"].clone();
        client.post(&format!("{uri}/binding"), json!({"target": {"name": "n"}})).await;
        let labelled = client.merge(&uri, json!({"metadata": {"labels": {"a": "b"}}})).await.1;
        assert_eq!(generation(labelled), 1);
        let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
        let changed = client.send(Method::PATCH, &uri, "application/strategic-merge-patch+json", Some(image)).await.1;
        assert_eq!(generation(changed), 2);
        assert_eq!(generation(client.delete(&uri).await.1), 3);
    });
}

#[test]
fn lists_are_of_the_revision_that_is_asked_for() {
    in_simulation(|client| async move {
        let a = version(&client.post(CONFIGS, config("a")).await.1);
        client.post(CONFIGS, config("b")).await;
        let names = |list: Value| list["items"].as_array().unwrap().len();
        assert_eq!(names(client.get(CONFIGS).await.1), 2);
        assert_eq!(names(client.get(&format!("{CONFIGS}?resourceVersion=0")).await.1), 2);
        assert_eq!(names(client.get(&format!("{CONFIGS}?resourceVersion={a}&resourceVersionMatch=Exact")).await.1), 1);
        assert_eq!(names(client.get(&format!("{CONFIGS}?resourceVersion={a}&limit=5")).await.1), 1);
        assert_eq!(
            names(client.get(&format!("{CONFIGS}?resourceVersion={a}&resourceVersionMatch=NotOlderThan")).await.1),
            2
        );
        assert_eq!(client.get(&format!("{CONFIGS}?resourceVersionMatch=Exact")).await.0, 422);
        assert_eq!(client.get(&format!("{CONFIGS}?continue=x&resourceVersion={a}")).await.0, 400);
    });
}

#[test]
fn a_revision_of_the_future_times_out_with_its_cause() {
    in_simulation(|client| async move {
        let (code, status) = client.get(&format!("{CONFIGS}?resourceVersion=1000000")).await;
        assert_eq!((code, &status["details"]["retryAfterSeconds"]), (504, &json!(1)));
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert!(
            status["message"].as_str().unwrap().starts_with("Timeout: Too large resource version: 1000000, current: ")
        );
    });
}

#[test]
fn pages_continue_one_list() {
    in_simulation(|client| async move {
        for name in ["a", "b", "c"] {
            client.post(CONFIGS, config(name)).await;
        }
        let first = client.get(&format!("{CONFIGS}?limit=2")).await.1;
        assert_eq!(first["metadata"]["remainingItemCount"], 1);
        client.post(CONFIGS, config("b2")).await;
        let token = first["metadata"]["continue"].as_str().unwrap();
        let second = client.get(&format!("{CONFIGS}?limit=2&continue={token}")).await.1;
        assert_eq!((version(&second), second["items"].as_array().unwrap().len()), (version(&first), 1));
    });
}

#[test]
fn selectors_choose_and_unknown_fields_are_refused() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        for (query, count) in [
            ("fieldSelector=status.phase!=Succeeded,status.phase!=Failed", 1),
            ("fieldSelector=spec.nodeName!=", 0),
            ("fieldSelector=spec.host=", 1),
            ("labelSelector=!a,b+notin+(c)", 1),
            ("labelSelector=a+in+(b)", 0),
        ] {
            let list = client.get(&format!("{PODS}?{query}")).await.1;
            assert_eq!(list["items"].as_array().unwrap().len(), count, "{query}");
        }
        assert_eq!(client.get(&format!("{PODS}?fieldSelector=spec.nope=1")).await.0, 400);
    });
}

#[test]
fn a_watch_list_begins_with_all_and_a_marked_bookmark() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let mut watch = client.watch(&format!("{CONFIGS}?{query}")).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        let mark = watch.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!(client.get(&format!("{CONFIGS}?watch=1&sendInitialEvents=true")).await.0, 422);
        // Without sendInitialEvents, a watch that starts with all counts as such a list.
        for (version, marked) in [("", true), ("&resourceVersion=0", true), ("&resourceVersion=1", false)] {
            let uri = format!("{CONFIGS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=10{version}");
            let mut watch = client.watch(&uri).await;
            assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
            let mark = watch.next_within(Duration::from_secs(20)).await.unwrap();
            let metadata = &mark["object"]["metadata"];
            assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"] == "true", marked, "{version} {mark}");
        }
    });
}

#[test]
fn a_quiet_kind_resumes_from_its_list() {
    in_simulation(|client| async move {
        let listed = version(&client.get(CONFIGS).await.1);
        for n in 0..200 {
            client.post(CLAIMS, claim(&format!("c{n}"))).await;
        }
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion={listed}")).await;
        client.post(CONFIGS, config("a")).await;
        assert_eq!(watch.events_seen().await, ["ADDED a"]);
    });
}

#[test]
fn errors_come_before_the_stream_or_as_its_last_event() {
    in_simulation(|client| async move {
        assert_eq!(client.get(&format!("{CONFIGS}?watch=1&resourceVersion=x")).await.0, 400);
        for n in 0..2 {
            client.post(CONFIGS, config(&format!("a{n}"))).await;
        }
        client.post("/admin/v1/reset", json!({})).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&resourceVersion=1")).await;
        let error = watch.next().await.unwrap();
        assert_eq!(
            (watch.code, &error["type"], &error["object"]["code"], &error["object"]["reason"]),
            (200, &json!("ERROR"), &json!(410), &json!("Expired"))
        );
        assert_eq!(watch.next().await, None);
    });
}

#[test]
fn what_leaves_a_selector_is_deleted_with_its_last_content() {
    in_simulation(|client| async move {
        let mut made = config("a");
        made["metadata"]["labels"] = json!({"in": "yes"});
        client.post(CONFIGS, made).await;
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&labelSelector=in=yes")).await;
        assert_eq!(watch.events_seen().await, ["ADDED a"]);
        let left = client.merge(&format!("{CONFIGS}/a"), json!({"metadata": {"labels": {"in": "no"}}})).await.1;
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["labels"]["in"]), (&json!("DELETED"), &json!("yes")));
        assert_eq!(version(&event["object"]), version(&left));
    });
}

#[test]
fn bookmarks_are_bare_and_only_on_request() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}?watch=1&timeoutSeconds=10&resourceVersion=1");
        let mut with = client.watch(&format!("{uri}&allowWatchBookmarks=true")).await;
        let mut without = client.watch(&uri).await;
        let mark = with.next_within(Duration::from_secs(20)).await.unwrap();
        assert_eq!((&mark["type"], &mark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
        assert!(mark["object"]["metadata"]["resourceVersion"].is_string() && mark["object"].get("data").is_none());
        assert_eq!(without.next_within(Duration::from_secs(20)).await, None);
    });
}

#[test]
fn a_watch_ends_with_its_time_and_without_a_word() {
    in_simulation(|client| async move {
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&timeoutSeconds=7&timeout=1s")).await;
        let begun = client.ctx.now().mono;
        assert_eq!(watch.next_within(Duration::from_secs(60)).await, None);
        assert_eq!((client.ctx.now().mono - begun).as_secs(), 7);
    });
}

#[test]
fn watches_are_framed_as_their_media_type_says() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let uri = format!("{CONFIGS}?watch=1&timeoutSeconds=1");
        let (_, of, body) = headers(&client, &uri, "application/json").await;
        assert!(of["content-type"] == "application/json" && body.ends_with(b"\n"));
        let (_, of, body) = headers(&client, &uri, "application/vnd.kubernetes.protobuf").await;
        assert_eq!(of["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
        let length = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
        assert_eq!(body.len(), length + 4);
        let mut table = client.watch_as(&uri, TABLE).await;
        assert_eq!(table.next().await.unwrap()["object"]["kind"], "Table");
    });
}

#[test]
fn two_watchers_see_the_same_in_the_same_order() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}?watch=1");
        let (mut a, mut b) = (client.watch(&uri).await, client.watch(&uri).await);
        for n in 0..20 {
            client.post(CONFIGS, config(&format!("a{}", n % 7))).await;
            client.delete(&format!("{CONFIGS}/a{}", (n * 3) % 7)).await;
        }
        let (a, b) = (a.events_seen().await, b.events_seen().await);
        assert!(a == b && a.len() > 20, "{a:?}");
    });
}

#[test]
fn finalizers_hold_and_answers_say_which() {
    in_simulation(|client| async move {
        let mut held = config("a");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        client.post(CONFIGS, held).await;
        let uri = format!("{CONFIGS}/a");
        let (code, still) = client.delete(&uri).await;
        assert_eq!(
            (code, &still["kind"], &still["metadata"]["deletionGracePeriodSeconds"]),
            (200, &json!("ConfigMap"), &json!(0))
        );
        client.merge(&uri, json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(client.get(&uri).await.0, 404);
        client.post(CONFIGS, config("b")).await;
        let (code, gone) = client.delete(&format!("{CONFIGS}/b")).await;
        assert_eq!((code, &gone["status"], &gone["details"]["kind"]), (200, &json!("Success"), &json!("configmaps")));
    });
}

#[test]
fn the_grace_of_a_pod_depends_on_its_node() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        client.delete(&format!("{PODS}/p")).await;
        assert_eq!(client.get(&format!("{PODS}/p")).await.0, 404);
        client.post(PODS, pod("q")).await;
        client.post(&format!("{PODS}/q/binding"), json!({"target": {"name": "n"}})).await;
        let ending = client.delete(&format!("{PODS}/q")).await.1;
        assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
        let uid = ending["metadata"]["uid"].clone();
        client.delete_with(&format!("{PODS}/q"), json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})).await;
        assert_eq!(client.get(&format!("{PODS}/q")).await.0, 404);
    });
}

#[test]
fn propagation_sets_finalizers_and_namespaces_end() {
    in_simulation(|client| async move {
        for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
            client.post(CONFIGS, config("a")).await;
            let uri = format!("{CONFIGS}/a");
            let held = client.delete_with(&uri, json!({"propagationPolicy": policy})).await.1;
            assert_eq!(held["metadata"]["finalizers"], json!([finalizer]));
            client.merge(&uri, json!({"metadata": {"finalizers": null}})).await;
        }
        let namespaces = "/api/v1/namespaces";
        client.post(namespaces, json!({"metadata": {"name": "w"}})).await;
        let mut held = config("held");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        client.post("/api/v1/namespaces/w/configmaps", held).await;
        client.delete("/api/v1/namespaces/w").await;
        let (code, refused) = client.post("/api/v1/namespaces/w/configmaps", config("new")).await;
        assert_eq!((code, &refused["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    });
}

#[test]
fn an_attachments_spec_is_fixed_and_its_status_apart() {
    in_simulation(|client| async move {
        let mut sent = attachment("v");
        sent["status"] = json!({"attached": true});
        assert_eq!(client.post(ATTACHMENTS, sent).await.1["status"]["attached"], false);
        let uri = format!("{ATTACHMENTS}/v");
        assert_eq!(client.merge(&uri, json!({"spec": {"nodeName": "other"}})).await.0, 422);
        assert_eq!(client.merge(&uri, json!({"status": {"attached": true}})).await.1["status"]["attached"], false);
        let status = format!("{uri}/status");
        let reported =
            client.merge(&status, json!({"status": {"attached": true}, "metadata": {"finalizers": ["a/b"]}})).await.1;
        assert_eq!((&reported["status"]["attached"], reported["metadata"].get("finalizers")), (&json!(true), None));
        let long = json!({"status": {"attached": false, "attachError": {"message": "x".repeat(2000)}}});
        assert_eq!(client.merge(&status, long).await.0, 422);
    });
}

#[test]
fn names_are_generated() {
    in_simulation(|client| async move {
        let made = client.post(CONFIGS, json!({"metadata": {"generateName": "a-"}})).await.1;
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.len() == 7 && name.starts_with("a-"), "{name}");
    });
}

#[test]
fn defaults_are_there_for_controllers() {
    in_simulation(|client| async move {
        let class = client.post(CLASSES, json!({"metadata": {"name": "c"}, "provisioner": "p"})).await.1;
        assert_eq!((&class["reclaimPolicy"], &class["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
        let claim = client.post(CLAIMS, claim("c")).await.1;
        assert_eq!(
            (&claim["status"]["phase"], &claim["spec"]["volumeMode"]),
            (&json!("Pending"), &json!("Filesystem"))
        );
        let pod = client.post(PODS, pod("p")).await.1;
        assert_eq!(
            (&pod["spec"]["restartPolicy"], &pod["status"]["qosClass"]),
            (&json!("Always"), &json!("BestEffort"))
        );
    });
}

#[test]
fn admission_adds_what_storage_relies_on() {
    in_simulation(|client| async move {
        let marked = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        client.post(CLASSES, json!({"metadata": {"name": "c", "annotations": marked}, "provisioner": "p"})).await;
        let made = client.post(CLAIMS, claim("c")).await.1;
        assert_eq!(
            (&made["spec"]["storageClassName"], &made["metadata"]["finalizers"]),
            (&json!("c"), &json!(["kubernetes.io/pvc-protection"]))
        );
        let tolerations = client.post(PODS, pod("p")).await.1["spec"]["tolerations"].clone();
        assert_eq!(tolerations[0]["tolerationSeconds"], 300);
        let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
        // The claim is not bound.
        assert_eq!(client.merge(&format!("{CLAIMS}/c"), grow).await.0, 422);
    });
}

#[test]
fn dry_runs_leave_nothing_and_unknown_fields_warn() {
    in_simulation(|client| async move {
        assert_eq!(client.post(&format!("{CONFIGS}?dryRun=All"), config("a")).await.0, 201);
        assert_eq!(client.get(&format!("{CONFIGS}/a")).await.0, 404);
        let mut odd = config("a");
        odd["dataa"] = json!({});
        assert_eq!(client.post(&format!("{CONFIGS}?fieldValidation=Strict"), odd.clone()).await.0, 400);
        let request =
            Request::post(format!("{CONFIGS}?fieldValidation=Warn")).header("content-type", "application/json");
        let response = call(client.service(), request.body(full(odd.to_string())).unwrap()).await.unwrap();
        assert!(response.headers()[header::WARNING].to_str().unwrap().contains("unknown field"));
    });
}

#[test]
fn answers_are_in_the_form_that_is_accepted() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        let kind = async |accept: &str| {
            let (_, _, body) = headers(&client, CONFIGS, accept).await;
            serde_json::from_slice::<Value>(&body).unwrap()["kind"].as_str().unwrap().to_owned()
        };
        assert_eq!(kind(TABLE).await, "Table");
        assert_eq!(
            kind("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await,
            "PartialObjectMetadataList"
        );
        assert_eq!(headers(&client, CONFIGS, "text/html").await.0, 406);
        assert_eq!(client.send(Method::POST, CONFIGS, "application/cbor", Some(config("b"))).await.0, 415);
    });
}

#[test]
fn the_server_lists_its_resources() {
    in_simulation(|client| async move {
        for path in [
            "/healthz",
            "/livez",
            "/readyz",
            "/api",
            "/apis",
            "/openapi/v2",
            "/openapi/v3",
            "/metrics",
            "/metrics/slis",
        ] {
            assert_eq!(headers(&client, path, "*/*").await.0, 200, "{path}");
        }
        assert_eq!(client.get("/version").await.1["minor"], "36");
        let groups = client.get("/apis").await.1["groups"].as_array().unwrap().len();
        assert_eq!(groups, 20);
    });
}

#[test]
fn a_binding_gives_a_node_once() {
    in_simulation(|client| async move {
        client.post(PODS, pod("p")).await;
        let uri = format!("{PODS}/p/binding");
        let (code, reported) =
            client.post(&uri, json!({"target": {"name": "n"}, "metadata": {"annotations": {"a": "b"}}})).await;
        assert_eq!((code, &reported["status"]), (201, &json!("Success")));
        let bound = client.get(&format!("{PODS}/p")).await.1;
        assert_eq!((&bound["spec"]["nodeName"], &bound["metadata"]["annotations"]["a"]), (&json!("n"), &json!("b")));
        assert_eq!(client.post(&uri, json!({"target": {"name": "m"}})).await.0, 409);
        // Binds through the collection of bindings.
        client.post(PODS, pod("q")).await;
        let bindings = "/api/v1/namespaces/default/bindings";
        assert_eq!(client.post(bindings, json!({"metadata": {"name": "q"}, "target": {"name": "n"}})).await.0, 201);
    });
}

#[test]
fn a_kubelet_patches_its_nodes_status_and_reads_its_own() {
    in_simulation(|client| async move {
        client.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let media = "application/strategic-merge-patch+json";
        client.send(Method::PATCH, "/api/v1/nodes/n/status", media, Some(ready)).await;
        let more = json!({"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}});
        let node = client.send(Method::PATCH, "/api/v1/nodes/n/status", media, Some(more)).await.1;
        assert_eq!(node["status"]["conditions"].as_array().unwrap().len(), 2);
        let list = client.get("/api/v1/nodes?fieldSelector=metadata.name=n").await.1;
        assert_eq!(list["items"].as_array().unwrap().len(), 1);
        let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
        assert_eq!(client.post(token, json!({"spec": {"expirationSeconds": 600}})).await.0, 201);
    });
}

#[test]
fn limits_are_faults_that_can_be_added() {
    in_simulation(|client| async move {
        let fault = json!({"name": "busy", "match": {"plane": "k8s", "op": "list"}, "when": {"first": 1}, "effect": {"http": 429}});
        assert_eq!(client.post("/admin/v1/faults", fault).await.0, 201);
        let (code, of, _) = headers(&client, CONFIGS, "*/*").await;
        assert_eq!((code, &of[header::RETRY_AFTER]), (429, &header::HeaderValue::from_static("1")));
        assert_eq!(client.get(CONFIGS).await.0, 200);
    });
}

#[test]
fn apply_owns_fields_and_conflicts() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/a");
        let apply = async |manager: &str, value: &str| {
            let body =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
            client
                .send(
                    Method::PATCH,
                    &format!("{uri}?fieldManager={manager}"),
                    "application/apply-patch+yaml",
                    Some(body),
                )
                .await
        };
        assert_eq!(apply("one", "1").await.0, 201);
        let (code, conflict) = apply("two", "2").await;
        assert_eq!((code, &conflict["details"]["causes"][0]["reason"]), (409, &json!("FieldManagerConflict")));
        let stripped = client.merge(&uri, json!({"metadata": {"managedFields": [{}]}})).await.1;
        assert_eq!(stripped["metadata"].get("managedFields"), None);
    });
}
