//! Quality of service of a pod.

use substrate::json::Value;

use crate::fields::value::{at, list};

/// Returns `Guaranteed`, `Burstable` or `BestEffort` (`pkg/apis/core/helper/qos`).
pub fn qos_class(pod: &Value) -> &'static str {
    let containers = list(pod, &["spec", "containers"]).iter().chain(list(pod, &["spec", "initContainers"]));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let amount = |kind: &str, resource: &str| {
            at(container, &["resources", kind, resource])
                .and_then(Value::as_str)
                .filter(|q| *q != "0")
                .map(str::to_owned)
        };
        for resource in ["cpu", "memory"] {
            let (limit, request) = (amount("limits", resource), amount("requests", resource));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
