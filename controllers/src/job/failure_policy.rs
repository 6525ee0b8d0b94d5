//! Reaction to the failure of a pod (`spec.podFailurePolicy`, `pod_failure_policy.go`).

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use crate::kube::Kind;
use crate::pod_status::conditions;

/// Effect of the first rule that matches a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The failure counts: no rule matches, or one says so.
    Count,
    /// The failure does not count.
    Ignore,
    /// The failure counts, and the pod's index fails at once.
    FailIndex,
    /// The failure counts, and the Job fails with this message.
    FailJob(String),
}

impl Reaction {
    /// Returns the reaction to a failed pod (`matchPodFailurePolicy`).
    pub(super) fn to(spec: &JobSpec, pod: &Pod) -> Self {
        let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
        let of = |(at, rule): (usize, &PodFailurePolicyRule)| {
            let what = matching(rule, pod)?;
            match rule.action.as_str() {
                "Ignore" => Some(Self::Ignore),
                "FailIndex" => Some(Self::FailIndex),
                "Count" => Some(Self::Count),
                "FailJob" => Some(Self::FailJob(format!("{what} matching FailJob rule at index {at}"))),
                // The API server admits no other action; upstream goes on to the next rule.
                _ => None,
            }
        };
        rules.enumerate().find_map(of).unwrap_or(Self::Count)
    }

    /// Returns true if the failure counts.
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Returns the fact about a pod that a rule matches, as the beginning of a message.
fn matching(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (pod.namespace(), pod.name());
    if let Some(requirement) = &rule.on_exit_codes {
        let (container, code) = by_exit_code(requirement, pod)?;
        return Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_deref()?;
    let found = conditions(pod).iter().find(|condition| patterns.iter().any(|pattern| is_like(condition, pattern)))?;
    Some(format!("Pod {namespace}/{name} has condition {}", found.type_))
}

fn is_like(condition: &PodCondition, pattern: &PodFailurePolicyOnPodConditionsPattern) -> bool {
    condition.type_ == pattern.type_ && condition.status == pattern.status.as_deref().unwrap_or("True")
}

/// Returns the first container that a requirement matches, and its exit code; init containers come last
/// (`matchOnExitCodes`).
fn by_exit_code<'a>(requirement: &PodFailurePolicyOnExitCodesRequirement, pod: &'a Pod) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let matching = |status: &'a ContainerStatus| {
        let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
        let is_named = requirement.container_name.as_ref().is_none_or(|name| *name == status.name);
        let is_listed = requirement.values.contains(&code);
        let is_wanted = match requirement.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        (code != 0 && is_named && is_wanted).then_some((status.name.as_str(), code))
    };
    all.into_iter().find_map(matching)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn spec(rules: Value) -> JobSpec {
        from_value(json!({ "template": {}, "podFailurePolicy": { "rules": rules } })).unwrap()
    }

    fn pod(code: i32, condition: &str) -> Pod {
        let container = |name: &str, code: i32| {
            json!({ "name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": { "terminated": { "exitCode": code } } })
        };
        let status = json!({ "phase": "Failed", "conditions": [{ "type": condition, "status": "True" }],
            "initContainerStatuses": [container("init", 0)],
            "containerStatuses": [container("side", 0), container("main", code)] });
        from_value(json!({ "metadata": { "name": "p", "namespace": "default" }, "status": status })).unwrap()
    }

    fn on_codes(action: &str, operator: &str, values: &[i32], container: Option<&str>) -> Value {
        json!({ "action": action, "onExitCodes": { "operator": operator, "values": values, "containerName": container } })
    }

    #[rstest]
    #[case::no_rule(json!([]), Reaction::Count)]
    #[case::listed(json!([on_codes("Ignore", "In", &[3, 4], None)]), Reaction::Ignore)]
    #[case::not_listed(json!([on_codes("Ignore", "In", &[5], None)]), Reaction::Count)]
    #[case::success_is_no_failure(json!([on_codes("Ignore", "NotIn", &[3], None)]), Reaction::Count)]
    #[case::other_container(json!([on_codes("Ignore", "In", &[3], Some("side"))]), Reaction::Count)]
    #[case::first_rule_wins(json!([on_codes("FailIndex", "In", &[3], Some("main")), on_codes("Ignore", "In", &[3], None)]), Reaction::FailIndex)]
    #[case::fails_the_job(
        json!([on_codes("Count", "In", &[9], None), on_codes("FailJob", "NotIn", &[9], None)]),
        Reaction::FailJob("Container main for pod default/p failed with exit code 3 matching FailJob rule at index 1".to_owned())
    )]
    #[case::condition(
        json!([{ "action": "FailJob", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] }]),
        Reaction::FailJob("Pod default/p has condition DisruptionTarget matching FailJob rule at index 0".to_owned())
    )]
    #[case::other_status(json!([{ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "False" }] }]), Reaction::Count)]
    fn the_first_matching_rule_decides(#[case] rules: Value, #[case] expected: Reaction) {
        assert_eq!(Reaction::to(&spec(rules), &pod(3, "DisruptionTarget")), expected);
    }

    #[test]
    fn an_ignored_failure_does_not_count() {
        assert!(!Reaction::Ignore.counts());
        assert!([Reaction::Count, Reaction::FailIndex, Reaction::FailJob(String::new())].iter().all(Reaction::counts));
    }
}
