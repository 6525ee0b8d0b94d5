//! Faults of the Kubernetes plane: where they can fire in a request, and what they do to it.
//!
//! The operation is the verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`), and
//! `watch-event` for each event of a running stream. Attributes: `resource`, `subresource`, `verb`, `namespace`,
//! `object` (`ns/name` or `name`), `caller` (the User-Agent), and `type` for events.

use substrate::fault::{Effect, Moment, Plane, Point, WatchFault};
use substrate::{BoxError, Ctx};

use super::call::Call;
use crate::state::Status;

/// What a fault makes of a request.
pub(crate) enum Injected {
    /// It fails like this.
    Fail(Status),
    /// The connection breaks.
    Break(BoxError),
}

/// What a fault changes about a request that goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Twist {
    /// A read answers with the state of this many revisions ago.
    pub stale: u32,
    /// A write happens this many times.
    pub times: Option<u32>,
    /// The stream suffers from its beginning.
    pub watch: Option<WatchFault>,
}

/// The connection was broken by fault {0}
#[derive(Clone, Debug, displaydoc::Display, thiserror::Error)]
pub(crate) struct Broken(pub String);

/// Asks for a fault at `moment` of a request and suffers it.
pub(crate) async fn suffer(ctx: &Ctx, call: &Call, moment: Moment) -> Result<Twist, Injected> {
    if ctx.faults().is_empty() {
        return Ok(Twist::default());
    }
    let object = call.object();
    let attributes = [
        ("resource", call.kind.plural),
        ("subresource", call.subresource.as_str()),
        ("verb", call.verb),
        ("namespace", call.namespace.as_deref().unwrap_or_default()),
        ("object", object.as_str()),
        ("caller", call.agent.as_str()),
    ];
    let point = Point { plane: Plane::K8s, op: call.verb, attributes: &attributes, moment };
    let Some(firing) = ctx.fault(&point) else { return Ok(Twist::default()) };
    let broken = |name: String| Injected::Break(Broken(name).into());
    match firing.effect {
        effect if effect.never_answers() => std::future::pending().await,
        Effect::Http(code) => Err(Injected::Fail(http(code, &firing.name))),
        Effect::Error(reason) => Err(Injected::Fail(named(&reason, &firing.name))),
        Effect::Delay(span) => {
            ctx.sleep(span.0).await;
            Ok(Twist::default())
        }
        Effect::DropRequest(true) | Effect::DropReply(true) | Effect::ResetStream(true) => Err(broken(firing.name)),
        Effect::StaleRead(revisions) => Ok(Twist { stale: revisions, ..Twist::default() }),
        Effect::Duplicate(times) => Ok(Twist { times: Some(times), ..Twist::default() }),
        Effect::Watch(fault) => Ok(Twist { watch: Some(fault), ..Twist::default() }),
        // Switched off as written (`{hang: false}`), or it happens to another process.
        Effect::Crash(_)
        | Effect::Reboot(_)
        | Effect::Hang(false)
        | Effect::DropRequest(false)
        | Effect::DropReply(false)
        | Effect::ResetStream(false) => Ok(Twist::default()),
        other => Err(Injected::Fail(Status::new(
            500,
            "InternalError",
            format!("fault {}: {other:?} cannot happen on the k8s plane", firing.name),
        ))),
    }
}

/// What a fault does to one event of a stream.
pub(crate) enum Upset {
    /// Nothing.
    None,
    /// It is left out.
    Skip,
    /// It comes later.
    Delay(std::time::Duration),
    /// The connection breaks before it.
    Break(BoxError),
    /// 410 comes in its place, and then the end.
    Gone,
    /// Nothing comes any more.
    Stall,
}

/// Asks for a fault at one event of a stream.
pub(crate) fn upset(ctx: &Ctx, call: &Call, object: &str, event_type: &str) -> Upset {
    if ctx.faults().is_empty() {
        return Upset::None;
    }
    let attributes = [
        ("resource", call.kind.plural),
        ("verb", "watch"),
        ("namespace", call.namespace.as_deref().unwrap_or_default()),
        ("object", object),
        ("type", event_type),
        ("caller", call.agent.as_str()),
    ];
    let point = Point { plane: Plane::K8s, op: "watch-event", attributes: &attributes, moment: Moment::Before };
    let Some(firing) = ctx.fault(&point) else { return Upset::None };
    match firing.effect {
        Effect::Watch(WatchFault::Drop) | Effect::ResetStream(true) | Effect::DropReply(true) => {
            Upset::Break(Broken(firing.name).into())
        }
        Effect::Watch(WatchFault::Gone) => Upset::Gone,
        Effect::Watch(WatchFault::Gap) => Upset::Skip,
        Effect::Watch(WatchFault::Stall) | Effect::StallStream(true) | Effect::Hang(true) => Upset::Stall,
        Effect::Delay(span) => Upset::Delay(ctx.scaled(span.0)),
        _ => Upset::None,
    }
}

fn http(code: u16, fault: &str) -> Status {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let mut status = Status::new(code, reason, format!("injected by fault {fault}"));
    if matches!(code, 429 | 503) {
        status.details.retry_after_seconds = Some(1);
    }
    status
}

fn named(reason: &str, fault: &str) -> Status {
    let code = match reason {
        "BadRequest" => 400,
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "NotFound" => 404,
        "Conflict" | "AlreadyExists" => 409,
        "Expired" | "Gone" => 410,
        "Invalid" => 422,
        "TooManyRequests" => 429,
        "ServiceUnavailable" => 503,
        "Timeout" | "ServerTimeout" => 504,
        _ => 500,
    };
    let mut status = http(code, fault);
    if reason == "AlreadyExists" {
        status.reason = "AlreadyExists";
    }
    status
}
