//! The EC2 endpoint: authentication, decoding, faults, answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use substrate::fault::{Effect, Failure, FaultOutcome, Moment, Plane, Point};
use substrate::json::Text;
use substrate::link::PROGRAM;
use substrate::{Body, BoxError, Ctx, HttpService, body};

use crate::cloud::Ec2;
use crate::events::RequestEnded;
use crate::regions::Regions;
use crate::state::command::{Action, Command, Reply, Stick};
use crate::state::error::Ec2Error;
use crate::wire::auth::Means;
use crate::wire::encode::{Pieces, Surroundings};
use crate::wire::foreign::Foreign;
use crate::wire::form::Form;
use crate::wire::services::Service;
use crate::wire::user_agent::user_agent;
use crate::wire::{auth, decode, encode, signature};

/// Largest body; a thousand ids with a thousand filter values need a tenth of it.
const BODY_LIMIT: usize = 1 << 20;

/// A fault dropped the reply.
#[derive(Clone, Copy, Debug, displaydoc::Display, thiserror::Error)]
#[displaydoc("the reply was dropped by a fault")]
struct ReplyDropped;

impl Ec2 {
    /// Starts serving within process `ctx`: the EC2 API at `/`, the admin API under `/admin/v1/`.
    pub fn start(&self, ctx: &Ctx) -> HttpService {
        Regions::from(self.clone()).start(ctx)
    }
}

impl Regions {
    /// Starts serving all of them within process `ctx`: the EC2 API at `/`, the admin API under `/admin/v1/`.
    pub fn start(&self, ctx: &Ctx) -> HttpService {
        self.clouds().iter().for_each(|cloud| cloud.run(ctx));
        router(self, ctx)
    }
}

/// Services of one region.
#[derive(Clone)]
struct Room {
    admin: HttpService,
    endpoint: Endpoint,
}

/// Returns the service of `regions` in process `ctx`.
pub(crate) fn router(regions: &Regions, ctx: &Ctx) -> HttpService {
    let rooms: Arc<[Room]> = regions
        .clouds()
        .iter()
        .map(|ec2| Room {
            admin: crate::admin::router(ec2.clone(), ctx.clone(), regions),
            endpoint: Endpoint {
                regions: regions.clone(),
                ec2: ec2.clone(),
                ctx: ctx.clone(),
                surroundings: Arc::new(Surroundings::from(ec2.settings())),
            },
        })
        .collect();
    HttpService::new(move |request| {
        let rooms = rooms.clone();
        Box::pin(route(rooms, request))
    })
}

async fn route(rooms: Arc<[Room]>, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let of = |region: &str| rooms.iter().find(|room| room.endpoint.ec2.settings().region == region);
    // There is at least one.
    let Some(first) = rooms.first() else { return Err("no region is served".into()) };
    let path = request.uri().path();
    if path.starts_with("/admin/") || path == "/metrics" {
        let asked = request.uri().query().and_then(|q| q.split('&').find_map(|pair| pair.strip_prefix("region=")));
        // The admin API of each region knows all regions, and refuses others.
        let room = asked.and_then(of).unwrap_or(first);
        return body::call(room.admin.clone(), request).await;
    }
    if let Some(rest) = path.strip_prefix(crate::imds::PREFIX) {
        let id = rest.split('/').next().and_then(|id| id.parse().ok());
        let has = |room: &&Room| id.as_ref().is_some_and(|id| room.endpoint.ec2.has_instance(id));
        let Endpoint { ec2, ctx, .. } = rooms.iter().find(has).unwrap_or(first).endpoint.clone();
        return crate::imds::of_path(ec2, ctx, request).await;
    }
    let (parts, body) = request.into_parts();
    // The first region refuses requests for a region that is not served.
    let room = auth::region(&parts).as_deref().and_then(of).unwrap_or(first);
    let endpoint = room.endpoint.clone();
    if let Some(foreign) = auth::foreign(&parts) {
        return Ok(endpoint.not_served(&foreign));
    }
    let of_ebs = parts.uri.path() == "/snapshots" || parts.uri.path().starts_with("/snapshots/");
    match auth::service(&parts) {
        Service::Rbin => Ok(crate::rbin::serve(endpoint.ec2, endpoint.ctx, parts, body).await),
        // Also by the path, so that unsigned requests are refused in JSON.
        service if of_ebs || service == Service::Ebs => {
            Ok(crate::ebs::serve(endpoint.ec2, endpoint.ctx, parts, body).await)
        }
        _ => endpoint.serve(Request::from_parts(parts, body)).await,
    }
}

#[derive(Clone)]
struct Endpoint {
    ec2: Ec2,
    /// All regions, for copies between them.
    regions: Regions,
    ctx: Ctx,
    surroundings: Arc<Surroundings>,
}

