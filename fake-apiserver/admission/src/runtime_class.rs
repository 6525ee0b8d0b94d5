//! Settings that a pod inherits from its RuntimeClass (admission `RuntimeClass`).

use substrate::json::Value;

use api_model::fields::quantity;
use api_model::fields::value::{self, at, int, list, name, text};
use api_model::status::Status;

use crate::Cluster;
use api_model::kinds::{self, Kind};

/// Gives a pod the overhead, the node selector and the tolerations of its class.
///
/// # Errors
/// 403 if the class does not exist or the pod contradicts it.
pub fn admit(cluster: &dyn Cluster, kind: &Kind, pod: &mut Value) -> Result<(), Status> {
    let refuse = |pod: &Value, why: &str| Err(Status::forbidden(kind, name(pod), why));
    let named = text(pod, &["spec", "runtimeClassName"]).to_owned();
    let class = if named.is_empty() { None } else { cluster.object(kinds::RUNTIME_CLASSES, &named) };
    if class.is_none() && !named.is_empty() {
        return refuse(pod, &format!("pod rejected: RuntimeClass \"{named}\" not found"));
    }
    let class = class.map(|class| class.value.clone()).unwrap_or_default();
    let sent = at(pod, &["spec", "overhead"]).cloned();
    match at(&class, &["overhead", "podFixed"]) {
        None if sent.is_some() => {
            return refuse(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        }
        None => {}
        Some(fixed) if sent.is_none_or(|sent| same_amounts(&sent, fixed)) => {
            value::set(&mut pod["spec"], "overhead", Some(fixed.clone()));
        }
        Some(_) => {
            return refuse(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
    }
    for (key, wanted) in at(&class, &["scheduling", "nodeSelector"]).and_then(Value::as_object).into_iter().flatten() {
        let had = at(pod, &["spec", "nodeSelector", key]).cloned();
        if let Some(had) = had.filter(|had| had != wanted) {
            let (wanted, had) = (wanted.as_str().unwrap_or_default(), had.as_str().unwrap_or_default().to_owned());
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {had}"
            );
            return refuse(pod, &why);
        }
        pod["spec"]["nodeSelector"][key.as_str()] = wanted.clone();
    }
    let added = list(&class, &["scheduling", "tolerations"]);
    if !added.is_empty() {
        let merged = merged(list(pod, &["spec", "tolerations"]), added);
        value::set(&mut pod["spec"], "tolerations", Some(merged.into()));
    }
    Ok(())
}

/// Returns true if two maps of resources have equal amounts.
fn same_amounts(a: &Value, b: &Value) -> bool {
    let amounts = |of: &Value| -> Vec<(String, Option<i128>)> {
        let fields = of.as_object().into_iter().flatten();
        fields.map(|(key, amount)| (key.to_string(), amount.as_str().and_then(quantity::nanos))).collect()
    };
    amounts(a) == amounts(b)
}

/// Merges tolerations and drops those that another one includes (`MergeTolerations`).
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut kept: Vec<&Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let included = kept.iter().any(|other| includes(other, toleration))
            || all[i + 1..].iter().any(|other| other != toleration && includes(other, toleration));
        if !included {
            kept.push(toleration);
        }
    }
    kept.into_iter().cloned().collect()
}

/// Returns true if a toleration includes another one (`isSuperset`).
fn includes(other: &Value, toleration: &Value) -> bool {
    if other == toleration {
        return true;
    }
    let field = |of: &'_ Value, name: &str| text(of, &[name]).to_owned();
    let (key, operator, effect) = (field(other, "key"), field(other, "operator"), field(other, "effect"));
    if key != field(toleration, "key") && (!key.is_empty() || operator != "Exists") {
        return false;
    }
    if effect != field(toleration, "effect") && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = int(other, &["tolerationSeconds"])
        && int(toleration, &["tolerationSeconds"]).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match operator.as_str() {
        "" | "Equal" => {
            operator == field(toleration, "operator") && field(other, "value") == field(toleration, "value")
        }
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn of_two_tolerations_the_one_that_includes_the_other_is_kept() {
        let all = json!({"operator": "Exists"});
        let (a, b) =
            (json!({"key": "a", "operator": "Exists"}), json!({"key": "a", "operator": "Equal", "value": "b"}));
        let list = |list: &[&Value]| list.iter().map(|v| (*v).clone()).collect::<Vec<_>>();
        assert_eq!(merged(&list(&[&a, &b]), &list(&[&all])), list(&[&all]));
        assert_eq!(merged(&list(&[&b]), &list(&[&a])), list(&[&a]));
        assert_eq!(merged(&list(&[&b]), &list(&[&b])), list(&[&b]));
        let timed = |seconds: u32| json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        assert_eq!(merged(&[timed(5)], &[timed(9)]), [timed(9)]);
        assert_eq!(merged(&[timed(5)], &list(&[&a])), list(&[&a]));
        let other = json!({"key": "c", "operator": "Exists"});
        assert_eq!(merged(&list(&[&a]), &list(&[&other])), list(&[&a, &other]));
    }
}
