//! Informers → work queue → writes (`endpointslicemirroring_controller.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use substrate::process::Ctx;

use super::mirror::{CONTROLLER, Changes, MOST, is_mirrored, reconcile};
use crate::endpointslice::slices::{MANAGED_BY, SERVICE_NAME};
use crate::endpointslice::tracker::{Tracker, service_of};
use crate::kube::queue::Outcome;
use crate::kube::{Client, DeleteParams, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "endpoint-slice-mirroring-controller";
/// Number of retries of a round (`maxRetries`).
const RETRIES: u32 = 15;

struct Controller {
    client: Client,
    endpoints: Informer<Endpoints>,
    slices: Informer<EndpointSlice>,
    services: Informer<Service>,
    recorder: EventRecorder,
    written: Tracker,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let endpoints: Informer<Endpoints> = Informer::start(&ctx, client.all(), ListParams::default());
    let slices: Informer<EndpointSlice> = Informer::start(&ctx, client.all(), ListParams::default());
    let services: Informer<Service> = Informer::start(&ctx, client.all(), ListParams::default());
    endpoints.synced().await;
    slices.synced().await;
    services.synced().await;
    let (mut endpoint_changes, mut slice_changes) = (endpoints.subscribe(), slices.subscribe());
    let mut service_changes = services.subscribe();
    let queue =
        WorkQueue::new(&ctx, Duration::from_secs(1), Duration::from_secs(100)).named("endpoint_slice_mirroring");
    let controller = Arc::new(Controller {
        recorder: EventRecorder::new(&client, SOURCE),
        client,
        endpoints,
        slices,
        services,
        written: Tracker::default(),
        queue: queue.clone(),
    });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = service_changes.recv() => if selector_matters(&delta) {
                let (Delta::Applied { new: service, .. } | Delta::Deleted(service)) = &delta;
                queue.add(key(&**service));
            },
            Some(delta) = endpoint_changes.recv() => {
                let (old, new) = match &delta {
                    Delta::Applied { old, new } => (old.as_deref(), new),
                    Delta::Deleted(endpoints) => (None, endpoints),
                };
                if is_mirrored(new) || old.is_some_and(is_mirrored) {
                    queue.add(key(&**new));
                }
            },
            Some(delta) = slice_changes.recv() => controller.slice_changed(&delta),
        }
    }
}

fn has_selector(service: &Service) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|all| !all.is_empty())
}

/// Returns true if a change of a Service may change its slices: a Service without a selector comes or goes, or it gets or
/// loses its selector.
fn selector_matters(delta: &Delta<Service>) -> bool {
    match delta {
        Delta::Applied { old: Some(old), new } => has_selector(old) != has_selector(new),
        Delta::Applied { old: None, new: service } | Delta::Deleted(service) => !has_selector(service),
    }
}

fn is_own(slice: &EndpointSlice) -> bool {
    slice.label(MANAGED_BY) == Some(CONTROLLER)
}

impl Controller {
    /// Corrects slices that another client changed (`onEndpointSliceUpdate`).
    fn slice_changed(&self, delta: &Delta<EndpointSlice>) {
        let (Delta::Applied { new: slice, .. } | Delta::Deleted(slice)) = delta;
        let old = match delta {
            Delta::Applied { old: Some(old), .. } => Some(old),
            _ => None,
        };
        if let Some(old) = old.filter(|old| service_of(old) != service_of(slice)) {
            return [slice, old].into_iter().filter_map(|one| service_of(one)).for_each(|item| self.queue.add(item));
        }
        let is_foreign = is_own(slice) && self.written.is_foreign(delta);
        if (is_foreign || old.is_some_and(|old| is_own(old) != is_own(slice)))
            && let Some(item) = service_of(slice)
        {
            self.queue.add(item);
        }
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let done = self.sync_endpoints(&item).await;
        self.queue.retried(&item, RETRIES, done)
    }

    async fn sync_endpoints(&self, item: &Key) -> Result<()> {
        let own = |slice: &EndpointSlice| is_own(slice) && slice.label(SERVICE_NAME) == Some(&*item.1);
        let slices: Vec<_> = self.slices.list_in(&item.0).into_iter().filter(|slice| own(slice)).collect();
        let endpoints = self.endpoints.get(&item.0, &item.1).filter(|endpoints| is_mirrored(endpoints));
        let service = self.services.get(&item.0, &item.1).filter(|service| !has_selector(service));
        let (Some(endpoints), Some(_)) = (endpoints, service) else {
            self.written.forget(item);
            return self.delete_all(item, &slices).await;
        };
        if self.written.is_stale(item, &slices) {
            bail!("EndpointSlice informer cache is out of date");
        }
        let changes = reconcile(&endpoints, slices);
        self.report(&endpoints, &changes);
        for slice in changes.kept.iter().filter(|slice| !self.written.has(slice)) {
            self.written.wrote(slice);
        }
        self.write(item, &endpoints, changes).await
    }

    fn report(&self, endpoints: &Endpoints, changes: &Changes) {
        let event = |reason: &str, message: String| {
            self.recorder.event(reference(endpoints), "Warning", reason, message);
        };
        if changes.invalid > 0 {
            let number = changes.invalid;
            event(
                "InvalidIPAddress",
                format!("Skipped {number} invalid IP addresses when mirroring to EndpointSlices"),
            );
        }
        if changes.skipped > changes.invalid {
            let message = format!(
                "A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                changes.skipped
            );
            event("TooManyAddressesToMirror", message);
        }
    }

    /// Deletes the slices of Endpoints that are not mirrored (`deleteEndpoints`).
    async fn delete_all(&self, item: &Key, slices: &[Arc<EndpointSlice>]) -> Result<()> {
        let api = self.client.namespaced::<EndpointSlice>(&item.0);
        let mut problems = Vec::new();
        for slice in slices {
            if let Err(error) = api.delete(slice.name(), &DeleteParams::default()).await {
                problems.push(error);
            }
        }
        if let Some(first) = problems.first() {
            let (failed, all, (namespace, name)) = (problems.len(), slices.len(), item);
            bail!(
                "error(s) deleting {failed}/{all} EndpointSlices for {namespace}/{name} Endpoints, including: {first}"
            );
        }
        Ok(())
    }

    async fn write(&self, item: &Key, endpoints: &Endpoints, changes: Changes) -> Result<()> {
        let (namespace, name) = item;
        let api = self.client.namespaced::<EndpointSlice>(namespace);
        if !endpoints.is_deleting() {
            for slice in &changes.create {
                match api.create(slice).await {
                    Ok(created) => self.written.wrote(&created),
                    Err(error) if error.is_namespace_terminating() => return Ok(()),
                    Err(error) => bail!("failed to create EndpointSlice for Endpoints {namespace}/{name}: {error}"),
                }
            }
        }
        for slice in &changes.update {
            match api.replace(slice).await {
                Ok(updated) => self.written.wrote(&updated),
                Err(error) => {
                    bail!("failed to update {} EndpointSlice for Endpoints {namespace}/{name}: {error}", slice.name())
                }
            }
        }
        for slice in &changes.delete {
            if let Err(error) = api.delete(slice.name(), &DeleteParams::default()).await {
                bail!("failed to delete {} EndpointSlice for Endpoints {namespace}/{name}: {error}", slice.name())
            }
            self.written.deleted(slice);
        }
        Ok(())
    }
}
