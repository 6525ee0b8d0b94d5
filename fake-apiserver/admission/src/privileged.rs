//! Privileged containers, which kube-apiserver refuses without `--allow-privileged` (`ValidateSecurityContext`).

use substrate::json::Value;

use api_model::fields::FieldError;
use api_model::fields::value::{at, list};
use api_model::kinds::Kind;

/// Lists of containers in the spec of a pod.
const CONTAINERS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

/// Returns an error for each privileged container.
pub fn check(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let path: &[&str] = match (kind.group, kind.kind) {
        ("", "Pod") => &["spec"],
        ("", "PodTemplate") => &["template", "spec"],
        ("", "ReplicationController")
        | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => &["spec", "template", "spec"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return Vec::new(),
    };
    let Some(spec) = at(object, path) else { return Vec::new() };
    let mut errors = Vec::new();
    for field in CONTAINERS {
        for (i, container) in list(spec, &[field]).iter().enumerate() {
            if at(container, &["securityContext", "privileged"]) == Some(&Value::Bool(true)) {
                let place = format!("{}.{field}[{i}].securityContext.privileged", path.join("."));
                errors.push(FieldError::forbidden(place, "disallowed by cluster policy"));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;
    use api_model::kinds;

    #[test]
    fn privileged_containers_are_found_in_pods_and_templates() {
        let privileged = json!({"name": "c", "securityContext": {"privileged": true}});
        let pod = json!({"spec": {"containers": [{"name": "a"}, privileged]}});
        let errors = check(kinds::PODS, &pod);
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].to_string(),
            "spec.containers[1].securityContext.privileged: Forbidden: disallowed by cluster policy"
        );
        let deployments = kinds::find("apps", "v1", "deployments").unwrap();
        let set = json!({"spec": {"template": {"spec": {"initContainers": [privileged]}}}});
        assert_eq!(check(deployments, &set).len(), 1);
        assert!(check(kinds::NODES, &set).is_empty());
    }
}
