//! Events of calls to a driver, for the caller's log: like csi-lib-utils, one per call and one per answer, without
//! contents.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::about;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use substrate::HttpService;
use substrate::body::{Body, BoxError, boxed, call, collect, full};
use substrate::json::Text;
use substrate::process::Ctx;
use tonic::{Code, Status};

use super::error::RpcError;
use crate::events::{CsiAnswered, CsiAsked};

/// Largest request in bytes: gRPC's usual limit.
const MOST: usize = 4 << 20;

/// Wraps `service`: its calls emit events to observers.
pub(super) fn logged(ctx: &Ctx, service: HttpService) -> HttpService {
    let ctx = ctx.clone();
    HttpService::new(move |request| {
        let trace = ctx.trace();
        if !trace.is_subscribed::<CsiAsked>() && !trace.is_subscribed::<CsiAnswered>() {
            return call(service.clone(), request);
        }
        Box::pin(log_answer(ctx.clone(), service.clone(), request))
    })
}

async fn log_answer(ctx: Ctx, service: HttpService, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let (parts, body) = request.into_parts();
    let body = collect(body, MOST).await?;
    let rpc = parts.uri.path().rsplit('/').next().unwrap_or_default();
    let about = about(rpc, &body);
    let some = |text: String| (!text.is_empty()).then(|| Text::from(text));
    let logged = Answer {
        rpc: rpc.into(),
        volume: some(about.volume),
        node: some(about.node),
        began: ctx.now().mono,
        ctx,
        is_told: false,
    };
    let Answer { rpc, volume, node, .. } = &logged;
    logged.ctx.trace().emit_lazily(logged.ctx.name(), || CsiAsked {
        rpc: rpc.clone(),
        volume: volume.clone(),
        node: node.clone(),
    });
    let mut logged = logged;
    match call(service, Request::from_parts(parts, full(body))).await {
        Ok(response) if response.headers().contains_key("grpc-status") => {
            logged.status(response.headers());
            Ok(response)
        }
        Ok(response) => Ok(response.map(|body| {
            boxed(body.map_frame(move |frame| {
                if let Some(trailers) = frame.trailers_ref() {
                    logged.status(trailers);
                }
                frame
            }))
        })),
        Err(error) => {
            logged.log_answer(Code::Unavailable, &error.to_string());
            Err(error)
        }
    }
}

/// Pending answer of a call. If dropped before the answer, the call was cancelled.
struct Answer {
    ctx: Ctx,
    rpc: Text,
    volume: Option<Text>,
    node: Option<Text>,
    began: Duration,
    is_told: bool,
}

impl Answer {
    fn status(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.log_answer(status.code(), status.message());
        }
    }

    fn log_answer(&mut self, code: Code, message: &str) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let took = self.ctx.now().mono.saturating_sub(self.began);
        let name: Arc<str> = self.ctx.name().clone();
        self.ctx.trace().emit_lazily(&name, || CsiAnswered {
            rpc: self.rpc.clone(),
            volume: self.volume.clone(),
            node: self.node.clone(),
            code: RpcError::Grpc { code, message: String::new() }.code_name().into(),
            took_ms: took.as_millis() as u64,
            message: (!message.is_empty()).then(|| message.to_owned()),
        });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.log_answer(Code::Cancelled, "the caller no longer waits for the answer");
    }
}
