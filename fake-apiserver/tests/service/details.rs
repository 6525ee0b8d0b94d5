//! Details of answers and parameters that clients and suites depend on, as on a real server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const NODES: &str = "/api/v1/nodes";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[test]
fn a_delete_of_services_and_device_kinds_answers_the_object() {
    in_simulation(|client| async move {
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        let class = json!({"metadata": {"name": "s"}, "spec": {}});
        let claim = json!({"metadata": {"name": "s"}, "spec": {}});
        let template = json!({"metadata": {"name": "s"}, "spec": {"spec": {}}});
        for (uri, kind, object) in [
            (SERVICES, "Service", service),
            ("/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", class),
            ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "ResourceClaim", claim),
            ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", "ResourceClaimTemplate", template),
        ] {
            let (code, made) = client.post(uri, object).await;
            assert_eq!(code, 201, "{made}");
            let (code, answer) = client.delete(&format!("{uri}/s")).await;
            assert_eq!((code, &answer["kind"]), (200, &json!(kind)), "{answer}");
            assert_eq!(answer["metadata"]["uid"], made["metadata"]["uid"]);
            assert_eq!(client.get(&format!("{uri}/s")).await.0, 404);
        }
        // Other kinds answer with a Status.
        client.post(CONFIGS, config("s")).await;
        let (_, answer) = client.delete(&format!("{CONFIGS}/s")).await;
        assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Success")));
    });
}

#[test]
fn resource_version_zero_writes_over_whatever_is_there() {
    in_simulation(|client| async move {
        let uri = format!("{CONFIGS}/c");
        // On POST, "0" counts as unset.
        let mut object = config("c");
        object["metadata"]["resourceVersion"] = "0".into();
        let (code, made) = client.post(CONFIGS, object.clone()).await;
        assert_eq!(code, 201, "{made}");
        object["data"] = json!({"k": "put"});
        let (code, put) = client.put(&uri, object).await;
        assert_eq!((code, &put["data"]["k"]), (200, &json!("put")), "{put}");
        assert_ne!(put["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
        let patch = json!({"metadata": {"resourceVersion": "0"}, "data": {"k": "patched"}});
        let (code, patched) = client.merge(&uri, patch).await;
        assert_eq!((code, &patched["data"]["k"]), (200, &json!("patched")), "{patched}");
        let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "stale"}});
        assert_eq!(client.merge(&uri, stale).await.0, 409);
        assert_eq!(client.get(&uri).await.1, patched);
    });
}

#[test]
fn a_kind_that_needs_a_resource_version_takes_zero_for_none() {
    in_simulation(|client| async move {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let uri = format!("{leases}/l");
        let (_, made) = client.post(leases, json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})).await;
        let zero = json!({"metadata": {"name": "l", "resourceVersion": "0"}, "spec": {"holderIdentity": "b"}});
        for (code, status) in [client.put(&uri, zero.clone()).await, client.merge(&uri, zero).await] {
            assert_eq!(code, 422, "{status}");
            let message = status["message"].as_str().unwrap();
            assert!(
                message.ends_with("metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
                "{message}"
            );
        }
        assert_eq!(client.get(&uri).await.1, made);
    });
}

#[test]
fn discovery_reports_the_storage_version_of_each_kind() {
    in_simulation(|client| async move {
        let hash = async |list: &str, name: &str| {
            let (_, list) = client.get(list).await;
            let found = list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
            found.get("storageVersionHash").cloned()
        };
        // Values of a real server.
        for (list, name, reported) in [
            ("/api/v1", "pods", "xPOwRZ+Yhw8="),
            ("/api/v1", "persistentvolumes", "HN/zwEC+JgM="),
            ("/apis/apps/v1", "deployments", "8aSe+NMegvE="),
            ("/apis/storage.k8s.io/v1", "volumeattachments", "tJx/ezt6UDU="),
            ("/apis/coordination.k8s.io/v1", "leases", "gqkMMb/YqFM="),
            // Both groups are stored in one version.
            ("/api/v1", "events", "r2yiGXH7wu8="),
            ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
            ("/apis/autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294="),
            ("/apis/autoscaling/v2", "horizontalpodautoscalers", "qwQve8ut294="),
        ] {
            assert_eq!(hash(list, name).await, Some(json!(reported)), "{list} {name}");
        }
        for (list, name) in [
            ("/api/v1", "pods/status"),
            ("/api/v1", "bindings"),
            ("/api/v1", "componentstatuses"),
            ("/apis/authorization.k8s.io/v1", "subjectaccessreviews"),
        ] {
            assert_eq!(hash(list, name).await, None, "{list} {name}");
        }
    });
}

