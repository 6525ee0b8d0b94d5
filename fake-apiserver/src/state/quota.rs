//! ResourceQuotas in the store (kube-controller-manager `resourcequota-controller`): the use is updated with each commit,
//! so that quotas work without that controller.

use std::sync::Arc;

use api_admission::quota::{self, Charge, amounts, counted, in_scope, quotas, usage, with_used};
use substrate::Now;
use substrate::json::Value;

use super::Store;
use super::history::Event;
use super::object::{Key, Object};
use super::quantity::Quantity;
use super::status::Status;
use super::value;
use crate::kinds::{self, Kind};

impl Store {
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
        let defects = quota::Defects {
            charges_in_full: self.defects.charges_in_full,
            charges_one_quota: self.defects.charges_one_quota,
        };
        quota::charge(self, now, kind, object, old, defects)
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
            let reported = counted(self, now, &quota.value);
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
        for (key, quota) in quotas(self, value::namespace(&old.value)) {
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
            let reported = counted(self, now, &quota.value);
            if reported != *quota.value {
                self.put(now, kinds::RESOURCE_QUOTAS, key, reported);
            }
        }
    }
}
