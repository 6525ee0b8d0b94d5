//! The StatefulSet controller against the API server, in virtual time. The test plays the kubelet: it makes pods ready.

use controllers::kube::{Api, DeleteParams, Kind, ListParams};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::de::DeserializeOwned;
use substrate::World;
use substrate::json::{Value, json};

use crate::common::{self, Rig, S, in_simulation, rewrite};

/// Loops that these tests do not need.
const OTHERS: &[&str] =
    &["kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer", "taint-eviction-controller"];

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn template(image: &str) -> Value {
    let container = json!({ "name": "c", "image": image });
    json!({ "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [container] } })
}

struct SetRig(Rig);

impl SetRig {
    async fn new(world: &World) -> Self {
        Self(Rig::with_all_loops(world, &["node-a"], OTHERS).await)
    }

    async fn create(&self, spec: Value) {
        let resources = json!({ "requests": { "storage": "1Gi" } });
        let claim = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "ebs", "resources": resources });
        let mut all = json!({
            "serviceName": "db", "selector": { "matchLabels": { "app": "db" } }, "template": template("one"),
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim }],
        });
        for (name, value) in spec.as_object().expect("a map") {
            all[name.as_str()] = value.clone();
        }
        let set = json!({ "metadata": { "name": "db" }, "spec": all });
        self.sets().create(&object(set)).await.expect("a set");
    }

    fn sets(&self) -> Api<StatefulSet> {
        self.0.client.namespaced("default")
    }

    async fn set(&self) -> StatefulSet {
        StatefulSet::clone(&*self.sets().get("db").await.expect("the set"))
    }

    async fn pods(&self) -> Vec<Pod> {
        self.0.pods().list(&ListParams::default()).await.expect("pods").items
    }

    async fn names(&self) -> Vec<String> {
        self.pods().await.iter().map(common::name).collect()
    }

    async fn claims(&self) -> Vec<String> {
        let api = self.0.client.namespaced::<PersistentVolumeClaim>("default");
        api.list(&ListParams::default()).await.expect("claims").items.iter().map(common::name).collect()
    }

    /// Makes each pod run and be ready, as a kubelet does, and ends the pods that are being deleted.
    async fn kubelet(&self) {
        for pod in self.pods().await {
            if pod.is_deleting() {
                self.0.force_delete(pod.name()).await;
            } else {
                self.ready(pod.name(), "True").await;
            }
        }
    }

    async fn ready(&self, name: &str, status: &str) {
        let at = controllers::kube::time(self.0.world.clock().wall());
        let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": at });
        let next = json!({ "phase": "Running", "conditions": [condition] });
        // A pod that was never bound is gone at once.
        let Ok(pod) = self.0.pods().get(name).await else { return };
        let is_same = pod.status.as_ref().is_some_and(|present| {
            present.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == status)
        });
        if is_same {
            return;
        }
        let mut pod = Pod::clone(&pod);
        pod.status = Some(object(next));
        // If the pod changed meanwhile, the next round writes its status.
        let _ = self.0.pods().replace_status(&pod).await;
    }

    /// Waits until the pods are these, and makes each one ready meanwhile.
    async fn until(&self, expected: &[&str]) {
        let holds = async || {
            self.kubelet().await;
            self.names().await == expected
        };
        self.0.until(S(60), &format!("the pods are {expected:?}"), holds).await;
    }

    async fn scale(&self, replicas: i32) {
        rewrite(&self.sets(), "db", |set| set.spec.get_or_insert_default().replicas = Some(replicas)).await;
    }

    async fn image(&self, image: &str) {
        rewrite(&self.sets(), "db", |set| set.spec.get_or_insert_default().template = object(template(image))).await;
    }

    fn writes(&self, from: u64) -> Vec<String> {
        let all = self.0.written(from, "");
        let ours = all.iter().filter(|w| w.agent.contains("statefulset-controller") && !w.path.contains("/events"));
        ours.map(|w| format!("{} {}", w.method, w.path.trim_start_matches("/api/v1/namespaces/default/"))).collect()
    }
}

