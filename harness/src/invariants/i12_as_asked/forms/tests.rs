//! Each mark of a stored object, and the object without it.

use std::collections::{BTreeMap, BTreeSet};

use fake_apiserver::events::Commit;
use fake_apiserver::state::EventType;
use rstest::rstest;
use serde_json::{Value as Json, json};
use substrate::json::to_value;
use substrate::{Clock, Level, Trace};

use super::super::AppliedObjects;
use super::*;
use crate::invariants::Machines;
use crate::scenario::steps::patch::{Patch, PatchType};
use crate::spec::object::ObjectRef;

const DRIVER: &str = "ebs.csi.aws.com";

/// A node, a volume with its claim, its attachment and its pod, as a healthy cluster has them.
fn healthy() -> Json {
    json!({
        "nodes": [{
            "metadata": { "name": "node-a" }, "spec": {},
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }],
        "csi_nodes": [{ "spec": { "drivers": [{ "name": DRIVER, "topologyKeys": ["topology.ebs.csi.aws.com/zone"] }] } }],
        "volumes": [{
            "metadata": {
                "name": "pv-1", "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER },
                "finalizers": [
                    "kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer",
                    "external-attacher/ebs-csi-aws-com",
                ],
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": { "namespace": "default", "name": "data" },
                "csi": {
                    "driver": DRIVER, "volumeHandle": "vol-1",
                    "volumeAttributes": { "storage.kubernetes.io/csiProvisionerIdentity": "1-2-ebs.csi.aws.com" },
                },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{}] } },
            },
            "status": { "phase": "Bound" },
        }],
        "claims": [{
            "metadata": {
                "namespace": "default", "name": "data", "finalizers": ["kubernetes.io/pvc-protection"],
                "annotations": { "pv.kubernetes.io/bind-completed": "yes" },
                "ownerReferences": [{ "kind": "Pod", "name": "web", "uid": "u" }],
            },
            "spec": { "volumeName": "pv-1", "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" } },
        }],
        "pods": [{ "metadata": { "namespace": "default", "name": "web", "uid": "u" }, "spec": {}, "status": {} }],
        "attachments": [{
            "metadata": {
                "name": "csi-1", "finalizers": ["external-attacher/ebs-csi-aws-com"],
                "annotations": { "csi.alpha.kubernetes.io/node-id": "i-1" },
            },
            "spec": { "attacher": DRIVER, "nodeName": "node-a", "source": { "persistentVolumeName": "pv-1" } },
            "status": { "attached": true, "attachmentMetadata": { "devicePath": "/dev/xvdaa" } },
        }],
        "cloud": [{
            "id": "vol-1", "attachments": { "i-1": { "device": "/dev/xvdaa" } },
            "tags": {
                "kubernetes.io/created-for/pv/name": "pv-1", "kubernetes.io/created-for/pvc/name": "data",
                "kubernetes.io/created-for/pvc/namespace": "default", "ebs.csi.aws.com/cluster": "true",
            },
        }],
    })
}

/// Returns the workloads of a cluster, each with its resource.
fn workloads(cluster: &Json) -> Vec<(&'static str, Value)> {
    const RESOURCES: [&str; 5] = ["statefulsets", "replicasets", "deployments", "jobs", "poddisruptionbudgets"];
    let all = cluster["workloads"].as_array().into_iter().flatten();
    all.map(|pair| {
        let resource = RESOURCES.into_iter().find(|of| pair[0] == *of).unwrap();
        (resource, to_value(&pair[1]).unwrap())
    })
    .collect()
}

/// Returns the objects of rare kinds of a cluster, by resource.
fn rare(cluster: &Json) -> BTreeMap<&'static str, Vec<Value>> {
    const RESOURCES: [&str; 11] = [
        "daemonsets",
        "cronjobs",
        "replicationcontrollers",
        "resourcequotas",
        "services",
        "endpointslices",
        "volumesnapshots",
        "volumesnapshotcontents",
        "volumesnapshotclasses",
        "volumegroupsnapshots",
        "volumegroupsnapshotcontents",
    ];
    let all = cluster["rare"].as_object().into_iter().flatten();
    all.map(|(of, objects)| {
        let resource = RESOURCES.into_iter().find(|resource| resource == of).unwrap();
        (resource, objects.as_array().unwrap().iter().map(|object| to_value(object).unwrap()).collect())
    })
    .collect()
}

