//! The pure state machine: objects, revisions, history; no IO, no ambient time or randomness.
//!
//! One counter numbers all commits, as etcd's revision does. Objects live in one persistent ordered map per kind, so
//! that a list at an older revision is the present map with the newer events undone. Each commit makes one [`Event`],
//! encoded once.

mod api_services;
mod autoscaler_view;
mod bootstrap;
mod certificate;
mod cold;
mod command;
mod compactor;
mod complete;
mod create;
mod dangling;
mod default;
mod definitions;
mod delete;
mod event_view;
mod flaw;
mod flow;
mod history;
mod identity;
mod internal;
mod kind_store;
mod limits;
mod list;
mod load;
mod managed;
pub mod manifest;
pub mod matching;
mod mutations;
mod namespace;
mod object;
mod pod_security;
mod policies;
mod privileged;
mod quota;
pub mod rbac;
mod restore;
mod roles;
mod runtime_class;
mod saved;
mod scale;
pub mod selector;
mod service;
mod service_account;
pub mod shape;
mod status;
mod strategy;
mod subresource;
mod token;
mod update;
mod validate;
mod view;
mod warnings;
mod watch;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use cold::Packing;
pub use command::{Asking, Command, DeleteOptions, Mutated, Part, Propagation, Reply, Stage, Target, WriteOptions};
use compactor::Compactor;
pub use complete::complete;
pub use create::identify_review;
pub use flaw::{FieldValidation, Flaw, MOST_FLAWS};
pub use flow::Matched;
pub use history::{Event, EventType};
use kind_store::KindStore;
pub use list::{ListOptions, Listed, Match, Version};
pub use namespace::NamespaceUpkeep;
pub use object::{Key, Object, encode, key, line, name_of};
pub use policies::EVERYTHING;
use rand_core::Rng;
pub use saved::SavedObject;
pub use scale::scale_of;
pub use service::ServiceRange;
pub use service_account::ServiceAccounts;
pub use status::{Cause, Details, Status, created, qualified, success};
use substrate::{Now, Seed, ids};
pub use token::{Identity, TokenIssuer};
pub use update::{check_applied_type, refused};
pub use view::{from_view, to_view};
pub use watch::{Initial, Started, WatchOptions, event_type_for};

use crate::custom::Registry;
pub(crate) use crate::fields::quantity;
pub use crate::fields::{FieldError, FieldFault, value};
use crate::keys::PublicKey;
use crate::kinds::{self, Kind};

type Random = Box<dyn Rng + Send>;

/// Limits of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of events per kind; older revisions answer 410.
    pub history: usize,
    /// Maximum size of a kind's events that only lists can go back to, in bytes.
    pub history_bytes: usize,
    /// Time for which a watch can start at an event, at least; upstream's watch cache keeps 75 s. The newest [`LEAST`]
    /// events of each kind stay longer.
    pub fresh: Duration,
    /// Interval of compactions (kube-apiserver `--etcd-compaction-interval`): lists can go back at least that far. Zero
    /// turns compaction off.
    pub compaction: Duration,
    /// Lifetime of an Event object after its last write (kube-apiserver `--event-ttl`).
    pub event_ttl: Duration,
    /// If set, objects are kept as bytes only. Their trees, which are several times as large, are parsed again when an
    /// object is written. A server for many objects does this; a simulation does not, because it takes time.
    pub folds: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history: 102_400,
            history_bytes: 64 << 20,
            fresh: Duration::from_secs(75),
            compaction: Duration::from_secs(300),
            event_ttl: Duration::from_secs(3600),
            folds: false,
        }
    }
}

/// Number of events of each kind that are kept at any age, as in upstream's smallest watch cache.
pub const LEAST: usize = 100;

/// An Event object that expires at `at` unless it is written again.
struct Expiry {
    at: Duration,
    key: Key,
    revision: u64,
}

