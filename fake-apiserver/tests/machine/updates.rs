use fake_apiserver::state::Part::{Main, Status as StatusPart};
use rstest::rstest;
use substrate::json::json;

use super::*;

#[test]
fn a_write_that_changes_nothing_is_none() {
    let mut m = Machine::new();
    let object = m.create("configmaps", config("c")).unwrap();
    m.commits();
    let before = m.store.revision();
    assert_eq!(m.put("configmaps", object.clone(), Main).unwrap(), object);
    assert_eq!(m.patch("configmaps", "c", Main, json!({"data": {"k": "v"}})).unwrap(), object);
    assert_eq!((m.store.revision(), m.commits()), (before, vec![]));
}

#[test]
fn unconditional_puts_are_for_the_kinds_that_allow_them() {
    let mut m = Machine::new();
    m.create("configmaps", config("c")).unwrap();
    let mut changed = config("c");
    changed["data"]["k"] = json!("w");
    assert_eq!(m.put("configmaps", changed, Main).unwrap()["data"]["k"], "w");
    m.create("volumeattachments", attachment("a")).unwrap();
    let status = m.put("volumeattachments", attachment("a"), Main).unwrap_err();
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "volumeattachments.storage.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
         specified for an update"
    );
}

#[test]
fn a_put_with_another_uid_is_a_conflict_even_when_the_object_is_gone() {
    let mut m = Machine::new();
    let mut object = config("c");
    object["metadata"]["uid"] = json!("u");
    let status = m.put("configmaps", object.clone(), Main).unwrap_err();
    assert_eq!(status.code, 409);
    assert!(status.message.ends_with("UID in precondition: u, UID in object meta: "), "{}", status.message);
    m.create("configmaps", config("c")).unwrap();
    assert_eq!(m.put("configmaps", object, Main).unwrap_err().code, 409);
    assert_eq!(m.put("configmaps", config("none"), Main).unwrap_err().code, 404);
}

#[test]
fn a_patch_with_a_version_is_conditional_and_one_without_is_not() {
    let mut m = Machine::new();
    m.create("configmaps", config("c")).unwrap();
    m.patch("configmaps", "c", Main, json!({"data": {"k": "1"}})).unwrap();
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "2"}});
    assert_eq!(m.patch("configmaps", "c", Main, stale).unwrap_err().code, 409);
    assert_eq!(m.get("configmaps", "c").unwrap()["data"]["k"], "1");
}

#[test]
fn a_put_makes_a_lease_that_is_not_there() {
    let mut m = Machine::new();
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    assert_eq!(m.put("leases", lease, Main).unwrap()["spec"]["holderIdentity"], "me");
}

#[rstest]
#[case::uid(json!({"metadata": {"uid": "x"}}), "metadata.uid: Invalid value: \"x\": field is immutable")]
#[case::deletion(
    json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
    "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is immutable"
)]
fn system_fields_are_immutable(#[case] patch: Value, #[case] part: &str) {
    let mut m = Machine::new();
    m.create("configmaps", config("c")).unwrap();
    let status = m.patch("configmaps", "c", Main, patch).unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.contains(part), "{}", status.message);
}

#[test]
fn the_status_is_written_only_through_its_subresource() {
    let mut m = Machine::new();
    for (plural, object, status) in [
        ("persistentvolumeclaims", claim("x"), json!({"phase": "Bound"})),
        ("persistentvolumes", volume("x"), json!({"phase": "Available"})),
        ("volumeattachments", attachment("x"), json!({"attached": true})),
        ("pods", pod("x"), json!({"phase": "Running"})),
        ("nodes", json!({"metadata": {"name": "x"}}), json!({"volumesInUse": ["v"]})),
    ] {
        let field = status.as_object().unwrap().keys().next().unwrap().clone();
        m.create(plural, object).unwrap();
        let both = json!({"status": status, "metadata": {"annotations": {"a": "b"}}});
        let main = m.patch(plural, "x", Main, both).unwrap();
        assert_ne!(main["status"][&field], status[&field], "{plural}");
        assert_eq!(main["metadata"]["annotations"]["a"], "b");
        let before = main["spec"].clone();
        let both = json!({"status": status, "spec": {"nodeName": "other"}});
        let part = m.patch(plural, "x", StatusPart, both).unwrap();
        assert_eq!((&part["status"][&field], &part["spec"]), (&status[&field], &before), "{plural}");
    }
}

