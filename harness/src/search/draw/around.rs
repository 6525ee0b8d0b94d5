//! Additions to some drawn runs with objects around pods and claims: quotas and limits, Services, DaemonSets on relabelled
//! nodes, CronJobs, groups of snapshots, pods that keep apart, hooks, namespaces with equal names, classes whose default
//! changes, tags that a user sets in the cloud, and a taint that evicts a pod. At the end, loops have derived states from
//! them. Additions have their own random stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Drawn;
use super::builder::{Builder, claim, delete, has_written, pod, wait, wait_that};
use super::extras::cloud_is_left_alone;
use super::pairs::INSTANCE_REPLACED;

/// Each addition occurs in one of this many runs.
const ONE_OF: u64 = 24;
/// The same for additions that need a cloud without latency or without faults, which few runs have.
const RARE: u64 = 5;
/// The driver.
const DRIVER: &str = "ebs.csi.aws.com";
/// Annotation of the default StorageClass.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// An addition: adds its objects and steps to a document.
type Addition = fn(&mut Builder);

/// All additions with their names and frequencies. The random stream is consumed in this order.
const ADDITIONS: &[(&str, u64, Addition)] = &[
    ("ResourceQuota and LimitRange", ONE_OF, Builder::quota),
    ("Service with pods", ONE_OF, Builder::service),
    ("DaemonSet and a relabelled node", ONE_OF, Builder::daemons),
    ("CronJob", ONE_OF, Builder::cron_job),
    ("group of snapshots", RARE, Builder::group_snapshot),
    ("pods that keep apart", ONE_OF, Builder::apart),
    ("pod with a hook", ONE_OF, Builder::hook),
    ("namespaces with equal names", ONE_OF, Builder::namespaces),
    ("default class that changes", ONE_OF, Builder::default_class),
    ("default snapshot classes of two drivers", ONE_OF, Builder::snapshot_classes),
    ("volume that is tagged by hand", RARE, Builder::tagged),
    // It is the last one: it evicts other pods, too.
    ("pod that is evicted by a taint", ONE_OF, Builder::evicted),
];

/// Returns the names of the additions.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ADDITIONS.iter().map(|(name, ..)| *name)
}

/// Adds the drawn objects to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut around = Builder::new(&document, rng);
    // Both nodes are needed.
    let fits = around.has_room() && !kinds.contains(&INSTANCE_REPLACED);
    for (name, one_of, addition) in ADDITIONS {
        if around.one_of(*one_of) && fits {
            let before = around.tree.clone();
            addition(&mut around);
            if around.tree != before {
                kinds.push(name);
            }
        }
    }
    Drawn { document: around.finish(), kinds }
}

fn apply(objects: impl Into<Value>) -> Value {
    let objects: Value = objects.into();
    json!({ "apply": objects })
}

fn patch(object: &str, with: &Value) -> Value {
    json!({ "patch": { "object": object, "with": with } })
}

fn labelled(object: &str, label: &str, value: &str) -> Value {
    patch(object, &json!({ "metadata": { "labels": { label: value } } }))
}

fn grown_to(claim: &str, size: &str) -> [Value; 2] {
    let object = format!("pvc/{claim}");
    let has = format!("quantity(self.status.capacity.storage).compareTo(quantity('{size}')) >= 0");
    let requests = json!({ "spec": { "resources": { "requests": { "storage": size } } } });
    [patch(&object, &requests), wait_that(&object, &has)]
}

/// Returns a pod without a volume that tolerates every taint, with more fields in its spec.
fn plain(name: &str, app: &str, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "app", "image": "busybox" }],
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// Returns a requirement to run on, or not on, the node of a pod of an application.
fn affinity(kind: &str, app: &str) -> Value {
    let term = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } });
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

fn runs(pod: &str) -> Value {
    wait(&format!("pod/{pod}"), "Running")
}

