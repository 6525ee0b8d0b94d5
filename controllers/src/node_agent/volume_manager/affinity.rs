//! Matches a node against the node affinity of a PersistentVolume (upstream component-helpers `nodeaffinity`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume};

/// Checks `pv`'s required node affinity against a node's `labels` and `name`.
///
/// # Errors
/// The text that upstream puts into the event.
pub fn check(pv: &PersistentVolume, name: &str, labels: Option<&BTreeMap<String, String>>) -> Result<(), String> {
    let required = pv.spec.as_ref().and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    match required {
        Some(selector) if !selector.node_selector_terms.iter().any(|term| term_matches(term, name, labels)) => {
            Err("no matching NodeSelectorTerms".to_owned())
        }
        _ => Ok(()),
    }
}

fn term_matches(term: &NodeSelectorTerm, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // An empty term selects nothing.
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|r| matches(r, labels.and_then(|labels| labels.get(&r.key)).map(String::as_str)))
        && fields.iter().all(|r| r.key == "metadata.name" && matches(r, Some(name)))
}

fn matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|v| values.iter().any(|x| x == v));
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|v| v.parse().ok());
        value.and_then(|v| v.parse().ok()).zip(bound).is_some_and(|(a, b)| holds(a, b))
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|a, b| a > b),
        "Lt" => compare(|a, b| a < b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, json};

    use super::*;

    fn verdict(terms: Value) -> bool {
        let pv: PersistentVolume = substrate::json::from_value(json!({
            "metadata": {"name": "pv"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        }))
        .expect("a volume");
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cpus".to_owned(), "8".to_owned())]);
        check(&pv, "node-a", Some(&labels)).is_ok()
    }

    #[test]
    fn one_term_is_enough_and_all_of_its_expressions_count() {
        let zone = |z: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [z]}]});
        assert!(verdict(json!([zone("a")])));
        assert!(verdict(json!([zone("b"), zone("a")])));
        assert!(!verdict(json!([zone("b")])));
        assert!(!verdict(json!([{"matchExpressions": [
            {"key": "zone", "operator": "Exists"}, {"key": "cpus", "operator": "Gt", "values": ["8"]}]}])));
    }

    #[test]
    fn an_empty_term_selects_nothing_and_a_missing_affinity_everything() {
        assert!(!verdict(json!([{}])));
        assert!(check(&PersistentVolume::default(), "n", None).is_ok());
    }

    #[test]
    fn the_node_name_is_a_field() {
        assert!(verdict(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}])));
    }
}
