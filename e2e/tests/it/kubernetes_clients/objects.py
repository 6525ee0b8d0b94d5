"""Objects through the typed client: create to delete, patches, conflicts, pages, selectors, subresources."""

from kubernetes import client, utils

from cluster import APPLY, JSON, MERGE, STRATEGIC, case, equal, refused


@case()
def an_object_is_created_read_replaced_and_deleted(cluster):
    made = cluster.settings("a", k="1")
    equal((made.metadata.name, made.data), ("a", {"k": "1"}))
    made.data["k"] = "2"
    replaced = cluster.core.replace_namespaced_config_map("a", "default", made)
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    # The version that was read before is too old now.
    body = refused(409, "Conflict", cluster.core.replace_namespaced_config_map, "a", "default", made)
    assert "the object has been modified" in body["message"], body
    status = cluster.core.delete_namespaced_config_map("a", "default")
    # Only some versions of the client convert this to a model.
    status = status if isinstance(status, dict) else status.to_dict()
    equal((status["status"], status["details"]["name"]), ("Success", "a"))
    body = refused(404, "NotFound", cluster.core.read_namespaced_config_map, "a", "default")
    equal(body["message"], 'configmaps "a" not found')


@case()
def validation_errors_name_their_fields(cluster):
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "Main"}]}}
    status = refused(422, "Invalid", cluster.core.create_namespaced_pod, "default", body)
    fields = {cause["field"] for cause in status["details"]["causes"]}
    assert "spec.containers[0].name" in fields, fields
    cluster.settings("a")
    refused(409, "AlreadyExists", cluster.settings, "a")
    refused(404, "NotFound", cluster.core.create_namespaced_config_map, "nowhere", {"metadata": {"name": "a"}})


@case()
def every_kind_of_patch_does_what_it_says(cluster):
    cluster.settings("a", k="1", l="1")
    patch = cluster.core.patch_namespaced_config_map
    merged = patch("a", "default", {"data": {"k": None, "m": "1"}}, _content_type=MERGE)
    equal(merged.data, {"l": "1", "m": "1"})
    operations = [{"op": "test", "path": "/data/l", "value": "1"}, {"op": "replace", "path": "/data/l", "value": "2"}]
    equal(patch("a", "default", operations, _content_type=JSON).data, {"l": "2", "m": "1"})
    refused(422, "Invalid", patch, "a", "default", operations, _content_type=JSON)
    # Only the pod's container of that name changes.
    cluster.pod("p")
    image = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    pod = cluster.core.patch_namespaced_pod("p", "default", image, _content_type=STRATEGIC)
    equal([(c.name, c.image) for c in pod.spec.containers], [("main", "other")])
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}}
    refused(409, "Conflict", patch, "a", "default", stale, _content_type=MERGE)


@case()
def applied_fields_have_an_owner(cluster):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
    apply = cluster.core.patch_namespaced_config_map
    made = apply("a", "default", body, field_manager="one", _content_type=APPLY)
    equal([(m.manager, m.operation) for m in made.metadata.managed_fields], [("one", "Apply")])
    body["data"] = {"k": "2"}
    status = refused(409, "Conflict", apply, "a", "default", body, field_manager="two", _content_type=APPLY)
    equal(status["details"]["causes"][0]["field"], ".data.k")
    taken = apply("a", "default", body, field_manager="two", force=True, _content_type=APPLY)
    equal(taken.data, {"k": "2"})