impl Builder {
    /// Adds a quota and limits that all objects keep to; claims are grown and deleted, and the quota is raised.
    fn quota(&mut self) {
        let hard = json!({
            "persistentvolumeclaims": "40", "requests.storage": "500Gi", "pods": "80", "count/pods": "80",
            "gp3.storageclass.storage.k8s.io/requests.storage": "500Gi",
        });
        let metadata = json!({ "name": "all" });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": { "hard": hard },
        });
        let bounds = json!({
            "type": "PersistentVolumeClaim", "min": { "storage": "1Gi" }, "max": { "storage": "100Gi" },
        });
        let limits = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": { "limits": [bounds] },
        });
        let is_counted = wait_that("resourcequota/all", "self.?status.?used.?pods.orValue('') != ''");
        let begins = [apply(json!([quota, limits])), is_counted, claim("counted"), claim("uncounted")];
        let writes = [pod("counted", "counted", "node-a"), has_written("counted")];
        let raised = patch("resourcequota/all", &json!({ "spec": { "hard": { "pods": "90" } } }));
        let ends = [delete("pvc/uncounted"), wait("pvc/uncounted", "gone"), raised];
        self.steps(begins.into_iter().chain(writes).chain(grown_to("counted", "3Gi")).chain(ends));
    }

    /// Adds a Service of two ports with three pods, of which one goes and one is no longer selected.
    fn service(&mut self) {
        let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }, { "name": "metrics", "port": 9090 }]);
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "shop" },
            "spec": { "selector": { "app": "shop" }, "ports": ports },
        });
        let names = ["shop-1", "shop-2", "shop-3"];
        let pods = names.map(|name| plain(name, "shop", &Value::Null));
        self.steps([apply(service), apply(pods.to_vec())]);
        self.steps(names.map(runs));
        self.steps([
            delete("pod/shop-1"),
            labelled("pod/shop-2", "app", "former"),
            labelled("service/shop", "team", "b"),
            wait("pod/shop-1", "gone"),
        ]);
    }

    /// Adds a DaemonSet that selects a node by a label, which is changed and changed back.
    fn daemons(&mut self) {
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": { "name": "agent" },
            "spec": {
                "selector": { "matchLabels": { "app": "agent" } },
                "template": {
                    "metadata": { "labels": { "app": "agent" } },
                    "spec": {
                        "nodeSelector": { "disk": "ssd" },
                        "terminationGracePeriodSeconds": 5,
                        "containers": [{ "name": "agent", "image": "busybox" }],
                    },
                },
            },
        });
        let node = self.any(&["node/node-a", "node/node-b"]);
        let has = |pods: u8| {
            let that = format!(
                "self.?status.desiredNumberScheduled.orValue(0) == {pods} && self.?status.numberReady.orValue(0) == \
                 {pods} && self.?status.numberMisscheduled.orValue(0) == 0"
            );
            wait_that("daemonset/agent", &that)
        };
        let begins = [apply(set), labelled(node, "disk", "ssd"), has(1)];
        let ends = [labelled(node, "disk", "hdd"), has(0), labelled(node, "disk", "ssd"), has(1)];
        self.steps(begins.into_iter().chain(ends));
    }

    /// Adds a CronJob that starts a Job in each of three minutes, and is suspended then.
    fn cron_job(&mut self) {
        let template = json!({
            "metadata": { "annotations": { "mooring.dev/run-for": "5s" } },
            "spec": {
                "restartPolicy": "Never",
                "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": "app", "image": "busybox" }],
            },
        });
        let (policy, limit) = (self.any(&["Allow", "Forbid", "Replace"]), self.any(&[0, 1]));
        let cron_job = json!({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": { "name": "tick" },
            "spec": {
                "schedule": "* * * * *",
                "concurrencyPolicy": policy,
                "successfulJobsHistoryLimit": limit,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": { "spec": { "template": template } },
            },
        });
        let rests = "self.?status.lastScheduleTime.orValue('') != '' && self.?status.active.orValue([]).size() == 0";
        self.steps([
            apply(cron_job),
            json!({ "sleep": "3m" }),
            patch("cronjob/tick", &json!({ "spec": { "suspend": true } })),
            wait_that("cronjob/tick", rests),
        ]);
    }

    /// Adds a snapshot of two claims as a group. Upstream asks without a pause for a group that is not ready, so only a
    /// cloud without latency is asked.
    fn group_snapshot(&mut self) {
        if self.tree["latency"] != "instant" {
            return;
        }
        let needed = "+GROUP_CONTROLLER_SERVICE,+CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT";
        let given = self.tree["driver"]["capabilities"].as_str().map(|given| format!("{given},"));
        self.tree["driver"]["capabilities"] = (given.unwrap_or_default() + needed).into();
        let api_version = "groupsnapshot.storage.k8s.io/v1";
        let class = json!({
            "apiVersion": api_version,
            "kind": "VolumeGroupSnapshotClass",
            "metadata": { "name": "together" },
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        });
        let selector = json!({ "matchLabels": { "group": "both" } });
        let group = json!({
            "apiVersion": api_version,
            "kind": "VolumeGroupSnapshot",
            "metadata": { "name": "both" },
            "spec": { "volumeGroupSnapshotClassName": "together", "source": { "selector": selector } },
        });
        for name in ["first", "second"] {
            let labelled = labelled(&format!("pvc/{name}"), "group", "both");
            // EC2 takes the snapshots of one instance together.
            self.steps([claim(name), labelled, pod(name, name, "node-a"), has_written(name)]);
        }
        let members = "self.filter(s, s.?status.?volumeGroupSnapshotName.orValue('') == 'both' && \
                       s.?status.?readyToUse.orValue(false)).size() == 2";
        self.steps([
            apply(json!([class, group])),
            wait_that("vgs/both", "self.?status.?readyToUse.orValue(false)"),
            json!({ "wait": { "list": "volumesnapshots", "that": members, "within": "40m" } }),
        ]);
        if self.any(&[false, true]) {
            self.steps([delete("vgs/both"), wait("vgs/both", "gone")]);
        }
    }

    /// Adds pods that run on different nodes, one beside them, and one that takes a free place.
    fn apart(&mut self) {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "spread" } },
        });
        let spread = json!({ "topologySpreadConstraints": [constraint] });
        let (away, near) = (affinity("podAntiAffinity", "apart"), affinity("podAffinity", "apart"));
        let pods = [
            plain("apart-1", "apart", &away),
            plain("apart-2", "apart", &away),
            plain("spread-1", "spread", &spread),
            plain("spread-2", "spread", &spread),
        ];
        self.steps([apply(pods.to_vec())]);
        self.steps(["apart-1", "apart-2", "spread-1", "spread-2"].map(runs));
        self.steps([
            apply(plain("beside", "beside", &near)),
            runs("beside"),
            delete("pod/apart-1"),
            wait("pod/apart-1", "gone"),
            apply(plain("apart-3", "apart", &away)),
            runs("apart-3"),
        ]);
    }

    /// Adds a pod whose second container has a preStop hook. Another pod takes over its volume.
    fn hook(&mut self) {
        let containers = json!([
            { "name": "proxy", "image": "busybox" },
            {
                "name": "writer",
                "image": "mooring/writer",
                "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            },
        ]);
        let more = json!({
            // The zone of the next pod, too.
            "nodeSelector": { "kubernetes.io/hostname": "node-a" },
            "terminationGracePeriodSeconds": 30,
            "containers": containers,
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "hooked" } }],
        });
        let begins = [claim("hooked"), apply(plain("hooked", "hooked", &more)), has_written("hooked")];
        let goes = [delete("pod/hooked"), wait("pod/hooked", "gone")];
        self.steps(
            begins.into_iter().chain(goes).chain([pod("unhooked", "hooked", "node-b"), has_written("unhooked")]),
        );
    }

    /// Adds claims and pods of the same names in two namespaces, of which one is deleted with all that is in it.
    fn namespaces(&mut self) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
        let [mut other_claim, mut other_pod] = [claim("same"), pod("same", "same", "node-a")];
        other_claim["claim"]["namespace"] = "team".into();
        other_pod["pod"]["namespace"] = "team".into();
        let begins = [apply(namespace), claim("same"), other_claim, pod("same", "same", "node-a"), other_pod];
        let both = [has_written("same"), has_written("team/same")];
        let goes = [delete("namespace/team"), wait("namespace/team", "gone")];
        let moves = [delete("pod/same"), wait("pod/same", "gone"), pod("same", "same", "node-b"), has_written("same")];
        self.steps(begins.into_iter().chain(both).chain(goes).chain(moves));
    }

    /// Adds a second default class, which a claim without a class gets, and which then is not the default any longer.
    fn default_class(&mut self) {
        let is_default = |value: &str| json!({ "metadata": { "annotations": { DEFAULT: value } } });
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": "newer", "annotations": { DEFAULT: "true" } },
            "provisioner": DRIVER,
            "parameters": { "type": "gp3" },
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        let unclassed = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "unclassed" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        let has_it = wait_that("pvc/unclassed", "self.spec.?storageClassName.orValue('') == 'newer'");
        let begins = [apply(class), apply(unclassed), has_it, patch("storageclass/newer", &is_default("false"))];
        let writes = [pod("unclassed", "unclassed", "node-b"), has_written("unclassed")];
        let later = json!({ "claim": { "name": "later", "class": "newer" } });
        let ends = [later, pod("later", "later", "node-a"), has_written("later")];
        self.steps(begins.into_iter().chain(writes).chain(ends));
    }

    /// Adds default snapshot classes of two drivers, and a snapshot without a class. Another addition may have a default
    /// class of this driver already.
    fn snapshot_classes(&mut self) {
        if self.tree["steps"].to_string().contains("\"snapshot\":") {
            return;
        }
        let api_version = "snapshot.storage.k8s.io/v1";
        let class = |name: &str, driver: &str| {
            json!({
                "apiVersion": api_version,
                "kind": "VolumeSnapshotClass",
                "metadata": { "name": name, "annotations": { "snapshot.storage.kubernetes.io/is-default-class": "true" } },
                "driver": driver,
                "deletionPolicy": "Delete",
            })
        };
        let snapshot = json!({
            "apiVersion": api_version,
            "kind": "VolumeSnapshot",
            "metadata": { "name": "unclassed" },
            "spec": { "source": { "persistentVolumeClaimName": "of-two" } },
        });
        let classes = json!([class("another", "another.example.com"), class("own", DRIVER)]);
        let begins = [apply(classes), claim("of-two"), pod("of-two", "of-two", "node-a"), has_written("of-two")];
        let is_ready = wait_that("volumesnapshot/unclassed", "self.?status.?readyToUse.orValue(false)");
        self.steps(begins.into_iter().chain([apply(snapshot), is_ready]));
    }

    /// Adds a volume to which a user gives a tag in the cloud, and which grows and moves then.
    fn tagged(&mut self) {
        if !cloud_is_left_alone(&self.tree) {
            return;
        }
        let tags = json!({
            "ResourceId": [{ "volume": "pvc/tagged" }], "Tag": [{ "Key": "team", "Value": "shop" }],
        });
        let begins = [claim("tagged"), pod("tagged-1", "tagged", "node-a"), has_written("tagged-1")];
        let tag = json!({ "ec2": { "action": "CreateTags", "with": tags } });
        let goes = [delete("pod/tagged-1"), wait("pod/tagged-1", "gone")];
        let ends = [pod("tagged-2", "tagged", "node-b"), has_written("tagged-2")];
        self.steps(begins.into_iter().chain([tag]).chain(grown_to("tagged", "2Gi")).chain(goes).chain(ends));
    }

    /// Adds a pod that tolerates a taint for half a minute, and the taint.
    fn evicted(&mut self) {
        let toleration = json!({
            "key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30,
        });
        let more = json!({ "tolerations": [toleration], "nodeSelector": { "kubernetes.io/hostname": "node-a" } });
        let taint = json!({ "node": "node-a", "key": "maintenance", "value": "disk", "effect": "NoExecute" });
        self.steps([
            apply(plain("patient", "patient", &more)),
            runs("patient"),
            json!({ "taint": taint }),
            wait("pod/patient", "gone"),
            json!({ "untaint": { "node": "node-a", "key": "maintenance" } }),
        ]);
    }
}
