//! Discovery documents of the API server: groups with their versions, the resources of a version, and all resources in
//! the aggregated form (KEP-3352). Each call asks the server again; this module caches no answer.

use serde::Deserialize;

use super::{ApiError, Client, decode};

mod aggregated;

/// Forms of `/api` and `/apis`, the preferred one first.
const ALL_FORMS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Answer of `/api` or `/apis`.
#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Root {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated { items: Vec<aggregated::Group> },
    #[serde(rename = "APIVersions")]
    Core {},
    #[serde(rename = "APIGroupList")]
    Groups { groups: Vec<Group> },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    versions: Vec<Version>,
    preferred_version: Option<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

#[derive(Deserialize)]
pub(crate) struct ResourceList {
    pub(crate) resources: Vec<Resource>,
}

/// Resource of a version, or a subresource.
#[derive(Deserialize)]
pub(crate) struct Resource {
    /// Its name in paths; with a slash if it is a subresource.
    pub(crate) name: String,
    pub(crate) namespaced: bool,
    pub(crate) kind: String,
    /// Group of its objects, if that is another one.
    #[serde(default)]
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) verbs: Vec<String>,
}

impl Resource {
    /// Returns true if this is the resource of a kind, and no subresource.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind == kind && !self.name.contains('/')
    }

    /// Returns the path of a subresource of an object.
    pub(crate) fn item(&self, api_version: &str, namespace: &str, object: &str, subresource: &str) -> String {
        let (root, plural) = (root(api_version), &self.name);
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}/{object}/{subresource}")
        } else {
            format!("{root}/{plural}/{object}/{subresource}")
        }
    }
}

/// Appends the versions of a group that are not there yet, the preferred one first.
fn extend(versions: &mut Vec<String>, group: Group) {
    for version in group.preferred_version.into_iter().chain(group.versions) {
        if !versions.contains(&version.group_version) {
            versions.push(version.group_version);
        }
    }
}

async fn read<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Result<T, ApiError> {
    decode(&client.get(path).await?).map_err(|error| ApiError::Decode(error.to_string()))
}

/// Returns the path of a version, such as `/apis/apps/v1`.
pub(crate) fn root(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

/// Version of a group with its resources; none if they are not known, because the version's server does not answer.
pub(crate) type Served = (String, Option<ResourceList>);

/// Reads all resources, as client-go's `ServerPreferredResources` does: in the aggregated form from `/api` and `/apis`,
/// or from a server that lacks it, version by version. The core group comes first, and the preferred version of a group
/// before its others.
///
/// # Errors
/// The server's refusal of the two documents, or no answer.
pub(crate) async fn all_resources(client: &Client) -> Result<Vec<Served>, ApiError> {
    let mut served = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = client.get_as(path, ALL_FORMS).await?;
        match decode(&answer).map_err(|error| ApiError::Decode(error.to_string()))? {
            Root::Aggregated { items } => served.extend(items.into_iter().flat_map(aggregated::Group::served)),
            Root::Core {} => served.push(("v1".to_owned(), resources(client, "v1").await.ok())),
            Root::Groups { groups } => {
                let mut versions = Vec::new();
                groups.into_iter().for_each(|group| extend(&mut versions, group));
                for version in versions {
                    let list = resources(client, &version).await.ok();
                    served.push((version, list));
                }
            }
        }
    }
    Ok(served)
}

/// Reads the versions of a group, the preferred one first; none if the group is not served.
///
/// # Errors
/// The server's refusal, or no answer.
pub(crate) async fn versions(client: &Client, group: &str) -> Result<Vec<String>, ApiError> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let mut versions = Vec::new();
    match read(client, &format!("/apis/{group}")).await {
        Ok(group) => extend(&mut versions, group),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(versions)
}

/// Reads the resources of a version, with their subresources.
///
/// # Errors
/// The server's refusal, or no answer.
pub(crate) async fn resources(client: &Client, api_version: &str) -> Result<ResourceList, ApiError> {
    read(client, &root(api_version)).await
}
