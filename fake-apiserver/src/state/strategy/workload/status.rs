//! Validation of the status of workloads and budgets (`pkg/apis/{apps,core,policy}/validation`). That of jobs is in
//! [`job_status`](super::job_status).

use std::collections::BTreeSet;

use substrate::json::Value;

use super::validate::NEGATIVE;
use crate::state::FieldError;
use crate::state::validate::{names, refuse};
use crate::state::value::{has, int, list, text};

/// Longest reason and longest message of a condition, in bytes.
const LONGEST: [(&str, usize); 2] = [("reason", 1 << 10), ("message", 32 << 10)];
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
    alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or \
    'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
    '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Numbers in the status of a workload.
pub(super) struct Numbers {
    /// Those that are not negative, in upstream's order.
    whole: &'static [&'static str],
    /// Those that are at most the number of replicas.
    parts: &'static [&'static str],
    /// Name of the ready replicas in the message about available ones.
    ready: &'static str,
}

pub(super) const DEPLOYMENT: Numbers = Numbers {
    whole: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};

pub(super) const REPLICA_SET: Numbers = Numbers {
    whole: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
};

pub(super) const REPLICATION_CONTROLLER: Numbers = Numbers {
    whole: &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
    ..REPLICA_SET
};

pub(super) const STATEFUL_SET: Numbers = Numbers {
    whole: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "status.readyReplicas",
};

pub(super) const DAEMON_SET: Numbers = Numbers {
    whole: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    ready: "",
};

const BUDGET: Numbers = Numbers {
    whole: &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
    parts: &[],
    ready: "",
};

/// Validates the status of a workload.
pub(super) fn check(numbers: &Numbers, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let count = |object: &Value, field: &str| int(object, &["status", field]);
    let number = |field: &str| count(object, field).unwrap_or(0);
    let mut wrong = |field: &str, why: &str| {
        errors.push(FieldError::invalid(format!("status.{field}"), &number(field).into(), why));
    };
    for field in numbers.whole.iter().filter(|field| number(field) < 0) {
        wrong(field, NEGATIVE);
    }
    for field in numbers.parts.iter().filter(|field| number(field) > number("replicas")) {
        wrong(field, "cannot be greater than status.replicas");
    }
    if number("availableReplicas") > number("readyReplicas") {
        wrong("availableReplicas", &format!("cannot be greater than {}", numbers.ready));
    }
    let collisions = [object, old].map(|object| count(object, "collisionCount"));
    // A missing counter is less than any (`IsDecremented`).
    if numbers.whole.contains(&"collisionCount") && collisions[0] < collisions[1] {
        wrong("collisionCount", "cannot be decremented");
    }
}

/// Validates the status of a budget.
pub(super) fn of_budget(object: &Value, errors: &mut Vec<FieldError>) {
    conditions(list(object, &["status", "conditions"]), "status.conditions", errors);
    check(&BUDGET, object, &Value::Null, errors);
}

/// Validates conditions of the common form (`metav1validation.ValidateConditions`).
fn conditions(conditions: &[Value], at: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let (at, of) = (format!("{at}[{i}]"), text(condition, &["type"]));
        if !seen.insert(of) {
            errors.push(FieldError::duplicate(format!("{at}.type"), &of.into()));
        }
        refuse(of, &format!("{at}.type"), names::qualified(of), errors);
        let (status, statuses) = (text(condition, &["status"]), ["False", "True", "Unknown"]);
        if !statuses.contains(&status) {
            errors.push(FieldError::not_supported(format!("{at}.status"), &status.into(), &statuses));
        }
        if let Some(generation) = int(condition, &["observedGeneration"]).filter(|generation| *generation < 0) {
            let why = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(format!("{at}.observedGeneration"), &generation.into(), why));
        }
        if !has(condition, &["lastTransitionTime"]) {
            errors.push(FieldError::required(format!("{at}.lastTransitionTime"), ""));
        }
        let reason = text(condition, &["reason"]);
        if reason.is_empty() {
            errors.push(FieldError::required(format!("{at}.reason"), ""));
        } else if !is_reason(reason) {
            errors.push(FieldError::invalid(format!("{at}.reason"), &reason.into(), REASON));
        }
        for (field, longest) in LONGEST {
            if text(condition, &[field]).len() > longest {
                errors.push(FieldError::too_long(format!("{at}.{field}"), longest));
            }
        }
    }
}

/// Returns true if a text is a reason of a condition.
fn is_reason(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    begins && text.bytes().all(is_inner) && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    #[rstest]
    #[case(&DEPLOYMENT, json!({"replicas": -1, "collisionCount": 1}), &[
        "status.replicas: Invalid value: -1: must be greater than or equal to 0",
        "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.collisionCount: Invalid value: 1: cannot be decremented"])]
    #[case(&STATEFUL_SET, json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 2, "collisionCount": 2}), &[
        "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas"])]
    #[case(&REPLICATION_CONTROLLER, json!({"replicas": 2, "fullyLabeledReplicas": 3, "observedGeneration": -1}), &[
        "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
        "status.fullyLabeledReplicas: Invalid value: 3: cannot be greater than status.replicas"])]
    #[case(&DAEMON_SET, json!({"numberReady": -1, "numberAvailable": 5}), &[
        "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
        "status.collisionCount: Invalid value: 0: cannot be decremented"])]
    #[case(&REPLICA_SET, json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}), &[])]
    fn numbers_of_a_status_fit(#[case] numbers: &Numbers, #[case] status: Value, #[case] expected: &[&str]) {
        let (mut errors, old) = (Vec::new(), json!({"status": {"collisionCount": 2}}));
        check(numbers, &json!({"status": status}), &old, &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_budget_has_conditions_of_the_common_form() {
        let of = |conditions: Value| {
            let mut errors = Vec::new();
            of_budget(&json!({"status": {"conditions": conditions}}), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let good = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        assert!(of(json!([good])).is_empty());
        let found =
            of(json!([good, {"type": "DisruptionAllowed", "status": "Maybe", "reason": "not so"}, {"type": "A",
            "status": "False"}]));
        for expected in [
            "status.conditions[1].type: Duplicate value: \"DisruptionAllowed\"",
            "status.conditions[1].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions[1].lastTransitionTime: Required value",
            "status.conditions[2].reason: Required value",
        ] {
            assert!(found.iter().any(|error| error == expected), "{expected} in {found:?}");
        }
        assert!(found.iter().any(|error| error.starts_with("status.conditions[1].reason: Invalid value: \"not so\"")));
        assert!(is_reason("A") && is_reason("a,B_") && !is_reason("A:") && !is_reason("1"));
    }
}