#[test]
fn the_status_of_an_attachment_does_not_touch_its_metadata() {
    let mut m = Machine::new();
    m.create("volumeattachments", attachment("a")).unwrap();
    let patch = json!({"status": {"attached": true}, "metadata": {"finalizers": ["a/b"], "labels": {"x": "y"}}});
    let object = m.patch("volumeattachments", "a", StatusPart, patch).unwrap();
    assert_eq!(object["status"]["attached"], true);
    assert!(object["metadata"].get("finalizers").is_none() && object["metadata"].get("labels").is_none());
}

#[test]
fn the_phase_of_a_volume_is_stamped_when_it_changes() {
    let mut m = Machine::new();
    m.create("persistentvolumes", volume("v")).unwrap();
    m.now = Duration::from_secs(5);
    let object = m.patch("persistentvolumes", "v", StatusPart, json!({"status": {"phase": "Bound"}})).unwrap();
    assert_eq!(object["status"]["lastPhaseTransitionTime"], "2026-01-01T00:00:05Z");
    m.now = Duration::from_secs(9);
    let object = m.patch("persistentvolumes", "v", StatusPart, json!({"status": {"message": "m"}})).unwrap();
    assert_eq!(object["status"]["lastPhaseTransitionTime"], "2026-01-01T00:00:05Z");
}

/// A row: kind, object, initial status, patch, and the message of the refusal, if any.
#[rstest]
#[case("persistentvolumeclaims", claim("x"), json!({}), json!({"spec": {"volumeName": "v"}}), None)]
#[case("persistentvolumeclaims", claim("x"), json!({}), json!({"spec": {"storageClassName": "c"}}), None)]
#[case("persistentvolumeclaims", claim("x"), json!({}), json!({"spec": {"accessModes": ["ReadOnlyMany"]}}),
    Some("spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"))]
#[case("persistentvolumeclaims", claim("x"), json!({}), json!({"spec": {"volumeMode": "Block"}}),
    Some(", volumeMode: Invalid value: \"Block\": field is immutable]"))]
#[case("persistentvolumeclaims", claim("x"), json!({}), json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    Some("-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n"))]
#[case("persistentvolumeclaims", claim("x"), json!({"phase": "Bound"}),
    json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    Some("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))]
#[case("persistentvolumeclaims", claim("x"), json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}),
    json!({"spec": {"resources": {"requests": {"storage": "512Mi"}}}}),
    Some("spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"))]
#[case("persistentvolumes", volume("x"), json!({}), json!({"spec": {"csi": {"volumeHandle": "other"}}}),
    Some("spec.persistentvolumesource is immutable after creation"))]
#[case("persistentvolumes", volume("x"), json!({}),
    json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "s", "namespace": "n"}}}}), None)]
#[case("persistentvolumes", volume("x"), json!({}), json!({"spec": {"nodeAffinity": {"required":
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]}}}}), None)]
#[case("persistentvolumes", volume("x"), json!({}), json!({"spec": {"capacity": {"storage": "2Gi"}}}), None)]
#[case("volumeattachments", attachment("x"), json!({}), json!({"spec": {"nodeName": "m"}}),
    Some("spec: Invalid value"))]
#[case("volumeattachments", attachment("x"), json!({}), json!({"metadata": {"finalizers": ["a/b"]}}), None)]
#[case("storageclasses", class("x"), json!({}), json!({"parameters": {"a": "b"}}),
    Some("parameters: Invalid value: {\"a\":\"b\"}: field is immutable"))]
#[case("storageclasses", class("x"), json!({}), json!({"allowVolumeExpansion": true}), None)]
#[case("storageclasses", class("x"), json!({}), json!({"reclaimPolicy": "Retain"}), Some("reclaimPolicy: Invalid value: \"Retain\": field is immutable"))]
#[case("csidrivers", json!({"metadata": {"name": "x"}, "spec": {}}), json!({}), json!({"spec": {"attachRequired": false}}),
    Some("spec.attachedRequired: Invalid value: false: field is immutable"))]
#[case("csinodes", json!({"metadata": {"name": "x"}, "spec": {"drivers": [{"name": "d", "nodeID": "i-1"}]}}), json!({}),
    json!({"spec": {"drivers": [{"name": "d", "nodeID": "i-2"}]}}), Some("spec.drivers: Invalid value: {\"Name\":\"d\",\"NodeID\":\"i-2\",\"TopologyKeys\":null"))]
#[case("csinodes", json!({"metadata": {"name": "x"}, "spec": {"drivers": [{"name": "d", "nodeID": "i-1"}]}}), json!({}),
    json!({"spec": {"drivers": [{"name": "d", "nodeID": "i-1", "allocatable": {"count": 5}}]}}), None)]
#[case("nodes", json!({"metadata": {"name": "x"}, "spec": {"providerID": "a"}}), json!({}),
    json!({"spec": {"providerID": "b"}}), Some("node updates may not change providerID except from \"\" to valid"))]
