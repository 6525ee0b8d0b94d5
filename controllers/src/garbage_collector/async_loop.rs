//! Watches of all kinds, two queues, and the requests.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use substrate::mutant;
use substrate::process::Ctx;
use tokio::sync::oneshot;

use super::decide::{Decision, Owners, decide, unblocked};
use super::discovery::{Kinds, Served, discover};
use super::graph::{Change, FOREGROUND, Graph, Node, ORPHAN, Task};
use super::identity::Identity;
use crate::events::GarbageCollected;
use crate::kube::metadata::{Metadata, MetadataDelta, MetadataInformer, MetadataPatch, Propagation};
use crate::kube::queue::Outcome;
use crate::kube::{ApiError, Client, EventRecorder, WorkQueue};

/// Source of its Events.
const SOURCE: &str = "garbage-collector-controller";
/// Period of the search for new kinds; the first lists also get this time.
const PERIOD: Duration = Duration::from_secs(30);
/// Attempts at a change of finalizers after conflicts, and the first wait, which grows fivefold
/// (`retry.DefaultBackoff`).
const TRIES: u32 = 4;
const RETRY: Duration = Duration::from_millis(10);

/// Runs the controller forever.
pub async fn run(ctx: Ctx, client: Client, workers: usize) {
    let (base, max) = (Duration::from_millis(5), Duration::from_secs(1000));
    let collector = Collector(Arc::new(Inner {
        events: EventRecorder::new(&client, SOURCE),
        graph: Mutex::default(),
        kinds: Mutex::default(),
        deletes: WorkQueue::new(&ctx, base, max).named("garbage_collector_attempt_to_delete"),
        orphans: WorkQueue::new(&ctx, base, max).named("garbage_collector_attempt_to_orphan"),
        client,
        ctx: ctx.clone(),
    }));
    let mut monitors = Monitors::default();
    collector.resync(&mut monitors).await;
    let deletes = collector.clone();
    ctx.spawn(collector.0.deletes.clone().run(workers, move |uid| deletes.clone().delete(uid)));
    let orphans = collector.clone();
    ctx.spawn(collector.0.orphans.clone().run(workers, move |uid| orphans.clone().orphan(uid)));
    loop {
        ctx.sleep(PERIOD).await;
        collector.resync(&mut monitors).await;
    }
}

/// Running watches. Dropping a sender stops its watch.
type Monitors = BTreeMap<Served, oneshot::Sender<()>>;

#[derive(Clone)]
struct Collector(Arc<Inner>);

struct Inner {
    ctx: Ctx,
    client: Client,
    events: EventRecorder,
    graph: Mutex<Graph>,
    kinds: Mutex<Kinds>,
    deletes: WorkQueue<String>,
    orphans: WorkQueue<String>,
}

/// Reasons to end the work on an object early.
enum Stop {
    /// The object does not exist: the graph has been updated.
    Absent,
    /// A cluster-scoped object names a namespaced owner: a retry does not help.
    Misplaced,
    /// The API server does not serve the kind (yet).
    UnknownKind,
    Api(ApiError),
}

impl From<ApiError> for Stop {
    fn from(e: ApiError) -> Self {
        Self::Api(e)
    }
}

