//! What the cloud really has: read from its admin API, not from the trace.

use http::Request;
use serde_json::Value;
use substrate::body::{call, collect, empty};

use crate::cluster::Cluster;

/// Longest state that is read.
const LIMIT: usize = 64 << 20;

/// A volume that is no instance's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CloudVolume {
    /// Its id.
    pub id: String,
    /// The instances that it is attached to, in whatever state.
    pub attachments: Vec<String>,
}

/// All volumes of the cloud, root volumes left out.
///
/// # Errors
/// When the cloud does not answer, or answers something else.
pub(super) async fn volumes(cluster: &Cluster) -> Result<Vec<CloudVolume>, substrate::BoxError> {
    read(&state(cluster).await?).ok_or_else(|| "its state has no volumes".into())
}

/// The whole state of the cloud, as it is saved.
///
/// # Errors
/// When the cloud does not answer, or answers something else.
pub(crate) async fn state(cluster: &Cluster) -> Result<Value, substrate::BoxError> {
    let mut request = Request::get("/admin/v1/state").header("host", "localhost");
    if let Some(token) = &cluster.spec().admin_token {
        request = request.header("authorization", format!("Bearer {}", token.reveal()));
    }
    let response = call(cluster.ec2().clone(), request.body(empty())?).await?;
    let bytes = collect(response.into_body(), LIMIT).await?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn read(state: &Value) -> Option<Vec<CloudVolume>> {
    let own = state["volumes"].as_array()?.iter().filter(|volume| volume["root"] != true);
    let volume = |volume: &Value| {
        let attachments = volume["attachments"].as_object()?.keys().cloned().collect();
        Some(CloudVolume { id: volume["id"].as_str()?.to_owned(), attachments })
    };
    own.map(volume).collect()
}
