//! Stream of a watch of the origin, with the faults that act on its events.

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use http_body::Frame;
use serde_json::json;
use substrate::body::{Body, BoxError};
use substrate::fault::WatchFault;
use substrate::json::Value;
use substrate::{Ctx, encode};

use super::lines::Lines;
use crate::service::call::Call;
use crate::service::fault::{Broken, EventFault, RequestFault, event_fault};
use crate::state::{Status, key, value};

/// A relayed watch.
struct Relay {
    ctx: Ctx,
    call: Call,
    lines: Lines,
    /// Fault that acts from the start of the stream.
    begins: Option<(String, WatchFault)>,
    /// True if a fault drops the next event.
    gap: bool,
    ended: bool,
}

type Sent = Result<Frame<Bytes>, BoxError>;

/// Returns the stream of a watch, a line for each event.
pub(super) fn stream(ctx: Ctx, call: Call, body: Body, fault: RequestFault) -> impl Stream<Item = Sent> + Send {
    let begins = fault.watch.map(|watch| (fault.fault, watch));
    let relay = Relay { ctx, call, lines: Lines::of(body), begins, gap: false, ended: false };
    unfold(relay, |mut relay| async move {
        let sent = relay.next().await?;
        Some((sent, relay))
    })
}

impl Relay {
    async fn next(&mut self) -> Option<Sent> {
        if self.ended {
            return None;
        }
        match self.begins.take() {
            Some((fault, WatchFault::Drop)) => return Some(self.end(Err(Broken(fault).into()))),
            Some((_, WatchFault::Gone)) => return Some(self.gone()),
            Some((_, WatchFault::Stall)) => return std::future::pending().await,
            Some((_, WatchFault::Gap)) => self.gap = true,
            None => {}
        }
        loop {
            let line = match self.lines.next().await? {
                Ok(line) => line,
                Err(error) => return Some(self.end(Err(error))),
            };
            let Some((object, event_type)) = subject(&self.call, &line) else { return Some(Ok(Frame::data(line))) };
            if std::mem::take(&mut self.gap) {
                continue;
            }
            match event_fault(&self.ctx, &self.call, &object, &event_type) {
                None => return Some(Ok(Frame::data(line))),
                Some((_, EventFault::Skip)) => {}
                Some((_, EventFault::Delay(delay))) => {
                    self.ctx.sleep(delay).await;
                    return Some(Ok(Frame::data(line)));
                }
                Some((fault, EventFault::Hang)) => {
                    self.ctx.hang(&fault).await;
                    return Some(Ok(Frame::data(line)));
                }
                Some((fault, EventFault::Break)) => return Some(self.end(Err(Broken(fault).into()))),
                Some((_, EventFault::Gone)) => return Some(self.gone()),
                Some((_, EventFault::Stall)) => return std::future::pending().await,
            }
        }
    }

    fn end(&mut self, last: Sent) -> Sent {
        self.ended = true;
        last
    }

    /// Ends the stream with a 410, as the origin does when it has compacted the revision.
    fn gone(&mut self) -> Sent {
        let status = Status::expired("The resourceVersion for the provided watch is too old.");
        let event = json!({ "type": "ERROR", "object": status.to_value() });
        self.end(Ok(Frame::data(format!("{}\n", encode::text(&event)).into())))
    }
}

/// Returns the key of an event's object and the type of the event; `None` for a bookmark or an error.
fn subject(call: &Call, line: &[u8]) -> Option<(String, String)> {
    let event: Value = serde_json::from_slice(line).ok()?;
    let event_type = event.get("type")?.as_str().filter(|of| !matches!(*of, "BOOKMARK" | "ERROR"))?;
    let object = event.get("object")?;
    // In a table, the row has the object.
    let object = object.get("rows").and_then(|rows| rows.get(&0)).and_then(|row| row.get("object")).unwrap_or(object);
    let key = key(call.kind.namespaced.then(|| value::namespace(object)), value::name(object));
    Some((key.to_string(), event_type.to_owned()))
}
