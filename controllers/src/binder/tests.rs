//! The rules against a miniature API server: one counter, separate writes of spec and status.

mod rig;

use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;
use substrate::json::{Value, json};

use super::object::{claim_phase, uid, volume_name, volume_phase, volume_spec};
use rig::*;

#[test]
fn a_binding_is_four_writes_in_order_and_then_none() {
    let mut server = server(&[volume("v", "5Gi", json!({}))], &[claim("data", json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.claim(&mut server, &key("data"));
    let expected = ["PUT pv v Available", "PUT pv/status v Bound", "PUT pvc data Pending", "PUT pvc/status data Bound"];
    assert_eq!(controller.writes, expected);
    let bound = &server.claims[&key("data")];
    assert_eq!(volume_name(bound), "v");
    assert_eq!(bound.status.as_ref().unwrap().capacity.as_ref().unwrap()["storage"].0, "5Gi");
    let annotations = bound.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let reference = volume_spec(&server.volumes["v"]).claim_ref.clone().unwrap();
    assert_eq!(reference.uid.as_deref(), Some("uid-data"));
    assert_eq!(reference.api_version.as_deref(), Some("v1"));
    controller.settle(&mut server);
    assert_eq!(controller.writes.len(), 4);
}

#[test]
fn a_volume_made_for_the_claim_is_not_written_before_its_status() {
    let mut server = server(
        &[volume(
            "pvc-1",
            "4Gi",
            merged(reference_to("data", "uid-data"), json!({ "status": { "phase": "Pending" } })),
        )],
        &[claim("data", json!({}))],
    );
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "pvc-1");
    assert!(controller.writes.is_empty(), "the volume's sync leaves the binding to the claim's");
    controller.claim(&mut server, &key("data"));
    assert_eq!(controller.writes, ["PUT pv/status pvc-1 Bound", "PUT pvc data Pending", "PUT pvc/status data Bound"]);
    assert!(server.volumes["pvc-1"].metadata.annotations.is_none());
}

fn merged(mut a: Value, b: Value) -> Value {
    merge(&mut a, b);
    a
}

#[rstest]
#[case::smallest(&[("big", "50Gi"), ("fit", "5Gi"), ("small", "1Gi")], Some("fit"))]
#[case::ties_by_name(&[("b", "5Gi"), ("a", "5Gi")], Some("a"))]
#[case::none_large_enough(&[("small", "1Gi")], None)]
fn the_smallest_volume_that_fits_is_taken(#[case] volumes: &[(&str, &str)], #[case] expected: Option<&str>) {
    let volumes: Vec<Value> = volumes.iter().map(|(name, size)| volume(name, size, json!({}))).collect();
    let mut server = server(&volumes, &[claim("data", json!({}))]);
    Controller::start(&server, &[], usize::MAX).settle(&mut server);
    let got = volume_name(&server.claims[&key("data")]).to_owned();
    assert_eq!(got, expected.unwrap_or_default());
}

#[rstest]
#[case::class(json!({ "spec": { "storageClassName": "gp3" } }))]
#[case::mode(json!({ "spec": { "volumeMode": "Block" } }))]
#[case::access_mode(json!({ "spec": { "accessModes": ["ReadWriteMany"] } }))]
#[case::attributes_class(json!({ "spec": { "volumeAttributesClassName": "fast" } }))]
#[case::deleting(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))]
#[case::not_available(json!({ "status": { "phase": "Released" } }))]
#[case::reserved_for_another(reference_to("other", "uid-other"))]
fn volumes_that_do_not_fit_are_passed_over(#[case] extra: Value) {
    let mut server = server(&[volume("v", "5Gi", extra)], &[claim("data", json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert_eq!(
        controller.notices,
        [
            "claim data: Normal FailedBinding: no persistent volumes available for this claim and no storage class is set"
        ]
    );
}

#[test]
fn a_reserved_volume_wins_over_a_smaller_free_one() {
    let mut server = server(
        &[volume("free", "4Gi", json!({})), volume("reserved", "9Gi", reference_to("data", ""))],
        &[claim("data", json!({}))],
    );
    Controller::start(&server, &[], usize::MAX).settle(&mut server);
    assert_eq!(volume_name(&server.claims[&key("data")]), "reserved");
    let reserved = &server.volumes["reserved"];
    assert!(reserved.metadata.annotations.is_none(), "the user reserved it, not the controller");
}

#[test]
fn waiting_for_the_first_consumer_says_so_and_leaves_free_volumes_alone() {
    let mut server = server(
        &[volume("v", "5Gi", json!({ "spec": { "storageClassName": "gp3" } }))],
        &[claim("data", json!({ "spec": { "storageClassName": "gp3" } }))],
    );
    let classes = [class("gp3", "WaitForFirstConsumer", json!({}))];
    let mut controller = Controller::start(&server, &classes, usize::MAX);
    controller.claim(&mut server, &key("data"));
    for pod in ["p", "q"] {
        let pod = substrate::json::from_value(json!({
            "metadata": { "namespace": "default", "name": pod },
            "spec": { "containers": [], "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "data" } }] },
        }))
        .unwrap();
        controller.cache.store_pod(None, Some(&pod));
        controller.claim(&mut server, &key("data"));
    }
    assert!(controller.writes.is_empty());
    assert_eq!(
        controller.notices,
        [
            "claim data: Normal WaitForFirstConsumer: waiting for first consumer to be created before binding",
            "claim data: Normal WaitForPodScheduled: waiting for pod p to be scheduled",
            "claim data: Normal WaitForPodScheduled: waiting for pods p,q to be scheduled",
        ]
    );
}

#[test]
fn a_claim_with_a_class_asks_the_external_provisioner() {
    let mut server = server(&[], &[claim("data", json!({ "spec": { "storageClassName": "gp3" } }))]);
    let mut controller = Controller::start(&server, &[class("gp3", "Immediate", json!({}))], usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert_eq!(controller.writes, ["PUT pvc data Pending"]);
    let annotations = server.claims[&key("data")].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "ebs.csi.aws.com");
    assert_eq!(annotations["volume.beta.kubernetes.io/storage-provisioner"], "ebs.csi.aws.com");
    assert_eq!(
        controller.notices,
        [
            "claim data: Normal ExternalProvisioning: Waiting for a volume to be created either by the external provisioner \
          'ebs.csi.aws.com' or manually by the system administrator. If volume creation is delayed, please verify that \
          the provisioner is running and correctly registered."
        ]
    );
}

#[test]
fn a_migrated_provisioner_is_asked_by_the_name_of_its_driver() {
    let mut server = server(&[], &[claim("data", json!({ "spec": { "storageClassName": "gp2" } }))]);
    let classes = [class("gp2", "Immediate", json!({ "provisioner": "kubernetes.io/aws-ebs" }))];
    let mut controller = Controller::start(&server, &classes, usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert_eq!(controller.writes, ["PUT pvc data Pending"]);
    let annotations = server.claims[&key("data")].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["volume.kubernetes.io/storage-provisioner"], "ebs.csi.aws.com");
    assert!(!annotations.contains_key("pv.kubernetes.io/migrated-to"));
    assert!(
        controller.notices[0].contains("the external provisioner 'ebs.csi.aws.com' or"),
        "{:?}",
        controller.notices
    );
}

#[test]
fn a_class_without_a_provisioner_leaves_its_claims_alone() {
    let mut server = server(&[], &[claim("data", json!({ "spec": { "storageClassName": "local" } }))]);
    let classes = [class("local", "Immediate", json!({ "provisioner": "kubernetes.io/no-provisioner" }))];
    let mut controller = Controller::start(&server, &classes, usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert!(controller.writes.is_empty());
    assert_eq!(
        controller.notices,
        ["claim data: Warning ProvisioningFailed: no volume plugin matched name: kubernetes.io/no-provisioner"]
    );
}

#[test]
fn a_claim_without_a_class_gets_the_newest_default_one() {
    let mut server = server(&[], &[claim("data", json!({ "spec": { "storageClassName": null } }))]);
    let default = |name: &str, at: &str| {
        let annotations = json!({ "storageclass.kubernetes.io/is-default-class": "true" });
        class(name, "Immediate", json!({ "metadata": { "annotations": annotations, "creationTimestamp": at } }))
    };
    let classes = [
        default("a-old", "2026-01-01T00:00:00Z"),
        default("b-new", "2026-02-01T00:00:00Z"),
        default("c-new", "2026-02-01T00:00:00Z"),
    ];
    Controller::start(&server, &classes, usize::MAX).claim(&mut server, &key("data"));
    let given = server.claims[&key("data")].spec.as_ref().unwrap().storage_class_name.clone();
    assert_eq!(given.as_deref(), Some("b-new"));
}

#[rstest]
#[case::mode(json!({ "spec": { "volumeMode": "Block" } }), "incompatible volumeMode")]
#[case::access(json!({ "spec": { "accessModes": ["ReadOnlyMany"] } }), "incompatible accessMode")]
#[case::size(json!({ "spec": { "capacity": { "storage": "1Gi" } } }), "requested PV is too small")]
#[case::class(json!({ "spec": { "storageClassName": "x" } }), "storageClassName does not match")]
#[case::deleting(
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), "the volume is marked for deletion \"v\""
)]
fn a_requested_volume_that_does_not_fit_is_refused_with_its_reason(#[case] extra: Value, #[case] why: &str) {
    let mut server = server(&[volume("v", "5Gi", extra)], &[claim("data", json!({ "spec": { "volumeName": "v" } }))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert_eq!(
        controller.notices,
        [format!("claim data: Warning VolumeMismatch: Cannot bind to requested volume \"v\": {why}")]
    );
    assert!(controller.writes.is_empty());
}

#[test]
fn a_requested_volume_of_another_claim_is_waited_for() {
    let mut server = server(
        &[volume("v", "5Gi", reference_to("other", "uid-other"))],
        &[claim("data", json!({ "spec": { "volumeName": "v" } }))],
    );
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.claim(&mut server, &key("data"));
    assert_eq!(
        controller.notices,
        ["claim data: Warning FailedBinding: volume \"v\" already bound to a different claim."]
    );
}

fn bound_claim(extra: Value) -> Value {
    let bound = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "v" },
        "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "5Gi" } },
    });
    claim("data", merged(bound, extra))
}

#[rstest]
#[case::name_cleared(json!({ "spec": { "volumeName": null } }), None,
    "ClaimLost: Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")]
#[case::volume_gone(json!({}), None,
    "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!")]