/// Seeded bugs of a store, to prove that a checker sees them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defects {
    /// Removes a deleted object at once, even if it has finalizers.
    pub ignores_finalizers: bool,
    /// Accepts an update with an old resourceVersion.
    pub takes_stale_writes: bool,
    /// Deletes an object that a precondition of the delete excludes.
    pub ignores_preconditions: bool,
    /// Keeps a terminating object that has lost its last finalizer.
    pub keeps_released: bool,
    /// Removes a deleted pod at once, regardless of its grace period.
    pub ignores_grace: bool,
    /// Applies a patch whose uid or resourceVersion is that of an earlier object.
    pub ignores_patch_preconditions: bool,
    /// Takes the status from a write of the object itself.
    pub takes_status: bool,
    /// Evicts a pod regardless of its disruption budget.
    pub ignores_budgets: bool,
    /// Evicts a pod and leaves its disruption budget as it is.
    pub keeps_budgets: bool,
    /// Admits the growth of a claim whose class does not allow expansion.
    pub expands_any_class: bool,
    /// Leaves out the first object of each further page of a list.
    pub skips_continued: bool,
    /// Accepts a new finalizer of a terminating object.
    pub takes_late_finalizers: bool,
    /// Gives no default class to a claim.
    pub leaves_class_out: bool,
    /// Applies a strategic merge patch of a status as a merge patch.
    pub replaces_lists: bool,
    /// Removes a terminating namespace whose remaining objects are terminating.
    pub forgets_terminating: bool,
    /// Treats a delete that orphans the dependents as any other.
    pub forgets_orphans: bool,
    /// Leaves metadata.generation as it is.
    pub keeps_generation: bool,
    /// Keeps the finalizers that a strategic merge patch deletes.
    pub keeps_finalizers: bool,
    /// Refuses a smaller size of a claim, even above its capacity.
    pub refuses_recovery: bool,
    /// Evicts a pod without its condition DisruptionTarget.
    pub evicts_unmarked: bool,
    /// Admits the growth of a claim beyond its quota.
    pub grows_beyond_quota: bool,
    /// Evicts a pod by a status of its budget that is older than the budget's spec.
    pub trusts_old_budgets: bool,
    /// Gives a claim the oldest default class.
    pub takes_oldest_class: bool,
}

/// The state of the cluster.
pub struct Store {
    revision: u64,
    /// Time of the newest call.
    mono: Duration,
    kind_stores: Vec<KindStore>,
    limits: Limits,
    uids: Random,
    names: Random,
    tokens: Random,
    /// Draws the names of token volumes.
    volumes: Random,
    service_accounts: ServiceAccounts,
    /// Key that signs the tokens of service accounts.
    token_key: [u8; 64],
    issuer: TokenIssuer,
    /// Keys that verify tokens of other issuers.
    token_verifiers: Vec<PublicKey>,
    /// CA certificate of the server, PEM; `None` without TLS.
    authority: Option<Arc<str>>,
    expiries: VecDeque<Expiry>,
    compactor: Compactor,
    /// Number of events that compactions dropped.
    forgotten: u64,
    committed: Vec<Arc<Event>>,
    /// The served custom kinds.
    served: definitions::Served,
    /// Kinds that definitions declare.
    registry: Registry,
    /// If set, objects are kept as on a real server: with managedFields from their creation on, and with Go's zero
    /// values for unset fields.
    tracks: bool,
    publishes: bool,
    /// The published certificate, if it is not the CA's.
    root_ca: Option<Arc<str>>,
    /// Flow schemas that requests are matched against; `None` after a change, until the next request reads them.
    flows: Option<Vec<flow::Flow>>,
    /// Seeded bugs.
    defects: Defects,
    /// Warnings of policies, for the answer to the request.
    warnings: Vec<String>,
    /// Audit annotations of policies, for the audit event of the request.
    annotations: Vec<(String, String)>,
    /// User of the present command; `None` for writes of the server itself.
    asking: Option<Asking>,
    /// If set, RBAC decides what users may do; otherwise everything is allowed.
    checks_access: bool,
    upkeep: NamespaceUpkeep,
    forbids_privileged: bool,
    service_range: ServiceRange,
    /// Address of the endpoint of the API server's own service.
    advertised: Option<std::net::SocketAddr>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl Store {
    /// Creates an empty cluster; uids and generated names come from `seed`.
    pub fn new(seed: &Seed, limits: Limits) -> Self {
        let mut token_key = [0; 64];
        seed.child("token key").rng().fill_bytes(&mut token_key);
        Self {
            revision: 0,
            mono: Duration::ZERO,
            kind_stores: kinds::all().iter().map(|kind| KindStore::new(kind.into(), limits, 0)).collect(),
            limits,
            uids: Box::new(seed.child("uid").rng()),
            names: Box::new(seed.child("generateName").rng()),
            tokens: Box::new(seed.child("token").rng()),
            volumes: Box::new(seed.child("token volume").rng()),
            service_accounts: ServiceAccounts::default(),
            token_key,
            issuer: TokenIssuer::default(),
            token_verifiers: Vec::new(),
            authority: None,
            expiries: VecDeque::new(),
            compactor: Compactor::new(limits.compaction),
            forgotten: 0,
            committed: Vec::new(),
            served: definitions::Served::new(),
            registry: Registry::default(),
            tracks: false,
            publishes: false,
            root_ca: None,
            flows: None,
            defects: Defects::default(),
            warnings: Vec::new(),
            annotations: Vec::new(),
            asking: None,
            checks_access: false,
            upkeep: NamespaceUpkeep::default(),
            forbids_privileged: false,
            service_range: ServiceRange::default(),
            advertised: None,
        }
    }

    /// Lets RBAC decide what users may do, for policies that ask.
    pub fn check_access(&mut self) {
        self.checks_access = true;
    }

    /// Keeps objects as a real server does: with managedFields from their creation on, and with Go's zero values for
    /// unset fields.
    pub fn track_managers(&mut self) {
        self.tracks = true;
    }

    /// Publishes the CA certificate of this server, if it has one, in the ConfigMap `kube-root-ca.crt` of every
    /// namespace, for clusters without kube-controller-manager. `root_ca` replaces the server's own CA.
    pub fn publish_root_ca(&mut self, root_ca: Option<&str>) {
        self.publishes = true;
        self.root_ca = root_ca.map(Into::into);
    }

    /// Activates seeded bugs.
    pub fn plant(&mut self, defects: Defects) {
        self.defects = defects;
    }

    /// Returns the revision of the last commit.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Applies a command, like [`apply`](Self::apply), with the user and options that policies see.
    ///
    /// # Errors
    /// The failure as the client sees it.
    pub fn apply_for(&mut self, now: Now, asking: Option<&Asking>, command: Command) -> Result<Reply, Status> {
        self.asking = asking.cloned();
        let reply = self.apply(now, command);
        self.asking = None;
        reply
    }

    /// Applies a command, after all transitions that are due up to `now`.
    ///
    /// # Errors
    /// The failure as the client sees it.
    pub fn apply(&mut self, now: Now, command: Command) -> Result<Reply, Status> {
        self.tick(now);
        // The previous caller may not have taken its warnings; they must not appear in another answer.
        self.warnings.clear();
        self.annotations.clear();
        let first = self.committed.len();
        let reply = match command {
            Command::Create { kind, namespace, object, options } => {
                self.create(now, &kind, namespace.as_deref(), object, options)
            }
            Command::Update { target, object, options } => self.update(now, &target, object, options),
            Command::Patch { target, patch_kind, patch, options } => {
                self.patch(now, &target, patch_kind, patch, options)
            }
            Command::Apply { target, applied, force, options } => {
                self.apply_configuration(now, &target, applied, force, options)
            }
            Command::Delete { target, options } => self.delete(now, &target, options),
            Command::DeleteCollection { kind, namespace, selector, options } => {
                self.delete_collection(now, &kind, namespace.as_deref(), &selector, &options)
            }
            Command::Bind { namespace, name, binding, dry_run } => self.bind(now, &namespace, &name, &binding, dry_run),
            Command::Evict { namespace, name, eviction, dry_run } => {
                self.evict(now, &namespace, &name, &eviction, dry_run)
            }
            Command::RequestToken { namespace, name, request, dry_run } => {
                self.request_token(now, &namespace, &name, &request, dry_run)
            }
        };
        self.settle(now, first);
        reply
    }

    /// Returns the time of the next timer.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.expiries.front().map(|expiry| expiry.at).into_iter().chain(self.compactor.due()).min()
    }