/// End of a request.
enum Ending {
    Reply(&'static str, Reply),
    Error(Ec2Error),
    /// A bare status, as a load balancer answers.
    Status(u16),
    Dropped,
}

impl From<Ec2Error> for Ending {
    fn from(error: Ec2Error) -> Self {
        Self::Error(error)
    }
}

impl Endpoint {
    /// Returns the refusal of a request for another service, in that service's format.
    fn not_served(&self, foreign: &Foreign) -> Response<Body> {
        let request_id = self.ec2.counts().request_id();
        let refusal = foreign.refusal(&request_id);
        let mut response = Response::new(body::full(refusal.body));
        *response.status_mut() = refusal.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(refusal.content_type));
        if let Some(kind) = refusal.error_type {
            headers.insert("x-amzn-errortype", HeaderValue::from_static(kind));
        }
        if refusal.content_type == "application/cbor" {
            headers.insert("smithy-protocol", HeaderValue::from_static("rpc-v2-cbor"));
        }
        for name in ["x-amzn-requestid", "x-amz-request-id"] {
            if let Ok(id) = HeaderValue::from_str(&request_id) {
                headers.insert(name, id);
            }
        }
        response
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let request_id = self.ec2.counts().request_id();
        let (parts, body) = request.into_parts();
        let whole = |text: String| body::full(text);
        let service = auth::service(&parts);
        let (status, text) = match self.answer(&parts, body).await {
            Ok(Ending::Reply(action, reply)) => match self.surroundings.answer(action, &request_id, reply) {
                Pieces::Whole(text) => (200, whole(text)),
                Pieces::List(list) => {
                    let frames = list.map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
                    (200, body::boxed(StreamBody::new(futures_util::stream::iter(frames))))
                }
            },
            Ok(Ending::Error(error)) | Err(Ending::Error(error)) => {
                (error.status(), whole(encode::error(service, &request_id, &error)))
            }
            Ok(Ending::Status(status)) | Err(Ending::Status(status)) => (status, body::empty()),
            Ok(Ending::Dropped) | Err(Ending::Dropped) => return Err(ReplyDropped.into()),
            Err(Ending::Reply(..)) => return Err("a reply is not a failure".into()),
        };
        let mut response = Response::new(text);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml;charset=UTF-8"));
        headers.insert(header::SERVER, HeaderValue::from_static("AmazonEC2"));
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            headers.insert(HeaderName::from_static("x-amzn-requestid"), id);
        }
        Ok(response)
    }

    async fn answer(&self, parts: &Parts, body: Body) -> Result<Ending, Ending> {
        let bytes = if parts.method == Method::POST { whole(body).await? } else { Vec::new() };
        let caller = auth::caller(parts, &bytes)?;
        let (config, settings) = (self.ec2.config(), self.ec2.settings());
        if let Some(region) = auth::region(parts).filter(|region| *region != settings.region) {
            return Err(crate::regions::refusal(&region, &settings.regions).into());
        }
        if !config.credentials.is_empty() {
            if caller.means == Means::Version2 {
                let text = "Signatures are verified here, and only those of version 4 are; this one is of version 2.";
                return Err(Ec2Error::IncompleteSignature(text.to_owned()).into());
            }
            let scope = signature::Scope { region: &config.region, service: auth::service(parts).scope() };
            signature::verify(parts, &bytes, &config.credentials, scope, self.ctx.now().wall)?;
        }
        let command = read(parts, &bytes, caller.means)?;
        let program = parts.headers.get(PROGRAM).and_then(|name| name.to_str().ok());
        Ok(self.perform(program.unwrap_or(&caller.key), user_agent(&parts.headers), command).await)
    }

    async fn perform(&self, caller: &str, agent: Option<String>, mut command: Command) -> Ending {
        let action = command.action.name();
        // The attributes of a request are needed only by faults and by observers of requests.
        let quiet = self.ctx.faults().is_empty() && !self.ctx.trace().is_subscribed::<RequestEnded>();
        let mut named = Named::default();
        if !quiet {
            named = Named::of(&command, caller, agent);
            named.0.extend(self.ec2.zones_of(&command.action).into_iter().map(|zone| ("zone", zone)));
        }
        if let Err(error) = self.ec2.admit(&self.ctx, &command.action) {
            return self.ended(action, caller, &named, Ending::Error(error));
        }
        let mut altered = Altered::default();
        if !quiet && let Err(ending) = self.meet(action, &named, Moment::Before, &mut altered).await {
            return self.ended(action, caller, &named, ending);
        }
        command.stick = altered.stick.take();
        let writes = !command.action.reads_only();
        if writes && let Err(reason) = self.ec2.can_record(&self.ctx).await {
            return self.ended(action, caller, &named, Ec2Error::CannotRecord(reason).into());
        }
        let away = self.away(&mut command);
        let result = match altered.stale {
            Some(revisions) if command.action.reads_only() => self.ec2.recall(&self.ctx, &command, revisions),
            _ => self.ec2.perform(&self.ctx, &command, away.as_ref()),
        };
        for _ in 0..altered.repeats {
            // Delivered again: the second answer is dropped.
            let again = self.ec2.perform(&self.ctx, &command, away.as_ref());
            drop(self.ended(
                action,
                caller,
                &named,
                again.map_or_else(Ending::Error, |reply| Ending::Reply(action, reply)),
            ));
        }
        if writes && let Err(reason) = self.ec2.recorded(&self.ctx).await {
            return self.ended(action, caller, &named, Ec2Error::NotRecorded(reason).into());
        }
        let named = match &result {
            Ok(reply) if !quiet => named.with(reply),
            _ => named,
        };
        if !quiet && let Err(ending) = self.meet(action, &named, Moment::AfterEffect, &mut altered).await {
            return self.ended(action, caller, &named, ending);
        }
        let ending = match result {
            _ if altered.reply_lost => Ending::Dropped,
            Ok(reply) => Ending::Reply(action, reply),
            Err(error) => Ending::Error(error),
        };
        // The trace records this result, regardless of the reply.
        let ending = self.ended(action, caller, &named, ending);
        if quiet {
            return ending;
        }
        match self.meet(action, &named, Moment::BeforeReply, &mut altered).await {
            Err(instead) => instead,
            Ok(()) if altered.reply_lost => Ending::Dropped,
            Ok(()) => ending,
        }
    }

    /// Returns the cloud of another region from which a snapshot is copied, and adds that region's snapshot to the
    /// command.
    fn away(&self, command: &mut Command) -> Option<Ec2> {
        let Action::CopySnapshot(copy) = &mut command.action else { return None };
        let away = Some(copy.source_region.as_str()).filter(|region| *region != self.ec2.settings().region)?;
        let away = self.regions.get(Some(away))?.clone();
        copy.foreign = Some(away.look(&self.ctx, |state| state.snapshot(&copy.source).cloned()));
        Some(away)
    }

    /// Records the end of a request.
    fn ended(&self, action: &'static str, caller: &str, named: &Named, ending: Ending) -> Ending {
        let outcome = match &ending {
            Ending::Reply(..) => "ok",
            Ending::Error(error) => error.code(),
            Ending::Status(_) => "http",
            Ending::Dropped => "dropped",
        };
        self.ec2.counts().count(action, outcome);
        self.ctx.trace().emit_lazily(self.ctx.name(), || {
            let error = match &ending {
                Ending::Reply(..) => None,
                Ending::Error(error) => Some(error.code().into()),
                Ending::Status(status) => Some(format!("HTTP {status}").into()),
                Ending::Dropped => Some("reply dropped".into()),
            };
            let all = |name: &str| -> Vec<Text> {
                named.0.iter().filter(|(attribute, _)| *attribute == name).map(|(_, value)| value.into()).collect()
            };
            RequestEnded {
                action: action.into(),
                caller: caller.into(),
                instances: all("instance"),
                snapshots: all("snapshot"),
                user_agent: all("userAgent").pop(),
                volumes: all("volume"),
                zones: all("zone"),
                error,
            }
        });
        ending
    }

    /// Applies a fault at `moment`. An error is the end of the request.
    async fn meet(
        &self,
        action: &'static str,
        named: &Named,
        moment: Moment,
        altered: &mut Altered,
    ) -> Result<(), Ending> {
        let attributes: Vec<(&str, &str)> = named.0.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let point = Point { plane: Plane::Ec2, op: action, attributes: &attributes, moment };
        match self.ctx.meet(&point).await {
            FaultOutcome::Proceed => {}
            FaultOutcome::Fail { fault, failure: Failure::Named(code) } => {
                return Err(Ec2Error::injected(&code, &fault).into());
            }
            FaultOutcome::Fail { failure: Failure::Http(status), .. } => return Err(Ending::Status(status)),
            FaultOutcome::Break { .. } => return Err(Ending::Dropped),
            FaultOutcome::LoseReply { .. } => altered.reply_lost = true,
            FaultOutcome::Alter { effect: Effect::Duplicate(times), .. } => altered.repeats = times.saturating_sub(1),
            FaultOutcome::Alter { effect: Effect::StaleRead(revisions), .. } => altered.stale = Some(revisions),
            FaultOutcome::Alter { fault, effect: Effect::Stick(state) } => {
                self.ec2.release_after(&self.ctx, fault.clone());
                altered.stick = Some(Stick { fault, state });
            }
            FaultOutcome::Alter { fault, effect: Effect::Vanish(_) } => {
                self.vanish(&fault, named);
                // The next request for a change gets a write error.
                let _ = self.ec2.recorded(&self.ctx).await;
            }
            outcome => point.unlisted(&outcome),
        }
        Ok(())
    }
}

