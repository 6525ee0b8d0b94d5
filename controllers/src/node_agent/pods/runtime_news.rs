//! Follows the events of the container runtime.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Pod;
use substrate::body::{BoxError, full};

use super::context::PodContext;
use super::housekeeping::housekeeping;
use crate::kube::reference;
use crate::machine::api::Trouble;
use crate::node_agent::events::RuntimeFailed;
use crate::node_agent::runtime::{LIMIT, send};

/// Wait before the event stream is reopened.
const RETRY: Duration = Duration::from_secs(1);

/// Follows the runtime's events forever.
pub(crate) async fn follow(room: Arc<PodContext>) {
    loop {
        let error = match news(&room).await {
            Ok(()) => "the stream of news ended".to_owned(),
            Err(error) => error.to_string(),
        };
        room.ctx.emit(RuntimeFailed { error, node: room.config.name() });
        room.ctx.sleep(RETRY).await;
    }
}

/// Reads one event stream to its end.
async fn news(room: &Arc<PodContext>) -> Result<(), BoxError> {
    let answer = send(&room.runtime.service, Method::GET, "/v1/pods?watch=true", full(""), true).await?;
    if !answer.status().is_success() {
        return Err(format!("the container runtime answered {}", answer.status()).into());
    }
    let mut body = answer.into_body();
    let mut text = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        text.extend_from_slice(&data);
        while let Some(end) = memchr::memchr(b'\n', &text) {
            let line = text.split_to(end + 1);
            if let Some(trouble) = room.runtime.take(serde_json::from_slice(&line)?) {
                report(room, trouble);
            } else {
                housekeeping(room);
                room.changes.signal();
            }
        }
        if text.len() > LIMIT {
            return Err(format!("a line of news is longer than {LIMIT} bytes").into());
        }
    }
    Ok(())
}

/// Emits a workload's message as an event of its pod.
fn report(room: &PodContext, trouble: Trouble) {
    let pod = room.pods.lock().get(&trouble.uid);
    if let Some(pod) = pod {
        room.recorder.event(reference::<Pod>(&pod), "Warning", &trouble.reason, trouble.message);
    }
}
