//! A watch stream: what is there, then what happens, with bookmarks, until its time is over (R11–R17).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
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

/// The stream.
pub(crate) struct WatchStream {
    plan: Plan,
    initial: VecDeque<Initial>,
    /// Events that come later than their time.
    held: VecDeque<Initial>,
    /// Events that are told once more, or late, for a planted defect.
    odd: VecDeque<Delivery>,
    /// Whether the planted defect has happened.
    went_odd: bool,
    /// The fault for which the next event is left out.
    gap: Option<String>,
    /// Until when events are gathered.
    gathers: Option<BoxFuture<'static, ()>>,
    pause: Option<BoxFuture<'static, ()>>,
    timer: BoxFuture<'static, ()>,
    deadline: Duration,
    next_bookmark: Option<Duration>,
    due_bookmark: Option<u64>,
    sent: u64,
    ended: bool,
}

impl WatchStream {
    pub(crate) fn new(mut plan: Plan) -> Self {
        let now = plan.ctx.now().mono;
        let deadline = now + plan.lifetime;
        let initial = std::mem::take(&mut plan.initial).into();
        let sent = plan.after;
        let mut stream = Self {
            initial,
            held: VecDeque::new(),
            odd: VecDeque::new(),
            went_odd: false,
            gap: None,
            gathers: None,
            pause: None,
            timer: Box::pin(std::future::pending()),
            deadline,
            next_bookmark: None,
            due_bookmark: None,
            sent,
            ended: false,
            plan,
        };
        stream.schedule(now);
        stream
    }

    /// Chooses the next instant at which the stream has something to do by itself.
    fn schedule(&mut self, now: Duration) {
        let last = self.deadline.saturating_sub(BOOKMARK_BEFORE_END);
        self.next_bookmark = self.plan.bookmarks.then(|| (now + BOOKMARK_EVERY).min(last)).filter(|at| *at > now);
        let at = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
        let ctx = self.plan.ctx.clone();
        self.timer = Box::pin(async move { ctx.sleep_until(at).await });
    }

    fn frame(&mut self, bytes: Bytes) -> Next {
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn end(&mut self, error: Option<BoxError>) -> Next {
        self.ended = true;
        Poll::Ready(error.map(Err))
    }

    /// One line and then nothing more.
    fn fail(&mut self, status: &Status) -> Next {
        self.say(Told::Error, self.sent, None, false);
        self.initial.clear();
        self.held.clear();
        self.plan.receiver.close();
        self.ended = true;
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
                self.held.push_back(event);
                let until = ctx.now().mono + delay;
                self.pause = Some(Box::pin(async move { ctx.sleep_until(until).await }));
                None
            }
            Upset::Hang => {
                self.held.push_back(event);
                self.pause = Some(Box::pin(async move { ctx.hang(&fault).await }));
                None
            }
            Upset::Break => Some(self.end(Some(Broken(fault).into()))),
            Upset::Gone => Some(self.gone()),
            Upset::Stall => {
                self.pause = Some(Box::pin(std::future::pending()));
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

    /// Joins the lines of what is there into frames.
    fn send_initial(&mut self) -> Option<Next> {
        let first = self.initial.pop_front()?;
        if !self.is_plain() {
            return self.send(first);
        }
        let line = self.told(&first);
        let mut lines = Lines::of(line, self.initial.len());
        while lines.room()
            && let Some(event) = self.initial.pop_front()
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
            self.gathers = Some(Box::pin(async move { ctx.sleep_until(until).await }));
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

    fn on_timer(&mut self) {
        let now = self.plan.ctx.now().mono;
        // Read before the channel is drained: all events up to it are in there.
        self.due_bookmark =
            self.next_bookmark.filter(|at| *at <= now).map(|_| self.plan.registration.shared.revision());
        self.schedule(now);
    }

    fn begin_with_fault(&mut self) -> Option<Next> {
        let (fault, watch) = self.plan.fault.take()?;
        if watch == WatchFault::Gap {
            self.gap = Some(fault);
            return None;
        }
        self.spoil(&fault, None);
        match watch {
            WatchFault::Drop => Some(self.end(Some(Broken(fault).into()))),
            WatchFault::Gone => Some(self.gone()),
            WatchFault::Stall | WatchFault::Gap => {
                self.pause = Some(Box::pin(std::future::pending()));
                None
            }
        }
    }

    /// An event that waits to be sent.
    fn waiting(&mut self) -> Option<Delivery> {
        self.odd.pop_front_if(|_| self.went_odd).or_else(|| self.plan.receiver.try_recv().ok())
    }

    /// The next event.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        if let Some(delivery) = self.odd.pop_front_if(|_| self.went_odd) {
            return Poll::Ready(Some(delivery));
        }
        let received = self.plan.receiver.poll_recv(cx);
        let Poll::Ready(Some(delivery)) = &received else { return received };
        if substrate::mutant!(self.plan.ctx, "watch-duplicate") && !self.went_odd {
            self.odd.push_back(delivery.clone());
            self.went_odd = true;
        }
        if substrate::mutant!(self.plan.ctx, "watch-out-of-order") && !self.went_odd {
            if self.odd.is_empty() {
                self.odd.push_back(delivery.clone());
                return self.receive(cx);
            }
            self.went_odd = true;
        }
        received
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
            if this.ended {
                return Poll::Ready(None);
            }
            if let Some(answer) = this.begin_with_fault() {
                return answer;
            }
            // The stream ends on time even when a fault holds it.
            if this.timer.as_mut().poll(cx).is_ready() {
                if this.plan.ctx.now().mono >= this.deadline {
                    return this.end(None);
                }
                this.on_timer();
                continue;
            }
            if let Some(pause) = &mut this.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.pause = None;
            }
            if let Some(event) = this.held.pop_front() {
                let line = this.told(&event);
                return this.frame(line);
            }
            if !this.initial.is_empty() {
                match this.send_initial() {
                    Some(answer) => return answer,
                    None => continue,
                }
            }
            if let Some(revision) = this.plan.initial_end.take() {
                this.initial = std::mem::take(&mut this.plan.later).into();
                return this.bookmark(revision, true);
            }
            if let Some(gathers) = &mut this.gathers {
                if gathers.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.gathers = None;
            }
            match this.receive(cx) {
                Poll::Ready(Some(delivery)) => {
                    if this.is_plain() {
                        return this.send_pending(delivery);
                    }
                    if let Some(answer) = this.send(Initial::Missed(delivery.event, delivery.told)) {
                        return answer;
                    }
                }
                // Too slow, or the server was reset: the client comes back.
                Poll::Ready(None) => return this.end(None),
                Poll::Pending => match this.due_bookmark.take() {
                    Some(revision) => {
                        this.sent = this.sent.max(revision);
                        return this.bookmark(this.sent, false);
                    }
                    None => return Poll::Pending,
                },
            }
        }
    }
}
