//! Kinds that the API server serves, read when they are needed (client-go's discovery and `RESTMapper`).

use serde::Deserialize;

use crate::kube::{ApiError, Client, decode};

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
}

/// Resource of one version of a group.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    root: String,
    /// Its name in paths; with a slash if it is a subresource.
    pub(crate) name: String,
    kind: String,
    is_namespaced: bool,
}

impl Served {
    /// Returns true if this is the resource of a kind, and no subresource.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind && !self.name.contains('/')
    }

    /// Returns the path of a subresource of an object.
    pub(crate) fn item(&self, namespace: &str, name: &str, subresource: &str) -> String {
        let Self { root, name: plural, is_namespaced, .. } = self;
        if *is_namespaced {
            format!("{root}/namespaces/{namespace}/{plural}/{name}/{subresource}")
        } else {
            format!("{root}/{plural}/{name}/{subresource}")
        }
    }
}

/// Reads the resources of a version, such as `apps/v1`.
///
/// # Errors
/// The server's refusal, or no answer.
pub(crate) async fn served(client: &Client, api_version: &str) -> Result<Vec<Served>, ApiError> {
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let list: ResourceList = decode(&client.get(&root).await?).map_err(|error| ApiError::Decode(error.to_string()))?;
    let of =
        |one: Resource| Served { root: root.clone(), name: one.name, kind: one.kind, is_namespaced: one.namespaced };
    Ok(list.resources.into_iter().map(of).collect())
}
