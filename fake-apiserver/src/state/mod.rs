//! The pure machine: objects, revisions, history; no IO, no ambient time or randomness.
//!
//! One counter numbers all commits (R1). Objects live in one persistent ordered map per kind, so that a list of an
//! older revision is the present map with the newer events undone. Each commit makes one [`Event`], encoded once.

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
mod shelf;
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
pub use list::{ListOptions, Listed, Match, Version};
pub use namespace::NamespaceUpkeep;
pub use object::{Key, Object, encode, key, line, name_of};
pub use policies::EVERYTHING;
use rand_core::Rng;
pub use saved::SavedObject;
pub use scale::scale_of;
pub use service::ServiceRange;
pub use service_account::ServiceAccounts;
use shelf::Shelf;
pub use status::{Cause, Details, Status, created, qualified, success};
use substrate::{Now, Seed, ids};
pub use token::{Identity, TokenIssuer};
pub use update::{check_applied_type, refused};
pub use view::{from_view, to_view};
pub use watch::{Initial, Started, WatchOptions, told};

use crate::custom::Registry;
pub(crate) use crate::fields::quantity;
pub use crate::fields::{FieldError, FieldFault, value};
use crate::keys::PublicKey;
use crate::kinds::{self, Kind};

type Random = Box<dyn Rng + Send>;

/// What the machine is allowed to hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events that are kept of each kind at most; older revisions answer 410.
    pub history: usize,
    /// What the events of a kind that only lists go back to may weigh.
    pub history_bytes: usize,
    /// How long watches can begin with an event; with the newest [`LEAST`] of each kind longer (R12: at least 75 s).
    pub fresh: Duration,
    /// How often the history is compacted, up to where it was the last time (kube-apiserver
    /// `--etcd-compaction-interval`): lists go back that far at least. Never for zero.
    pub compaction: Duration,
    /// How long an Event object lives after its last write (kube-apiserver `--event-ttl`).
    pub event_ttl: Duration,
    /// Whether objects are kept as bytes without their trees, which are several times as large and are made again when
    /// an object is written: a server for many objects does, a simulation has no time for it.
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

/// Events of each kind that are kept whatever their age, as upstream's smallest ring holds them (R12).
pub const LEAST: usize = 100;

/// An Event object that ends at `at` unless it is written again.
struct Expiry {
    at: Duration,
    key: Key,
    revision: u64,
}

/// What a store does wrong on purpose, to prove that a checker sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defects {
    /// A deleted object goes at once, whatever finalizers it has.
    pub ignores_finalizers: bool,
    /// An update with an old resourceVersion wins.
    pub takes_stale_writes: bool,
}