    /// Runs the timers that are due up to `now`, in order: Event objects expire, the history is compacted.
    pub fn tick(&mut self, now: Now) {
        self.mono = now.mono;
        self.compactor.begin(now.mono);
        loop {
            let ends = self.expiries.front().map(|expiry| expiry.at).filter(|at| *at <= now.mono);
            if let Some(revision) = self.compactor.pass(ends.unwrap_or(now.mono), self.revision) {
                for kind_store in &mut self.kind_stores {
                    self.forgotten += kind_store.history.compact(now.mono, revision);
                }
            }
            if ends.is_none() {
                return;
            }
            let Some(expiry) = self.expiries.pop_front() else { return };
            let events = event_view::core();
            // An Event that was written again has a later entry in the queue.
            if self.get(events, &expiry.key).is_some_and(|o| o.revision == expiry.revision) {
                self.remove(events, &expiry.key);
            }
        }
    }

    /// Returns an object.
    pub fn get(&self, kind: &Kind, key: &str) -> Option<&Arc<Object>> {
        self.kind_store(kind).objects().get(key)
    }

    /// Returns all objects of a kind in list order.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.kind_store(kind).objects().values()
    }

    /// Returns all objects of a kind with their keys, in list order.
    pub fn all_with_keys(&self, kind: &Kind) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        self.kind_store(kind).objects().iter()
    }

    /// Takes the commits since the last call, oldest first, for the watches.
    pub fn take_committed(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.committed)
    }

    /// Takes the warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Takes the audit annotations since the last call.
    pub fn take_annotations(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.annotations)
    }

    /// Returns true if there are bindings of policies or webhooks, which need to know the user.
    pub fn has_admission(&self) -> bool {
        [kinds::MUTATING_ADMISSION_POLICY_BINDINGS, kinds::VALIDATING_ADMISSION_POLICY_BINDINGS]
            .iter()
            .any(|kind| !self.kind_store(kind).objects().is_empty())
            || self.has_webhooks()
    }

    /// Returns true if there are webhook configurations.
    pub fn has_webhooks(&self) -> bool {
        [kinds::MUTATING_WEBHOOK_CONFIGURATIONS, kinds::VALIDATING_WEBHOOK_CONFIGURATIONS]
            .iter()
            .any(|kind| !self.kind_store(kind).objects().is_empty())
    }

    /// Returns the webhook configurations by name.
    pub fn webhook_configurations(&self, mutating: bool) -> impl Iterator<Item = &Arc<Object>> {
        self.all(if mutating {
            kinds::MUTATING_WEBHOOK_CONFIGURATIONS
        } else {
            kinds::VALIDATING_WEBHOOK_CONFIGURATIONS
        })
    }

    /// Returns the number of events that compactions dropped.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Removes all objects and restarts. The revision continues, so every older watch and token has expired.
    pub fn reset(&mut self, now: Now) {
        self.wipe();
        self.bootstrap(now);
    }

    fn wipe(&mut self) {
        self.revision += 1;
        for kind_store in &mut self.kind_stores {
            kind_store.wipe(self.limits, self.revision);
        }
        self.expiries.clear();
        self.flows = None;
        self.served.clear();
        self.committed.clear();
    }

    /// Drops the history up to and including `revision`, both the one for lists (as a compaction of etcd) and the one
    /// for watches (as a restart).
    pub fn compact(&mut self, revision: u64) {
        for kind_store in &mut self.kind_stores {
            kind_store.history.forget(revision.min(self.revision));
        }
    }

    fn kind_store(&self, kind: &Kind) -> &KindStore {
        &self.kind_stores[position(kind)]
    }

    /// Writes an object: the next revision, one event.
    fn put(&mut self, now: Now, kind: &Kind, key: Key, mut value: substrate::json::Value) -> Arc<Object> {
        self.complete(kind, &mut value);
        if kind.group == kinds::FLOW_SCHEMAS.group {
            self.flows = None;
        }
        self.revision += 1;
        let kind_store = &mut self.kind_stores[position(kind)];
        assert!(
            identity::stands_at(&kind_store.kind, &key, &value),
            "{key} of {} is written as {value}",
            kind_store.kind.plural
        );
        debug_assert!(
            kind_store.objects().get(&key).is_none_or(|old| identity::changed(&old.unfolded().value, &value).is_none()),
            "{key} of {} would lose its identity: {value}",
            kind_store.kind.plural
        );
        let event_type = if kind_store.objects().contains_key(&key) { EventType::Modified } else { EventType::Added };
        let object = Object::new(&kind_store.kind, value, self.revision, event_type);
        let old = kind_store.insert(key.clone(), object.clone());
        let event = Event::new(self.revision, kind_store.kind.clone(), key.clone(), old, Some(object.clone()));
        kind_store.history.push(self.mono, &event);
        self.note_commit(event);
        if event_view::is_event(kind) {
            let at = now.mono + self.limits.event_ttl;
            self.expiries.push_back(Expiry { at, key, revision: self.revision });
        }
        object
    }

    /// Adds Go's zero values for unset fields. In a simulation they are not needed.
    fn complete(&self, kind: &Kind, object: &mut substrate::json::Value) {
        if self.tracks {
            complete::complete(kind, object);
        }
    }

    /// Removes an object: the next revision, one event. Returns the object as it was.
    fn remove(&mut self, kind: &Kind, key: &str) -> Option<Arc<Object>> {
        let kind_store = &mut self.kind_stores[position(kind)];
        // With its tree, for the watchers: the history may hold the same object without one.
        let old = kind_store.remove(key)?.unfolded();
        if kind.group == kinds::FLOW_SCHEMAS.group {
            self.flows = None;
        }
        self.revision += 1;
        let event = Event::new(self.revision, kind_store.kind.clone(), key.into(), Some(old), None);
        let gone = event.object(EventType::Deleted).cloned();
        kind_store.history.push(self.mono, &event);
        self.note_commit(event);
        gone
    }

    /// Records a commit for the watches. If a command makes many, such as the deletion of a collection, only the first
    /// keep their trees, which together take ten times the memory of the encoded objects.
    fn note_commit(&mut self, event: Arc<Event>) {
        let event = if self.limits.folds && self.committed.len() >= LEAST { event.folded() } else { event };
        self.committed.push(event);
    }

    fn new_uid(&mut self) -> String {
        ids::uuid(&mut self.uids).to_string()
    }

    fn new_suffix(&mut self) -> String {
        ids::name_suffix(&mut self.names)
    }
}

/// Returns the position of a kind in tables that have a row for each stored kind.
pub fn position(kind: &Kind) -> usize {
    kind.index
}
