//! Lines of a watch in transit: each has its own latency, and none overtakes another.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{Method, Uri};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng as _;

use super::{KEEPALIVE_TIMEOUT, Link, Messages};
use crate::body::{Body, BoxError};
use crate::fabric::Travel;
use crate::fault::{Effect, Moment};
use crate::process::Ctx;
use crate::rest::keep;

/// A line in transit, or the end of the stream.
enum Item {
    Line(Bytes, Option<Travel>),
    End(Result<(), BoxError>),
}

/// Pieces of a streamed answer; faults act on each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Lines, as in a watch in JSON.
    Lines,
    /// Frames as they come.
    Frames,
}

/// Cuts a response body into pieces and sends each, always in order.
struct LineSender {
    cut: Cut,
    messages: Messages,
    rng: ChaCha8Rng,
    partial: BytesMut,
    last_arrival: Duration,
}

impl LineSender {
    /// Creates the sender of the lines that follow the head of an answer.
    fn new(messages: Messages, cut: Cut) -> Self {
        let last_arrival = messages.link.0.world.clock().mono() + messages.back;
        let rng = ChaCha8Rng::seed_from_u64(messages.lines);
        Self { cut, messages, rng, partial: BytesMut::new(), last_arrival }
    }

    fn lines(&mut self, mut data: Bytes, out: &mut VecDeque<Item>) {
        while let Some(end) = memchr::memchr(b'\n', &data) {
            let rest = data.split_to(end + 1);
            // A frame is usually one line, which is then not copied.
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

    /// Adds the items of one frame of the body, or of its end.
    fn frame(&mut self, frame: Option<Result<Frame<Bytes>, BoxError>>, out: &mut VecDeque<Item>) {
        match frame {
            // Trailers have no meaning on a stream of lines.
            Some(Ok(frame)) => match (frame.into_data(), self.cut) {
                (Ok(data), Cut::Lines) => self.lines(data, out),
                (Ok(data), Cut::Frames) => out.push_back(self.send(data)),
                (Err(_), _) => {}
            },
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

/// Reads `body` in the server's process, as a server writes to its socket whether or not the client reads. Ends when
/// the client is gone.
async fn pump(mut sender: LineSender, mut body: Body, out: Writer) {
    let mut items = VecDeque::new();
    loop {
        let frame = tokio::select! { biased;
            frame = body.frame() => frame,
            () = out.unread() => return,
        };
        sender.frame(frame, &mut items);
        while let Some(item) = items.pop_front() {
            let end = matches!(item, Item::End(_));
            out.send(item);
            if end {
                return;
            }
        }
    }
}

/// Channel from a pump to its stream. A line wakes its reader when it arrives, and not before.
#[derive(Default)]
struct Pipe {
    items: VecDeque<Item>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    unwritten: bool,
    unread: bool,
}

type SharedPipe = Arc<Mutex<Pipe>>;

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock()
}

fn pipe() -> (Writer, Reader) {
    let shared = SharedPipe::default();
    (Writer(shared.clone()), Reader(shared))
}

struct Writer(SharedPipe);

impl Writer {
    fn send(&self, item: Item) {
        let mut pipe = lock(&self.0);
        if pipe.unread {
            // The item is dropped without the lock.
            drop(pipe);
            return drop(item);
        }
        match (&item, &pipe.reader) {
            (Item::Line(_, Some(way)), Some(reader)) => way.wake_at_arrival(reader),
            (_, Some(reader)) => reader.wake_by_ref(),
            (_, None) => {}
        }
        pipe.items.push_back(item);
    }

    /// Completes when the reader is gone.
    async fn unread(&self) {
        poll_fn(|cx| {
            let mut pipe = lock(&self.0);
            if pipe.unread {
                return Poll::Ready(());
            }
            keep(&mut pipe.writer, cx.waker());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.unwritten = true;
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
    }
}

struct Reader(SharedPipe);

impl Reader {
    /// Appends the sent items to `under_way`. Returns false if there will be no more.
    fn pull(&self, cx: &mut Context<'_>, under_way: &mut VecDeque<Item>) -> bool {
        let mut pipe = lock(&self.0);
        under_way.append(&mut pipe.items);
        keep(&mut pipe.reader, cx.waker());
        !pipe.unwritten
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.unread = true;
        let (items, writer) = (std::mem::take(&mut pipe.items), pipe.writer.take());
        drop(pipe);
        drop(items);
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

/// A response body that arrives line by line.
pub(super) struct LineStream {
    link: Link,
    uri: Uri,
    source: Source,
    under_way: VecDeque<Item>,
    waiting: Option<BoxFuture<'static, bool>>,
    done: bool,
}

enum Source {
    /// From the server's process; closed without an end if that process crashes.
    Pumped(Reader),
    /// From a socket.
    Wire(Box<(LineSender, Body)>),
}

impl LineStream {
    pub(super) fn new(messages: Messages, (body, cut): (Body, Cut), server: Option<Ctx>, uri: Uri) -> Self {
        let link = messages.link.clone();
        let sender = LineSender::new(messages, cut);
        let source = match server {
            Some(ctx) => {
                let (out, lines) = pipe();
                ctx.spawn(pump(sender, body, out));
                Source::Pumped(lines)
            }
            None => Source::Wire(Box::new((sender, body))),
        };
        Self { link, uri, source, under_way: VecDeque::new(), waiting: None, done: false }
    }

    /// Takes the items that were sent so far.
    fn pull(&mut self, cx: &mut Context<'_>) {
        while !matches!(self.under_way.back(), Some(Item::End(_))) {
            match &mut self.source {
                Source::Pumped(lines) => {
                    let open = lines.pull(cx, &mut self.under_way);
                    if !open && !matches!(self.under_way.back(), Some(Item::End(_))) {
                        self.under_way.push_back(Item::End(Err(self.link.reset())));
                    }
                    return;
                }
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
            let firing = this.link.fault("stream", Moment::Before, &Method::GET, &this.uri);
            let link = this.link.clone();
            match firing.map(|f| (f.name, f.effect)) {
                Some((_, Effect::ResetStream(_))) => {
                    let e = this.link.reset();
                    return this.end(Some(e));
                }
                Some((name, Effect::StallStream(_) | Effect::Hang(_))) => {
                    this.waiting = Some(Box::pin(async move {
                        link.0.world.outlast(&name).await;
                        true
                    }));
                }
                Some((_, Effect::Delay(span))) => {
                    this.waiting = Some(Box::pin(async move {
                        link.scaled_sleep(span.0).await;
                        true
                    }));
                }
                // Lines of a process that has ended do not arrive.
                Some((_, Effect::Crash(_) | Effect::Reboot(_))) if link.0.caller.is_down() => return Poll::Pending,
                _ if this.link.cut(false) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::fabric::Fabric;

    fn line(way: Option<Travel>) -> Item {
        Item::Line(Bytes::from_static(b"{}\n"), way)
    }

    #[test]
    fn only_an_arrived_line_wakes_the_reader() {
        let (waker, woken) = counted();
        let mut cx = Context::from_waker(&waker);
        let (writer, reader) = pipe();
        let mut under_way = VecDeque::new();
        assert!(reader.pull(&mut cx, &mut under_way) && under_way.is_empty());
        let fabric = Fabric::new(Clock::simulated());
        writer.send(line(Some(fabric.travel(1, (1, 2), Duration::from_secs(1)))));
        assert_eq!(woken(), 0);
        writer.send(line(None));
        assert_eq!(woken(), 1);
        assert!(reader.pull(&mut cx, &mut under_way));
        assert_eq!(under_way.len(), 2);
    }

    #[test]
    fn each_side_learns_that_the_other_is_gone() {
        let (waker, woken) = counted();
        let mut cx = Context::from_waker(&waker);
        let (writer, reader) = pipe();
        writer.send(line(None));
        let mut under_way = VecDeque::new();
        assert!(reader.pull(&mut cx, &mut under_way));
        drop(writer);
        assert_eq!(woken(), 1);
        assert!(!reader.pull(&mut cx, &mut under_way), "nothing more comes");
        let (writer, reader) = pipe();
        let mut unread = Box::pin(writer.unread());
        assert!(unread.as_mut().poll(&mut cx).is_pending());
        drop(reader);
        assert_eq!(woken(), 2);
        assert!(unread.as_mut().poll(&mut cx).is_ready());
    }

    /// Returns a waker, and the number of its wake-ups.
    fn counted() -> (Waker, impl Fn() -> usize) {
        #[derive(Default)]
        struct Count(std::sync::atomic::AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = Arc::<Count>::default();
        (Waker::from(count.clone()), move || count.0.load(std::sync::atomic::Ordering::Relaxed))
    }
}
