//! True state of the cloud, read from its admin API instead of the trace.

use http::Request;
use serde_json::Value;
use substrate::body::{call, collect, empty};

use crate::cluster::Cluster;
use crate::invariants::Made;

/// Maximum size of the state in bytes.
const LIMIT: usize = 64 << 20;

/// A volume other than a root volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CloudVolume {
    /// Volume id.
    pub id: String,
    /// Instances of its attachments, in any state.
    pub attachments: Vec<String>,
    /// Its size and its parameters.
    pub made: Made,
    /// The whole volume.
    pub stored: Value,
}

/// All volumes of the cloud except root volumes.
///
/// # Errors
/// If the cloud does not answer, or its answer is invalid.
pub(crate) async fn volumes(cluster: &Cluster) -> Result<Vec<CloudVolume>, substrate::BoxError> {
    read(&state(cluster).await?).ok_or_else(|| "its state has no volumes".into())
}

/// All volumes of the cloud except root volumes, and all of its snapshots as they are.
///
/// # Errors
/// If the cloud does not answer, or its answer is invalid.
pub(crate) async fn resources(cluster: &Cluster) -> Result<(Vec<CloudVolume>, Vec<Value>), substrate::BoxError> {
    let state = state(cluster).await?;
    let volumes = read(&state).ok_or("its state has no volumes")?;
    Ok((volumes, state["snapshots"].as_array().cloned().unwrap_or_default()))
}

/// Whole state of the cloud.
///
/// # Errors
/// If the cloud does not answer, or its answer is invalid.
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
        let text = |field: &str| match &volume[field] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let names =
            [("type", "volumeType"), ("iops", "iops"), ("throughput", "throughput"), ("encrypted", "encrypted")];
        let parameters = names.into_iter().filter_map(|(name, field)| Some((name, text(field)?))).collect();
        let made = Made { size_gib: volume["sizeGib"].as_u64()?, parameters };
        Some(CloudVolume { id: volume["id"].as_str()?.to_owned(), attachments, made, stored: volume.clone() })
    };
    own.map(volume).collect()
}
