//! Forms of workloads and of disruption budgets at rest: their statuses count the pods that exist, and their pods are as
//! many as they ask for, with labels that they select. Pods that fit on no node have the reason in their conditions.

use substrate::json::Value;

use super::{Comparison, is_there, list, name, text};
use crate::spec::object::Kind;

/// A resource, and the loop that writes the status of its objects.
const LOOPS: &[(&str, &str)] = &[
    ("statefulsets", "statefulset-controller"),
    ("replicasets", "replicaset-controller"),
    ("deployments", "deployment-controller"),
    ("jobs", "job-controller"),
    ("poddisruptionbudgets", "disruption-controller"),
];

/// Returns a number; an absent one is zero, as in Go.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn counts(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn has_condition(object: &Value, of: &str, status: &str) -> bool {
    list(&object["status"]["conditions"]).iter().any(|has| text(&has["type"]) == of && text(&has["status"]) == status)
}

pub(super) fn is_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]))
}

fn is_ready(pod: &Value) -> bool {
    text(&pod["status"]["phase"]) == "Running" && has_condition(pod, "Ready", "True")
}

/// Returns a number, or a percentage of `total`, rounded up.
fn scaled(value: &Value, total: i64) -> Option<i64> {
    let Some(percent) = value.as_str() else { return value.as_i64() };
    let product = percent.strip_suffix('%')?.parse::<i64>().ok()?.checked_mul(total)?;
    Some(product / 100 + i64::from(product % 100 != 0))
}

/// Says that a field of a status differs from the number of what exists.
pub(super) fn differs(field: &str, reported: &Value, exist: i64, what: &str) -> Option<String> {
    let reported = number(reported);
    (reported != exist).then(|| format!("has {exist} {what}, and its status.{field} is {reported}"))
}