#[case::taken_by_another(json!({}), Some(reference_to("other", "uid-other")),
    "ClaimMisbound: Two claims are bound to the same volume, this one is bound incorrectly")]
fn a_bound_claim_that_lost_its_volume_is_lost_once(
    #[case] extra: Value,
    #[case] volume_extra: Option<Value>,
    #[case] event: &str,
) {
    let volumes: Vec<Value> = volume_extra.into_iter().map(|e| volume("v", "5Gi", e)).collect();
    let mut server = server(&volumes, &[bound_claim(extra)]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.claim(&mut server, &key("data"));
    controller.claim(&mut server, &key("data"));
    assert_eq!(controller.writes, ["PUT pvc/status data Lost"]);
    assert_eq!(controller.notices, [format!("claim data: Warning {event}")]);
}

#[test]
fn a_volume_that_came_unbound_is_bound_again() {
    let mut server = server(&[volume("v", "5Gi", json!({}))], &[bound_claim(json!({}))]);
    Controller::start(&server, &[], usize::MAX).settle(&mut server);
    assert_eq!(volume_phase(&server.volumes["v"]), "Bound");
    assert_eq!(volume_spec(&server.volumes["v"]).claim_ref.as_ref().unwrap().uid.as_deref(), Some("uid-data"));
}

#[test]
fn a_volume_is_released_only_when_the_api_server_itself_says_that_the_claim_is_gone() {
    let bound = merged(reference_to("data", "uid-data"), json!({ "status": { "phase": "Bound" } }));
    let mut server = server(&[volume("v", "5Gi", bound)], &[bound_claim(json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    // The cache has lost the claim; the server has it.
    controller.cache.remove_claim(&key("data"));
    controller.volume(&mut server, "v");
    assert!(controller.writes.is_empty());
    server.claims.clear();
    controller.volume(&mut server, "v");
    controller.volume(&mut server, "v");
    assert_eq!(controller.writes, ["PUT pv/status v Released"]);
}

#[test]
fn a_claim_with_another_uid_releases_the_volume() {
    let bound = merged(reference_to("data", "uid-of-the-old-one"), json!({ "status": { "phase": "Bound" } }));
    let mut server = server(&[volume("v", "5Gi", bound)], &[claim("data", json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "v");
    assert_eq!(controller.writes, ["PUT pv/status v Released"]);
}

#[test]
fn failed_is_never_overwritten_by_released() {
    let failed = merged(reference_to("gone", "uid-gone"), json!({ "status": { "phase": "Failed" } }));
    let mut server = server(&[volume("v", "5Gi", failed)], &[]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "v");
    assert!(controller.writes.is_empty());
}

#[rstest]
#[case::csi(json!({}), &["PUT pv/status v Released"], &[])]
#[case::no_plugin(json!({ "spec": { "csi": null, "local": { "path": "/x" } } }),
    &["PUT pv/status v Released", "PUT pv/status v Failed"],
    &["volume v: Warning VolumeFailedDelete: error getting deleter volume plugin for volume \"v\": no volume plugin \
       matched"])]
#[case::host_path(json!({ "spec": { "csi": null, "hostPath": { "path": "/tmp/x" } } }),
    &["PUT pv/status v Released", "DELETE pv v"], &[])]
#[case::another_path(json!({ "spec": { "csi": null, "hostPath": { "path": "/x" } } }),
    &["PUT pv/status v Released", "PUT pv/status v Failed"],
    &["volume v: Warning VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /x"])]
