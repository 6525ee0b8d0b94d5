//! Fields of a pod that decide where it runs (`validateAffinity`, `ValidateTolerations`,
//! `validateTopologySpreadConstraints`).

use substrate::json::Value;

use super::container::one_of;
use super::{names, node_selector, refuse, selector};
use crate::fields::FieldError;
use crate::state::value::{int, list, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const WHENS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];

/// Validates the affinity of a pod.
pub(super) fn affinity(affinity: &Value, errors: &mut Vec<FieldError>) {
    let nodes = &affinity["nodeAffinity"];
    let at = "spec.affinity.nodeAffinity";
    if !nodes[REQUIRED].is_null() {
        node_selector::node_selector(&nodes[REQUIRED], &format!("{at}.{REQUIRED}"), errors);
    }
    for (i, term) in list(nodes, &[PREFERRED]).iter().enumerate() {
        let at = format!("{at}.{PREFERRED}[{i}]");
        weight(term, &at, errors);
        node_selector::preferred(&term["preference"], &format!("{at}.preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (of, at) = (&affinity[kind], format!("spec.affinity.{kind}"));
        for (i, term) in list(of, &[REQUIRED]).iter().enumerate() {
            pods(term, &format!("{at}.{REQUIRED}[{i}]"), errors);
        }
        for (i, term) in list(of, &[PREFERRED]).iter().enumerate() {
            let at = format!("{at}.{PREFERRED}[{i}]");
            weight(term, &at, errors);
            pods(&term["podAffinityTerm"], &format!("{at}.podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let weight = int(term, &["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(format!("{at}.weight"), &weight.into(), "must be in the range 1-100"));
    }
}

/// Validates a term of pod affinity.
fn pods(term: &Value, at: &str, errors: &mut Vec<FieldError>) {
    selector::label_selector(&term["labelSelector"], &format!("{at}.labelSelector"), errors);
    selector::label_selector(&term["namespaceSelector"], &format!("{at}.namespaceSelector"), errors);
    for namespace in list(term, &["namespaces"]).iter().filter_map(Value::as_str) {
        refuse(namespace, &format!("{at}.namespace"), names::label(namespace), errors);
    }
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        keys(term, field, at, errors);
    }
    let (key, field) = (text(term, &["topologyKey"]), format!("{at}.topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&field, "can not be empty"));
    }
    refuse(key, &field, names::qualified(key), errors);
}

/// Validates the keys of labels that are added to a selector.
fn keys(of: &Value, field: &str, at: &str, errors: &mut Vec<FieldError>) {
    let keys = list(of, &[field]);
    if !keys.is_empty() && of["labelSelector"].is_null() {
        let why = "must not be specified when labelSelector is not set";
        errors.push(FieldError::forbidden(format!("{at}.{field}"), why));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        refuse(key, &format!("{at}.{field}[{i}]"), names::qualified(key), errors);
    }
}

/// Validates the tolerations of a pod.
pub(super) fn tolerations(tolerations: &[Value], errors: &mut Vec<FieldError>) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = format!("spec.tolerations[{i}]");
        let (key, operator) = (text(toleration, &["key"]), text(toleration, &["operator"]));
        let (value, effect) = (text(toleration, &["value"]), text(toleration, &["effect"]));
        let field = format!("{at}.operator");
        if !key.is_empty() {
            refuse(key, &format!("{at}.key"), names::qualified(key), errors);
        } else if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(&field, &operator.into(), why));
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{at}.effect"), &effect.into(), why));
        }
        match operator {
            "Equal" | "" => {
                let why = names::label_value(value);
                if !why.is_empty() {
                    errors.push(FieldError::invalid(field, &value.into(), why.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(field, &value.into(), why));
            }
            "Exists" => {}
            // Comparisons are an alpha feature.
            "Lt" | "Gt" => {
                let values = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(field, &operator.into(), &values));
            }
            _ => errors.push(FieldError::not_supported(field, &operator.into(), &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(&toleration["effect"], format!("{at}.effect"), EFFECTS, errors);
        }
    }
}

/// Validates the constraints on the spread of pods over domains.
pub(super) fn spread(constraints: &[Value], errors: &mut Vec<FieldError>) {
    for (i, constraint) in constraints.iter().enumerate() {
        let at = format!("spec.topologySpreadConstraints[{i}]");
        let (key, when) = (text(constraint, &["topologyKey"]), text(constraint, &["whenUnsatisfiable"]));
        let skew = int(constraint, &["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(format!("{at}.maxSkew"), &skew.into(), "must be greater than zero"));
        }
        if key.is_empty() {
            errors.push(FieldError::required(format!("{at}.topologyKey"), "can not be empty"));
        } else {
            refuse(key, &format!("{at}.topologyKey"), names::qualified(key), errors);
        }
        one_of(&when.into(), format!("{at}.whenUnsatisfiable"), WHENS, errors);
        let same = |other: &Value| (text(other, &["topologyKey"]), text(other, &["whenUnsatisfiable"])) == (key, when);
        if constraints[i + 1..].iter().any(same) {
            let shown = format!("{{{key}, {when}}}");
            errors.push(FieldError::duplicate(format!("{at}.{{topologyKey, whenUnsatisfiable}}"), &shown.into()));
        }
        domains(&constraint["minDomains"], when, &format!("{at}.minDomains"), errors);
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(&constraint[field], format!("{at}.{field}"), &["Honor", "Ignore"], errors);
        }
        keys(constraint, "matchLabelKeys", &at, errors);
        selector::label_selector(&constraint["labelSelector"], &format!("{at}.labelSelector"), errors);
    }
}

fn domains(count: &Value, when: &str, field: &str, errors: &mut Vec<FieldError>) {
    if count.is_null() {
        return;
    }
    if count.as_i64().is_some_and(|count| count <= 0) {
        errors.push(FieldError::invalid(field, count, "must be greater than zero"));
    }
    if when != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
        errors.push(FieldError::invalid(field, count, why));
    }
}

/// Validates the gates that keep a pod from being scheduled.
pub(super) fn gates(gates: &[Value], errors: &mut Vec<FieldError>) {
    for (i, gate) in gates.iter().enumerate() {
        let (name, at) = (text(gate, &["name"]), format!("spec.schedulingGates[{i}]"));
        refuse(name, &at, names::qualified(name), errors);
        if gates[..i].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(at, &name.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use super::*;

    fn texts(check: impl FnOnce(&mut Vec<FieldError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Cases of upstream's `TestValidatePod`.
    #[rstest]
    #[case(json!([{"key": "a", "operator": "Exists"}, {"operator": "Exists"}]), &[])]
    #[case(json!([{"key": "a", "operator": "In"}]),
        &["spec.tolerations[0].operator: Unsupported value: \"In\": supported values: \"Equal\", \"Exists\""])]
    #[case(json!([{"key": "a", "operator": "Lt", "value": "1"}]), &["spec.tolerations[0].operator: Unsupported value: \
        \"Lt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\""])]
    #[case(json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}]),
        &["spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` \
           is set"])]
    fn tolerations_are_checked(#[case] of: Value, #[case] wanted: &[&str]) {
        assert_eq!(texts(|errors| tolerations(list(&json!({"of": of}), &["of"]), errors)), wanted);
    }

    /// Cases of upstream's `TestValidateTopologySpreadConstraints`.
    #[rstest]
    #[case(json!([{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never"}]), &[
        "c[0].maxSkew: Invalid value: 0: must be greater than zero",
        "c[0].topologyKey: Required value: can not be empty",
        "c[0].whenUnsatisfiable: Unsupported value: \"Never\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\""])]
    #[case(json!([{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"},
        {"maxSkew": 2, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]),
        &["c[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{k, DoNotSchedule}\""])]
    #[case(json!([{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 0}]), &[
        "c[0].minDomains: Invalid value: 0: must be greater than zero",
        "c[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"])]
    #[case(json!([{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"]}]),
        &["c[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"])]
    fn constraints_are_checked(#[case] of: Value, #[case] wanted: &[&str]) {
        let found = texts(|errors| spread(list(&json!({"of": of}), &["of"]), errors));
        let found: Vec<String> = found.iter().map(|text| text.replace("spec.topologySpreadConstraints", "c")).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn affinity_is_checked() {
        let of = json!({"nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]},
                PREFERRED: [{"weight": 101, "preference": {}}],
            },
            "podAffinity": {REQUIRED: [{"topologyKey": "k", "namespaces": ["A.b"]}]},
        });
        let wanted = [
            "nodeAffinity.required.nodeSelectorTerms[0].matchFields[0].key: Invalid value: \"spec.x\": not a valid field \
             selector key",
            "nodeAffinity.preferred[0].weight: Invalid value: 101: must be in the range 1-100",
        ];
        let found = texts(|errors| affinity(&of, errors));
        let short = |text: &String| {
            let text = text.replace("spec.affinity.", "");
            text.replace("DuringSchedulingIgnoredDuringExecution", "")
        };
        assert_eq!(found[..2].iter().map(short).collect::<Vec<_>>(), wanted);
        assert!(short(&found[2]).starts_with("podAffinity.required[0].namespace: Invalid value: \"A.b\""));
    }
}
