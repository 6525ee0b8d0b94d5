use csi_disk::{Mount, MountKind};
use csi_mock::events::CsiCall;
use fake_apiserver::events::Driver;
use serde_json::{Value, json};
use substrate::json::to_value;
use substrate::{Clock, Level, Trace};

use super::*;
use crate::invariants::Made;
use crate::scenario::steps::patch::{Patch, PatchType};
use crate::spec::Manifest;
use crate::spec::object::{Kind, ObjectRef};

const VOLUME: &str = "vol-0123456789abcdef0";
const DRIVER: &str = "ebs.csi.aws.com";

/// Revision of all commits.
const FIRST: u64 = 10;

/// A node, and the events, applied objects and mounts of a run.
struct History {
    trace: Trace,
    applied_objects: AppliedObjects,
    machines: Machines,
}

fn kind(object: &Value) -> Kind {
    Kind::of_manifest(object["apiVersion"].as_str().unwrap_or("v1"), object["kind"].as_str().unwrap()).unwrap()
}

fn reference(object: &Value) -> ObjectRef {
    ObjectRef::new(kind(object), None, object["metadata"]["name"].as_str().unwrap())
}

/// Returns `object` with the fields of `change` set.
fn with(mut object: Value, change: Value) -> Value {
    fn merge(into: &mut Value, change: Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                change.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
            }
            (into, change) => *into = change,
        }
    }
    merge(&mut object, change);
    object
}

fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "gp3" },
        "provisioner": DRIVER, "parameters": { "type": "gp3" }, "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn claim() -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "metadata": { "name": "data", "uid": "uid-claim" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
            "resources": { "requests": { "storage": "2Gi" } },
        },
    })
}

fn bound() -> Value {
    let size = json!({ "storage": "2Gi" });
    with(claim(), json!({ "spec": { "volumeName": "pv-1" }, "status": { "phase": "Bound", "capacity": size } }))
}