@case()
def pages_add_up_and_selectors_select(cluster):
    for number in range(7):
        labels = {"parity": "even" if number % 2 == 0 else "odd"}
        body = {"metadata": {"name": f"c{number}", "labels": labels}}
        cluster.core.create_namespaced_config_map("default", body)
    names, token = [], None
    while True:
        page = cluster.core.list_namespaced_config_map("default", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    equal(names, [f"c{number}" for number in range(7)])
    found = cluster.core.list_namespaced_config_map("default", label_selector="parity in (odd)").items
    equal([item.metadata.name for item in found], ["c1", "c3", "c5"])
    found = cluster.core.list_config_map_for_all_namespaces(field_selector="metadata.name=c2").items
    equal([item.metadata.name for item in found], ["c2"])
    deleted = cluster.core.delete_collection_namespaced_config_map("default", label_selector="parity=even")
    assert deleted is not None
    equal(len(cluster.core.list_namespaced_config_map("default").items), 3)


@case()
def storage_kinds_keep_what_they_were_given(cluster):
    storage = cluster.storage
    storage.create_csi_driver({"metadata": {"name": "ebs.csi.aws.com"}, "spec": {"attachRequired": True}})
    equal(storage.read_csi_driver("ebs.csi.aws.com").spec.fs_group_policy, "ReadWriteOnceWithFSType")
    storage.create_storage_class({"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com",
                                  "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True})
    equal(storage.read_storage_class("gp3").reclaim_policy, "Delete")
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
                                                     "resources": {"requests": {"storage": "4Gi"}}}}
    claim = cluster.core.create_namespaced_persistent_volume_claim("default", claim)
    equal((claim.status.phase, claim.metadata.finalizers), ("Pending", ["kubernetes.io/pvc-protection"]))
    volume = {"metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"],
              "storageClassName": "gp3", "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}}
    equal(cluster.core.create_persistent_volume(volume).spec.persistent_volume_reclaim_policy, "Retain")
    attachment = {"metadata": {"name": "va"}, "spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n",
                                                        "source": {"persistentVolumeName": "pv"}}}
    equal(storage.create_volume_attachment(attachment).status.attached, False)
    status = {"status": {"attached": True, "attachmentMetadata": {"devicePath": "/dev/xvdaa"}}}
    equal(storage.patch_volume_attachment_status("va", status, _content_type=MERGE).status.attached, True)
    refused(422, "Invalid", storage.patch_volume_attachment, "va", {"spec": {"nodeName": "m"}}, _content_type=MERGE)
    node = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-1",
            "topologyKeys": ["topology.kubernetes.io/zone"], "allocatable": {"count": 25}}]}}
    equal(storage.create_csi_node(node).spec.drivers[0].allocatable.count, 25)


@case()
def subresources_are_written_apart(cluster):
    cluster.core.create_node({"metadata": {"name": "n"}})
    cluster.pod("p")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="p"), target=client.V1ObjectReference(kind="Node", name="n"))
    cluster.core.create_namespaced_pod_binding("p", "default", binding, _preload_content=False)
    equal(cluster.core.read_namespaced_pod("p", "default").spec.node_name, "n")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    equal(cluster.core.patch_namespaced_pod_status("p", "default", running, _content_type=STRATEGIC).status.phase, "Running")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}}}
    client.PolicyV1Api(cluster.api).create_namespaced_pod_disruption_budget("default", budget)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
    refused(429, "TooManyRequests", cluster.core.create_namespaced_pod_eviction, "p", "default", eviction)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}
    cluster.apps.create_namespaced_deployment("default", deployment)
    scale = cluster.apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}}, _content_type=MERGE)
    equal(scale.spec.replicas, 3)
    equal(cluster.apps.read_namespaced_deployment("web", "default").spec.replicas, 3)


@case()
def a_pod_ends_when_its_grace_is_over_and_a_finalizer_is_gone(cluster):
    cluster.core.create_node({"metadata": {"name": "n"}})
    cluster.pod("p", nodeName="n")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    cluster.core.patch_namespaced_pod("p", "default", held, _content_type=MERGE)
    pod = cluster.core.delete_namespaced_pod("p", "default", grace_period_seconds=5)
    equal(pod.metadata.deletion_grace_period_seconds, 5)
    cluster.core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
    assert cluster.core.read_namespaced_pod("p", "default").metadata.deletion_timestamp
    cluster.core.patch_namespaced_pod("p", "default", {"metadata": {"finalizers": None}}, _content_type=MERGE)
    refused(404, "NotFound", cluster.core.read_namespaced_pod, "p", "default")


@case()
def manifests_are_created_with_the_utilities(cluster):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "team"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    utils.create_from_dict(cluster.api, {"apiVersion": "v1", "kind": "List", "items": [namespace, role]})
    equal(client.RbacAuthorizationV1Api(cluster.api).read_namespaced_role("r", "team").rules[0].verbs, ["get"])
    cluster.core.delete_namespace("team")
    refused(404, "NotFound", cluster.core.read_namespace, "team")


@case()
def a_dry_run_leaves_nothing(cluster):
    body = {"metadata": {"name": "a"}}
    equal(cluster.core.create_namespaced_config_map("default", body, dry_run="All").metadata.name, "a")
    refused(404, "NotFound", cluster.core.read_namespaced_config_map, "a", "default")
