//! Faults in the cloud's API: added, listed, ended. What of them only the cloud can judge is judged here: which effects
//! the plane has at all is decided where faults are kept.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use substrate::fault::{Effect, Fault, Moment, Plane, Report};

use super::devices::OPERATION;
use super::{App, error, reply};
use crate::state::command::ACTIONS;

/// Longest body of a fault.
const BODY_LIMIT: usize = 64 << 10;

/// The attributes that requests have.
const ATTRIBUTES: [&str; 6] = ["volume", "instance", "snapshot", "zone", "caller", "path"];

/// Which transition each action starts, by the states that it can stick in.
const TRANSITIONS: [(&str, &[&str]); 12] = [
    ("AttachVolume", &["attaching"]),
    ("CopySnapshot", &["pending"]),
    ("CopyVolumes", &["creating"]),
    ("CreateSnapshot", &["pending"]),
    ("CreateSnapshots", &["pending"]),
    ("CreateVolume", &["creating"]),
    ("DeleteVolume", &["deleting"]),
    ("DetachVolume", &["detaching", "busy"]),
    ("ModifyVolume", &["modifying", "optimizing"]),
    ("RunInstances", &["pending"]),
    ("StopInstances", &["stopping"]),
    ("TerminateInstances", &["shutting-down"]),
];

/// Checks that this room can do what `fault` says.
///
/// # Errors
/// The field that it does not understand, and what it understands there.
pub fn check(fault: &Fault) -> Result<(), String> {
    if fault.matches.plane != Plane::Ec2 {
        return Err("match.plane: this server has the plane ec2 only".to_owned());
    }
    if let Some(op) = &fault.matches.op {
        let known = match op.strip_suffix('*') {
            Some(prefix) => ACTIONS.iter().any(|action| action.starts_with(prefix)),
            None => ACTIONS.contains(&op.as_str()) || [crate::imds::OPERATION, OPERATION].contains(&op.as_str()),
        };
        if !known {
            return Err(format!("match.op: `{op}` is none of {}", ACTIONS.join(", ")));
        }
    }
    if let Some(other) = fault.matches.attributes.keys().find(|key| !ATTRIBUTES.contains(&key.as_str())) {
        return Err(format!("match.where.{other}: requests have only {}", ATTRIBUTES.join(", ")));
    }
    if fault.matches.op.as_deref() == Some(OPERATION) {
        return match &fault.effect {
            Effect::Delay(_) | Effect::DropReply(_) | Effect::WrongDevice(_) => Ok(()),
            _ => Err("effect: a device understands delay, drop_reply and wrong_device".to_owned()),
        };
    }
    match &fault.effect {
        Effect::Stick(state) => check_stick(fault, state),
        Effect::Duplicate(2..=100) if fault.at == Moment::Before => Ok(()),
        Effect::Duplicate(_) => Err("effect.duplicate: needs 2 to 100 times, and `at: before`".to_owned()),
        Effect::StaleRead(1..) if fault.at == Moment::Before => Ok(()),
        Effect::StaleRead(_) => Err("effect.stale_read: needs at least one revision, and `at: before`".to_owned()),
        Effect::WrongDevice(_) => Err(format!("effect.wrong_device: devices come with match.op {OPERATION} only")),
        _ => Ok(()),
    }
}

fn check_stick(fault: &Fault, state: &str) -> Result<(), String> {
    if fault.at != Moment::Before {
        return Err("at: a transition sticks from its start, so stick needs `at: before`".to_owned());
    }
    let op = fault.matches.op.as_deref().unwrap_or_default();
    match TRANSITIONS.iter().find(|(action, _)| *action == op) {
        Some((_, own)) if own.contains(&state) => Ok(()),
        Some((_, own)) => {
            let own = own.join("` or `");
            Err(format!("effect.stick: the transition of {op} sticks in `{own}`, not in `{state}`"))
        }
        None => {
            let actions: Vec<&str> = TRANSITIONS.iter().map(|(action, _)| *action).collect();
            Err(format!("match.op: stick needs one of {}", actions.join(", ")))
        }
    }
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    reply(StatusCode::OK, &json!({ "faults": own(&app) }))
}

