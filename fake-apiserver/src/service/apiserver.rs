//! Creation of a server, its restored and initial objects, and its start.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use substrate::body::HttpService;
use substrate::{Ctx, Seed, latest};

use super::Apiserver;
use super::config::{Config, Keep};
use super::hub::Hub;
use super::origin_state::OriginState;
use super::server::{Server, Shared, State};
use crate::faults::OPERATIONS;
use crate::state::{Defects, SavedObject, Status, Store};
use crate::wire::openapi::KUBERNETES_VERSION;

impl Apiserver {
    /// Creates a server with an empty cluster; uids and generated names come from `seed`.
    pub fn new(seed: &Seed, config: Config) -> Self {
        let seed = seed.child("apiserver");
        let mut store = Store::new(&seed, config.limits);
        if config.track_managers {
            store.track_managers();
        }
        store.admit_service_accounts(config.service_accounts);
        if config.rbac.as_ref().is_some_and(|rbac| rbac.roles) {
            store.check_access();
        }
        if config.publish_root_ca {
            store.publish_root_ca(config.root_ca.as_deref());
        }
        store.trust_tokens(config.token_keys);
        store.issue_tokens(config.issuer);
        store.keep_namespaces(config.namespaces);
        if config.forbids_privileged {
            store.forbid_privileged();
        }
        store.serve_range(config.service_range);
        if let Some(address) = config.advertised {
            store.advertise(address);
        }
        let lifetimes = Box::new(seed.child("watch lifetime").rng());
        let reviews = Box::new(seed.child("admission review").rng());
        let state = State { store, hub: Hub::new(), epoch: 0, streams: 0, lifetimes, reviews, keeper: None };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            revision: latest::Sender::new(0),
            requests: AtomicU64::new(0),
            packed: AtomicU64::new(0),
            limits: config.limits,
            dial: config.dial,
            nodes: config.nodes,
            logs: config.logs,
            unserved: config.unserved,
            workers: Arc::default(),
            rbac: config.rbac,
            default_roles: config.default_roles,
            origin: config.origin.map(|origin| Arc::new(OriginState::new(origin))),
            gather: config.gather,
            authority: config.authority,
            audit: config.audit,
            version: config.version.unwrap_or_else(|| KUBERNETES_VERSION.to_owned()),
            documents: Mutex::default(),
        }))
    }

    /// Publishes the CA certificate of this server (PEM) for extension servers.
    pub fn trust(&self, ctx: &Ctx, ca_pem: &str) {
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        let now = ctx.now();
        server.commit("bootstrap", ctx.name(), |store| store.trust(now, ca_pem));
    }

    /// Restores the objects of an earlier process; `revision` is the newest that it gave out. `keeper` persists commits
    /// from now on. Call it before [`start`](Self::start).
    ///
    /// # Errors
    /// The first object whose key or kind is invalid.
    pub fn restore(
        &self,
        ctx: &Ctx,
        revision: u64,
        kept: Vec<SavedObject>,
        keeper: impl Keep + 'static,
    ) -> Result<(), String> {
        let mut state = self.0.lock();
        state.keeper = Some(Box::new(keeper));
        if revision > 0 {
            state.store.restore(ctx.now(), revision, kept)?;
            self.0.revision.send_replace(revision);
        }
        Ok(())
    }

    /// Loads initial objects, by resource (`pods`, `volumeattachments.storage.k8s.io`), each a list. They keep their
    /// uids, times and statuses; those without a uid get one. Does nothing if the server has objects already. Call it
    /// before [`start`](Self::start).
    ///
    /// # Errors
    /// The first object that is not valid for its kind.
    pub fn open_with(&self, ctx: &Ctx, resources: &substrate::json::Value) -> Result<(), Status> {
        if self.0.lock().store.revision() > 0 {
            return Ok(());
        }
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        server.commit("bootstrap", ctx.name(), |store| store.load(ctx.now(), resources)).map(drop)
    }

    /// Ends every watch, as a server does when it shuts down.
    pub fn end_watches(&self) {
        let mut state = self.0.lock();
        state.hub = Hub::new();
        state.epoch += 1;
    }

    /// Counts activity that may have freed memory: requests, and events of the history that were packed or dropped.
    pub fn activity(&self) -> u64 {
        let counts = [&self.0.requests, &self.0.packed].map(|count| count.load(Ordering::Relaxed));
        counts[0] + counts[1] + self.0.lock().store.forgotten()
    }

    /// Starts to serve within process `ctx`: creates the initial objects, starts the driver, returns the router.
    /// Streams of an earlier process have ended with it.
    pub fn start(&self, ctx: &Ctx) -> HttpService {
        {
            let mut state = self.0.lock();
            state.hub = Hub::new();
            state.epoch += 1;
            state.store.plant(Defects {
                ignores_finalizers: substrate::mutant!(ctx, "finalizer-ignored"),
                takes_stale_writes: substrate::mutant!(ctx, "stale-write-accepted"),
                ignores_preconditions: substrate::mutant!(ctx, "delete-precondition-ignored"),
                keeps_released: substrate::mutant!(ctx, "released-object-stays"),
                ignores_grace: substrate::mutant!(ctx, "grace-period-ignored"),
                ignores_patch_preconditions: substrate::mutant!(ctx, "patch-precondition-ignored"),
                takes_status: substrate::mutant!(ctx, "status-in-main-write"),
                ignores_budgets: substrate::mutant!(ctx, "budget-ignored"),
                keeps_budgets: substrate::mutant!(ctx, "eviction-not-counted"),
                expands_any_class: substrate::mutant!(ctx, "allow-expansion-ignored"),
                skips_continued: substrate::mutant!(ctx, "continue-skips-one"),
                leaves_class_out: substrate::mutant!(ctx, "default-class-not-set"),
                takes_late_finalizers: substrate::mutant!(ctx, "finalizer-added-while-deleting"),
                replaces_lists: substrate::mutant!(ctx, "status-patch-replaces-lists"),
                forgets_terminating: substrate::mutant!(ctx, "namespace-goes-before-content"),
                forgets_orphans: substrate::mutant!(ctx, "orphaning-ignored"),
                keeps_generation: substrate::mutant!(ctx, "generation-not-raised"),
                keeps_finalizers: substrate::mutant!(ctx, "primitive-deletions-ignored"),
                refuses_recovery: substrate::mutant!(ctx, "recovery-refused"),
                evicts_unmarked: substrate::mutant!(ctx, "eviction-without-condition"),
                grows_beyond_quota: substrate::mutant!(ctx, "expansion-beyond-quota"),
                trusts_old_budgets: substrate::mutant!(ctx, "stale-budget-spent"),
                takes_oldest_class: substrate::mutant!(ctx, "oldest-default-class-taken"),
                skips_tests: substrate::mutant!(ctx, "json-patch-test-ignored"),
                continues_at_present: substrate::mutant!(ctx, "continued-list-reads-present"),
                fills_ending_namespaces: substrate::mutant!(ctx, "created-in-ending-namespace"),
                ends_grace: substrate::mutant!(ctx, "grace-ends-with-finalizer"),
                keeps_charges: substrate::mutant!(ctx, "quota-keeps-deleted"),
                charges_ended: substrate::mutant!(ctx, "ended-pod-charged"),
                keeps_limits: substrate::mutant!(ctx, "changed-quota-not-adopted"),
                trusts_account_names: substrate::mutant!(ctx, "former-account-trusted"),
                takes_stale_scales: substrate::mutant!(ctx, "stale-scale-accepted"),
                spends_dry_runs: substrate::mutant!(ctx, "dry-run-eviction-counted"),
                charges_in_full: substrate::mutant!(ctx, "growth-charged-in-full"),
                forgets_leavers: substrate::mutant!(ctx, "leaving-object-missed-while-away"),
                frees_unready: substrate::mutant!(ctx, "unready-pod-evicted-freely"),
                charges_one_quota: substrate::mutant!(ctx, "second-quota-not-charged"),
                checks_limits_once: substrate::mutant!(ctx, "limits-checked-at-creation-only"),
                stores_no_ops: substrate::mutant!(ctx, "unchanged-write-stored"),
                overrides_updates: substrate::mutant!(ctx, "apply-takes-fields-of-updates"),
                lists_by_name: substrate::mutant!(ctx, "named-rule-allows-lists"),
                forgets_custom_objects: substrate::mutant!(ctx, "definition-goes-before-objects"),
                counts_statuses: substrate::mutant!(ctx, "status-raises-generation"),
                binds_bare: substrate::mutant!(ctx, "binding-drops-tolerations"),
                answers_former: substrate::mutant!(ctx, "write-answers-former"),
                derives_uids: substrate::mutant!(ctx, "uid-of-the-name"),
                ends_deletions: substrate::mutant!(ctx, "late-status-ends-deletion"),
                drops_volume_mode: substrate::mutant!(ctx, "claim-update-drops-volume-mode"),
                spares_custom_objects: substrate::mutant!(ctx, "custom-objects-survive-namespace"),
                starts_expired: substrate::mutant!(ctx, "expired-watch-starts-late"),
                indexes_once: substrate::mutant!(ctx, "pod-index-not-refreshed"),
                ignores_nulls: substrate::mutant!(ctx, "merge-patch-null-ignored"),
                defaults_zero: substrate::mutant!(ctx, "zero-replicas-defaulted"),
                forgets_eviction_grace: substrate::mutant!(ctx, "eviction-grace-dropped"),
                goes_with_first: substrate::mutant!(ctx, "object-goes-with-first-finalizer"),
                defaults_empty_class: substrate::mutant!(ctx, "empty-class-defaulted"),
                knows_accounts_by_name: substrate::mutant!(ctx, "account-of-any-namespace-bound"),
                keeps_dropped_fields: substrate::mutant!(ctx, "apply-keeps-dropped-fields"),
                forgets_bound_pods: substrate::mutant!(ctx, "token-outlives-pod"),
                binds_again: substrate::mutant!(ctx, "bound-pod-rebound"),
            });
            state.hub.matches_prefixes = substrate::mutant!(ctx, "neighbour-namespace-watched");
        }
        ctx.faults().declare(OPERATIONS);
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        if self.0.origin.is_some() {
            server.follow_origin();
            return HttpService::new(move |request| server.clone().handle(request));
        }
        let now = ctx.now();
        server.commit("bootstrap", ctx.name(), |store| store.bootstrap(now));
        if self.0.checks_roles() || self.0.default_roles {
            server.commit("bootstrap", ctx.name(), |store| store.bootstrap_access(now));
        }
        ctx.spawn(server.clone().drive());
        HttpService::new(move |request| server.clone().handle(request))
    }
}
