//! Privileged containers, which kube-apiserver refuses without `--allow-privileged` (`ValidateSecurityContext`).

use substrate::json::Value;

use super::value::{at, list};
use super::{FieldError, Store};
use crate::kinds::Kind;

/// Lists of containers in the spec of a pod.
const CONTAINERS: [&str; 3] = ["containers", "ephemeralContainers", "initContainers"];

impl Store {
    /// Refuses privileged containers from now on.
    pub fn forbid_privileged(&mut self) {
        self.forbids_privileged = true;
    }

    /// Returns an error for each privileged container, if they are forbidden.
    pub(super) fn check_privileged(&self, kind: &Kind, object: &Value) -> Vec<FieldError> {
        if !self.forbids_privileged {
            return Vec::new();
        }
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
}

#[cfg(test)]
mod tests {
    use substrate::Seed;
    use substrate::json::json;

    use super::super::Limits;
    use super::*;
    use crate::kinds;

    #[test]
    fn privileged_containers_are_refused_where_they_are_forbidden() {
        let mut store = Store::new(&Seed::root(1), Limits::default());
        let privileged = json!({"name": "c", "securityContext": {"privileged": true}});
        let pod = json!({"spec": {"containers": [{"name": "a"}, privileged]}});
        assert!(store.check_privileged(kinds::PODS, &pod).is_empty());
        store.forbid_privileged();
        let errors = store.check_privileged(kinds::PODS, &pod);
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].to_string(),
            "spec.containers[1].securityContext.privileged: Forbidden: disallowed by cluster policy"
        );
        let deployments = kinds::find("apps", "v1", "deployments").unwrap();
        let set = json!({"spec": {"template": {"spec": {"initContainers": [privileged]}}}});
        assert_eq!(store.check_privileged(deployments, &set).len(), 1);
        assert!(store.check_privileged(kinds::NODES, &set).is_empty());
    }
}
