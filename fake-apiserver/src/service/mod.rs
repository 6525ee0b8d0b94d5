//! The service. A request locks the store, applies a command and notifies the watchers; then it is answered. One driver
//! task waits for the next deadline of the machine.

mod access;
mod admin;
mod audit;
mod audited;
mod body;
mod call;
mod certificates;
mod cold;
mod config;
mod convert;
mod deadline;
mod dials;
mod documents;
mod escalation;
mod exec;
mod fault;
mod flaws;
mod hub;
mod listing;
mod logs;
mod metrics;
mod opening;
mod origin;
mod origin_state;
mod parameters;
mod pretty;
mod probe;
mod proxy;
mod query;
mod rbac;
mod respond;
mod review;
mod server;
mod verb;
mod watch;
mod webhook;
mod workers;
mod write;
mod yaml;

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use substrate::body::{Body, BoxError, Calling, HttpService};
use substrate::fault::Moment;
use substrate::json::Text;
use substrate::{Ctx, Now, Seed, latest};

pub use self::access::{Outside, Unverified};
pub use self::audit::{Audit, Policy};
use self::call::Call;
pub use self::config::{Config, Keep, MOST_GATHERED, Unserved};
pub use self::dials::{Dial, Endpoint, LogDial, NodeDial, NodeEndpoint};
use self::fault::{Injected, RequestFault, suffer};
use self::hub::Hub;
pub use self::origin_state::Origin;
use self::origin_state::OriginState;
use self::parameters::{accepted, list_numbers, selector};
pub use self::rbac::Rbac;
use self::respond::{Shown, deprecation, failure, failure_to, warn_first};
use self::review::is_review;
use self::server::{Server, Shared, State};
use self::verb::{Sub, Verb};
use crate::events::{Commit, RequestEnded};
use crate::faults::OPERATIONS;
use crate::kinds::{self, KindRef};
use crate::state::selector::Selector;
use crate::state::{Defects, Event, ListOptions, Match, Matched, SavedObject, Status, Store, Version, key, scale_of};
use crate::wire::openapi::KUBERNETES_VERSION;

/// Header with the uid of the request's flow schema.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
/// Header with the uid of its priority level.
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";
/// Time that a read waits for a future revision (apiserver `storage/cacher`: 3 s).
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

/// A Kubernetes API server. Its state outlives the process that serves it, as etcd outlives an API server.
#[derive(Clone)]
pub struct Apiserver(Arc<Shared>);

impl std::fmt::Debug for Apiserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apiserver").finish_non_exhaustive()
    }
}

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
            });
        }
        ctx.faults().declare(OPERATIONS);
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        if self.0.origin.is_some() {
            server.follow_origin();
            return HttpService::new(move |request| server.clone().handle(request));
        }
        let now = ctx.now();
        server.commit("bootstrap", ctx.name(), |store| store.bootstrap(now));
        if self.0.checks_roles() {
            server.commit("bootstrap", ctx.name(), |store| store.bootstrap_access(now));
        }
        ctx.spawn(server.clone().drive());
        HttpService::new(move |request| server.clone().handle(request))
    }
}

impl Server {
    /// Sleeps until the next deadline of the machine, forever.
    async fn drive(self) {
        loop {
            let next = self.shared.lock().store.next_deadline();
            // An Event that is written from now on expires no earlier than this.
            let latest = self.ctx.now().mono + self.shared.limits.event_ttl;
            let at = next.map_or(latest, |next| next.min(latest));
            self.ctx.sleep_until(at).await;
            self.catch_up(self.ctx.now());
        }
    }

    /// Runs what is due up to `now`, so that a read sees all that happened until then.
    fn catch_up(&self, now: Now) {
        let due = self.shared.lock().store.next_deadline().is_some_and(|at| at <= now.mono);
        if due {
            self.commit("expire", self.ctx.name(), |store| store.tick(now));
        }
    }