/// The state of the cluster.
pub struct Store {
    revision: u64,
    /// The time of the newest call.
    mono: Duration,
    shelves: Vec<Shelf>,
    limits: Limits,
    uids: Random,
    names: Random,
    tokens: Random,
    /// Draws the names of token volumes.
    volumes: Random,
    service_accounts: ServiceAccounts,
    /// What signs the tokens of service accounts.
    token_key: [u8; 64],
    issuer: TokenIssuer,
    /// What verifies those that someone else signs.
    token_verifiers: Vec<PublicKey>,
    /// The certificate of the authority that signs for the server, PEM; none where there is no TLS.
    authority: Option<Arc<str>>,
    expiries: VecDeque<Expiry>,
    compactor: Compactor,
    /// How many events compactions have taken out of the history.
    forgotten: u64,
    committed: Vec<Arc<Event>>,
    /// The custom kinds that are served.
    served: definitions::Served,
    /// What definitions made kinds of.
    registry: Registry,
    /// Whether objects are as a real server keeps them: with the managers of their fields from their creation on, and
    /// with fields that are not set where Go writes them.
    tracks: bool,
    publishes: bool,
    /// The certificate that is published, where it is not the authority's.
    root_ca: Option<Arc<str>>,
    /// The flow schemas that requests are compared with; none until the next request after one changed.
    flows: Option<Vec<flow::Flow>>,
    /// What it does wrong on purpose.
    defects: Defects,
    /// What policies warn of, for the answer to the request.
    warnings: Vec<String>,
    /// What policies note of the request, for its audit event.
    annotations: Vec<(String, String)>,
    /// In whose name the present command is done; none for what the server does by itself.
    asking: Option<Asking>,
    /// Whether roles say who may do what; otherwise everybody may do everything.
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
    /// An empty cluster; uids and generated names come from `seed`.
    pub fn new(seed: &Seed, limits: Limits) -> Self {
        let mut token_key = [0; 64];
        seed.child("token key").rng().fill_bytes(&mut token_key);
        Self {
            revision: 0,
            mono: Duration::ZERO,
            shelves: kinds::all().iter().map(|kind| Shelf::new(kind.into(), limits, 0)).collect(),
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

    /// Roles say who may do what, to policies that ask.
    pub fn check_access(&mut self) {
        self.checks_access = true;
    }

    /// Keeps the managers of every object's fields from its creation on, and what Go writes of fields that are not set,
    /// as a real server does.
    pub fn track_managers(&mut self) {
        self.tracks = true;
    }

    /// From now on every namespace has the certificate of this server, where it has one, in the ConfigMap
    /// `kube-root-ca.crt`: there is no kube-controller-manager that would put it there. It is that of the authority, or
    /// `root_ca`.
    pub fn publish_root_ca(&mut self, root_ca: Option<&str>) {
        self.publishes = true;
        self.root_ca = root_ca.map(Into::into);
    }

    /// Does some things wrong from now on.
    pub fn plant(&mut self, defects: Defects) {
        self.defects = defects;
    }

    /// The revision of the last commit.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The same as [`apply`](Self::apply), in somebody's name, which policies see.
    ///
    /// # Errors
    /// The failure as the client sees it.
    pub fn apply_for(&mut self, now: Now, asking: Option<&Asking>, command: Command) -> Result<Reply, Status> {
        self.asking = asking.cloned();
        let reply = self.apply(now, command);
        self.asking = None;
        reply
    }

    /// Does what `command` says, after everything that fell due up to `now`.
    ///
    /// # Errors
    /// The failure as the client sees it.
    pub fn apply(&mut self, now: Now, command: Command) -> Result<Reply, Status> {
        self.tick(now);
        // Whoever asked before and did not want to know is not told through somebody else's answer.
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

    /// When something falls due by itself.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.expiries.front().map(|expiry| expiry.at).into_iter().chain(self.compactor.due()).min()
    }

    /// Does everything that fell due up to `now`, in its order: Event objects end, the history is compacted.
    pub fn tick(&mut self, now: Now) {
        self.mono = now.mono;
        self.compactor.begin(now.mono);
        loop {
            let ends = self.expiries.front().map(|expiry| expiry.at).filter(|at| *at <= now.mono);
            if let Some(revision) = self.compactor.pass(ends.unwrap_or(now.mono), self.revision) {
                for shelf in &mut self.shelves {
                    self.forgotten += shelf.history.compact(now.mono, revision);
                }
            }
            if ends.is_none() {
                return;
            }
            let Some(expiry) = self.expiries.pop_front() else { return };
            let events = event_view::core();
            // One that was written again has a later entry in the queue.
            if self.get(events, &expiry.key).is_some_and(|o| o.revision == expiry.revision) {
                self.remove(events, &expiry.key);
            }
        }
    }

    /// One object.
    pub fn get(&self, kind: &Kind, key: &str) -> Option<&Arc<Object>> {
        self.shelf(kind).objects().get(key)
    }

    /// All objects of a kind in the order of lists.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.shelf(kind).objects().values()
    }

    /// All objects of a kind with their keys, in the order of lists.
    pub fn all_with_keys(&self, kind: &Kind) -> impl Iterator<Item = (&Key, &Arc<Object>)> {
        self.shelf(kind).objects().iter()
    }

    /// Takes the commits since the last call, oldest first; for the watches.
    pub fn take_committed(&mut self) -> Vec<Arc<Event>> {
        std::mem::take(&mut self.committed)
    }

    /// Takes what is to be warned of since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Takes what is to be noted in the audit event since the last call.
    pub fn take_annotations(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.annotations)
    }

    /// Whether there are policies or webhooks, which are told who asks.
    pub fn has_admission(&self) -> bool {
        [kinds::MUTATING_ADMISSION_POLICY_BINDINGS, kinds::VALIDATING_ADMISSION_POLICY_BINDINGS]
            .iter()
            .any(|kind| !self.shelf(kind).objects().is_empty())
            || self.has_webhooks()
    }

