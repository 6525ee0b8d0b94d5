//! Role-based access control: an access that no rule allows is refused.

use fake_apiserver::{Config, Rbac};
use http::Request;
use substrate::body::full;

use super::*;

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(super) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Returns the settings of a server that asks roles, with the token `secret` of an administrator.
pub(super) fn guarded() -> Config {
    Config { rbac: Some(Rbac::new("secret")), ..Config::default() }
}

/// Sends a request with a token, optionally with impersonation.
pub(super) async fn send(
    client: &client::Client,
    token: &str,
    as_user: &[&str],
    method: Method,
    uri: &str,
    body: Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if let [user, groups @ ..] = as_user {
        request = request.header("impersonate-user", *user);
        for group in groups {
            request = request.header("impersonate-group", *group);
        }
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.request(request.body(full(body)).unwrap()).await
}

#[test]
fn a_service_account_may_do_what_its_roles_allow() {
    in_simulation_with(guarded(), |client| async move {
        let admin = async |method, uri: &str, body| send(&client, "secret", &[], method, uri, body).await;
        let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let (code, issued) = admin(Method::POST, token, json!({"spec": {}})).await;
        assert_eq!(code, 201);
        let token = issued["status"]["token"].as_str().unwrap().to_owned();
        let get = async |uri: &str| send(&client, &token, &[], Method::GET, uri, Value::Null).await;
        let (code, refused) = get(PODS).await;
        let why = "pods is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
        assert_eq!((code, refused["message"].as_str().unwrap()), (403, why));
        let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
        admin(Method::POST, &format!("{RBAC}/namespaces/default/roles"), role).await;
        let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]});
        assert_eq!(admin(Method::POST, &format!("{RBAC}/namespaces/default/rolebindings"), binding).await.0, 201);
        assert_eq!(get(PODS).await.0, 200);
        assert_eq!(get("/api/v1/namespaces/kube-system/pods").await.0, 403);
        assert_eq!(get(CONFIGS).await.0, 403);
        // Discovery and reviews of the own access are allowed for every authenticated user.
        assert_eq!(get("/apis").await.0, 200);
        assert_eq!(get("/metrics").await.0, 403);
        assert_eq!(get("/admin/v1/state").await.0, 403);
        let ask = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}});
        let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (_, answer) = send(&client, &token, &[], Method::POST, reviews, ask).await;
        assert_eq!(answer["status"]["allowed"], true);
        assert!(answer["status"]["reason"].as_str().unwrap().starts_with("RBAC: allowed by RoleBinding"));
    });
}

#[test]
fn a_password_is_no_credential() {
    let get = || Request::get(CONFIGS).header("authorization", "Basic YmFkOndyb25n").body(full(String::new())).unwrap();
    in_simulation(|client| async move { assert_eq!(client.request(get()).await.0, 401) });
    in_simulation_with(guarded(), |client| async move {
        let (code, refused) = client.request(get()).await;
        assert!(refused["message"].as_str().unwrap().contains("User \"system:anonymous\" cannot list"), "{refused}");
        assert_eq!(code, 403);
    });
}

#[test]
fn anonymous_users_see_only_health() {
    in_simulation_with(guarded(), |client| async move {
        assert_eq!(client.get("/healthz").await.0, 200);
        assert_eq!(client.get(CONFIGS).await.0, 403);
        assert_eq!(send(&client, "wrong", &[], Method::GET, "/healthz", Value::Null).await.0, 401);
    });
}

#[test]
fn roles_of_the_cluster_are_there_and_can_be_tried_as_someone_else() {
    in_simulation_with(guarded(), |client| async move {
        let binding = json!({"metadata": {"name": "viewers"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "viewers"}]});
        send(&client, "secret", &[], Method::POST, &format!("{RBAC}/clusterrolebindings"), binding).await;
        let ann = ["ann", "viewers"];
        assert_eq!(send(&client, "secret", &ann, Method::GET, PODS, Value::Null).await.0, 200);
        assert_eq!(
            send(&client, "secret", &ann, Method::GET, "/api/v1/namespaces/default/secrets", Value::Null).await.0,
            403
        );
        assert_eq!(send(&client, "secret", &ann, Method::POST, CONFIGS, config("a")).await.0, 403);
        assert_eq!(send(&client, "secret", &["ann"], Method::GET, PODS, Value::Null).await.0, 403);
        // Impersonation needs a permission.
        assert_eq!(send(&client, "", &ann, Method::GET, PODS, Value::Null).await.0, 403);
    });
}

