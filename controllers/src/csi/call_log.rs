//! Records of calls to a driver: their durations, and events for the caller's log. Like csi-lib-utils, there is one event
//! per call and one per answer, without contents.

use std::sync::{Arc, OnceLock};
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
use crate::metrics::{Family, Metrics};

/// Largest request in bytes: gRPC's usual limit.
const MOST: usize = 4 << 20;

/// The driver's name before the driver has reported it (csi-lib-utils `metrics`).
const UNKNOWN: &str = "unknown-driver";

/// The caller of a driver.
#[derive(Clone)]
pub(super) struct Caller {
    pub ctx: Ctx,
    /// The driver's name, once it is known.
    pub driver: Arc<OnceLock<String>>,
    /// Histogram of the calls.
    pub family: &'static Family,
}

/// Wraps `service`: its calls are measured, and emit events to observers.
pub(super) fn logged(caller: &Caller, service: HttpService) -> HttpService {
    let caller = caller.clone();
    HttpService::new(move |request| Box::pin(log_answer(caller.clone(), service.clone(), request)))
}

async fn log_answer(caller: Caller, service: HttpService, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let trace = caller.ctx.trace();
    let is_observed = trace.is_subscribed::<CsiAsked>() || trace.is_subscribed::<CsiAnswered>();
    let method = Text::from(request.uri().path());
    let began = caller.ctx.now().mono;
    let mut logged = Answer { method, volume: None, node: None, began, caller, is_logged: false };
    let request = if is_observed { logged.ask(request).await? } else { request };
    match call(service, request).await {
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
    caller: Caller,
    /// `/csi.v1.Node/NodeStageVolume`.
    method: Text,
    volume: Option<Text>,
    node: Option<Text>,
    began: Duration,
    is_logged: bool,
}

impl Answer {
    /// Emits the event of the call.
    async fn ask(&mut self, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = collect(body, MOST).await?;
        let about = about(self.rpc(), &body);
        let some = |text: String| (!text.is_empty()).then(|| Text::from(text));
        (self.volume, self.node) = (some(about.volume), some(about.node));
        self.caller.ctx.trace().emit_lazily(self.caller.ctx.name(), || CsiAsked {
            rpc: self.rpc().into(),
            volume: self.volume.clone(),
            node: self.node.clone(),
        });
        Ok(Request::from_parts(parts, full(body)))
    }

    fn rpc(&self) -> &str {
        self.method.rsplit('/').next().unwrap_or_default()
    }

    fn status(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.log_answer(status.code(), status.message());
        }
    }

    fn log_answer(&mut self, code: Code, message: &str) {
        if std::mem::replace(&mut self.is_logged, true) {
            return;
        }
        let Caller { ctx, driver, family } = &self.caller;
        let took = ctx.now().mono.saturating_sub(self.began);
        let code = RpcError::Grpc { code, message: String::new() }.code_name();
        let driver = driver.get().map_or(UNKNOWN, String::as_str);
        Metrics::of(ctx).observe(family, &[driver, code, &self.method, "false"], took);
        ctx.trace().emit_lazily(ctx.name(), || CsiAnswered {
            rpc: self.rpc().into(),
            volume: self.volume.clone(),
            node: self.node.clone(),
            code: code.into(),
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
