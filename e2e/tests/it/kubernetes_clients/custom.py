"""Custom resources and the dynamic client."""

from kubernetes import client
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError

from cluster import MERGE, case, equal, refused, until

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "buckets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "buckets", "kind": "Bucket", "shortNames": ["bk"]},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.copies", "statusReplicasPath": ".status.copies"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "required": ["size"], "properties": {
                    "size": {"type": "integer", "minimum": 1}, "copies": {"type": "integer", "default": 1}},
                    "x-kubernetes-validations": [{"rule": "self.copies <= self.size", "message": "too many copies"}]},
                "status": {"type": "object", "properties": {"copies": {"type": "integer"}}}}}},
        }],
    },
}
PLACE = ("example.com", "v1", "default", "buckets")


def bucket(name, **spec):
    return {"apiVersion": "example.com/v1", "kind": "Bucket", "metadata": {"name": name}, "spec": spec}


def define(cluster):
    client.ApiextensionsV1Api(cluster.api).create_custom_resource_definition(DEFINITION)
    found = client.ApiextensionsV1Api(cluster.api).read_custom_resource_definition("buckets.example.com")
    conditions = {condition.type: condition.status for condition in found.status.conditions}
    equal(conditions, {"NamesAccepted": "True", "Established": "True"})


@case()
def a_definition_is_served_at_once(cluster):
    define(cluster)
    custom = client.CustomObjectsApi(cluster.api)
    made = custom.create_namespaced_custom_object(*PLACE, bucket("a", size=3, odd=1))
    # Defaulted and pruned.
    equal(made["spec"], {"size": 3, "copies": 1})
    body = refused(422, "Invalid", custom.create_namespaced_custom_object, *PLACE, bucket("b", size=0))
    assert "spec.size" in body["message"], body
    body = refused(422, "Invalid", custom.create_namespaced_custom_object, *PLACE, bucket("b", size=1, copies=2))
    assert "too many copies" in body["message"], body
    status = {"spec": {"size": 9}, "status": {"copies": 1}}
    told = custom.patch_namespaced_custom_object_status(*PLACE, "a", status, _content_type=MERGE)
    equal((told["spec"]["size"], told["status"]), (3, {"copies": 1}))
    scale = custom.patch_namespaced_custom_object_scale(*PLACE, "a", {"spec": {"replicas": 2}}, _content_type=MERGE)
    equal((scale["kind"], scale["spec"]["replicas"], scale["status"]["replicas"]), ("Scale", 2, 1))
    equal(len(custom.list_namespaced_custom_object(*PLACE)["items"]), 1)
    client.ApiextensionsV1Api(cluster.api).delete_custom_resource_definition("buckets.example.com")
    refused(404, "NotFound", client.ApiextensionsV1Api(cluster.api).read_custom_resource_definition, "buckets.example.com")


@case()
def the_dynamic_client_finds_and_writes_any_kind(cluster):
    dynamic = DynamicClient(cluster.api)
    equal(dynamic.version["kubernetes"]["major"], "1")
    classes = dynamic.resources.get(api_version="storage.k8s.io/v1", kind="StorageClass")
    equal((classes.namespaced, classes.name), (False, "storageclasses"))
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": "p"}
    equal(classes.create(body).volumeBindingMode, "Immediate")
    try:
        classes.create(body)
    except ConflictError as error:
        equal(error.reason, "Conflict")
    else:
        raise AssertionError("a second one was made")
    body["allowVolumeExpansion"] = True
    applied = dynamic.server_side_apply(classes, body, field_manager="py")
    equal(applied.allowVolumeExpansion, True)
    classes.delete("gp3")
    try:
        classes.get("gp3")
    except NotFoundError as error:
        assert "not found" in str(error.body), error
    else:
        raise AssertionError("it is still there")


@case()
def the_dynamic_client_learns_of_new_kinds(cluster):
    define(cluster)
    dynamic = DynamicClient(cluster.api)
    buckets = dynamic.resources.get(api_version="example.com/v1", kind="Bucket")
    buckets.create(bucket("a", size=1), namespace="default")
    try:
        buckets.create(bucket("b"), namespace="default")
    except UnprocessibleEntityError as error:
        assert "spec.size" in str(error.body), error
    else:
        raise AssertionError("one without a size was made")
    events = []
    for event in dynamic.watch(buckets, namespace="default", timeout=90):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == 1:
            buckets.patch(bucket("a", size=4), namespace="default", content_type=MERGE)
        else:
            break
    equal(events, [("ADDED", "a"), ("MODIFIED", "a")])
    equal([item.metadata.name for item in buckets.get(namespace="default").items], ["a"])


@case()
def a_definition_that_is_deleted_takes_its_objects_with_it(cluster):
    define(cluster)
    custom = client.CustomObjectsApi(cluster.api)
    made = bucket("a", size=1)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    custom.create_namespaced_custom_object(*PLACE, made)
    definitions = client.ApiextensionsV1Api(cluster.api)
    definitions.delete_custom_resource_definition("buckets.example.com")
    # The deletion of the definition waits for its object, which waits for its finalizer.
    assert definitions.read_custom_resource_definition("buckets.example.com").metadata.deletion_timestamp
    custom.patch_namespaced_custom_object(*PLACE, "a", {"metadata": {"finalizers": None}}, _content_type=MERGE)

    def gone():
        names = [found.metadata.name for found in definitions.list_custom_resource_definition().items]
        return "buckets.example.com" not in names

    until(gone)