#[case::migrated(json!({
    "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs" } },
    "spec": { "csi": null, "awsElasticBlockStore": { "volumeID": "vol-1" } },
}), &["PUT pv v Bound", "PUT pv/status v Released"], &[])]
#[case::recycle(json!({ "spec": { "persistentVolumeReclaimPolicy": "Recycle" } }),
    &["PUT pv/status v Released", "PUT pv/status v Failed"],
    &["volume v: Warning VolumeFailedRecycle: No recycler plugin found for the volume!"])]
fn released_volumes_are_reclaimed_by_policy(#[case] extra: Value, #[case] writes: &[&str], #[case] notices: &[&str]) {
    let base = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" }, "status": { "phase": "Bound" } });
    let mut server = server(&[volume("v", "5Gi", merged(merged(reference_to("gone", "uid-gone"), base), extra))], &[]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "v");
    controller.volume(&mut server, "v");
    assert_eq!(controller.writes, writes);
    assert_eq!(controller.notices, notices);
}

#[rstest]
#[case::by_controller(json!({ "metadata": { "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" } } }), false)]
#[case::by_user(json!({}), true)]
fn a_volume_whose_claim_is_bound_elsewhere_is_unbound(#[case] extra: Value, #[case] still_reserved: bool) {
    let extra = merged(merged(reference_to("data", "uid-data"), json!({ "status": { "phase": "Bound" } })), extra);
    let mut server = server(&[volume("w", "5Gi", extra)], &[bound_claim(json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "w");
    assert_eq!(controller.writes, ["PUT pv w Bound", "PUT pv/status w Available"]);
    let reference = volume_spec(&server.volumes["w"]).claim_ref.clone();
    assert_eq!(reference.is_some(), still_reserved);
    assert!(reference.is_none_or(|r| r.uid.is_none()));
}

#[test]
fn a_volume_made_for_a_claim_that_took_another_is_released() {
    let extra = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com" } },
        "spec": { "persistentVolumeReclaimPolicy": "Delete" },
        "status": { "phase": "Bound" },
    });
    let extra = merged(reference_to("data", "uid-data"), extra);
    let mut server = server(&[volume("w", "5Gi", extra)], &[bound_claim(json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "w");
    assert_eq!(controller.writes, ["PUT pv/status w Released"]);
}

#[test]
fn a_volume_mode_mismatch_is_reported_on_both() {
    let extra = merged(reference_to("data", "uid-data"), json!({ "spec": { "volumeMode": "Block" } }));
    let mut server = server(&[volume("v", "5Gi", extra)], &[claim("data", json!({}))]);
    let mut controller = Controller::start(&server, &[], usize::MAX);
    controller.volume(&mut server, "v");
    assert_eq!(
        controller.notices,
        [
            "volume v: Warning VolumeMismatch: Cannot bind PersistentVolume to requested PersistentVolumeClaim \"data\" \
             due to incompatible volumeMode.",
            "claim data: Warning VolumeMismatch: Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim \
             due to incompatible volumeMode.",
        ]
    );
}

#[test]
fn objects_older_than_the_cache_are_dropped() {
    let server = server(&[volume("v", "5Gi", json!({}))], &[]);
    let mut cache = Controller::start(&server, &[], usize::MAX).cache;
    let mut newer = server.volumes["v"].clone();
    // Numbers, not texts: "10" is newer than "9".
    newer.metadata.resource_version = Some("10".to_owned());
    assert!(cache.store_volume(Arc::new(newer.clone())));
    newer.metadata.resource_version = Some("9".to_owned());
    assert!(!cache.store_volume(Arc::new(newer)));
    assert_eq!(cache.volume("v").unwrap().metadata.resource_version.as_deref(), Some("10"));
}

/// Generates claims and volumes in states that a user or a crash may leave.
fn start_states() -> impl Strategy<Value = Server> {
    let size = prop_oneof![Just("4Gi"), Just("5Gi"), Just("8Gi")];
    let reserved = prop_oneof![3 => Just(None), 1 => (0..3usize).prop_map(Some)];
    let volumes = proptest::collection::vec((size, reserved, any::<bool>()), 0..4);
    let asks = prop_oneof![3 => Just(None), 1 => (0..4usize).prop_map(Some)];
    let claims = proptest::collection::vec(asks, 1..4);
    (volumes, claims).prop_map(|(volumes, claims)| {
        let mut made = Server::default();
        for (i, (size, reserved, with_uid)) in volumes.into_iter().enumerate() {
            let extra = reserved.map_or(json!({}), |c| {
                let name = format!("c{c}");
                reference_to(&name, &if with_uid { format!("uid-{name}") } else { String::new() })
            });
            made.add_volume(volume(&format!("v{i}"), size, extra));
        }
        for (i, asks) in claims.into_iter().enumerate() {
            let extra = asks.map_or(json!({}), |v| json!({ "spec": { "volumeName": format!("v{v}") } }));
            made.add_claim(claim(&format!("c{i}"), extra));
        }
        made
    })
}

proptest! {
    #[test]
    fn a_crash_after_any_write_converges_to_the_same_state(start in start_states()) {
        let mut calm = start.clone();
        let mut controller = Controller::start(&calm, &[], usize::MAX);
        controller.settle(&mut calm);
        let writes = controller.writes.len();
        for budget in 0..=writes {
            let mut server = start.clone();
            Controller::start(&server, &[], budget).settle(&mut server);
            // A new process with fresh caches.
            Controller::start(&server, &[], usize::MAX).settle(&mut server);
            prop_assert_eq!(server.state(), calm.state(), "crash after {} of {} writes", budget, writes);
        }
        // Both sides agree: each bound claim is bound to the volume that it names.
        for claim in calm.claims.values().filter(|c| claim_phase(c) == "Bound") {
            let volume = &calm.volumes[volume_name(claim)];
            prop_assert_eq!(volume_phase(volume), "Bound");
            let reference = volume_spec(volume).claim_ref.clone().unwrap();
            prop_assert_eq!(reference.uid.as_deref(), Some(uid(&claim.metadata)));
        }
    }
}
