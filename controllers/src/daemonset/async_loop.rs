//! Informers → expectations → work queue → writes (`daemon_controller.go`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::join_all;
use k8s_openapi::Resource as _;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use substrate::mutant;
use substrate::process::Ctx;

use super::nodes::{assign, concerns, fit, is_same_place, target, template};
use super::pods::{ByNode, Ended, by_node, on_node};
use super::{history, status, update};
use crate::kube::queue::Outcome;
use crate::kube::{Client, Delta, EventRecorder, Informer, Kind, ListParams, WorkQueue, reference};
use crate::workload::availability::{is_ready, seconds};
use crate::workload::consistency::Consistency;
use crate::workload::controller_ref::{controller_of, controller_ref};
use crate::workload::expectations::Expectations;
use crate::workload::pod_control::{PodControl, slow_start_batch};
use crate::workload::pod_template::pod_from_template;
use crate::workload::ref_manager::RefManager;
use crate::workload::related::{Seen, Selecting, concerned};
use crate::workload::{Key, counter, key};

/// Source of its Events.
const SOURCE: &str = "daemonset-controller";
/// Largest number of creations or deletions in one round (`BurstReplicas`).
const BURST: usize = 250;
/// First wait before a failed pod is deleted again on its node, and the longest one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// Set, observed generation and node of a failed pod (`failedPodsBackoffKey`).
type FailureKey = (String, i64, String);

struct Controller {
    ctx: Ctx,
    client: Client,
    sets: Informer<DaemonSet>,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    revisions: Informer<ControllerRevision>,
    control: PodControl,
    recorder: EventRecorder,
    expectations: Expectations,
    written: Arc<Consistency>,
    /// Last wait and time of a deletion of a failed pod.
    failed: Mutex<BTreeMap<FailureKey, (Duration, Duration)>>,
    queue: WorkQueue<Key>,
}

/// Runs the controller forever. `client` is kube-controller-manager's, under the controller's name.
pub(crate) async fn run(ctx: Ctx, client: Client, workers: usize) {
    let sets: Informer<DaemonSet> = Informer::start(&ctx, client.all(), ListParams::default());
    let revisions: Informer<ControllerRevision> = Informer::start(&ctx, client.all(), ListParams::default());
    let pods: Informer<Pod> = Informer::start(&ctx, client.all(), ListParams::default());
    let nodes: Informer<Node> = Informer::start(&ctx, client.all(), ListParams::default());
    if !mutant!(ctx, "daemons-before-pods-listed") {
        pods.synced().await;
    }
    nodes.synced().await;
    revisions.synced().await;
    sets.synced().await;
    let (mut set_changes, mut pod_changes, mut node_changes) = (sets.subscribe(), pods.subscribe(), nodes.subscribe());
    let mut revision_changes = revisions.subscribe();
    // client-go's default controller rate limiter.
    let queue = WorkQueue::new(&ctx, Duration::from_millis(5), Duration::from_secs(1000)).named("daemonset");
    let recorder = EventRecorder::new(&client, SOURCE);
    let written = Consistency::default().with(&pods).with(&sets).shared();
    let controller = Arc::new(Controller {
        ctx: ctx.clone(),
        control: PodControl::new(&client, &recorder, &written),
        written,
        client,
        sets,
        nodes,
        pods,
        revisions,
        recorder,
        expectations: Expectations::default(),
        failed: Mutex::default(),
        queue: queue.clone(),
    });
    let worker = controller.clone();
    ctx.spawn(queue.clone().run(workers, move |key| worker.clone().sync(key)));
    loop {
        tokio::select! { biased;
            Some(delta) = set_changes.recv() => queue.add(controller.expectations.of_changed(&delta)),
            Some(delta) = node_changes.recv() => controller.node_changed(&delta),
            Some(delta) = pod_changes.recv() => controller.pod_changed(&delta),
            Some(delta) = revision_changes.recv() => {
                // The set waits for its own new revision anyway (`addHistory`).
                let changed = concerned(&delta, &controller.sets, false).into_iter();
                changed.filter(|(_, seen)| *seen != Seen::Created).for_each(|(set, _)| queue.add(key(&*set)));
            },
        }
    }
}

impl Controller {
    /// Queues the sets that have to change something on a node (`addNode`, `updateNode`, `syncNodeUpdate`). Their pods
    /// count by the name of their controller.
    fn node_changed(&self, delta: &Delta<Node>) {
        let Delta::Applied { old, new } = delta else { return };
        let misses_changes = mutant!(self.ctx, "changed-node-not-noticed");
        if old.as_ref().is_some_and(|old| misses_changes || is_same_place(old, new)) {
            return;
        }
        let mut owners = BTreeSet::new();
        self.pods.each(|pod| {
            let is_here = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(new.name());
            if is_here && let Some(of) = controller_of(&pod.metadata).filter(|of| of.kind == DaemonSet::KIND) {
                owners.insert((pod.namespace().to_owned(), of.name.clone()));
            }
        });
        for set in self.sets.list() {
            let misscheduled = set.status.as_ref().map_or(0, |status| status.number_misscheduled);
            if concerns(fit(&set, new), owners.contains(&key(&*set)), misscheduled) {
                self.queue.add(key(&*set));
            }
        }
    }