pub(super) async fn add(State(app): State<Arc<App>>, request: Request) -> Response {
    let bytes = match axum::body::to_bytes(request.into_body(), BODY_LIMIT).await {
        Ok(bytes) => bytes,
        Err(e) => return error(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {BODY_LIMIT} bytes: {e}")),
    };
    let fault: Fault = match serde_json::from_slice(&bytes) {
        Ok(fault) => fault,
        Err(e) => return error(StatusCode::BAD_REQUEST, format!("fault: {e}")),
    };
    let name = fault.name.clone();
    match check(&fault).and_then(|()| app.ctx.faults().add(app.ctx.clock().mono(), fault)) {
        Ok(()) => reply(StatusCode::CREATED, &json!({ "name": name })),
        Err(reason) => error(StatusCode::BAD_REQUEST, reason),
    }
}

pub(super) async fn get(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    match own(&app).into_iter().find(|r| r.fault.name == name) {
        Some(report) => reply(StatusCode::OK, &report),
        None => unknown(&name),
    }
}

pub(super) async fn remove(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let report = own(&app).into_iter().any(|r| r.fault.name == name).then(|| app.ctx.faults().remove(&name)).flatten();
    match report {
        Some(report) => {
            app.ec2.refresh(&app.ctx);
            reply(StatusCode::OK, &report)
        }
        None => unknown(&name),
    }
}

pub(super) async fn clear(State(app): State<Arc<App>>) -> Response {
    let ended: Vec<Report> = own(&app).iter().filter_map(|r| app.ctx.faults().remove(&r.fault.name)).collect();
    app.ec2.refresh(&app.ctx);
    reply(StatusCode::OK, &json!({ "faults": ended }))
}

/// The faults of this plane; a process that plays several parts has one book for all.
fn own(app: &App) -> Vec<Report> {
    app.ctx.faults().list().into_iter().filter(|r| r.fault.matches.plane == Plane::Ec2).collect()
}

fn unknown(name: &str) -> Response {
    error(StatusCode::NOT_FOUND, format!("no fault called `{name}` is in force"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use substrate::Seed;
    use substrate::clock::TimeScale;
    use substrate::fault::Faults;

    use super::*;

    #[rstest]
    #[case(json!({"name": "f", "match": {"plane": "csi"}, "effect": {"http": 503}}), "match.plane")]
    #[case(json!({"name": "f", "match": {"plane": "ec2", "op": "Fly"}, "effect": {"http": 503}}), "match.op")]
    #[case(json!({"name": "f", "match": {"plane": "ec2", "where": {"node": "a"}}, "effect": {"http": 503}}), "match.where.node")]
    #[case(json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"http": 200}}), "effect.http")]
    #[case(json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"io_error": "EIO"}}), "effect.io_error")]
    #[case(json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"hang": false}}), "effect.hang")]
    #[case(json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"wrong_device": true}}), "effect.wrong_device")]
    #[case(json!({"name": "f", "match": {"plane": "ec2", "op": "Devices"}, "effect": {"http": 503}}), "effect")]
    #[case(json!({"name": "f", "match": {"plane": "ec2"}, "effect": {"stick": "attaching"}}), "match.op")]
    #[case(json!({"name": "f", "match": {"plane": "ec2", "op": "AttachVolume"}, "effect": {"stick": "busy"}}), "effect.stick")]
    #[case(json!({"name": "f", "match": {"plane": "ec2", "op": "AttachVolume"}, "effect": {"stick": "attaching"}, "at": "before_reply"}), "at")]
    fn what_this_room_cannot_do_is_refused_by_field(#[case] fault: serde_json::Value, #[case] field: &str) {
        let fault: Fault = serde_json::from_value(fault).unwrap();
        let book = Faults::new(Seed::root(1), TimeScale::new(1.0));
        let reason = check(&fault).and_then(|()| book.add(Duration::ZERO, fault)).unwrap_err();
        assert!(reason.starts_with(&format!("{field}:")), "{reason}");
    }

    #[test]
    fn what_it_can_do_is_accepted() {
        for effect in [json!({"error": "InternalError"}), json!({"drop_reply": true}), json!({"delay": "3s"})] {
            let fault = json!({"name": "f", "match": {"plane": "ec2", "op": "Describe*"}, "effect": effect});
            check(&serde_json::from_value(fault).unwrap()).unwrap();
        }
        let stick =
            json!({"name": "f", "match": {"plane": "ec2", "op": "AttachVolume"}, "effect": {"stick": "attaching"}});
        check(&serde_json::from_value(stick).unwrap()).unwrap();
    }
}
