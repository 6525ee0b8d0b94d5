//! Informer → work queue → writes (`horizontal.go`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricStatus};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use substrate::process::Ctx;

use super::metrics::failure;
use super::status::{ABLE_TO_SCALE, SCALING_ACTIVE, is_same, set, set_condition};
use super::target::{Target, scale};
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "horizontal-pod-autoscaler";
/// Time between two rounds (`--horizontal-pod-autoscaler-sync-period`).
const PERIOD: Duration = Duration::from_secs(15);

struct Controller {
    ctx: Ctx,
    client: Client,
    autoscalers: Informer<HorizontalPodAutoscaler>,
    recorder: EventRecorder,
    /// Selectors of the targets, by autoscaler (`hpaSelectors`).
    selectors: Mutex<BTreeMap<Key, String>>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let autoscalers: Informer<HorizontalPodAutoscaler> = Informer::start(&ctx, client.all(), ListParams::default());
    autoscalers.synced().await;
    let mut changes = autoscalers.subscribe();
    let queue = WorkQueue::new(&ctx, PERIOD, PERIOD).named("horizontalpodautoscaler");
    let controller = Arc::new(Controller {
        ctx: ctx.clone(),
        recorder: EventRecorder::new(&client, SOURCE),
        client,
        autoscalers,
        selectors: Mutex::default(),
    });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    while let Some(delta) = changes.recv().await {
        match delta {
            Delta::Applied { new, .. } => queue.add_after(key(&*new), PERIOD),
            Delta::Deleted(gone) => drop(controller.selectors.lock().remove(&key(&*gone))),
        }
    }
}

