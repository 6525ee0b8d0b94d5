//! Early success of an indexed Job (`spec.successPolicy`, `success_policy.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobSpec, SuccessPolicyRule};

use super::indexes::parse;

/// Returns the message of the first rule that the succeeded indexes meet (`matchSuccessPolicy`).
pub(super) fn met(spec: &JobSpec, succeeded: &BTreeSet<i32>) -> Option<String> {
    let rules = spec.success_policy.iter().flat_map(|policy| &policy.rules);
    let is_met = |rule: &SuccessPolicyRule| {
        let reaches = |count: usize| {
            rule.succeeded_count.and_then(|wanted| usize::try_from(wanted).ok()).is_some_and(|wanted| count >= wanted)
        };
        let Some(text) = &rule.succeeded_indexes else { return reaches(succeeded.len()) };
        let wanted = parse(text, spec.completions.unwrap_or(0));
        let count = wanted.intersection(succeeded).count();
        !wanted.is_empty() && (count == wanted.len() || reaches(count))
    };
    let at = rules.into_iter().position(is_met).filter(|_| !succeeded.is_empty())?;
    Some(format!("Matched rules at index {at}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::{Value, from_value, json};

    use super::*;

    #[rstest]
    #[case::no_rule(json!([]), &[0, 1], None)]
    #[case::no_success(json!([{ "succeededCount": 0 }]), &[], None)]
    #[case::count(json!([{ "succeededCount": 2 }]), &[0, 4], Some(0))]
    #[case::too_few(json!([{ "succeededCount": 3 }]), &[0, 4], None)]
    #[case::indexes(json!([{ "succeededCount": 4 }, { "succeededIndexes": "0,2-3" }]), &[0, 2, 3], Some(1))]
    #[case::not_all(json!([{ "succeededIndexes": "0,2-3" }]), &[0, 2, 4], None)]
    #[case::enough_of_them(json!([{ "succeededIndexes": "0,2-3", "succeededCount": 2 }]), &[0, 2, 4], Some(0))]
    #[case::beyond_the_job(json!([{ "succeededIndexes": "7-9" }]), &[0], None)]
    fn a_rule_is_met_by_succeeded_indexes(
        #[case] rules: Value,
        #[case] succeeded: &[i32],
        #[case] expected: Option<usize>,
    ) {
        let spec: JobSpec =
            from_value(json!({ "template": {}, "completions": 5, "successPolicy": { "rules": rules } })).unwrap();
        let found = met(&spec, &succeeded.iter().copied().collect());
        assert_eq!(found, expected.map(|at| format!("Matched rules at index {at}")));
    }
}
