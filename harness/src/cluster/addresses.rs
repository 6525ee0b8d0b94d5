//! The addresses that the cloud gave to instances, for nodes that are processes of their own.

use std::collections::BTreeMap;

use http::Request;
use serde_json::Value;
use substrate::HttpService;
use substrate::body::{call, collect, empty};

use super::Secret;

/// Longest state that is read.
const LIMIT: usize = 64 << 20;

/// The private address of each instance, by its id.
///
/// # Errors
/// When the cloud does not answer.
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
