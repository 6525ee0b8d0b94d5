//! Forms of ResourceQuotas: the status has the limits of the spec, and the use of each resource is the sum of the stored
//! objects of the namespace.
//!
//! Not compared: node ports and load balancers of Services, devices, ephemeral storage and huge pages; compute resources
//! of pods with init containers, overhead or resources of their own; and quotas with a scope that refers to other fields
//! than those of [`is_in`]. A quota with such a resource is compared for its other resources.

use fake_apiserver::fields::quantity::nanos;
use substrate::json::Value;

use super::{Comparison, is_there, key, list, text};

/// End of the names of the resources of one StorageClass.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Value of one, as quantities count.
const ONE: i128 = 1_000_000_000;
/// Kinds whose count has a name of its own besides `count/`.
const COUNTED: &[&str] = &["configmaps", "resourcequotas", "replicationcontrollers", "secrets", "services"];

impl Comparison<'_> {
    /// Compares each ResourceQuota with the objects of its namespace.
    pub(super) fn quotas(&mut self) {
        let stored = &self.machines.stored;
        for quota in stored.rare("resourcequotas") {
            let differs = self.form_of_quota(quota);
            self.judge(None, differs.map(|differs| format!("resourcequota/{} {differs}", key(quota))));
        }
    }

    fn form_of_quota(&self, quota: &Value) -> Option<String> {
        let (hard, status) = (quota["spec"]["hard"].as_object()?, &quota["status"]);
        for (resource, limit) in hard {
            let (limit, reported) = (text(limit), text(&status["hard"][resource.as_str()]));
            if nanos(limit) != nanos(reported) {
                return Some(format!("limits {resource} to {limit}, and its status.hard says `{reported}`"));
            }
        }
        hard.keys().find_map(|resource| {
            let used = self.used(quota, resource)?;
            let reported = text(&status["used"][resource.as_str()]);
            let exist = used / ONE;
            (nanos(reported) != Some(used)).then(|| match used % ONE {
                0 => format!("has {exist} {resource} in use, and its status.used says `{reported}`"),
                part => format!("has {exist}.{part:09} {resource} in use, and its status.used says `{reported}`"),
            })
        })
    }

    /// Returns what the objects of a namespace use of a resource, if that is compared.
    fn used(&self, quota: &Value, resource: &str) -> Option<i128> {
        let stored = &self.machines.stored;
        let namespace = &quota["metadata"]["namespace"];
        let is_here = |object: &&Value| object["metadata"]["namespace"] == *namespace;
        let is_scoped = !list(&quota["spec"]["scopes"]).is_empty() || !quota["spec"]["scopeSelector"].is_null();
        let mut pods = Vec::new();
        for pod in stored.pods.iter().filter(is_here) {
            if !is_there(pod) {
                // Its use ends with its grace period.
                return None;
            }
            if is_in(quota, pod)? && !["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"])) {
                pods.push(pod);
            }
        }
        let (part, of) = resource.split_once('.').unwrap_or(("requests", resource));
        match (part, of) {
            ("requests", "pods") => return Some(ONE * pods.len() as i128),
            ("requests" | "limits", "cpu" | "memory") => return pods.into_iter().map(|pod| sum(pod, part, of)).sum(),
            _ if is_scoped => return None,
            _ => {}
        }
        let claims = stored.claims.iter().filter(is_here);
        let (class, of_claims) = match resource.split_once(OF_CLASS) {
            Some((class, of)) => (Some(class), of),
            None => (None, resource),
        };
        let claims = claims.filter(|claim| class.is_none_or(|class| text(&claim["spec"]["storageClassName"]) == class));
        match of_claims {
            "persistentvolumeclaims" => Some(ONE * claims.count() as i128),
            "requests.storage" => claims.map(storage).sum(),
            _ => {
                let plural = match resource.strip_prefix("count/") {
                    Some(of) => of.split('.').next().unwrap_or(of),
                    None => COUNTED.iter().copied().find(|of| *of == resource)?,
                };
                let prefix = format!("{}/", text(namespace));
                let count = self.present.of(plural).filter(|key| key.starts_with(&prefix)).count();
                // A quota may count a kind that does not exist yet.
                (self.present.is_whole() && count > 0 && plural != "events").then_some(ONE * count as i128)
            }
        }
    }
}

/// Returns the storage that a claim requests, or that is allocated to it.
fn storage(claim: &Value) -> Option<i128> {
    let requested = nanos(text(&claim["spec"]["resources"]["requests"]["storage"]))?;
    let allocated = nanos(text(&claim["status"]["allocatedResources"]["storage"])).unwrap_or(0);
    let most = requested.max(allocated);
    Some((most + ONE - 1) / ONE * ONE)
}

/// Returns the sum of a pod's containers.
fn sum(pod: &Value, part: &str, of: &str) -> Option<i128> {
    let spec = &pod["spec"];
    if !list(&spec["initContainers"]).is_empty() || !spec["overhead"].is_null() || !spec["resources"].is_null() {
        return None;
    }
    let amount = |container: &Value| match &container["resources"][part][of] {
        Value::Null => Some(0),
        amount => nanos(text(amount)),
    };
    list(&spec["containers"]).iter().map(amount).sum()
}

