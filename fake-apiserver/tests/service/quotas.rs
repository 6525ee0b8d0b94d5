//! ResourceQuotas: limits and use of a namespace.

use super::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn quota(name: &str, hard: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hard": hard}})
}

async fn used(client: &client::Client, name: &str) -> Value {
    client.get(&format!("{QUOTAS}/{name}")).await.1["status"]["used"].clone()
}

fn of_class(name: &str, class: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}}})
}

#[test]
fn storage_is_counted_as_a_whole_and_by_class() {
    in_simulation(|client| async move {
        client.post(CLAIMS, of_class("before", "gold", "1Gi")).await;
        let gold = "gold.storageclass.storage.k8s.io";
        let hard = json!({"requests.storage": "10Gi", "persistentvolumeclaims": "5",
            (format!("{gold}/requests.storage")): "4Gi", (format!("{gold}/persistentvolumeclaims")): "2"});
        client.post(QUOTAS, quota("q", hard.clone())).await;
        // Existing objects are counted at once.
        let reported = client.get(&format!("{QUOTAS}/q")).await.1;
        assert_eq!(reported["status"]["hard"], hard);
        assert_eq!(reported["status"]["used"]["requests.storage"], "1Gi");
        assert_eq!(client.post(CLAIMS, of_class("a", "gold", "3Gi")).await.0, 201);
        let (code, refused) = client.post(CLAIMS, of_class("b", "gold", "1Gi")).await;
        let why = format!(
            "persistentvolumeclaims \"b\" is forbidden: exceeded quota: q, requested: \
             {gold}/persistentvolumeclaims=1,{gold}/requests.storage=1Gi, used: \
             {gold}/persistentvolumeclaims=2,{gold}/requests.storage=4Gi, limited: \
             {gold}/persistentvolumeclaims=2,{gold}/requests.storage=4Gi"
        );
        assert_eq!((code, refused["message"].as_str().unwrap()), (403, why.as_str()));
        assert_eq!(client.post(CLAIMS, of_class("b", "silver", "6Gi")).await.0, 201);
        assert_eq!(client.post(CLAIMS, of_class("c", "silver", "1Gi")).await.0, 403);
        // The use of a removed object is given back: without its finalizer a claim is removed at once.
        client.merge(&format!("{CLAIMS}/b"), json!({"metadata": {"finalizers": null}})).await;
        client.delete(&format!("{CLAIMS}/b")).await;
        assert_eq!(used(&client, "q").await["requests.storage"], "4Gi");
        assert_eq!(client.post(CLAIMS, of_class("c", "silver", "1Gi")).await.0, 201);
        // A dry run does not count.
        assert_eq!(client.post(&format!("{CLAIMS}?dryRun=All"), of_class("d", "silver", "1Gi")).await.0, 201);
        assert_eq!(used(&client, "q").await["persistentvolumeclaims"], "3");
    });
}

#[test]
fn a_claim_that_grows_uses_more() {
    in_simulation(|client| async move {
        let class = json!({"metadata": {"name": "gold"}, "provisioner": "p", "allowVolumeExpansion": true});
        client.post("/apis/storage.k8s.io/v1/storageclasses", class).await;
        client.post(QUOTAS, quota("q", json!({"requests.storage": "5Gi"}))).await;
        client.post(CLAIMS, of_class("a", "gold", "2Gi")).await;
        client.merge(&format!("{CLAIMS}/a/status"), json!({"status": {"phase": "Bound"}})).await;
        let grow = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let (code, refused) = client.merge(&format!("{CLAIMS}/a"), grow("6Gi")).await;
        assert_eq!(code, 403);
        let why = "exceeded quota: q, requested: requests.storage=4Gi, used: requests.storage=2Gi, limited: requests.storage=5Gi";
        assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
        assert_eq!(client.merge(&format!("{CLAIMS}/a"), grow("5Gi")).await.0, 200);
        assert_eq!(used(&client, "q").await["requests.storage"], "5Gi");
    });
}

#[test]
fn pods_must_say_what_they_need_and_are_given_back_when_they_end() {
    in_simulation(|client| async move {
        client.post(QUOTAS, quota("q", json!({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}))).await;
        let (code, refused) = client.post(PODS, pod("p")).await;
        assert_eq!(code, 403);
        let why = "pods \"p\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c";
        assert_eq!(refused["message"].as_str().unwrap(), why);
        let sized = |name: &str, cpu: &str| {
            let mut pod = pod(name);
            pod["spec"]["containers"][0]["resources"] =
                json!({"requests": {"cpu": cpu}, "limits": {"memory": "100Mi"}});
            pod
        };
        assert_eq!(client.post(PODS, sized("p", "600m")).await.0, 201);
        let (_, refused) = client.post(PODS, sized("q", "600m")).await;
        let why = "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1";
        assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
        // A pod that has ended does not count, although it still exists.
        client.merge(&format!("{PODS}/p/status"), json!({"status": {"phase": "Succeeded"}})).await;
        assert_eq!(used(&client, "q").await, json!({"pods": "0", "requests.cpu": "0", "limits.memory": "0"}));
        assert_eq!(client.post(PODS, sized("q", "600m")).await.0, 201);
        assert_eq!(used(&client, "q").await["limits.memory"], "100Mi");
    });
}

