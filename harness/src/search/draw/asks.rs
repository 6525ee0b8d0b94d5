//! Additions to some drawn runs that request volumes in other ways: zones, Retain, static volumes, raw devices,
//! read-only use, filesystems with mount options, VolumeAttributesClasses, ReadWriteOncePod, pods of two priorities,
//! pods that return under the same name, and an unmount that fails for longer than attach-detach waits. Additions have
//! their own random stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Drawn;
use super::builder::{Builder, delete, has_written, pod, wait};
use super::extras::cloud_is_left_alone;
use super::priorities::{self, Prize};
use crate::spec::cluster::node_name;

/// One of this many runs has an addition.
const ONE_OF: u64 = 10;
/// The same for additions that need a cloud without faults, which few runs have.
const RARE: u64 = 4;
/// The driver whose volumes are requested.
const DRIVER: &str = "ebs.csi.aws.com";
/// The zone of the node that is added.
const ZONE: &str = "us-east-1b";

/// An addition: adds its objects and steps to a document.
type Addition = fn(&mut Builder);

/// All additions with their names and frequencies. The random stream is consumed in this order.
const ADDITIONS: &[(&str, u64, Addition)] = &[
    ("zones", ONE_OF, Builder::zone),
    ("Retain", ONE_OF, Builder::retain),
    ("static volume", ONE_OF, Builder::made_beforehand),
    ("raw device", ONE_OF, Builder::raw),
    ("read-only pod", ONE_OF, Builder::read_only),
    ("filesystem and mount options", ONE_OF, Builder::filesystem),
    ("VolumeAttributesClass", ONE_OF, Builder::attributes),
    ("ReadWriteOncePod", ONE_OF, Builder::for_one_pod),
    ("pod of the same name", ONE_OF, Builder::same_name),
    ("unmount that fails for eight minutes", ONE_OF, Builder::unmount_fails),
    ("size between two GiB", ONE_OF, Builder::uneven),
    ("policy that is changed to Retain", RARE, Builder::changed_to_retain),
    ("volume that is given again read-only", RARE, Builder::given_again),
    ("growth of a class with IOPS", ONE_OF, Builder::fast_grows),
    ("larger copy", ONE_OF, Builder::larger_copy),
    ("raw device that grows", ONE_OF, Builder::raw_grows),
    ("pod that stays on a node that comes back", ONE_OF, Builder::outlasts),
    ("static volumes of several sizes", RARE, Builder::smallest),
    ("claim that goes before its pod", ONE_OF, Builder::goes_first),
    ("ephemeral volumes", ONE_OF, Builder::ephemeral),
    ("files of a group", ONE_OF, Builder::group),
    ("raw device of two nodes", ONE_OF, Builder::shared),
    ("raw device that loses power", ONE_OF, Builder::loses_power),
    ("pod of a higher priority", ONE_OF, Builder::preempts),
];

/// Returns the names of the additions.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ADDITIONS.iter().map(|(name, ..)| *name)
}

/// Adds the drawn requests to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut asks = Builder::new(&document, rng);
    let fits = asks.has_room();
    for (kind, one_of, addition) in ADDITIONS {
        if asks.one_of(*one_of) && fits {
            let before = asks.tree.clone();
            addition(&mut asks);
            if asks.tree != before {
                kinds.push(kind);
            }
        }
    }
    Drawn { document: asks.finish(), kinds }
}

/// Returns a pod that reads the volume of a claim, which is given as the source of the pod's volume.
fn reader(name: &str, node: &str, claim: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": node },
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "reader",
                "image": "mooring/writer",
                "volumeMounts": [{ "name": "data", "mountPath": "/data", "readOnly": true }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": claim }],
        },
    })
}

/// Returns a StorageClass with these parameters beside its type, and other fields.
fn class(name: &str, parameters: &[(&str, &str)], fields: Value) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": DRIVER,
        "parameters": { "type": "gp3" },
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    for (key, value) in parameters {
        class["parameters"][key] = (*value).into();
    }
    if let (Some(class), Value::Object(fields)) = (class.as_object_mut(), fields) {
        class.extend(fields);
    }
    json!({ "apply": class })
}

