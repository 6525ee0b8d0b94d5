//! PodDisruptionBudgets in preemption (`filterPodsWithPDBViolation`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::binder::selectors::{is_everything, label_selector_matches};
use crate::kube::Kind;

fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|s| !is_everything(s));
    labels.is_some()
        && budget.namespace() == pod.namespace()
        && selector.is_some_and(|selector| label_selector_matches(selector, labels))
}

/// Returns for each of `pods` whether its preemption, after that of the pods before it, violates a budget. Pods that the
/// API server evicts already do not count again.
pub fn violations<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    budgets: impl IntoIterator<Item = &'a Arc<PodDisruptionBudget>>,
) -> Vec<bool> {
    let allowed = |budget: &'a Arc<PodDisruptionBudget>| {
        (budget, budget.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0))
    };
    let mut budgets: Vec<(&Arc<PodDisruptionBudget>, i32)> = budgets.into_iter().map(allowed).collect();
    let violates = |pod: &Pod| {
        let mut violated = false;
        for (budget, left) in budgets.iter_mut().filter(|(budget, _)| selects(budget, pod)) {
            let evicted = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
            if evicted.is_none_or(|pods| !pods.contains_key(pod.name())) {
                *left -= 1;
                violated |= *left < 0;
            }
        }
        violated
    };
    pods.into_iter().map(violates).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    #[rstest]
    #[case::none_allowed(0, json!({}), [true, true, false])]
    #[case::one_allowed(1, json!({}), [false, true, false])]
    #[case::enough_allowed(2, json!({}), [false, false, false])]
    #[case::evicted_already(1, json!({ "a": "2026-01-01T00:00:00Z" }), [false, false, false])]
    fn a_budget_covers_so_many_pods(#[case] allowed: i32, #[case] evicted: Value, #[case] expected: [bool; 3]) {
        let pod = |name: &str, labels: Value| -> Pod {
            from_value(json!({ "metadata": { "namespace": "default", "name": name, "labels": labels } }))
                .expect("a pod")
        };
        let web = || json!({ "app": "web" });
        let pods = [pod("a", web()), pod("b", web()), pod("c", json!({}))];
        let budget = |namespace: &str, selector: Value| {
            let status = json!({
                "disruptionsAllowed": allowed, "disruptedPods": evicted,
                "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            });
            let metadata = json!({ "namespace": namespace, "name": "b" });
            let budget = json!({ "metadata": metadata, "spec": { "selector": selector }, "status": status });
            Arc::new(from_value(budget).expect("a budget"))
        };
        let budgets = [
            budget("default", json!({ "matchLabels": web() })),
            budget("default", json!({})),
            budget("elsewhere", json!({ "matchLabels": web() })),
        ];
        assert_eq!(violations(&pods, &budgets), expected);
    }
}
