//! Addresses of a live cluster, and paths of its nodes.

use std::path::PathBuf;

use substrate::admin::Secret;

/// Addresses of a live cluster for users.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The cloud, `http://…`.
    pub ec2: String,
    /// The API server with TLS, `https://…`.
    pub kubernetes: String,
    /// The API server without TLS, `http://…`.
    pub kubernetes_http: String,
    /// The CA of the API server's certificate, PEM.
    pub ca_pem: String,
    /// Endpoint of the CSI driver's controller service, `unix://…` or `tcp://…`.
    pub csi: String,
    /// Directory of the volumes' files in the cloud.
    pub volume_dir: PathBuf,
    /// Paths of the nodes, for a driver.
    pub machines: Vec<Machine>,
    /// The metadata service of each instance.
    pub imds: Vec<Metadata>,
    /// Bearer token for clients of the API server with TLS. If none, any token is accepted.
    pub token: Option<Secret>,
    /// Admin API of the whole cluster, `http://…`, if it was requested.
    pub admin: Option<String>,
}

/// Paths and ids of a node that a driver needs.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The node.
    pub node: String,
    /// Its instance.
    pub instance: String,
    /// kubelet's directory: every path of a node request lies below it.
    pub root: PathBuf,
    /// Directory in which kubelet looks for registration sockets of a driver of the user.
    pub plugins_registry: PathBuf,
}

/// Address of an instance's metadata service.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Metadata {
    /// The node.
    pub node: String,
    /// Its instance.
    pub instance: String,
    /// `http://…`.
    pub endpoint: String,
}
