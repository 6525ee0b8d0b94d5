//! Kinds of the API server, and those that can be collected.

use std::collections::{BTreeMap, BTreeSet};

use crate::kube::discovery::{Resource, ResourceList, all_resources, root};
use crate::kube::metadata::ResourcePath;
use crate::kube::{ApiError, Client};

/// A kind of one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Served {
    pub api_version: String,
    pub kind: String,
    pub path: ResourcePath,
    pub is_namespaced: bool,
}

/// The kinds of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    /// By apiVersion and kind.
    all: BTreeMap<(String, String), Served>,
    /// Kinds whose objects are watched: the preferred version of each that can be deleted, listed and watched.
    pub watched: BTreeSet<Served>,
}

fn can_be_collected(resource: &Resource) -> bool {
    let can = |verb: &str| resource.verbs.iter().any(|has| has == verb);
    can("delete") && can("list") && can("watch")
}

impl Kinds {
    /// Returns the kind that an owner reference names.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&Served> {
        self.all.get(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Adds the resources of one version; the preferred version of a group comes first.
    fn add(&mut self, api_version: &str, list: ResourceList, seen: &mut BTreeSet<(String, String)>) {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let root = root(api_version);
        for resource in list.resources {
            // A subresource, or one that carries objects of another group, as `scale` does.
            if resource.name.contains('/') || (!resource.group.is_empty() && resource.group != group) {
                continue;
            }
            let served = Served {
                api_version: api_version.to_owned(),
                kind: resource.kind.clone(),
                path: ResourcePath { root: root.clone(), plural: resource.name.clone() },
                is_namespaced: resource.namespaced,
            };
            let is_first = seen.insert((group.to_owned(), resource.name.clone()));
            // Upstream ignores Events of both groups (`DefaultIgnoredResources`).
            let is_event = resource.name == "events" && matches!(group, "" | "events.k8s.io");
            if is_first && can_be_collected(&resource) && !is_event {
                self.watched.insert(served.clone());
            }
            self.all.entry((api_version.to_owned(), resource.kind)).or_insert(served);
        }
    }
}

/// Reads the kinds of the API server. If a version does not answer, for example an aggregated one whose server is down,
/// its kinds in `before` are kept.
///
/// # Errors
/// If the groups cannot be listed.
pub(super) async fn discover(client: &Client, before: &Kinds) -> Result<Kinds, ApiError> {
    let (mut kinds, mut seen) = (Kinds::default(), BTreeSet::new());
    for (version, list) in all_resources(client).await? {
        match list {
            Some(list) => kinds.add(&version, list, &mut seen),
            None => {
                let known = before.all.iter().filter(|((api_version, _), _)| *api_version == version);
                kinds.all.extend(known.map(|(key, served)| (key.clone(), served.clone())));
                let known = before.watched.iter().filter(|served| served.api_version == version);
                kinds.watched.extend(known.cloned());
            }
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http::HeaderValue;
    use http::header::ACCEPT;
    use substrate::body::call;
    use substrate::link::Link;
    use substrate::world::{Options, simulate};
    use substrate::{HttpService, Process, World};

    use super::*;

    #[test]
    fn a_server_without_the_aggregated_form_has_the_same_kinds() {
        let apiserver = |world: &World| {
            let apiserver = fake_apiserver::Apiserver::new(world.seed(), fake_apiserver::Config::default());
            Process::start(world, "fake-apiserver", move |ctx| {
                let service = apiserver.start(&ctx);
                ctx.world().fabric().bind(&ctx, "apiserver", service);
                pending()
            })
        };
        simulate(Options::default(), async move |world| {
            let (_server, user) = (apiserver(&world), Process::start(&world, "user", |_| pending()));
            let ctx = user.ctx().expect("it runs");
            let link = Link::connect(&ctx, "apiserver");
            let older = {
                let link = link.clone();
                HttpService::new(move |mut request| {
                    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
                    Box::pin(call(link.clone(), request))
                })
            };
            let kinds = async |service| discover(&Client::new(&ctx, service, "test"), &Kinds::default()).await;
            let newer = kinds(link).await.expect("kinds");
            assert!(newer.watched.len() > 40 && newer.find("v1", "Pod").is_some());
            assert_eq!(kinds(older).await.expect("kinds"), newer);
        });
    }

    fn list(text: &str) -> ResourceList {
        serde_json::from_str(text).expect("a resource list")
    }

    #[test]
    fn a_kind_of_several_versions_is_watched_in_the_preferred_one() {
        let text = r#"{"resources":[
            {"name":"things","namespaced":true,"kind":"Thing","verbs":["delete","list","watch"]},
            {"name":"things/status","namespaced":true,"kind":"Thing","verbs":["get"]}]}"#;
        let (mut kinds, mut seen) = (Kinds::default(), BTreeSet::new());
        kinds.add("example.com/v2", list(text), &mut seen);
        kinds.add("example.com/v1", list(text), &mut seen);
        let watched: Vec<&str> = kinds.watched.iter().map(|served| served.api_version.as_str()).collect();
        assert_eq!(watched, ["example.com/v2"]);
        let old = kinds.find("example.com/v1", "Thing").expect("it is served");
        assert_eq!(old.path.root, "/apis/example.com/v1");
    }

    #[test]
    fn events_and_kinds_without_deletion_are_not_watched() {
        let text = r#"{"resources":[
            {"name":"events","namespaced":true,"kind":"Event","verbs":["delete","list","watch"]},
            {"name":"bindings","namespaced":true,"kind":"Binding","verbs":["create"]},
            {"name":"pods","namespaced":true,"kind":"Pod","verbs":["delete","list","watch"]}]}"#;
        let mut kinds = Kinds::default();
        kinds.add("v1", list(text), &mut BTreeSet::new());
        let watched: Vec<&str> = kinds.watched.iter().map(|served| served.kind.as_str()).collect();
        assert_eq!(watched, ["Pod"]);
        assert!(kinds.find("v1", "Binding").is_some_and(|served| served.is_namespaced));
    }
}
