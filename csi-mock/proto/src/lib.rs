//! The gRPC messages, clients and server traits of CSI 1.12 and of kubelet's plugin registration.
//!
//! A separate crate, so that clients of a CSI driver compile without Mooring's driver. [`csi`] and [`registration`] have
//! the messages, clients and server traits, [`Channel`] connects a client to any peer, and [`with_deadline`] and
//! [`keep_deadlines`] pass deadlines on. `about` has the parts of a message that events of the trace show. [`RPCS`] calls
//! by name, with JSON.
//!
//! ```
//! use csi_proto::csi::NodeStageVolumeRequest;
//!
//! let mut request = NodeStageVolumeRequest { volume_id: "vol-1".into(), ..Default::default() };
//! request.secrets.insert("password".into(), "never shown".into());
//! let shown = substrate::json::to_value(&request).unwrap().to_string();
//! assert!(shown.contains("vol-1") && !shown.contains("never shown"), "{shown}");
//! ```
//!
//! It has no logic of a driver or of a client, and opens no connection.

mod about;
mod codec;
mod deadline;
mod rpc;
mod shown;

pub use about::{About, about};
pub use deadline::{keep_deadlines, with_deadline};
pub use tonic::{Code, Status};

pub use rpc::{RPCS, Rpc, Service as RpcService};

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use substrate::body::{Body, BoxError, HttpService, boxed, call};
use tower::Service;

/// `csi.v1`. Messages have the JSON form of their Rust types; secrets are not written.
#[allow(missing_docs, clippy::all, clippy::disallowed_types, reason = "generated")]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// `pluginregistration`.
#[allow(missing_docs, clippy::all, clippy::disallowed_types, reason = "generated")]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// A gRPC channel over any peer: `ControllerClient::new(Channel(service))`.
#[derive(Clone)]
pub struct Channel(pub HttpService);

impl Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        call(self.0.clone(), request.map(boxed))
    }
}
