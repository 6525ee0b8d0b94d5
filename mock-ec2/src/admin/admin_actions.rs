//! Admin actions: changes that a customer of a cloud cannot make.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{App, error, reply};
use crate::state::admin_actions::{Hardware, Push, Which};
use crate::state::command::Action;
use crate::state::error::Ec2Error;
use crate::state::ids::{InstanceId, Malformed, SnapshotId, VolumeId};
use crate::state::switches::Switches;
use crate::state::volume::VolumeState;

/// Longest body of an admin action.
const BODY_LIMIT: usize = 64 << 10;

type Outcome = Result<Response, Refusal>;

/// Refusal of an admin action.
pub(super) struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        error(self.0, self.1)
    }
}

/// Parses the body of `request` as JSON; an empty one counts as `{}`.
async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    let bytes = axum::body::to_bytes(request.into_body(), BODY_LIMIT)
        .await
        .map_err(|e| Refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("at most {BODY_LIMIT} bytes: {e}")))?;
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(bytes).map_err(|e| Refusal(StatusCode::BAD_REQUEST, e.to_string()))
}

fn id<T: FromStr<Err = Malformed>>(what: &str, text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|e| Refusal(StatusCode::BAD_REQUEST, format!("{what}: `{text}` {e}")))
}

fn refusal(e: Ec2Error) -> Refusal {
    let status = if e.code().ends_with("NotFound") { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
    Refusal(status, e.to_string())
}

pub(super) async fn switches(State(app): State<Arc<App>>) -> Response {
    reply(StatusCode::OK, &app.ec2.with_state(&app.ctx, |state, _| state.switches().clone()))
}

/// Changes the switches that the body names.
pub(super) async fn switch(State(app): State<Arc<App>>, request: Request) -> Outcome {
    let changes: serde_json::Map<String, Value> = body(request).await?;
    let outcome = app.ec2.with_state(&app.ctx, |state, _| {
        let mut all = serde_json::to_value(state.switches()).map_err(|e| e.to_string())?;
        if let Some(all) = all.as_object_mut() {
            all.extend(changes);
        }
        let switches: Switches = serde_json::from_value(all).map_err(|e| e.to_string())?;
        switches.check()?;
        state.set_switches(switches.clone());
        Ok::<_, String>(switches)
    });
    match outcome {
        Ok(switches) => Ok(reply(StatusCode::OK, &switches)),
        Err(e) => Err(Refusal(StatusCode::BAD_REQUEST, e)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mounts {
    volumes: BTreeSet<VolumeId>,
}

/// Sets the volumes that the node reports as mounted, as a complete list.
pub(super) async fn mounts(State(app): State<Arc<App>>, Path(instance): Path<String>, request: Request) -> Outcome {
    let instance: InstanceId = id("instance", &instance)?;
    let Mounts { volumes } = body(request).await?;
    app.ec2.with_state(&app.ctx, |state, now| state.report_mounts(now, &instance, volumes.clone())).map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "instance": instance, "volumes": volumes })))
}

pub(super) async fn hardware(State(app): State<Arc<App>>, Path(instance): Path<String>, request: Request) -> Outcome {
    let instance: InstanceId = id("instance", &instance)?;
    let change: Hardware = body(request).await?;
    let limit = app.ec2.with_state(&app.ctx, |state, now| {
        state.change_hardware(now, &instance, &change)?;
        state.instance(&instance).map(|i| i.device_limit())
    });
    let limit = limit.map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "instance": instance, "deviceLimit": limit })))
}

/// Starts the termination of the instance, like TerminateInstances.
pub(super) async fn terminate(State(app): State<Arc<App>>, Path(instance): Path<String>) -> Outcome {
    let instance: InstanceId = id("instance", &instance)?;
    let command = Action::TerminateInstances(vec![instance.clone()]).into();
    app.ec2.perform(&app.ctx, &command, None).map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "instance": instance, "state": "shutting-down" })))
}

/// Handles `complete` and `stick` of an instance.
pub(super) async fn instance(State(app): State<Arc<App>>, Path((instance, verb)): Path<(String, String)>) -> Outcome {
    let instance: InstanceId = id("instance", &instance)?;
    let push = push(&verb)?;
    let changed =
        app.ec2.with_state(&app.ctx, |state, now| state.push_instance(now, &instance, push)).map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "instance": instance, "changed": changed })))
}

/// Removes the instance at once and permanently.
pub(super) async fn purge(State(app): State<Arc<App>>, Path(instance): Path<String>) -> Outcome {
    let instance: InstanceId = id("instance", &instance)?;
    app.ec2.with_state(&app.ctx, |state, now| state.purge_instance(now, &instance)).map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "instance": instance, "state": "purged" })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    #[serde(default)]
    which: Which,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forced {
    state: VolumeState,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Impaired {
    impaired: bool,
}

/// Handles `vanish`, `state`, `impair`, `complete`, `stick` and `fail` of a volume.
pub(super) async fn volume(
    State(app): State<Arc<App>>,
    Path((volume, verb)): Path<(String, String)>,
    request: Request,
) -> Outcome {
    let volume: VolumeId = id("volume", &volume)?;
    let outcome = match verb.as_str() {
        "vanish" => app.ec2.with_state(&app.ctx, |state, now| {
            state.volume(&volume)?;
            state.vanish_volume(now, &volume);
            Ok(true)
        }),
        "state" => {
            let Forced { state: forced } = body(request).await?;
            app.ec2.with_state(&app.ctx, |state, _| state.force_volume_state(&volume, forced).map(|()| true))
        }
        "impair" => {
            let Impaired { impaired } = body(request).await?;
            app.ec2.with_state(&app.ctx, |state, _| state.impair_volume(&volume, impaired).map(|()| true))
        }
        verb => {
            let push = push(verb)?;
            let Target { which } = body(request).await?;
            app.ec2.with_state(&app.ctx, |state, now| state.push_volume(now, &volume, which, push))
        }
    };
    Ok(reply(StatusCode::OK, &json!({ "volume": volume, "changed": outcome.map_err(refusal)? })))
}

/// Handles `complete`, `stick` and `fail` of a snapshot.
pub(super) async fn snapshot(State(app): State<Arc<App>>, Path((snapshot, verb)): Path<(String, String)>) -> Outcome {
    let snapshot: SnapshotId = id("snapshot", &snapshot)?;
    let push = push(&verb)?;
    let changed =
        app.ec2.with_state(&app.ctx, |state, now| state.push_snapshot(now, &snapshot, push)).map_err(refusal)?;
    Ok(reply(StatusCode::OK, &json!({ "snapshot": snapshot, "changed": changed })))
}

fn push(verb: &str) -> Result<Push, Refusal> {
    match verb {
        "complete" => Ok(Push::Complete),
        "stick" => Ok(Push::Stick),
        "fail" => Ok(Push::Fail),
        other => Err(Refusal(StatusCode::NOT_FOUND, format!("`{other}` is not a poke"))),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    token: String,
}

/// Burns a client token.
pub(super) async fn burn(State(app): State<Arc<App>>, request: Request) -> Outcome {
    let Token { token } = body(request).await?;
    match app.ec2.with_state(&app.ctx, |state, _| state.burn_token(&token)) {
        true => Ok(reply(StatusCode::OK, &json!({ "token": token }))),
        false => Err(Refusal(StatusCode::NOT_FOUND, "token: not used yet".to_owned())),
    }
}
