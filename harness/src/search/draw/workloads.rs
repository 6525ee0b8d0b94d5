//! Additions to some drawn runs that use what other loops serve: a StatefulSet, a snapshot that is restored, a shared
//! file system, a Job, a Deployment, and a container that fails and starts again. Additions have their own random
//! stream, so other runs do not change.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::Drawn;
use super::builder::{Builder, claim, delete, has_written, pod, wait, wait_that};

/// Each addition occurs in one of this many runs.
const ONE_OF: u64 = 10;

/// An addition: adds its objects and steps to a document.
type Addition = fn(&mut Builder);

/// All additions with their names. The random stream is consumed in this order.
const ADDITIONS: &[(&str, Addition)] = &[
    ("StatefulSet that rolls and shrinks", Builder::stateful_set),
    ("VolumeSnapshot that is restored", Builder::snapshot),
    ("shared file system", Builder::shared_files),
    ("Job that finishes", Builder::job),
    ("Deployment that rolls", Builder::deployment),
    ("container that fails", Builder::failing_container),
];

/// Returns the names of the additions.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ADDITIONS.iter().map(|(name, _)| *name)
}

/// Adds the drawn workloads to `drawn`.
pub(super) fn add(drawn: Drawn, rng: ChaCha8Rng) -> Drawn {
    let Drawn { document, mut kinds } = drawn;
    let mut workloads = Builder::new(&document, rng);
    let fits = workloads.has_room();
    for (name, addition) in ADDITIONS {
        if workloads.one_of(ONE_OF) && fits {
            addition(&mut workloads);
            kinds.push(name);
        }
    }
    Drawn { document: workloads.finish(), kinds }
}

/// Returns the template of a pod that writes to `data`, with its volumes.
fn template(app: &str, volumes: Value) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "writer",
                "image": "mooring/writer",
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": volumes,
        },
    })
}

fn of_claim(claim: &str) -> Value {
    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }])
}

/// Changes the template of a workload, so that its pods are replaced.
fn roll(object: &str) -> Value {
    let annotations = json!({ "metadata": { "annotations": { "rolled": "yes" } } });
    json!({ "patch": { "object": object, "with": { "spec": { "template": annotations } } } })
}

