//! The aggregated form of discovery (apidiscovery.k8s.io, KEP-3352), read as client-go's `SplitGroupsAndResources` does.

use serde::Deserialize;

use super::{Resource, ResourceList, Served};

/// Group with all its versions, the preferred one first.
#[derive(Deserialize)]
pub(super) struct Group {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<Version>,
}

/// Name of a group; the core group has none.
#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Entry>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subresource {
    subresource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
}

impl Group {
    /// Returns the versions with their resources. A stale version has none: its server does not answer, so what the
    /// document says of it may be old.
    pub(super) fn served(self) -> impl Iterator<Item = Served> {
        let group = self.metadata.name;
        self.versions.into_iter().map(move |version| {
            let name = if group.is_empty() { version.version } else { format!("{group}/{}", version.version) };
            let resources = || version.resources.into_iter().flat_map(Entry::resources).collect();
            (name, (version.freshness != "Stale").then(|| ResourceList { resources: resources() }))
        })
    }
}

impl Entry {
    /// Returns the resource and its subresources, without those that have no kind.
    fn resources(self) -> impl Iterator<Item = Resource> {
        let namespaced = self.scope == "Namespaced";
        let resource = move |name, kind: Option<ResponseKind>, verbs| {
            let ResponseKind { group, kind } = kind.filter(|kind| !kind.kind.is_empty())?;
            Some(Resource { name, namespaced, kind, group, verbs })
        };
        let subresource = {
            let resource = self.resource.clone();
            move |sub: Subresource| (format!("{resource}/{}", sub.subresource), sub.response_kind, sub.verbs)
        };
        let own = (self.resource, self.response_kind, self.verbs);
        let all = std::iter::once(own).chain(self.subresources.into_iter().map(subresource));
        all.filter_map(move |(name, kind, verbs)| resource(name, kind, verbs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_as_its_lists_of_resources_would_be() {
        let text = r#"{"metadata":{"name":"example.com"},"versions":[
            {"version":"v2","freshness":"Current","resources":[
                {"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"scope":"Namespaced",
                 "verbs":["delete","list","watch"],"subresources":[
                    {"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]},
                {"resource":"unknown","responseKind":null,"scope":"Cluster","verbs":["list"]}]},
            {"version":"v1","freshness":"Stale","resources":[
                {"resource":"things","responseKind":{"kind":"Thing"},"scope":"Namespaced","verbs":["list"]}]}]}"#;
        let group: Group = serde_json::from_str(text).expect("a group");
        let served: Vec<Served> = group.served().collect();
        let [(newer, Some(list)), (older, None)] = &served[..] else { panic!("two versions, one without resources") };
        assert_eq!((newer.as_str(), older.as_str()), ("example.com/v2", "example.com/v1"));
        let names: Vec<_> = list.resources.iter().map(|r| (r.name.as_str(), r.kind.as_str(), r.namespaced)).collect();
        assert_eq!(names, [("things", "Thing", true), ("things/scale", "Scale", true)]);
    }

    #[test]
    fn the_core_group_has_no_name() {
        let text = r#"{"metadata":{},"versions":[{"version":"v1","resources":[],"freshness":"Current"}]}"#;
        let group: Group = serde_json::from_str(text).expect("a group");
        assert_eq!(group.served().map(|(version, _)| version).collect::<Vec<_>>(), ["v1"]);
    }
}
