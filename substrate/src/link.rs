//! The link between two components: a tower service with latency, losses and partitions.
//!
//! It wraps whatever carries the call: a service of the same OS process, bytes over a duplex pipe, a socket. All
//! faults act here, on requests and on whole lines of streams, so that they mean the same on every carrier.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::json::json;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use tokio::sync::{mpsc, oneshot};

use crate::body::{Body, BoxError, HttpService, boxed, call};
use crate::fabric::{Bound, Travel};
use crate::fault::{Effect, Moment, Plane, Point};
use crate::process::Ctx;
use crate::seed::between;
use crate::world::{Transport, World, WorldKind};

/// Marks a request whose answer is a stream of lines (a watch); other answers arrive whole.
#[derive(Clone, Copy, Debug)]
pub struct Streaming;

/// Marks an answer to a [`Streaming`] request each of whose frames is one line, but that the last may lack its end: what
/// reads it need not look for line ends.
#[derive(Clone, Copy, Debug)]
pub struct WholeLines;

/// How long a caller waits for a connection across a partition (a TCP connect timeout as clients set it).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an open connection survives a partition: client-go's HTTP/2 read idle timeout 30 s plus ping timeout 15 s.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(45);

/// What a caller sees when the network, not the peer, fails.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum LinkError {
    /// connection refused: nothing listens at {0}
    Refused(String),
    /// connection to {0} timed out
    TimedOut(String),
    /// connection to {0} reset by peer
    Reset(String),
}

/// One direction-aware connection between two components.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    world: World,
    from: Arc<str>,
    to: Arc<str>,
    carrier: Carrier,
    number: u32,
    calls: Mutex<Calls>,
}

/// What each call on a link takes its number and its latencies from.
struct Calls {
    made: u64,
    rng: ChaCha8Rng,
}