#[test]
fn objects_of_any_kind_are_counted_and_scopes_choose_pods() {
    in_simulation(|client| async move {
        let hard = json!({"count/configmaps": "1", "configmaps": "3", "count/deployments.apps": "0", "services.nodeports": "1"});
        client.post(QUOTAS, quota("q", hard)).await;
        assert_eq!(client.post(CONFIGS, config("a")).await.0, 201);
        assert_eq!(client.post(CONFIGS, config("b")).await.0, 403);
        client.delete(&format!("{CONFIGS}/a")).await;
        assert_eq!(client.post(CONFIGS, config("b")).await.0, 201);
        let service = |kind: &str| json!({"metadata": {"name": kind.to_lowercase()}, "spec": {"type": kind, "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
        let services = "/api/v1/namespaces/default/services";
        assert_eq!(client.post(services, service("NodePort")).await.0, 403);
        assert_eq!(client.post(services, service("ClusterIP")).await.0, 201);
        let mut scoped = quota("best-effort", json!({"pods": "1"}));
        scoped["spec"]["scopes"] = json!(["BestEffort"]);
        client.post(QUOTAS, scoped).await;
        let mut urgent = quota("urgent", json!({"pods": "0"}));
        urgent["spec"]["scopeSelector"] =
            json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
        client.post(QUOTAS, urgent).await;
        let class = json!({"metadata": {"name": "high"}, "value": 10});
        client.post("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
        assert_eq!(client.post(PODS, pod("a")).await.0, 201);
        let (_, refused) = client.post(PODS, pod("b")).await;
        assert!(refused["message"].as_str().unwrap().contains("exceeded quota: best-effort"), "{refused}");
        let mut burstable = pod("b");
        burstable["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(client.post(PODS, burstable.clone()).await.0, 201);
        burstable["metadata"]["name"] = json!("c");
        burstable["spec"]["priorityClassName"] = json!("high");
        let (_, refused) = client.post(PODS, burstable).await;
        assert!(refused["message"].as_str().unwrap().contains("exceeded quota: urgent"), "{refused}");
    });
}

#[test]
fn a_pod_that_leaves_the_scope_of_a_quota_is_given_back() {
    in_simulation(|client| async move {
        for scope in ["Terminating", "NotTerminating"] {
            let mut scoped = quota(&scope.to_lowercase(), json!({"pods": "2"}));
            scoped["spec"]["scopes"] = json!([scope]);
            client.post(QUOTAS, scoped).await;
        }
        client.post(PODS, pod("p")).await;
        assert_eq!(used(&client, "notterminating").await["pods"], "1");
        client.merge(&format!("{PODS}/p"), json!({"spec": {"activeDeadlineSeconds": 60}})).await;
        assert_eq!(used(&client, "terminating").await["pods"], "1");
        assert_eq!(used(&client, "notterminating").await["pods"], "0");
    });
}

#[test]
fn a_changed_quota_is_recounted() {
    in_simulation(|client| async move {
        for name in ["a", "b"] {
            client.post(CONFIGS, config(name)).await;
        }
        client.post(QUOTAS, quota("q", json!({"secrets": "1"}))).await;
        client.merge(&format!("{QUOTAS}/q"), json!({"spec": {"hard": {"count/configmaps": "2"}}})).await;
        assert_eq!(used(&client, "q").await, json!({"count/configmaps": "2", "secrets": "0"}));
        assert_eq!(client.post(CONFIGS, config("c")).await.0, 403);
    });
}

#[test]
fn devices_are_counted_by_class_and_only_allocated_node_ports_count() {
    in_simulation(|client| async move {
        let devices = "gold.deviceclass.resource.k8s.io/devices";
        client.post(QUOTAS, quota("q", json!({(devices): "4", "services.nodeports": "0"}))).await;
        assert_eq!(used(&client, "q").await[devices], "0");
        let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
        let claim = |name: &str, count: i64| {
            let exactly = json!({"deviceClassName": "gold", "allocationMode": "ExactCount", "count": count});
            json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
        };
        assert_eq!(client.post(claims, claim("a", 3)).await.0, 201);
        assert_eq!(used(&client, "q").await[devices], "3");
        assert_eq!(client.post(claims, claim("b", 2)).await.0, 403);
        client.delete(&format!("{claims}/a")).await;
        assert_eq!(used(&client, "q").await[devices], "0");
        let services = "/api/v1/namespaces/default/services";
        let service = |name: &str, allocates: bool| {
            json!({"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}],
                "allocateLoadBalancerNodePorts": allocates}})
        };
        let (code, made) = client.post(services, service("bare", false)).await;
        assert_eq!((code, &made["spec"]["ports"][0]["nodePort"]), (201, &Value::Null), "{made}");
        assert_eq!(client.post(services, service("full", true)).await.0, 403);
    });
}

#[test]
fn a_kind_that_comes_after_its_quota_is_counted() {
    in_simulation(|client| async move {
        let count = "count/gadgets.shop.example.com";
        client.post(QUOTAS, quota("q", json!({(count): "1"}))).await;
        assert_eq!(used(&client, "q").await[count], Value::Null);
        let definition = json!({"metadata": {"name": "gadgets.shop.example.com"}, "spec": {
            "group": "shop.example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }});
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.post(definitions, definition).await.0, 201);
        assert_eq!(used(&client, "q").await[count], "0");
        let gadgets = "/apis/shop.example.com/v1/namespaces/default/gadgets";
        let gadget =
            |name: &str| json!({"apiVersion": "shop.example.com/v1", "kind": "Gadget", "metadata": {"name": name}});
        assert_eq!(client.post(gadgets, gadget("a")).await.0, 201);
        assert_eq!(client.post(gadgets, gadget("b")).await.0, 403);
    });
}
