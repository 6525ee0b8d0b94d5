//! Privilege escalation check: users can grant only permissions that they hold
//! (`pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased`).

use http::request::Parts;
use substrate::json::{Value, json};

use super::Server;
use super::call::Call;
use super::verb::Sub;
use crate::state::rbac::Access;
use crate::state::value::{list, text};
use crate::state::{Asking, Command, Identity, Status, Store};

const GROUP: &str = "rbac.authorization.k8s.io";

impl Server {
    /// Checks that a user may write a role with its rules, or bind a role to others, if access is checked.
    ///
    /// # Errors
    /// 403 with the missing rules.
    pub(super) fn may_grant(
        &self,
        parts: &Parts,
        call: &Call,
        asking: Option<&Asking>,
        command: &Command,
    ) -> Result<(), Status> {
        let writes = call.verb.writes();
        if !self.shared.checks_roles() || call.kind.group != GROUP || !writes || call.subresource != Sub::Itself {
            return Ok(());
        }
        let user = self.caller(parts)?;
        // An invalid write fails later with its own error.
        let Ok(Some((object, old))) = self.planned(asking, command) else { return Ok(()) };
        let state = self.shared.lock();
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let missing = missing(&state.store, &user, namespace, &object, &old);
        drop(state);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.username,
            groups.join(" "),
            missing.join("\n")
        );
        Err(Status::forbidden(&call.kind, crate::state::value::name(&object), &why))
    }
}

/// Returns the granted rules that the user does not hold.
fn missing(store: &Store, user: &Identity, namespace: &str, object: &Value, old: &Value) -> Vec<String> {
    let may = |verb: &str, resource: &str, name: &str| {
        let access = Access { verb, group: GROUP, resource, subresource: "", name, namespace, path: None };
        store.allows(user, &access).is_some()
    };
    let kind = text(object, &["kind"]);
    let rules = if kind.ends_with("Binding") {
        let role = &object["roleRef"];
        let resource = if text(role, &["kind"]) == "Role" { "roles" } else { "clusterroles" };
        let same = *role == old["roleRef"] && object["subjects"] == old["subjects"];
        if same || may("bind", resource, text(role, &["name"])) {
            return Vec::new();
        }
        store.rules(role, namespace)
    } else {
        let resource = if kind == "Role" { "roles" } else { "clusterroles" };
        let same = object["rules"] == old["rules"] && object["aggregationRule"] == old["aggregationRule"];
        if same || may("escalate", resource, text(object, &["metadata", "name"])) {
            return Vec::new();
        }
        let mut rules = list(object, &["rules"]).to_vec();
        if !object["aggregationRule"].is_null() {
            // An aggregated role may get any rule later, so its writer must hold all.
            rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        rules
    };
    let mut missing: Vec<String> =
        rules.iter().filter(|rule| !holds(store, user, namespace, rule)).map(shown).collect();
    missing.sort();
    missing.dedup();
    missing
}

fn words<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    list(rule, &[field]).iter().filter_map(Value::as_str).collect()
}

/// Returns true if a user holds every permission of a rule.
fn holds(store: &Store, user: &Identity, namespace: &str, rule: &Value) -> bool {
    let names = match words(rule, "resourceNames") {
        names if names.is_empty() => vec![""],
        names => names,
    };
    words(rule, "verbs").into_iter().all(|verb| {
        let of_paths = words(rule, "nonResourceURLs").into_iter().all(|path| {
            let path = Some(path);
            let access = Access { verb, group: "", resource: "", subresource: "", name: "", namespace: "", path };
            store.allows(user, &access).is_some()
        });
        of_paths
            && words(rule, "apiGroups").into_iter().all(|group| {
                words(rule, "resources").into_iter().all(|whole| {
                    let (resource, subresource) = whole.split_once('/').unwrap_or((whole, ""));
                    names.iter().all(|name| {
                        let access = Access { verb, group, resource, subresource, name, namespace, path: None };
                        store.allows(user, &access).is_some()
                    })
                })
            })
    })
}

/// Prints a rule in Go's compact form.
fn shown(rule: &Value) -> String {
    let parts: Vec<String> = [
        ("APIGroups", "apiGroups"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Resources", "resources"),
        ("Verbs", "verbs"),
    ]
    .iter()
    .filter_map(|(name, field)| {
        let listed: Vec<String> = words(rule, field).iter().map(|word| format!("{word:?}")).collect();
        (!listed.is_empty()).then(|| format!("{name}:[{}]", listed.join(" ")))
    })
    .collect();
    format!("{{{}}}", parts.join(", "))
}
