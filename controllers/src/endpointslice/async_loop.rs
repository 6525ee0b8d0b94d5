//! Informers → work queue → writes (`endpointslice_controller.go`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use parking_lot::Mutex;
use substrate::mutant;
use substrate::process::Ctx;

use super::endpoints::{endpoint, has_endpoint, node_name, ports};
use super::ports::in_order;
use super::reconcile::{Changes, Desired, reconcile};
use super::selection::{concerned, selects};
use super::slices::{CONTROLLER, MANAGED_BY, SERVICE_NAME, families};
use super::topology::{Zones, matters};
use super::tracker::{Tracker, service_of};
use super::trigger_time::{TriggerTimes, annotate};
use crate::kube::queue::Outcome;
use crate::kube::{Client, DeleteParams, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::aggregate::aggregate;
use crate::workload::{Key, key};

/// Source of its Events.
const SOURCE: &str = "endpoint-slice-controller";
/// Number of retries of a round (`maxRetries`).
const RETRIES: u32 = 15;
/// Wait after a change of a slice by another client (`endpointSliceChangeMinSyncDelay`).
const SLICE_DELAY: Duration = Duration::from_secs(1);

struct Controller {
    client: Client,
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    recorder: EventRecorder,
    times: Mutex<TriggerTimes>,
    written: Tracker,
    zones: Mutex<Zones>,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let services: Informer<Service> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let nodes: Informer<Node> = Informer::start(&ctx, client.all(), ListParams::default());
    let slices: Informer<EndpointSlice> = Informer::start(&ctx, client.all(), ListParams::default());
    services.synced().await;
    pods.synced().await;
    nodes.synced().await;
    slices.synced().await;
    let (mut service_changes, mut pod_changes) = (services.subscribe(), pods.subscribe());
    let (mut slice_changes, mut node_changes) = (slices.subscribe(), nodes.subscribe());
    let queue = WorkQueue::new(&ctx, Duration::from_secs(1), Duration::from_secs(1000)).named("endpoint_slice");
    let controller = Arc::new(Controller {
        recorder: EventRecorder::new(&client, SOURCE),
        client,
        services,
        pods,
        nodes,
        slices,
        times: Mutex::default(),
        written: Tracker::default(),
        zones: Mutex::new(Zones::new()),
        queue: queue.clone(),
    });
    if !controller.nodes.is_empty() {
        controller.zones.lock().set_nodes(&controller.nodes.list());
    }
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = service_changes.recv() => match delta {
                Delta::Applied { new, .. } => queue.add(key(&*new)),
                Delta::Deleted(service) => queue.add(key(&*service)),
            },
            Some(delta) = pod_changes.recv() => controller.pod_changed(&delta),
            Some(delta) = slice_changes.recv() => controller.slice_changed(&delta),
            Some(delta) = node_changes.recv() => controller.node_changed(&delta),
        }
    }
}

impl Controller {
    fn pod_changed(&self, delta: &Delta<Pod>) {
        let (Delta::Applied { new: pod, .. } | Delta::Deleted(pod)) = delta;
        let misses_leavers = mutant!(self.client.ctx(), "unselected-pod-stays-endpoint");
        for service in concerned(&self.services, delta) {
            if !misses_leavers || selects(&service, pod) {
                self.queue.add(key(&*service));
            }
        }
    }

    /// Looks again at the Services of which a zone has too few endpoints now (`checkNodeTopologyDistribution`).
    fn node_changed(&self, delta: &Delta<Node>) {
        if let Delta::Applied { old: Some(old), new } = delta
            && !matters(old, new)
        {
            return;
        }
        let nodes = self.nodes.list();
        let mut zones = self.zones.lock();
        zones.set_nodes(&nodes);
        zones.overloaded().into_iter().for_each(|service| self.queue.add(service));
    }

    /// Corrects slices that another client changed (`onEndpointSliceUpdate`).
    fn slice_changed(&self, delta: &Delta<EndpointSlice>) {
        let (Delta::Applied { new: slice, .. } | Delta::Deleted(slice)) = delta;
        if slice.label(MANAGED_BY) == Some(CONTROLLER)
            && let Some(owner) = service_of(slice)
            && self.written.is_foreign(delta)
        {
            self.queue.add_after(owner, SLICE_DELAY);
        }
    }

    async fn sync(self: Arc<Self>, item: Key) -> Outcome {
        let Some(service) = self.services.get(&item.0, &item.1) else {
            self.times.lock().forget(&item);
            self.written.forget(&item);
            return Outcome::Done;
        };
        let done = self.sync_service(&item, &service).await;
        if mutant!(self.client.ctx(), "endpoints-error-dropped") {
            return Outcome::Done;
        }
        self.queue.retried(&item, RETRIES, done)
    }

