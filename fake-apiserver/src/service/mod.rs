//! The service: a request in, lock, apply, tell the watchers, a response out. One driver task waits for the next
//! deadline of the machine.

mod access;
mod admin;
mod audit;
mod body;
mod call;
mod certificates;
mod cold;
mod config;
mod convert;
mod deadline;
mod documents;
mod escalation;
mod fault;
mod flaws;
mod hub;
mod listing;
mod logs;
mod metrics;
mod opening;
mod pretty;
mod probe;
mod query;
mod respond;
mod review;
mod verb;
mod watch;
mod webhook;
mod workers;
mod write;
mod yaml;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, header};
use substrate::body::{Body, BoxError, Calling, HttpService};
use substrate::fault::Moment;
use substrate::json::Text;
use substrate::{Ctx, Now, Seed, latest};

pub use self::access::{Outside, Rbac, Unverified};
pub use self::audit::{Audit, Policy};
use self::call::Call;
pub use self::config::{Config, Keep, MOST_GATHERED, Unserved};
use self::fault::{Injected, Twist, suffer};
use self::hub::Hub;
pub use self::logs::{LogDial, NodeDial, NodeEndpoint};
use self::respond::{Shown, deprecation, failure, failure_to, warn_first};
use self::review::is_review;
use self::verb::{Sub, Verb};
pub use self::webhook::{Dial, Endpoint};
use self::workers::Workers;
use crate::events::{Commit, RequestEnded};
use crate::faults::OPERATIONS;
use crate::kinds::{self, KindRef};
use crate::state::selector::Selector;
use crate::state::{
    Defects, Event, Limits, ListOptions, Match, Matched, SavedObject, Status, Store, Version, key, scale_of,
};
use crate::tls::Authority;
use crate::wire::openapi::Kept;

/// The header of the flow schema that a request was of.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
/// The header of its priority level.
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";
/// How long a read waits for a revision that is not yet there (R8).
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);
/// The version that the server says it is.
const GIT_VERSION: &str = "v1.36.2";

/// A Kubernetes API server. Its state outlives the process that serves it, as etcd outlives an API server.
#[derive(Clone)]
pub struct Apiserver(Arc<Shared>);

impl std::fmt::Debug for Apiserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apiserver").finish_non_exhaustive()
    }
}

/// What all requests share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The revision of the last commit, for those who wait for one.
    revision: latest::Sender<u64>,
    /// Requests so far.
    requests: AtomicU64,
    /// Events of the history that were packed so far.
    packed: AtomicU64,
    limits: Limits,
    dial: Option<Dial>,
    nodes: Option<NodeDial>,
    logs: Option<LogDial>,
    unserved: Option<Unserved>,
    /// Clients that may work on kinds that this program does not work on.
    pub(crate) workers: Arc<Workers>,
    rbac: Option<Rbac>,
    gather: Duration,
    authority: Option<Arc<Authority>>,
    audit: Option<Audit>,
    version: String,
    /// The documents that clients asked for.
    documents: Mutex<Kept>,
}

/// What the lock guards: short sections, never held over an await.
pub(crate) struct State {
    store: Store,
    hub: Hub,
    /// Counts hubs, so that a stream of an older one does not touch this one.
    epoch: u64,
    /// Counts watch streams, so that each has a number of its own.
    streams: u64,
    /// Draws how long watches live.
    lifetimes: Box<dyn rand_core::Rng + Send>,
    /// Draws the uids of admission reviews.
    reviews: Box<dyn rand_core::Rng + Send>,
    /// Keeps what is committed, if anything does.
    keeper: Option<Box<dyn Keep>>,
}

impl State {
    /// Keeps the present objects in the place of all that was kept.
    pub(crate) fn keep_anew(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.replace(&self.store);
        }
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if roles say who may do what.
    pub(crate) fn checks_roles(&self) -> bool {
        self.rbac.as_ref().is_some_and(|rbac| rbac.roles)
    }

    pub(crate) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }
}