/// Returns the differences of the healthy cluster after `change`, with these components left out.
pub(super) fn found_without(left_out: &[&str], change: impl FnOnce(&mut Json)) -> Vec<String> {
    found_by(left_out, change, |comparison| comparison.forms())
}

/// Returns the differences that one rule finds.
pub(super) fn found_by(
    left_out: &[&str],
    change: impl FnOnce(&mut Json),
    rule: impl FnOnce(&mut Comparison<'_>),
) -> Vec<String> {
    let left_out: BTreeSet<String> = left_out.iter().map(|name| (*name).to_owned()).collect();
    found_with(&AppliedObjects::new(DRIVER, &left_out), change, rule)
}

/// Returns the differences that one rule finds after a user's requests.
fn found_with(
    applied_objects: &AppliedObjects,
    change: impl FnOnce(&mut Json),
    rule: impl FnOnce(&mut Comparison<'_>),
) -> Vec<String> {
    let mut cluster = healthy();
    change(&mut cluster);
    let trees = |of: &str| -> Vec<Value> {
        let items = cluster[of].as_array().unwrap_or_else(|| panic!("{of} are a list"));
        items.iter().map(|item| to_value(item).unwrap()).collect()
    };
    let stored = StoredObjects {
        nodes: trees("nodes"),
        csi_nodes: trees("csi_nodes"),
        volumes: trees("volumes"),
        pods: trees("pods"),
        claims: trees("claims"),
        attachments: trees("attachments"),
        workloads: workloads(&cluster),
        rare: rare(&cluster),
        cloud: cluster["cloud"].as_array().cloned().unwrap(),
        cloud_snapshots: cluster["cloud_snapshots"].as_array().cloned().unwrap_or_default(),
    };
    let trace = Trace::new(Clock::live(), Level::Info);
    let mut made = Commit::new("persistentvolumes", "pv-1", 1, EventType::Added);
    made.pv = Some(Box::default());
    made.user = "csi-provisioner".into();
    trace.info(&"fake-apiserver".into(), made);
    let (mut present, model) = (super::super::Present::default(), crate::model::RunModel::default());
    trace.events().iter().for_each(|event| present.observe(&model, event));
    let mut comparison = Comparison {
        applied_objects,
        present: &present,
        model: &model,
        machines: &Machines { stored, ..Machines::default() },
        found: Vec::new(),
        compared: 0,
    };
    rule(&mut comparison);
    comparison.found.into_iter().map(|difference| difference.message).collect()
}

/// Sets the value at a JSON pointer; null removes it.
fn set(cluster: &mut Json, at: &str, value: Json) {
    *cluster.pointer_mut(at).unwrap_or_else(|| panic!("there is no {at}")) = value;
}

#[test]
fn a_healthy_cluster_has_its_forms() {
    assert_eq!(found_without(&[], |_| ()), Vec::<String>::new());
}

#[rstest]
#[case("/nodes/0/spec", json!({ "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }] }),
    "node/node-a is Ready, and has the taint node.kubernetes.io/unreachable", "node-lifecycle-controller")]
#[case("/nodes/0/spec", json!({ "unschedulable": true }),
    "node/node-a is cordoned, and has no taint node.kubernetes.io/unschedulable", "node-lifecycle-controller")]
#[case("/volumes/0/metadata/finalizers/0", json!("x"),
    "persistentvolume/pv-1 lacks the finalizer kubernetes.io/pv-protection", "persistentvolume-protection-controller")]
#[case("/volumes/0/metadata/finalizers/1", json!("x"),
    "persistentvolume/pv-1 has the reclaim policy Delete, and lacks the finalizer of the provisioner", "csi-provisioner")]