    /// Changes the store and notifies all watchers under one lock, so that the trace and every stream have the order of
    /// the revisions.
    fn commit<T>(&self, verb: &str, user: &str, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut state = self.shared.lock();
        let result = change(&mut state.store);
        let committed = state.store.take_committed();
        if !committed.is_empty()
            && let Some(keeper) = &mut state.keeper
        {
            keeper.append(&committed);
        }
        for event in &committed {
            self.trace(event, verb, user);
            state.hub.dispatch(event);
        }
        if !committed.is_empty() {
            self.shared.revision.send_replace(state.store.revision());
        }
        result
    }

    /// Traces a commit. Leases and Events change often and matter little: they are at trace level.
    fn trace(&self, event: &Event, verb: &str, user: &str) {
        let commit = || {
            let resource = Text::new_static(event.kind.plural);
            let mut commit = Commit {
                group: event.kind.custom.as_ref().map(|_| event.kind.group.into()),
                user: user.into(),
                verb: verb.into(),
                ..Commit::new(resource, event.key.clone(), event.revision, event.own_type())
            };
            if let Some(object) = event.new.as_ref().or(event.old.as_ref()).filter(|_| Commit::has_details(&event.kind))
            {
                commit.say(&event.kind, &object.value.read());
            }
            commit
        };
        if event.kind == kinds::LEASES || event.kind == kinds::EVENTS {
            self.ctx.trace().trace(self.ctx.name(), commit);
        } else {
            self.ctx.emit(commit());
        }
    }

    /// Handles a request. Rarely needed futures are boxed at their start; otherwise every request would be as large as
    /// the largest.
    fn handle(self, request: Request<Body>) -> Calling {
        if yaml::is_wanted(&request) {
            return Box::pin(async move { yaml::written(self.compact(request).await?).await });
        }
        if pretty::is_wanted(&request) {
            return Box::pin(async move { pretty::indented(self.compact(request).await?).await });
        }
        self.compact(request)
    }

    fn compact(self, request: Request<Body>) -> Calling {
        let request = deadline::limited(&self.ctx, self.resolvable(request));
        match self.shared.audit.clone() {
            Some(audit) if !request.uri().path().starts_with("/admin/") => {
                Box::pin(async move { self.audited(&audit, request).await })
            }
            _ => Box::pin(async move { self.answer(request).await }),
        }
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let (parts, body) = request.into_parts();
        if parts.uri.path().starts_with("/admin/") {
            if let Err(status) = self.authorize_path(&parts) {
                return Ok(failure(&status));
            }
            return Ok(Box::pin(self.admin(&parts, body)).await);
        }
        if let Some(state) = &self.shared.origin {
            return Box::pin(self.answer_by_origin(state, &parts, body)).await;
        }
        let in_time = deadline::check(&parts.uri).map_err(|status| failure_to(&status, accepted(&parts)));
        if is_review(parts.uri.path()) {
            if let Err(refused) = in_time {
                return Ok(refused);
            }
            return Ok(Box::pin(self.review(&parts, body)).await);
        }
        let call = self.parse(&parts);
        if let Err(refused) = in_time
            && !matches!(&call, Ok(Some(call)) if deadline::is_long_running(call))
        {
            if let Ok(Some(call)) = &call {
                self.emit_ended(call, Some(refused.status().as_u16()));
            }
            return Ok(refused);
        }
        let flow = match &call {
            Ok(call) => self.flow(&parts, call.as_ref()),
            Err(_) => None,
        };
        let mut response = match call {
            Ok(Some(call)) => match self.authorize(&parts, &call) {
                Ok(()) => self.answer_observed(&parts, call, body).await,
                Err(status) => {
                    self.emit_ended(&call, Some(status.code));
                    Ok(failure_to(&status, accepted(&parts)))
                }
            },
            Ok(None) => match self.authorize_path(&parts) {
                Ok(()) => Ok(self.document(&parts)),
                Err(status) => Ok(failure_to(&status, accepted(&parts))),
            },
            Err(status) => Ok(failure_to(&status, accepted(&parts))),
        }?;
        if let Some(Matched { schema, level }) = flow {
            for (name, uid) in [(FLOW_SCHEMA, schema), (PRIORITY_LEVEL, level)] {
                if let Ok(uid) = http::HeaderValue::from_str(&uid) {
                    response.headers_mut().insert(name, uid);
                }
            }
        }
        Ok(response)
    }

