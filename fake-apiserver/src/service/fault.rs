//! Faults of the Kubernetes plane: the moments of a request at which they fire, and their effect on it.
//! [`crate::faults`] has their catalogue.

use substrate::Ctx;
use substrate::fault::{Effect, Failure, FaultOutcome, Moment, Plane, Point, WatchFault};

use super::call::Call;
use super::verb::Verb;
use crate::faults::CODES;
use crate::state::Status;

/// End of a request by a fault.
pub(crate) enum Ended {
    /// The caller gets this status.
    Answer(Status),
    /// The connection breaks.
    Break(Broken),
}

/// Effect of faults on a request that continues.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFault {
    /// A read answers with the state of this many revisions ago.
    pub stale: u32,
    /// A write happens this many times.
    pub times: Option<u32>,
    /// Effect on the watch stream from its start.
    pub watch: Option<WatchFault>,
    /// Name of the fault.
    pub fault: String,
}

/// The connection was broken by fault {0}
#[derive(Clone, Debug, displaydoc::Display, thiserror::Error)]
pub(crate) struct Broken(pub String);

/// Runs the faults that fire at `moment` of a request.
pub(crate) async fn suffer(ctx: &Ctx, call: &Call, moment: Moment) -> Result<RequestFault, Ended> {
    if ctx.faults().is_empty() {
        return Ok(RequestFault::default());
    }
    let object = call.target();
    let attributes = [
        ("resource", call.kind.plural),
        ("subresource", call.subresource.name()),
        ("verb", call.verb.name()),
        ("namespace", call.namespace.as_deref().unwrap_or_default()),
        ("object", object.as_str()),
        ("caller", call.caller.as_str()),
        ("userAgent", call.agent.as_str()),
        ("reads", reads(call)),
    ];
    let point = Point { plane: Plane::K8s, op: call.verb.name(), attributes: &attributes, moment };
    match ctx.meet(&point).await {
        FaultOutcome::Proceed => Ok(RequestFault::default()),
        FaultOutcome::Fail { fault, failure: Failure::Http(code) } => Err(Ended::Answer(http(code, &fault))),
        FaultOutcome::Fail { fault, failure: Failure::Named(reason) } => Err(Ended::Answer(named(&reason, &fault))),
        FaultOutcome::Break { fault } | FaultOutcome::LoseReply { fault } => Err(Ended::Break(Broken(fault))),
        FaultOutcome::Alter { fault, effect: Effect::StaleRead(stale) } => {
            Ok(RequestFault { stale, fault, ..RequestFault::default() })
        }
        FaultOutcome::Alter { fault, effect: Effect::Duplicate(times) } => {
            Ok(RequestFault { times: Some(times), fault, ..RequestFault::default() })
        }
        FaultOutcome::Alter { fault, effect: Effect::Watch(watch) } => {
            Ok(RequestFault { watch: Some(watch), fault, ..RequestFault::default() })
        }
        outcome => point.unlisted(&outcome),
    }
}

/// Returns the source of a read on a real server: its watch cache, which may lag, if the request has a resourceVersion.
/// Empty for writes.
pub(super) fn reads(call: &Call) -> &'static str {
    match call.verb {
        Verb::Get | Verb::List | Verb::Watch if call.query.get("resourceVersion").is_empty() => "storage",
        Verb::Get | Verb::List | Verb::Watch => "cache",
        _ => "",
    }
}

/// Effect of a fault on one event of a stream.
pub(crate) enum EventFault {
    /// The event is left out.
    Skip,
    /// The event is delayed.
    Delay(std::time::Duration),
    /// The event is delayed until the fault is removed.
    Hang,
    /// The connection breaks before the event.
    Break,
    /// A 410 replaces the event, and the stream ends.
    Gone,
    /// The stream stops without an end.
    Stall,
}

/// Returns the name and effect of a fault that fires at one event of a stream; `None` if none fires.
pub(crate) fn event_fault(ctx: &Ctx, call: &Call, object: &str, event_type: &str) -> Option<(String, EventFault)> {
    if ctx.faults().is_empty() {
        return None;
    }
    let attributes = [
        ("resource", call.kind.plural),
        ("verb", "watch"),
        ("namespace", call.namespace.as_deref().unwrap_or_default()),
        ("object", object),
        ("type", event_type),
        ("caller", call.caller.as_str()),
        ("userAgent", call.agent.as_str()),
    ];
    let point = Point { plane: Plane::K8s, op: "watch-event", attributes: &attributes, moment: Moment::Before };
    let firing = ctx.fault(&point)?;
    let event_fault = match firing.effect {
        Effect::Watch(WatchFault::Drop) | Effect::ResetStream(_) => EventFault::Break,
        Effect::Watch(WatchFault::Gone) => EventFault::Gone,
        Effect::Watch(WatchFault::Gap) => EventFault::Skip,
        Effect::Watch(WatchFault::Stall) | Effect::StallStream(_) => EventFault::Stall,
        Effect::Hang(_) => EventFault::Hang,
        Effect::Delay(span) => EventFault::Delay(ctx.scaled(span.0)),
        // A process that has ended sends nothing.
        Effect::Crash(who) if who == "self" => EventFault::Stall,
        Effect::Crash(_) | Effect::Reboot(_) if ctx.is_down() => EventFault::Stall,
        _ => return None,
    };
    Some((firing.name, event_fault))
}

fn http(code: u16, fault: &str) -> Status {
    let reason = match code {
        409 => "Conflict",
        410 => "Expired",
        500 => "InternalError",
        code => CODES.iter().find(|(_, of)| *of == code).map_or("", |(reason, _)| reason),
    };
    failed(code, reason, fault)
}

fn named(reason: &str, fault: &str) -> Status {
    let code = CODES.iter().find(|(known, _)| *known == reason).copied();
    let (reason, code) = code.expect("the catalogue allows the reasons in `CODES`");
    failed(code, reason, fault)
}

fn failed(code: u16, reason: &'static str, fault: &str) -> Status {
    let why = format!("injected by fault {fault}");
    let mut status = if code == 504 { Status::timeout(&why) } else { Status::new(code, reason, why) };
    if matches!(code, 429 | 503) || reason == "ServerTimeout" {
        status.details.retry_after_seconds = Some(1);
    }
    status
}
