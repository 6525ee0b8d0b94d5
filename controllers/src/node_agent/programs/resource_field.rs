//! Requests and limits of containers in the downward API (`pkg/api/v1/resource/helpers.go`).

use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::seen::Seen;
use crate::binder::quantity;

/// Returns a request or a limit in units of the divisor, rounded up. A limit that is not set is what the node can
/// allocate. The container is `own` if the selector names none.
///
/// # Errors
/// The reason why there is no such amount.
pub(super) fn amount(seen: &Seen<'_>, own: Option<&Container>, of: &ResourceFieldSelector) -> Result<String, String> {
    let named = of.container_name.as_deref().filter(|name| !name.is_empty());
    let spec = seen.pod.spec.iter();
    let mut all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let container = match named {
        Some(name) => all.find(|container| container.name == name),
        None => own,
    };
    let container = container.ok_or_else(|| format!("container {} not found", named.unwrap_or_default()))?;
    let resources = container.resources.as_ref();
    let (list, resource, is_limit) = match of.resource.split_once('.') {
        Some(("limits", resource)) => (resources.and_then(|all| all.limits.as_ref()), resource, true),
        Some(("requests", resource)) => (resources.and_then(|all| all.requests.as_ref()), resource, false),
        _ => return Err(format!("unsupported container resource : {}", of.resource)),
    };
    let is_cpu = resource == "cpu";
    let units = |amount: &Quantity| {
        if is_cpu { quantity::milli(amount).unwrap_or(0) } else { i128::from(quantity::value(amount)) }
    };
    let set = list.and_then(|list| list.get(resource)).map(units).filter(|amount| *amount != 0);
    let amount = set.unwrap_or(if is_limit { i128::from(seen.allocatable.get(resource)) } else { 0 });
    let whole = if is_cpu { 1000 } else { 1 };
    let divisor = of.divisor.as_ref().map(units).filter(|divisor| *divisor > 0).unwrap_or(whole);
    Ok((amount / divisor + i128::from(amount % divisor != 0)).to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Node, Pod};
    use substrate::json::{from_value, json};

    use super::super::references::References;
    use super::*;
    use crate::scheduler::resources::Resources;

    #[test]
    fn an_amount_is_rounded_up_and_a_missing_limit_is_that_of_the_node() {
        let resources = json!({ "limits": { "cpu": "1250m", "memory": "64Mi" }, "requests": { "cpu": "250m" } });
        let containers = json!([{ "name": "a", "resources": resources }, { "name": "b" }]);
        let pod: Pod = from_value(json!({ "metadata": {}, "spec": { "containers": containers } })).unwrap();
        let node: Node = from_value(json!({ "status": { "allocatable": { "cpu": "2", "memory": "4Gi" } } })).unwrap();
        let references = References::default();
        let seen = Seen {
            pod: &pod,
            host_ip: String::new(),
            references: &references,
            host_paths: false,
            published: BTreeMap::new(),
            allocatable: Resources::allocatable(&node),
        };
        let shown = |container: &str, resource: &str, divisor: Option<&str>| {
            let of = json!({ "containerName": container, "resource": resource, "divisor": divisor });
            amount(&seen, None, &from_value(of).unwrap())
        };
        assert_eq!(shown("a", "limits.cpu", None), Ok("2".to_owned()));
        assert_eq!(shown("a", "limits.cpu", Some("1m")), Ok("1250".to_owned()));
        assert_eq!(shown("a", "limits.memory", Some("1Mi")), Ok("64".to_owned()));
        assert_eq!(shown("a", "requests.cpu", None), Ok("1".to_owned()));
        assert_eq!(shown("b", "limits.memory", Some("0")), Ok((4_i64 << 30).to_string()));
        assert_eq!(shown("b", "requests.memory", None), Ok("0".to_owned()));
        assert_eq!(shown("c", "limits.cpu", None), Err("container c not found".to_owned()));
        assert_eq!(shown("a", "cpu", None), Err("unsupported container resource : cpu".to_owned()));
    }
}