#[case("nodes", json!({"metadata": {"name": "x"}}), json!({}), json!({"spec": {"providerID": "b"}}), None)]
#[case("pods", pod("x"), json!({}), json!({"spec": {"nodeName": "n"}}),
    Some("spec: Forbidden: pod updates may not change fields other than"))]
#[case("pods", pod("x"), json!({}), json!({"spec": {"nodeName": "n"}}),
    Some(" if it was previously negative)\n@@ "))]
#[case("pods", pod("x"), json!({}), json!({"spec": {"nodeName": "n"}}),
    Some("\n  \"AutomountServiceAccountToken\": null,\n- \"NodeName\": \"\",\n+ \"NodeName\": \"n\",\n  \"SecurityContext\": {\n"))]
#[case("pods", pod("x"), json!({}), json!({"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}}),
    Some("spec.containers: Forbidden: pod updates may not add or remove containers"))]
#[case("pods", pod("x"), json!({}), json!({"spec": {"activeDeadlineSeconds": 5}}), None)]
#[case("pods", pod("x"), json!({}), json!({"spec": {"activeDeadlineSeconds": -1}}),
    Some("spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive"))]
#[case("pods", pod("x"), json!({}), json!({"spec": {"schedulingGates": [{"name": "g"}]}}),
    Some("only deletion is allowed, but found new scheduling gate 'g'"))]
#[case("pods", pod("x"), json!({}), json!({"metadata": {"labels": {"a": "b"}}}), None)]
#[case("volumeattributesclasses", json!({"metadata": {"name": "x"}, "driverName": "d", "parameters": {"a": "b"}}), json!({}),
    json!({"driverName": "e"}), Some("updates to driverName are forbidden."))]
fn updates_change_only_what_upstream_lets_change(
    #[case] plural: &str,
    #[case] object: Value,
    #[case] status: Value,
    #[case] patch: Value,
    #[case] refused: Option<&str>,
) {
    let mut m = Machine::new();
    m.create(plural, object).unwrap();
    if status != json!({}) {
        m.patch(plural, "x", StatusPart, json!({"status": status})).unwrap();
    }
    match (m.patch(plural, "x", Main, patch), refused) {
        (Ok(_), None) => {}
        (Err(error), Some(part)) => assert!(error.message.contains(part), "{}", error.message),
        (answer, expected) => panic!("{answer:?}, expected {expected:?}"),
    }
}

#[test]
fn a_deadline_is_only_brought_forward_and_gates_only_open() {
    let mut m = Machine::new();
    let mut gated = pod("x");
    gated["spec"]["schedulingGates"] = json!([{"name": "a"}, {"name": "b"}]);
    gated["spec"]["activeDeadlineSeconds"] = 9.into();
    gated["spec"]["nodeSelector"] = json!({"zone": "a"});
    let made = m.create("pods", gated).unwrap();
    assert_eq!(made["status"]["conditions"][0]["reason"], "SchedulingGated");
    let mut patch = |spec: Value| m.patch("pods", "x", Main, json!({"spec": spec}));
    let why = |answer: Result<_, Status>| answer.unwrap_err().message;
    assert!(why(patch(json!({"activeDeadlineSeconds": 10}))).contains("must be less than or equal to previous value"));
    assert!(
        why(patch(json!({"activeDeadlineSeconds": null}))).contains("must not update from a positive integer to nil")
    );
    patch(json!({"activeDeadlineSeconds": 8})).unwrap();
    patch(json!({"nodeSelector": {"disk": "ssd"}})).unwrap();
    let reported = why(patch(json!({"nodeSelector": {"zone": "b"}})));
    assert!(
        reported.contains("only additions to spec.nodeSelector are allowed (no mutations or deletions)"),
        "{reported}"
    );
    patch(json!({"schedulingGates": [{"name": "b"}]})).unwrap();
    patch(json!({"schedulingGates": null})).unwrap();
    assert!(
        why(patch(json!({"nodeSelector": {"more": "x"}}))).contains("pod updates may not change fields other than")
    );
}

#[test]
fn generation_counts_changes_of_the_spec() {
    let mut m = Machine::new();
    let driver = m.create("csidrivers", json!({"metadata": {"name": "d"}, "spec": {}})).unwrap();
    assert!(driver["metadata"].get("generation").is_none());
    let driver = m.patch("csidrivers", "d", Main, json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert!(driver["metadata"].get("generation").is_none());
    let driver = m.patch("csidrivers", "d", Main, json!({"spec": {"podInfoOnMount": true}})).unwrap();
    assert_eq!(driver["metadata"]["generation"], 1);
}