#[test]
fn a_node_reads_its_own_attachments_only() {
    in_simulation_with(guarded(), |client| async move {
        let attachment = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": "pv"}}});
        for (name, node) in [("mine", "node-a"), ("other", "node-b")] {
            send(&client, "secret", &[], Method::POST, ATTACHMENTS, attachment(name, node)).await;
        }
        let node = ["system:node:node-a", "system:nodes"];
        let get = async |uri: &str| send(&client, "secret", &node, Method::GET, uri, Value::Null).await.0;
        assert_eq!(get(&format!("{ATTACHMENTS}/mine")).await, 200);
        assert_eq!(get(&format!("{ATTACHMENTS}/other")).await, 403);
        assert_eq!(get(ATTACHMENTS).await, 403);
        assert_eq!(get("/api/v1/pods").await, 200);
    });
}

#[test]
fn the_controllers_of_kubernetes_have_the_roles_that_they_need_and_no_more() {
    in_simulation_with(guarded(), |client| async move {
        let as_account = async |account: &str, method, uri: &str| {
            let user = format!("system:serviceaccount:kube-system:{account}");
            send(&client, "secret", &[&user], method, uri, Value::Null).await.0
        };
        let attacher = "attachdetach-controller";
        assert_eq!(as_account(attacher, Method::GET, ATTACHMENTS).await, 200);
        assert_eq!(as_account(attacher, Method::GET, "/api/v1/secrets").await, 403);
        assert_eq!(as_account("namespace-controller", Method::DELETE, CONFIGS).await, 200);
        assert_eq!(as_account("generic-garbage-collector", Method::GET, "/api/v1/secrets").await, 200);
        assert_eq!(as_account("unbound", Method::GET, "/api/v1/pods").await, 403);
        let scheduler = ["system:kube-scheduler"];
        let nodes = send(&client, "secret", &scheduler, Method::GET, "/api/v1/nodes", Value::Null).await;
        assert_eq!(nodes.0, 200);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
        assert_eq!(send(&client, "secret", &scheduler, Method::GET, lease, Value::Null).await.0, 404);
        // A role for one object allows a list and a watch that select it by name.
        let configs = "/api/v1/namespaces/kube-system/configmaps";
        let pick = format!("{configs}?fieldSelector=metadata.name%3Dextension-apiserver-authentication");
        assert_eq!(send(&client, "secret", &scheduler, Method::GET, configs, Value::Null).await.0, 403);
        let (code, list) = send(&client, "secret", &scheduler, Method::GET, &pick, Value::Null).await;
        assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
        let other = format!("{configs}?fieldSelector=metadata.name%3Dother");
        assert_eq!(send(&client, "secret", &scheduler, Method::GET, &other, Value::Null).await.0, 403);
        // `admin` aggregates roles that aggregate others, down to what `view` reads.
        let binding = json!({"metadata": {"name": "a"}, "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [{"kind": "Group", "name": "admins"}]});
        let bindings = format!("{RBAC}/namespaces/default/rolebindings");
        send(&client, "secret", &[], Method::POST, &bindings, binding).await;
        let ann = ["ann", "admins"];
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        assert_eq!(send(&client, "secret", &ann, Method::GET, slices, Value::Null).await.0, 200);
        assert_eq!(send(&client, "secret", &ann, Method::POST, CONFIGS, config("a")).await.0, 201);
        assert_eq!(send(&client, "secret", &ann, Method::GET, &bindings, Value::Null).await.0, 200);
        assert_eq!(send(&client, "secret", &ann, Method::GET, "/api/v1/nodes", Value::Null).await.0, 403);
    });
}

#[test]
fn a_user_cannot_grant_more_than_own_rights() {
    in_simulation_with(guarded(), |client| async move {
        let admin = async |uri: &str, body| {
            assert_eq!(send(&client, "secret", &[], Method::POST, uri, body).await.0, 201);
        };
        let writer = json!({"metadata": {"name": "writer"}, "rules": [
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "update"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
        admin(&format!("{RBAC}/clusterroles"), writer).await;
        let bound = json!({"metadata": {"name": "ann"}, "roleRef": {"kind": "ClusterRole", "name": "writer"}, "subjects": [{"kind": "User", "name": "ann"}]});
        admin(&format!("{RBAC}/clusterrolebindings"), bound).await;
        let ann = async |uri: &str, body| send(&client, "secret", &["ann"], Method::POST, uri, body).await;
        let roles = format!("{RBAC}/namespaces/default/roles");
        let role = |name: &str, resource: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}]});
        assert_eq!(ann(&roles, role("pods", "pods")).await.0, 201);
        let (code, refused) = ann(&roles, role("secrets", "secrets")).await;
        let why = "roles.rbac.authorization.k8s.io \"secrets\" is forbidden: user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"list\"]}";
        assert_eq!((code, refused["message"].as_str().unwrap()), (403, why));
        let bindings = format!("{RBAC}/namespaces/default/rolebindings");
        let binding = |role: &str| json!({"metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": "bob"}]});
        assert_eq!(ann(&bindings, binding("cluster-admin")).await.0, 403);
        assert_eq!(ann(&bindings, binding("writer")).await.0, 201);
        // With the verb `bind`, a user can bind a role without holding its permissions.
        let binder = json!({"metadata": {"name": "binder"}, "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]}]});
        admin(&format!("{RBAC}/clusterroles"), binder).await;
        assert_eq!(ann(&bindings, binding("view")).await.0, 403);
        let bound = json!({"metadata": {"name": "ann-binds"}, "roleRef": {"kind": "ClusterRole", "name": "binder"}, "subjects": [{"kind": "User", "name": "ann"}]});
        admin(&format!("{RBAC}/clusterrolebindings"), bound).await;
        assert_eq!(ann(&bindings, binding("view")).await.0, 201);
    });
}

#[test]
fn policies_ask_what_the_caller_may_do() {
    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
    in_simulation_with(guarded(), |client| async move {
        let admin = async |method, uri: &str, body| send(&client, "secret", &[], method, uri, body).await;
        let rules =
            json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
        let validations = json!([
            {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
                "messageExpression": "request.userInfo.username + ' may not see secrets'"},
            {"expression": "authorizer.requestResource.check('create').allowed()", "message": "nor this"},
            {"expression": "!authorizer.serviceAccount('default', 'default').path('/metrics').check('get').allowed()"},
        ]);
        let policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations}});
        assert_eq!(admin(Method::POST, &format!("{ADMISSION}/validatingadmissionpolicies"), policy).await.0, 201);
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        assert_eq!(
            admin(Method::POST, &format!("{ADMISSION}/validatingadmissionpolicybindings"), binding).await.0,
            201
        );
        let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
        admin(Method::POST, &format!("{RBAC}/clusterroles"), role).await;
        let binding = json!({"metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}]});
        admin(Method::POST, &format!("{RBAC}/clusterrolebindings"), binding).await;
        let ann = async |name: &str| send(&client, "secret", &["ann"], Method::POST, CONFIGS, config(name)).await;
        let (code, refused) = ann("a").await;
        let message = refused["message"].as_str().unwrap();
        assert!(code == 422 && message.ends_with("denied request: ann may not see secrets"), "{message}");
        // An administrator may do this.
        assert_eq!(admin(Method::POST, CONFIGS, config("b")).await.0, 201);
        let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["create", "get"]}]});
        admin(Method::PUT, &format!("{RBAC}/clusterroles/r"), role).await;
        assert_eq!(ann("a").await.0, 201);
    });
}

#[test]
fn the_default_roles_exist_also_where_everything_is_allowed() {
    let config = Config { default_roles: true, ..Config::default() };
    in_simulation_with(config, |client| async move {
        for plural in ["clusterroles", "clusterrolebindings"] {
            let (code, found) = client.get(&format!("{RBAC}/{plural}/cluster-admin")).await;
            assert_eq!((code, &found["metadata"]["name"]), (200, &json!("cluster-admin")));
        }
    });
}