#[test]
fn a_watch_of_tables_sends_the_columns_once() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("a")).await;
        client.post(CONFIGS, config("b")).await;
        let uri = format!("{CONFIGS}?watch=1&allowWatchBookmarks=1&resourceVersion=1");
        let mut watch = client.watch_as(&uri, TABLE).await;
        let first = watch.next().await.unwrap();
        assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
        client.post(CONFIGS, config("c")).await;
        for (reported, name) in [("ADDED", "b"), ("ADDED", "c")] {
            let event = watch.next().await.unwrap();
            assert_eq!((&event["type"], &event["object"]["rows"][0]["cells"][0]), (&json!(reported), &json!(name)));
            assert_eq!(event["object"].get("columnDefinitions"), Some(&Value::Null), "{event}");
        }
        let bookmark = watch.next_within(Duration::from_secs(61)).await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(bookmark["object"].get("columnDefinitions"), Some(&Value::Null));
        // If a bookmark is the first event, it has the columns.
        let options = "watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan";
        let mut empty = client.watch_as(&format!("{SERVICES}?{options}&labelSelector=no"), TABLE).await;
        let bookmark = empty.next().await.unwrap();
        assert_eq!(bookmark["object"]["columnDefinitions"][0]["name"], "Name", "{bookmark}");
    });
}

#[test]
fn a_timeout_that_is_no_duration_is_refused() {
    in_simulation(|client| async move {
        client.post(CONFIGS, config("c")).await;
        let refused = "invalid timeout specified in the request URL - time: ";
        for (text, why) in [
            ("invalid", "invalid duration \"invalid\""),
            ("30", "missing unit in duration \"30\""),
            ("1y", "unknown unit \"y\" in duration \"1y\""),
        ] {
            for path in [CONFIGS.to_owned(), format!("{CONFIGS}/c"), "/version".to_owned(), "/apis".to_owned()] {
                let (code, status) = client.get(&format!("{path}?timeout={text}")).await;
                assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{path} {status}");
                assert_eq!(status["message"], format!("{refused}{why}"));
            }
        }
        assert_eq!(client.delete(&format!("{CONFIGS}/c?timeout=x")).await.0, 400);
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?timeout=x";
        assert_eq!(client.post(review, json!({"spec": {"nonResourceAttributes": {}}})).await.0, 400);
        for fine in ["", "0", "1m30s", "-1s"] {
            assert_eq!(client.get(&format!("{CONFIGS}/c?timeout={fine}")).await.0, 200, "{fine}");
        }
        // A watch ignores this parameter.
        let mut watch = client.watch(&format!("{CONFIGS}?watch=1&timeout=invalid")).await;
        assert_eq!((watch.code, watch.events_seen().await), (200, vec!["ADDED c".to_owned()]));
    });
}

