//! The loops of Deployments, ReplicaSets, budgets, Jobs, DaemonSets and Services against the API server, in virtual
//! time. The test plays scheduler and kubelet: it binds pods, makes them ready, and ends those that are deleted.

use controllers::kube::{Api, DeleteParams, Kind, ListParams};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use substrate::World;
use substrate::json::{Value, json};

use crate::common::{Rig, S, in_simulation, rewrite};

/// Loops that these tests do not need.
const OTHERS: &[&str] =
    &["kube-scheduler", "csi-attacher", "csi-provisioner", "csi-resizer", "taint-eviction-controller"];

fn object<K: DeserializeOwned>(value: Value) -> K {
    substrate::json::from_value(value).expect("a valid object")
}

fn template(image: &str) -> Value {
    let container = json!({ "name": "c", "image": image, "ports": [{ "name": "web", "containerPort": 8080 }] });
    json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } })
}

fn with(mut spec: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("a map") {
        spec[name.as_str()] = value.clone();
    }
    spec
}

struct WorkRig(Rig);

impl WorkRig {
    async fn new(world: &World, nodes: &[&str]) -> Self {
        Self(Rig::with_all_loops(world, nodes, OTHERS).await)
    }

    fn api<K: Kind>(&self) -> Api<K> {
        self.0.client.namespaced("default")
    }

    async fn get<K: Kind>(&self, name: &str) -> K {
        K::clone(&*self.api::<K>().get(name).await.expect("the object"))
    }

    async fn list<K: Kind>(&self) -> Vec<K> {
        self.api::<K>().list(&ListParams::default()).await.expect("a list").items
    }

    async fn create<K: Kind>(&self, name: &str, spec: Value) {
        self.api::<K>().create(&object(json!({ "metadata": { "name": name }, "spec": spec }))).await.expect("created");
    }

    async fn deployment(&self, more: Value) {
        let spec =
            json!({ "replicas": 3, "selector": { "matchLabels": { "app": "web" } }, "template": template("one") });
        self.create::<Deployment>("web", with(spec, &more)).await;
    }

    /// Gives the pod a status, as a kubelet does.
    async fn status(&self, pod: &Pod, phase: &str, ready: &str) {
        let at = controllers::kube::time(self.0.world.clock().wall());
        let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": at });
        let ip = format!("10.0.0.{}", pod.uid().bytes().map(u64::from).sum::<u64>() % 250 + 1);
        let status = json!({ "phase": phase, "podIP": ip, "podIPs": [{ "ip": ip }], "conditions": [condition] });
        let next = Pod { status: Some(object(status)), ..pod.clone() };
        // If the pod changed meanwhile, the next round writes its status.
        let _ = self.api::<Pod>().replace_status(&next).await;
    }

    /// Makes pods ready unless their image is `broken`, and ends the pods that are being deleted.
    async fn kubelet(&self) {
        for pod in self.list::<Pod>().await {
            let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            if pod.is_deleting() {
                self.0.force_delete(pod.name()).await;
            } else if phase == "Pending" && image != "broken" {
                self.status(&pod, "Running", "True").await;
            }
        }
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let both = async || {
            self.kubelet().await;
            holds().await
        };
        self.0.until(S(120), what, both).await;
    }

    async fn images(&self) -> Vec<String> {
        let pods = self.list::<Pod>().await;
        let mut images: Vec<String> = pods
            .iter()
            .map(|pod| pod.spec.as_ref().expect("a spec").containers[0].image.clone().unwrap_or_default())
            .collect();
        images.sort();
        images
    }

    async fn is_complete(&self, image: &str) -> bool {
        let deployment = self.get::<Deployment>("web").await;
        let status = deployment.status.unwrap_or_default();
        let wanted = deployment.spec.and_then(|spec| spec.replicas);
        status.updated_replicas == wanted
            && status.available_replicas == wanted
            && status.replicas == wanted
            && status.observed_generation == deployment.metadata.generation
            && self.images().await.iter().all(|own| own == image)
    }

    async fn image(&self, image: &str) {
        let change = |one: &mut Deployment| one.spec.get_or_insert_default().template = object(template(image));
        rewrite(&self.api::<Deployment>(), "web", change).await;
    }
}

fn reason(deployment: &Deployment, type_: &str) -> Option<String> {
    let all = deployment.status.as_ref()?.conditions.as_ref()?;
    all.iter().find(|condition| condition.type_ == type_)?.reason.clone()
}

