//! Verb and target of a request, from its method and path.

use std::borrow::Cow;

use http::{Method, request::Parts};
use substrate::link::PROGRAM;

use super::query::{Query, decode};
use super::verb::{Sub, Verb};
use crate::kinds::{self, KindRef};
use crate::state::Status;

/// One request on a resource.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The verb.
    pub verb: Verb,
    /// The kind.
    pub kind: KindRef,
    /// The namespace; `None` for cluster-scoped kinds and for all namespaces.
    pub namespace: Option<String>,
    /// The object's name; `None` for a collection.
    pub name: Option<String>,
    /// The subresource.
    pub subresource: Sub,
    /// The parameters.
    pub query: Query,
    /// The User-Agent.
    pub agent: String,
    /// The caller: a program that the runner started, by its name, or else the User-Agent.
    pub caller: String,
    /// Name of the object to create, from the body; empty unless a fault needs it.
    pub made: String,
}

impl Call {
    /// Parses a request line. Returns `None` if the path is not that of a resource in a served version.
    ///
    /// # Errors
    /// 404 for a resource that is not served, 405 for a method that the path does not support.
    pub(crate) fn parse(parts: &Parts, find: Find<'_>) -> Result<Option<Self>, Status> {
        let path = parts.uri.path();
        let mut segments: Vec<Cow<'_, str>> = Vec::with_capacity(8);
        segments.extend(path.split('/').filter(|s| !s.is_empty()).map(|segment| decode(segment, false)));
        let (group, version, mut rest) = match segments.first().map(|first| &**first) {
            Some("api") if segments.len() > 2 => ("", &*segments[1], &segments[2..]),
            Some("apis") if segments.len() > 3 => (&*segments[1], &*segments[2], &segments[3..]),
            _ => return Ok(None),
        };
        let query = Query::parse(parts.uri.query());
        let mut watch = query.flag("watch").unwrap_or(false);
        // The deprecated spelling of a watch: /api/v1/watch/pods.
        if rest[0] == "watch" && rest.len() > 1 {
            watch = true;
            rest = &rest[1..];
        }
        let (namespace, rest) = split_namespace(group, rest);
        let missing = Status::no_such_resource;
        let Some(kind) = rest.first().and_then(|plural| find(group, version, plural)) else {
            // The resources of built-in versions are known.
            return if kinds::all().iter().any(|kind| kind.group == group && kind.version == version) {
                Err(missing())
            } else {
                Ok(None)
            };
        };
        // Only namespaced kinds have a namespace in their path.
        if !kind.namespaced && namespace.is_some() {
            return Err(missing());
        }
        let name = rest.get(1).map(|name| name.clone().into_owned());
        let below = rest.get(2).map(|name| &**name).unwrap_or_default();
        let sub = kind.subresource(below);
        let subresource = Sub::parse(below).filter(|of| *of == Sub::Itself || sub.is_some()).ok_or_else(missing)?;
        // Behind a proxy subresource, any path may follow.
        if rest.len() > 3 && subresource != Sub::Proxy {
            return Err(missing());
        }
        if kind.namespaced && namespace.is_none() && name.is_some() {
            return Err(missing());
        }
        let verb = verb(&parts.method, name.is_some(), sub.is_some(), watch).ok_or_else(Status::method_not_allowed)?;
        if verb == Verb::Create && kind.namespaced && namespace.is_none() {
            return Err(Status::method_not_allowed());
        }
        if !sub.map_or(kind.verbs, |sub| sub.verbs).contains(&verb.name()) {
            return Err(Status::method_not_allowed());
        }
        let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
        let agent = header("user-agent").unwrap_or("unknown").to_owned();
        let caller = header(PROGRAM).map_or_else(|| agent.clone(), str::to_owned);
        let made = String::new();
        let mut call = Self { verb, kind, namespace, name, subresource, query, agent, caller, made };
        // Watching one object is watching its collection by name.
        if call.verb == Verb::Watch
            && let Some(name) = call.name.take()
        {
            // Escapes the separators of selectors, which valid names do not contain.
            let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            call.query.push("fieldSelector", format!("metadata.name={escaped}"));
        }
        Ok(Some(call))
    }

