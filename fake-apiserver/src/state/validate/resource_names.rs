//! Names of compute resources (`validateResourceName`, `validateContainerResourceName`, `pkg/apis/core/helper`).

use super::{names, refuse};
use crate::state::FieldError;

/// Resources of containers without a domain.
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Other resources without a domain.
const OTHERS: [&str; 17] = [
    "configmaps",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];
const HUGE_PAGES: &str = "hugepages-";

/// Checks that a name is qualified, or that of a standard resource.
pub(in crate::state) fn resource(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let is_known = name.contains('/') || is_standard(name);
    let mut why = names::qualified(name);
    if why.is_empty() && !is_known {
        why.push("must be a standard resource type or fully qualified".to_owned());
    }
    refuse(name, field, why, errors);
}

/// Returns true for a resource without a domain that a quota may limit (`IsStandardQuotaResourceName`).
pub(in crate::state) fn is_of_quotas(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

fn is_standard(name: &str) -> bool {
    let is_page = name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE_PAGES);
    OF_CONTAINERS.contains(&name) || OTHERS.contains(&name) || is_page
}

/// Checks the name of a resource of a container.
pub(in crate::state) fn of_container(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    resource(name, field, errors);
    let is_standard = OF_CONTAINERS.contains(&name) || name.starts_with(HUGE_PAGES);
    let why = if !name.contains('/') {
        (!is_standard).then_some("must be a standard resource for containers")
    } else {
        (!is_native(name) && !is_extended(name)).then_some("doesn't follow extended resource name standard")
    };
    errors.extend(why.map(|why| FieldError::invalid(field, &name.into(), why)));
}

/// Returns true if a container gets whole units of a resource (`IsIntegerResourceName`).
pub(in crate::state) fn is_counted(name: &str) -> bool {
    !is_native(name) && is_extended(name)
}

/// Returns true if containers may get more of a resource than they request (`IsOvercommitAllowed`).
pub(in crate::state) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// Returns true for a resource of Kubernetes itself (`IsNativeResource`).
pub(in crate::state) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !name.starts_with("requests.") && names::qualified(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_resources_are_standard_or_qualified() {
        let of = |check: &dyn Fn(&mut Vec<FieldError>)| {
            let mut errors = Vec::new();
            check(&mut errors);
            errors.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        let any = |name: &str| of(&|errors| resource(name, "f", errors));
        let container = |name: &str| of(&|errors| of_container(name, "f", errors));
        for name in ["cpu", "storage", "requests.hugepages-2Mi", "example.com/gpu"] {
            assert!(any(name).is_empty(), "{name}");
        }
        assert_eq!(any("gpu"), ["must be a standard resource type or fully qualified"]);
        for name in ["memory", "hugepages-2Mi", "example.com/gpu", "kubernetes.io/batch-cpu"] {
            assert!(container(name).is_empty(), "{name}");
        }
        assert_eq!(container("storage"), ["must be a standard resource for containers"]);
        assert_eq!(container("requests.example.com/gpu"), ["doesn't follow extended resource name standard"]);
        assert_eq!(container("gpu").len(), 2);
        let overcommitted = ["cpu", "hugepages-2Mi", "example.com/gpu"].map(may_be_overcommitted);
        assert_eq!(overcommitted, [true, false, false]);
    }
}
