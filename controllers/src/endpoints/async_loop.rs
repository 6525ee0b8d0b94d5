//! Informers → work queue → writes (`endpoints_controller.go`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use substrate::process::Ctx;

use super::capacity::{is_whole, limit};
use super::subsets::subsets;
use crate::endpointslice::selection::{concerned, selects};
use crate::endpointslice::slices::{HEADLESS, is_headless};
use crate::endpointslice::trigger_time::{TriggerTimes, annotate};
use crate::kube::queue::Outcome;
use crate::kube::{Client, DeleteParams, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::{Key, key};

/// Source of its Events, and its name in the label.
const SOURCE: &str = "endpoint-controller";
/// Label with the name of the controller.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Number of retries of a round (`maxRetries`).
const RETRIES: u32 = 15;

struct Controller {
    client: Client,
    services: Informer<Service>,
    pods: Informer<Pod>,
    endpoints: Informer<Endpoints>,
    recorder: EventRecorder,
    times: Mutex<TriggerTimes>,
    /// Revisions that this process has replaced, by Service (`staleEndpointsTracker`).
    replaced: Mutex<BTreeMap<Key, String>>,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let services: Informer<Service> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let endpoints: Informer<Endpoints> = Informer::start(&ctx, client.all(), ListParams::default());
    services.synced().await;
    pods.synced().await;
    endpoints.synced().await;
    let (mut service_changes, mut pod_changes) = (services.subscribe(), pods.subscribe());
    let mut endpoint_changes = endpoints.subscribe();
    let queue = WorkQueue::new(&ctx, Duration::from_secs(1), Duration::from_secs(1000)).named("endpoint");
    // Endpoints whose Service went before this process began (`checkLeftoverEndpoints`).
    for left in endpoints.list() {
        queue.add(key(&*left));
    }
    let controller = Arc::new(Controller {
        recorder: EventRecorder::new(&client, SOURCE),
        client,
        services,
        pods,
        endpoints,
        times: Mutex::default(),
        replaced: Mutex::default(),
        queue: queue.clone(),
    });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = service_changes.recv() => match delta {
                Delta::Applied { new, .. } => queue.add(key(&*new)),
                Delta::Deleted(service) => queue.add(key(&*service)),
            },
            Some(delta) = pod_changes.recv() => for service in concerned(&controller.services, &delta) {
                queue.add(key(&*service));
            },
            Some(delta) = endpoint_changes.recv() => if let Delta::Deleted(endpoints) = delta {
                queue.add(key(&*endpoints));
            },
        }
    }
}

/// Returns the labels of a Service's Endpoints.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), SOURCE.to_owned());
    labels
}

impl Controller {
    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let done = match self.services.get(&item.0, &item.1) {
            Some(service) => self.sync_service(&item, &service).await,
            None => self.clean_up(&item).await,
        };
        self.queue.retried(&item, RETRIES, done)
    }

    /// Deletes the Endpoints of a Service that is gone.
    async fn clean_up(&self, item: &Key) -> Result<()> {
        let api = self.client.namespaced::<Endpoints>(&item.0);
        if let Err(error) = api.delete(&item.1, &DeleteParams::default()).await
            && !error.is_not_found()
        {
            bail!("failed to delete endpoints {}/{}: {error}", item.0, item.1);
        }
        self.times.lock().forget(item);
        self.replaced.lock().remove(item);
        Ok(())
    }

    async fn sync_service(&self, item: &Key, service: &Arc<Service>) -> Result<()> {
        let Some(spec) = &service.spec else { return Ok(()) };
        if spec.type_.as_deref() == Some("ExternalName") || spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
            return Ok(());
        }
        let all = self.pods.list_in(service.namespace());
        let pods: Vec<Arc<Pod>> = all.into_iter().filter(|pod| selects(service, pod)).collect();
        let time = self.times.lock().compute(service, &pods);
        let (mut subsets, labels) = (subsets(service, &pods), labels(service));
        let present = self.endpoints.get(&item.0, &item.1);
        let revision = present.as_ref().and_then(|present| present.metadata.resource_version.clone());
        if revision.is_some() && self.replaced.lock().get(item) == revision.as_ref() {
            bail!("endpoints informer cache is out of date");
        }
        if let Some(present) = &present
            && present.subsets.as_deref().unwrap_or_default() == subsets
            && present.metadata.labels.as_ref() == Some(&labels)
            && is_whole(&subsets, present.metadata.annotations.as_ref())
        {
            return Ok(());
        }
        // New Endpoints have no namespace, so a failed creation is reported in `default`.
        let mut metadata = ObjectMeta {
            name: Some(item.1.clone()),
            ..present.as_ref().map(|present| present.metadata.clone()).unwrap_or_default()
        };
        let mut annotations = metadata.annotations.take().unwrap_or_default();
        limit(&mut subsets, &mut annotations);
        metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
        let mut endpoints = Endpoints { metadata, subsets: Some(subsets).filter(|all| !all.is_empty()) };
        endpoints.metadata.labels = Some(labels);
        annotate(&mut endpoints.metadata, time);
        self.write(item, &endpoints, revision).await
    }

    /// Creates Endpoints, or replaces those of `revision`.
    async fn write(&self, item: &Key, endpoints: &Endpoints, revision: Option<String>) -> Result<()> {
        let api = self.client.namespaced::<Endpoints>(&item.0);
        let (namespace, name) = (&item.0, &item.1);
        let Some(revision) = revision else {
            return match api.create(endpoints).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_namespace_terminating() => Ok(()),
                Err(error) => {
                    let message = format!("Failed to create endpoint for service {namespace}/{name}: {error}");
                    self.recorder.event(reference(endpoints), "Warning", "FailedToCreateEndpoint", message);
                    bail!("failed to create endpoints {namespace}/{name}: {error}")
                }
            };
        };
        match api.replace(endpoints).await {
            Ok(written) => {
                // The server answers a write that changes nothing with the former revision.
                if written.metadata.resource_version.as_ref() != Some(&revision) {
                    self.replaced.lock().insert(item.clone(), revision);
                }
                Ok(())
            }
            Err(error) => {
                let message = format!("Failed to update endpoint {namespace}/{name}: {error}");
                self.recorder.event(reference(endpoints), "Warning", "FailedToUpdateEndpoint", message);
                bail!("failed to update endpoints {namespace}/{name}: {error}")
            }
        }
    }
}