/// Creates a volume in the cloud. `name` is the name of its saved id.
fn made(name: &str, gib: u64) -> Value {
    let with = json!({ "AvailabilityZone": "us-east-1a", "Size": gib });
    json!({ "ec2": { "action": "CreateVolume", "with": with, "save": name, "from": "VolumeId" } })
}

/// Returns a PersistentVolume for a volume of the cloud, with other fields of its spec.
fn static_volume(name: &str, of: &str, gib: u64, fields: Value) -> Value {
    let mut pv = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": format!("{gib}Gi") },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": { "driver": DRIVER, "volumeHandle": { "saved": of }, "fsType": "ext4" },
        },
    });
    if let (Some(spec), Value::Object(fields)) = (pv["spec"].as_object_mut(), fields) {
        spec.extend(fields);
    }
    pv
}

/// Requests another size, and waits for it.
fn grows(claim: &str, gib: u64) -> [Value; 2] {
    let (object, with) =
        (format!("pvc/{claim}"), json!({ "spec": { "resources": { "requests": { "storage": format!("{gib}Gi") } } } }));
    let has = format!("quantity(self.status.capacity.storage).compareTo(quantity('{gib}Gi')) >= 0");
    [
        json!({ "patch": { "object": object, "with": with } }),
        json!({ "wait": { "object": object, "that": has, "within": "40m" } }),
    ]
}

impl Builder {
    /// Adds a volume in the zone of an additional node, for a pod that may run on any node when it returns.
    fn zone(&mut self) {
        let Some(count) = self.tree["nodes"]["count"].as_u64() else { return };
        // The copy of a volume has no node affinity, so its pod could run in the other zone.
        if self.tree.to_string().contains("\"pod/reader\"") {
            return;
        }
        let nodes = (0..count).map(|at| json!({ "name": node_name(at as usize) }));
        let nodes = nodes.chain([json!({ "name": "node-far", "zone": ZONE })]).collect::<Vec<_>>();
        self.tree["nodes"] = nodes.into();
        let anywhere = json!({ "pod": { "name": "zoned-2", "claim": "zoned", "grace": "5s", "tolerate": true } });
        let first = pod("zoned-1", "zoned", "node-far");
        let claim = json!({ "claim": { "name": "zoned" } });
        let goes = delete("pod/zoned-1");
        self.steps([claim, first, has_written("zoned-1"), goes, anywhere, has_written("zoned-2")]);
        let allowed =
            json!([{ "matchLabelExpressions": [{ "key": "topology.ebs.csi.aws.com/zone", "values": [ZONE] }] }]);
        let at_once = json!({ "allowedTopologies": allowed, "volumeBindingMode": "Immediate" });
        let claim = json!({ "claim": { "name": "distant", "class": "distant" } });
        self.steps([class("distant", &[], at_once), claim, wait("pvc/distant", "Bound")]);
    }

    /// Deletes a claim whose volume is retained.
    fn retain(&mut self) {
        let (node, class) = (self.any(&["node-a", "node-b"]), class("kept", &[], json!({ "reclaimPolicy": "Retain" })));
        let claim = json!({ "claim": { "name": "kept", "class": "kept" } });
        let begins = [class, claim, pod("kept", "kept", node), has_written("kept")];
        let ends = [delete("pod/kept"), delete("pvc/kept"), wait("pvc/kept", "gone"), json!({ "sleep": "1m" })];
        self.steps(begins.into_iter().chain(ends));
    }

    /// Adds a volume that a user creates in the cloud, with its PersistentVolume.
    fn made_beforehand(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let made = made("own", 2);
        let pv = static_volume("own", "own", 2, json!({ "mountOptions": ["noatime"] }));
        let claim = json!({ "claim": { "name": "own", "class": "", "volume": "own" } });
        let begins = [made, json!({ "apply": pv }), claim, pod("own-1", "own", "node-a"), has_written("own-1")];
        let ends = [delete("pod/own-1"), delete("pvc/own"), wait("pvc/own", "gone"), wait("pv/own", "Released")];
        self.steps(begins.into_iter().chain(ends));
    }

