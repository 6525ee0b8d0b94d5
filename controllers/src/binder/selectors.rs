//! Selectors over labels: of nodes (component-helpers `scheduling/corev1/nodeaffinity`) and of objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, TopologySelectorTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Returns the labels of a node, or none.
pub fn node_labels(node: &Node) -> &Labels {
    static NONE: Labels = Labels::new();
    node.metadata.labels.as_ref().unwrap_or(&NONE)
}

/// Returns true if a node selector (terms are OR'd, requirements AND'd) selects the node `name` with `labels`.
pub fn node_selector_matches(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, name, labels))
}

fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term without requirements matches no node.
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|r| node_requirement_matches(r, labels.get(&r.key).map(String::as_str)))
        && fields.iter().all(|r| r.key == "metadata.name" && node_requirement_matches(r, Some(name)))
}

fn node_requirement_matches(requirement: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    match requirement.operator.as_str() {
        "In" => actual.is_some_and(|a| values.iter().any(|v| v == a)),
        "NotIn" => actual.is_none_or(|a| values.iter().all(|v| v != a)),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" | "Lt" => match (actual.and_then(number), values.first().and_then(|v| number(v))) {
            (Some(a), Some(b)) if requirement.operator == "Gt" => a > b,
            (Some(a), Some(b)) => a < b,
            _ => false,
        },
        _ => false,
    }
}

/// Checks a volume's node affinity against a node's `labels` (`volume.CheckNodeAffinity`).
pub fn check_node_affinity(volume: &PersistentVolume, labels: &Labels) -> Result<(), &'static str> {
    let required = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    match required {
        // A volume's affinity uses labels only; its terms never name a node.
        Some(selector) if !node_selector_matches(selector, "", labels) => Err("no matching NodeSelectorTerms"),
        _ => Ok(()),
    }
}

/// Returns true if `labels` satisfy a class's allowedTopologies; without terms every node does
/// (`v1helper.MatchTopologySelectorTerms`).
pub fn topology_allowed(terms: Option<&[TopologySelectorTerm]>, labels: &Labels) -> bool {
    let terms = terms.unwrap_or_default();
    terms.is_empty()
        || terms.iter().any(|term| {
            let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
            !expressions.is_empty()
                && expressions.iter().all(|e| labels.get(&e.key).is_some_and(|have| e.values.contains(have)))
        })
}

/// Returns true if a label selector selects an object with `labels`; an unknown operator never matches.
pub fn label_selector_matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let get = |key: &str| labels.and_then(|l| l.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|e| {
            let values = e.values.as_deref().unwrap_or_default();
            match e.operator.as_str() {
                "In" => get(&e.key).is_some_and(|have| values.contains(have)),
                "NotIn" => get(&e.key).is_none_or(|have| !values.contains(have)),
                "Exists" => get(&e.key).is_some(),
                "DoesNotExist" => get(&e.key).is_none(),
                _ => false,
            }
        })
}

/// Returns true if a label selector has no requirement, so that it selects all objects.
pub fn is_everything(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn labels() -> Labels {
        Labels::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())])
    }

    #[rstest]
    #[case("zone", "In", &["a", "b"], true)]
    #[case("zone", "In", &["b"], false)]
    #[case("rack", "In", &["1"], false)]
    #[case("rack", "NotIn", &["1"], true)]
    #[case("zone", "NotIn", &["a"], false)]
    #[case("zone", "Exists", &[], true)]
    #[case("zone", "DoesNotExist", &[], false)]
    #[case("cores", "Gt", &["4"], true)]
    #[case("cores", "Lt", &["4"], false)]
    #[case("zone", "Gt", &["4"], false)]
    #[case("zone", "Like", &["a"], false)]
    fn requirements(#[case] key: &str, #[case] operator: &str, #[case] values: &[&str], #[case] expected: bool) {
        let requirement = NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
        };
        let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
        let selector = NodeSelector { node_selector_terms: vec![term] };
        assert_eq!(node_selector_matches(&selector, "node-a", &labels()), expected);
    }

    #[test]
    fn a_term_without_requirements_selects_nothing() {
        let selector = NodeSelector { node_selector_terms: vec![NodeSelectorTerm::default()] };
        assert!(!node_selector_matches(&selector, "node-a", &labels()));
    }
}
