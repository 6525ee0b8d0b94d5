//! A watch stream: initial events, then live ones, with bookmarks, until its lifetime ends.

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
use super::fault::{Broken, EventFault, event_fault};
use super::hub::{Delivery, WatcherId};
use super::respond::Shown;
use super::workers::Watching;
use super::{MOST_GATHERED, Shared};
use crate::events::{WatchClosed, WatchEventType, WatchSent, WatchSpoiled};
use crate::state::value::{name, namespace};
use crate::state::{EventType, Initial, Object, Status, key};

/// Interval of bookmarks on a quiet stream.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time before the end of a stream at which the last bookmark is sent.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Lines are joined into frames of about this size.
const FRAME: usize = 32 << 10;

/// Minimum time for which events are gathered.
const LEAST_GATHERED: Duration = Duration::from_millis(1);

type Next = Poll<Option<Result<Frame<Bytes>, BoxError>>>;

/// Lines of one frame. A frame that is sent alone stays shared; more lines are copied into one buffer.
struct Lines {
    first: Bytes,
    waiting: usize,
    frame: Vec<u8>,
}

impl Lines {
    /// Starts a frame with a line; about `waiting` more lines are expected.
    fn of(first: Bytes, waiting: usize) -> Self {
        Self { first, waiting, frame: Vec::new() }
    }

    fn push(&mut self, line: &Bytes) {
        if self.frame.is_empty() {
            // The lines of one kind have about the same size.
            let all = self.first.len().saturating_mul(self.waiting + 1);
            self.frame.reserve(all.min(FRAME) + line.len());
            self.frame.extend_from_slice(&self.first);
        }
        self.frame.extend_from_slice(line);
    }

    fn room(&self) -> bool {
        self.first.len().max(self.frame.len()) < FRAME
    }

    /// Returns the frame. A single line stays as it is, shared by all its receivers.
    fn joined(self) -> Bytes {
        if self.frame.is_empty() { self.first } else { self.frame.into() }
    }
}

/// Removes the watcher from the hub when the stream is dropped.
pub(crate) struct Registration {
    pub(crate) shared: Arc<Shared>,
    pub(crate) watcher_id: WatcherId,
    pub(crate) epoch: u64,
    /// Held as long as the stream is open.
    pub(crate) _watching: Option<Watching>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // After a restart or reset there is another hub.
        if state.epoch == self.epoch {
            state.hub.unsubscribe(self.watcher_id);
        }
    }
}

/// Configuration of a stream.
pub(crate) struct Plan {
    pub(crate) ctx: Ctx,
    pub(crate) call: Call,
    pub(crate) shown: Shown,
    pub(crate) initial: Vec<Initial>,
    pub(crate) initial_end: Option<u64>,
    /// Events after the bookmark that ends the initial ones, and before live ones.
    pub(crate) later: Vec<Initial>,
    /// Number of the stream in the trace.
    pub(crate) stream: u64,
    pub(crate) after: u64,
    pub(crate) bookmarks: bool,
    pub(crate) lifetime: Duration,
    pub(crate) receiver: mpsc::Receiver<Delivery>,
    pub(crate) registration: Registration,
    /// Fault that acts from the start of the stream.
    pub(crate) fault: Option<(String, WatchFault)>,
}

