//! Calls as bytes: HTTP/1.1 or HTTP/2 over an in-memory pipe instead of a direct call.
//!
//! A check of wire fidelity for the simulation: all messages are encoded and decoded, and the trace must be the same as
//! with direct calls.

use http::{Request, Response, Version};
use hyper_util::rt::TokioIo;

use crate::body::{Body, BoxError, HttpService, boxed};
use crate::listen::Incoming;
use crate::process::Ctx;

/// Capacity of the pipe in each direction, in bytes.
const PIPE_BYTES: usize = 256 << 10;

/// Wraps `service` of process `ctx` so that every call crosses its own pipe.
pub fn over(ctx: &Ctx, service: HttpService) -> HttpService {
    let ctx = ctx.clone();
    HttpService::new(move |request| {
        let (ctx, service) = (ctx.clone(), service.clone());
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            let server =
                hyper_util::service::TowerToHyperService::new(Incoming { service, certificate: None, life: None });
            let tasks = Tasks(ctx.clone());
            ctx.spawn(async move {
                // The caller sees a broken pipe.
                let _ = hyper_util::server::conn::auto::Builder::new(tasks)
                    .serve_connection(TokioIo::new(far), server)
                    .await;
            });
            send(&ctx, TokioIo::new(near), request).await
        })
    })
}

/// Runs hyper's tasks in the process of the connection, so that they end with it and the fabric sees them.
#[derive(Clone)]
pub(crate) struct Tasks(pub(crate) Ctx);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(async move { drop(task.await) });
    }
}

async fn send(
    ctx: &Ctx,
    io: TokioIo<tokio::io::DuplexStream>,
    mut request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let grpc = request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if grpc {
        *request.version_mut() = Version::HTTP_2;
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        *request.uri_mut() = format!("http://localhost{path}").parse()?;
        let (mut sender, connection) = hyper::client::conn::http2::handshake(Tasks(ctx.clone()), io).await?;
        ctx.spawn(async move { drop(connection.await) });
        Ok(sender.send_request(request).await?.map(boxed))
    } else {
        request.headers_mut().entry(http::header::HOST).or_insert(http::HeaderValue::from_static("localhost"));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        ctx.spawn(async move { drop(connection.await) });
        Ok(sender.send_request(request).await?.map(boxed))
    }
}