#[test]
fn pods_and_claims_are_made_in_order() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        rig.create(json!({ "replicas": 2 })).await;
        rig.0.sleep(S(3)).await;
        assert_eq!((rig.names().await, rig.claims().await), (vec!["db-0".to_owned()], vec!["data-db-0".to_owned()]));
        rig.until(&["db-0", "db-1"]).await;
        rig.kubelet().await;
        rig.0.sleep(S(2)).await;
        let set = rig.set().await;
        let status = set.status.as_ref().expect("a status");
        assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (2, Some(2), Some(2)));
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!(status.observed_generation, set.metadata.generation);
        let messages = rig.0.messages("SuccessfulCreate");
        assert_eq!(
            messages[..2],
            [
                "Create Claim data-db-0 Pod db-0 in StatefulSet db success",
                "Create Pod db-0 in StatefulSet db successful"
            ]
        );
        let first: Vec<String> = rig.writes(0).into_iter().take(4).collect();
        let status = "PUT /apis/apps/v1/namespaces/default/statefulsets/db/status";
        let expected = [
            "POST /apis/apps/v1/namespaces/default/controllerrevisions",
            "POST persistentvolumeclaims",
            "POST pods",
            status,
        ];
        assert_eq!(first, expected);
    });
}

#[test]
fn scaling_down_takes_the_highest_ordinal_and_keeps_its_claim() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        rig.create(json!({ "replicas": 3 })).await;
        rig.until(&["db-0", "db-1", "db-2"]).await;
        rig.kubelet().await;
        rig.scale(1).await;
        rig.until(&["db-0"]).await;
        assert_eq!(rig.claims().await, ["data-db-0", "data-db-1", "data-db-2"]);
        let deleted = rig.0.messages("SuccessfulDelete");
        assert_eq!(
            deleted,
            ["Delete Pod db-2 in StatefulSet db successful", "Delete Pod db-1 in StatefulSet db successful"]
        );
        rig.scale(2).await;
        rig.until(&["db-0", "db-1"]).await;
    });
}

#[test]
fn a_policy_deletes_the_claims_of_pods_that_are_scaled_down() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        let policy = json!({ "whenDeleted": "Delete", "whenScaled": "Delete" });
        rig.create(json!({ "replicas": 2, "persistentVolumeClaimRetentionPolicy": policy })).await;
        rig.until(&["db-0", "db-1"]).await;
        rig.kubelet().await;
        rig.scale(1).await;
        rig.until(&["db-0"]).await;
        rig.0.until(S(60), "its claim goes too", async || rig.claims().await == ["data-db-0"]).await;
        rig.sets().delete("db", &DeleteParams::default()).await.expect("deleted");
        rig.0
            .until(S(60), "pods and claims go with the set", async || {
                rig.kubelet().await;
                rig.names().await.is_empty() && rig.claims().await.is_empty()
            })
            .await;
    });
}

#[test]
fn an_update_replaces_pods_from_the_highest_ordinal_and_can_be_rolled_back() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        rig.create(json!({ "replicas": 2 })).await;
        rig.until(&["db-0", "db-1"]).await;
        rig.kubelet().await;
        rig.0.sleep(S(2)).await;
        let image = async |name: &str| {
            let pod = rig.0.pods().get(name).await.ok()?;
            pod.spec.as_ref()?.containers[0].image.clone()
        };
        rig.image("two").await;
        rig.0
            .until(S(60), "the last pod is new", async || {
                // Before the kubelet starts it: the update waits until it is Ready.
                if image("db-1").await.as_deref() == Some("two") {
                    return true;
                }
                rig.kubelet().await;
                false
            })
            .await;
        assert_eq!(image("db-0").await.as_deref(), Some("one"));
        rig.0
            .until(S(60), "all are new", async || {
                rig.kubelet().await;
                let status = rig.set().await.status.expect("a status");
                image("db-0").await.as_deref() == Some("two") && status.current_revision == status.update_revision
            })
            .await;
        rig.image("one").await;
        rig.0
            .until(S(60), "all are old again", async || {
                rig.kubelet().await;
                image("db-0").await.as_deref() == Some("one") && image("db-1").await.as_deref() == Some("one")
            })
            .await;
        let revisions = rig.0.client.namespaced::<ControllerRevision>("default");
        let all = revisions.list(&ListParams::default()).await.expect("revisions").items;
        let mut numbers: Vec<i64> = all.iter().map(|revision| revision.revision).collect();
        numbers.sort_unstable();
        // The first revision became the third one.
        assert_eq!(numbers, [2, 3]);
    });
}

