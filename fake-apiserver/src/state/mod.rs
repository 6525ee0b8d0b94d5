//! The pure state machine: objects, revisions, history; no IO, no ambient time or randomness.
//!
//! One counter numbers all commits, as etcd's revision does. Objects live in one persistent ordered map per kind, so
//! that a list at an older revision is the present map with the newer events undone. Each commit makes one [`Event`],
//! encoded once.

mod access;
mod api_services;
mod autoscaler_view;
mod bootstrap;
mod certificate;
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
mod flaw_reports;
mod flow;
mod flow_match;
mod history;
mod identify;
mod identity;
mod internal;
mod kind_store;
mod legacy_tokens;
mod list;
mod load;
mod managed;
pub mod manifest;
mod mutations;
mod namespace;
mod namespace_report;
mod namespace_upkeep;
mod node_ports;
mod packing;
mod policy_status;
mod quota;
mod restore;
mod saved;
mod scale;
mod served;
mod service;
mod service_account;
mod service_accounts;
mod service_range;
pub mod shape;
mod store;
mod store_limits;
mod strategy;
mod subresource;
mod token;
mod token_check;
mod token_issuer;
mod update;
mod validate;
mod view;
mod warnings;
mod watch;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use api_admission::policies::EVERYTHING;
pub use api_admission::{matching, rbac};
use api_admission::{mutation_checks, policies};
pub use api_model::selector;
use api_model::{key_range, object, status, user};
pub use command::{Asking, Command, DeleteOptions, Mutated, Part, Propagation, Reply, Stage, Target, WriteOptions};
use compactor::Compactor;
pub use complete::complete;
pub use flaw::{FieldValidation, Flaw, MOST_FLAWS};
pub use flow_match::Matched;
pub use history::{Event, EventType};
pub use identify::identify_review;
use kind_store::KindStore;
pub use list::{ListOptions, Listed, Match, Version};
pub use namespace_upkeep::NamespaceUpkeep;
pub use object::{Key, Object, encode, key, line, name_of};
pub use packing::Packing;
use rand_core::Rng;
pub use saved::SavedObject;
pub use scale::scale_of;
pub use service_accounts::ServiceAccounts;
pub use service_range::ServiceRange;
pub use status::{Cause, Details, Status, created, qualified, success};
use store::Expiry;
pub use store::{Defects, Store};
pub use store_limits::{LEAST, Limits};
use substrate::{Now, Seed, ids};
pub use token_issuer::TokenIssuer;
pub use update::{check_applied_type, refused};
pub use user::Identity;
pub use view::{from_view, to_view};
pub use watch::{Initial, Started, WatchOptions, event_type_for};

use crate::custom::Registry;
pub(crate) use crate::fields::quantity;
pub use crate::fields::{FieldError, FieldFault, value};
use crate::kinds::{self, Kind};

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
            served: served::Served::new(),
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
        for kind_store in &mut self.kind_stores {
            kind_store.indexes_once = defects.indexes_once;
        }
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
