//! ResourceQuotas: the limits of a namespace (admission `ResourceQuota`), and their use.

mod usage;

use std::sync::Arc;

use api_model::fields::quantity::Quantity;
use api_model::fields::value::{self, name};
use api_model::key_range::{prefix, within};
use api_model::kinds::{self, Kind};
use api_model::object::{Key, Object};
use api_model::status::Status;
use substrate::Now;
use substrate::json::{Value, json};

pub use self::usage::{Amounts, amounts, in_scope, of_containers, usage};
use self::usage::{add, is_counted, unnamed};
use crate::Cluster;

/// A quota that a write changes: its key and its new value.
pub type Charge = (Key, Value);

/// Seeded bugs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defects {
    /// An update is charged with all that the object uses.
    pub charges_in_full: bool,
    /// Only the first quota of a namespace is charged.
    pub charges_one_quota: bool,
}

/// Returns the quotas of a namespace.
pub fn quotas(cluster: &dyn Cluster, namespace: &str) -> Vec<(Key, Arc<Object>)> {
    let prefix = prefix(Some(namespace));
    let quotas = within(cluster.objects(kinds::RESOURCE_QUOTAS), &prefix, &prefix);
    quotas.map(|(key, quota)| (key.clone(), quota.clone())).collect()
}

/// Returns the quotas of a namespace as they are after a write.
///
/// # Errors
/// 403 if one of them does not allow the write.
pub fn charge(
    cluster: &dyn Cluster,
    now: Now,
    kind: &Kind,
    object: &Value,
    old: Option<&Value>,
    defects: Defects,
) -> Result<Vec<Charge>, Status> {
    if cluster.objects(kinds::RESOURCE_QUOTAS).is_empty() || !kind.namespaced || !is_judged(kind, object, old) {
        return Ok(Vec::new());
    }
    let mut charges = Vec::new();
    for (key, quota) in quotas(cluster, value::namespace(object)) {
        let quota = &quota.value;
        let hard = amounts(quota, &["status", "hard"]);
        let mine: Vec<&str> = hard.keys().map(String::as_str).filter(|r| is_counted(kind, r)).collect();
        if mine.is_empty() || !in_scope(quota, kind, object) {
            continue;
        }
        let refuse = |why: String| Err(Status::forbidden(kind, name(object), &why));
        if let Some(why) = unnamed(kind, object, mine.iter().copied()) {
            return refuse(format!("failed quota: {}: {why}", name(quota)));
        }
        let used = amounts(quota, &["status", "used"]);
        if mine.iter().any(|resource| !used.contains_key(*resource)) {
            return refuse(format!("status unknown for quota: {}, resources: {}", name(quota), mine.join(",")));
        }
        let mut asked = usage(kind, object, now.wall);
        if let Some(old) = old.filter(|old| in_scope(quota, kind, old)) {
            let before = usage(kind, old, now.wall);
            for (resource, amount) in &mut asked {
                let more = amount.less(before.get(resource).copied().unwrap_or(Quantity::ZERO));
                if more.nanos() <= 0 || !defects.charges_in_full {
                    *amount = more;
                }
            }
        }
        asked.retain(|resource, amount| amount.nanos() != 0 && hard.contains_key(resource));
        if asked.is_empty() {
            continue;
        }
        let mut after = used.clone();
        add(&mut after, &asked);
        let over = |resource: &String| matches!((after.get(resource), hard.get(resource)), (Some(after), Some(hard)) if after.nanos() > hard.nanos());
        let exceeded: Vec<&String> = asked.keys().filter(|resource| over(resource)).collect();
        if !exceeded.is_empty() {
            let of = |amounts: &Amounts| {
                let texts = exceeded.iter().filter_map(|r| Some(format!("{r}={}", amounts.get(*r)?.text()?)));
                texts.collect::<Vec<_>>().join(",")
            };
            return refuse(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                name(quota),
                of(&asked),
                of(&used),
                of(&hard)
            ));
        }
        charges.push((key, with_used(quota, &after)));
        if defects.charges_one_quota {
            break;
        }
    }
    Ok(charges)
}

/// Returns a quota with its present use.
pub fn counted(cluster: &dyn Cluster, now: Now, quota: &Value) -> Value {
    let hard = amounts(quota, &["spec", "hard"]);
    let prefix = prefix(Some(value::namespace(quota)));
    let mut used = Amounts::new();
    let mut known = Vec::new();
    for kind in cluster.stored_kinds().into_iter().filter(|kind| kind.namespaced) {
        let mine: Vec<&String> = hard.keys().filter(|resource| is_counted(&kind, resource)).collect();
        if mine.is_empty() {
            continue;
        }
        known.extend(mine);
        for (_, object) in within(cluster.objects(kinds::stored(&kind)), &prefix, &prefix) {
            if in_scope(quota, &kind, &object.value) {
                add(&mut used, &usage(&kind, &object.value, now.wall));
            }
        }
    }
    used.retain(|resource, _| hard.contains_key(resource));
    for resource in known {
        used.entry(resource.clone()).or_insert(Quantity::ZERO);
    }
    let mut reported = with_used(quota, &used);
    if let Some(status) = value::map_mut(&mut reported, "status") {
        status.insert("hard", quota["spec"]["hard"].clone());
    }
    reported
}

/// Returns true if quotas apply to a write (the evaluators' `Handles`): to creations, and to the updates by which pods,
/// claims and services use more.
fn is_judged(kind: &Kind, object: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return true };
    match (kind.group, kind.plural) {
        ("", "persistentvolumeclaims" | "services") => true,
        ("", "pods") => {
            let deadline = |pod: &Value| value::int(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|s| s >= 0);
            let resources = |pod: &Value| -> Vec<Value> {
                let containers = value::list(pod, &["spec", "containers"]);
                containers.iter().map(|container| container["resources"].clone()).collect()
            };
            deadline(object) != deadline(old) || resources(object) != resources(old)
        }
        _ => false,
    }
}

/// Returns a quota with another use.
pub fn with_used(quota: &Value, used: &Amounts) -> Value {
    let mut reported = quota.clone();
    let used: substrate::json::Map =
        used.iter().filter_map(|(resource, amount)| Some((resource.clone(), amount.text()?.into()))).collect();
    let status = reported.as_object_mut().map(|quota| quota.entry("status").or_insert_with(|| json!({})));
    if let Some(status) = status.and_then(Value::as_object_mut) {
        status.insert("used", used.into());
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use api_model::fields::value::text;

    #[test]
    fn quotas_are_kept_in_canonical_form() {
        let quota = json!({"metadata": {"name": "q"}});
        let used = Amounts::from([("requests.storage".to_owned(), Quantity::parse("2048Mi").unwrap())]);
        assert_eq!(text(&with_used(&quota, &used), &["status", "used", "requests.storage"]), "2Gi");
    }
}
