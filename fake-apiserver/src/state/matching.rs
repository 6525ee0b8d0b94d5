//! Which requests a webhook or an admission policy is about (apiserver `admission/plugin/webhook/{rules,predicates}`).

use substrate::json::Value;

use super::Store;
use super::selector;
use super::value::{at, list, name, text};
use crate::kinds::{self, Kind};

/// A request as admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The kind of the resource.
    pub kind: &'a Kind,
    /// `status`; empty for the object itself.
    pub subresource: &'a str,
    /// The object's name by the URL; empty where there is none, and then it is the object's own.
    pub named: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The namespace; none for what has none.
    pub namespace: Option<&'a str>,
    /// The object as it is to be; null for a DELETE.
    pub object: &'a Value,
    /// The object as it was; null for a CREATE.
    pub old: &'a Value,
}

impl Attributes<'_> {
    /// The object's name.
    pub fn name(&self) -> &str {
        if !self.named.is_empty() {
            return self.named;
        }
        name(if self.object.is_null() { self.old } else { self.object })
    }

    /// Group, version and kind of what is written: of some subresources that is not the resource's own.
    pub fn object_kind(&self) -> (&str, &str, &str) {
        match self.subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "binding" => ("", "v1", "Binding"),
            "eviction" => ("policy", "v1", "Eviction"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            _ => (self.kind.group, self.kind.version, self.kind.kind),
        }
    }

    /// Whether the request changes what admission itself goes by, which no webhook and no policy stands in the way of.
    fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
    }

    /// Whether one of `rules` (RuleWithOperations) is about the request.
    fn is_named_by(&self, rules: &[Value]) -> bool {
        let is_namespace = *self.kind == *kinds::NAMESPACES;
        rules.iter().any(|rule| {
            let has = |field: &str, wanted: &str| list(rule, &[field]).iter().any(|v| v == "*" || v == wanted);
            let names = list(rule, &["resourceNames"]);
            let scope = match text(rule, &["scope"]) {
                "Cluster" => self.namespace.is_none() || is_namespace,
                "Namespaced" => self.namespace.is_some() && !is_namespace,
                _ => true,
            };
            has("operations", self.operation)
                && has("apiGroups", self.kind.group)
                && has("apiVersions", self.kind.version)
                && scope
                && (names.is_empty() || names.iter().any(|n| n == self.name()))
                && list(rule, &["resources"]).iter().filter_map(Value::as_str).any(|resource| {
                    let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
                    let all = resource == "*/*";
                    all || ((plural == "*" || plural == self.kind.plural)
                        && (sub == self.subresource || sub == "*" && !self.subresource.is_empty()))
                })
        })
    }
}

impl Store {
    /// Whether a request is one that `of` is about: a webhook (`rules`) or the constraints of a policy
    /// (`resourceRules`).
    pub fn concerns(&self, of: &Value, rules: &str, request: &Attributes<'_>) -> bool {
        !request.is_exempt()
            && request.is_named_by(list(of, &[rules]))
            && !request.is_named_by(list(of, &["excludeResourceRules"]))
            && self.is_in(&of["namespaceSelector"], request)
            && is_selected(&of["objectSelector"], request)
    }

    /// Whether the namespace of a request is selected; what has no namespace always is.
    fn is_in(&self, selector: &Value, request: &Attributes<'_>) -> bool {
        if selector.is_null() {
            return true;
        }
        let labels = match request.namespace {
            _ if *request.kind == *kinds::NAMESPACES => {
                let object = if request.object.is_null() { request.old } else { request.object };
                at(object, &["metadata", "labels"]).cloned()
            }
            None => return true,
            Some(namespace) => self
                .get(kinds::NAMESPACES, namespace)
                .and_then(|found| at(&found.value, &["metadata", "labels"]).cloned()),
        };
        selector::matches(selector, &labels.unwrap_or_default())
    }
}

/// Either of the two objects is enough.
fn is_selected(selector: &Value, request: &Attributes<'_>) -> bool {
    let labelled = |object: &Value| !object.is_null() && selector::matches(selector, &object["metadata"]["labels"]);
    selector.is_null() || labelled(request.object) || labelled(request.old)
}
