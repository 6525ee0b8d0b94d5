//! A watch stream: what is there, then what happens, with bookmarks, until its time is over (R11–R17).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use http_body::Frame;
use substrate::fault::WatchFault;
use substrate::{BoxError, Ctx};
use tokio::sync::mpsc;

use super::call::Call;
use super::fault::{Broken, Upset, upset};
use super::hub::{Delivery, Ticket};
use super::respond::Shown;
use super::workers::Watching;
use super::{MOST_GATHERED, Shared};
use crate::events::{Told, WatchClosed, WatchSent, WatchSpoiled};
use crate::state::value::{name, namespace};
use crate::state::{EventType, Initial, Object, Status, key};

/// How often a quiet stream tells its revision (R15).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a stream tells its revision once more.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Lines are joined into frames of about this size.
const FRAME: usize = 32 << 10;

/// The shortest that events are gathered.
const LEAST_GATHERED: Duration = Duration::from_millis(1);

type Next = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// Lines on their way into one frame, which has room for those that wait: a reader that keeps one line keeps the frame.
struct Lines {
    first: Bytes,
    waiting: usize,
    frame: Vec<u8>,
}

impl Lines {
    /// Begins with a line, when `waiting` more are likely to follow.
    fn of(first: Bytes, waiting: usize) -> Self {
        Self { first, waiting, frame: Vec::new() }
    }

    fn push(&mut self, line: &Bytes) {
        if self.frame.is_empty() {
            // The lines of one kind are of about one size.
            let all = self.first.len().saturating_mul(self.waiting + 1);
            self.frame.reserve(all.min(FRAME) + line.len());
            self.frame.extend_from_slice(&self.first);
        }
        self.frame.extend_from_slice(line);
    }

    fn room(&self) -> bool {
        self.first.len().max(self.frame.len()) < FRAME
    }

    /// One line goes on as it is, shared by all who are told of it.
    fn joined(self) -> Bytes {
        if self.frame.is_empty() { self.first } else { self.frame.into() }
    }
}

/// Takes the watcher from the hub when the stream goes.
pub(crate) struct Registration {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ticket: Ticket,
    pub(crate) epoch: u64,
    /// Held as long as the stream is open.
    pub(crate) _watching: Option<Watching>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // After a restart or reset the hub is another one.
        if state.epoch == self.epoch {
            state.hub.unsubscribe(self.ticket);
        }
    }
}

/// What a stream is made with.
pub(crate) struct Plan {
    pub(crate) ctx: Ctx,
    pub(crate) call: Call,
    pub(crate) shown: Shown,
    pub(crate) initial: Vec<Initial>,
    pub(crate) initial_end: Option<u64>,
    /// What comes after that end, before anything new.
    pub(crate) later: Vec<Initial>,
    /// The stream's number in the trace.
    pub(crate) stream: u64,
    pub(crate) after: u64,
    pub(crate) bookmarks: bool,
    pub(crate) lifetime: Duration,
    pub(crate) receiver: mpsc::Receiver<Delivery>,
    pub(crate) registration: Registration,
    /// The fault that it suffers from its beginning.
    pub(crate) fault: Option<(String, WatchFault)>,
}

