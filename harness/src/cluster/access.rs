//! Kubeconfig and environment variables through which kubectl and aws reach a cluster.

use std::io;
use std::path::Path;

use super::{Endpoints, Secret};

/// Writes a kubeconfig for the API server behind `endpoints`.
pub(crate) fn write_kubeconfig(path: &Path, endpoints: &Endpoints) -> io::Result<()> {
    let token = endpoints.token.as_ref().map_or("mooring", Secret::reveal);
    let text = fake_apiserver::kubeconfig::render(&endpoints.kubernetes, &endpoints.ca_pem, token, None);
    fake_apiserver::kubeconfig::write(path, &text)
}

/// Environment variables through which kubectl and aws reach the cluster.
pub(crate) fn variables(kubeconfig: &str, ec2: &str, region: &str) -> Vec<(&'static str, String)> {
    [
        ("KUBECONFIG", kubeconfig),
        ("AWS_ENDPOINT_URL", ec2),
        ("AWS_ACCESS_KEY_ID", "mooring"),
        ("AWS_SECRET_ACCESS_KEY", "mooring"),
        ("AWS_REGION", region),
        ("AWS_DEFAULT_REGION", region),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .to_vec()
}
