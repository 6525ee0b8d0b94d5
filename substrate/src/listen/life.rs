//! Timeouts of connections, and the choice of one to close when there are too many.
//!
//! Without timeouts, a silent connection would cost a descriptor and memory for as long as its client likes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Timeouts of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTimeouts {
    /// Maximum time without a request; `None` if a connection over HTTP/2 may be idle forever.
    pub idle: Option<Duration>,
    /// Maximum time from the first byte of a request to the end of its head, and for a handshake.
    pub head: Duration,
    /// Maximum time between two pieces of a request's body.
    pub body: Duration,
}

impl ConnectionTimeouts {
    /// Timeouts of a Kubernetes API server, for clients of an API.
    pub const API: Self =
        Self { idle: Some(Duration::from_secs(90)), head: Duration::from_secs(32), body: Duration::from_secs(32) };
    /// Timeouts for clients that keep one connection and treat its loss as the end of the server, like CSI sidecars.
    pub const STEADY: Self = Self { idle: None, ..Self::API };
}

/// First bytes of a connection over HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// State of a connection.
#[derive(Debug)]
pub(crate) struct Life {
    pub(super) timeouts: ConnectionTimeouts,
    state: Mutex<State>,
    /// Notified when the timeout may have changed.
    changed: Notify,
    /// Notified when the connection must make room for another one.
    evicted: Notify,
    /// True once the server is shutting down.
    dismissed: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Number of requests that are not answered to their last byte.
    requests: usize,
    /// Time since which there is no request.
    since: Instant,
    /// Time of the first byte of the next one.
    begun: Option<Instant>,
    /// Number of bytes of the HTTP/2 preface so far; `None` for another protocol.
    preface: Option<usize>,
}

impl State {
    fn is_http2(&self) -> bool {
        self.preface == Some(PREFACE.len())
    }
}

impl Life {
    pub(super) fn begin(timeouts: ConnectionTimeouts) -> Arc<Self> {
        let state = State { requests: 0, since: Instant::now(), begun: None, preface: Some(0) };
        Arc::new(Self {
            timeouts,
            state: Mutex::new(state),
            changed: Notify::new(),
            evicted: Notify::new(),
            dismissed: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Records bytes from the client.
    fn note_bytes(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.is_http2() {
            // HTTP/2 frames, such as pings, do not begin a request by themselves.
            return;
        }
        state.preface = state.preface.and_then(|known| {
            let more = &PREFACE[known..];
            let both = more.len().min(bytes.len());
            (more[..both] == bytes[..both]).then_some(known + both)
        });
        if state.is_http2() {
            (state.begun, state.since) = (None, Instant::now());
        } else if state.requests == 0 && state.begun.is_none() {
            state.begun = Some(Instant::now());
        } else {
            return;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Counts a request whose head has arrived, until the result is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Asked {
        let mut state = self.lock();
        state.requests += 1;
        state.begun = None;
        Asked(self.clone())
    }

    /// Returns the time until which a request is awaited.
    fn until(&self) -> Option<Instant> {
        if self.dismissed.load(Ordering::Relaxed) {
            return Some(Instant::now());
        }
        let state = self.lock();
        match (state.requests, state.begun) {
            (0, Some(begun)) => Some(begun + self.timeouts.head),
            // Without the preface of HTTP/2, even a connection that may be idle forever has a timeout.
            (0, None) if !state.is_http2() => Some(state.since + self.timeouts.idle.unwrap_or(self.timeouts.head)),
            (0, None) => self.timeouts.idle.map(|idle| state.since + idle),
            _ => None,
        }
    }

    /// Completes when the client has timed out.
    pub(super) async fn over(&self) {
        loop {
            let until = self.until();
            let due = async {
                match until {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                () = self.changed.notified() => {}
                // The client may have sent something in the meantime.
                () = due => if self.until().is_some_and(|until| until <= Instant::now()) { return },
            }
        }
    }

    /// Asks the connection to close.
    fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Completes when the connection must make room.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Asked(Arc<Life>);

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
            drop(state);
            self.0.changed.notify_one();
        }
    }
}

/// The stream of a connection, which reports its bytes to [`Life`].
#[derive(Debug)]
pub(super) struct ObservedStream<S> {
    pub(super) stream: S,
    pub(super) life: Arc<Life>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            self.life.note_bytes(new);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// All connections of a world, so that an idle one can make room.
#[derive(Debug, Default)]
pub(super) struct ConnectionSet {
    all: Mutex<BTreeMap<u64, Arc<Life>>>,
    count: AtomicU64,
    dismissed: AtomicBool,
    /// Notified when the last connection has closed.
    emptied: Notify,
}

impl ConnectionSet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Life>>> {
        self.all.lock()
    }

    /// Admits `life` until the result is dropped.
    pub(super) fn enter(self: &Arc<Self>, life: &Arc<Life>) -> Membership {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, life.clone());
        if self.is_dismissed() {
            life.dismiss();
        }
        Membership(self.clone(), number)
    }

    /// Asks all connections to close, and new ones, too.
    pub(super) fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
        for life in self.lock().values() {
            life.dismiss();
        }
    }

    /// Returns true after `dismiss`.
    pub(super) fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::Relaxed)
    }

    /// Completes when there are no connections.
    pub(super) async fn emptied(&self) {
        while self.len() > 0 {
            self.emptied.notified().await;
        }
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Closes the connection whose timeout comes first, of those without a request. Returns false if there is none.
    /// Connections that may be idle forever stay.
    pub(super) fn make_room(&self) -> bool {
        let mut all = self.lock();
        let idle = all.iter().filter_map(|(number, life)| {
            let until = life.until()?;
            Some((until, *number))
        });
        let Some((_, first)) = idle.min() else { return false };
        if let Some(life) = all.remove(&first) {
            life.evicted.notify_one();
        }
        true
    }
}

/// Membership of a connection in the set.
#[derive(Debug)]
pub(super) struct Membership(Arc<ConnectionSet>, u64);

impl Drop for Membership {
    fn drop(&mut self) {
        let mut all = self.0.lock();
        all.remove(&self.1);
        if all.is_empty() {
            self.0.emptied.notify_one();
        }
    }
}

/// Returns the maximum number of connections: the process's limit of descriptors, less some for its files.
pub(super) fn most() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    limit - (limit / 4).min(64)
}