fn volume() -> Value {
    json!({
        "kind": "PersistentVolume", "metadata": { "name": "pv-1" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "capacity": { "storage": "2Gi" },
            "claimRef": { "namespace": "default", "name": "data" }, "csi": { "driver": DRIVER, "volumeHandle": VOLUME },
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": { "phase": "Bound" },
    })
}

fn pod() -> Value {
    json!({
        "kind": "Pod", "metadata": { "name": "web", "uid": "uid-pod" },
        "spec": {
            "containers": [{ "name": "c", "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }],
        },
    })
}

fn running() -> Value {
    with(pod(), json!({ "spec": { "nodeName": "node-a" }, "status": { "phase": "Running" } }))
}

impl History {
    fn new() -> Self {
        let trace = Trace::new(Clock::live(), Level::Info);
        let history = Self {
            trace,
            applied_objects: AppliedObjects::new(DRIVER, &BTreeSet::new()),
            machines: Machines::default(),
        };
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        history.stores(json!({ "kind": "Node", "metadata": { "name": "node-a" }, "status": { "conditions": ready } }))
    }

    fn commits(self, user: &str, r#type: EventType, object: &Value) -> Self {
        let (kind, of) = (kind(object), reference(object));
        let mut commit = Commit::of_manifest(kind.table(), of.key(), &to_value(object).unwrap());
        (commit.user, commit.r#type, commit.rv) = (user.into(), r#type, FIRST);
        self.trace.info(&"fake-apiserver".into(), commit);
        self
    }

    fn stores(self, object: Value) -> Self {
        let user = if object["kind"] == "PersistentVolume" { "csi-provisioner" } else { "user" };
        self.commits(user, EventType::Added, &object)
    }

    fn removes(self, user: &str, object: &Value) -> Self {
        self.commits(user, EventType::Deleted, object)
    }

    /// Applies a manifest, which is stored unchanged.
    fn applies(mut self, object: Value) -> Self {
        let manifest = Manifest { object: reference(&object), value: object.clone() };
        self.applied_objects.applied(&manifest, &to_value(&object).unwrap());
        self.stores(object)
    }

    /// Applies a manifest that has this revision already, without a commit.
    fn applies_again(mut self, object: &Value, revision: u64) -> Self {
        let stored = with(object.clone(), json!({ "metadata": { "resourceVersion": revision.to_string() } }));
        let manifest = Manifest { object: reference(object), value: object.clone() };
        self.applied_objects.applied(&manifest, &to_value(&stored).unwrap());
        self
    }

    fn deletes(mut self, object: &Value) -> Self {
        self.applied_objects.deleted(&reference(object));
        self
    }

    fn patches(mut self, object: &Value, with: Value) -> Self {
        let (object, r#type) = (reference(object), PatchType::Merge);
        self.applied_objects.patched(&Patch { object, subresource: None, r#type, with, fails: None });
        self
    }

    fn has_driver(self, limit: u64) -> Self {
        let mut commit = Commit::new("csinodes", "node-a", 1, EventType::Added);
        let drivers = vec![Driver { limit: Some(limit), name: DRIVER.into() }];
        commit.csinode = Some(Box::new(CsiNode { drivers }));
        self.trace.info(&"fake-apiserver".into(), commit);
        self
    }

    fn cloud(mut self, size_gib: u64, r#type: &str) -> Self {
        let made = Made { size_gib, parameters: [("type", r#type.to_owned())].into() };
        self.machines.volumes.insert(VOLUME.to_owned(), made);
        self
    }

    fn loses_its_volume(mut self) -> Self {
        self.machines.volumes.clear();
        self
    }

    /// Gives the mounted volumes to a group.
    fn of_group(mut self, group: u32) -> Self {
        self.machines.mounts.values_mut().flatten().for_each(|mount| mount.group = Some(group));
        self
    }

    fn mounts(mut self, kind: MountKind, readonly: bool) -> Self {
        let path = "/kubelet/pods/uid-pod/volumes/v/mount".into();
        let mount = Mount { volume: VOLUME.to_owned(), path, kind, readonly, group: None };
        self.machines.mounts.insert("node-a".to_owned(), vec![mount]);
        self
    }

    fn answers(self, rpc: &'static str, subject: &str, code: &'static str) -> Self {
        let (rpc, code, target) = (Text::from(rpc), code.into(), Some(subject.into()));
        let (caller, volume, node, ordinal) = (None, None, None, 1);
        let call = CsiCall { caller, volume, node, target, ..CsiCall::new(rpc.clone(), ordinal) };
        self.trace.info(&"csi-mock".into(), call);
        let done = CsiDone { rpc, volume: None, node: None, ordinal, code, took_ms: 1, message: None };
        self.trace.info(&"csi-mock".into(), done);
        self
    }

    /// Returns the differences.
    fn found(self) -> Vec<String> {
        let (mut present, mut model) = (Present::default(), RunModel::default());
        for event in self.trace.events() {
            model.observe(&event);
            present.observe(&model, &event);
        }
        let (found, compared) = compare(&self.applied_objects, &present, &model, &self.machines);
        assert!(compared > 0, "there was an occasion");
        found.into_iter().map(|difference| difference.message).collect()
    }
}

/// Returns a bound claim and a running pod with it, changed by `change`.
fn up(change: impl FnOnce(History) -> History) -> History {
    let history = History::new().applies(class()).cloud(2, "gp3").applies(claim()).stores(volume()).stores(bound());
    change(history.applies(pod())).stores(running()).mounts(MountKind::Target, false)
}

#[test]
fn a_cluster_that_is_as_asked_has_no_difference() {
    assert!(up(|history| history).found().is_empty());
}

#[test]
fn the_files_of_a_pod_are_of_its_group() {
    let of_pod = |policy: Option<&str>| {
        let grouped = with(pod(), json!({ "spec": { "securityContext": { "fsGroup": 2000 } } }));
        let volume = with(volume(), json!({ "spec": { "csi": { "fsType": "ext4" } } }));
        let driver = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": { "name": DRIVER },
            "spec": { "fsGroupPolicy": policy },
        });
        let history = History::new().applies(class()).applies(driver).cloud(2, "gp3").applies(claim()).stores(volume);
        let grouped = history.stores(bound()).applies(grouped);
        grouped.stores(running()).mounts(MountKind::Target, false)
    };
    let differs = [format!("pod/default/web runs on node-a, and the files of {VOLUME} are not of its fsGroup")];
    assert!(of_pod(None).of_group(2000).found().is_empty());
    assert_eq!(of_pod(None).of_group(0).found(), differs);
    assert!(of_pod(Some("None")).of_group(0).found().is_empty(), "the CSIDriver forbids it");
    assert!(of_pod(None).found().is_empty(), "the disk has no groups");
}

#[test]
fn an_object_may_be_older_than_the_trace() {
    let applied = |revision| History::new().applies_again(&class(), revision);
    assert!(applied(FIRST - 1).found().is_empty());
    let lost = ["storageclass/gp3 does not exist, although it was applied and not deleted"];
    assert_eq!(applied(FIRST - 1).removes("user", &class()).found(), lost);
    assert_eq!(applied(FIRST + 1).found(), lost, "its write was answered, and is not in the trace");
}

#[test]
fn an_object_is_there_until_it_is_deleted() {
    let gone = ["pod/default/web does not exist, although it was applied and not deleted"];
    let removed = |user| History::new().applies(pod()).stores(running()).removes(user, &running());
    assert_eq!(removed("kube-controller-manager").found(), gone);
    assert!(removed("kubectl").found().is_empty(), "another user may delete it");
    let tainted = json!({
        "kind": "Node", "metadata": { "name": "node-a" },
        "spec": { "taints": [{ "key": "k", "effect": "NoExecute" }] },
    });
    let evicted = History::new().applies(pod()).stores(running()).stores(tainted);
    assert!(evicted.removes("kube-controller-manager", &running()).found().is_empty(), "it was evicted");
    let still = History::new().applies(claim()).deletes(&claim());
    assert_eq!(still.found(), ["pvc/default/data exists, although it was deleted"]);
    assert!(History::new().applies(claim()).deletes(&claim()).removes("user", &claim()).found().is_empty());
    let again =
        History::new().applies(claim()).deletes(&claim()).applies(with(claim(), json!({ "metadata": { "uid": "2" } })));
    assert!(again.found().is_empty(), "it was applied again");
    let used = up(|history| history).deletes(&claim());
    assert!(used.found().is_empty(), "a pod uses it");
}

#[test]
fn a_claim_is_bound_when_it_can_be() {
    let at_once = with(class(), json!({ "volumeBindingMode": "Immediate" }));
    let waits = ["pvc/default/data has no volume, and its StorageClass gp3 binds at once"];
    assert_eq!(History::new().applies(at_once.clone()).applies(claim()).found(), waits);
    assert!(History::new().applies(class()).applies(claim()).found().is_empty(), "it waits for its first consumer");
    let chosen = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "node-a" } } });
    let chosen = History::new().applies(class()).applies(claim()).stores(with(claim(), chosen));
    assert_eq!(chosen.found(), ["pvc/default/data has no volume, and the scheduler chose node-a for it"]);
    let answered = |code| {
        let history = History::new().applies(at_once.clone()).applies(claim());
        history.answers("CreateVolume", "pvc-uid-claim", code).found()
    };
    assert!(answered("INVALID_ARGUMENT").is_empty(), "the driver refuses it");
    assert_eq!(answered("INTERNAL"), waits, "an error of the moment does not excuse it");
    let other = with(at_once.clone(), json!({ "provisioner": "other" }));
    assert!(History::new().applies(other).applies(claim()).found().is_empty(), "another driver");
    let source = json!({ "spec": { "dataSource": { "kind": "VolumeSnapshot", "name": "s" } } });
    assert!(History::new().applies(at_once).applies(with(claim(), source)).found().is_empty());
}

#[test]
fn a_claim_asks_for_its_manifest_and_has_its_size() {
    let changed = |change: Value| up(|history| history.stores(with(bound(), json!({ "spec": change })))).found();
    let other = |what: &str| vec![format!("pvc/default/data asks for another {what} than its manifest")];
    assert_eq!(changed(json!({ "accessModes": ["ReadWriteMany"] })), other("access modes"));
    assert_eq!(changed(json!({ "volumeMode": "Block" }))[0], other("volume mode")[0]);
    assert_eq!(changed(json!({ "storageClassName": "other" })), other("StorageClass"));
    assert_eq!(changed(json!({ "resources": { "requests": { "storage": "1Gi" } } })), other("size"));
    let grows = json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } });
    let grown = |history: History| {
        let grows = grows.clone();
        history.patches(&claim(), grows.clone()).stores(with(bound(), grows))
    };
    let small = format!("asks for {} bytes, and its PersistentVolume has {}", 3u64 << 30, 2u64 << 30);
    assert_eq!(up(grown).found(), [format!("pvc/default/data {small}")]);
    let lagging = |history: History| {
        let filesystem = json!({ "status": { "capacity": { "storage": "1Gi" } } });
        grown(history).stores(with(with(bound(), grows.clone()), filesystem))
    };
    assert_eq!(up(lagging).found(), [format!("pvc/default/data {small}")], "its pod lets the node expand");
    let unused = |grown: &dyn Fn(History) -> History| {
        let history = History::new().applies(class()).cloud(2, "gp3").applies(claim()).stores(volume()).stores(bound());
        grown(history).found()
    };
    assert!(unused(&lagging).is_empty(), "the expansion before waits for a node, and so for a pod");
    assert_eq!(unused(&grown), [format!("pvc/default/data {small}")], "nothing waits for a node");
    let refused = up(|history| grown(history).answers("ControllerExpandVolume", VOLUME, "OUT_OF_RANGE"));
    assert!(refused.found().is_empty(), "the driver refuses it");
    let larger = with(volume(), json!({ "spec": { "capacity": { "storage": "3Gi" } } }));
    let half = |history: History| grown(history).stores(larger.clone()).cloud(3, "gp3");
    let status = format!("asks for {} bytes, and its status says {}, with a pod that runs", 3u64 << 30, 2u64 << 30);
    assert_eq!(up(half).found(), [format!("pvc/default/data {status}")]);
    let rounded = format!("has a PersistentVolume of {} bytes, and its status says {}", 3u64 << 30, 2u64 << 30);
    let uneven = |history: History| history.stores(larger.clone()).cloud(3, "gp3");
    assert_eq!(up(uneven).found(), [format!("pvc/default/data {rounded}")]);
    let no_pod = |history: History| half(history).deletes(&pod()).removes("kubelet", &pod());
    let without = no_pod(History::new().applies(class()).cloud(2, "gp3").applies(claim()).stores(volume()));
    assert!(without.found().is_empty(), "the filesystem grows when a pod has it");
}

#[test]
fn a_pod_is_on_a_node_that_has_room() {
    let waits = |history: History| history.has_driver(1).applies(class()).applies(claim()).applies(pod());
    let free = ["pod/default/web is on no node, and node-a has room for it and its volumes"];
    assert_eq!(waits(History::new()).found(), free);
    let chosen = with(pod(), json!({ "spec": { "nodeSelector": { "a": "b" } } }));
    assert!(waits(History::new()).applies(chosen).found().is_empty(), "it may not be there");
    let other = with(running(), json!({ "metadata": { "name": "other", "uid": "2" } }));
    let other_claim = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "other" } }]);
    let other = with(other, json!({ "spec": { "volumes": other_claim } }));
    assert!(waits(History::new().stores(other)).found().is_empty(), "the node is full");
    let mut cordoned = waits(History::new());
    cordoned.applied_objects.cordoned("node-a", true);
    assert!(cordoned.found().is_empty(), "the node is cordoned");
    let away = json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
        { "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"] }] }] } } });
    let elsewhere = History::new().has_driver(1).applies(class()).cloud(2, "gp3").applies(claim());
    let elsewhere = elsewhere.stores(with(volume(), json!({ "spec": away }))).stores(bound()).applies(pod());
    assert!(elsewhere.found().is_empty(), "its volume is in another zone");
    let never = with(pod(), json!({ "spec": { "restartPolicy": "Never" } }));
    let over = with(never.clone(), json!({ "spec": { "nodeName": "node-a" }, "status": { "phase": "Succeeded" } }));
    assert!(History::new().has_driver(1).applies(never).stores(over).found().is_empty(), "it has finished");
}