/// Returns true if a quota counts a pod; `None` if the quota has another scope than these.
fn is_in(quota: &Value, pod: &Value) -> Option<bool> {
    let spec = &pod["spec"];
    let best_effort = text(&pod["status"]["qosClass"]) == "BestEffort";
    let terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    let class = text(&spec["priorityClassName"]);
    let holds = |scope: &str, operator: &str, values: &[Value]| {
        let listed = values.iter().any(|value| text(value) == class);
        match (scope, operator) {
            ("BestEffort", _) => Some(best_effort),
            ("NotBestEffort", _) => Some(!best_effort),
            ("Terminating", _) => Some(terminating),
            ("NotTerminating", _) => Some(!terminating),
            ("PriorityClass", "In") => Some(!class.is_empty() && listed),
            ("PriorityClass", "NotIn") => Some(class.is_empty() || !listed),
            ("PriorityClass", "DoesNotExist") => Some(class.is_empty()),
            ("PriorityClass", "Exists") => Some(!class.is_empty()),
            _ => None,
        }
    };
    let scopes = list(&quota["spec"]["scopes"]).iter().map(|scope| holds(text(scope), "Exists", &[]));
    let selectors = list(&quota["spec"]["scopeSelector"]["matchExpressions"]);
    let selectors =
        selectors.iter().map(|of| holds(text(&of["scopeName"]), text(&of["operator"]), list(&of["values"])));
    scopes.chain(selectors).try_fold(true, |all, one| Some(all && one?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value as Json, json};

    use super::super::tests::found_by;

    /// Returns the differences of a cluster with a claim of 1Gi, a pod of half a processor, and a quota.
    fn found(spec: &Json, hard: &Json, used: &Json) -> Vec<String> {
        let arrange = |cluster: &mut Json| {
            cluster["pods"][0]["spec"]["containers"] = json!([{ "resources": { "requests": { "cpu": "500m" } } }]);
            cluster["pods"][0]["status"] = json!({ "phase": "Running", "qosClass": "Burstable" });
            let metadata = json!({ "namespace": "default", "name": "q" });
            let status = json!({ "hard": hard, "used": used });
            cluster["rare"] = json!({ "resourcequotas": [{ "metadata": metadata, "spec": spec, "status": status }] });
        };
        found_by(&[], arrange, |comparison| comparison.quotas())
    }

    #[rstest]
    #[case("persistentvolumeclaims", "1", "0", "has 1 persistentvolumeclaims in use, and its status.used says `0`")]
    #[case("requests.storage", "1Gi", "2Gi", "has 1073741824 requests.storage in use, and its status.used says `2Gi`")]
    #[case(
        "gp3.storageclass.storage.k8s.io/persistentvolumeclaims",
        "0",
        "1",
        "has 0 gp3.storageclass.storage.k8s.io/persistentvolumeclaims in use, and its status.used says `1`"
    )]
    #[case("pods", "1", "2", "has 1 pods in use, and its status.used says `2`")]
    #[case("cpu", "500m", "1", "has 0.500000000 cpu in use, and its status.used says `1`")]
    #[case("requests.cpu", "0.5", "0", "has 0.500000000 requests.cpu in use, and its status.used says `0`")]
    #[case("limits.memory", "0", "1Gi", "has 0 limits.memory in use, and its status.used says `1Gi`")]
    fn the_use_is_the_sum_of_the_objects(
        #[case] resource: &str,
        #[case] right: &str,
        #[case] wrong: &str,
        #[case] message: &str,
    ) {
        let hard = json!({ resource: "10" });
        let found = |used: &str| found(&json!({ "hard": hard }), &hard, &json!({ resource: used }));
        assert_eq!(found(right), Vec::<String>::new());
        assert_eq!(found(wrong), [format!("resourcequota/default/q {message}")]);
    }

    #[test]
    fn the_status_has_the_limits_of_the_spec() {
        let spec = json!({ "hard": { "pods": "2" } });
        let message = "resourcequota/default/q limits pods to 2, and its status.hard says `1`";
        assert_eq!(found(&spec, &json!({ "pods": "1" }), &json!({ "pods": "1" })), [message]);
    }

    #[rstest]
    #[case(json!({ "scopes": ["BestEffort"] }), "0", "1")]
    #[case(json!({ "scopes": ["NotBestEffort", "NotTerminating"] }), "1", "0")]
    #[case(json!({ "scopeSelector": { "matchExpressions": [{ "scopeName": "PriorityClass", "operator": "Exists" }] } }), "0", "1")]
    fn a_scope_selects_pods(#[case] mut spec: Json, #[case] right: &str, #[case] wrong: &str) {
        let hard = json!({ "pods": "10" });
        spec["hard"] = hard.clone();
        assert_eq!(found(&spec, &hard, &json!({ "pods": right })), Vec::<String>::new());
        assert_eq!(found(&spec, &hard, &json!({ "pods": wrong })).len(), 1);
    }

    #[test]
    fn a_quota_with_an_unknown_scope_is_not_compared() {
        let hard = json!({ "pods": "10" });
        let spec = json!({ "hard": hard, "scopes": ["CrossNamespacePodAffinity"] });
        assert_eq!(found(&spec, &hard, &json!({ "pods": "5" })), Vec::<String>::new());
    }
}
