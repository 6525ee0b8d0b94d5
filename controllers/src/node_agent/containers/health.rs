//! Probes by gRPC: the call `grpc.health.v1.Health/Check`, with the texts of upstream `pkg/probe/grpc`.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use prost::Message;
use substrate::body::{BoxError, call, full};
use substrate::{Ctx, HttpService};
use tonic::{Code, Status};

use crate::csi::RpcError;
use crate::node_agent::rules::restarts::go_text;

/// Path of the call.
const METHOD: &str = "/grpc.health.v1.Health/Check";
/// Bytes before a message: compression flag and length.
const PREFIX: usize = 5;
/// Longest answer in bytes.
const LIMIT: usize = 64 << 10;
/// Wait before another connection is tried, as in grpc-go.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `HealthCheckResponse.SERVING`.
const SERVING: i32 = 1;

enum Failure {
    /// No gRPC server answers.
    Unreached,
    Rpc(RpcError),
}

/// Asks the gRPC server `peer` at `address` for the health of `service`, within `limit`.
///
/// # Errors
/// The reason why the service is not healthy.
pub(crate) async fn check(
    ctx: &Ctx,
    peer: HttpService,
    address: &str,
    service: &str,
    agent: HeaderValue,
    limit: Duration,
) -> Result<(), String> {
    let deadline = ctx.now().mono + ctx.scaled(limit);
    let peer = csi_proto::with_deadline(peer, ctx.scaled(limit));
    let late = || format!("timeout: health rpc did not complete within {}", go_text(limit));
    loop {
        let answer = tokio::select! { biased;
            answer = exchange(peer.clone(), service, agent.clone()) => answer,
            () = ctx.sleep_until(deadline) => return Err(late()),
        };
        match answer {
            Ok(status) => return verdict(status),
            Err(Failure::Rpc(_)) if ctx.now().mono >= deadline => return Err(late()),
            Err(Failure::Rpc(error)) => return Err(failed(&error, limit)),
            Err(Failure::Unreached) => {}
        }
        // grpc-go connects again until the deadline.
        let again = ctx.now().mono + ctx.scaled(RETRY);
        ctx.sleep_until(again.min(deadline)).await;
        if again >= deadline {
            let limit = go_text(limit);
            return Err(format!(
                "timeout: failed to connect service {address:?} within {limit}: context deadline exceeded"
            ));
        }
    }
}

fn verdict(status: i32) -> Result<(), String> {
    let name = match status {
        SERVING => return Ok(()),
        0 => "UNKNOWN".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    };
    Err(format!("service unhealthy (responded with {name:?})"))
}

fn failed(error: &RpcError, limit: Duration) -> String {
    match error.code() {
        Some(Code::Unimplemented) => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            error.message()
        ),
        Some(Code::DeadlineExceeded) => format!("timeout: health rpc did not complete within {}", go_text(limit)),
        _ => format!("error: health rpc probe failed: {error}"),
    }
}

/// Makes the call once. Returns the status of the service.
async fn exchange(peer: HttpService, service: &str, agent: HeaderValue) -> Result<i32, Failure> {
    let request = Request::post(METHOD)
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, agent)
        .body(full(frame(&HealthCheckRequest { service: service.to_owned() })))
        .map_err(|error| Failure::Rpc(RpcError::Other(error.to_string())))?;
    let (head, body) = call(peer, request).await.map_err(broken)?.into_parts();
    let body = Limited::new(body, LIMIT).collect().await.map_err(broken)?;
    status(head.status, &head.headers, body.trailers()).map_err(Failure::Rpc)?;
    let message = body.to_bytes();
    let answer = message.get(PREFIX..).and_then(|message| HealthCheckResponse::decode(message).ok());
    let unread = || internal("the answer is not a HealthCheckResponse");
    answer.map(|answer| answer.status).ok_or_else(unread).map_err(Failure::Rpc)
}

fn frame(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0][..], &length, &bytes].concat()
}

/// Converts a failure of the transport. Only a stream that the server has reset shows that it speaks gRPC.
fn broken(error: BoxError) -> Failure {
    let error = RpcError::from(Status::from_error(error));
    if error.code() == Some(Code::Unavailable) { Failure::Unreached } else { Failure::Rpc(error) }
}