impl Comparison<'_> {
    /// Compares each stored workload and budget with its pods, and each pod without a node with its reason.
    pub(super) fn workloads(&mut self) {
        let stored = &self.machines.stored;
        for (resource, object) in stored.workloads.iter().filter(|(_, object)| is_there(object)) {
            let Some((_, control)) = LOOPS.iter().find(|(of, _)| of == resource) else { continue };
            if !self.has_all(&[control]) {
                continue;
            }
            let differs = self.form_of_workload(resource, object);
            let key = format!("{resource}/{}/{}", text(&object["metadata"]["namespace"]), name(object));
            self.judge(None, differs.map(|differs| format!("{key} {differs}")));
        }
        for pod in stored.pods.iter().filter(|pod| is_there(pod)) {
            let waits = text(&pod["spec"]["nodeName"]).is_empty() && list(&pod["spec"]["schedulingGates"]).is_empty();
            let scheduler = text(&pod["spec"]["schedulerName"]);
            if !waits || is_ended(pod) || scheduler != "default-scheduler" || !self.has_all(&["kube-scheduler"]) {
                continue;
            }
            let missing = (!has_condition(pod, "PodScheduled", "False")).then(|| {
                let key = format!("pod/{}/{}", text(&pod["metadata"]["namespace"]), name(pod));
                format!("{key} is on no node, and has no condition PodScheduled: False")
            });
            self.judge(None, missing);
        }
    }

    fn form_of_workload(&self, resource: &str, object: &Value) -> Option<String> {
        if resource != "jobs" {
            let (seen, now) = (&object["status"]["observedGeneration"], number(&object["metadata"]["generation"]));
            if number(seen) != now {
                return Some(format!("has the generation {now}, and its status is of {}", number(seen)));
            }
        }
        if let Some(kept) = self.unselected(resource, object) {
            return Some(kept);
        }
        match resource {
            "statefulsets" => self.form_of_stateful_set(object),
            "replicasets" => self.form_of_replica_set(object),
            "deployments" => self.form_of_deployment(object),
            "jobs" => self.form_of_job(object),
            _ => self.form_of_budget(object),
        }
    }

    /// Returns the pods that an object controls.
    fn pods_of(&self, object: &Value) -> Vec<&Value> {
        self.machines.stored.pods.iter().filter(|pod| is_controlled_by(pod, object)).collect()
    }

    /// Says that a workload controls an object whose labels it does not select: its controller releases such an object.
    /// Controllers leave ended pods alone. Expressions of a selector are not compared.
    fn unselected(&self, resource: &str, owner: &Value) -> Option<String> {
        let labels = owner["spec"]["selector"]["matchLabels"].as_object()?;
        let lacks = |object: &Value| {
            let has = &object["metadata"]["labels"];
            labels.iter().any(|(key, value)| has[key.as_str()] != *value)
        };
        let stored = &self.machines.stored;
        let sets = stored.workloads.iter().filter(|(of, _)| *of == "replicasets" && resource == "deployments");
        let pods = stored.pods.iter().map(|pod| ("pod", pod));
        let mut all = pods.chain(sets.map(|(_, set)| ("replicaset", set)));
        let (kind, kept) = all.find(|(_, object)| {
            is_controlled_by(object, owner) && is_there(object) && !is_ended(object) && lacks(object)
        })?;
        Some(format!("controls {kind}/{}, whose labels it does not select", name(kept)))
    }

    fn form_of_stateful_set(&self, set: &Value) -> Option<String> {
        let (spec, status, pods) = (&set["spec"], &set["status"], self.pods_of(set));
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let count = differs("replicas", &status["replicas"], counts(pods.len()), "pods")
            .or_else(|| differs("readyReplicas", &status["readyReplicas"], counts(ready), "pods that are ready"))
            .or_else(|| self.unlabelled_claim(set, &pods));
        if count.is_some() || ready < pods.len() || pods.is_empty() {
            return count;
        }
        let wanted = spec["replicas"].as_i64().unwrap_or(1);
        if counts(pods.len()) != wanted {
            return Some(format!("asks for {wanted} pods, and has {}, which are ready", pods.len()));
        }
        let rolls = text(&spec["updateStrategy"]["type"]) == "RollingUpdate";
        let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]);
        let first = number(&spec["ordinals"]["start"]) + partition;
        let ordinal = |pod: &Value| name(pod).rsplit_once('-').and_then(|(_, at)| at.parse::<i64>().ok());
        let revision = |pod: &Value| text(&pod["metadata"]["labels"]["controller-revision-hash"]).to_owned();
        let mut updated = pods.iter().filter(|pod| rolls && ordinal(pod).is_some_and(|at| at >= first));
        let old = updated.find(|pod| revision(pod) != text(&status["updateRevision"]))?;
        Some(format!("has the revision {}, and pod/{} has another", text(&status["updateRevision"]), name(old)))
    }

    /// Says that a claim of a StatefulSet's pods lacks a label of its selector. A user may have made the claim.
    fn unlabelled_claim(&self, set: &Value, pods: &[&Value]) -> Option<String> {
        let (namespace, templates) = (&set["metadata"]["namespace"], list(&set["spec"]["volumeClaimTemplates"]));
        let labels = set["spec"]["selector"]["matchLabels"].as_object()?;
        let mut names =
            pods.iter().flat_map(|pod| templates.iter().map(move |of| format!("{}-{}", name(of), name(pod))));
        names.find_map(|claim| {
            let key = format!("{}/{claim}", text(namespace));
            if self.applied_objects.of(Kind::claim(), &key).is_some() {
                return None;
            }
            let mut claims = self.machines.stored.claims.iter().filter(|of| of["metadata"]["namespace"] == *namespace);
            let found = claims.find(|of| name(of) == claim)?;
            let given = &found["metadata"]["labels"];
            let (label, _) = labels.iter().find(|(label, value)| given[label.as_str()] != **value)?;
            Some(format!("has pvc/{claim}, which lacks the label {label} of its selector"))
        })
    }

    pub(super) fn form_of_replica_set(&self, set: &Value) -> Option<String> {
        let (spec, status) = (&set["spec"], &set["status"]);
        let pods: Vec<&Value> = self.pods_of(set).into_iter().filter(|pod| is_there(pod) && !is_ended(pod)).collect();
        let ready = counts(pods.iter().filter(|pod| is_ready(pod)).count());
        let count = differs("replicas", &status["replicas"], counts(pods.len()), "pods")
            .or_else(|| differs("readyReplicas", &status["readyReplicas"], ready, "pods that are ready"));
        let at_once = number(&spec["minReadySeconds"]) == 0;
        let available = || differs("availableReplicas", &status["availableReplicas"], ready, "pods that are available");
        if let Some(count) = count.or_else(|| at_once.then(available).flatten()) {
            return Some(count);
        }
        let wanted = spec["replicas"].as_i64().unwrap_or(1);
        let fails = has_condition(set, "ReplicaFailure", "True");
        (counts(pods.len()) != wanted && !fails).then(|| format!("asks for {wanted} pods, and has {}", pods.len()))
    }

    fn form_of_deployment(&self, deployment: &Value) -> Option<String> {
        let (spec, status) = (&deployment["spec"], &deployment["status"]);
        let all = self.machines.stored.workloads.iter().filter(|(of, _)| *of == "replicasets").map(|(_, set)| set);
        let sets: Vec<&Value> = all.filter(|set| is_controlled_by(set, deployment)).collect();
        let sum = |field: &str| sets.iter().map(|set| number(&set["status"][field])).sum::<i64>();
        for field in ["replicas", "readyReplicas", "availableReplicas"] {
            if let Some(count) = differs(field, &status[field], sum(field), "pods by its ReplicaSets") {
                return Some(count);
            }
        }
        let size = |set: &Value| set["spec"]["replicas"].as_i64().unwrap_or(1);
        let wanted = spec["replicas"].as_i64().unwrap_or(1);
        let all_available = sum("availableReplicas") == sets.iter().map(|set| size(set)).sum::<i64>();
        if spec["paused"] == true || !all_available {
            return None;
        }
        let sizes: Vec<i64> = sets.iter().map(|set| size(set)).filter(|size| *size > 0).collect();
        if sizes.iter().sum::<i64>() != wanted || sizes.len() > 1 {
            return Some(format!("asks for {wanted} pods, and its ReplicaSets ask for {sizes:?}"));
        }
        let is_refused = has_condition(deployment, "Progressing", "False");
        if let Some(set) = sets.iter().find(|set| size(set) > 0 && !is_refused && !has_template(set, deployment)) {
            return Some(format!("has pods of replicaset/{}, which has another template", name(set)));
        }
        let limit = spec["revisionHistoryLimit"].as_i64().unwrap_or(10);
        let old = counts(sets.iter().filter(|set| is_there(set) && size(set) == 0).count());
        (old > limit && wanted > 0)
            .then(|| format!("has {old} old ReplicaSets, and its revisionHistoryLimit is {limit}"))
    }

    fn form_of_job(&self, job: &Value) -> Option<String> {
        let (spec, status) = (&job["spec"], &job["status"]);
        let failed = list(&status["conditions"])
            .iter()
            .find(|has| text(&has["type"]) == "Failed" && text(&has["status"]) == "True");
        let is_complete = has_condition(job, "Complete", "True");
        let is_over = failed.is_some() || is_complete;
        let runs = self.pods_of(job).into_iter().find(|pod| is_over && is_there(pod) && !is_ended(pod));
        if let Some(pod) = runs {
            return Some(format!("has ended, and pod/{} has not", name(pod)));
        }
        let (succeeded, count) = (number(&status["succeeded"]), number(&status["failed"]));
        let wanted = spec["completions"].as_i64().unwrap_or(1);
        if is_complete && spec["successPolicy"].is_null() && succeeded < wanted {
            return Some(format!("is complete with {succeeded} pods that succeeded, and asks for {wanted}"));
        }
        let limit = spec["backoffLimit"].as_i64().unwrap_or(6);
        let by_pods =
            text(&spec["template"]["spec"]["restartPolicy"]) == "Never" && spec["backoffLimitPerIndex"].is_null();
        if !by_pods {
            return None;
        }
        let by_limit = failed.is_some_and(|has| text(&has["reason"]) == "BackoffLimitExceeded");
        // Each pod that runs when the limit is exceeded counts as failed, too.
        let most = limit + spec["parallelism"].as_i64().unwrap_or(1);
        if by_limit && count <= limit {
            return Some(format!("has failed by its backoffLimit of {limit} with {count} pods that failed"));
        }
        let is_beyond =
            if by_limit { count > most && !self.present.repeats_creations } else { !is_over && count > limit };
        is_beyond.then(|| format!("has {count} pods that failed, and its backoffLimit is {limit}"))
    }

    fn form_of_budget(&self, budget: &Value) -> Option<String> {
        let (spec, status) = (&budget["spec"], &budget["status"]);
        let selector = &spec["selector"];
        let labels = selector["matchLabels"].as_object()?;
        let failed = list(&status["conditions"]).iter().any(|has| text(&has["reason"]) == "SyncFailed");
        let namespace = &budget["metadata"]["namespace"];
        let of_namespace = |(resource, object): &&(&str, Value)| {
            *resource == "poddisruptionbudgets" && object["metadata"]["namespace"] == *namespace
        };
        let budgets = self.machines.stored.workloads.iter().filter(of_namespace).count();
        // Of two budgets of a pod, upstream keeps only one up to date.
        if failed || !list(&selector["matchExpressions"]).is_empty() || budgets > 1 {
            return None;
        }
        let selects = |pod: &&Value| {
            let has = &pod["metadata"]["labels"];
            pod["metadata"]["namespace"] == *namespace && labels.iter().all(|(key, value)| has[key.as_str()] == *value)
        };
        let pods: Vec<&Value> = self.machines.stored.pods.iter().filter(selects).collect();
        if pods.iter().any(|pod| !status["disruptedPods"][name(pod)].is_null()) {
            return None;
        }
        let healthy = counts(pods.iter().filter(|pod| is_there(pod) && has_condition(pod, "Ready", "True")).count());
        let expected = number(&status["expectedPods"]);
        let (least, missing) = (&spec["minAvailable"], &spec["maxUnavailable"]);
        let count = differs("currentHealthy", &status["currentHealthy"], healthy, "pods that are ready");
        if count.is_some() {
            return count;
        }
        if least.as_i64().is_some()
            && let Some(count) = differs("expectedPods", &status["expectedPods"], counts(pods.len()), "pods")
        {
            return Some(count);
        }
        let desired = match scaled(missing, expected) {
            Some(missing) => (expected - missing).max(0),
            None => scaled(least, expected)?,
        };
        let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
        [("desiredHealthy", desired), ("disruptionsAllowed", allowed)].into_iter().find_map(|(field, wanted)| {
            let reported = number(&status[field]);
            (reported != wanted).then(|| format!("asks for status.{field} {wanted}, and it is {reported}"))
        })
    }
}

/// Returns true if a ReplicaSet has the template of its Deployment. Its labels have the hash of the template, too.
fn has_template(set: &Value, deployment: &Value) -> bool {
    let (own, wanted) = (&set["spec"]["template"], &deployment["spec"]["template"]);
    let mut labels = wanted["metadata"]["labels"].as_object().into_iter().flatten();
    own["spec"] == wanted["spec"]
        && own["metadata"]["annotations"] == wanted["metadata"]["annotations"]
        && labels.all(|(key, value)| own["metadata"]["labels"][key.as_str()] == *value)
}

pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let mut owners = list(&object["metadata"]["ownerReferences"]).iter();
    owners.any(|of| of["controller"] == true && of["uid"] == owner["metadata"]["uid"])
}

#[cfg(test)]
mod tests;