#[test]
fn a_deployment_rolls_out_and_back() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({ "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } })).await;
        rig.until("the first rollout is complete", async || rig.is_complete("one").await).await;
        rig.0.sleep(S(2)).await;
        let first = rig.get::<Deployment>("web").await;
        assert_eq!(first.annotation("deployment.kubernetes.io/revision"), Some("1"));
        assert_eq!(reason(&first, "Progressing").as_deref(), Some("NewReplicaSetAvailable"));
        assert_eq!(reason(&first, "Available").as_deref(), Some("MinimumReplicasAvailable"));
        rig.image("two").await;
        rig.until("the second rollout is complete", async || {
            let available = rig.get::<Deployment>("web").await.status.and_then(|status| status.available_replicas);
            assert!(available.unwrap_or(0) >= 3, "maxUnavailable is zero");
            assert!(rig.list::<Pod>().await.len() <= 4, "maxSurge is one");
            rig.is_complete("two").await
        })
        .await;
        rig.image("one").await;
        rig.until("the rollback is complete", async || rig.is_complete("one").await).await;
        rig.0.sleep(S(2)).await;
        let sets = rig.list::<ReplicaSet>().await;
        assert_eq!(sets.len(), 2);
        let new = sets.iter().find(|set| set.spec.as_ref().and_then(|spec| spec.replicas) == Some(3)).expect("a set");
        assert_eq!(new.annotation("deployment.kubernetes.io/revision"), Some("3"));
        assert_eq!(new.annotation("deployment.kubernetes.io/revision-history"), Some("1"));
        let messages = rig.0.messages("ScalingReplicaSet");
        assert!(
            messages[0].starts_with("Scaled up replica set web-") && messages[0].ends_with("from 0 to 3"),
            "{messages:?}"
        );
        assert!(messages.iter().any(|message| message.starts_with("Scaled down") && message.ends_with("from 1 to 0")));
    });
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({})).await;
        rig.until("the first rollout is complete", async || rig.is_complete("one").await).await;
        rewrite(&rig.api::<Deployment>(), "web", |one| one.spec.get_or_insert_default().paused = Some(true)).await;
        rig.image("two").await;
        rewrite(&rig.api::<Deployment>(), "web", |one| one.spec.get_or_insert_default().replicas = Some(5)).await;
        rig.until("there are five pods", async || rig.images().await == ["one"; 5]).await;
        rig.0.sleep(S(5)).await;
        assert_eq!(rig.list::<ReplicaSet>().await.len(), 1);
        assert_eq!(reason(&rig.get("web").await, "Progressing").as_deref(), Some("DeploymentPaused"));
        rewrite(&rig.api::<Deployment>(), "web", |one| one.spec.get_or_insert_default().paused = None).await;
        rig.until("the rollout is complete", async || rig.is_complete("two").await).await;
    });
}

#[test]
fn a_rollout_without_progress_fails_at_its_deadline() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({ "progressDeadlineSeconds": 30 })).await;
        rig.until("the first rollout is complete", async || rig.is_complete("one").await).await;
        rig.image("broken").await;
        rig.until("the rollout fails", async || {
            reason(&rig.get("web").await, "Progressing").as_deref() == Some("ProgressDeadlineExceeded")
        })
        .await;
        assert_eq!(rig.images().await, ["broken", "one", "one", "one"]);
    });
}

#[test]
fn recreate_removes_all_old_pods_first() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({ "strategy": { "type": "Recreate" } })).await;
        rig.until("the first rollout is complete", async || rig.is_complete("one").await).await;
        rig.image("two").await;
        rig.until("the second rollout is complete", async || {
            let images = rig.images().await;
            assert!(images.iter().all(|image| *image == images[0]), "old and new pods: {images:?}");
            rig.is_complete("two").await
        })
        .await;
    });
}

#[test]
fn a_budget_counts_the_pods_that_may_be_evicted() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({})).await;
        rig.until("the rollout is complete", async || rig.is_complete("one").await).await;
        let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } });
        rig.create::<PodDisruptionBudget>("web", spec).await;
        let allowed = async || rig.get::<PodDisruptionBudget>("web").await.status.and_then(|s| s.disruptions_allowed);
        rig.0.until(S(10), "one may be evicted", async || allowed().await == Some(1)).await;
        let pods = rig.list::<Pod>().await;
        let evict = async |pod: &Pod| {
            let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": { "name": pod.name(), "namespace": "default" } });
            rig.0.client.post(&format!("/api/v1/namespaces/default/pods/{}/eviction", pod.name()), eviction).await
        };
        evict(&pods[0]).await.expect("evicted");
        let refused = evict(&pods[1]).await.expect_err("refused").to_string();
        assert_eq!(refused, "Cannot evict pod as it would violate the pod's disruption budget.");
        rig.until("another pod replaces it", async || allowed().await == Some(1)).await;
        let status = rig.get::<PodDisruptionBudget>("web").await.status.expect("a status");
        assert_eq!((status.expected_pods, status.desired_healthy, status.current_healthy), (Some(3), Some(2), Some(3)));
        evict(&pods[1]).await.expect("evicted");
    });
}