    /// Returns `ns/name`, `name`, or the part of it that is known, for traces and faults.
    pub(crate) fn object(&self) -> String {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.clone(),
            (Some(namespace), None) => format!("{namespace}/"),
            (None, None) => String::new(),
        }
    }

    /// Returns the object for faults, with the name of an object to create.
    pub(crate) fn target(&self) -> String {
        self.object() + &self.made
    }

    /// Returns the object's name; empty for a collection.
    pub(crate) fn named(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// Lookup of a kind by group, version and plural.
pub(crate) type Find<'a> = &'a dyn Fn(&str, &str, &str) -> Option<KindRef>;

/// Splits `namespaces/{name}` off a path, unless the path is about the namespace itself.
fn split_namespace<'a, 'p>(group: &str, rest: &'a [Cow<'p, str>]) -> (Option<String>, &'a [Cow<'p, str>]) {
    let is_itself = |rest: &[Cow<'_, str>]| {
        group.is_empty() && (rest.len() < 3 || matches!(&*rest[2], "status" | "finalize") && rest.len() == 3)
    };
    if rest.len() >= 3 && rest[0] == "namespaces" && !is_itself(rest) {
        (Some(rest[1].clone().into_owned()), &rest[2..])
    } else {
        (None, rest)
    }
}

/// Returns the verb of a method. Whether the path supports it is checked elsewhere.
fn verb(method: &Method, named: bool, below: bool, watch: bool) -> Option<Verb> {
    match (method.as_str(), named) {
        ("GET", _) if watch && !below => Some(Verb::Watch),
        ("GET", true) => Some(Verb::Get),
        ("GET", false) => Some(Verb::List),
        ("POST", false) => Some(Verb::Create),
        ("POST", true) if below => Some(Verb::Create),
        ("PUT", true) => Some(Verb::Update),
        ("PATCH", true) => Some(Verb::Patch),
        ("DELETE", true) => Some(Verb::Delete),
        ("DELETE", false) => Some(Verb::DeleteCollection),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, uri: &str) -> Result<Option<Call>, Status> {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let find =
            |group: &str, version: &str, plural: &str| crate::kinds::find(group, version, plural).map(KindRef::from);
        Call::parse(&parts, &find)
    }

    #[test]
    fn paths_name_kind_namespace_name_and_subresource() {
        for (method, uri, verb, kind, object, subresource) in [
            ("GET", "/api/v1/pods", "list", "Pod", "", ""),
            ("GET", "/api/v1/namespaces/a/pods/p/status", "get", "Pod", "a/p", "status"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update", "Namespace", "a", "finalize"),
            ("PATCH", "/api/v1/namespaces/a", "patch", "Namespace", "a", ""),
            ("POST", "/api/v1/namespaces/a/pods/p/binding", "create", "Pod", "a/p", "binding"),
            ("DELETE", "/api/v1/namespaces/a/events", "deletecollection", "Event", "a/", ""),
            ("GET", "/apis/storage.k8s.io/v1/volumeattachments/v?x=1", "get", "VolumeAttachment", "v", ""),
            ("GET", "/api/v1/watch/namespaces/a/pods", "watch", "Pod", "a/", ""),
            ("GET", "/api/v1/nodes?watch=1", "watch", "Node", "", ""),
        ] {
            let call = parse(method, uri).unwrap().unwrap();
            assert_eq!(
                (call.verb.name(), call.kind.kind, call.object().as_str(), call.subresource.name()),
                (verb, kind, object, subresource),
                "{uri}"
            );
        }
    }

    #[test]
    fn unserved_paths_are_404_and_wrong_methods_are_405() {
        for (method, uri, code) in [
            ("GET", "/api/v1/foos", 404),
            ("GET", "/apis/storage.k8s.io/v1/nosuch", 404),
            ("GET", "/api/v1/pods/p", 404),
            ("GET", "/api/v1/namespaces/a/nodes", 404),
            ("GET", "/api/v1/nodes/n/foo", 404),
            ("POST", "/api/v1/nodes/n", 405),
            ("POST", "/api/v1/pods", 405),
            ("PUT", "/api/v1/nodes", 405),
            ("GET", "/api/v1/namespaces/a/pods/p/binding", 405),
            ("DELETE", "/api/v1/namespaces", 405),
            ("DELETE", "/api/v1/nodes/n/status", 405),
            ("PATCH", "/api/v1/namespaces/a/finalize", 405),
        ] {
            assert_eq!(parse(method, uri).unwrap_err().code, code, "{method} {uri}");
        }
        for uri in ["/version", "/apis/storage.k8s.io/v2/storageclasses", "/apis/no.such/v1/things", "/api/v2/pods"] {
            assert!(parse("GET", uri).unwrap().is_none(), "{uri}");
        }
    }
}