impl Controller {
    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let Some(hpa) = self.autoscalers.get(&item.0, &item.1) else { return Outcome::Done };
        // Its error is in the status and in Events.
        let _ = self.reconcile(&hpa).await;
        Outcome::After(PERIOD)
    }

    fn event(&self, hpa: &HorizontalPodAutoscaler, kind: &str, reason: &str, message: impl Into<String>) {
        self.recorder.event(reference(hpa), kind, reason, message);
    }

    async fn write(&self, old: &HorizontalPodAutoscaler, hpa: &HorizontalPodAutoscaler) -> Result<(), ApiError> {
        if is_same(old, hpa) {
            return Ok(());
        }
        self.client.namespaced::<HorizontalPodAutoscaler>(hpa.namespace()).replace_status(hpa).await.map(drop)
    }

    /// Scales the target to the limits, and reports the metrics (`reconcileAutoscaler`).
    async fn reconcile(&self, old: &Arc<HorizontalPodAutoscaler>) -> Result<(), ApiError> {
        let spec = &old.spec;
        let (mut hpa, now) = (HorizontalPodAutoscaler::clone(old), self.ctx.now().wall);
        let of = &spec.scale_target_ref;
        let object = (of.api_version.as_deref().unwrap_or_default(), of.kind.as_str(), of.name.as_str());
        let mut target = match scale(&self.client, old.namespace(), object).await {
            Ok(target) => target,
            Err(error) => {
                self.event(&hpa, "Warning", "FailedGetScale", error.clone());
                let message = format!("the HPA controller was unable to get the target's current scale: {error}");
                set_condition(&mut hpa, (ABLE_TO_SCALE, false), "FailedGetScale", message, now);
                return self.write(old, &hpa).await;
            }
        };
        let message = "the HPA controller was able to get the target's current scale".to_owned();
        set_condition(&mut hpa, (ABLE_TO_SCALE, true), "SucceededGetScale", message, now);
        let (current, least, most) = (target.replicas(), spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let (desired, why) = if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero".to_owned();
            set_condition(&mut hpa, (SCALING_ACTIVE, false), "ScalingDisabled", message, now);
            set(&mut hpa, (0, 0), Vec::new(), None);
            return self.write(old, &hpa).await;
        } else if current > most {
            (most, "Current number of replicas above Spec.MaxReplicas")
        } else if current < least {
            (least, "Current number of replicas below Spec.MinReplicas")
        } else {
            return self.report_metrics(old, hpa, &target, now).await;
        };
        if let Err(error) = target.write(&self.client, desired).await {
            let message = format!("New size: {desired}; reason: {why}; error: {error}");
            self.event(&hpa, "Warning", "FailedRescale", message);
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            set_condition(&mut hpa, (ABLE_TO_SCALE, false), "FailedUpdateScale", message, now);
            let before = hpa.status.as_ref().map_or(0, |status| status.desired_replicas);
            set(&mut hpa, (current, before), Vec::new(), None);
            return self.write(old, &hpa).await;
        }
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        set_condition(&mut hpa, (ABLE_TO_SCALE, true), "SucceededRescale", message, now);
        self.event(&hpa, "Normal", "SuccessfulRescale", format!("New size: {desired}; reason: {why}"));
        set(&mut hpa, (current, desired), Vec::new(), Some(now));
        self.write(old, &hpa).await
    }

    /// Reports that no metric can be read (`computeReplicasForMetrics`).
    async fn report_metrics(
        &self,
        old: &HorizontalPodAutoscaler,
        mut hpa: HorizontalPodAutoscaler,
        target: &Target,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let metrics = old.spec.metrics.clone().unwrap_or_default();
        let (error, statuses) = match self.check_selector(&mut hpa, target.selector(), now).await? {
            Some(error) => (error, Vec::new()),
            None => {
                let failures: Vec<_> = metrics.iter().map(|metric| failure(old.namespace(), metric)).collect();
                for of in &failures {
                    self.event(&hpa, "Warning", of.reason, of.error.clone());
                }
                // The API server gives each autoscaler a metric.
                let Some(first) = failures.first() else { return Ok(()) };
                let message = format!("the HPA was unable to compute the replica count: {}", first.error);
                set_condition(&mut hpa, (SCALING_ACTIVE, false), first.reason, message, now);
                let (count, whole) = (failures.len(), &first.whole);
                let error = format!("invalid metrics ({count} invalid out of {count}), first error is: {whole}");
                (error, vec![MetricStatus::default(); count])
            }
        };
        let desired = hpa.status.as_ref().map_or(0, |status| status.desired_replicas);
        set(&mut hpa, (target.replicas(), desired), statuses, None);
        let written = self.write(old, &hpa).await;
        self.event(&hpa, "Warning", "FailedComputeMetricsReplicas", error);
        written
    }

    /// Checks the selector of the target (`validateAndParseSelector`); returns its error.
    async fn check_selector(
        &self,
        hpa: &mut HorizontalPodAutoscaler,
        selector: &str,
        now: Timestamp,
    ) -> Result<Option<String>, ApiError> {
        if selector.is_empty() {
            let error = "selector is required";
            self.event(hpa, "Warning", "SelectorRequired", error);
            let message = "the HPA target's scale is missing a selector".to_owned();
            set_condition(hpa, (SCALING_ACTIVE, false), "InvalidSelector", message, now);
            return Ok(Some(error.to_owned()));
        }
        self.selectors.lock().insert(key(&*hpa), selector.to_owned());
        let selecting = self.selecting(hpa.namespace(), selector).await?;
        if selecting.len() < 2 {
            return Ok(None);
        }
        let all = selecting.join(" ");
        let error = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
        self.event(hpa, "Warning", "AmbiguousSelector", error.clone());
        set_condition(hpa, (SCALING_ACTIVE, false), "AmbiguousSelector", error.clone(), now);
        Ok(Some(error))
    }

    /// Returns the autoscalers whose targets have a pod that the selector selects (`hpasControllingPodsUnderSelector`).
    async fn selecting(&self, namespace: &str, selector: &str) -> Result<Vec<String>, ApiError> {
        let selectors: Vec<(Key, String)> = {
            let known = self.selectors.lock();
            known.iter().filter(|(of, _)| of.0 == namespace).map(|(of, text)| (of.clone(), text.clone())).collect()
        };
        if selectors.len() < 2 {
            return Ok(Vec::new());
        }
        let own = self.pods(namespace, selector).await?;
        let mut found = Vec::new();
        for ((namespace, name), selector) in selectors {
            let pods = self.pods(&namespace, &selector).await?;
            if pods.iter().any(|uid| own.contains(uid)) {
                found.push(format!("{namespace}/{name}"));
            }
        }
        Ok(found)
    }

    /// Returns the uids of selected pods.
    async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<String>, ApiError> {
        let params = ListParams { label_selector: Some(selector.to_owned()), ..ListParams::default() };
        let list = self.client.namespaced::<Pod>(namespace).list(&params).await?;
        Ok(list.items.iter().map(|pod| pod.uid().to_owned()).collect())
    }
}
