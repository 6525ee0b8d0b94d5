use rstest::rstest;
use substrate::json::json;

use super::*;
use crate::kinds;

fn patched(plural: &str, target: Value, patch: Value) -> Result<Value, PatchError> {
    let kind = kinds::all().iter().find(|k| k.plural == plural).unwrap();
    apply(kind, patch, &target)
}

#[rstest]
#[case::null_deletes_a_key("pods", json!({"metadata": {"labels": {"a": "1", "b": "2"}}}), json!({"metadata": {"labels": {"a": null}}}),
    json!({"metadata": {"labels": {"b": "2"}}}))]
#[case::null_of_a_missing_key_is_ignored("nodes", json!({"spec": {}}), json!({"spec": {"taints": null, "x": {"y": null}}}),
    json!({"spec": {"x": {}}}))]
#[case::containers_merge_by_name("pods", json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}),
    json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}),
    json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}}))]
#[case::container_ports_merge_by_container_port("pods",
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}, {"containerPort": 81}]}]}}))]
#[case::conditions_merge_by_type("nodes",
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}, {"type": "DiskPressure", "status": "False"}]}}),
    json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
    json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "x"}, {"type": "DiskPressure", "status": "False"}]}}))]
#[case::a_delete_directive_takes_an_element_out("nodes",
    json!({"status": {"addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "1"}]}}),
    json!({"status": {"addresses": [{"$patch": "delete", "type": "Hostname"}]}}),
    json!({"status": {"addresses": [{"type": "InternalIP", "address": "1"}]}}))]
#[case::a_replace_directive_replaces_a_list("nodes",
    json!({"status": {"addresses": [{"type": "Hostname", "address": "a"}]}}),
    json!({"status": {"addresses": [{"type": "InternalIP", "address": "2"}, {"$patch": "replace"}]}}),
    json!({"status": {"addresses": [{"type": "InternalIP", "address": "2"}]}}))]
#[case::a_replace_directive_replaces_a_map("pods", json!({"metadata": {"labels": {"a": "1"}}}),
    json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}}), json!({"metadata": {"labels": {"b": "2"}}}))]
#[case::a_delete_directive_empties_a_map("pods", json!({"metadata": {"labels": {"a": "1"}}}),
    json!({"metadata": {"labels": {"$patch": "delete"}}}), json!({"metadata": {"labels": {}}}))]
#[case::attached_volumes_are_atomic("nodes", json!({"status": {"volumesAttached": [{"name": "a", "devicePath": ""}]}}),
    json!({"status": {"volumesAttached": [{"name": "b", "devicePath": ""}]}}),
    json!({"status": {"volumesAttached": [{"name": "b", "devicePath": ""}]}}))]
#[case::taints_are_atomic("nodes", json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
    json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}))]
#[case::finalizers_are_a_set("persistentvolumes", json!({"metadata": {"finalizers": ["a"]}}),
    json!({"metadata": {"finalizers": ["b", "a"]}}), json!({"metadata": {"finalizers": ["b", "a"]}}))]
#[case::the_provisioners_finalizer_removal("persistentvolumes",
    json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer", "x"]}}),
    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
                        "$setElementOrder/finalizers": ["kubernetes.io/pv-protection"]}}),
    json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection", "x"]}}))]
#[case::set_element_order_reorders_and_keeps_what_only_the_server_has("pods",
    json!({"status": {"conditions": [{"type": "A"}, {"type": "S"}, {"type": "B"}]}}),
    json!({"status": {"$setElementOrder/conditions": [{"type": "B"}, {"type": "N"}, {"type": "A"}],
                      "conditions": [{"type": "N", "status": "True"}]}}),
    json!({"status": {"conditions": [{"type": "S"}, {"type": "B"}, {"type": "N", "status": "True"}, {"type": "A"}]}}))]
#[case::retain_keys_changes_the_kind_of_a_volume("pods",
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    json!({"spec": {"volumes": [{"$retainKeys": ["name", "persistentVolumeClaim"], "name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}))]
#[case::directives_in_a_new_value_are_dropped("pods", json!({}),
    json!({"spec": {"$setElementOrder/volumes": [{"name": "v"}], "volumes": [{"$retainKeys": ["name"], "name": "v"}, {"$patch": "delete", "name": "w"}]}}),
    json!({"spec": {"volumes": [{"name": "v"}]}}))]
fn a_patch_gives_what_upstream_gives(
    #[case] plural: &str,
    #[case] target: Value,
    #[case] patch: Value,
    #[case] result: Value,
) {
    assert_eq!(patched(plural, target, patch), Ok(result));
}

#[rstest]
#[case::not_an_object(json!([]), 400)]
#[case::unknown_directive(json!({"spec": {"$patch": "merge"}}), 400)]
#[case::retain_keys_misses_a_key(json!({"spec": {"$retainKeys": ["a"], "nodeName": "b"}}), 400)]
#[case::order_is_no_list(json!({"spec": {"$setElementOrder/volumes": "x"}}), 400)]
#[case::order_disagrees(json!({"spec": {"$setElementOrder/volumes": [{"name": "v"}], "volumes": [{"name": "w"}]}}), 400)]
#[case::no_merge_key(json!({"spec": {"volumes": [{"emptyDir": {}}]}}), 500)]
#[case::scalar_in_a_keyed_list(json!({"spec": {"volumes": ["v"]}}), 500)]
fn an_invalid_patch_is_refused(#[case] patch: Value, #[case] code: u16) {
    let target = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    assert_eq!(patched("pods", target, patch).unwrap_err().code(), code);
}