    fn pod_changed(&self, delta: &Delta<Pod>) {
        for (set, seen) in concerned(delta, &self.sets, true) {
            let owner = key(&*set);
            match (seen, delta) {
                (Seen::Created, _) => self.expectations.creation_observed(&owner),
                (Seen::Deleted, _) => self.expectations.counted_deletion_observed(&owner),
                (Seen::Changed, Delta::Applied { old: Some(old), new }) if !is_ready(old) && is_ready(new) => {
                    let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
                    if min_ready > 0 {
                        // A second more, because the times of objects are whole seconds.
                        self.queue.add_after(owner.clone(), seconds(min_ready) + Duration::from_secs(1));
                    }
                }
                (Seen::Changed, _) => {}
            }
            self.queue.add(owner);
        }
    }

    async fn sync(self: Arc<Self>, owner: Key) -> Outcome {
        if !self.written.is_ready(&owner) {
            return Outcome::Retry;
        }
        let Some(set) = self.sets.get(&owner.0, &owner.1) else {
            self.expectations.forget(&owner);
            self.written.forget(&owner);
            return Outcome::Done;
        };
        match self.sync_set(&owner, &set).await {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }

    async fn sync_set(&self, owner: &Key, set: &Arc<DaemonSet>) -> Result<()> {
        let Some(spec) = &set.spec else { return Ok(()) };
        if spec.selector == LabelSelector::default() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.recorder.event(reference(&**set), "Warning", "SelectingAll", message);
            return Ok(());
        }
        if set.is_deleting() {
            return Ok(());
        }
        let revisions = history::construct(&self.client, &self.revisions, set, || self.own_pods(set)).await?;
        let hash = revisions.hash().to_owned();
        if !self.expectations.satisfied(owner, self.ctx.now().mono) {
            return self.update_status(set, &hash, false).await;
        }
        let answer = self.update_pods(owner, set, &hash, &revisions.old).await;
        let written = self.update_status(set, &hash, true).await;
        answer?;
        written
    }

    async fn own_pods(&self, set: &Arc<DaemonSet>) -> Result<Vec<Arc<Pod>>> {
        let all = self.pods.list_in(set.namespace());
        RefManager::new(&self.client, &**set).claim(all, |pod| set.selects(pod)).await
    }

    /// Creates and deletes pods (`updateDaemonSet`).
    async fn update_pods(
        &self,
        owner: &Key,
        set: &Arc<DaemonSet>,
        hash: &str,
        old: &[Arc<ControllerRevision>],
    ) -> Result<()> {
        let nodes = self.nodes.list();
        let pods = by_node(&self.own_pods(set).await?);
        self.manage(owner, set, &nodes, &pods, hash).await?;
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate");
        if is_rolling && self.expectations.satisfied(owner, self.ctx.now().mono) {
            // The cache may show the writes from above by now.
            let pods = by_node(&self.own_pods(set).await?);
            let wanted = nodes.iter().filter(|node| fit(set, node).should_run).map(|node| node.name().to_owned());
            let next = update::rolling(set, &pods, hash, &wanted.collect(), self.ctx.now().wall);
            self.sync_nodes(owner, set, next.deletes, next.creates, hash).await?;
        }
        history::clean_up(&self.client, set, old, &self.own_pods(set).await?).await
    }

    /// Gives each node its pod (`manage`).
    async fn manage(
        &self,
        owner: &Key,
        set: &Arc<DaemonSet>,
        nodes: &[Arc<Node>],
        pods: &ByNode,
        hash: &str,
    ) -> Result<()> {
        let (mut creates, mut deletes) = (Vec::new(), Vec::new());
        let now = self.ctx.now().wall;
        for node in nodes {
            let mut fit = fit(set, node);
            fit.may_stay |= mutant!(self.ctx, "unselected-daemon-kept");
            let next = on_node(set, fit, pods.get(node.name()), hash, now);
            if next.creates {
                creates.push(node.name().to_owned());
            }
            deletes.extend(next.ended.iter().filter_map(|ended| self.end(set, node.name(), ended)));
            deletes.extend(next.deletes);
        }
        // Pods that no node can take any more: their node is gone before they were bound.
        let is_known = |name: &str| nodes.iter().any(|node| node.name() == name);
        let lost = pods.iter().filter(|(node, _)| !is_known(node)).flat_map(|(_, pods)| pods);
        let is_unbound =
            |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_none_or(str::is_empty);
        deletes.extend(lost.filter(|pod| is_unbound(pod) && target(pod).is_some()).map(|pod| pod.name().to_owned()));
        self.sync_nodes(owner, set, deletes, creates, hash).await
    }

