//! Default roles and bindings of a cluster with RBAC (`rbac/bootstrappolicy`), from a text table.

use substrate::json::{Map, Value, json};

use api_model::kinds::{self, Kind};

const TABLE: &str = include_str!("roles.txt");
/// Prefix of the roles of kube-controller-manager's controllers.
const CONTROLLER: &str = "system:controller:";
/// Prefix of the aggregation labels.
const LABEL: &str = "rbac.authorization.k8s.io/";

/// An object to create: its kind, its namespace and its content.
pub type Entry = (&'static Kind, Option<String>, Value);

/// Returns the default roles and bindings.
pub fn bootstrap() -> Vec<Entry> {
    table(TABLE)
}

fn table(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["role", named, ref labels @ ..] => {
                let (namespace, name) = place(named);
                let kind = if namespace.is_some() { kinds::ROLES } else { kinds::CLUSTER_ROLES };
                let labels: Map = labels.iter().map(|label| (format!("{LABEL}{label}"), "true".into())).collect();
                entries.push((kind, namespace.clone(), furnish(name, labels)));
                if let Some(controller) = name.strip_prefix(CONTROLLER).filter(|_| namespace.is_none()) {
                    let account = subject("account", &format!("kube-system/{controller}"));
                    let at = entries.len() - 1;
                    entries.insert(at, binding(name, "ClusterRole", name, vec![account]));
                }
            }
            ["bind", named, of, role] => entries.push(binding(named, of, role, Vec::new())),
            [kind @ ("user" | "group" | "account"), name] => {
                push(&mut entries, &["subjects"], subject(kind, name));
            }
            ["union", label] => {
                let selector = json!({"matchLabels": {(format!("{LABEL}{label}")): "true"}});
                push(&mut entries, &["aggregationRule", "clusterRoleSelectors"], selector);
            }
            ["url", verbs, paths] => {
                push(&mut entries, &["rules"], json!({"verbs": words_of(verbs), "nonResourceURLs": words_of(paths)}));
            }
            [verbs, groups, resources, ref names @ ..] => {
                let groups: Vec<&str> = groups.split(',').map(|g| if g == "core" { "" } else { g }).collect();
                let mut rule = json!({"verbs": words_of(verbs), "apiGroups": groups, "resources": words_of(resources)});
                if let [names] = names {
                    rule["resourceNames"] = json!(words_of(names));
                }
                push(&mut entries, &["rules"], rule);
            }
            // A test counts the objects of the table.
            _ => {}
        }
    }
    entries
}

fn words_of(list: &str) -> Vec<&str> {
    list.split(',').collect()
}

fn place(named: &str) -> (Option<String>, &str) {
    match named.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, named),
    }
}

fn furnish(name: &str, mut labels: Map) -> Value {
    labels.insert("kubernetes.io/bootstrapping", "rbac-defaults".into());
    json!({"metadata": {
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }})
}

fn binding(named: &str, of: &str, role: &str, subjects: Vec<Value>) -> Entry {
    let (namespace, name) = place(named);
    let kind = if namespace.is_some() { kinds::ROLE_BINDINGS } else { kinds::CLUSTER_ROLE_BINDINGS };
    let mut object = furnish(name, Map::new());
    object["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": of, "name": role});
    object["subjects"] = subjects.into();
    (kind, namespace, object)
}

fn subject(kind: &str, name: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    match (kind, name.split_once('/')) {
        ("account", Some((namespace, name))) => json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}),
        ("group", _) => json!({"kind": "Group", "apiGroup": group, "name": name}),
        _ => json!({"kind": "User", "apiGroup": group, "name": name}),
    }
}

/// Adds an element to a list of the last entry.
fn push(entries: &mut [Entry], path: &[&str], element: Value) {
    let Some((_, _, object)) = entries.last_mut() else { return };
    let slot = path.iter().fold(object, |at, field| &mut at[*field]);
    match slot {
        Value::Array(list) => list.push(element),
        other => *other = json!([element]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_means_something() {
        let entries = table(TABLE);
        let of = |kind: &str| entries.iter().filter(|(k, _, _)| k.kind == kind).count();
        let lines = |start: &str| TABLE.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(of("ClusterRole") + of("Role"), lines("role "));
        assert_eq!(of("ClusterRoleBinding") + of("RoleBinding"), lines("bind ") + lines("role system:controller:"));
        let count = |field: &str| -> usize {
            entries.iter().map(|(_, _, object)| object[field].as_array().map_or(0, Vec::len)).sum()
        };
        let subjects = TABLE.lines().filter(|l| ["  user ", "  group ", "  account "].iter().any(|s| l.starts_with(s)));
        assert_eq!(count("subjects"), subjects.count() + lines("role system:controller:"));
        assert_eq!(
            count("rules") + lines("  union ") + lines("  user ") + lines("  group ") + lines("  account "),
            TABLE.lines().filter(|line| line.starts_with("  ")).count()
        );
    }
}