#[test]
fn numbers_and_flags_of_a_query_are_read_as_upstream_reads_them() {
    in_simulation(|client| async move {
        for name in ["a", "b"] {
            client.post(CONFIGS, config(name)).await;
        }
        let count = async |query: &str| {
            let (code, list) = client.get(&format!("{CONFIGS}?{query}")).await;
            assert_eq!(code, 200, "{list}");
            assert_eq!(list["metadata"].get("continue").is_some(), list["items"].as_array().unwrap().len() == 1);
            list["items"].as_array().unwrap().len()
        };
        // A negative limit means no limit.
        assert_eq!([count("limit=1").await, count("limit=-1").await, count("timeoutSeconds=-1").await], [1, 2, 2]);
        let why = |text: &str, why: &str| format!("strconv.ParseInt: parsing \"{text}\": {why}");
        for (query, message) in [
            ("timeoutSeconds=x", why("x", "invalid syntax")),
            ("watch=1&timeoutSeconds=x", why("x", "invalid syntax")),
            ("limit=x", why("x", "invalid syntax")),
            ("watch=1&limit=1.5", why("1.5", "invalid syntax")),
            ("limit=", why("", "invalid syntax")),
            ("limit=9223372036854775808", why("9223372036854775808", "value out of range")),
        ] {
            let (code, status) = client.get(&format!("{CONFIGS}?{query}")).await;
            assert_eq!((code, &status["message"]), (400, &json!(message)), "{query}");
        }
        let (code, status) = client.delete(&format!("{CONFIGS}?limit=x")).await;
        assert_eq!((code, &status["message"]), (400, &json!(why("x", "invalid syntax"))));
        let (code, status) = client.delete(&format!("{CONFIGS}/a?gracePeriodSeconds=x")).await;
        assert_eq!((code, &status["message"]), (400, &json!(why("x", "invalid syntax"))));
        assert_eq!(count("").await, 2);
        // Every value except false and 0 is true.
        for yes in ["watch", "watch=yes", "watch=TRUE"] {
            let mut watch = client.watch(&format!("{CONFIGS}?{yes}")).await;
            assert_eq!(watch.events_seen().await, ["ADDED a", "ADDED b"], "{yes}");
        }
        for no in ["watch=False", "watch=0"] {
            assert_eq!(count(no).await, 2, "{no}");
        }
        // A watch with a negative timeout ends at once.
        let mut watch = client.watch(&format!("{PODS}?watch=1&timeoutSeconds=-1")).await;
        let before = client.ctx.now().mono;
        assert_eq!(watch.next_within(Duration::from_secs(60)).await, None);
        assert_eq!(client.ctx.now().mono, before);
    });
}

#[test]
fn a_node_has_no_empty_lists() {
    in_simulation(|client| async move {
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [], "podCIDRs": [], "unschedulable": true}});
        client.post(NODES, node).await;
        let uri = format!("{NODES}/n");
        let (code, node) = client.merge(&uri, json!({"spec": {"taints": []}})).await;
        assert_eq!((code, node["spec"].get("taints"), node["spec"].get("podCIDRs")), (200, None, None), "{node}");
        let (_, tainted) =
            client.merge(&uri, json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})).await;
        assert_eq!(tainted["spec"]["taints"][0]["key"], "k");
        let mut bare = tainted;
        bare["spec"]["taints"] = json!([]);
        let (code, node) = client.put(&uri, bare).await;
        assert_eq!((code, node["spec"].get("taints")), (200, None), "{node}");
        assert_eq!(client.get(&uri).await.1["spec"].get("taints"), None);
    });
}

#[test]
fn rules_of_a_custom_kind_ask_for_what_may_be_missing() {
    in_simulation(|client| async move {
        let rule = |rule: &str, optional: bool| {
            let mut rule = json!({"rule": rule});
            // Only a rule that uses `oldSelf` may set this.
            if optional {
                rule["optionalOldSelf"] = true.into();
            }
            rule
        };
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": [
            rule("self.?size.orValue(1) >= 1", false),
            rule("!oldSelf.hasValue() || self.?size.orValue(1) >= oldSelf.value().?size.orValue(1)", true),
        ]});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let definition = json!({"metadata": {"name": "ropes.example.com"}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": "ropes", "kind": "Rope"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let (code, answer) = client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        assert_eq!(code, 201, "{answer}");
        let ropes = "/apis/example.com/v1/namespaces/default/ropes";
        let rope = |name: &str, spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Rope", "metadata": {"name": name}, "spec": spec});
        assert_eq!(client.post(ropes, rope("none", json!({}))).await.0, 201);
        assert_eq!(client.post(ropes, rope("two", json!({"size": 2}))).await.0, 201);
        let (code, refused) = client.post(ropes, rope("zero", json!({"size": 0}))).await;
        assert_eq!(code, 422, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("self.?size.orValue(1) >= 1"), "{refused}");
        let size = async |name: &str, size: Value| {
            client.merge(&format!("{ropes}/{name}"), json!({"spec": {"size": size}})).await.0
        };
        assert_eq!((size("two", json!(3)).await, size("two", json!(2)).await), (200, 422));
        assert_eq!((size("two", Value::Null).await, size("none", json!(5)).await), (422, 200));
    });
}

