//! Informers → work queues → statuses (`disruption.go`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use substrate::mutant;
use substrate::process::Ctx;

use super::budget::{self, Disrupted};
use super::scale::{Controllers, Scale};
use crate::binder::selectors::label_selector_matches;
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::pod_status::{conditions, update_condition};
use crate::workload::availability::is_terminal;
use crate::workload::scaled::scaled;
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "controllermanager";
/// Time after which a pod that was to be disrupted and is not deleted loses its condition.
const STALE: Duration = Duration::from_secs(120);

struct Controller {
    ctx: Ctx,
    client: Client,
    budgets: Informer<PodDisruptionBudget>,
    pods: Informer<Pod>,
    controllers: Controllers,
    recorder: EventRecorder,
    queue: WorkQueue<Key>,
    /// Seeded bug: counts evicted pods as healthy.
    forgets_evictions: bool,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client) {
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let budgets: Informer<PodDisruptionBudget> = Informer::start(&ctx, client.all(), ListParams::default());
    let controllers = Controllers {
        client: client.clone(),
        deployments: Informer::start(&ctx, client.all(), ListParams::default()),
        replica_sets: Informer::start(&ctx, client.all(), ListParams::default()),
        stateful_sets: Informer::start(&ctx, client.all(), ListParams::default()),
    };
    pods.synced().await;
    budgets.synced().await;
    controllers.deployments.synced().await;
    controllers.replica_sets.synced().await;
    controllers.stateful_sets.synced().await;
    let (mut pod_changes, mut budget_changes) = (pods.subscribe(), budgets.subscribe());
    // client-go's default controller rate limiter.
    let new_queue = || WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000));
    let (queue, stale) = (new_queue().named("disruption"), new_queue().named("stale_pod_disruption"));
    let recorder = EventRecorder::new(&client, SOURCE);
    let forgets_evictions = mutant!(ctx, "evictions-forgotten");
    let (ctx_, queue_) = (ctx.clone(), queue.clone());
    let controller =
        Controller { ctx: ctx_, client, budgets, pods, controllers, recorder, queue: queue_, forgets_evictions };
    let controller = Arc::new(controller);
    let (worker, cleaner) = (controller.clone(), controller.clone());
    ctx.spawn(queue.clone().run(1, move |key| worker.clone().sync(key)));
    ctx.spawn(stale.clone().run(1, move |key| cleaner.clone().sync_stale(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = budget_changes.recv() => match delta {
                Delta::Applied { new, .. } => queue.add(key(&*new)),
                Delta::Deleted(budget) => queue.add(key(&*budget)),
            },
            Some(delta) = pod_changes.recv() => {
                let (Delta::Applied { new: pod, .. } | Delta::Deleted(pod)) = &delta;
                if let Some(budget) = controller.budget_of(pod) {
                    queue.add(key(&*budget));
                }
                if matches!(delta, Delta::Applied { .. }) && let Some(wait) = controller.stale_after(pod) {
                    stale.add_after(key(&**pod), wait);
                }
            },
        }
    }
}

impl Controller {
    /// Returns the budget of a pod, the first of several (`getPdbForPod`).
    fn budget_of(&self, pod: &Pod) -> Option<Arc<PodDisruptionBudget>> {
        let all = self.budgets.list_in(pod.namespace());
        let mut found = all.into_iter().filter(|budget| selects(budget, pod));
        let first = found.next()?;
        if found.next().is_some() {
            let (namespace, name, chosen) = (pod.namespace(), pod.name(), first.name());
            let message = format!(
                "Pod \"{namespace}\"/\"{name}\" matches multiple PodDisruptionBudgets.  Chose \"{chosen}\" arbitrarily."
            );
            self.recorder.event(reference(pod), "Warning", "MultiplePodDisruptionBudgets", message);
        }
        Some(first)
    }

    /// Returns the time after which the DisruptionTarget condition of a pod is stale
    /// (`nonTerminatingPodHasStaleDisruptionCondition`); none if the pod has no such condition.
    fn stale_after(&self, pod: &Pod) -> Option<Duration> {
        let condition = conditions(pod).iter().find(|condition| condition.type_ == "DisruptionTarget")?;
        let is_kubelets = condition.reason.as_deref() == Some("TerminationByKubelet");
        if pod.is_deleting() || condition.status != "True" || is_kubelets || is_terminal(pod) {
            return None;
        }
        let since = condition.last_transition_time.as_ref()?.0;
        let age = self.ctx.now().wall.as_nanosecond() - since.as_nanosecond();
        Some(STALE.saturating_sub(Duration::from_nanos(u64::try_from(age).unwrap_or(0))))
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let Some(budget) = self.budgets.get(&item.0, &item.1) else { return Outcome::Done };
        match self.try_sync(&budget).await {
            Ok(None) => Outcome::Done,
            Ok(Some(recheck)) => {
                self.queue.add_after(item, recheck);
                Outcome::Done
            }
            Err(Failure::Conflict) => Outcome::Retry,
            Err(Failure::Other(error)) => {
                let status = budget::fail_safe(&budget, &error, self.ctx.now().wall);
                if self.write(&budget, status).await.is_ok() { Outcome::Done } else { Outcome::Retry }
            }
        }
    }