impl Builder {
    /// Adds a StatefulSet of two pods, which are replaced and then reduced to one. The last one is evicted. A partition
    /// may keep the first pod for a time.
    fn stateful_set(&mut self) {
        let (policy, scaled) = (self.any(&["OrderedReady", "Parallel"]), self.any(&["Retain", "Delete"]));
        let partition: i64 = self.any(&[0, 1]);
        let requests = json!({ "requests": { "storage": "1Gi" } });
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": "db" },
            "spec": {
                "serviceName": "db",
                "replicas": 2,
                "podManagementPolicy": policy,
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": partition } },
                "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": scaled },
                "selector": { "matchLabels": { "app": "db" } },
                "template": template("db", Value::Null),
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": requests },
                }],
            },
        });
        let rolled = |updated: i64| {
            let that = format!(
                "self.status.?updatedReplicas.orValue(0) == {updated} && self.status.?readyReplicas.orValue(0) == 2 \
                 && self.status.observedGeneration == self.metadata.generation"
            );
            wait_that("statefulset/db", &that)
        };
        let all = json!({ "updateStrategy": { "rollingUpdate": { "partition": 0 } } });
        let finishes = json!({ "patch": { "object": "statefulset/db", "with": { "spec": all } } });
        let shrinks = json!({ "patch": { "object": "statefulset/db", "with": { "spec": { "replicas": 1 } } } });
        let begins = [json!({ "apply": set }), has_written("db-0"), has_written("db-1")];
        let rolls = [roll("statefulset/db"), rolled(2 - partition), finishes, rolled(2)];
        let ends = rolls.into_iter().chain([shrinks, wait("pod/db-1", "gone")]);
        self.steps(begins.into_iter().chain(ends));
        if scaled == "Delete" {
            self.steps([wait("pvc/data-db-1", "gone")]);
        }
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": { "name": "db" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
        });
        let evict = json!({ "evict": { "object": "pod/db-0", "grace": "5s", "within": "40m" } });
        let ready = "self.?status.conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True')";
        self.steps([json!({ "apply": budget }), evict, wait_that("pod/db-0", ready), has_written("db-0")]);
    }

    /// Adds a snapshot of a claim, and a claim that is restored from it before the snapshot is deleted.
    fn snapshot(&mut self) {
        let node = self.any(&["node-a", "node-b"]);
        let source = json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "photo" });
        let restored = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "from-photo" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "gp3",
                "dataSource": source,
                "resources": { "requests": { "storage": "2Gi" } },
            },
        });
        let begins =
            [claim("photographed"), pod("photographed", "photographed", "node-a"), has_written("photographed")];
        let snapshot = json!({ "snapshot": { "name": "photo", "claim": "photographed" } });
        let ready = wait_that("volumesnapshot/photo", "self.?status.readyToUse.orValue(false)");
        let ends = [snapshot, ready, json!({ "apply": restored }), pod("from-photo", "from-photo", node)];
        self.steps(begins.into_iter().chain(ends));
        let goes = [has_written("from-photo"), delete("volumesnapshot/photo"), wait("volumesnapshot/photo", "gone")];
        self.steps(goes);
    }

    /// Adds a shared file system with a writer on each of two nodes, of which one is replaced.
    fn shared_files(&mut self) {
        const ID: &str = "fs-0123456789abcdef0";
        self.tree["efs"] = json!({ "file-systems": [{ "id": ID }] });
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": "efs" },
            "provisioner": "efs.csi.aws.com",
            "parameters": { "provisioningMode": "efs-ap", "fileSystemId": ID, "directoryPerms": "700" },
        });
        let files = json!({ "claim": { "name": "files", "class": "efs", "mode": "ReadWriteMany", "size": "5Gi" } });
        let begins = [json!({ "apply": class }), files, pod("files-1", "files", "node-a"), has_written("files-1")];
        let both = [pod("files-2", "files", "node-b"), has_written("files-2"), delete("pod/files-1")];
        let ends = [wait("pod/files-1", "gone"), pod("files-3", "files", "node-b"), has_written("files-3")];
        self.steps(begins.into_iter().chain(both).chain(ends));
    }

    /// Adds a Job whose pods exit with success or a failure. Their volume is free afterwards.
    fn job(&mut self) {
        let (policy, code) = (self.any(&["Never", "OnFailure"]), self.any(&["0", "1"]));
        let (lasts, completions) = (self.any(&["1s", "20s", "1m"]), self.any(&[1, 3]));
        let mut template = template("once", of_claim("once"));
        template["spec"]["restartPolicy"] = policy.into();
        template["metadata"]["annotations"] = json!({ "mooring.dev/run-for": lasts, "mooring.dev/exit-code": code });
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": "once" },
            "spec": { "backoffLimit": 1, "completions": completions, "template": template },
        });
        let over =
            "self.?status.conditions.orValue([]).exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')";
        self.steps([claim("once"), json!({ "apply": job }), wait_that("job/once", over)]);
    }

    /// Adds a Deployment that creates its pod again after the old one is gone, or one that rolls within its bounds and
    /// keeps no old set.
    fn deployment(&mut self) {
        if self.any(&[false, true]) {
            return self.rolling_deployment();
        }
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "web" },
            "spec": {
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": { "app": "web" } },
                "template": template("web", of_claim("served")),
            },
        });
        let is_new = "self.status.?updatedReplicas.orValue(0) == 1 && self.status.?availableReplicas.orValue(0) == 1 \
            && self.status.?replicas.orValue(0) == 1 && self.status.observedGeneration == self.metadata.generation";
        let runs = [claim("served"), json!({ "apply": deployment }), wait_that("deployment/web", is_new)];
        self.steps(runs.into_iter().chain([roll("deployment/web"), wait_that("deployment/web", is_new)]));
    }

    /// Adds a Deployment of four pods without volumes, with a disruption budget, which is rolled and then reduced.
    fn rolling_deployment(&mut self) {
        let (surge, missing) = self.any(&[(1, 0), (0, 1), (1, 1)]);
        let mut template = template("web", Value::Null);
        template["spec"]["containers"] = json!([{ "name": "server", "image": "busybox" }]);
        let rolling = json!({ "maxSurge": surge, "maxUnavailable": missing });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 4,
                "revisionHistoryLimit": 0,
                "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling },
                "selector": { "matchLabels": { "app": "web" } },
                "template": template,
            },
        });
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": { "name": "web" },
            "spec": { "minAvailable": "30%", "selector": { "matchLabels": { "app": "web" } } },
        });
        let is_new = |count: u8| {
            let that = format!(
                "self.status.?updatedReplicas.orValue(0) == {count} && self.status.?replicas.orValue(0) == {count} \
                 && self.status.?availableReplicas.orValue(0) == {count} \
                 && self.status.observedGeneration == self.metadata.generation"
            );
            wait_that("deployment/web", &that)
        };
        let shrinks = json!({ "patch": { "object": "deployment/web", "with": { "spec": { "replicas": 3 } } } });
        let begins = [json!({ "apply": deployment }), json!({ "apply": budget }), is_new(4)];
        self.steps(begins.into_iter().chain([roll("deployment/web"), is_new(4), shrinks, is_new(3)]));
    }

    /// Adds a pod whose container gets errors from its volume for a time, and then runs again.
    fn failing_container(&mut self) {
        let (op, lasts) = (self.any(&["append", "sync"]), self.any(&["1s", "1m", "8m"]));
        let fault = json!({
            "name": "container-fails",
            "match": { "plane": "disk", "op": op, "where": { "node": "node-b" } },
            "when": { "for": lasts },
            "effect": { "io_error": "EIO" },
        });
        let failed = "self.status.?containerStatuses.orValue([]).exists(c, c.restartCount > 0)";
        let ready = "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
        let begins = [claim("fragile"), pod("fragile", "fragile", "node-b"), has_written("fragile")];
        let fails = [json!({ "fault": fault }), wait_that("pod/fragile", failed), json!({ "sleep": "9m" })];
        self.steps(begins.into_iter().chain(fails).chain([wait_that("pod/fragile", ready)]));
    }
}