#[test]
fn a_job_counts_its_pods_once() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] });
        let template = json!({ "spec": pod });
        let spec = json!({ "completions": 3, "parallelism": 2, "template": template, "ttlSecondsAfterFinished": 60 });
        rig.create::<Job>("sum", spec).await;
        let ends = async |phase: &str| {
            for pod in rig.list::<Pod>().await {
                let present = pod.status.as_ref().and_then(|status| status.phase.clone());
                if present.as_deref() == Some("Pending") && !pod.is_deleting() {
                    rig.status(&pod, phase, "False").await;
                }
            }
        };
        rig.0.until(S(10), "two pods run", async || rig.list::<Pod>().await.len() == 2).await;
        assert!(rig.list::<Pod>().await.iter().all(|pod| pod.has_finalizer("batch.kubernetes.io/job-tracking")));
        let status = async || rig.get::<Job>("sum").await.status.unwrap_or_default();
        let is_complete = async || {
            ends("Succeeded").await;
            status().await.conditions.iter().flatten().any(|one| one.type_ == "Complete" && one.status == "True")
        };
        rig.0.until(S(60), "the job is complete", is_complete).await;
        let last = status().await;
        assert_eq!((last.succeeded, last.failed, last.active), (Some(3), None, None));
        assert!(rig.list::<Pod>().await.iter().all(|pod| !pod.has_finalizer("batch.kubernetes.io/job-tracking")));
        assert!(rig.0.messages("Completed").contains(&"Job completed".to_owned()));
        let is_gone = async || rig.list::<Job>().await.is_empty() && rig.list::<Pod>().await.is_empty();
        rig.0.until(S(120), "the job goes with its pods", is_gone).await;
    });
}

#[test]
fn a_job_fails_beyond_its_limit() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] });
        rig.create::<Job>("sum", json!({ "backoffLimit": 1, "template": { "spec": pod } })).await;
        let has_failed = async || {
            for pod in rig.list::<Pod>().await {
                if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending") {
                    rig.status(&pod, "Failed", "False").await;
                }
            }
            let status = rig.get::<Job>("sum").await.status.unwrap_or_default();
            status.conditions.iter().flatten().any(|one| one.type_ == "Failed" && one.status == "True")
        };
        rig.0.until(S(120), "the job has failed", has_failed).await;
        assert_eq!(rig.get::<Job>("sum").await.status.and_then(|status| status.failed), Some(2));
        let messages = rig.0.messages("BackoffLimitExceeded");
        assert_eq!(messages, ["Job has reached the specified backoff limit"]);
    });
}

#[test]
fn a_daemon_runs_on_each_node_that_it_tolerates() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &["node-a", "node-b", "node-c"]).await;
        let nodes = rig.0.client.all::<Node>();
        let taints = || object(json!([{ "key": "own", "effect": "NoExecute" }]));
        rewrite::<Node>(&nodes, "node-c", |node| node.spec.get_or_insert_default().taints = taints()).await;
        let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template("one") });
        rig.create::<DaemonSet>("web", spec).await;
        let ready = async || rig.get::<DaemonSet>("web").await.status.unwrap_or_default();
        rig.until("two nodes have a ready pod", async || ready().await.number_ready == 2).await;
        assert_eq!((ready().await.desired_number_scheduled, rig.list::<Pod>().await.len()), (2, 2));
        rewrite::<Node>(&nodes, "node-c", |node| node.spec.get_or_insert_default().taints = None).await;
        rig.until("the third node gets a pod", async || ready().await.number_ready == 3).await;
        let change = |set: &mut DaemonSet| set.spec.get_or_insert_default().template = object(template("two"));
        rewrite(&rig.api::<DaemonSet>(), "web", change).await;
        rig.until("all pods are replaced", async || {
            let unavailable = ready().await.number_unavailable.unwrap_or(0);
            assert!(unavailable <= 1, "maxUnavailable is one");
            rig.images().await == ["two"; 3]
        })
        .await;
    });
}

