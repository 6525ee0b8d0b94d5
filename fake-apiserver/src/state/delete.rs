//! DELETE (apiserver `registry/rest/delete.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use substrate::Now;
use substrate::json::{Value, json};

use super::command::{DeleteOptions, Propagation, Reply, Target};
use super::matching::Attributes;
use super::object::Object;
use super::selector::Selector;
use super::status::{Status, success};
use super::value::{self, finalizers, int, is_terminating, resource_version, text, uid};
use super::{ListOptions, Part, Store, strategy};
use crate::kinds::{self, Kind, KindRef};

/// Finalizer by which the garbage collector removes dependents first.
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer by which the garbage collector releases dependents.
const ORPHAN: &str = "orphan";
/// Kinds whose DELETE answers with the object (`ReturnDeletedObject` of their stores); others answer with a Status.
const RETURNED: &[&str] = &[
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "DeviceClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceQuota",
    "ResourceSlice",
    "Service",
    "ServiceAccount",
    "StorageClass",
    "VolumeAttachment",
    "VolumeAttributesClass",
];
/// Namespaces that a cluster cannot do without (`NamespaceLifecycle`).
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

impl Store {
    pub(super) fn delete(&mut self, now: Now, target: &Target, options: DeleteOptions) -> Result<Reply, Status> {
        self.delete_for(now, target, options, true)
    }

    /// Deletes an object. Policies on DELETE are checked if `is_asked_for`; an eviction passes false, because policies
    /// saw it already.
    pub(super) fn delete_for(
        &mut self,
        now: Now,
        target: &Target,
        options: DeleteOptions,
        is_asked_for: bool,
    ) -> Result<Reply, Status> {
        let forgets_orphans = self.defects.forgets_orphans && options.propagation == Some(Propagation::Orphan);
        let options = if forgets_orphans { DeleteOptions { propagation: None, ..options } } else { options };
        let served = &target.kind;
        let kind = kinds::stored(served);
        let key = target.key();
        if kind == kinds::NAMESPACES && IMMORTAL.contains(&target.name.as_str()) {
            return Err(Status::forbidden(kind, &target.name, "this namespace may not be deleted"));
        }
        let old = self.get(kind, &key).map(Object::unfolded).ok_or_else(|| Status::not_found(served, &target.name))?;
        if !self.defects.ignores_preconditions {
            check_preconditions(kind, &target.name, &old, &options)?;
        }
        if is_asked_for {
            self.check_policies(&Attributes {
                kind: served,
                subresource: "",
                named: "",
                operation: "DELETE",
                namespace: target.namespace.as_deref(),
                object: &Value::Null,
                old: &old.value,
            })?;
        }
        // A definition waits for its objects.
        let waits =
            kind == kinds::CUSTOM_RESOURCE_DEFINITIONS && !is_terminating(&old.value) && self.has_objects(&old.value);
        let held = waits.then(|| Self::held(&old.value));
        let mut outcome = mark(kind, held.as_ref().unwrap_or(&old.value), &options, now.wall);
        if self.defects.ignores_finalizers && kind != kinds::PODS && kind != kinds::NAMESPACES {
            outcome.gone = true;
        }
        if self.defects.ignores_grace && kind == kinds::PODS {
            outcome.gone = finalizers(&outcome.object).is_empty();
        }
        if options.dry_run {
            return Ok(answer(served, &Object::at(outcome.object, old.revision), outcome.gone));
        }
        let mut object = old;
        if outcome.changed {
            object = self.put(now, kind, key.clone(), outcome.object);
        }
        if outcome.gone
            && let Some(last) = self.remove(kind, &key)
        {
            object = last;
        }
        Ok(answer(served, &object, outcome.gone))
    }

    pub(super) fn delete_collection(
        &mut self,
        now: Now,
        kind: &KindRef,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteOptions,
    ) -> Result<Reply, Status> {
        let stored = kinds::stored(kind);
        let items = self.list(stored, namespace, selector, &ListOptions::default())?.items;
        for object in &items {
            // Parsed for this call only: the history still has this object without a tree.
            let tree = object.value.read();
            let target = Target {
                kind: kind.clone(),
                namespace: kind.namespaced.then(|| value::namespace(&tree).to_owned()),
                name: value::name(&tree).to_owned(),
                part: Part::Main,
            };
            match self.delete(now, &target, options.clone()) {
                // Gone in the meantime, for instance with its namespace.
                Err(status) if status.code == 404 => {}
                other => {
                    other?;
                }
            }
        }
        Ok(Reply::List(items))
    }
}