/// State of a stream.
///
/// ```text
///   Begins ─► Replays ─► Follows ◄─► Gathers
///                ▲ │        ▲ │
///                │ ▼        │ ▼
///                Held       Held          any but Ended ─► Ended
/// ```
///
/// - `Begins` becomes `Replays` at the first poll, or `Held` or `Ended` by the fault that it was created with.
/// - `Replays` becomes `Follows` after the last initial event.
/// - `Follows` becomes `Gathers` after each frame that other watchers receive, too, and returns when the time is over.
/// - `Held`: a fault delays an event or the whole stream, which then continues in the previous state.
/// - `Ended`: the lifetime is over, an ERROR event was sent, or the server has dropped the watcher.
enum State {
    /// Not polled yet.
    Begins { fault: Option<(String, WatchFault)>, replay: Replay },
    /// Sends the initial events.
    Replays(Replay),
    /// A fault delays the stream; `event` is sent afterwards.
    Held { until: BoxFuture<'static, ()>, event: Option<Initial>, then: Box<State> },
    /// Sends live events.
    Follows,
    /// Gathers events for the next frame.
    Gathers(BoxFuture<'static, ()>),
    /// Sends nothing more.
    Ended,
}

/// Initial events of a stream.
struct Replay {
    events: VecDeque<Initial>,
    /// Bookmark after these events, and the events after it.
    end: Option<(u64, VecDeque<Initial>)>,
}

/// Timer of a stream.
struct Timer {
    at: BoxFuture<'static, ()>,
    /// End of the stream.
    deadline: Duration,
    next_bookmark: Option<Duration>,
    /// Revision of a bookmark that is due once no event waits.
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

    /// Sets the next instant.
    fn schedule(&mut self, plan: &Plan, now: Duration) {
        let last = self.deadline.saturating_sub(BOOKMARK_BEFORE_END);
        self.next_bookmark = plan.bookmarks.then(|| (now + BOOKMARK_EVERY).min(last)).filter(|at| *at > now);
        let at = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
        let ctx = plan.ctx.clone();
        self.at = Box::pin(async move { ctx.sleep_until(at).await });
    }

    /// Returns true if the stream's lifetime is over; otherwise makes a bookmark due.
    fn fired(&mut self, plan: &Plan) -> bool {
        let now = plan.ctx.now().mono;
        if now >= self.deadline {
            return true;
        }
        // The revision is read before the channel is drained, so all events up to it are sent before the bookmark.
        self.due_bookmark = self.next_bookmark.filter(|at| *at <= now).map(|_| plan.registration.shared.revision());
        self.schedule(plan, now);
        false
    }
}

/// Events that are duplicated or delayed by a seeded bug.
#[derive(Default)]
struct SeededBugQueue {
    events: VecDeque<Delivery>,
    /// True after the seeded bug has fired.
    happened: bool,
}

impl SeededBugQueue {
    fn next(&mut self) -> Option<Delivery> {
        self.events.pop_front_if(|_| self.happened)
    }
}

/// The body of a watch.
pub(crate) struct WatchStream {
    plan: Plan,
    state: State,
    timer: Timer,
    /// Newest revision that was sent.
    sent: u64,
    /// Fault that drops the next event.
    gap: Option<String>,
    seeded_bug_queue: SeededBugQueue,
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
        Self { state, timer, sent: plan.after, gap: None, seeded_bug_queue: SeededBugQueue::default(), plan }
    }

    fn frame(&mut self, bytes: Bytes) -> Next {
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn end(&mut self, error: Option<BoxError>) -> Next {
        self.state = State::Ended;
        Poll::Ready(error.map(Err))
    }

    /// Sends an ERROR event and ends the stream.
    fn fail(&mut self, status: &Status) -> Next {
        self.emit_sent(WatchEventType::Error, self.sent, None, false);
        self.plan.receiver.close();
        self.state = State::Ended;
        self.frame(self.plan.shown.error_event(status))
    }

    fn encode(&self, event: &Initial) -> Bytes {
        let now = || self.plan.ctx.now().wall;
        let shown = &self.plan.shown;
        match event {
            Initial::Present(object) => shown.event("ADDED", &shown.object(object, now())),
            Initial::Missed(event, event_type) if shown.is_stored_json() => event.line(*event_type),
            Initial::Missed(event, event_type) => event
                .object(*event_type)
                .map(|o| shown.event(event_type.as_str(), &shown.object(o, now())))
                .unwrap_or_default(),
        }
    }

    /// Holds the stream in its state until the future is ready, then sends the event.
    fn hold(&mut self, until: impl Future<Output = ()> + Send + 'static, event: Option<Initial>) {
        let then = Box::new(std::mem::replace(&mut self.state, State::Ended));
        self.state = State::Held { until: Box::pin(until), event, then };
    }

    /// Continues in the state before the hold.
    fn release(&mut self) -> Option<Next> {
        let State::Held { event, then, .. } = std::mem::replace(&mut self.state, State::Ended) else { return None };
        self.state = *then;
        let line = self.encode_and_emit(&event?);
        Some(self.frame(line))
    }

    /// Traces an event that is sent.
    fn emit_sent(&self, event_type: WatchEventType, rv: u64, object: Option<Arc<str>>, initial: bool) {
        let (ctx, stream) = (&self.plan.ctx, self.plan.stream);
        ctx.trace().show_observers(ctx.name(), || WatchSent { initial, object, rv, stream, r#type: event_type });
    }

    /// Encodes the line of an event and traces it.
    fn encode_and_emit(&mut self, event: &Initial) -> Bytes {
        let (ctx, stream, namespaced) = (&self.plan.ctx, self.plan.stream, self.plan.call.kind.namespaced);
        ctx.trace().show_observers(ctx.name(), || {
            let (object, rv, event_type, initial) = match event {
                Initial::Present(object) => (place(namespaced, object), object.revision, WatchEventType::Added, true),
                Initial::Missed(event, event_type) => {
                    (event.key.clone(), event.revision, WatchEventType::from(*event_type), false)
                }
            };
            WatchSent { initial, object: Some(object), rv, stream, r#type: event_type }
        });
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
        let line = self.encode(event);
        self.plan.shown.omit_columns();
        line
    }

    /// Traces the effect of a fault, with the event that it acts on, if any.
    fn spoil(&self, fault: &str, event: Option<&Initial>) {
        let (ctx, stream, namespaced) = (&self.plan.ctx, self.plan.stream, self.plan.call.kind.namespaced);
        ctx.trace().show_observers(ctx.name(), || {
            let (object, rv) = match event {
                None => (None, None),
                Some(Initial::Present(object)) => (Some(place(namespaced, object)), Some(object.revision)),
                Some(Initial::Missed(event, _)) => (Some(event.key.clone()), Some(event.revision)),
            };
            WatchSpoiled { fault: fault.to_owned(), object, rv, stream }
        });
    }

    /// Returns true if no fault can act on events.
    fn is_plain(&self) -> bool {
        self.plan.ctx.faults().is_empty() && self.gap.is_none()
    }

    /// Asks for a fault that acts on the event before it is sent.
    fn event_fault(&self, event: &Initial) -> Option<(String, EventFault)> {
        if self.plan.ctx.faults().is_empty() {
            return None;
        }
        let (object, event_type) = match event {
            Initial::Present(object) => (place(self.plan.call.kind.namespaced, object), EventType::Added),
            Initial::Missed(event, event_type) => (event.key.clone(), *event_type),
        };
        event_fault(&self.plan.ctx, &self.plan.call, &object, event_type.as_str())
    }

    /// Sends one event, subject to faults; `None` if it is dropped or delayed.
    fn send(&mut self, event: Initial) -> Option<Next> {
        if let Some(fault) = self.gap.take() {
            self.pass(&fault, &event);
            return None;
        }
        let Some((fault, event_fault)) = self.event_fault(&event) else {
            let line = self.encode_and_emit(&event);
            return Some(self.frame(line));
        };
        self.spoil(&fault, Some(&event));
        let ctx = self.plan.ctx.clone();
        match event_fault {
            EventFault::Skip => {
                self.skip(&event);
                None
            }
            EventFault::Delay(delay) => {
                let until = ctx.now().mono + delay;
                self.hold(async move { ctx.sleep_until(until).await }, Some(event));
                None
            }
            EventFault::Hang => {
                self.hold(async move { ctx.hang(&fault).await }, Some(event));
                None
            }
            EventFault::Break => Some(self.end(Some(Broken(fault).into()))),
            EventFault::Gone => Some(self.gone()),
            EventFault::Stall => {
                self.hold(std::future::pending(), None);
                None
            }
        }
    }

    /// Drops an event and traces that.
    fn pass(&mut self, fault: &str, event: &Initial) {
        self.spoil(fault, Some(event));
        self.skip(event);
    }

    /// Continues as if an event had been sent.
    fn skip(&mut self, event: &Initial) {
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
    }

    /// Ends a stream with 410.
    fn gone(&mut self) -> Next {
        let status = Status::expired(format!("too old resource version: {} ({})", self.sent, self.sent));
        self.fail(&status)
    }

    /// Joins the lines of the initial events into frames. After the last one, live events follow.
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
        let mut lines = Lines::of(self.encode_and_emit(&first), waiting);
        while lines.room()
            && let State::Replays(replay) = &mut self.state
            && let Some(event) = replay.events.pop_front()
        {
            let line = self.encode_and_emit(&event);
            lines.push(&line);
        }
        Some(self.frame(lines.joined()))
    }

    /// Joins the lines of all waiting events into one frame: a watcher that was not polled for a while receives them in
    /// one write.
    fn send_pending(&mut self, first: Delivery) -> Next {
        let span = (self.plan.registration.shared.gather * first.receivers).min(MOST_GATHERED);
        // Below a millisecond a timer has no advantage.
        if span >= LEAST_GATHERED {
            let (ctx, until) = (self.plan.ctx.clone(), self.plan.ctx.now().mono + span);
            self.state = State::Gathers(Box::pin(async move { ctx.sleep_until(until).await }));
        }
        let merges = substrate::mutant!(self.plan.ctx, "waiting-events-merged");
        let mut last = merges.then(|| first.event.key.clone());
        let line = self.encode_and_emit(&Initial::Missed(first.event, first.event_type));
        let mut lines = Lines::of(line, self.plan.receiver.len());
        // The next poll finds the end.
        while lines.room()
            && let Some(next) = self.waiting()
        {
            if last.as_ref().is_some_and(|last| *last == next.event.key) {
                self.skip(&Initial::Missed(next.event, next.event_type));
                continue;
            }
            if merges {
                last = Some(next.event.key.clone());
            }
            lines.push(&self.encode_and_emit(&Initial::Missed(next.event, next.event_type)));
        }
        self.frame(lines.joined())
    }

    /// Starts the stream, or lets its fault act.
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

    /// Returns an event that waits to be sent.
    fn waiting(&mut self) -> Option<Delivery> {
        let next = self.seeded_bug_queue.next().or_else(|| self.plan.receiver.try_recv().ok());
        next.filter(|delivery| !self.loses(delivery))
    }

    /// Seeded bug: returns true for the event of an object that stops matching the selector.
    fn loses(&self, delivery: &Delivery) -> bool {
        let leaves = delivery.event_type == EventType::Deleted && delivery.event.new.is_some();
        leaves && substrate::mutant!(self.plan.ctx, "leaving-object-not-told")
    }

    /// Polls for the next event.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        if let Some(delivery) = self.seeded_bug_queue.next() {
            return Poll::Ready(Some(delivery));
        }
        let mut received = self.plan.receiver.poll_recv(cx);
        let Poll::Ready(Some(delivery)) = &mut received else { return received };
        if self.loses(delivery) {
            return self.receive(cx);
        }
        if substrate::mutant!(self.plan.ctx, "deletion-told-as-change") && delivery.event_type == EventType::Deleted {
            delivery.event_type = EventType::Modified;
        }
        if substrate::mutant!(self.plan.ctx, "watch-duplicate") && !self.seeded_bug_queue.happened {
            self.seeded_bug_queue.events.push_back(delivery.clone());
            self.seeded_bug_queue.happened = true;
        }
        if substrate::mutant!(self.plan.ctx, "watch-out-of-order") && !self.seeded_bug_queue.happened {
            if self.seeded_bug_queue.events.is_empty() {
                self.seeded_bug_queue.events.push_back(delivery.clone());
                return self.receive(cx);
            }
            self.seeded_bug_queue.happened = true;
        }
        received
    }

    /// Sends the next live event, or a bookmark if none waits.
    fn follow(&mut self, cx: &mut Context<'_>) -> Poll<Option<Next>> {
        Poll::Ready(match self.receive(cx) {
            Poll::Ready(Some(delivery)) if self.is_plain() => Some(self.send_pending(delivery)),
            Poll::Ready(Some(delivery)) => self.send(Initial::Missed(delivery.event, delivery.event_type)),
            // The watcher was too slow, or the server was reset; the client will reconnect.
            Poll::Ready(None) => Some(self.end(None)),
            Poll::Pending => {
                let Some(revision) = self.timer.due_bookmark.take() else { return Poll::Pending };
                self.sent = self.sent.max(revision);
                Some(self.bookmark(self.sent, false))
            }
        })
    }

    /// Encodes a bookmark at `revision`.
    fn bookmark(&mut self, revision: u64, initial: bool) -> Next {
        let revision = revision + u64::from(substrate::mutant!(self.plan.ctx, "bookmark-ahead"));
        self.emit_sent(WatchEventType::Bookmark, revision, None, initial);
        let bookmark = self.plan.shown.bookmark(revision, initial);
        self.plan.shown.omit_columns();
        self.frame(self.plan.shown.event("BOOKMARK", &bookmark))
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        let (ctx, stream) = (&self.plan.ctx, self.plan.stream);
        ctx.trace().show_observers(ctx.name(), || WatchClosed { stream });
    }
}

/// Returns the key of an object.
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
            // The stream ends on time even if a fault holds it.
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
