//! What a user needs to reach a live cluster: a kubeconfig, and variables of the environment.

use std::io;
use std::path::Path;

use crate::cluster::{Endpoints, Secret};

/// Writes a kubeconfig for the API server behind `endpoints`.
pub(super) fn write_kubeconfig(path: &Path, endpoints: &Endpoints) -> io::Result<()> {
    let token = endpoints.token.as_ref().map_or("mooring", Secret::reveal);
    let text = fake_apiserver::kubeconfig::render(&endpoints.kubernetes, &endpoints.ca_pem, token, None);
    fake_apiserver::kubeconfig::write(path, &text)
}

/// Writes a file for `source` with which kubectl and aws find the cluster.
pub(super) fn write_env(path: &Path, kubeconfig: &Path, ec2: &str, region: &str) -> io::Result<()> {
    let exports = format!(
        "export KUBECONFIG={}\nexport AWS_ENDPOINT_URL={ec2}\nexport AWS_ACCESS_KEY_ID=mooring\nexport AWS_SECRET_ACCESS_KEY=mooring\nexport AWS_REGION={region}\nexport AWS_DEFAULT_REGION={region}\nexport AWS_EC2_METADATA_DISABLED=true\n",
        kubeconfig.display(),
    );
    std::fs::write(path, exports)
}
