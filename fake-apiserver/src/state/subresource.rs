//! Binding and eviction of pods (`registry/core/pod/storage`).

use substrate::Now;
use substrate::json::{Map, Value, json};

use super::command::{DeleteOptions, Part, Reply, Target};
use super::key_range::{prefix, within};
use super::matching::Attributes;
use super::object::{Object, key};
use super::status::{Status, created};
use super::value::{self, is_terminating, list, resource_version, text, uid};
use super::{FieldError, Store, selector};
use crate::kinds::{self, Kind};

/// Node labels that a binding copies to the pod (admission `PodTopologyLabels`).
const TOPOLOGY_LABELS: &[&str] = &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

impl Store {
    /// Sets a pod's node, once.
    pub(super) fn bind(
        &mut self,
        now: Now,
        namespace: &str,
        name: &str,
        binding: &Value,
        dry_run: bool,
    ) -> Result<Reply, Status> {
        let pods = kinds::PODS;
        let key = key(Some(namespace), name);
        self.check_posted(pods, "binding", (namespace, name), binding)?;
        check_binding(name, binding)?;
        let pod = self.get(pods, &key).map(Object::unfolded).ok_or_else(|| Status::not_found(pods, name))?;
        let refuse = |why: String| Err(Status::binding_conflict(name, &why));
        let (sent, found) = (uid(binding), uid(&pod.value));
        if !sent.is_empty() && sent != found {
            return refuse(format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {found}"));
        }
        let (sent, found) = (resource_version(binding), resource_version(&pod.value));
        if !sent.is_empty() && sent != found {
            return refuse(format!(
                "Precondition failed: ResourceVersion in precondition: {sent}, ResourceVersion in object meta: {found}"
            ));
        }
        if is_terminating(&pod.value) {
            return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let node = text(&pod.value, &["spec", "nodeName"]);
        if !node.is_empty() && !self.defects.binds_again {
            return refuse(format!("pod {name} is already assigned to node \"{node}\""));
        }
        if !list(&pod.value, &["spec", "schedulingGates"]).is_empty() {
            return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let chosen = text(binding, &["target", "name"]);
        let mut bound = pod.value.clone();
        if let Some(spec) = value::map_mut(&mut bound, "spec") {
            spec.insert("nodeName", chosen.into());
            if self.defects.binds_bare {
                spec.remove("tolerations");
            }
        }
        self.merge_binding_metadata(&mut bound, binding, chosen);
        // Binding clears the nomination: the scheduler no longer reserves room on the nominated node.
        if let Some(status) = value::map_mut(&mut bound, "status") {
            status.remove("nominatedNodeName");
        }
        set_scheduled(&mut bound, now);
        if !dry_run {
            self.put(now, pods, key, bound);
        }
        Ok(Reply::Status(created()))
    }

    /// Runs the policies on an object that is posted to a subresource.
    pub(super) fn check_posted(
        &mut self,
        kind: &Kind,
        subresource: &'static str,
        (namespace, name): (&str, &str),
        object: &Value,
    ) -> Result<(), Status> {
        self.check_policies(&Attributes {
            kind,
            subresource,
            named: name,
            operation: "CREATE",
            namespace: Some(namespace),
            object,
            old: &Value::Null,
        })
    }

    /// Merges labels and annotations of the binding, and the node's topology labels, into the pod.
    fn merge_binding_metadata(&self, pod: &mut Value, binding: &Value, node: &str) {
        let of = |field: &str| value::at(binding, &["metadata", field]).and_then(Value::as_object).cloned();
        let mut labels = of("labels").unwrap_or_default();
        if let Some(node) = self.get(kinds::NODES, node) {
            for label in TOPOLOGY_LABELS {
                if let Some(found) = value::at(&node.value, &["metadata", "labels", label]) {
                    labels.insert(*label, found.clone());
                }
            }
        }
        for (field, added) in [("labels", labels), ("annotations", of("annotations").unwrap_or_default())] {
            if added.is_empty() {
                continue;
            }
            let slot = value::metadata(pod).entry(field).or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = slot.as_object_mut() {
                map.extend(added);
            }
        }
    }

    /// Deletes a pod on behalf of an Eviction, if its disruption budget allows it.
    pub(super) fn evict(
        &mut self,
        now: Now,
        namespace: &str,
        name: &str,
        eviction: &Value,
        dry_run: bool,
    ) -> Result<Reply, Status> {
        let sent = value::name(eviction);
        if !sent.is_empty() && sent != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        self.check_posted(kinds::PODS, "eviction", (namespace, name), eviction)?;
        let options = eviction.get("deleteOptions").unwrap_or(&Value::Null);
        let mut options = DeleteOptions::parse(options)?;
        options.dry_run |= dry_run;
        if self.defects.forgets_eviction_grace {
            options.grace_period_seconds = None;
        }
        let target = Target {
            kind: kinds::PODS.into(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
            part: Part::Main,
        };
        let dry_run = options.dry_run;
        let spends = !dry_run || self.defects.spends_dry_runs;
        if let Some(budget) = self.spend(now, &target, &options)?.filter(|_| spends) {
            let key = key(Some(namespace), value::name(&budget));
            self.put(now, kinds::POD_DISRUPTION_BUDGETS, key, budget);
        }
        if !dry_run && !self.defects.evicts_unmarked {
            self.mark_evicted(now, &target, &mut options);
        }
        self.delete_for(now, &target, options, false)?;
        Ok(Reply::Status(created()))
    }

    /// Sets the condition DisruptionTarget of a pod before its eviction deletes it (`addConditionAndDeletePod`). A pod that
    /// the preconditions exclude stays as it is: the deletion is refused. A required version becomes the new one.
    fn mark_evicted(&mut self, now: Now, target: &Target, options: &mut DeleteOptions) {
        let Some(pod) = self.get(kinds::PODS, &target.key()).map(Object::unfolded) else { return };
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        if !is(&options.uid, uid(&pod.value)) || !is(&options.resource_version, resource_version(&pod.value)) {
            return;
        }
        let mut marked = pod.value.clone();
        if !set_evicted(&mut marked, now) {
            return;
        }
        self.put(now, kinds::PODS, target.key(), marked);
        if options.resource_version.is_some() {
            let written = self.get(kinds::PODS, &target.key());
            options.resource_version = written.map(|pod| resource_version(&pod.value).to_owned());
        }
    }

    /// Returns the disruption budget of a pod with one disruption less; `None` if no budget applies
    /// (`registry/core/pod/storage/eviction.go`).
    fn spend(&self, now: Now, target: &Target, options: &DeleteOptions) -> Result<Option<Value>, Status> {
        let Some(pod) = self.get(kinds::PODS, &target.key()) else { return Ok(None) };
        let phase = text(&pod.value, &["status", "phase"]);
        if matches!(phase, "Pending" | "Succeeded" | "Failed") || is_terminating(&pod.value) {
            return Ok(None);
        }
        if options.uid.as_deref().is_some_and(|wanted| wanted != uid(&pod.value)) {
            return Ok(None);
        }
        let prefix = prefix(target.namespace.as_deref());
        let labels = &pod.value["metadata"]["labels"];
        let budgets: Vec<&Value> = within(self.kind_store(kinds::POD_DISRUPTION_BUDGETS).objects(), &prefix, &prefix)
            .map(|(_, budget)| &*budget.value)
            .filter(|budget| selector::matches(&budget["spec"]["selector"], labels))
            .collect();
        let [budget] = budgets[..] else {
            return if budgets.is_empty() {
                Ok(None)
            } else {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                Err(Status::new(500, "InternalError", why))
            };
        };
        // A pod that is not ready can be evicted freely if the budget says so or has enough healthy pods.
        let ready =
            list(&pod.value, &["status", "conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        let count = |field: &str| value::int(budget, &["status", field]).unwrap_or(0);
        let policy = text(budget, &["spec", "unhealthyPodEvictionPolicy"]);
        if !ready
            && (policy == "AlwaysAllow"
                || self.defects.frees_unready
                || (count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0))
        {
            return Ok(None);
        }
        let name = value::name(budget);
        let is_old = count("observedGeneration") < value::int(budget, &["metadata", "generation"]).unwrap_or(0);
        if is_old && !self.defects.trusts_old_budgets {
            let why = format!("The disruption budget {name} is still being processed by the server.");
            return Err(Status::disrupted(why, 10));
        }
        if count("disruptionsAllowed") <= 0 && self.defects.ignores_budgets {
            return Ok(None);
        }
        if count("disruptionsAllowed") <= 0 {
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                count("desiredHealthy"),
                count("currentHealthy")
            );
            return Err(Status::disrupted(why, 0));
        }
        if self.defects.keeps_budgets {
            return Ok(None);
        }
        let mut spent = budget.clone();
        if let Some(status) = value::map_mut(&mut spent, "status") {
            status.insert("disruptionsAllowed", (count("disruptionsAllowed") - 1).into());
            let pods = status.entry("disruptedPods").or_insert_with(|| json!({}));
            if let Some(pods) = pods.as_object_mut() {
                pods.insert(target.name.clone(), value::time(now.wall).into());
            }
            if count("disruptionsAllowed") == 1 {
                set_exhausted(status, now);
            }
        }
        Ok(Some(spent))
    }
}

impl DeleteOptions {
    /// Parses a DeleteOptions body; null means that there is no body.
    ///
    /// # Errors
    /// 400 for a value of the wrong type, 422 for an invalid one.
    pub fn parse(body: &Value) -> Result<Self, Status> {
        let mut options = Self::default();
        let Some(fields) = body.as_object() else {
            return if body.is_null() { Ok(options) } else { Err(Status::bad_request("DeleteOptions must be a map")) };
        };
        let wrong = |field: &str| Status::bad_request(format!("DeleteOptions.{field}: has the wrong type"));
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            return Err(Status::bad_request(format!("the body of a DELETE must be DeleteOptions, not {kind}")));
        }
        if let Some(grace) = fields.get("gracePeriodSeconds").filter(|v| !v.is_null()) {
            options.grace_period_seconds = Some(grace.as_i64().ok_or_else(|| wrong("gracePeriodSeconds"))?);
        }
        if let Some(preconditions) = fields.get("preconditions").filter(|v| !v.is_null()) {
            let read = |field: &str| match preconditions.get(field).filter(|v| !v.is_null()) {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.to_string())),
                Some(_) => Err(wrong(&format!("preconditions.{field}"))),
            };
            options.uid = read("uid")?;
            options.resource_version = read("resourceVersion")?;
        }
        let policy = fields.get("propagationPolicy").filter(|v| !v.is_null());
        let orphan = fields.get("orphanDependents").filter(|v| !v.is_null());
        let invalid = |error| Status::invalid_type("DeleteOptions", "meta.k8s.io", "", vec![error]);
        if policy.is_some() && orphan.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            return Err(invalid(FieldError::invalid("propagationPolicy", policy.unwrap_or(&Value::Null), why)));
        }
        if let Some(policy) = policy {
            options.set_propagation(policy.as_str().unwrap_or_default())?;
        }
        if let Some(orphan) = orphan {
            let orphan = orphan.as_bool().ok_or_else(|| wrong("orphanDependents"))?;
            options.propagation =
                Some(if orphan { super::Propagation::Orphan } else { super::Propagation::Background });
        }
        if let Some(dry_run) = fields.get("dryRun").and_then(Value::as_array).filter(|l| !l.is_empty()) {
            if dry_run.iter().any(|v| v != "All") {
                return Err(invalid(FieldError::not_supported("dryRun", &json!(dry_run), &["All"])));
            }
            options.dry_run = true;
        }
        Ok(options)
    }

    /// Sets the propagation by its name.
    ///
    /// # Errors
    /// 422 for an unknown name.
    pub fn set_propagation(&mut self, policy: &str) -> Result<(), Status> {
        self.propagation = Some(match policy {
            "Orphan" => super::Propagation::Orphan,
            "Background" => super::Propagation::Background,
            "Foreground" => super::Propagation::Foreground,
            other => {
                let error = FieldError::not_supported(
                    "propagationPolicy",
                    &other.into(),
                    &["Foreground", "Background", "Orphan", "nil"],
                );
                return Err(Status::invalid_type("DeleteOptions", "meta.k8s.io", "", vec![error]));
            }
        });
        Ok(())
    }
}

/// Sets the condition of a budget that allows no further eviction (`UpdateDisruptionAllowedCondition`).
fn set_exhausted(status: &mut Map, now: Now) {
    let generation = status.get("observedGeneration").cloned().unwrap_or(Value::Null);
    let mut exhausted = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": value::time(now.wall),
        "observedGeneration": generation,
    });
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = slot.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == "DisruptionAllowed") {
        Some(condition) => {
            if condition["status"] == "False" {
                exhausted["lastTransitionTime"] = condition["lastTransitionTime"].clone();
            }
            *condition = exhausted;
        }
        None => conditions.push(exhausted),
    }
}

