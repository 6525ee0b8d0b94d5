//! Fields of a pod that its operating system does not have (`validateLinux`, `validateWindows`).

use substrate::json::Value;

use crate::state::FieldError;
use crate::state::value::{at, list};

/// Fields that a pod of Windows does not have, from its spec on, in upstream's order.
const OF_PODS: [&[&str]; 15] = [
    &["securityContext", "appArmorProfile"],
    &["securityContext", "seLinuxOptions"],
    &["hostUsers"],
    &["hostPID"],
    &["hostIPC"],
    &["securityContext", "seccompProfile"],
    &["securityContext", "fsGroup"],
    &["securityContext", "fsGroupChangePolicy"],
    &["securityContext", "sysctls"],
    &["shareProcessNamespace"],
    &["securityContext", "runAsUser"],
    &["securityContext", "runAsGroup"],
    &["securityContext", "supplementalGroups"],
    &["securityContext", "supplementalGroupsPolicy"],
    &["securityContext", "seLinuxChangePolicy"],
];

/// Fields that the security context of a container of Windows does not have, in upstream's order.
const OF_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Refuses the fields that the operating system `os` does not have.
pub(super) fn check(spec: &Value, os: &str, errors: &mut Vec<FieldError>) {
    let (of_pod, of_container, why): (&[&[&str]], &[&str], &str) = match os {
        "linux" => (
            &[&["securityContext", "windowsOptions"]],
            &["windowsOptions"],
            "windows options cannot be set for a linux pod",
        ),
        "windows" => (&OF_PODS, &OF_CONTAINERS, "cannot be set for a windows pod"),
        _ => return,
    };
    for path in of_pod.iter().filter(|path| is_set(spec, path)) {
        errors.push(FieldError::forbidden(format!("spec.{}", path.join(".")), why));
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in list(spec, &[kind]).iter().enumerate() {
            for field in of_container.iter().filter(|field| is_set(container, &["securityContext", **field])) {
                errors.push(FieldError::forbidden(format!("spec.{kind}[{i}].securityContext.{field}"), why));
            }
        }
    }
}

fn is_set(object: &Value, path: &[&str]) -> bool {
    match path {
        ["hostPID" | "hostIPC"] => at(object, path).is_some_and(|value| *value == true),
        [.., "sysctls"] => !list(object, path).is_empty(),
        _ => at(object, path).is_some_and(|value| !value.is_null()),
    }
}
