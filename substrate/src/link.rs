//! The link between two components: a tower service with latency, losses and partitions.
//!
//! It wraps the carrier of a call: a service in the same OS process, bytes over a duplex pipe, or a socket. All faults
//! of messages act here, on requests and on whole lines of streams, so that they mean the same on every carrier.

mod lines;
mod reply;

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use crate::events::{LinkReply, LinkRequest};
use http::{Method, Request, Response, Uri};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng as _;

use self::lines::{Cut, LineStream};
use self::reply::{Answer, reply};
use crate::body::{Body, BoxError, HttpService, boxed, call};
use crate::fabric::{Bound, Travel};
use crate::fault::{Failure, FaultOutcome, Firing, Moment, Plane, Point};
use crate::process::Ctx;
use crate::seed::between;
use crate::world::{Transport, World, WorldKind};

/// Marks a request whose answer is a stream of lines (a watch); other answers arrive whole.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

/// Marks a [`Streaming`] request whose answer passes frame by frame, because it may not consist of lines: a watch in
/// protobuf.
#[derive(Clone, Copy, Debug)]
pub struct Frames;

/// Header in which the runner names the calling program of the user to a server. Faults know the caller by it.
pub const PROGRAM: &str = "x-mooring-program";

/// Marks an answer to a [`Streaming`] request in which each frame is one line (the last may lack its newline), so that
/// its reader need not search for line ends.
#[derive(Clone, Copy, Debug)]
pub struct WholeLines;

/// Time that a caller waits for a connection across a partition (a TCP connect timeout as clients set it).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that an open connection survives a partition: client-go's HTTP/2 read idle timeout 30 s plus ping timeout 15 s.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(45);

/// Error that a caller sees if the network fails, not the peer.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum LinkError {
    /// connection refused: nothing listens at {0}
    Refused(String),
    /// connection to {0} timed out
    TimedOut(String),
    /// connection to {0} reset by peer
    Reset(String),
}

/// A connection between two components, with a direction.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    world: World,
    caller: Ctx,
    from: Arc<str>,
    to: Arc<str>,
    carrier: Carrier,
    number: u32,
    calls: Mutex<Calls>,
}

/// Source of the numbers and latencies of a link's calls.
struct Calls {
    made: u64,
    rng: ChaCha8Rng,
}

/// Messages of one call. Their latencies, and their order among other messages of the same millisecond, are fixed when
/// the call is made, so that the order in which a server writes several answers does not matter.
#[derive(Clone)]
struct Messages {
    link: Link,
    call: u64,
    sent: u32,
    there: Duration,
    back: Duration,
    lines: u64,
}

impl Messages {
    fn of(link: &Link) -> Self {
        let mut calls = link.0.calls.lock();
        calls.made += 1;
        let (there, back) = (link.draw(&mut calls.rng), link.draw(&mut calls.rng));
        Self { link: link.clone(), call: calls.made, sent: 0, there, back, lines: calls.rng.next_u64() }
    }

    fn travel(&mut self, after: Duration) -> Travel {
        self.sent += 1;
        self.link.0.world.fabric().travel(self.link.0.number, (self.call, self.sent), after)
    }

    /// Delays one message in simulation; the live world has a real network.
    async fn pass(&mut self, after: Duration) {
        if self.link.simulated() {
            self.travel(after).await;
        }
    }
}

enum Carrier {
    /// Looked up by name at each call.
    Fabric,
    /// A client that crosses an OS boundary.
    Wire(HttpService),
}

impl Link {
    /// Creates a link of process `ctx` to the server that is bound to `to` in its world's fabric.
    pub fn connect(ctx: &Ctx, to: &str) -> HttpService {
        Self::open(ctx, to, Carrier::Fabric)
    }

    /// Creates a link of process `ctx` to `to` over `wire`; adds faults and the trace, but no latency.
    pub fn over(ctx: &Ctx, to: &str, wire: HttpService) -> HttpService {
        Self::open(ctx, to, Carrier::Wire(wire))
    }