    /// Adds a raw device that moves.
    fn raw(&mut self) {
        let to = self.any(&["node-a", "node-b"]);
        let pod = |name: &str, node: &str| {
            let mut pod = pod(name, "raw", node);
            pod["pod"]["block"] = true.into();
            pod
        };
        let claim = json!({ "claim": { "name": "raw", "block": true } });
        let begins = [claim, pod("raw-1", "node-a"), has_written("raw-1"), delete("pod/raw-1")];
        self.steps(begins.into_iter().chain([pod("raw-2", to), has_written("raw-2")]));
    }

    /// Adds a pod that mounts the volume of another pod read-only.
    fn read_only(&mut self) {
        let to = self.any(&["node-a", "node-b"]);
        let reader = reader("reads", to, &json!({ "claimName": "read", "readOnly": true }));
        let claim = json!({ "claim": { "name": "read" } });
        let begins = [claim, pod("writes", "read", "node-a"), has_written("writes"), delete("pod/writes")];
        let reads = [wait("pod/writes", "gone"), json!({ "apply": reader }), wait("pod/reads", "Running")];
        self.steps(begins.into_iter().chain(reads));
    }

    /// Adds a filesystem and mount options from a class, first on one node and then on another.
    fn filesystem(&mut self) {
        let (fs_type, option) = (self.any(&["ext4", "xfs", "btrfs"]), self.any(&["noatime", "nodiratime"]));
        let parameters = [("csi.storage.k8s.io/fstype", fs_type)];
        let class = class("formatted", &parameters, json!({ "mountOptions": [option] }));
        let claim = json!({ "claim": { "name": "formatted", "class": "formatted" } });
        let begins = [class, claim, pod("formatted-1", "formatted", "node-a"), has_written("formatted-1")];
        let goes = [delete("pod/formatted-1"), pod("formatted-2", "formatted", "node-b"), has_written("formatted-2")];
        self.steps(begins.into_iter().chain(goes));
    }