    /// Reports a pod that has ended; returns its name if it is to be deleted now.
    fn end(&self, set: &Arc<DaemonSet>, node: &str, ended: &Ended) -> Option<String> {
        let (kind, reason, text, pod) = match ended {
            Ended::Failed(pod) => {
                let now = self.ctx.now().mono;
                let mut all = self.failed.lock();
                let observed = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
                let item = (set.uid().to_owned(), observed, node.to_owned());
                let wait = match all.get(&item) {
                    Some((wait, at)) if now < *at + self.ctx.scaled(*wait) => {
                        self.queue.add_after(key(&**set), *wait);
                        return None;
                    }
                    Some((wait, at)) if now < *at + self.ctx.scaled(2 * LONGEST_WAIT) => (2 * *wait).min(LONGEST_WAIT),
                    _ => FIRST_WAIT,
                };
                all.insert(item, (wait, now));
                ("Warning", "FailedDaemonPod", "Found failed daemon pod", pod)
            }
            Ended::Succeeded(pod) => ("Normal", "SucceededDaemonPod", "Found succeeded daemon pod", pod),
        };
        let verb = if reason == "FailedDaemonPod" { "will try to kill it" } else { "will try to delete it" };
        let message = format!("{text} {}/{} on node {node}, {verb}", pod.namespace(), pod.name());
        self.recorder.event(reference(&**set), kind, reason, message);
        Some(pod.name().to_owned())
    }

    /// Deletes and creates pods (`syncNodes`).
    async fn sync_nodes(
        &self,
        owner: &Key,
        set: &Arc<DaemonSet>,
        mut deletes: Vec<String>,
        mut creates: Vec<String>,
        hash: &str,
    ) -> Result<()> {
        creates.truncate(BURST);
        deletes.truncate(BURST);
        self.expectations.set_counts(owner, creates.len(), deletes.len(), self.ctx.now().mono);
        let mut template = template(set, hash);
        if mutant!(self.ctx, "daemon-tolerations-dropped")
            && let Some(spec) = &mut template.spec
        {
            let own = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
            spec.tolerations = own.and_then(|own| own.tolerations.clone());
        }
        let pod = |node: &str| {
            let mut pod = pod_from_template(&template, set.name(), controller_ref(&**set));
            assign(pod.spec.get_or_insert_default(), node);
            pod
        };
        let write = |at: usize| {
            let pod = pod(&creates[at]);
            async move {
                match self.control.create(&**set, &pod).await {
                    Err(error) if !error.is_namespace_terminating() => Err(error),
                    _ => Ok(()),
                }
            }
        };
        let batch = slow_start_batch(creates.len(), 1, usize::MAX, write).await;
        for _ in batch.successes..creates.len() {
            self.expectations.creation_observed(owner);
        }
        let mut failure = batch.errors.into_iter().next().map(anyhow::Error::from);
        for answer in join_all(deletes.iter().map(|name| self.control.delete(&**set, name))).await {
            if let Err(error) = answer {
                self.expectations.counted_deletion_observed(owner);
                if !error.is_not_found() {
                    failure.get_or_insert(anyhow!(error));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes the status if it differs; tries once more with a fresh read after an error (`storeDaemonSetStatus`).
    async fn update_status(&self, set: &Arc<DaemonSet>, hash: &str, observes: bool) -> Result<()> {
        let pods = by_node(&self.own_pods(set).await?);
        let now = self.ctx.now().wall;
        let nodes = self.nodes.list();
        let mut next = status::calculate(set, &nodes, &pods, hash, observes, now);
        if mutant!(self.ctx, "daemons-wanted-everywhere") {
            next.desired_number_scheduled = i32::try_from(nodes.len()).unwrap_or(i32::MAX);
        }
        if mutant!(self.ctx, "old-daemon-pods-told-updated") {
            next.updated_number_scheduled = counter(next.current_number_scheduled);
        }
        let min_ready = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        if min_ready > 0 && next.number_ready != next.number_available.unwrap_or(0) {
            self.queue.add_after(key(&**set), seconds(min_ready));
        }
        if !status::differs(set, &next) {
            return Ok(());
        }
        let api = self.client.namespaced::<DaemonSet>(set.namespace());
        let written = DaemonSet { status: Some(next.clone()), ..DaemonSet::clone(set) };
        let answer = match api.replace_status(&written).await {
            Ok(answer) => answer,
            Err(_) => {
                let fresh = api.get(set.name()).await?;
                api.replace_status(&DaemonSet { status: Some(next), ..DaemonSet::clone(&fresh) }).await?
            }
        };
        self.written.wrote(&**set, &*answer);
        Ok(())
    }
}
