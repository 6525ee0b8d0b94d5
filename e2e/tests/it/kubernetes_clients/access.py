"""Authentication, authorization, discovery, plain HTTP."""

from kubernetes import client

from cluster import case, equal, refused


@case()
def discovery_and_version_are_served(cluster):
    equal(client.VersionApi(cluster.api).get_code().git_version.split(".")[:2], ["v1", "36"])
    groups = {group.name for group in client.ApisApi(cluster.api).get_api_versions().groups}
    assert {"apps", "storage.k8s.io", "apiextensions.k8s.io"} <= groups, groups
    resources = {resource.name: resource for resource in cluster.storage.get_api_resources().resources}
    equal((resources["volumeattachments"].kind, resources["volumeattachments"].namespaced), ("VolumeAttachment", False))


@case()
def plain_http_is_the_same_cluster(cluster):
    cluster.settings("a", k="1")
    core = client.CoreV1Api(cluster.plain())
    equal(core.read_namespaced_config_map("a", "default").data, {"k": "1"})


@case()
def a_token_of_a_service_account_is_who_it_says(cluster):
    body = {"metadata": {"name": "app"}}
    cluster.core.create_namespaced_service_account("default", body)
    request = client.AuthenticationV1TokenRequest(
        spec=client.V1TokenRequestSpec(audiences=["a"], expiration_seconds=900))
    token = cluster.core.create_namespaced_service_account_token("app", "default", request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token, audiences=["a"]))
    answer = client.AuthenticationV1Api(cluster.api).create_token_review(review)
    equal(answer.status.user.username, "system:serviceaccount:default:app")


@case("--authorization-mode", "rbac")
def roles_decide_where_they_are_switched_on(cluster):
    cluster.core.create_namespaced_service_account("default", {"metadata": {"name": "app"}})
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    token = cluster.core.create_namespaced_service_account_token("app", "default", request).status.token
    configuration = client.Configuration()
    configuration.host = cluster.ready["httpEndpoint"]
    configuration.api_key = {"BearerToken": token}
    configuration.api_key_prefix = {"BearerToken": "Bearer"}
    mine = client.ApiClient(configuration)
    body = refused(403, "Forbidden", client.CoreV1Api(mine).list_namespaced_pod, "default")
    assert "system:serviceaccount:default:app" in body["message"], body
    access = client.RbacAuthorizationV1Api(cluster.api)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    access.create_namespaced_role("default", {"metadata": {"name": "r"}, "rules": rules})
    access.create_namespaced_role_binding("default", {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "app", "namespace": "default"}]})
    equal(client.CoreV1Api(mine).list_namespaced_pod("default").items, [])
    question = {"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "default"}}}
    answer = client.AuthorizationV1Api(mine).create_self_subject_access_review(question)
    equal(answer.status.allowed, False)