fn check_preconditions(kind: &Kind, name: &str, old: &Object, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |why: String| {
        let qualified =
            if kind.group.is_empty() { kind.kind.to_owned() } else { format!("{}.{}", kind.kind, kind.group) };
        Status::conflict_of(&qualified, name, &why)
    };
    let found = uid(&old.value);
    if let Some(wanted) = options.uid.as_deref().filter(|u| *u != found) {
        return Err(conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). The object might have \
             been deleted and then recreated"
        )));
    }
    let found = resource_version(&old.value);
    if let Some(wanted) = options.resource_version.as_deref().filter(|v| *v != found) {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Effect of a DELETE on an object.
struct Outcome {
    object: Value,
    changed: bool,
    gone: bool,
}

fn mark(kind: &Kind, old: &Value, options: &DeleteOptions, now: Timestamp) -> Outcome {
    let mut object = old.clone();
    let graceful = kind == kinds::PODS;
    if graceful && is_terminating(old) {
        // A running deletion can only be shortened.
        let running = int(old, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        let wanted = options.grace_period_seconds.map(|g| if g < 0 { 1 } else { g });
        if wanted.is_none_or(|wanted| wanted >= running) {
            return Outcome { object, changed: false, gone: false };
        }
        let period = wanted.unwrap_or(0);
        let deadline = text(old, &["metadata", "deletionTimestamp"])
            .parse::<Timestamp>()
            .ok()
            .and_then(|t| t.checked_sub(SignedDuration::from_secs(running - period)).ok())
            .unwrap_or(now);
        set_deletion(&mut object, deadline, period);
        let gone = period == 0 && finalizers(old).is_empty();
        return Outcome { object, changed: true, gone };
    }
    let finalizers_changed = set_propagation(&mut object, options.propagation.or_else(|| usual_propagation(kind)));
    let held = !finalizers(&object).is_empty() || strategy::holds(kind, &object);
    if graceful {
        let period = grace_period(old, options);
        set_deletion(&mut object, now.checked_add(SignedDuration::from_secs(period)).unwrap_or(now), period);
        bump_generation(&mut object);
        return Outcome { object, changed: true, gone: period == 0 && !held };
    }
    if !held {
        return Outcome { object, changed: false, gone: true };
    }
    let first = !is_terminating(old);
    if first {
        set_deletion(&mut object, now, 0);
        bump_generation(&mut object);
    }
    if kind == kinds::NAMESPACES {
        // Namespaces are kept by spec.finalizers, not by a grace period.
        value::metadata(&mut object).remove("deletionGracePeriodSeconds");
        if let Some(status) = value::map_mut(&mut object, "status") {
            status.insert("phase", "Terminating".into());
        }
    }
    Outcome { object, changed: first || finalizers_changed, gone: false }
}

/// Returns the grace period of a pod (`podStrategy.CheckGracefulDelete`).
fn grace_period(pod: &Value, options: &DeleteOptions) -> i64 {
    let finished = matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded");
    if finished || text(pod, &["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let asked = options.grace_period_seconds.or_else(|| int(pod, &["spec", "terminationGracePeriodSeconds"]));
    match asked.unwrap_or(0) {
        // Upstream counts every negative period as one second.
        negative if negative < 0 => 1,
        period => period,
    }
}

fn set_deletion(object: &mut Value, at: Timestamp, grace: i64) {
    let metadata = value::metadata(object);
    metadata.insert("deletionTimestamp", value::time(at).into());
    metadata.insert("deletionGracePeriodSeconds", grace.into());
}

fn bump_generation(object: &mut Value) {
    let metadata = value::metadata(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        metadata.insert("generation", (generation + 1).into());
    }
}

/// Returns the default propagation of a kind: two old kinds orphan their dependents.
fn usual_propagation(kind: &Kind) -> Option<Propagation> {
    (kind == kinds::JOBS || kind == kinds::REPLICATION_CONTROLLERS).then_some(Propagation::Orphan)
}

/// Adds or removes the garbage collector's finalizers. Returns true if they changed.
fn set_propagation(object: &mut Value, propagation: Option<Propagation>) -> bool {
    let before = finalizers(object).to_vec();
    let mut after = before.clone();
    match propagation {
        None => return false,
        Some(Propagation::Background) => after.retain(|f| f != FOREGROUND && f != ORPHAN),
        Some(Propagation::Foreground) => {
            after.retain(|f| f != ORPHAN);
            if !after.iter().any(|f| f == FOREGROUND) {
                after.push(FOREGROUND.into());
            }
        }
        Some(Propagation::Orphan) => {
            after.retain(|f| f != FOREGROUND);
            if !after.iter().any(|f| f == ORPHAN) {
                after.push(ORPHAN.into());
            }
        }
    }
    let metadata = value::metadata(object);
    if after.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", json!(after));
    }
    before != after
}

/// Returns the object while it still exists, and after that the answer of its kind.
fn answer(served: &Kind, object: &Arc<Object>, gone: bool) -> Reply {
    if !gone || RETURNED.contains(&served.kind) {
        return Reply::Object(object.clone());
    }
    Reply::Status(success(served, value::name(&object.value), uid(&object.value)))
}