#[case("/volumes/0/metadata/annotations", json!({}),
    "persistentvolume/pv-1 lacks the annotation pv.kubernetes.io/provisioned-by: ebs.csi.aws.com", "csi-provisioner")]
#[case(
    "/volumes/0/spec/nodeAffinity",
    Json::Null,
    "persistentvolume/pv-1 has no nodeAffinity, and its driver has volumes in zones",
    "csi-provisioner"
)]
#[case("/volumes/0/spec/csi/volumeAttributes", json!({}),
    "persistentvolume/pv-1 lacks the volume attribute csiProvisionerIdentity", "csi-provisioner")]
#[case(
    "/cloud/0/tags/kubernetes.io~1created-for~1pvc~1name",
    Json::Null,
    "persistentvolume/pv-1 is vol-1, which lacks the tag kubernetes.io/created-for/pvc/name=data in the cloud",
    "csi-mock"
)]
#[case("/claims/0/metadata/finalizers", json!([]),
    "pvc/default/data lacks the finalizer kubernetes.io/pvc-protection", "persistentvolumeclaim-protection-controller")]
#[case("/claims/0/metadata/annotations", json!({}),
    "pvc/default/data is Bound, and lacks the annotation pv.kubernetes.io/bind-completed", "persistentvolume-binder-controller")]
#[case("/claims/0/status/accessModes", json!(["ReadWriteMany"]),
    "pvc/default/data has other access modes in its status than its PersistentVolume", "persistentvolume-binder-controller")]
#[case("/claims/0/metadata/ownerReferences/0/uid", json!("former"),
    "pvc/default/data exists, and its owner pod/web is gone", "garbage-collector-controller")]
#[case("/volumes/0/spec/volumeAttributesClassName", json!("gold"),
    "pvc/default/data has the VolumeAttributesClass ``, and its PersistentVolume has another", "csi-resizer")]
#[case("/claims/0/status/conditions", json!([{ "type": "Resizing" }]),
    "pvc/default/data has its size and class, and the condition Resizing", "csi-resizer")]
#[case("/claims/0/status/conditions", json!([{ "type": "ModifyVolumeError" }]),
    "pvc/default/data has its size and class, and the condition ModifyVolumeError", "csi-resizer")]
#[case("/claims/0/status/allocatedResourceStatuses", json!({ "storage": "NodeResizePending" }),
    "pvc/default/data has its size, and 1 allocatedResourceStatuses", "csi-resizer")]
#[case("/attachments/0/metadata/finalizers", json!([]),
    "volumeattachment/csi-1 is attached, and lacks the finalizer external-attacher/ebs-csi-aws-com", "csi-attacher")]
#[case("/volumes/0/metadata/finalizers/2", json!("x"),
    "volumeattachment/csi-1 is attached, and its PersistentVolume lacks the finalizer external-attacher/ebs-csi-aws-com", "csi-attacher")]
#[case(
    "/attachments/0/status/attachmentMetadata",
    Json::Null,
    "volumeattachment/csi-1 names the device ``, and vol-1 is attached as /dev/xvdaa",
    "csi-attacher"
)]
#[case("/pods/0/spec", json!({ "volumes": [{ "name": "more", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } }] }),
    "pod/web has an ephemeral volume, and pvc/web-more does not exist", "ephemeral-volume-controller")]
fn a_missing_mark_is_reported_if_its_component_runs(
    #[case] at: &str,
    #[case] value: Json,
    #[case] message: &str,
    #[case] component: &str,
) {
    let change = |cluster: &mut Json| {
        let (parent, key) = at.rsplit_once('/').unwrap();
        let parent = cluster.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}"));
        if let Json::Object(fields) = parent {
            fields.insert(key.replace("~1", "/"), value.clone());
        } else {
            set(cluster, at, value.clone());
        }
    };
    assert_eq!(found_without(&[], change), [message]);
    assert_eq!(found_without(&[component], change), Vec::<String>::new(), "without {component}");
}