#[test]
fn a_pod_that_runs_has_its_volumes_as_it_asks() {
    let without = |mut history: History| {
        history.machines.mounts.insert("node-a".to_owned(), Vec::new());
        history.found()
    };
    let missing = format!("pod/default/web runs on node-a without {VOLUME}, the volume of its claim data");
    assert_eq!(without(up(|history| history)), [missing]);
    let of_another = up(|history| history.applies(with(pod(), json!({ "metadata": { "uid": "uid-new" } }))));
    assert_eq!(of_another.found().len(), 1, "the mount is of an earlier pod of that name");
    let unused = with(pod(), json!({ "spec": { "containers": [{ "name": "c" }] } }));
    assert!(without(up(|history| history.applies(unused))).is_empty(), "no container uses it");
    let raw = up(|history| history).mounts(MountKind::Block, false).found();
    assert_eq!(
        raw,
        [format!("pod/default/web has {VOLUME} on node-a as a raw device, and its claim data asks for a filesystem")]
    );
    let reads = up(|history| history).mounts(MountKind::Target, true).found();
    assert_eq!(reads, [format!("pod/default/web can only read {VOLUME} on node-a, and asks to write")]);
    let only_reads = with(volume(), json!({ "spec": { "csi": { "readOnly": true } } }));
    let writes = up(|history| history.stores(only_reads.clone())).found();
    assert_eq!(writes, [format!("pod/default/web can write {VOLUME} on node-a, and may only read")]);
    assert!(up(|history| history.stores(only_reads)).mounts(MountKind::Target, true).found().is_empty());
}