    fn open(ctx: &Ctx, to: &str, carrier: Carrier) -> HttpService {
        let rng = ctx.rng(&format!("link to {to}"));
        let link = Self(Arc::new(Inner {
            world: ctx.world().clone(),
            caller: ctx.clone(),
            from: ctx.name().clone(),
            to: to.into(),
            carrier,
            number: ctx.world().fabric().new_link(),
            calls: Mutex::new(Calls { made: 0, rng }),
        }));
        HttpService::new(move |request| Box::pin(link.clone().exchange(Messages::of(&link), request)))
    }

    fn timed_out(&self) -> BoxError {
        LinkError::TimedOut(self.0.to.to_string()).into()
    }

    fn reset(&self) -> BoxError {
        LinkError::Reset(self.0.to.to_string()).into()
    }

    fn simulated(&self) -> bool {
        self.0.world.kind() == WorldKind::Simulated
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Duration {
        let latency = self.0.world.options().latency;
        Duration::from_millis(between(rng, latency.min_ms.max(1), latency.max_ms))
    }

    async fn scaled_sleep(&self, d: Duration) {
        tokio::time::sleep(self.0.world.scale().apply(d)).await;
    }

    fn cut(&self, outward: bool) -> bool {
        let (a, b) = if outward { (&self.0.from, &self.0.to) } else { (&self.0.to, &self.0.from) };
        self.0.world.is_cut(a, b)
    }

    /// Waits while the way is cut, at most `limit`. Returns false if it still is.
    async fn wait_out_partition(&self, outward: bool, limit: Duration) -> bool {
        let mut waited = Duration::ZERO;
        while self.cut(outward) {
            if waited >= limit {
                return false;
            }
            self.scaled_sleep(Duration::from_secs(1)).await;
            waited += Duration::from_secs(1);
        }
        true
    }

    fn fault(&self, op: &str, moment: Moment, method: &Method, uri: &Uri) -> Option<Firing> {
        let attributes = self.attributes(method, uri);
        let point = Point { plane: Plane::Link, op, attributes: &attributes, moment };
        self.0.world.fault(&self.0.from, &point)
    }

    fn attributes<'a>(&'a self, method: &'a Method, uri: &'a Uri) -> [(&'static str, &'a str); 5] {
        [
            ("from", &*self.0.from),
            ("to", &*self.0.to),
            ("caller", &*self.0.from),
            ("method", method.as_str()),
            ("path", uri.path()),
        ]
    }

    /// Waits out the faults that fire at a moment of a request. Returns the answer of a fault, if one replaces the
    /// peer's.
    async fn meet(&self, moment: Moment, method: &Method, uri: &Uri) -> Result<Option<Response<Body>>, BoxError> {
        if self.0.world.faults().is_empty() {
            return Ok(None);
        }
        let attributes = self.attributes(method, uri);
        let point = Point { plane: Plane::Link, op: "request", attributes: &attributes, moment };
        match self.0.caller.meet(&point).await {
            FaultOutcome::Proceed => Ok(None),
            FaultOutcome::Break { .. } | FaultOutcome::LoseReply { .. } => Err(self.reset()),
            FaultOutcome::Fail { failure: Failure::Http(status), .. } => {
                let status = http::StatusCode::from_u16(status).expect("the catalogue allows statuses of HTTP");
                Ok(Some(Response::builder().status(status).body(crate::body::empty())?))
            }
            outcome => point.unlisted(&outcome),
        }
    }