impl Collector {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.0.graph.lock()
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.0.kinds.lock()
    }

    /// Reads the kinds, starts and stops watches, and waits for the first lists (`Sync`).
    async fn resync(&self, monitors: &mut Monitors) {
        let before = self.kinds().clone();
        let Ok(kinds) = discover(&self.0.client, &before).await else { return };
        if kinds == before {
            return;
        }
        monitors.retain(|served, _| kinds.watched.contains(served));
        let mut synced = Vec::new();
        for served in &kinds.watched {
            if monitors.contains_key(served) {
                continue;
            }
            let (informer, keep) = MetadataInformer::start(&self.0.ctx, &self.0.client, &served.path);
            synced.push(informer.synced());
            let (stop, stopped) = oneshot::channel();
            let follow = self.clone().follow(served.clone(), informer);
            self.0.ctx.spawn(async move {
                tokio::select! { biased;
                    _ = stopped => {}
                    () = keep => {}
                    () = follow => {}
                }
            });
            monitors.insert(served.clone(), stop);
        }
        *self.kinds() = kinds;
        tokio::select! { biased;
            _ = join_all(synced) => {}
            () = self.0.ctx.sleep(PERIOD) => {}
        }
    }

    async fn follow(self, served: Served, mut informer: MetadataInformer) {
        while let Some(delta) = informer.recv().await {
            let change = match &delta {
                MetadataDelta::Applied { old, new } => Change::Applied { old: old.as_deref(), new },
                MetadataDelta::Deleted(object) => Change::Deleted(object),
            };
            let mut tasks = self.graph().observe(&served.api_version, &served.kind, change);
            if matches!(change, Change::Deleted(_)) && mutant!(self.0.ctx, "one-dependent-collected") {
                tasks.truncate(1);
            }
            self.take(tasks);
        }
    }

    fn take(&self, tasks: Vec<Task>) {
        for task in tasks {
            match task {
                Task::Delete(uid) if mutant!(self.0.ctx, "dependents-found-late") => {
                    self.0.deletes.add_after(uid, Duration::from_secs(60));
                }
                Task::Delete(uid) => self.0.deletes.add(uid),
                Task::DeleteLater(uid) => self.0.deletes.add_rate_limited(uid),
                Task::Orphan(uid) => self.0.orphans.add(uid),
                Task::ReportNamespace(of) => self.report(&of.dependent, &of.owner),
            }
        }
    }

    fn report(&self, dependent: &Identity, owner: &Identity) {
        let namespace = &dependent.namespace;
        let text = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
        let object = ObjectReference {
            api_version: Some(dependent.api_version.clone()),
            kind: Some(dependent.kind.clone()),
            name: Some(dependent.name.clone()),
            namespace: Some(namespace.clone()),
            uid: Some(dependent.uid.clone()),
            ..ObjectReference::default()
        };
        self.0.events.event(object, "Warning", "OwnerRefInvalidNamespace", text);
    }

    fn served(&self, api_version: &str, kind: &str) -> Result<Served, Stop> {
        self.kinds().find(api_version, kind).cloned().ok_or(Stop::UnknownKind)
    }

    /// Returns the latest state of an object.
    async fn latest(&self, of: &Identity) -> Result<Metadata, Stop> {
        let served = self.served(&of.api_version, &of.kind)?;
        Ok(self.0.client.metadata(&served.path, &of.namespace, &of.name).await?)
    }

    /// Works on one object (`attemptToDeleteWorker`).
    async fn delete(self, uid: String) -> Outcome {
        let node = self.graph().node(&uid).cloned();
        let Some(node) = node else { return Outcome::Done };
        match self.attempt(&node).await {
            Err(Stop::Absent | Stop::Misplaced) => Outcome::Done,
            Err(Stop::UnknownKind | Stop::Api(_)) => Outcome::Retry,
            // Retried until a watch has shown it (kubernetes#56121).
            Ok(()) if !node.is_observed => Outcome::Retry,
            Ok(()) => Outcome::Done,
        }
    }

    async fn attempt(&self, node: &Node) -> Result<(), Stop> {
        if !node.needs_work() {
            return Ok(());
        }
        if !node.is_observed && mutant!(self.0.ctx, "living-owner-ignored") {
            return Err(self.absent(&node.identity));
        }
        let latest = match self.latest(&node.identity).await {
            Ok(latest) if latest.uid == node.identity.uid => latest,
            Ok(_) => return Err(self.absent(&node.identity)),
            Err(Stop::Api(e)) if e.is_not_found() => return Err(self.absent(&node.identity)),
            Err(e) => return Err(e),
        };
        // The graph may have learnt of the deletion meanwhile.
        let waits = self.graph().node(&node.identity.uid).map(|now| now.is_deleting_dependents);
        if waits.unwrap_or(node.is_deleting_dependents) {
            return self.wait_for_dependents(node).await;
        }
        if latest.owner_references.is_empty() {
            return Ok(());
        }
        let mut owners = self.classify(node, &latest.owner_references).await?;
        if mutant!(self.0.ctx, "one-missing-owner-suffices") && !owners.dangling.is_empty() {
            owners.solid.clear();
        }
        let dependents: Vec<bool> = {
            let graph = self.graph();
            let now = graph.node(&node.identity.uid);
            now.map_or_else(Vec::new, |now| graph.dependents(now).map(|one| one.is_deleting_dependents).collect())
        };
        match decide(&latest, &owners, &dependents) {
            Decision::Keep => Ok(()),
            Decision::Delete { .. } if mutant!(self.0.ctx, "dependents-kept") => Ok(()),
            Decision::Release => {
                let gone = [owners.dangling, owners.waiting].concat();
                self.release(&node.identity, gone).await
            }
            Decision::Delete { propagation, unblocks } => {
                if unblocks {
                    self.unblock(node).await?;
                }
                let is_shallow =
                    propagation == Propagation::Foreground && mutant!(self.0.ctx, "foreground-one-level-deep");
                let propagation = if is_shallow { Propagation::Background } else { propagation };
                self.send_delete(node, &latest, propagation).await
            }
        }
    }

    /// Tells the graph that an object does not exist.
    fn absent(&self, identity: &Identity) -> Stop {
        let tasks = self.graph().confirm_absent(identity);
        self.take(tasks);
        Stop::Absent
    }

    /// Handles an object in foreground deletion: removes its finalizer once no dependent blocks it
    /// (`processDeletingDependentsItem`).
    async fn wait_for_dependents(&self, node: &Node) -> Result<(), Stop> {
        let (is_blocked, waiting) = {
            let graph = self.graph();
            let blocking: Vec<&Node> =
                graph.node(&node.identity.uid).map_or_else(Vec::new, |now| graph.blocking_dependents(now).collect());
            let waiting = blocking.iter().filter(|one| !one.is_deleting_dependents);
            (!blocking.is_empty(), waiting.map(|one| one.identity.uid.clone()).collect::<Vec<_>>())
        };
        if !is_blocked || mutant!(self.0.ctx, "foreground-not-awaited") {
            return self.remove_finalizer(&node.identity, FOREGROUND).await;
        }
        self.take(waiting.into_iter().map(Task::Delete).collect());
        Ok(())
    }

    async fn classify(&self, node: &Node, references: &[OwnerReference]) -> Result<Owners, Stop> {
        let mut owners = Owners::default();
        for reference in references {
            let uid = reference.uid.clone();
            match self.owner(node, reference).await? {
                None => owners.dangling.push(uid),
                Some(owner) if owner.is_deleting() && owner.has_finalizer(FOREGROUND) => owners.waiting.push(uid),
                Some(_) => owners.solid.push(uid),
            }
        }
        Ok(owners)
    }

    /// Returns the owner that a reference names; None if it does not exist (`isDangling`).
    async fn owner(&self, node: &Node, reference: &OwnerReference) -> Result<Option<Metadata>, Stop> {
        let namespace = &node.identity.namespace;
        for namespace in ["", namespace.as_str()] {
            if self.graph().absent.has(&Identity::of_owner(reference, namespace)) {
                return Ok(None);
            }
        }
        let served = self.served(&reference.api_version, &reference.kind)?;
        if namespace.is_empty() && served.is_namespaced {
            return Err(Stop::Misplaced);
        }
        let identity = Identity::of_owner(reference, if served.is_namespaced { namespace } else { "" });
        match self.0.client.metadata(&served.path, &identity.namespace, &identity.name).await {
            Ok(owner) if owner.uid == reference.uid || mutant!(self.0.ctx, "recreated-owner-accepted") => {
                return Ok(Some(owner));
            }
            Ok(_) => {}
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.into()),
        }
        self.graph().absent.add(identity);
        Ok(None)
    }

    /// Deletes an object. If it has changed since the read and its owners have not, only its uid has to match
    /// (`deleteObject`).
    async fn send_delete(&self, node: &Node, latest: &Metadata, propagation: Propagation) -> Result<(), Stop> {
        let Identity { kind, api_version, namespace, name, uid } = &node.identity;
        let served = self.served(api_version, kind)?;
        let version = Some(latest.resource_version.as_str()).filter(|version| !version.is_empty());
        let send = |version| self.0.client.delete_object(&served.path, namespace, name, uid, version, propagation);
        let mut result = send(version).await;
        if result.as_ref().is_err_and(ApiError::is_conflict) && version.is_some() {
            match self.0.client.metadata(&served.path, namespace, name).await {
                Err(e) if e.is_not_found() => result = Err(e),
                Ok(live) if mutant!(self.0.ctx, "collected-whatever-it-is-now") => {
                    let Metadata { uid, resource_version, .. } = &live;
                    let version = Some(resource_version.as_str());
                    result =
                        self.0.client.delete_object(&served.path, namespace, name, uid, version, propagation).await;
                }
                Ok(live)
                    if live.uid == *uid
                        && live.resource_version != latest.resource_version
                        && live.owner_references == latest.owner_references =>
                {
                    result = send(None).await;
                }
                Ok(_) | Err(_) => {}
            }
        }
        if result.as_ref().is_err_and(ApiError::is_not_found) {
            return Err(self.absent(&node.identity));
        }
        self.0.ctx.trace().emit_lazily(self.0.ctx.name(), || GarbageCollected {
            object: node.identity.to_string(),
            propagation: propagation.word().into(),
            error: result.as_ref().err().map(ToString::to_string),
        });
        Ok(result?)
    }

    /// Removes the references of a dependent to these owners.
    async fn release(&self, dependent: &Identity, owners: Vec<String>) -> Result<(), Stop> {
        let patch = MetadataPatch::RemoveOwners { uid: dependent.uid.clone(), owners: owners.clone() };
        self.patch(dependent, &patch, |latest| {
            latest.owner_references.iter().filter(|owner| !owners.contains(&owner.uid)).cloned().collect()
        })
        .await
    }

    /// Changes the references of an object so that they do not block its owners.
    async fn unblock(&self, node: &Node) -> Result<(), Stop> {
        let uid = node.identity.uid.clone();
        let patch = MetadataPatch::SetOwners { uid, owners: unblocked(&node.owners) };
        self.patch(&node.identity, &patch, |latest| {
            let free = |owner: &OwnerReference| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() };
            latest.owner_references.iter().map(free).collect()
        })
        .await
    }

    /// Sends a strategic merge patch, or a merge patch of all references if the kind does not support it.
    async fn patch(
        &self,
        object: &Identity,
        patch: &MetadataPatch,
        all: impl Fn(&Metadata) -> Vec<OwnerReference>,
    ) -> Result<(), Stop> {
        let served = self.served(&object.api_version, &object.kind)?;
        let (client, namespace, name) = (&self.0.client, &object.namespace, &object.name);
        match client.patch_metadata(&served.path, namespace, name, patch).await {
            Err(e) if e.is_unsupported_media_type() => {}
            result => return Ok(result?),
        }
        let latest = client.metadata(&served.path, namespace, name).await?;
        let owners = all(&latest);
        let patch = MetadataPatch::ReplaceOwners { resource_version: latest.resource_version, owners };
        Ok(client.patch_metadata(&served.path, namespace, name, &patch).await?)
    }

    /// Releases the dependents of an object, then removes its finalizer (`attemptToOrphanWorker`).
    async fn orphan(self, uid: String) -> Outcome {
        let (owner, dependents) = {
            let graph = self.graph();
            let Some(node) = graph.node(&uid) else { return Outcome::Done };
            let mut dependents: Vec<Identity> = graph.dependents(node).map(|one| one.identity.clone()).collect();
            if mutant!(self.0.ctx, "one-dependent-released") {
                dependents.truncate(1);
            }
            (node.identity.clone(), dependents)
        };
        if mutant!(self.0.ctx, "orphan-finalizer-first") && self.remove_finalizer(&owner, ORPHAN).await.is_err() {
            return Outcome::Retry;
        }
        let releases = dependents.iter().map(|dependent| self.release(dependent, vec![owner.uid.clone()]));
        for released in join_all(releases).await {
            match released {
                Ok(()) => {}
                Err(Stop::Api(e)) if e.is_not_found() => {}
                Err(_) => return Outcome::Retry,
            }
        }
        match self.remove_finalizer(&owner, ORPHAN).await {
            Ok(()) => Outcome::Done,
            Err(_) => Outcome::Retry,
        }
    }

    async fn remove_finalizer(&self, object: &Identity, finalizer: &str) -> Result<(), Stop> {
        let served = self.served(&object.api_version, &object.kind)?;
        let mut wait = RETRY;
        for attempt in 1.. {
            let latest = match self.latest(object).await {
                Err(Stop::Api(e)) if e.is_not_found() => return Ok(()),
                latest => latest?,
            };
            if !latest.has_finalizer(finalizer) {
                return Ok(());
            }
            let finalizers = latest.finalizers.into_iter().filter(|f| f != finalizer).collect();
            let patch = MetadataPatch::ReplaceFinalizers { resource_version: latest.resource_version, finalizers };
            match self.0.client.patch_metadata(&served.path, &object.namespace, &object.name, &patch).await {
                Err(e) if e.is_conflict() && attempt < TRIES => self.0.ctx.sleep(wait).await,
                result => return Ok(result?),
            }
            wait *= 5;
        }
        Ok(())
    }
}
