//! Matching of requests with webhooks and admission policies (apiserver `admission/plugin/webhook/{rules,predicates}`).

use substrate::json::Value;

use api_model::selector;

use crate::Cluster;
use api_model::fields::value::{at, list, name, text};
use api_model::kinds::{self, Kind};

/// A request as admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The kind of the resource.
    pub kind: &'a Kind,
    /// Subresource, such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// The object's name in the URL; if empty, the object's own name is used.
    pub named: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The new object; null for a DELETE.
    pub object: &'a Value,
    /// The old object; null for a CREATE.
    pub old: &'a Value,
}

impl Attributes<'_> {
    /// Returns the object's name.
    pub fn name(&self) -> &str {
        if !self.named.is_empty() {
            return self.named;
        }
        name(if self.object.is_null() { self.old } else { self.object })
    }

    /// Returns group, version and kind of what is written. Some subresources have their own kind.
    pub fn object_kind(&self) -> (&str, &str, &str) {
        match self.subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "binding" => ("", "v1", "Binding"),
            "eviction" => ("policy", "v1", "Eviction"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            _ => (self.kind.group, self.kind.version, self.kind.kind),
        }
    }

    /// Returns true if the request changes the configuration of admission itself. Webhooks and policies never see such
    /// a request.
    fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
    }

    /// Returns true if one of `rules` (RuleWithOperations) matches the request.
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

/// Returns true if a webhook (`rules`) or the constraints of a policy (`resourceRules`) match a request.
pub fn concerns(cluster: &dyn Cluster, of: &Value, rules: &str, request: &Attributes<'_>) -> bool {
    !request.is_exempt()
        && request.is_named_by(list(of, &[rules]))
        && !request.is_named_by(list(of, &["excludeResourceRules"]))
        && is_in(cluster, &of["namespaceSelector"], request)
        && is_selected(&of["objectSelector"], request)
}

/// Returns true if the namespace of a request is selected. Cluster-scoped objects always are.
fn is_in(cluster: &dyn Cluster, selector: &Value, request: &Attributes<'_>) -> bool {
    if selector.is_null() {
        return true;
    }
    let labels = match request.namespace {
        _ if *request.kind == *kinds::NAMESPACES => {
            let object = if request.object.is_null() { request.old } else { request.object };
            at(object, &["metadata", "labels"]).cloned()
        }
        None => return true,
        Some(namespace) => cluster
            .object(kinds::NAMESPACES, namespace)
            .and_then(|found| at(&found.value, &["metadata", "labels"]).cloned()),
    };
    selector::matches(selector, &labels.unwrap_or_default())
}

/// Returns true if a selector matches the new or the old object.
fn is_selected(selector: &Value, request: &Attributes<'_>) -> bool {
    let labelled = |object: &Value| !object.is_null() && selector::matches(selector, &object["metadata"]["labels"]);
    selector.is_null() || labelled(request.object) || labelled(request.old)
}