/// Where a stream is.
///
/// ```text
///   Begins ─► Replays ─► Follows ◄─► Gathers
///                ▲ │        ▲ │
///                │ ▼        │ ▼
///                Held       Held          any but Ended ─► Ended
/// ```
///
/// - `Begins` becomes `Replays` at the first poll, or `Held` or `Ended` by the fault that it was made with.
/// - `Replays` becomes `Follows` when all is told.
/// - `Follows` becomes `Gathers` after each frame for which others are written, too, and is back when the span is over.
/// - `Held` is where a fault makes an event wait, or the whole stream; it goes on where it was.
/// - `Ended` comes with the lifetime's end, with a line that tells of an error, and when the server lets go of it.
enum State {
    /// Nobody has looked at it yet.
    Begins { fault: Option<(String, WatchFault)>, replay: Replay },
    /// It tells what was there.
    Replays(Replay),
    /// A fault holds it, and the event that comes then.
    Held { until: BoxFuture<'static, ()>, event: Option<Initial>, then: Box<State> },
    /// It tells what happens.
    Follows,
    /// Events are gathered for the next frame.
    Gathers(BoxFuture<'static, ()>),
    /// Nothing more is told.
    Ended,
}

/// What a stream tells before anything new.
struct Replay {
    events: VecDeque<Initial>,
    /// The bookmark after these events, and what comes after it.
    end: Option<(u64, VecDeque<Initial>)>,
}

/// When a stream has something to do by itself.
struct Timer {
    at: BoxFuture<'static, ()>,
    /// The end of the stream.
    deadline: Duration,
    next_bookmark: Option<Duration>,
    /// The revision of a bookmark that is due when nothing waits.
    due_bookmark: Option<u64>,
}

impl Timer {
    fn new(plan: &Plan) -> Self {
        let now = plan.ctx.now().mono;
        let deadline = now + plan.lifetime;
        let mut timer =
            Self { at: Box::pin(std::future::pending()), deadline, next_bookmark: None, due_bookmark: None };
        timer.schedule(plan, now);
        timer
    }

    /// Chooses the next instant.
    fn schedule(&mut self, plan: &Plan, now: Duration) {
        let last = self.deadline.saturating_sub(BOOKMARK_BEFORE_END);
        self.next_bookmark = plan.bookmarks.then(|| (now + BOOKMARK_EVERY).min(last)).filter(|at| *at > now);
        let at = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
        let ctx = plan.ctx.clone();
        self.at = Box::pin(async move { ctx.sleep_until(at).await });
    }

    /// Whether the instant was the stream's end.
    fn fired(&mut self, plan: &Plan) -> bool {
        let now = plan.ctx.now().mono;
        if now >= self.deadline {
            return true;
        }
        // Read before the channel is drained: all events up to it are in there.
        self.due_bookmark = self.next_bookmark.filter(|at| *at <= now).map(|_| plan.registration.shared.revision());
        self.schedule(plan, now);
        false
    }
}

/// Events that are told once more, or late, for a planted defect.
#[derive(Default)]
struct Odd {
    events: VecDeque<Delivery>,
    /// Whether the defect has happened.
    happened: bool,
}

impl Odd {
    fn next(&mut self) -> Option<Delivery> {
        self.events.pop_front_if(|_| self.happened)
    }
}

/// The stream.
pub(crate) struct WatchStream {
    plan: Plan,
    state: State,
    timer: Timer,
    /// The newest revision that it has told of.
    sent: u64,
    /// The fault for which the next event is left out.
    gap: Option<String>,
    odd: Odd,
}

impl WatchStream {
    pub(crate) fn new(mut plan: Plan) -> Self {
        let later = std::mem::take(&mut plan.later).into();
        let replay = Replay {
            events: std::mem::take(&mut plan.initial).into(),
            end: plan.initial_end.take().map(|revision| (revision, later)),
        };
        let state = State::Begins { fault: plan.fault.take(), replay };
        let timer = Timer::new(&plan);
        Self { state, timer, sent: plan.after, gap: None, odd: Odd::default(), plan }
    }

    fn frame(&mut self, bytes: Bytes) -> Next {
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn end(&mut self, error: Option<BoxError>) -> Next {
        self.state = State::Ended;
        Poll::Ready(error.map(Err))
    }

    /// One line and then nothing more.
    fn fail(&mut self, status: &Status) -> Next {
        self.say(Told::Error, self.sent, None, false);
        self.plan.receiver.close();
        self.state = State::Ended;
        self.frame(self.plan.shown.error_event(status))
    }

    fn encode(&self, event: &Initial) -> Bytes {
        let now = || self.plan.ctx.now().wall;
        let shown = &self.plan.shown;
        match event {
            Initial::Present(object) => shown.event("ADDED", &shown.object(object, now())),
            Initial::Missed(event, told) if shown.is_stored_json() => event.line(*told),
            Initial::Missed(event, told) => {
                event.object(*told).map(|o| shown.event(told.as_str(), &shown.object(o, now()))).unwrap_or_default()
            }
        }
    }

    /// Stays where it is until then, and tells the event.
    fn hold(&mut self, until: impl Future<Output = ()> + Send + 'static, event: Option<Initial>) {
        let then = Box::new(std::mem::replace(&mut self.state, State::Ended));
        self.state = State::Held { until: Box::pin(until), event, then };
    }

    /// Goes on where it was held.
    fn release(&mut self) -> Option<Next> {
        let State::Held { event, then, .. } = std::mem::replace(&mut self.state, State::Ended) else { return None };
        self.state = *then;
        let line = self.told(&event?);
        Some(self.frame(line))
    }

    /// Tells observers what goes out.
    fn say(&self, told: Told, rv: u64, object: Option<Arc<str>>, initial: bool) {
        let (ctx, stream) = (&self.plan.ctx, self.plan.stream);
        ctx.trace().whisper(ctx.name(), || WatchSent { initial, object, rv, stream, r#type: told });
    }

    /// The line of an event, on its way out.
    fn told(&mut self, event: &Initial) -> Bytes {
        let (ctx, stream, namespaced) = (&self.plan.ctx, self.plan.stream, self.plan.call.kind.namespaced);
        ctx.trace().whisper(ctx.name(), || {
            let (object, rv, told, initial) = match event {
                Initial::Present(object) => (place(namespaced, object), object.revision, Told::Added, true),
                Initial::Missed(event, told) => (event.key.clone(), event.revision, Told::from(*told), false),
            };
            WatchSent { initial, object: Some(object), rv, stream, r#type: told }
        });
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
        let line = self.encode(event);
        self.plan.shown.omit_columns();
        line
    }

    /// Tells observers what a fault did, to an event where it was one.
    fn spoil(&self, fault: &str, event: Option<&Initial>) {
        let (ctx, stream, namespaced) = (&self.plan.ctx, self.plan.stream, self.plan.call.kind.namespaced);
        ctx.trace().whisper(ctx.name(), || {
            let (object, rv) = match event {
                None => (None, None),
                Some(Initial::Present(object)) => (Some(place(namespaced, object)), Some(object.revision)),
                Some(Initial::Missed(event, _)) => (Some(event.key.clone()), Some(event.revision)),
            };
            WatchSpoiled { fault: fault.to_owned(), object, rv, stream }
        });
    }

    /// Whether nothing can happen to events on their way.
    fn is_plain(&self) -> bool {
        self.plan.ctx.faults().is_empty() && self.gap.is_none()
    }

    /// Lets a fault act on the event before it is sent.
    fn upset(&self, event: &Initial) -> Option<(String, Upset)> {
        if self.plan.ctx.faults().is_empty() {
            return None;
        }
        let (object, told) = match event {
            Initial::Present(object) => (place(self.plan.call.kind.namespaced, object), EventType::Added),
            Initial::Missed(event, told) => (event.key.clone(), *told),
        };
        upset(&self.plan.ctx, &self.plan.call, &object, told.as_str())
    }

    /// Sends one event, or what a fault makes of it; nothing when it is left out or comes later.
    fn send(&mut self, event: Initial) -> Option<Next> {
        if let Some(fault) = self.gap.take() {
            self.pass(&fault, &event);
            return None;
        }
        let Some((fault, upset)) = self.upset(&event) else {
            let line = self.told(&event);
            return Some(self.frame(line));
        };
        self.spoil(&fault, Some(&event));
        let ctx = self.plan.ctx.clone();
        match upset {
            Upset::Skip => {
                self.skip(&event);
                None
            }
            Upset::Delay(delay) => {
                let until = ctx.now().mono + delay;
                self.hold(async move { ctx.sleep_until(until).await }, Some(event));
                None
            }
            Upset::Hang => {
                self.hold(async move { ctx.hang(&fault).await }, Some(event));
                None
            }
            Upset::Break => Some(self.end(Some(Broken(fault).into()))),
            Upset::Gone => Some(self.gone()),
            Upset::Stall => {
                self.hold(std::future::pending(), None);
                None
            }
        }
    }

    /// Leaves an event out.
    fn pass(&mut self, fault: &str, event: &Initial) {
        self.spoil(fault, Some(event));
        self.skip(event);
    }

    /// Goes on as if an event had been sent.
    fn skip(&mut self, event: &Initial) {
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
    }

    /// The end of a stream whose revision is gone.
    fn gone(&mut self) -> Next {
        let status = Status::expired(format!("too old resource version: {} ({})", self.sent, self.sent));
        self.fail(&status)
    }

    /// Joins the lines of what is there into frames, and goes on with what happens when all are told.
    fn replay(&mut self) -> Option<Next> {
        let plain = self.is_plain();
        let State::Replays(replay) = &mut self.state else { return None };
        let Some(first) = replay.events.pop_front() else {
            let Some((revision, later)) = replay.end.take() else {
                self.state = State::Follows;
                return None;
            };
            replay.events = later;
            return Some(self.bookmark(revision, true));
        };
        if !plain {
            return self.send(first);
        }
        let waiting = replay.events.len();
        let mut lines = Lines::of(self.told(&first), waiting);
        while lines.room()
            && let State::Replays(replay) = &mut self.state
            && let Some(event) = replay.events.pop_front()
        {
            let line = self.told(&event);
            lines.push(&line);
        }
        Some(self.frame(lines.joined()))
    }

    /// Joins the lines of what waits into one frame: a watcher that was not looked at for a while is told with one
    /// write what happened since.
    fn send_pending(&mut self, first: Delivery) -> Next {
        let span = (self.plan.registration.shared.gather * first.crowd).min(MOST_GATHERED);
        // Below a millisecond a timer is no gain.
        if span >= LEAST_GATHERED {
            let (ctx, until) = (self.plan.ctx.clone(), self.plan.ctx.now().mono + span);
            self.state = State::Gathers(Box::pin(async move { ctx.sleep_until(until).await }));
        }
        let line = self.told(&Initial::Missed(first.event, first.told));
        let mut lines = Lines::of(line, self.plan.receiver.len());
        // An end is found by the next poll.
        while lines.room()
            && let Some(next) = self.waiting()
        {
            lines.push(&self.told(&Initial::Missed(next.event, next.told)));
        }
        self.frame(lines.joined())
    }

    /// Begins, or does what its fault does.
    fn begin(&mut self) -> Option<Next> {
        let (fault, replay) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Begins { fault, replay } => (fault, replay),
            other => {
                self.state = other;
                return None;
            }
        };
        self.state = State::Replays(replay);
        let (fault, watch) = fault?;
        if watch == WatchFault::Gap {
            self.gap = Some(fault);
            return None;
        }
        self.spoil(&fault, None);
        match watch {
            WatchFault::Drop => Some(self.end(Some(Broken(fault).into()))),
            WatchFault::Gone => Some(self.gone()),
            WatchFault::Stall | WatchFault::Gap => {
                self.hold(std::future::pending(), None);
                None
            }
        }
    }

    /// An event that waits to be sent.
    fn waiting(&mut self) -> Option<Delivery> {
        self.odd.next().or_else(|| self.plan.receiver.try_recv().ok())
    }

    /// The next event.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        if let Some(delivery) = self.odd.next() {
            return Poll::Ready(Some(delivery));
        }
        let received = self.plan.receiver.poll_recv(cx);
        let Poll::Ready(Some(delivery)) = &received else { return received };
        if substrate::mutant!(self.plan.ctx, "watch-duplicate") && !self.odd.happened {
            self.odd.events.push_back(delivery.clone());
            self.odd.happened = true;
        }
        if substrate::mutant!(self.plan.ctx, "watch-out-of-order") && !self.odd.happened {
            if self.odd.events.is_empty() {
                self.odd.events.push_back(delivery.clone());
                return self.receive(cx);
            }
            self.odd.happened = true;
        }
        received
    }

    /// Tells what happens next, or a bookmark when nothing does.
    fn follow(&mut self, cx: &mut Context<'_>) -> Poll<Option<Next>> {
        Poll::Ready(match self.receive(cx) {
            Poll::Ready(Some(delivery)) if self.is_plain() => Some(self.send_pending(delivery)),
            Poll::Ready(Some(delivery)) => self.send(Initial::Missed(delivery.event, delivery.told)),
            // Too slow, or the server was reset: the client comes back.
            Poll::Ready(None) => Some(self.end(None)),
            Poll::Pending => {
                let Some(revision) = self.timer.due_bookmark.take() else { return Poll::Pending };
                self.sent = self.sent.max(revision);
                Some(self.bookmark(self.sent, false))
            }
        })
    }

    /// The line of a bookmark at `revision`.
    fn bookmark(&mut self, revision: u64, initial: bool) -> Next {
        let revision = revision + u64::from(substrate::mutant!(self.plan.ctx, "bookmark-ahead"));
        self.say(Told::Bookmark, revision, None, initial);
        let bookmark = self.plan.shown.bookmark(revision, initial);
        self.plan.shown.omit_columns();
        self.frame(self.plan.shown.event("BOOKMARK", &bookmark))
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let (ctx, stream) = (&self.plan.ctx, self.plan.stream);
        ctx.trace().whisper(ctx.name(), || WatchClosed { stream });
    }
}

/// The key of an object.
fn place(namespaced: bool, object: &Object) -> Arc<str> {
    let value = object.value.read();
    key(namespaced.then(|| namespace(&value)), name(&value))
}

impl Stream for WatchStream {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let State::Begins { .. } = this.state
                && let Some(answer) = this.begin()
            {
                return answer;
            }
            if let State::Ended = this.state {
                return Poll::Ready(None);
            }
            // The stream ends on time even when a fault holds it.
            if this.timer.at.as_mut().poll(cx).is_ready() {
                if this.timer.fired(&this.plan) {
                    return this.end(None);
                }
                continue;
            }
            let answer = match &mut this.state {
                State::Begins { .. } | State::Ended => None,
                State::Held { until, .. } => {
                    ready!(until.as_mut().poll(cx));
                    this.release()
                }
                State::Replays(_) => this.replay(),
                State::Gathers(until) => {
                    ready!(until.as_mut().poll(cx));
                    this.state = State::Follows;
                    None
                }
                State::Follows => ready!(this.follow(cx)),
            };
            if let Some(answer) = answer {
                return answer;
            }
        }
    }
}