#[test]
fn a_failed_pod_is_replaced_under_its_name() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        rig.create(json!({ "replicas": 1 })).await;
        rig.until(&["db-0"]).await;
        let before = rig.pods().await[0].uid().to_owned();
        let mut pod = Pod::clone(&*rig.0.pods().get("db-0").await.expect("the pod"));
        pod.status = Some(object(json!({ "phase": "Failed" })));
        rig.0.pods().replace_status(&pod).await.expect("a status");
        let is_new = async || rig.pods().await.first().is_some_and(|pod| pod.uid() != before);
        rig.0.until(S(60), "another pod has the name", is_new).await;
        assert_eq!(rig.claims().await, ["data-db-0"]);
    });
}

#[test]
fn an_orphan_of_the_name_is_adopted_with_its_uid() {
    in_simulation(1, async |world| {
        let rig = SetRig::new(&world).await;
        let mut orphan = template("one");
        orphan["metadata"]["name"] = "db-0".into();
        let uid = rig.0.pods().create(&object(orphan)).await.expect("a pod").uid().to_owned();
        rig.create(json!({ "replicas": 1 })).await;
        let owned = async || rig.pods().await.first().is_some_and(|pod| pod.metadata.owner_references.is_some());
        rig.0.until(S(60), "the pod has an owner", owned).await;
        let patch = rig.0.written(0, "/pods/db-0").into_iter().find(|w| w.method == "PATCH").expect("a patch");
        assert_eq!((patch.kind.as_str(), &patch.body["metadata"]["uid"]), ("strategic-merge-patch+json", &json!(uid)));
    });
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn a_seeded_bug_adopts_by_name() {
    common::mutated(&["adopts-without-uid-check"], async |world| {
        let rig = SetRig::new(&world).await;
        let mut orphan = template("one");
        orphan["metadata"]["name"] = "db-0".into();
        rig.0.pods().create(&object(orphan)).await.expect("a pod");
        rig.create(json!({ "replicas": 1 })).await;
        let patched = async || rig.0.written(0, "/pods/db-0").iter().any(|w| w.method == "PATCH");
        rig.0.until(S(60), "the pod is adopted", patched).await;
        let patch = rig.0.written(0, "/pods/db-0").into_iter().find(|w| w.method == "PATCH").expect("a patch");
        assert_eq!(patch.body["metadata"]["uid"], Value::Null);
    });
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn seeded_bugs_delete_a_claim_and_the_wrong_pod() {
    for (bug, pods, claims) in [
        ("scaled-down-claims-deleted", ["db-0"], vec!["data-db-0"]),
        ("lowest-ordinal-first", ["db-0"], vec!["data-db-0", "data-db-1", "data-db-2"]),
    ] {
        common::mutated(&[bug], async |world| {
            let rig = SetRig::new(&world).await;
            rig.create(json!({ "replicas": 3 })).await;
            rig.until(&["db-0", "db-1", "db-2"]).await;
            rig.kubelet().await;
            rig.scale(1).await;
            rig.until(&pods).await;
            rig.0.until(S(60), "the claims are gone or not", async || rig.claims().await == claims).await;
            let first = &rig.0.messages("SuccessfulDelete")[0];
            assert_eq!(first.contains("db-1"), bug == "lowest-ordinal-first", "{first}");
        });
    }
}