    /// Computes and writes the status (`trySync`); returns the time after which an evicted pod is late.
    async fn try_sync(&self, budget: &Arc<PodDisruptionBudget>) -> Result<Option<Duration>, Failure> {
        let Some(spec) = &budget.spec else { return Ok(None) };
        let all = self.pods.list_in(budget.namespace());
        let pods: Vec<Arc<Pod>> = all.into_iter().filter(|pod| selects(budget, pod)).collect();
        let event = |kind: &str, reason: &str, message: String| {
            self.recorder.event(reference(&**budget), kind, reason, message);
        };
        if pods.is_empty() {
            event("Normal", "NoPods", "No matching pods found".to_owned());
        }
        let scale = if budget::needs_scale(spec) { self.controllers.scale(&pods).await } else { Ok(Scale::default()) };
        let counted = scale.and_then(|scale| {
            let replicas = match mutant!(self.ctx, "missing-pods-not-counted") {
                true => i32::try_from(pods.len()).unwrap_or(i32::MAX),
                false => scale.replicas,
            };
            Ok((budget::expected(spec, pods.len(), replicas)?, scale))
        });
        let (mut expected, scale) = match counted {
            Ok(counted) => counted,
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {error}");
                event("Warning", "CalculateExpectedPodCountFailed", message);
                return Err(Failure::Other(error));
            }
        };
        if scale.has_unmanaged {
            let selector = budget::print(spec.selector.as_ref());
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a \
                 result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
                 To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            event("Warning", "UnmanagedPods", message);
        }
        let now = self.ctx.now().wall;
        let disrupted =
            if self.forgets_evictions { Disrupted::default() } else { budget::disrupted(budget, &pods, now) };
        for pod in pods.iter().filter(|pod| disrupted.late.iter().any(|name| name == pod.name())) {
            // Upstream prints the namespace twice.
            let namespace = budget.namespace();
            let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            self.recorder.event(reference(&**pod), "Warning", "NotDeleted", message);
        }
        if mutant!(self.ctx, "percentage-rounded-down")
            && let Some(least @ IntOrString::String(_)) = &spec.min_available
        {
            expected.healthy = scaled(least, scale.replicas, false).unwrap_or(expected.healthy);
        }
        let healthy = match mutant!(self.ctx, "unready-pods-healthy") {
            true => i32::try_from(pods.iter().filter(|pod| !pod.is_deleting()).count()).unwrap_or(i32::MAX),
            false => budget::healthy(&pods, &disrupted, now),
        };
        if let Some(status) = budget::status(budget, healthy, expected, &disrupted, now) {
            self.write(budget, status).await.map_err(|error| {
                if error.is_conflict() { Failure::Conflict } else { Failure::Other(error.to_string()) }
            })?;
        }
        Ok(disrupted.recheck)
    }

    async fn write(&self, budget: &PodDisruptionBudget, status: PodDisruptionBudgetStatus) -> Result<(), ApiError> {
        let written = PodDisruptionBudget { status: Some(status), ..budget.clone() };
        self.client.namespaced::<PodDisruptionBudget>(budget.namespace()).replace_status(&written).await.map(drop)
    }

    /// Resets the DisruptionTarget condition of a pod that was not deleted (`syncStalePodDisruption`).
    async fn sync_stale(self: Arc<Self>, item: Key) -> Outcome {
        let Some(pod) = self.pods.get(&item.0, &item.1) else { return Outcome::Done };
        match self.stale_after(&pod) {
            None => return Outcome::Done,
            Some(wait) if !wait.is_zero() => return Outcome::After(wait),
            Some(_) => {}
        }
        let mut next = Pod::clone(&pod);
        let condition = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "False".to_owned(),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        };
        if !update_condition(next.status.get_or_insert_default(), condition, self.ctx.now().wall) {
            return Outcome::Done;
        }
        let answer = self.client.namespaced::<Pod>(pod.namespace()).replace_status(&next).await;
        if answer.is_ok() { Outcome::Done } else { Outcome::Retry }
    }
}

/// Failure of a round.
enum Failure {
    /// The budget was changed meanwhile.
    Conflict,
    /// Any other error; no eviction is allowed until it is solved.
    Other(String),
}

/// Returns true if the budget selects the pod. An empty selector selects every pod, a missing one none.
fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| label_selector_matches(selector, pod.metadata.labels.as_ref()))
}