#[test]
fn of_equal_revisions_of_a_daemon_the_newest_stays() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &["node-a"]).await;
        let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template("one") });
        rig.create::<DaemonSet>("web", spec).await;
        rig.until("a pod runs", async || rig.list::<Pod>().await.len() == 1).await;
        let revisions = async || rig.list::<ControllerRevision>().await;
        let first = revisions().await.remove(0);
        let mut copy = ControllerRevision { revision: 7, ..first.clone() };
        let labels = [("app".to_owned(), "web".to_owned())].into();
        copy.metadata = ObjectMeta {
            name: Some("copy".to_owned()),
            labels: Some(labels),
            owner_references: first.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        };
        rig.api::<ControllerRevision>().create(&copy).await.expect("created");
        // An owned revision makes no round; a change of the set does.
        let change = |set: &mut DaemonSet| {
            set.metadata.annotations.get_or_insert_default().insert("changed".to_owned(), "yes".to_owned());
        };
        rewrite(&rig.api::<DaemonSet>(), "web", change).await;
        rig.until("one revision is left", async || revisions().await.len() == 1).await;
        let kept = revisions().await.remove(0);
        assert_eq!((kept.revision, kept.label("controller-revision-hash")), (7, Some("copy")));
        let pods = rig.list::<Pod>().await;
        let hashes: Vec<_> = pods.iter().map(|pod| pod.label("controller-revision-hash")).collect();
        assert_eq!(hashes, [Some("copy")]);
    });
}

#[test]
fn a_service_lists_its_ready_pods() {
    in_simulation(1, async |world| {
        let rig = WorkRig::new(&world, &["node-a"]).await;
        let port = json!({ "name": "http", "port": 80, "targetPort": "web" });
        let spec = json!({ "clusterIP": "None", "selector": { "app": "web" }, "ports": [port] });
        rig.create::<Service>("web", spec).await;
        rig.0.until(S(10), "an empty slice exists", async || rig.list::<EndpointSlice>().await.len() == 1).await;
        let mut bound = template("one");
        bound["spec"]["nodeName"] = json!("node-a");
        rig.deployment(json!({ "template": bound })).await;
        let ready = async || {
            let slices = rig.list::<EndpointSlice>().await;
            let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
            let is_ready = |one: &&k8s_openapi::api::discovery::v1::Endpoint| {
                one.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
            };
            endpoints.filter(is_ready).count()
        };
        rig.until("three endpoints are ready", async || ready().await == 3).await;
        let slice = &rig.list::<EndpointSlice>().await[0];
        let port = &slice.ports.as_ref().expect("ports")[0];
        assert_eq!((port.name.as_deref(), port.port), (Some("http"), Some(8080)));
        assert_eq!(slice.label("kubernetes.io/service-name"), Some("web"));
        rewrite(&rig.api::<Deployment>(), "web", |one| one.spec.get_or_insert_default().replicas = Some(0)).await;
        rig.until("no endpoint is left", async || ready().await == 0).await;
        rig.api::<Service>().delete("web", &DeleteParams::default()).await.expect("deleted");
        rig.0.until(S(60), "the slices go", async || rig.list::<EndpointSlice>().await.is_empty()).await;
    });
}

#[cfg(any(debug_assertions, feature = "mutants"))]
#[test]
fn seeded_bugs_lose_pods_and_forget_evictions() {
    crate::common::mutated(&["max-unavailable-ignored"], async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({ "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } })).await;
        rig.until("the first rollout is complete", async || rig.is_complete("one").await).await;
        rig.image("broken").await;
        rig.until("no pod is left that is available", async || rig.images().await == ["broken"; 3]).await;
    });
    crate::common::mutated(&["evictions-forgotten"], async |world| {
        let rig = WorkRig::new(&world, &[]).await;
        rig.deployment(json!({})).await;
        rig.until("the rollout is complete", async || rig.is_complete("one").await).await;
        let spec = json!({ "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } });
        rig.create::<PodDisruptionBudget>("web", spec).await;
        let status = async || rig.get::<PodDisruptionBudget>("web").await.status.unwrap_or_default();
        rig.0.until(S(10), "one may be evicted", async || status().await.disruptions_allowed == Some(1)).await;
        let name = crate::common::name(&rig.list::<Pod>().await[0]);
        let at = controllers::kube::time(world.clock().wall());
        let mut budget = rig.get::<PodDisruptionBudget>("web").await;
        let mut next = budget.status.clone().unwrap_or_default();
        next.disrupted_pods = Some([(name, at)].into());
        next.disruptions_allowed = Some(0);
        budget.status = Some(next);
        rig.api::<PodDisruptionBudget>().replace_status(&budget).await.expect("a status");
        rig.0.until(S(10), "the eviction is forgotten", async || status().await.disruptions_allowed == Some(1)).await;
    });
}
