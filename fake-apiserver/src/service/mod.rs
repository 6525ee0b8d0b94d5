//! The service. A request locks the store, applies a command and notifies the watchers; then it is answered. One driver
//! task waits for the next deadline of the machine.

mod access;
mod admin;
mod apiserver;
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
mod options;
mod origin;
mod origin_state;
mod parameters;
mod pretty;
mod probe;
mod proxy;
mod query;
mod rbac;
mod read;
mod respond;
mod review;
mod server;
mod verb;
mod wanted;
mod watch;
mod webhook;
mod workers;
mod write;
mod yaml;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::request::Parts;
use http::{Request, Response};
use substrate::Now;
use substrate::body::{Body, BoxError, Calling};
use substrate::fault::Moment;
use substrate::json::Text;

pub use self::access::{Outside, Unverified};
pub use self::audit::{Audit, Policy};
use self::call::Call;
pub use self::config::{Config, Keep, MOST_GATHERED, Unserved};
pub use self::dials::{Dial, Endpoint, LogDial, NodeDial, NodeEndpoint};
use self::fault::{Ended, RequestFault, suffer};
pub use self::origin_state::Origin;
use self::parameters::accepted;
pub use self::rbac::Rbac;
use self::respond::{Shown, deprecation, failure, failure_to, warn_first};
use self::review::is_review;
use self::server::{Server, Shared};
use self::verb::{Sub, Verb};
use self::wanted::Cause;
use crate::events::{Commit, RequestEnded};
use crate::kinds::{self, KindRef};
use crate::state::{Event, Matched, Status, Store};

/// Header with the uid of the request's flow schema.
const FLOW_SCHEMA: &str = "x-kubernetes-pf-flowschema-uid";
/// Header with the uid of its priority level.
const PRIORITY_LEVEL: &str = "x-kubernetes-pf-prioritylevel-uid";

/// A Kubernetes API server. Its state outlives the process that serves it, as etcd outlives an API server.
#[derive(Clone)]
pub struct Apiserver(Arc<Shared>);

impl std::fmt::Debug for Apiserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apiserver").finish_non_exhaustive()
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
        self.commit_for(Cause::new(verb, user), change, |_, _| {})
    }

    /// Like [`commit`](Self::commit). `answered` gets the revision before the change, and its result, under the same
    /// lock.
    fn commit_for<T>(
        &self,
        mut cause: Cause<'_>,
        change: impl FnOnce(&mut Store) -> T,
        answered: impl FnOnce(u64, &T),
    ) -> T {
        let mut state = self.shared.lock();
        let before = state.store.revision();
        let result = change(&mut state.store);
        let committed = state.store.take_committed();
        if !committed.is_empty()
            && let Some(keeper) = &mut state.keeper
        {
            keeper.append(&committed);
        }
        for event in &committed {
            self.trace(event, &mut cause);
            state.hub.dispatch(event);
        }
        answered(before, &result);
        if !committed.is_empty() {
            self.shared.revision.send_replace(state.store.revision());
        }
        result
    }

    /// Traces a commit. Leases and Events change often and matter little: they are at trace level.
    fn trace(&self, event: &Arc<Event>, cause: &mut Cause<'_>) {
        let commit = || {
            let resource = Text::new_static(event.kind.plural);
            let mut commit = Commit {
                group: event.kind.custom.as_ref().map(|_| event.kind.group.into()),
                user: cause.user.into(),
                verb: cause.verb.into(),
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
            self.show_stored(event, cause);
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
            Err(Ended::Answer(status)) => return Ok(failure(&status)),
            Err(Ended::Break(broken)) => return Err(broken.into()),
        };
        let response = match &self.shared.origin {
            Some(state) => Box::pin(self.relayed(state, parts, call, body, request_fault)).await?,
            None => self.served(parts, call, body, request_fault).await,
        };
        for moment in [Moment::AfterEffect, Moment::BeforeReply] {
            match suffer(&self.ctx, call, moment).await {
                Ok(_) => {}
                Err(Ended::Answer(status)) => return Ok(failure(&status)),
                Err(Ended::Break(broken)) => return Err(broken.into()),
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
}
