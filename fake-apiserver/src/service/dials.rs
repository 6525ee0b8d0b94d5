//! Connections to the servers of nodes, and to webhooks.

use std::sync::Arc;

use substrate::Ctx;
use substrate::body::{BoxError, HttpService};

/// Default port of the kubelet (`--kubelet-port`).
pub(super) const KUBELET_PORT: u16 = 10250;

/// Address of a node's own server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// The node's name.
    pub node: String,
    /// Host from its status.
    pub host: String,
    /// Port from its status.
    pub port: u16,
}

impl NodeEndpoint {
    /// Returns an endpoint on this machine, for a node without a Node object.
    pub(super) fn here(node: &str) -> Self {
        Self { node: node.to_owned(), host: "127.0.0.1".to_owned(), port: KUBELET_PORT }
    }

    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Connects to the servers of nodes; connections belong to the given process.
pub type NodeDial = Arc<dyn Fn(&Ctx, &NodeEndpoint) -> Result<HttpService, BoxError> + Send + Sync>;

/// Returns the service that has the log of a pod, by namespace and name, if that is not the server of its node. The
/// request is the same as for a node. It also answers `/proxy/PORT/PATH` for a port of the pod.
pub type LogDial = Arc<dyn Fn(&Ctx, &str, &str) -> Option<HttpService> + Send + Sync>;

/// Address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://host:port/path`.
    pub url: String,
    /// Name that the certificate must have, if it is not the host of the URL.
    pub server_name: Option<String>,
    /// Trusted CA certificates, PEM; if empty, none is trusted.
    pub ca_pem: Vec<u8>,
}

/// Connects to webhooks; connections belong to the given process.
pub type Dial = Arc<dyn Fn(&Ctx, &Endpoint) -> Result<HttpService, BoxError> + Send + Sync>;