    /// Whether there are webhooks that could be asked.
    pub fn has_webhooks(&self) -> bool {
        [kinds::MUTATING_WEBHOOK_CONFIGURATIONS, kinds::VALIDATING_WEBHOOK_CONFIGURATIONS]
            .iter()
            .any(|kind| !self.shelf(kind).objects().is_empty())
    }

    /// The configurations of webhooks, by name.
    pub fn webhook_configurations(&self, mutating: bool) -> impl Iterator<Item = &Arc<Object>> {
        self.all(if mutating {
            kinds::MUTATING_WEBHOOK_CONFIGURATIONS
        } else {
            kinds::VALIDATING_WEBHOOK_CONFIGURATIONS
        })
    }

    /// How many events compactions have taken out of the history.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Wipes everything and begins anew. The revision goes on, so that every older watch and token has expired.
    pub fn reset(&mut self, now: Now) {
        self.wipe();
        self.bootstrap(now);
    }

    fn wipe(&mut self) {
        self.revision += 1;
        for shelf in &mut self.shelves {
            shelf.wipe(self.limits, self.revision);
        }
        self.expiries.clear();
        self.flows = None;
        self.served.clear();
        self.committed.clear();
    }

    /// Forgets the history up to and including `revision`, as a compaction of etcd does, and what watches could begin
    /// with, as a restart does.
    pub fn compact(&mut self, revision: u64) {
        for shelf in &mut self.shelves {
            shelf.history.forget(revision.min(self.revision));
        }
    }

    fn shelf(&self, kind: &Kind) -> &Shelf {
        &self.shelves[position(kind)]
    }

    /// Writes an object: the next revision, one event.
    fn put(&mut self, now: Now, kind: &Kind, key: Key, mut value: substrate::json::Value) -> Arc<Object> {
        self.complete(kind, &mut value);
        if kind.group == kinds::FLOW_SCHEMAS.group {
            self.flows = None;
        }
        self.revision += 1;
        let shelf = &mut self.shelves[position(kind)];
        assert!(identity::stands_at(&shelf.kind, &key, &value), "{key} of {} is written as {value}", shelf.kind.plural);
        debug_assert!(
            shelf.objects().get(&key).is_none_or(|old| identity::changed(&old.unfolded().value, &value).is_none()),
            "{key} of {} would lose its identity: {value}",
            shelf.kind.plural
        );
        let told = if shelf.objects().contains_key(&key) { EventType::Modified } else { EventType::Added };
        let object = Object::new(&shelf.kind, value, self.revision, told);
        let old = shelf.insert(key.clone(), object.clone());
        let event = Event::new(self.revision, shelf.kind.clone(), key.clone(), old, Some(object.clone()));
        shelf.history.push(self.mono, &event);
        self.note_commit(event);
        if event_view::is_event(kind) {
            let at = now.mono + self.limits.event_ttl;
            self.expiries.push_back(Expiry { at, key, revision: self.revision });
        }
        object
    }

    /// Adds what a Go server writes of fields that are not set. In a simulation nobody looks for it.
    fn complete(&self, kind: &Kind, object: &mut substrate::json::Value) {
        if self.tracks {
            complete::complete(kind, object);
        }
    }

    /// Takes an object away: the next revision, one event. Gives the object as it was, at the new revision.
    fn remove(&mut self, kind: &Kind, key: &str) -> Option<Arc<Object>> {
        let shelf = &mut self.shelves[position(kind)];
        // With a tree of its own for those who are told: the history may hold the same object, without one.
        let old = shelf.remove(key)?.unfolded();
        if kind.group == kinds::FLOW_SCHEMAS.group {
            self.flows = None;
        }
        self.revision += 1;
        let event = Event::new(self.revision, shelf.kind.clone(), key.into(), Some(old), None);
        let gone = event.object(EventType::Deleted).cloned();
        shelf.history.push(self.mono, &event);
        self.note_commit(event);
        gone
    }

    /// Keeps a commit for those who are told. Of a command with many, such as the deletion of a collection, only the
    /// first keep their trees: all of them together weigh ten times as much as the objects.
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

/// The place of a kind in tables that have a row for each stored one.
pub fn position(kind: &Kind) -> usize {
    kind.index
}