fn check_binding(name: &str, binding: &Value) -> Result<(), Status> {
    let mut errors = Vec::new();
    let kind = text(binding, &["target", "kind"]);
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported("target.kind", &kind.into(), &["Node", "<empty>"]));
    }
    if text(binding, &["target", "name"]).is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    let sent = value::name(binding);
    if !sent.is_empty() && sent != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid_type("Binding", "", name, errors)) }
}

/// Sets the condition of an evicted pod (`UpdatePodCondition`). Returns false if the pod has it.
fn set_evicted(pod: &mut Value, now: Now) -> bool {
    let Some(status) = value::map_mut(pod, "status") else { return false };
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = slot.as_array_mut() else { return false };
    let mut evicted = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": value::time(now.wall),
    });
    let Some(condition) = conditions.iter_mut().find(|c| c["type"] == "DisruptionTarget") else {
        conditions.push(evicted);
        return true;
    };
    if condition["status"] == "True" {
        evicted["lastTransitionTime"] = condition["lastTransitionTime"].clone();
    }
    let is_new = ["status", "reason", "message"].iter().any(|field| condition[*field] != evicted[*field]);
    *condition = evicted;
    is_new
}

/// Sets the condition PodScheduled to true.
fn set_scheduled(pod: &mut Value, now: Now) {
    let Some(status) = value::map_mut(pod, "status") else { return };
    let slot = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = slot.as_array_mut() else { return };
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": value::time(now.wall),
    });
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}