impl Endpoint {
    /// Removes the volumes of a request that the fault `name` matches: all if it names none.
    fn vanish(&self, name: &str, named: &Named) {
        let report = self.ctx.faults().get(name);
        let asked = report.as_ref().and_then(|r| r.fault.matches.attributes.get("volume"));
        let meant = |id: &str| match asked.map(|a| (a.as_str(), a.strip_suffix('*'))) {
            None => true,
            Some((_, Some(prefix))) => id.starts_with(prefix),
            Some((whole, None)) => id == whole,
        };
        for (_, id) in named.0.iter().filter(|(attribute, id)| *attribute == "volume" && meant(id)) {
            if let Ok(id) = id.parse() {
                self.ec2.with_state(&self.ctx, |state, now| state.vanish_volume(now, &id));
            }
        }
    }
}

/// Changes that faults make to a request.
#[derive(Default)]
struct Altered {
    /// The answer is lost.
    reply_lost: bool,
    /// Fault that holds the transition which the request starts.
    stick: Option<Stick>,
    /// A read answers with the state of this many changes ago.
    stale: Option<u32>,
    /// Further deliveries of the request.
    repeats: u32,
}

/// Resources of a request, as fault attributes.
#[derive(Default)]
struct Named(Vec<(&'static str, String)>);

impl Named {
    fn of(command: &Command, caller: &str, agent: Option<String>) -> Self {
        let volumes = command.action.volumes().into_iter().map(|v| ("volume", v.to_string()));
        let instances = command.action.instances().into_iter().map(|i| ("instance", i.to_string()));
        let snapshots = command.action.snapshots().into_iter().map(|s| ("snapshot", s.to_string()));
        let who = [("caller", caller.to_owned())].into_iter().chain(agent.map(|agent| ("userAgent", agent)));
        Self(who.chain(volumes).chain(instances).chain(snapshots).collect())
    }

    /// Adds attributes from the reply: the created volume or instances.
    fn with(mut self, reply: &Reply) -> Self {
        match reply {
            Reply::Volume(volume) => self.0.push(("volume", volume.id.to_string())),
            Reply::CopiedVolumes(volumes) => self.0.extend(volumes.iter().map(|v| ("volume", v.id.to_string()))),
            Reply::Snapshot(made) => self.0.push(("snapshot", made.snapshot.id.to_string())),
            Reply::SnapshotCopied(made) => self.0.push(("snapshot", made.id.to_string())),
            Reply::ImageMade { snapshots, .. } => {
                self.0.extend(snapshots.iter().map(|made| ("snapshot", made.id.to_string())));
            }
            Reply::SnapshotsMade(all) => {
                self.0.extend(all.iter().map(|made| ("snapshot", made.snapshot.id.to_string())));
            }
            Reply::Reservation(instances) => {
                self.0.extend(instances.iter().map(|i| ("instance", i.instance.id.to_string())));
            }
            Reply::Attachment(attachment) if !self.0.iter().any(|(k, _)| *k == "instance") => {
                self.0.push(("instance", attachment.instance.to_string()));
            }
            _ => {}
        }
        self
    }
}

/// Decodes the command of a request, signed by `means`: from the body of a POST, from the query of a GET.
fn read(parts: &Parts, bytes: &[u8], means: Means) -> Result<Command, Ec2Error> {
    if !matches!(parts.uri.path(), "/" | "") {
        return Err(Ec2Error::InvalidRequest(format!("Nothing is served at {}; use /.", parts.uri.path())));
    }
    let mut form = Form::parse(parts.uri.query().unwrap_or_default().as_bytes())?;
    if parts.method == Method::POST {
        form.add(bytes)?;
    } else if parts.method != Method::GET {
        return Err(Ec2Error::InvalidRequest(format!("The method {} is not served; use POST.", parts.method)));
    }
    let command = decode::command(auth::service(parts), form)?;
    // Any web page can make a browser GET any URL, so a URL alone must not change state.
    if means == Means::Presigned && !command.action.reads_only() {
        let name = command.action.name();
        return Err(Ec2Error::InvalidRequest(format!(
            "The action {name} changes state and is not served by a presigned URL, which any web page can make a browser \
             open. Send the signature in the Authorization header."
        )));
    }
    Ok(command)
}

/// Reads a whole body of at most [`BODY_LIMIT`] bytes. Boxed so that the surrounding futures keep a plain type.
fn whole(mut body: Body) -> BoxFuture<'static, Result<Vec<u8>, Ec2Error>> {
    Box::pin(async move {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Ec2Error::InvalidRequest(format!("The request body did not arrive: {error}")))?;
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
            }
            if bytes.len() > BODY_LIMIT {
                return Err(Ec2Error::RequestTooLarge(BODY_LIMIT));
            }
        }
        Ok(bytes)
    })
}