#[test]
fn a_bad_continue_token_is_refused_in_upstreams_words() {
    in_simulation(|client| async move {
        for name in ["a", "b", "c"] {
            client.post(CONFIGS, config(name)).await;
        }
        let token = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for (token, why) in [
            ("a?".to_owned(), ": illegal base64 data at input byte 1"),
            ("abcde".to_owned(), ": illegal base64 data at input byte 4"),
            (token(r#"{"v":"v2","rv":1,"start":"a"}"#), ": server does not recognize this encoded version v2"),
            (token("{}"), ": server does not recognize this encoded version "),
            (
                token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#),
                ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1}"#), ": encoded start key empty (version meta.k8s.io/v1)"),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#), ": ../x"),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#), ": a//b"),
        ] {
            let (code, status) = client.get(&format!("{CONFIGS}?continue={token}")).await;
            let message = format!("invalid continue token: continue key is not valid{why}");
            assert_eq!((code, &status["message"]), (400, &json!(message)));
        }
        // A valid token continues the list, even with a slash before its key.
        for start in ["b", "/b"] {
            let token = token(&format!(r#"{{"v":"meta.k8s.io/v1","rv":-1,"start":"{start}"}}"#));
            let (code, list) = client.get(&format!("{CONFIGS}?continue={token}")).await;
            let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|c| &c["metadata"]["name"]).collect();
            assert_eq!((code, names), (200, vec![&json!("b"), &json!("c")]));
        }
    });
}

#[test]
fn a_flow_schema_says_whether_its_level_exists() {
    in_simulation_with(fake_apiserver::Config { track_managers: true, ..Default::default() }, |client| async move {
        let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
        let dangling = async |name: &str| {
            let (_, schema) = client.get(&format!("{group}/flowschemas/{name}")).await;
            let condition = schema["status"]["conditions"][0].clone();
            assert_eq!(condition["type"], "Dangling", "{schema}");
            format!("{} {}", condition["status"].as_str().unwrap(), condition["message"].as_str().unwrap())
        };
        let exists =
            "False This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" and it exists";
        assert_eq!(dangling("probes").await, exists);
        let schema = json!({"metadata": {"name": "mine"}, "spec": {"priorityLevelConfiguration": {"name": "later"}}});
        let (code, made) = client.post(&format!("{group}/flowschemas"), schema).await;
        assert_eq!(code, 201, "{made}");
        let object = "This FlowSchema references the PriorityLevelConfiguration object named \"later\"";
        assert_eq!(dangling("mine").await, format!("True {object} but there is no such object"));
        let level = json!({"metadata": {"name": "later"}, "spec": {"type": "Limited", "limited":
            {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}});
        let (code, made) = client.post(&format!("{group}/prioritylevelconfigurations"), level).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(dangling("mine").await, format!("False {object} and it exists"));
        // 5 of the 250 shares of all levels, of 600 seats.
        let (_, metrics) = client.get("/metrics").await;
        let seats = "\napiserver_flowcontrol_nominal_limit_seats{priority_level=\"later\"} 12\n";
        assert!(metrics.as_str().unwrap().contains(seats), "{metrics}");
        assert_eq!(client.delete(&format!("{group}/prioritylevelconfigurations/later")).await.0, 200);
        assert_eq!(dangling("mine").await, format!("True {object} but there is no such object"));
    });
}