    /// Adds a volume with a type and attributes from a class, which change.
    fn attributes(&mut self) {
        let attributes = |name: &str, iops: &str| {
            json!({
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttributesClass",
                "metadata": { "name": name },
                "driverName": DRIVER,
                "parameters": { "iops": iops },
            })
        };
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "faster" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "volumeAttributesClassName": "silver",
                "resources": { "requests": { "storage": "20Gi" } },
            },
        });
        let with = json!({ "spec": { "volumeAttributesClassName": "gold" } });
        let is_gold = "self.status.?currentVolumeAttributesClassName.orValue('') == 'gold'";
        self.steps([
            json!({ "apply": [attributes("silver", "3000"), attributes("gold", "6000")] }),
            json!({ "apply": claim }),
            pod("faster", "faster", "node-b"),
            has_written("faster"),
            // The class must stay until no claim has it.
            json!({ "sleep": "1m" }),
            delete("vac/silver"),
            json!({ "patch": { "object": "pvc/faster", "with": with } }),
            json!({ "wait": { "object": "pvc/faster", "that": is_gold, "within": "40m" } }),
            wait("vac/silver", "gone"),
        ]);
        let class = class("encrypted", &[("encrypted", "true"), ("iops", "4000")], json!({}));
        let claim = json!({ "claim": { "name": "encrypted", "class": "encrypted", "size": "20Gi" } });
        self.steps([class, claim, pod("encrypted", "encrypted", "node-a"), has_written("encrypted")]);
    }

    /// Adds a raw device that is attached to two nodes at the same time.
    fn shared(&mut self) {
        let device = |name: &str, node: &str| {
            let mut pod = reader(name, node, &json!({ "claimName": "shared" }));
            // Two writers would overwrite each other's records.
            pod["metadata"]["annotations"] = json!({ "mooring.dev/records": "0" });
            let container = &mut pod["spec"]["containers"][0];
            container["volumeMounts"] = json!([]);
            container["volumeDevices"] = json!([{ "name": "data", "devicePath": "/dev/data" }]);
            json!({ "apply": pod })
        };
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "shared" },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "volumeMode": "Block",
                "storageClassName": "shared",
                "resources": { "requests": { "storage": "10Gi" } },
            },
        });
        let class = class("shared", &[("type", "io2"), ("iops", "1000")], json!({}));
        let pods = [device("shared-1", "node-a"), device("shared-2", "node-b")];
        let both = [wait("pod/shared-1", "Running"), wait("pod/shared-2", "Running"), delete("pod/shared-1")];
        self.steps([class, json!({ "apply": claim })].into_iter().chain(pods).chain(both));
    }

    /// Adds a raw device whose machine loses power. The synced records must still exist afterwards.
    fn loses_power(&mut self) {
        let mut writes = pod("survives", "survives", "node-b");
        writes["pod"]["block"] = true.into();
        let claim = json!({ "claim": { "name": "survives", "block": true } });
        let down = self.any(&["1s", "2m"]);
        let begins = [claim, writes, has_written("survives"), json!({ "crash": "node-b" }), json!({ "sleep": down })];
        let intact = json!({ "expect": { "bytes-intact": "pod/survives", "records": 2 } });
        self.steps(begins.into_iter().chain([json!({ "restart": "node-b" }), has_written("survives"), intact]));
    }

    /// Adds a pod that preempts a pod of lower priority.
    fn preempts(&mut self) {
        let (node, prize) = (self.any(&["node-a", "node-b"]), self.any(&[Prize::Cpu, Prize::Claim]));
        self.steps(priorities::steps(node, prize));
    }

    /// Adds a pod with two generic ephemeral volumes, which are deleted with it.
    fn ephemeral(&mut self) {
        let node = self.any(&["node-a", "node-b"]);
        let volume = |name: &str, size: &str, labels: Value| {
            let spec = json!({
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "resources": { "requests": { "storage": size } },
            });
            let template = json!({ "metadata": { "labels": labels }, "spec": spec });
            json!({ "name": name, "ephemeral": { "volumeClaimTemplate": template } })
        };
        let mut scratch = reader("scratch", node, &Value::Null);
        scratch["spec"]["volumes"] =
            json!([volume("data", "1Gi", json!({})), volume("more", "3Gi", json!({ "of": "more" }))]);
        scratch["spec"]["containers"][0]["volumeMounts"] =
            json!([{ "name": "data", "mountPath": "/data" }, { "name": "more", "mountPath": "/more" }]);
        let gone = ["pvc/scratch-data", "pvc/scratch-more"].map(|claim| wait(claim, "gone"));
        let mut stays = reader("stays", node, &Value::Null);
        stays["spec"]["volumes"] = json!([volume("data", "1Gi", json!({ "of": "stays" }))]);
        stays["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
        let begins = [json!({ "apply": scratch }), has_written("scratch"), delete("pod/scratch")];
        let ends = [json!({ "apply": stays }), has_written("stays")];
        self.steps(begins.into_iter().chain(gone).chain(ends));
    }

    /// Adds a pod with fsGroup, and its successor with another fsGroup.
    fn group(&mut self) {
        let node = self.any(&["node-a", "node-b"]);
        let of_group = |name: &str, group: u64| {
            let mut pod = reader(name, node, &json!({ "claimName": "grouped" }));
            pod["spec"]["securityContext"] = json!({ "fsGroup": group });
            pod["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
            json!({ "apply": pod })
        };
        let claim = json!({ "claim": { "name": "grouped" } });
        let begins = [claim, of_group("grouped-1", 2000), has_written("grouped-1"), delete("pod/grouped-1")];
        let goes = [wait("pod/grouped-1", "gone"), of_group("grouped-2", 3000), has_written("grouped-2")];
        self.steps(begins.into_iter().chain(goes));
    }

    /// Adds two pods with the same ReadWriteOncePod claim.
    fn for_one_pod(&mut self) {
        let anywhere = |name: &str| json!({ "pod": { "name": name, "claim": "one", "grace": "5s", "tolerate": true } });
        let claim = json!({ "claim": { "name": "one", "mode": "ReadWriteOncePod" } });
        let begins = [claim, anywhere("one-1"), has_written("one-1"), anywhere("one-2"), json!({ "sleep": "20s" })];
        self.steps(begins.into_iter().chain([delete("pod/one-1"), has_written("one-2")]));
    }

    /// Adds a pod that is force-deleted and created again under the same name.
    fn same_name(&mut self) {
        let (to, later) = (self.any(&["node-a", "node-b"]), self.any(&["0s", "100ms", "3s"]));
        let claim = json!({ "claim": { "name": "again" } });
        let goes = json!({ "delete": { "object": "pod/again", "force": true } });
        let begins = [claim, pod("again", "again", "node-a"), has_written("again"), goes];
        self.steps(begins.into_iter().chain([
            json!({ "sleep": later }),
            pod("again", "again", to),
            has_written("again"),
        ]));
    }

    /// Adds a move during which the old node cannot unmount, for longer than attach-detach waits for an unmount.
    fn unmount_fails(&mut self) {
        let op = self.any(&["unpublish", "unstage"]);
        let fault = json!({
            "name": "busy",
            "match": { "plane": "disk", "op": op, "where": { "node": "node-a" } },
            "when": { "for": "8m" },
            "effect": { "io_error": "EBUSY" },
        });
        let claim = json!({ "claim": { "name": "stuck" } });
        let begins = [claim, pod("stuck-1", "stuck", "node-a"), has_written("stuck-1"), json!({ "fault": fault })];
        let goes = [delete("pod/stuck-1"), pod("stuck-2", "stuck", "node-b"), has_written("stuck-2")];
        self.steps(begins.into_iter().chain(goes));
    }

    /// Adds a claim with a size that the cloud rounds up.
    fn uneven(&mut self) {
        let claim = json!({ "claim": { "name": "uneven", "size": "1500Mi" } });
        self.steps([claim, pod("uneven", "uneven", "node-b"), has_written("uneven")]);
    }

    /// Changes the reclaim policy of a volume to Retain before its claim and the PersistentVolume are deleted.
    fn changed_to_retain(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let pv = static_volume("saved", "saved", 1, json!({ "persistentVolumeReclaimPolicy": "Delete" }));
        let claim = json!({ "claim": { "name": "saved", "class": "", "volume": "saved" } });
        let keeps = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
        self.steps([
            made("saved", 1),
            json!({ "apply": pv }),
            claim,
            pod("saved", "saved", "node-a"),
            has_written("saved"),
            json!({ "patch": { "object": "pv/saved", "with": keeps } }),
            delete("pod/saved"),
            delete("pvc/saved"),
            wait("pvc/saved", "gone"),
            delete("pv/saved"),
            wait("pv/saved", "gone"),
        ]);
    }

    /// Deletes the PersistentVolume of a retained volume while it is attached, and gives the volume to another claim,
    /// read-only.
    fn given_again(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let csi = json!({ "driver": DRIVER, "volumeHandle": { "saved": "given" }, "fsType": "ext4", "readOnly": true });
        let reader = reader("given-2", "node-b", &json!({ "claimName": "given-2" }));
        self.steps([
            made("given", 1),
            json!({ "apply": static_volume("given-1", "given", 1, json!({})) }),
            json!({ "claim": { "name": "given-1", "class": "", "volume": "given-1" } }),
            pod("given-1", "given-1", "node-a"),
            has_written("given-1"),
            delete("pod/given-1"),
            delete("pvc/given-1"),
            wait("pvc/given-1", "gone"),
            delete("pv/given-1"),
            wait("pv/given-1", "gone"),
            json!({ "apply": static_volume("given-2", "given", 1, json!({ "csi": csi })) }),
            json!({ "claim": { "name": "given-2", "class": "", "volume": "given-2" } }),
            json!({ "apply": reader }),
            wait("pod/given-2", "Running"),
        ]);
    }

    /// Adds a volume with more IOPS than the default of its type, which grows.
    fn fast_grows(&mut self) {
        let claim = json!({ "claim": { "name": "fast", "class": "fast", "size": "20Gi" } });
        let begins =
            [class("fast", &[("iops", "4000"), ("throughput", "250")], json!({ "allowVolumeExpansion": true })), claim];
        let runs = [pod("fast", "fast", "node-a"), has_written("fast")];
        self.steps(begins.into_iter().chain(runs).chain(grows("fast", 30)));
    }

    /// Adds a copy of a claim that is larger than its source.
    fn larger_copy(&mut self) {
        let copy = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "larger-2" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "dataSource": { "kind": "PersistentVolumeClaim", "name": "larger-1" },
                "resources": { "requests": { "storage": "4Gi" } },
            },
        });
        let source = json!({ "claim": { "name": "larger-1" } });
        let begins = [source, pod("larger-1", "larger-1", "node-a"), has_written("larger-1")];
        let ends = [json!({ "apply": copy }), pod("larger-2", "larger-2", "node-a"), wait("pod/larger-2", "Running")];
        self.steps(begins.into_iter().chain(ends));
    }

    /// Adds a raw device that grows while a pod uses it.
    fn raw_grows(&mut self) {
        let mut runs = pod("raw-grows", "raw-grows", "node-b");
        runs["pod"]["block"] = true.into();
        let claim = json!({ "claim": { "name": "raw-grows", "block": true } });
        self.steps([claim, runs, has_written("raw-grows")].into_iter().chain(grows("raw-grows", 3)));
    }

    /// Adds a pod with the default tolerations on a node whose kubelet is down for less than these tolerate.
    fn outlasts(&mut self) {
        let away = self.any(&["1m", "3m"]);
        let mut runs = pod("outlasts", "outlasts", "node-a");
        if let Some(pod) = runs["pod"].as_object_mut() {
            pod.remove("tolerate");
        }
        self.steps([
            json!({ "claim": { "name": "outlasts" } }),
            runs,
            has_written("outlasts"),
            json!({ "crash": "node-a/kubelet" }),
            json!({ "sleep": away }),
            json!({ "restart": "node-a/kubelet" }),
            json!({ "sleep": "10m" }),
            json!({ "wait": { "object": "pod/outlasts", "is": "Running", "within": "40m" } }),
        ]);
    }

    /// Adds static volumes of one class; the smallest is large enough.
    fn smallest(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let manual = || json!({ "storageClassName": "manual" });
        let (big, small) = (static_volume("a-big", "big", 5, manual()), static_volume("b-small", "small", 2, manual()));
        let has = "self.spec.volumeName == 'b-small' && self.status.capacity.storage == '2Gi'";
        self.steps([
            made("big", 5),
            made("small", 2),
            json!({ "apply": [big, small] }),
            wait("pv/a-big", "Available"),
            wait("pv/b-small", "Available"),
            json!({ "claim": { "name": "smallest", "class": "manual" } }),
            pod("smallest", "smallest", "node-a"),
            has_written("smallest"),
            json!({ "wait": { "object": "pvc/smallest", "that": has, "within": "40m" } }),
        ]);
        // The larger volume has the label that a second claim selects.
        let mut labelled = static_volume("c-labelled", "labelled", 7, manual());
        labelled["metadata"]["labels"] = json!({ "disk": "labelled" });
        let selects = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "selects" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "manual",
                "selector": { "matchLabels": { "disk": "labelled" } },
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        self.steps([
            made("labelled", 7),
            json!({ "apply": labelled }),
            wait("pv/c-labelled", "Available"),
            json!({ "apply": selects }),
            wait("pvc/selects", "Bound"),
        ]);
    }

    /// Deletes a claim while its pod runs. The claim must stay until the pod is gone.
    fn goes_first(&mut self) {
        let claim = json!({ "claim": { "name": "first" } });
        let begins = [claim, pod("first", "first", "node-a"), has_written("first"), delete("pvc/first")];
        let ends = [json!({ "sleep": "1m" }), delete("pod/first"), wait("pvc/first", "gone")];
        self.steps(begins.into_iter().chain(ends));
    }
}