/// Reads the result of the call from the headers of the answer, or from what follows its body.
fn status(code: StatusCode, headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Result<(), RpcError> {
    let named = [trailers, Some(headers)].into_iter().flatten().find_map(|headers| {
        let mut headers = headers.clone();
        // tonic panics at details that are not base64.
        headers.remove("grpc-status-details-bin");
        Status::from_header_map(&headers)
    });
    match named {
        Some(status) if status.code() == Code::Ok => Ok(()),
        Some(status) => Err(RpcError::Grpc { code: status.code(), message: status.message().to_owned() }),
        None if code == StatusCode::OK => Err(internal("server closed the stream without sending trailers")),
        None => {
            let name = code.canonical_reason().unwrap_or_default();
            let message = format!("unexpected HTTP status code received from server: {} ({name})", code.as_u16());
            Err(RpcError::Grpc { code: of_http(code), message })
        }
    }
}

fn internal(message: &str) -> RpcError {
    RpcError::Grpc { code: Code::Internal, message: message.to_owned() }
}

/// Converts a status of HTTP (grpc-go's `HTTPStatusConvTab`).
fn of_http(code: StatusCode) -> Code {
    match code.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use bytes::Bytes;
    use http::{HeaderName, Response};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use substrate::Process;
    use substrate::body::{boxed, empty};
    use substrate::world::{Options, simulate};

    use super::*;

    /// Returns a server whose answer depends on the name of the service.
    fn peer() -> HttpService {
        HttpService::new(|request| {
            Box::pin(async move {
                assert_eq!(request.uri().path(), METHOD);
                let body = request.into_body().collect().await?.to_bytes();
                let asked = HealthCheckRequest::decode(&body[PREFIX..])?.service;
                let refusal = |code: &'static str, message: &'static str| {
                    Response::builder().header("grpc-status", code).header("grpc-message", message).body(empty())
                };
                match asked.as_str() {
                    "stuck" => std::future::pending().await,
                    "refused" => Err(std::io::Error::from(ErrorKind::ConnectionRefused).into()),
                    "web" => Ok(Response::builder().status(404).body(empty())?),
                    "absent" => Ok(refusal("5", "unknown%20service")?),
                    "old" => Ok(refusal("12", "unknown service grpc.health.v1.Health")?),
                    number => {
                        let answer = HealthCheckResponse { status: number.parse()? };
                        let ok = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
                        let frames =
                            [Frame::data(Bytes::from(frame(&answer))), Frame::trailers(HeaderMap::from_iter([ok]))];
                        Ok(Response::new(boxed(StreamBody::new(futures_util::stream::iter(
                            frames.map(Ok::<_, BoxError>),
                        )))))
                    }
                }
            })
        })
    }

    fn checked(service: &'static str) -> Result<(), String> {
        simulate(Options::default(), move |world| async move {
            let process = Process::start(&world, "kubelet", |_| std::future::pending());
            let ctx = process.ctx().expect("it runs");
            let agent = HeaderValue::from_static("kube-probe/1.36");
            check(&ctx, peer(), "127.0.0.1:50051", service, agent, Duration::from_secs(90)).await
        })
    }

    #[test]
    fn only_a_service_that_serves_is_healthy() {
        assert_eq!(checked("1"), Ok(()));
        for (service, why) in [
            ("0", "service unhealthy (responded with \"UNKNOWN\")"),
            ("2", "service unhealthy (responded with \"NOT_SERVING\")"),
            ("7", "service unhealthy (responded with \"7\")"),
            ("absent", "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"),
        ] {
            assert_eq!(checked(service), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_server_without_health_fails_with_the_words_of_upstream() {
        let old = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ";
        for (service, why) in [
            ("old", format!("{old}unknown service grpc.health.v1.Health")),
            ("web", format!("{old}unexpected HTTP status code received from server: 404 (Not Found)")),
            ("stuck", "timeout: health rpc did not complete within 1m30s".to_owned()),
            (
                "refused",
                "timeout: failed to connect service \"127.0.0.1:50051\" within 1m30s: context deadline exceeded"
                    .to_owned(),
            ),
        ] {
            assert_eq!(checked(service), Err(why));
        }
    }
}
