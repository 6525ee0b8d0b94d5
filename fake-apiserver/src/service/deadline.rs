//! Timeout of requests (apiserver `filters/request_deadline.go`, `filters/timeout.go`): one minute, or the client's
//! `timeout` if that is shorter. Only reading the client's body can take long here, and it is aborted at that time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use substrate::Ctx;
use substrate::body::{Body, BoxError, boxed};

use super::call::Call;
use super::query::Query;
use super::verb::{Sub, Verb};
use crate::state::Status;

/// Maximum duration of a request (kube-apiserver `--request-timeout`).
const MOST: Duration = Duration::from_secs(60);
/// Units of Go's durations, in nanoseconds.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Returns true if a request has no timeout; its `timeout` parameter is ignored.
pub(super) fn is_long_running(call: &Call) -> bool {
    call.verb == Verb::Watch || call.subresource == Sub::Log || call.subresource.reaches()
}

/// Parses the timeout of a request.
///
/// # Errors
/// 400 if its `timeout` is not a duration.
pub(super) fn check(uri: &Uri) -> Result<Duration, Status> {
    let Some(query) = uri.query().filter(|query| query.contains('=')) else { return Ok(MOST) };
    let query = Query::parse(Some(query));
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(MOST);
    }
    let asked = duration(text)
        .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    // Zero and negative durations mean that the client sets no limit.
    Ok(asked.filter(|asked| !asked.is_zero()).map_or(MOST, |asked| asked.min(MOST)))
}

/// Adds the timeout to the body of a request.
pub(super) fn limited(ctx: &Ctx, request: Request<Body>) -> Request<Body> {
    // A body that has already arrived needs no timeout.
    if request.method() == Method::GET || !request.body().is_streamed() {
        return request;
    }
    // A request with a bad `timeout` is refused, or its body is not read.
    let limit = check(request.uri()).unwrap_or(MOST);
    let (ctx, at) = (ctx.clone(), ctx.now().mono + limit);
    request.map(|body| boxed(Limited { body, over: Box::pin(async move { ctx.sleep_until(at).await }) }))
}

/// Returns true for the error of a body that timed out.
pub(super) fn is_over(error: &BoxError) -> bool {
    error.is::<TooSlow>()
}

/// Returns the refusal of a request that timed out.
pub(super) fn over() -> Status {
    let mut status = Status::timeout("request did not complete within the allotted timeout");
    status.details.is_written = true;
    status
}

/// the request body did not come in time
#[derive(Debug, displaydoc::Display, thiserror::Error)]
struct TooSlow;

struct Limited {
    body: Body,
    over: BoxFuture<'static, ()>,
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => self.over.as_mut().poll(cx).map(|()| Some(Err(TooSlow.into()))),
            frame => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Parses a duration like Go's `time.ParseDuration`. Returns `None` for a negative one.
///
/// # Errors
/// The reason why the text is not a duration, in Go's words.
fn duration(text: &str) -> Result<Option<Duration>, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let end = match rest[digits..].strip_prefix('.') {
            Some(fraction) => digits + 1 + fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len()),
            None => digits,
        };
        let (number, after) = rest.split_at(end);
        if !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(invalid());
        }
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        nanoseconds += number.parse().unwrap_or(0.0) * size;
        // 2^63 nanoseconds are 292 years.
        if nanoseconds > 9_223_372_036_854_775_807.0 {
            return Err(invalid());
        }
        rest = after;
    }
    // A fraction of a nanosecond is dropped.
    Ok((!text.starts_with('-')).then(|| Duration::from_nanos(nanoseconds as u64)))
}

/// Quotes a text like Go's package `time`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for text in ["0", "-0", "30s", "1.5h", "+1h2m3.s", ".5s", "1us2µs3μs", "-5ms"] {
            assert!(duration(text).is_ok(), "{text}");
        }
        let nanos = |text: &str| duration(text).unwrap().map(|duration| duration.as_nanos());
        assert_eq!((nanos("1.5s"), nanos("1h2m"), nanos("-5s")), (Some(1_500_000_000), Some(3_720_000_000_000), None));
        for (text, why) in [
            ("invalid", "time: invalid duration \"invalid\""),
            ("30", "time: missing unit in duration \"30\""),
            ("1s2", "time: missing unit in duration \"1s2\""),
            ("1.5", "time: missing unit in duration \"1.5\""),
            ("1y", "time: unknown unit \"y\" in duration \"1y\""),
            ("+", "time: invalid duration \"+\""),
            (".s", "time: invalid duration \".s\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
            ("\"é", "time: invalid duration \"\\\"\\xc3\\xa9\""),
        ] {
            assert_eq!(duration(text), Err(why.to_owned()), "{text}");
        }
    }
}