    async fn sync_service(&self, item: &Key, service: &Arc<Service>) -> Result<()> {
        let Some(spec) = &service.spec else { return Ok(()) };
        if spec.type_.as_deref() == Some("ExternalName") || spec.selector.as_ref().is_none_or(BTreeMap::is_empty) {
            return Ok(());
        }
        let all = self.pods.list_in(service.namespace());
        let pods: Vec<Arc<Pod>> = all.into_iter().filter(|pod| selects(service, pod)).collect();
        let own = |slice: &EndpointSlice| {
            slice.label(SERVICE_NAME) == Some(service.name()) && slice.label(MANAGED_BY) == Some(CONTROLLER)
        };
        let slices: Vec<_> =
            self.slices.list_in(service.namespace()).into_iter().filter(|s| own(s) && !s.is_deleting()).collect();
        if self.written.is_stale(item, &slices) {
            bail!("EndpointSlice informer cache is out of date");
        }
        let time = self.times.lock().compute(service, &pods);
        let families = families(service);
        let (desired, mut problems) = self.desired(service, &pods, &families);
        let all = reconcile(service, &families, &desired, slices, &mut self.zones.lock());
        for mut changes in all {
            let events = std::mem::take(&mut changes.events);
            changes.create.iter_mut().chain(&mut changes.update).for_each(|slice| annotate(&mut slice.metadata, time));
            if let Err(error) = self.write(item, service, changes).await {
                problems.push(error.to_string());
            }
            for (kind, reason, message) in events {
                self.recorder.event(reference(&**service), kind, reason, message);
            }
        }
        let answer = aggregate(&problems);
        if let Err(error) = &answer {
            let (namespace, name) = (service.namespace(), service.name());
            let message = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {error}");
            self.recorder.event(reference(&**service), "Warning", "FailedToUpdateEndpointSlices", message);
        }
        answer
    }

    /// Groups the endpoints of pods by ports and family. A pod whose node is unknown is left out, and reported, unless the
    /// Service publishes pods that are not ready.
    fn desired(&self, service: &Service, pods: &[Arc<Pod>], families: &[String]) -> (Vec<Desired>, Vec<String>) {
        let publishes = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
        let (mut all, mut problems): (Vec<Desired>, Vec<String>) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|pod| has_endpoint(pod)) {
            let (name, node) = (node_name(pod), self.nodes.get("", node_name(pod)));
            if node.is_none() && !publishes {
                let (pod, namespace, service) = (pod.name(), service.namespace(), service.name());
                problems.push(format!("skipping Pod {pod} for Service {namespace}/{service}: Node {name} Not Found"));
                continue;
            }
            let mut ports: Vec<EndpointPort> = in_order(ports(service, pod));
            if mutant!(self.client.ctx(), "second-port-not-listed") {
                ports.truncate(1);
            }
            for family in families {
                let Some(mut endpoint) = endpoint(service, pod, node.as_deref(), family) else { continue };
                if mutant!(self.client.ctx(), "terminating-endpoint-ready")
                    && let Some(conditions) = &mut endpoint.conditions
                    && conditions.serving == Some(true)
                {
                    conditions.ready = Some(true);
                }
                if mutant!(self.client.ctx(), "unready-address-hidden-at-end")
                    && let Some(conditions) = &mut endpoint.conditions
                    && conditions.terminating == Some(true)
                {
                    conditions.ready = Some(false);
                }
                if mutant!(self.client.ctx(), "endpoint-without-hostname") {
                    endpoint.hostname = None;
                }
                if mutant!(self.client.ctx(), "endpoint-without-node") {
                    endpoint.node_name = None;
                }
                match all.iter_mut().find(|one| one.family == *family && one.ports == ports) {
                    Some(one) => one.endpoints.push(endpoint),
                    None => {
                        all.push(Desired { family: family.clone(), ports: ports.clone(), endpoints: vec![endpoint] });
                    }
                }
            }
        }
        (all, problems)
    }

    async fn write(&self, item: &Key, service: &Service, changes: Changes) -> Result<()> {
        let api = self.client.namespaced::<EndpointSlice>(service.namespace());
        if !service.is_deleting() {
            for slice in &changes.create {
                match api.create(slice).await {
                    Ok(created) => self.written.wrote(&created),
                    Err(error) if error.is_namespace_terminating() => return Ok(()),
                    Err(error) => bail!("failed to create EndpointSlice for Service {}/{}: {error}", item.0, item.1),
                }
            }
        }
        for slice in &changes.update {
            match api.replace(slice).await {
                Ok(updated) => self.written.wrote(&updated),
                Err(error) => {
                    let name = slice.name();
                    bail!("failed to update {name} EndpointSlice for Service {}/{}: {error}", item.0, item.1)
                }
            }
        }
        for slice in &changes.delete {
            if let Err(error) = api.delete(slice.name(), &DeleteParams::default()).await {
                let name = slice.name();
                bail!("failed to delete {name} EndpointSlice for Service {}/{}: {error}", item.0, item.1)
            }
            self.written.deleted(slice);
        }
        Ok(())
    }
}