    /// Parses a request line, with the kinds that this server knows.
    fn parse(&self, parts: &Parts) -> Result<Option<Call>, Status> {
        Call::parse(parts, &|group, version, plural| {
            kinds::find(group, version, plural)
                .map(KindRef::from)
                .or_else(|| self.shared.lock().store.find_kind(group, version, plural))
        })
    }

    /// Handles a request on a resource, and emits its end if the trace has a listener for it.
    async fn answer_observed(&self, parts: &Parts, mut call: Call, body: Body) -> Result<Response<Body>, BoxError> {
        if !self.ctx.trace().is_subscribed::<RequestEnded>() {
            return self.resource(parts, &mut call, body).await;
        }
        let answer = self.resource(parts, &mut call, body).await;
        self.emit_ended(&call, answer.as_ref().ok().map(|response| response.status().as_u16()));
        answer
    }

    fn emit_ended(&self, call: &Call, status: Option<u16>) {
        self.ctx.trace().emit_lazily(self.ctx.name(), || RequestEnded {
            caller: call.caller.as_str().into(),
            namespace: call.namespace.as_deref().map(Text::from),
            object: call.object().into(),
            reads: Text::new_static(fault::reads(call)),
            resource: Text::new_static(call.kind.plural),
            status,
            subresource: Text::new_static(call.subresource.name()),
            verb: Text::new_static(call.verb.name()),
        });
    }

    /// Handles a request on a resource, with the three moments at which faults act.
    async fn resource(&self, parts: &Parts, call: &mut Call, mut body: Body) -> Result<Response<Body>, BoxError> {
        if call.verb == Verb::Create && call.name.is_none() && !self.ctx.faults().is_empty() {
            (body, call.made) = match body::peek(parts, body, || write::expected(call)).await {
                Ok(peeked) => peeked,
                Err(status) => return Ok(failure_to(&status, accepted(parts))),
            };
        }
        let request_fault = match suffer(&self.ctx, call, Moment::Before).await {
            Ok(request_fault) => request_fault,
            Err(Injected::Fail(status)) => return Ok(failure(&status)),
            Err(Injected::Break(error)) => return Err(error),
        };
        let response = match &self.shared.origin {
            Some(state) => Box::pin(self.relayed(state, parts, call, body, request_fault)).await?,
            None => self.served(parts, call, body, request_fault).await,
        };
        for moment in [Moment::AfterEffect, Moment::BeforeReply] {
            match suffer(&self.ctx, call, moment).await {
                Ok(_) => {}
                Err(Injected::Fail(status)) => return Ok(failure(&status)),
                Err(Injected::Break(error)) => return Err(error),
            }
        }
        Ok(response)
    }

    /// Answers a request on a resource. An error is an answer, too.
    async fn served(&self, parts: &Parts, call: &Call, body: Body, request_fault: RequestFault) -> Response<Body> {
        let mut response = match self.serve(parts, call, body, request_fault).await {
            Ok(response) => response,
            Err(status) => failure_to(&status, accepted(parts)),
        };
        if let Some(message) = deprecation(&call.kind) {
            warn_first(&mut response, message);
        }
        response
    }

