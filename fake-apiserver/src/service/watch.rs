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
use crate::state::value::name;
use crate::state::{EventType, Initial, Object, Status};

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
    pub(crate) after: u64,
    pub(crate) bookmarks: bool,
    pub(crate) lifetime: Duration,
    pub(crate) receiver: mpsc::Receiver<Delivery>,
    pub(crate) registration: Registration,
    pub(crate) fault: Option<WatchFault>,
}

/// The stream.
pub(crate) struct WatchStream {
    plan: Plan,
    initial: VecDeque<Initial>,
    held: VecDeque<Bytes>,
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

    /// Lets a fault act on the event before it is sent.
    fn upset(&self, event: &Initial) -> Upset {
        if self.plan.ctx.faults().is_empty() {
            return Upset::None;
        }
        let (object, told) = match event {
            Initial::Present(object) => (object_name(self.plan.call.kind.namespaced, object), EventType::Added),
            Initial::Missed(event, told) => (event.key.to_string(), *told),
        };
        upset(&self.plan.ctx, &self.plan.call, &object, told.as_str())
    }

    /// Sends one event, or what a fault makes of it; nothing when it is left out or comes later.
    fn send(&mut self, event: &Initial) -> Option<Next> {
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
        match self.upset(event) {
            Upset::None => {
                let line = self.encode(event);
                Some(self.frame(line))
            }
            Upset::Skip => None,
            Upset::Delay(delay) => {
                let line = self.encode(event);
                self.held.push_back(line);
                let (ctx, until) = (self.plan.ctx.clone(), self.plan.ctx.now().mono + delay);
                self.pause = Some(Box::pin(async move { ctx.sleep_until(until).await }));
                None
            }
            Upset::Break(error) => Some(self.end(Some(error))),
            Upset::Gone => {
                let status = Status::expired(format!("too old resource version: {} ({})", self.sent, self.sent));
                Some(self.fail(&status))
            }
            Upset::Stall => {
                self.pause = Some(Box::pin(std::future::pending()));
                None
            }
        }
    }

    /// Joins the lines of what is there into frames.
    fn send_initial(&mut self) -> Option<Next> {
        if !self.plan.ctx.faults().is_empty() {
            let event = self.initial.pop_front()?;
            return self.send(&event);
        }
        let first = self.initial.pop_front()?;
        let mut lines = Lines::of(self.encode(&first), self.initial.len());
        while lines.room()
            && let Some(event) = self.initial.pop_front()
        {
            lines.push(&self.encode(&event));
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
            && let Ok(next) = self.plan.receiver.try_recv()
        {
            lines.push(&self.told(&Initial::Missed(next.event, next.told)));
        }
        self.frame(lines.joined())
    }

    /// The line of an event that nothing upsets.
    fn told(&mut self, event: &Initial) -> Bytes {
        if let Initial::Missed(event, _) = event {
            self.sent = self.sent.max(event.revision);
        }
        self.encode(event)
    }

    fn on_timer(&mut self) {
        let now = self.plan.ctx.now().mono;
        // Read before the channel is drained: all events up to it are in there.
        self.due_bookmark =
            self.next_bookmark.filter(|at| *at <= now).map(|_| self.plan.registration.shared.revision());
        self.schedule(now);
    }

    fn begin_with_fault(&mut self) -> Option<Next> {
        match self.plan.fault.take()? {
            WatchFault::Drop => Some(self.end(Some(Broken("watch".to_owned()).into()))),
            WatchFault::Gone => {
                let status = Status::expired(format!("too old resource version: {} ({})", self.sent, self.sent));
                Some(self.fail(&status))
            }
            WatchFault::Stall => {
                self.pause = Some(Box::pin(std::future::pending()));
                None
            }
            WatchFault::Gap => {
                self.initial.pop_front();
                None
            }
        }
    }
}

fn object_name(namespaced: bool, object: &Object) -> String {
    let name = name(&object.value);
    if namespaced { format!("{}/{name}", crate::state::value::namespace(&object.value)) } else { name.to_owned() }
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
            if let Some(line) = this.held.pop_front() {
                return this.frame(line);
            }
            if !this.initial.is_empty() {
                match this.send_initial() {
                    Some(answer) => return answer,
                    None => continue,
                }
            }
            if let Some(revision) = this.plan.initial_end.take() {
                let bookmark = this.plan.shown.bookmark(revision, true);
                return this.frame(this.plan.shown.event("BOOKMARK", &bookmark));
            }
            if let Some(gathers) = &mut this.gathers {
                if gathers.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.gathers = None;
            }
            match this.plan.receiver.poll_recv(cx) {
                Poll::Ready(Some(delivery)) => {
                    if this.plan.ctx.faults().is_empty() {
                        return this.send_pending(delivery);
                    }
                    if let Some(answer) = this.send(&Initial::Missed(delivery.event, delivery.told)) {
                        return answer;
                    }
                }
                // Too slow, or the server was reset: the client comes back.
                Poll::Ready(None) => return this.end(None),
                Poll::Pending => match this.due_bookmark.take() {
                    Some(revision) => {
                        this.sent = this.sent.max(revision);
                        let bookmark = this.plan.shown.bookmark(this.sent, false);
                        return this.frame(this.plan.shown.event("BOOKMARK", &bookmark));
                    }
                    None => return Poll::Pending,
                },
            }
        }
    }
}