impl Apiserver {
    /// A server with an empty cluster; uids and generated names come from `seed`.
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
            gather: config.gather,
            authority: config.authority,
            audit: config.audit,
            version: config.version.unwrap_or_else(|| GIT_VERSION.to_owned()),
            documents: Mutex::default(),
        }))
    }

    /// Publishes the certificate of the authority that signs for this server (PEM), where extension servers look for it.
    pub fn trust(&self, ctx: &Ctx, ca_pem: &str) {
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        let now = ctx.now();
        server.commit("bootstrap", ctx.name(), |store| store.trust(now, ca_pem));
    }

    /// Begins with what an earlier process kept, `revision` being the newest that it gave out, and has `keeper` keep
    /// what is committed from now on. Call it before [`start`](Self::start).
    ///
    /// # Errors
    /// The first kept object that has no place.
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

    /// Begins with these objects, by resource (`pods`, `volumeattachments.storage.k8s.io`), each a list: they keep their
    /// uids, times and statuses, and those without a uid get one. Does nothing if the server has objects already. Call it before
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// The first object that is none of its kind.
    pub fn open_with(&self, ctx: &Ctx, resources: &substrate::json::Value) -> Result<(), Status> {
        if self.0.lock().store.revision() > 0 {
            return Ok(());
        }
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        server.commit("bootstrap", ctx.name(), |store| store.load(ctx.now(), resources)).map(drop)
    }

    /// Ends every watch, as a server does that is asked to end.
    pub fn end_watches(&self) {
        let mut state = self.0.lock();
        state.hub = Hub::new();
        state.epoch += 1;
    }

    /// Counts what may have freed memory: requests, and events of the history that were packed or forgotten.
    pub fn activity(&self) -> u64 {
        let counts = [&self.0.requests, &self.0.packed].map(|count| count.load(Ordering::Relaxed));
        counts[0] + counts[1] + self.0.lock().store.forgotten()
    }

    /// Begins to serve within process `ctx`: makes the initial objects, starts the driver, gives the router.
    /// Streams of an earlier process have ended with it.
    pub fn start(&self, ctx: &Ctx) -> HttpService {
        {
            let mut state = self.0.lock();
            state.hub = Hub::new();
            state.epoch += 1;
            state.store.plant(Defects {
                ignores_finalizers: substrate::mutant!(ctx, "finalizer-ignored"),
                takes_stale_writes: substrate::mutant!(ctx, "stale-write-accepted"),
            });
        }
        ctx.faults().declare(OPERATIONS);
        let server = Server { shared: self.0.clone(), ctx: ctx.clone() };
        let now = ctx.now();
        server.commit("bootstrap", ctx.name(), |store| store.bootstrap(now));
        if self.0.checks_roles() {
            server.commit("bootstrap", ctx.name(), |store| store.bootstrap_access(now));
        }
        ctx.spawn(server.clone().drive());
        HttpService::new(move |request| server.clone().handle(request))
    }
}

/// One request's view of the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    ctx: Ctx,
}

impl Server {
    /// Sleeps to the next deadline of the machine, for ever.
    async fn drive(self) {
        loop {
            let next = self.shared.lock().store.next_deadline();
            // Whatever is written from now on ends no earlier than a whole time to live from now.
            let latest = self.ctx.now().mono + self.shared.limits.event_ttl;
            let at = next.map_or(latest, |next| next.min(latest));
            self.ctx.sleep_until(at).await;
            self.catch_up(self.ctx.now());
        }
    }

    /// Does what fell due up to `now`, so that a read at an instant sees all that happened until then.
    fn catch_up(&self, now: Now) {
        let due = self.shared.lock().store.next_deadline().is_some_and(|at| at <= now.mono);
        if due {
            self.commit("expire", self.ctx.name(), |store| store.tick(now));
        }
    }

    /// Changes the store and tells everyone what was committed, all under one lock, so that the trace and every
    /// stream have the order of the revisions.
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