    async fn serve(
        &self,
        parts: &Parts,
        call: &Call,
        body: Body,
        request_fault: RequestFault,
    ) -> Result<Response<Body>, Status> {
        if call.verb == Verb::Watch && yaml::asks(&parts.headers) && Shown::negotiate(call, accepted(parts))?.is_json()
        {
            return Err(Status::new(406, "NotAcceptable", yaml::no_stream().to_string()));
        }
        if convert::concerns(call) {
            return Box::pin(self.serve_converted(parts, call, body, request_fault)).await;
        }
        if call.subresource == Sub::Log {
            return Box::pin(self.pod_log(call)).await;
        }
        if matches!(call.subresource, Sub::Exec | Sub::Attach) && self.shared.nodes.is_some() {
            return Box::pin(self.exec(parts, call)).await;
        }
        if call.subresource == Sub::Proxy && matches!(call.kind.plural, "nodes" | "pods") {
            return Box::pin(self.proxied(parts, call, body)).await;
        }
        let shown = Shown::negotiate(call, accepted(parts))?;
        match call.verb {
            Verb::Get if call.subresource.reaches() => Err(write::unreached(call.kind.plural, call.subresource)),
            Verb::Get => self.get(call, shown, request_fault).await,
            Verb::List => self.list(call, shown, request_fault).await,
            Verb::Watch => self.watch(call, shown, request_fault).await,
            _ => self.write(parts, call, shown, body, request_fault).await,
        }
    }

    async fn get(&self, call: &Call, shown: Shown, request_fault: RequestFault) -> Result<Response<Body>, Status> {
        if let Version::At(revision) = Version::parse(call.query.get("resourceVersion"))? {
            self.fresh(revision).await?;
        }
        let key = key(call.namespace.as_deref(), call.named());
        let now = self.ctx.now();
        self.catch_up(now);
        let object = {
            let state = self.shared.lock();
            let kind = kinds::stored(&call.kind);
            if request_fault.stale > 0 {
                let revision = state.store.revision().saturating_sub(request_fault.stale.into());
                state.store.at(kind, revision)?.get(&*key).cloned()
            } else {
                state.store.get(kind, &key).cloned()
            }
        };
        let object = object.ok_or_else(|| Status::not_found(&call.kind, call.named()))?;
        if call.subresource == Sub::Scale {
            return Ok(shown.document(200, &scale_of(&call.kind, &object.value)?));
        }
        Ok(shown.answer(200, shown.object(&object, now.wall)))
    }

    async fn list(&self, call: &Call, shown: Shown, request_fault: RequestFault) -> Result<Response<Body>, Status> {
        let (limit, _) = list_numbers(call)?;
        let mut selector = selector(call)?;
        if substrate::mutant!(self.ctx, "list-ignores-selector") {
            selector = Selector::default();
        }
        if call.query.flag("sendInitialEvents").is_some() {
            let error =
                crate::state::FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid_type("ListOptions", "meta.k8s.io", "", vec![error]));
        }
        let matching = Match::parse(call.query.get("resourceVersionMatch"))?;
        let version = Version::parse(call.query.get("resourceVersion"));
        let mut options = ListOptions {
            // A version that is not a number counts as given until the combination of options is checked.
            version: *version.as_ref().unwrap_or(&Version::At(0)),
            matching,
            // A negative limit means no limit.
            limit: usize::try_from(limit).unwrap_or(0),
            token: call.query.get("continue").to_owned(),
        };
        options.check()?;
        options.version = version?;
        if let Some(revision) = options.needed() {
            self.fresh(revision).await?;
        }
        let now = self.ctx.now();
        self.catch_up(now);
        let listed = {
            let state = self.shared.lock();
            if request_fault.stale > 0 {
                let revision = state.store.revision().saturating_sub(request_fault.stale.into()).max(1);
                (options.version, options.matching) = (Version::At(revision), Some(Match::Exact));
            }
            state.store.list(kinds::stored(&call.kind), call.namespace.as_deref(), &selector, &options)?
        };
        if request_fault.stale > 0 {
            self.ctx.trace().show_observers(self.ctx.name(), || opening::stale(call));
        }
        Ok(shown.list(200, listed, now.wall))
    }

    /// Waits until a revision exists, at most three seconds.
    async fn fresh(&self, revision: u64) -> Result<(), Status> {
        let mut current = self.shared.revision.subscribe();
        let deadline = self.ctx.now().mono + FRESHNESS_TIMEOUT;
        tokio::select! { biased;
            // An error means that the server is gone, and the request with it.
            _ = current.wait_for(|now| *now >= revision) => Ok(()),
            () = self.ctx.sleep_until(deadline) => {
                Err(Status::too_large_resource_version(revision, self.shared.revision()))
            }
        }
    }
}