    async fn exchange(self, mut messages: Messages, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let streaming = request.extensions().get::<Streaming>().is_some();
        let cut = if request.extensions().get::<Frames>().is_some() { Cut::Frames } else { Cut::Lines };
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let target = || uri.path_and_query().map_or("", |path| path.as_str());
        self.0.world.trace().trace(&self.0.from, || LinkRequest {
            to: self.0.to.clone(),
            method: method.as_str().into(),
            path: target().into(),
        });
        if let Some(answer) = self.meet(Moment::Before, &method, &uri).await? {
            return Ok(answer);
        }
        if !self.wait_out_partition(true, CONNECT_TIMEOUT).await {
            return Err(self.timed_out());
        }
        messages.pass(messages.there).await;
        let Dispatched { response, server, arrived } = self.dispatch(&messages, streaming, request).await?;
        let (mut parts, body) = response.into_parts();
        if arrived {
            self.trace_reply(&method, target(), &parts);
            return Ok(Response::from_parts(parts, body));
        }
        if let Some(answer) = self.meet(Moment::AfterEffect, &method, &uri).await? {
            return Ok(answer);
        }
        let body = if streaming && parts.status.is_success() {
            // The peer continues to write while the head of the answer is in transit.
            let head = self.simulated().then(|| messages.travel(messages.back));
            let lines = LineStream::new(messages, (body, cut), server, uri.clone());
            if let Some(head) = head {
                head.await;
            }
            if cut == Cut::Lines {
                parts.extensions.insert(WholeLines);
            }
            boxed(StreamBody::new(lines))
        } else {
            let whole = settle(body).await?;
            if !self.wait_out_partition(false, KEEPALIVE_TIMEOUT).await {
                return Err(self.reset());
            }
            messages.pass(messages.back).await;
            whole
        };
        self.trace_reply(&method, target(), &parts);
        Ok(Response::from_parts(parts, body))
    }

    fn trace_reply(&self, method: &Method, target: &str, parts: &http::response::Parts) {
        self.0.world.trace().trace(&self.0.from, || LinkReply {
            to: self.0.to.clone(),
            method: method.as_str().into(),
            path: target.into(),
            status: parts.status.as_u16(),
        });
    }

    /// Passes the request to the peer. In simulation the peer handles it in its own process: the work continues if the
    /// caller crashes, and the caller sees a reset if the peer crashes. If no faults are active, which the caller would
    /// have to check first, a whole answer is sent immediately.
    async fn dispatch(
        &self,
        messages: &Messages,
        streaming: bool,
        request: Request<Body>,
    ) -> Result<Dispatched, BoxError> {
        let Bound { ctx, service } = match &self.0.carrier {
            Carrier::Wire(service) => {
                let response = call(service.clone(), request).await?;
                return Ok(Dispatched { response, server: None, arrived: false });
            }
            Carrier::Fabric => {
                let refused = || LinkError::Refused(self.0.to.to_string());
                self.0.world.fabric().resolve(&self.0.to).ok_or_else(refused)?
            }
        };
        let service = match self.0.world.options().transport {
            Transport::Direct => service,
            Transport::Duplex => crate::duplex::over(&ctx, service),
        };
        let (replier, reply) = reply();
        let work = call(service, request);
        let mut messages = (self.simulated() && !streaming).then(|| messages.clone());
        ctx.spawn(async move {
            let result = work.await;
            let messages = messages.take().filter(|messages| messages.link.0.world.faults().is_empty());
            replier.send(match (result, messages) {
                (Ok(response), Some(mut messages)) => {
                    let (parts, body) = response.into_parts();
                    let result = settle(body).await.map(|body| Response::from_parts(parts, body));
                    let way = result.is_ok().then(|| messages.travel(messages.back));
                    Answer { result, way }
                }
                (result, _) => Answer { result, way: None },
            });
        });
        let Answer { result, way } = reply.await.ok_or_else(|| self.reset())?;
        Ok(Dispatched { response: result?, server: Some(ctx), arrived: way.is_some() })
    }
}

/// Answer of a peer.
struct Dispatched {
    response: Response<Body>,
    /// The process that answered, if it is in this OS process.
    server: Option<Ctx>,
    /// True if the answer has already travelled back.
    arrived: bool,
}

/// Reads a body to its end, so that its sender is no longer needed.
async fn settle(mut body: Body) -> Result<Body, BoxError> {
    if body.is_whole() {
        return Ok(body);
    }
    let Some(first) = body.frame().await.transpose()? else { return Ok(crate::body::empty()) };
    match first.into_data() {
        // The usual case.
        Ok(data) if body.is_end_stream() => Ok(crate::body::full(data)),
        first => {
            let mut frames = vec![first.map_or_else(|trailers| trailers, Frame::data)];
            while let Some(frame) = body.frame().await.transpose()? {
                frames.push(frame);
            }
            Ok(boxed(StreamBody::new(futures_util::stream::iter(frames.into_iter().map(Ok::<_, BoxError>)))))
        }
    }
}