#[test]
fn a_provisioned_volume_is_in_the_cloud_as_its_class_asks() {
    let gone = up(History::loses_its_volume).found();
    assert_eq!(gone, [format!("persistentvolume/pv-1 is Bound, and the cloud has no {VOLUME}")]);
    let other = |history: History| history.cloud(2, "io2");
    let io2 = "persistentvolume/pv-1 has the type io2 in the cloud, and its StorageClass gp3 asks for another";
    assert_eq!(up(other).found(), [io2]);
    let small = up(|history| history.cloud(1, "gp3")).found();
    assert_eq!(small, [format!("persistentvolume/pv-1 has {} bytes, and {VOLUME} has 1 GiB in the cloud", 2u64 << 30)]);
    let fast = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": "fast" },
        "driverName": DRIVER, "parameters": { "type": "io2" },
    });
    let modified = |history: History| {
        let change = json!({ "spec": { "volumeAttributesClassName": "fast" } });
        history.applies(fast.clone()).patches(&claim(), change.clone()).stores(with(bound(), change))
    };
    let gp3 =
        "persistentvolume/pv-1 has the type gp3 in the cloud, and its VolumeAttributesClass fast asks for another";
    assert_eq!(up(modified).found(), [gp3]);
    assert!(up(|history| other(modified(history))).found().is_empty(), "the class of attributes comes first");
    let refused = up(|history| modified(history).answers("ControllerModifyVolume", VOLUME, "INVALID_ARGUMENT"));
    assert!(refused.found().is_empty(), "the driver refuses it");
    let mut touched = up(other);
    touched.applied_objects.touched(VOLUME);
    assert!(touched.found().is_empty(), "the user changed it in the cloud");
}

#[test]
fn a_volume_leaves_or_stays_as_its_reclaim_policy_says() {
    let after = |policy: &str, phase: &str| {
        let change = json!({ "spec": { "persistentVolumeReclaimPolicy": policy }, "status": { "phase": phase } });
        let history = History::new().applies(class()).cloud(2, "gp3").applies(claim()).stores(bound());
        let history = history.deletes(&claim()).removes("user", &claim());
        history.stores(with(volume(), change))
    };
    let left = "persistentvolume/pv-1 is there, and its claim default/data is gone, with the reclaim policy Delete";
    assert_eq!(after("Delete", "Released").found(), [left]);
    let went = after("Delete", "Released").removes("csi-provisioner", &volume());
    assert!(went.found().is_empty());
    assert!(after("Retain", "Released").found().is_empty());
    assert_eq!(after("Retain", "Bound").found(), ["persistentvolume/pv-1 is Bound, and its claim is gone"]);
    let lost = after("Retain", "Released").loses_its_volume().found();
    assert_eq!(lost, [format!("persistentvolume/pv-1 is Released, and the cloud has no {VOLUME}")]);
}
