//! The scale subresource of a target (`scaleForResourceMappings`, client-go `scale`).

use k8s_openapi::api::autoscaling::v1::Scale;
use substrate::json::to_value;

use crate::kube::discovery::{Resource, resources, versions};
use crate::kube::{ApiError, Client, decode};

/// Number of attempts to write a scale that others change (`retry.DefaultRetry`).
const ATTEMPTS: usize = 5;

/// Scale of a target, with its path.
#[derive(Debug)]
pub(super) struct Target {
    path: String,
    pub(super) scale: Scale,
}

impl Target {
    /// Returns the replicas that the target is to have.
    pub(super) fn replicas(&self) -> i32 {
        self.scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
    }

    /// Returns the selector of its pods.
    pub(super) fn selector(&self) -> &str {
        self.scale.status.as_ref().and_then(|status| status.selector.as_deref()).unwrap_or_default()
    }

    /// Writes the number of replicas. If others have changed the target, repeats that with its new version.
    pub(super) async fn write(&mut self, client: &Client, replicas: i32) -> Result<(), ApiError> {
        let mut attempts = 1;
        loop {
            self.scale.spec.get_or_insert_default().replicas = Some(replicas);
            let body = to_value(&self.scale).map_err(|error| ApiError::Encode(error.to_string()))?;
            let error = match client.put(&self.path, body).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Ok(scale) = read(client, &self.path).await {
                self.scale = scale;
            }
            if !error.is_conflict() || attempts == ATTEMPTS {
                return Err(error);
            }
            attempts += 1;
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<Scale, ApiError> {
    decode(&client.get(path).await?).map_err(|error| ApiError::Decode(error.to_string()))
}

/// Returns the versions of a kind with its resource, the preferred one first (`RESTMappings`).
async fn mappings(client: &Client, group: &str, kind: &str) -> Result<Vec<(String, Resource)>, String> {
    let text = |error: ApiError| error.to_string();
    let mut found = Vec::new();
    for version in versions(client, group).await.map_err(text)? {
        let all = resources(client, &version).await.map_err(text)?.resources;
        found.extend(all.into_iter().find(|one| one.is(kind)).map(|one| (version, one)));
    }
    if found.is_empty() { Err(format!("no matches for kind \"{kind}\" in group \"{group}\"")) } else { Ok(found) }
}

/// Reads the scale of the object `name` of a kind.
///
/// # Errors
/// The message of the first version that has no such object, or the reason why the kind is unknown.
pub(super) async fn scale(
    client: &Client,
    namespace: &str,
    (api_version, kind, name): (&str, &str, &str),
) -> Result<Target, String> {
    let parts: Vec<&str> = api_version.split('/').collect();
    let group = match parts[..] {
        [_] => "",
        [group, _] => group,
        _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
    };
    let mut first = None;
    for (version, one) in mappings(client, group, kind).await? {
        let path = one.item(&version, namespace, name, "scale");
        match read(client, &path).await {
            Ok(scale) => return Ok(Target { path, scale }),
            Err(error) => {
                first.get_or_insert(error.to_string());
            }
        }
    }
    Err(first.unwrap_or_else(|| "unrecognized resource".to_owned()))
}