    /// Leases and Events change all the time and say little: they are for the trace level.
    fn trace(&self, event: &Event, verb: &str, user: &str) {
        let commit = || {
            let resource = Text::new_static(event.kind.plural);
            let mut commit = Commit {
                group: event.kind.custom.as_ref().map(|_| event.kind.group.into()),
                user: user.into(),
                verb: verb.into(),
                ..Commit::new(resource, event.key.clone(), event.revision, event.own_type())
            };
            if let Some(object) = event.new.as_ref().or(event.old.as_ref()).filter(|_| Commit::says(&event.kind)) {
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

    /// What is rare within it is boxed where it begins: every request would be as large as the largest.
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
        let in_time = deadline::check(&parts.uri).map_err(|status| failure_to(&status, accepted(&parts)));
        if is_review(parts.uri.path()) {
            if let Err(refused) = in_time {
                return Ok(refused);
            }
            return Ok(Box::pin(self.review(&parts, body)).await);
        }
        let find = |group: &str, version: &str, plural: &str| {
            kinds::find(group, version, plural)
                .map(KindRef::from)
                .or_else(|| self.shared.lock().store.find_kind(group, version, plural))
        };
        let call = Call::parse(&parts, &find);
        if let Err(refused) = in_time
            && !matches!(&call, Ok(Some(call)) if deadline::is_long_running(call))
        {
            if let Ok(Some(call)) = &call {
                self.tell(call, Some(refused.status().as_u16()));
            }
            return Ok(refused);
        }
        let flow = match &call {
            Ok(call) => self.flow(&parts, call.as_ref()),
            Err(_) => None,
        };
        let mut response = match call {
            Ok(Some(call)) => match self.authorize(&parts, &call) {
                Ok(()) => self.heard(&parts, call, body).await,
                Err(status) => {
                    self.tell(&call, Some(status.code));
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

    /// A request on a resource, and that it was answered for whoever counts requests.
    async fn heard(&self, parts: &Parts, mut call: Call, body: Body) -> Result<Response<Body>, BoxError> {
        if !self.ctx.trace().hears::<RequestEnded>() {
            return self.resource(parts, &mut call, body).await;
        }
        let answer = self.resource(parts, &mut call, body).await;
        self.tell(&call, answer.as_ref().ok().map(|response| response.status().as_u16()));
        answer
    }

    fn tell(&self, call: &Call, status: Option<u16>) {
        self.ctx.trace().mention(self.ctx.name(), || RequestEnded {
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

    /// A request on a resource, with the three moments at which faults act.
    async fn resource(&self, parts: &Parts, call: &mut Call, mut body: Body) -> Result<Response<Body>, BoxError> {
        if call.verb == Verb::Create && call.name.is_none() && !self.ctx.faults().is_empty() {
            (body, call.made) = match body::peek(parts, body, || write::expected(call)).await {
                Ok(peeked) => peeked,
                Err(status) => return Ok(failure_to(&status, accepted(parts))),
            };
        }
        let twist = match suffer(&self.ctx, call, Moment::Before).await {
            Ok(twist) => twist,
            Err(Injected::Fail(status)) => return Ok(failure(&status)),
            Err(Injected::Break(error)) => return Err(error),
        };
        let mut response = match self.serve(parts, call, body, twist).await {
            Ok(response) => response,
            Err(status) => failure_to(&status, accepted(parts)),
        };
        if let Some(said) = deprecation(&call.kind) {
            warn_first(&mut response, said);
        }
        for moment in [Moment::AfterEffect, Moment::BeforeReply] {
            match suffer(&self.ctx, call, moment).await {
                Ok(_) => {}
                Err(Injected::Fail(status)) => return Ok(failure(&status)),
                Err(Injected::Break(error)) => return Err(error),
            }
        }
        Ok(response)
    }

    async fn serve(&self, parts: &Parts, call: &Call, body: Body, twist: Twist) -> Result<Response<Body>, Status> {
        if call.verb == Verb::Watch && yaml::asks(&parts.headers) && Shown::negotiate(call, accepted(parts))?.is_json()
        {
            return Err(Status::new(406, "NotAcceptable", yaml::no_stream().to_string()));
        }
        if convert::concerns(call) {
            return Box::pin(self.serve_converted(parts, call, body, twist)).await;
        }
        if call.subresource == Sub::Log {
            return Box::pin(self.pod_log(call)).await;
        }
        let shown = Shown::negotiate(call, accepted(parts))?;
        match call.verb {
            Verb::Get if call.subresource.reaches() => Err(write::unreached(call.kind.plural, call.subresource)),
            Verb::Get => self.get(call, shown, twist).await,
            Verb::List => self.list(call, shown, twist).await,
            Verb::Watch => self.watch(call, shown, twist).await,
            _ => self.write(parts, call, shown, body, twist).await,
        }
    }

    async fn get(&self, call: &Call, shown: Shown, twist: Twist) -> Result<Response<Body>, Status> {
        if let Version::At(revision) = Version::parse(call.query.get("resourceVersion"))? {
            self.fresh(revision).await?;
        }
        let key = key(call.namespace.as_deref(), call.named());
        let now = self.ctx.now();
        self.catch_up(now);
        let object = {
            let state = self.shared.lock();
            let kind = kinds::stored(&call.kind);
            if twist.stale > 0 {
                let revision = state.store.revision().saturating_sub(twist.stale.into());
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

    async fn list(&self, call: &Call, shown: Shown, twist: Twist) -> Result<Response<Body>, Status> {
        let (limit, _) = list_numbers(call)?;
        let selector = selector(call)?;
        if call.query.flag("sendInitialEvents").is_some() {
            let error =
                crate::state::FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid_type("ListOptions", "meta.k8s.io", "", vec![error]));
        }
        let matching = Match::parse(call.query.get("resourceVersionMatch"))?;
        let version = Version::parse(call.query.get("resourceVersion"));
        let mut options = ListOptions {
            // A text that is not a number counts as a named revision until the combination of options is checked.
            version: *version.as_ref().unwrap_or(&Version::At(0)),
            matching,
            // Less than nothing is no limit.
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
            if twist.stale > 0 {
                let revision = state.store.revision().saturating_sub(twist.stale.into()).max(1);
                (options.version, options.matching) = (Version::At(revision), Some(Match::Exact));
            }
            state.store.list(kinds::stored(&call.kind), call.namespace.as_deref(), &selector, &options)?
        };
        if twist.stale > 0 {
            self.ctx.trace().whisper(self.ctx.name(), || opening::stale(call));
        }
        Ok(shown.list(200, listed, now.wall))
    }

    /// Waits until a revision is there, at most three seconds (R8).
    async fn fresh(&self, revision: u64) -> Result<(), Status> {
        let mut current = self.shared.revision.subscribe();
        let deadline = self.ctx.now().mono + FRESHNESS_TIMEOUT;
        tokio::select! { biased;
            // An error means that the server is gone, and then no one waits for this answer.
            _ = current.wait_for(|now| *now >= revision) => Ok(()),
            () = self.ctx.sleep_until(deadline) => {
                Err(Status::too_large_resource_version(revision, self.shared.revision()))
            }
        }
    }
}

fn accepted(parts: &Parts) -> Option<&str> {
    parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok())
}

/// The limit and the seconds that a list or a watch is given; 0 for none.
fn list_numbers(call: &Call) -> Result<(i64, i64), Status> {
    let timeout = call.query.integer("timeoutSeconds")?.unwrap_or(0);
    Ok((call.query.integer("limit")?.unwrap_or(0), timeout))
}

fn selector(call: &Call) -> Result<Selector, Status> {
    // Watching one object by its path adds a selector to those of the query.
    let fields: Vec<&str> = call.query.all("fieldSelector").filter(|s| !s.is_empty()).collect();
    Selector::parse(&call.kind, call.query.get("labelSelector"), &fields.join(","))
}
