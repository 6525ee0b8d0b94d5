//! Private addresses of the cloud's instances, for nodes that run as processes of their own.

use std::collections::BTreeMap;

use http::Request;
use serde_json::Value;
use substrate::HttpService;
use substrate::body::{call, collect, empty};

use super::Secret;

/// Maximum size of the cloud's state in bytes.
const LIMIT: usize = 64 << 20;

/// Private address of each instance, by instance id.
///
/// # Errors
/// If the cloud does not answer.
pub(super) async fn private_ips(
    cloud: HttpService,
    token: Option<&Secret>,
) -> Result<BTreeMap<String, String>, substrate::BoxError> {
    let mut request = Request::get("/admin/v1/state").header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {}", token.reveal()));
    }
    let response = call(cloud, request.body(empty())?).await?;
    let bytes = collect(response.into_body(), LIMIT).await?;
    Ok(read(&serde_json::from_slice(&bytes)?))
}

fn read(state: &Value) -> BTreeMap<String, String> {
    let instances = state["instances"].as_array().into_iter().flatten();
    let pair = |i: &Value| Some((i["id"].as_str()?.to_owned(), i["privateIp"].as_str()?.to_owned()));
    instances.filter_map(pair).collect()
}