/// The messages of one call. Their latencies, and their place among other messages of the same millisecond, are
/// settled when the call is made: which of several answers a server happens to write first must not show.
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
        let mut calls = link.0.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.made += 1;
        let (there, back) = (link.draw(&mut calls.rng), link.draw(&mut calls.rng));
        Self { link: link.clone(), call: calls.made, sent: 0, there, back, lines: calls.rng.next_u64() }
    }

    fn travel(&mut self, after: Duration) -> Travel {
        self.sent += 1;
        self.link.0.world.fabric().travel(self.link.0.number, (self.call, self.sent), after)
    }

    /// Lets one message pass in simulation; the live world has a network of its own.
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
    /// A link of process `ctx` to whoever is bound to `to` in its world's fabric.
    pub fn connect(ctx: &Ctx, to: &str) -> HttpService {
        Self::open(ctx, to, Carrier::Fabric)
    }

    /// A link of process `ctx` to `to` over `wire`; adds faults and the trace, no latency of its own.
    pub fn over(ctx: &Ctx, to: &str, wire: HttpService) -> HttpService {
        Self::open(ctx, to, Carrier::Wire(wire))
    }

    fn open(ctx: &Ctx, to: &str, carrier: Carrier) -> HttpService {
        let rng = ctx.rng(&format!("link to {to}"));
        let link = Self(Arc::new(Inner {
            world: ctx.world().clone(),
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
        if self.0.world.faults().is_empty() {
            return false;
        }
        let (a, b) = if outward { (&self.0.from, &self.0.to) } else { (&self.0.to, &self.0.from) };
        self.0.world.faults().cut(self.0.world.clock().mono(), a, b).is_some()
    }

    /// Waits while the way is cut, at most `patience`; false when it still is.
    async fn wait_out_partition(&self, outward: bool, patience: Duration) -> bool {
        let mut waited = Duration::ZERO;
        while self.cut(outward) {
            if waited >= patience {
                return false;
            }
            self.scaled_sleep(Duration::from_secs(1)).await;
            waited += Duration::from_secs(1);
        }
        true
    }

    fn fault(&self, op: &str, moment: Moment, method: &Method, uri: &Uri) -> Option<Effect> {
        let attributes = [
            ("from", &*self.0.from),
            ("to", &*self.0.to),
            ("caller", &*self.0.from),
            ("method", method.as_str()),
            ("path", uri.path()),
        ];
        let point = Point { plane: Plane::Link, op, attributes: &attributes, moment };
        self.0.world.fault(&self.0.from, &point).map(|firing| firing.effect)
    }

    async fn exchange(self, mut messages: Messages, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let streaming = request.extensions().get::<Streaming>().is_some();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let target = || uri.path_and_query().map_or("", |path| path.as_str());
        self.0.world.trace().trace(
            &self.0.from,
            "link.request",
            || json!({ "to": &*self.0.to, "method": method.as_str(), "path": target() }),
        );
        match self.fault("request", Moment::Before, &method, &uri) {
            Some(Effect::DropRequest(true)) => return Err(self.reset()),
            Some(effect) if effect.never_answers() => std::future::pending().await,
            Some(Effect::Delay(span)) => self.scaled_sleep(span.0).await,
            Some(Effect::Http(status)) => {
                let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::SERVICE_UNAVAILABLE);
                return Ok(Response::builder().status(status).body(crate::body::empty())?);
            }
            _ => {}
        }
        if !self.wait_out_partition(true, CONNECT_TIMEOUT).await {
            return Err(self.timed_out());
        }
        messages.pass(messages.there).await;
        let (response, server) = self.dispatch(request).await?;
        let (mut parts, body) = response.into_parts();
        if self.fault("request", Moment::AfterEffect, &method, &uri) == Some(Effect::DropReply(true)) {
            return Err(self.reset());
        }
        let body = if streaming && parts.status.is_success() {
            // The peer goes on writing while the head of the answer is under way.
            let head = self.simulated().then(|| messages.travel(messages.back));
            let lines = LineStream::new(messages, body, server, uri.clone());
            if let Some(head) = head {
                head.await;
            }
            parts.extensions.insert(WholeLines);
            boxed(StreamBody::new(lines))
        } else {
            let whole = settle(body).await?;
            if !self.wait_out_partition(false, KEEPALIVE_TIMEOUT).await {
                return Err(self.reset());
            }
            messages.pass(messages.back).await;
            whole
        };
        self.0.world.trace().trace(
            &self.0.from,
            "link.reply",
            || json!({ "to": &*self.0.to, "method": method.as_str(), "path": target(), "status": parts.status.as_u16() }),
        );
        Ok(Response::from_parts(parts, body))
    }

    /// Hands the request to the peer. In simulation the peer works on it in its own process: it goes on when the
    /// caller crashes, and the caller sees a reset when the peer does.
    async fn dispatch(&self, request: Request<Body>) -> Result<(Response<Body>, Option<Ctx>), BoxError> {
        let Bound { ctx, service } = match &self.0.carrier {
            Carrier::Wire(service) => return Ok((call(service.clone(), request).await?, None)),
            Carrier::Fabric => {
                let refused = || LinkError::Refused(self.0.to.to_string());
                self.0.world.fabric().resolve(&self.0.to).ok_or_else(refused)?
            }
        };
        let service = match self.0.world.options().transport {
            Transport::Direct => service,
            Transport::Duplex => crate::duplex::over(&ctx, service),
        };
        let (answer, reply) = oneshot::channel();
        let work = call(service, request);
        ctx.spawn(async move {
            // The caller may be gone by now; the work was done all the same.
            let _ = answer.send(work.await);
        });
        let response = reply.await.map_err(|_| self.reset())??;
        Ok((response, Some(ctx)))
    }
}

/// Reads a body to its end, so that what follows needs no more of its sender.
async fn settle(mut body: Body) -> Result<Body, BoxError> {
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

/// One line on its way, or how the stream ended.
enum Item {
    Line(Bytes, Option<Travel>),
    End(Result<(), BoxError>),
}

/// Cuts a response body into lines and sends each on its way, never out of order.
struct LineSender {
    messages: Messages,
    rng: ChaCha8Rng,
    partial: BytesMut,
    last_arrival: Duration,
}

impl LineSender {
    /// For the lines that follow the head of an answer.
    fn new(messages: Messages) -> Self {
        let last_arrival = messages.link.0.world.clock().mono() + messages.back;
        let rng = ChaCha8Rng::seed_from_u64(messages.lines);
        Self { messages, rng, partial: BytesMut::new(), last_arrival }
    }

    fn lines(&mut self, mut data: Bytes, out: &mut VecDeque<Item>) {
        while let Some(end) = memchr::memchr(b'\n', &data) {
            let rest = data.split_to(end + 1);
            // A frame is usually one line, which then goes on as it is.
            let line = if self.partial.is_empty() {
                rest
            } else {
                self.partial.extend_from_slice(&rest);
                self.partial.split().freeze()
            };
            out.push_back(self.send(line));
        }
        self.partial.extend_from_slice(&data);
    }

    fn send(&mut self, line: Bytes) -> Item {
        let travel = self.messages.link.simulated().then(|| {
            let now = self.messages.link.0.world.clock().mono();
            self.last_arrival = self.last_arrival.max(now + self.messages.link.draw(&mut self.rng));
            self.messages.travel(self.last_arrival.saturating_sub(now))
        });
        Item::Line(line, travel)
    }

    /// Adds what one frame of the body (or its end) gives.
    fn frame(&mut self, frame: Option<Result<Frame<Bytes>, BoxError>>, out: &mut VecDeque<Item>) {
        match frame {
            // Trailers say nothing on a stream of lines.
            Some(Ok(frame)) => frame.into_data().map_or((), |data| self.lines(data, out)),
            Some(Err(e)) => out.push_back(Item::End(Err(e))),
            None => {
                let rest = self.partial.split().freeze();
                if !rest.is_empty() {
                    let last = self.send(rest);
                    out.push_back(last);
                }
                out.push_back(Item::End(Ok(())));
            }
        }
    }
}

/// Reads `body` in the server's process, as a server writes to its socket whether or not the client reads, and
/// ends when the client is gone.
async fn pump(mut sender: LineSender, mut body: Body, out: mpsc::UnboundedSender<Item>) {
    let mut items = VecDeque::new();
    loop {
        let frame = tokio::select! { biased;
            frame = body.frame() => frame,
            () = out.closed() => return,
        };
        sender.frame(frame, &mut items);
        while let Some(item) = items.pop_front() {
            let end = matches!(item, Item::End(_));
            if out.send(item).is_err() || end {
                return;
            }
        }
    }
}

/// A response body that arrives line by line.
struct LineStream {
    link: Link,
    uri: Uri,
    source: Source,
    under_way: VecDeque<Item>,
    waiting: Option<BoxFuture<'static, bool>>,
    done: bool,
}

enum Source {
    /// From the server's process; closed without an end when that process crashes.
    Pumped(mpsc::UnboundedReceiver<Item>),
    /// From a socket.
    Wire(Box<(LineSender, Body)>),
}

impl LineStream {
    fn new(messages: Messages, body: Body, server: Option<Ctx>, uri: Uri) -> Self {
        let link = messages.link.clone();
        let sender = LineSender::new(messages);
        let source = match server {
            Some(ctx) => {
                let (out, inbox) = mpsc::unbounded_channel();
                ctx.spawn(pump(sender, body, out));
                Source::Pumped(inbox)
            }
            None => Source::Wire(Box::new((sender, body))),
        };
        Self { link, uri, source, under_way: VecDeque::new(), waiting: None, done: false }
    }

    /// Takes what has been sent so far.
    fn pull(&mut self, cx: &mut Context<'_>) {
        while !matches!(self.under_way.back(), Some(Item::End(_))) {
            match &mut self.source {
                Source::Pumped(inbox) => match inbox.poll_recv(cx) {
                    Poll::Ready(Some(item)) => self.under_way.push_back(item),
                    Poll::Ready(None) => self.under_way.push_back(Item::End(Err(self.link.reset()))),
                    Poll::Pending => return,
                },
                Source::Wire(wire) => {
                    let (sender, body) = &mut **wire;
                    match Pin::new(body).poll_frame(cx) {
                        Poll::Ready(frame) => sender.frame(frame, &mut self.under_way),
                        Poll::Pending => return,
                    }
                }
            }
        }
    }

    fn end(&mut self, error: Option<BoxError>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.done = true;
        Poll::Ready(error.map(Err))
    }
}

use http_body::Body as _;

impl futures_util::Stream for LineStream {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        this.pull(cx);
        match this.under_way.front_mut() {
            None => return Poll::Pending,
            Some(Item::Line(_, None) | Item::End(_)) => {}
            Some(Item::Line(_, travel @ Some(_))) => {
                if travel.as_mut().is_some_and(|way| Pin::new(way).poll(cx).is_pending()) {
                    return Poll::Pending;
                }
                *travel = None;
            }
        }
        if this.waiting.is_none() {
            match this.link.fault("stream", Moment::Before, &Method::GET, &this.uri) {
                Some(Effect::ResetStream(true) | Effect::DropReply(true)) => {
                    let e = this.link.reset();
                    return this.end(Some(e));
                }
                Some(Effect::StallStream(true) | Effect::Hang(true)) => {
                    this.waiting = Some(Box::pin(std::future::pending()));
                }
                _ if this.link.cut(false) => {
                    let link = this.link.clone();
                    this.waiting =
                        Some(Box::pin(async move { link.wait_out_partition(false, KEEPALIVE_TIMEOUT).await }));
                }
                _ => {}
            }
        }
        if let Some(waiting) = &mut this.waiting {
            match waiting.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(false) => {
                    let e = this.link.reset();
                    return this.end(Some(e));
                }
                Poll::Ready(true) => this.waiting = None,
            }
        }
        match this.under_way.pop_front() {
            Some(Item::Line(line, _)) => Poll::Ready(Some(Ok(Frame::data(line)))),
            Some(Item::End(Err(e))) => this.end(Some(e)),
            Some(Item::End(Ok(()))) => this.end(None),
            None => Poll::Pending,
        }
    }
}