#[test]
fn the_claim_of_an_ephemeral_volume_is_as_its_template_says() {
    let with_volume = |template: Json| {
        move |cluster: &mut Json| {
            let volume = json!({ "name": "data", "ephemeral": { "volumeClaimTemplate": { "spec": template } } });
            set(cluster, "/pods/0/spec", json!({ "volumes": [volume] }));
            set(cluster, "/claims/0/metadata/name", json!("web-data"));
            set(cluster, "/volumes/0/spec/claimRef/name", json!("web-data"));
            set(cluster, "/cloud/0/tags/kubernetes.io~1created-for~1pvc~1name", json!("web-data"));
        }
    };
    assert_eq!(found_without(&[], with_volume(json!({ "accessModes": ["ReadWriteOnce"] }))), Vec::<String>::new());
    let larger = json!({ "resources": { "requests": { "storage": "2Gi" } } });
    let message = ["pvc/web-data asks for other resources than the template of its pod/web"];
    assert_eq!(found_without(&[], with_volume(larger)), message);
}

#[test]
fn the_claim_of_an_ephemeral_volume_has_the_metadata_of_its_template() {
    let with = |has: Json| {
        move |cluster: &mut Json| {
            let template =
                json!({ "metadata": { "labels": { "of": "web" }, "annotations": { "a": "b" } }, "spec": {} });
            let volume = json!({ "name": "data", "ephemeral": { "volumeClaimTemplate": template } });
            set(cluster, "/pods/0/spec", json!({ "volumes": [volume] }));
            set(cluster, "/claims/0/metadata/name", json!("web-data"));
            cluster["claims"][0]["metadata"]["labels"] = has;
            cluster["claims"][0]["metadata"]["annotations"]["a"] = json!("b");
            set(cluster, "/volumes/0/spec/claimRef/name", json!("web-data"));
            set(cluster, "/cloud/0/tags/kubernetes.io~1created-for~1pvc~1name", json!("web-data"));
        }
    };
    assert_eq!(found_without(&[], with(json!({ "of": "web", "more": "" }))), Vec::<String>::new());
    let message = ["pvc/web-data lacks `of` of the labels in the template of its pod/web"];
    assert_eq!(found_without(&[], with(json!({ "of": "db" }))), message);
    // A user who patched the metadata of the claim is not a component that lost the label; other fields do not count.
    for (fields, message) in [
        (json!({ "metadata": { "labels": { "of": "db" } } }), &[] as &[&str]),
        (json!([{ "op": "replace", "path": "/metadata/labels/of", "value": "db" }]), &[]),
        (json!({ "spec": {} }), &message),
    ] {
        let mut applied_objects = AppliedObjects::new(DRIVER, &BTreeSet::new());
        let object = ObjectRef::new(Kind::claim(), None, "web-data");
        applied_objects.patched(&Patch {
            object,
            subresource: None,
            r#type: PatchType::Merge,
            with: fields,
            fails: None,
        });
        assert_eq!(found_with(&applied_objects, with(json!({ "of": "db" })), |found| found.forms()), message);
    }
}

#[test]
fn a_claim_has_a_volume_that_it_selects() {
    let with = |labels: Json, by_binder: bool| {
        move |cluster: &mut Json| {
            cluster["claims"][0]["spec"]["selector"] = json!({ "matchLabels": { "disk": "fast" } });
            cluster["volumes"][0]["metadata"]["labels"] = labels;
            if by_binder {
                cluster["volumes"][0]["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = json!("yes");
            }
        }
    };
    let none = Vec::<String>::new();
    assert_eq!(found_without(&[], with(json!({ "disk": "fast" }), true)), none);
    assert_eq!(found_without(&[], with(json!({ "disk": "slow" }), false)), none, "a user reserved the volume");
    let message = ["pvc/default/data selects volumes with the label disk=fast, which its PersistentVolume lacks"];
    assert_eq!(found_without(&[], with(json!({ "disk": "slow" }), true)), message);
}
