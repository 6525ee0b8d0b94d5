//! ResourceQuotas: the limits of a namespace (admission `ResourceQuota`), and their use (kube-controller-manager
//! `resourcequota-controller`). The use is updated with each commit, so that quotas work without that controller.

mod usage;

use std::sync::Arc;

use substrate::Now;
use substrate::json::{Value, json};

pub(super) use self::usage::{Amounts, amounts, of_containers};
use self::usage::{add, in_scope, is_counted, unnamed, usage};
use super::Store;
use super::history::Event;
use super::key_range::{prefix, within};
use super::object::{Key, Object};
use super::quantity::Quantity;
use super::status::Status;
use super::value::{self, name};
use crate::kinds::{self, Kind};

/// A quota that a write changes: its key and its new value.
pub(super) type Charge = (Key, Value);

impl Store {
    fn quotas(&self, namespace: &str) -> Vec<(Key, Arc<Object>)> {
        let prefix = prefix(Some(namespace));
        let quotas = within(self.kind_store(kinds::RESOURCE_QUOTAS).objects(), &prefix, &prefix);
        quotas.map(|(key, quota)| (key.clone(), quota.clone())).collect()
    }

    /// Returns the quotas of a namespace as they are after a write.
    ///
    /// # Errors
    /// 403 if one of them does not allow the write.
    pub(super) fn charge(
        &self,
        now: Now,
        kind: &Kind,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Vec<Charge>, Status> {
        if self.kind_store(kinds::RESOURCE_QUOTAS).objects().is_empty()
            || !kind.namespaced
            || !is_judged(kind, object, old)
        {
            return Ok(Vec::new());
        }
        let mut charges = Vec::new();
        for (key, quota) in self.quotas(value::namespace(object)) {
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
                    if more.nanos() <= 0 || !self.defects.charges_in_full {
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
            if self.defects.charges_one_quota {
                break;
            }
        }
        Ok(charges)
    }

    /// Stores the quotas that a write changed.
    pub(super) fn settle_charges(&mut self, now: Now, charges: Vec<Charge>) {
        for (key, quota) in charges {
            self.put(now, kinds::RESOURCE_QUOTAS, key, quota);
        }
    }

    /// Updates quotas after a commit: counts the use of a new or changed quota, and gives back what an
    /// object used that is deleted, finished or no longer in scope.
    pub(super) fn follow_quotas(&mut self, now: Now, event: &Event) {
        if self.kind_store(kinds::RESOURCE_QUOTAS).objects().is_empty() {
            return;
        }
        let is_new = |quota: &&Arc<Object>| {
            quota.value["status"]["hard"] != quota.value["spec"]["hard"]
                && !(self.defects.keeps_limits && event.old.is_some())
        };
        if event.kind == kinds::RESOURCE_QUOTAS
            && let Some(quota) = event.new.as_ref().filter(is_new)
        {
            let reported = self.counted(now, &quota.value);
            self.put(now, kinds::RESOURCE_QUOTAS, event.key.clone(), reported);
        }
        let Some(old) = event.old.as_ref().filter(|_| event.kind.namespaced) else { return };
        let keeps = if event.new.is_none() { self.defects.keeps_charges } else { self.defects.charges_ended };
        if keeps {
            return;
        }
        let mut before = usage(&event.kind, &old.value, now.wall);
        before.retain(|_, amount| amount.nanos() != 0);
        if before.is_empty() {
            return;
        }
        let after = event.new.as_ref().map(|new| usage(&event.kind, &new.value, now.wall)).unwrap_or_default();
        let mut less = before.clone();
        for (resource, amount) in &mut less {
            *amount = amount.less(after.get(resource).copied().unwrap_or(Quantity::ZERO));
        }
        less.retain(|_, amount| amount.nanos() != 0);
        for (key, quota) in self.quotas(value::namespace(&old.value)) {
            let counts = |object: &Value| in_scope(&quota.value, &event.kind, object);
            if key == event.key && event.kind == kinds::RESOURCE_QUOTAS || !counts(&old.value) {
                continue;
            }
            // An update can take an object out of the scopes of a quota.
            let freed = if event.new.as_ref().is_some_and(|new| counts(&new.value)) { &less } else { &before };
            let mut used = amounts(&quota.value, &["status", "used"]);
            let mut changed = false;
            for (resource, amount) in freed {
                if let Some(slot) = used.get_mut(resource).filter(|slot| slot.nanos() != 0) {
                    *slot = slot.less(*amount);
                    changed = true;
                }
            }
            if changed {
                self.put(now, kinds::RESOURCE_QUOTAS, key, with_used(&quota.value, &used));
            }
        }
    }

    /// Counts the objects of a new kind for the quotas that named it before.
    pub(super) fn recount_quotas(&mut self, now: Now) {
        let quotas = self.all_with_keys(kinds::RESOURCE_QUOTAS);
        let quotas: Vec<(Key, Arc<Object>)> = quotas.map(|(key, quota)| (key.clone(), quota.clone())).collect();
        for (key, quota) in quotas {
            let used = amounts(&quota.value, &["status", "used"]);
            let hard = amounts(&quota.value, &["spec", "hard"]);
            if hard.keys().all(|resource| used.contains_key(resource)) {
                continue;
            }
            let reported = self.counted(now, &quota.value);
            if reported != *quota.value {
                self.put(now, kinds::RESOURCE_QUOTAS, key, reported);
            }
        }
    }

    /// Returns a quota with its present use.
    fn counted(&self, now: Now, quota: &Value) -> Value {
        let hard = amounts(quota, &["spec", "hard"]);
        let prefix = prefix(Some(value::namespace(quota)));
        let mut used = Amounts::new();
        let mut known = Vec::new();
        for kind in self.stored_kinds().into_iter().filter(|kind| kind.namespaced) {
            let mine: Vec<&String> = hard.keys().filter(|resource| is_counted(&kind, resource)).collect();
            if mine.is_empty() {
                continue;
            }
            known.extend(mine);
            for (_, object) in within(self.kind_store(kinds::stored(&kind)).objects(), &prefix, &prefix) {
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

fn with_used(quota: &Value, used: &Amounts) -> Value {
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
    use super::super::value::text;
    use super::*;

    #[test]
    fn quotas_are_kept_in_canonical_form() {
        let quota = json!({"metadata": {"name": "q"}});
        let used = Amounts::from([("requests.storage".to_owned(), Quantity::parse("2048Mi").unwrap())]);
        assert_eq!(text(&with_used(&quota, &used), &["status", "used", "requests.storage"]), "2Gi");
    }
}
