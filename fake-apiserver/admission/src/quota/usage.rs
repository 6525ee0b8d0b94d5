//! Quota use of an object, and the quotas that count it (`pkg/quota/v1/evaluator/core`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use substrate::json::{Text, Value};

use api_model::fields::quantity::Quantity;
use api_model::fields::value::{at, has, int, list, text};
use api_model::kinds::{self, Kind};
use api_model::qos::qos_class;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// End of the names of a storage class's resources.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Maximum number of devices of a claim, which a request for all devices counts as (`AllocationResultsMaxSize`).
const MOST_DEVICES: i64 = 32;
/// End of the names of a device class's devices.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Kinds with a count name from before `count/`.
const ALIASES: &[&str] = &["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
/// Resources of pods, apart from those with a prefix.
const OF_PODS: &[&str] = &[
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Resources that each container must set if a quota limits them.
const NAMED: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Returns the name of a kind's count, such as `count/deployments.apps`.
fn count_name(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("count/{}", kind.plural)
    } else {
        format!("count/{}.{}", kind.plural, kind.group)
    }
}

/// Returns the amounts in `object` at `path`.
pub fn amounts(object: &Value, path: &[&str]) -> Amounts {
    let map = at(object, path).and_then(Value::as_object);
    let read = |(name, amount): (&Text, &Value)| Some((name.to_string(), Quantity::parse(amount.as_str()?)?));
    map.into_iter().flatten().filter_map(read).collect()
}

fn is_pod(kind: &Kind) -> bool {
    *kind == *kinds::PODS
}

/// Returns true if objects of `kind` are counted under `resource`.
pub fn is_counted(kind: &Kind, resource: &str) -> bool {
    if resource == count_name(kind) {
        return true;
    }
    match (kind.group, kind.plural) {
        ("", "pods") => {
            OF_PODS.contains(&resource)
                || resource.starts_with("hugepages-")
                || resource.strip_prefix("requests.").is_some_and(|of| of.starts_with("hugepages-") || is_extended(of))
        }
        ("", "persistentvolumeclaims") => {
            let of = resource.split_once(OF_CLASS).map_or(resource, |(_, of)| of);
            matches!(of, "persistentvolumeclaims" | "requests.storage")
        }
        ("", "services") => matches!(resource, "services" | "services.nodeports" | "services.loadbalancers"),
        ("resource.k8s.io", "resourceclaims") => resource.ends_with(DEVICES),
        ("", plural) => ALIASES.contains(&plural) && resource == plural,
        _ => false,
    }
}

/// Returns true if a resource has a domain other than kubernetes.io.
fn is_extended(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

/// Returns the use of one object.
pub fn usage(kind: &Kind, object: &Value, now: Timestamp) -> Amounts {
    let one = Quantity::of(1);
    let mut used = Amounts::from([(count_name(kind), one)]);
    match (kind.group, kind.plural) {
        ("", "pods") if !is_running(object, now) => {}
        ("", "pods") => used.extend(compute(&requests(object, "requests"), &requests(object, "limits"))),
        ("", "persistentvolumeclaims") => claim(object, &mut used),
        ("", "services") => service(object, &mut used),
        ("resource.k8s.io", "resourceclaims") => devices(object, &mut used),
        ("", plural) if ALIASES.contains(&plural) => {
            used.insert(plural.to_owned(), one);
        }
        _ => {}
    }
    used
}

/// Returns true unless a pod has ended or is past its grace period; such a pod uses nothing.
fn is_running(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let ends = text(pod, &["metadata", "deletionTimestamp"]).parse::<Timestamp>().ok();
    let grace = int(pod, &["metadata", "deletionGracePeriodSeconds"]);
    match (ends, grace) {
        (Some(ends), Some(grace)) => {
            ends.checked_add(SignedDuration::from_secs(grace)).map_or(true, |late| now <= late)
        }
        _ => true,
    }
}

fn claim(claim: &Value, used: &mut Amounts) {
    let annotated = text(claim, &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]);
    let class = if annotated.is_empty() { text(claim, &["spec", "storageClassName"]) } else { annotated };
    let requested = Quantity::parse(text(claim, &["spec", "resources", "requests", "storage"]));
    // While a claim recovers from a failed expansion, its allocated size counts.
    let allocated = Quantity::parse(text(claim, &["status", "allocatedResources", "storage"]));
    let storage = requested.map(|requested| match allocated {
        Some(allocated) if allocated.nanos() > requested.nanos() => allocated.rounded_up(),
        _ => requested.rounded_up(),
    });
    for of in ["".to_owned(), format!("{class}{OF_CLASS}")] {
        if !of.is_empty() && class.is_empty() {
            continue;
        }
        used.insert(format!("{of}persistentvolumeclaims"), Quantity::of(1));
        if let Some(storage) = storage {
            used.insert(format!("{of}requests.storage"), storage);
        }
    }
}

fn service(service: &Value, used: &mut Amounts) {
    let ports = list(service, &["spec", "ports"]);
    let (node_ports, balancers) = match text(service, &["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if service["spec"]["allocateLoadBalancerNodePorts"] == false => {
            (ports.iter().filter(|port| int(port, &["nodePort"]).unwrap_or(0) != 0).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    used.insert("services".to_owned(), Quantity::of(1));
    used.insert("services.nodeports".to_owned(), Quantity::of(node_ports));
    used.insert("services.loadbalancers".to_owned(), Quantity::of(balancers));
}

/// Counts the devices that a claim requests, by class (`pkg/quota/v1/evaluator/core/resource_claims.go`). Of several
/// alternatives the largest counts.
fn devices(claim: &Value, used: &mut Amounts) {
    let wanted = |request: &Value| -> Option<(String, i64)> {
        let class = text(request, &["deviceClassName"]);
        let count = match text(request, &["allocationMode"]) {
            "All" => MOST_DEVICES,
            _ => int(request, &["count"]).unwrap_or(1),
        };
        (!class.is_empty()).then(|| (format!("{class}{DEVICES}"), count))
    };
    for request in list(claim, &["spec", "devices", "requests"]) {
        let mut most: BTreeMap<String, i64> = BTreeMap::new();
        let alternatives = list(request, &["firstAvailable"]).iter();
        for (name, count) in alternatives.chain([&request["exactly"]]).filter_map(wanted) {
            let slot = most.entry(name).or_default();
            *slot = count.max(*slot);
        }
        for (name, count) in most {
            let count = Quantity::of(usize::try_from(count).unwrap_or_default());
            add(used, &Amounts::from([(name, count)]));
        }
    }
}

/// Adds amounts by resource.
pub fn add(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = to.get(name).copied().unwrap_or(Quantity::ZERO).plus(*amount);
        to.insert(name.clone(), sum);
    }
}

fn take_greater(of: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if of.get(name).is_none_or(|have| have.nanos() < amount.nanos()) {
            of.insert(name.clone(), *amount);
        }
    }
}

/// Returns what a pod requests as a whole (component-helpers `resource.PodRequests`, `PodLimits`); `part` is `requests`
/// or `limits`.
fn requests(pod: &Value, part: &str) -> Amounts {
    let mut sum = of_containers(pod, part);
    // Pod-level resources take precedence over those of its containers.
    for (name, amount) in amounts(pod, &["spec", "resources", part]) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            sum.insert(name, amount);
        }
    }
    let overhead = amounts(pod, &["spec", "overhead"]);
    if part == "requests" {
        add(&mut sum, &overhead);
    } else {
        // Overhead is added only to limits that are set.
        let limited = overhead.into_iter().filter(|(name, _)| sum.get(name).is_some_and(|have| have.nanos() != 0));
        let limited: Amounts = limited.collect();
        add(&mut sum, &limited);
    }
    sum
}

/// Returns what the containers of a pod request together. Init containers run one after the other, before the rest.
pub fn of_containers(pod: &Value, part: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        add(&mut sum, &amounts(container, &["resources", part]));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in list(pod, &["spec", "initContainers"]) {
        let mut own = amounts(container, &["resources", part]);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        take_greater(&mut most, &own);
    }
    take_greater(&mut sum, &most);
    sum
}

/// Returns requests and limits under their names in quotas.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), Quantity::of(1))]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
            used.insert(format!("requests.{name}"), *amount);
        } else if is_extended(name) {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

/// Returns the message about containers without a request or limit that a quota needs: `must specify …`; `None` if all
/// have it.
pub fn unnamed<'a>(kind: &Kind, object: &Value, limited: impl Iterator<Item = &'a str>) -> Option<String> {
    if !is_pod(kind) || has(object, &["spec", "resources"]) {
        return None;
    }
    let limited: Vec<&str> = limited.filter(|name| NAMED.contains(name)).collect();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let containers = ["containers", "initContainers"].into_iter().flat_map(|of| list(object, &["spec", of]));
    for container in containers {
        let named =
            compute(&amounts(container, &["resources", "requests"]), &amounts(container, &["resources", "limits"]));
        for name in limited.iter().filter(|name| !named.contains_key(**name)) {
            missing.entry(name).or_default().push(text(container, &["name"]));
        }
    }
    let message: Vec<String> = missing
        .into_iter()
        .map(|(name, mut of)| {
            of.sort_unstable();
            of.dedup();
            format!("{name} for: {}", of.join(","))
        })
        .collect();
    (!message.is_empty()).then(|| format!("must specify {}", message.join("; ")))
}

/// Returns true if all scopes of a quota match an object.
pub fn in_scope(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let scopes = list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let selectors = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    scopes.into_iter().all(|scope| holds(scope, "Exists", &[], kind, object))
        && selectors.iter().all(|selector| {
            let (scope, operator) = (text(selector, &["scopeName"]), text(selector, &["operator"]));
            holds(scope, operator, list(selector, &["values"]), kind, object)
        })
}

fn holds(scope: &str, operator: &str, values: &[Value], kind: &Kind, object: &Value) -> bool {
    let deadline = || int(object, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0);
    let best_effort = || qos_class(object) == "BestEffort";
    match scope {
        "Terminating" => is_pod(kind) && deadline(),
        "NotTerminating" => is_pod(kind) && !deadline(),
        "BestEffort" => is_pod(kind) && best_effort(),
        "NotBestEffort" => is_pod(kind) && !best_effort(),
        "PriorityClass" => is_pod(kind) && chosen(text(object, &["spec", "priorityClassName"]), operator, values),
        "CrossNamespacePodAffinity" => is_pod(kind) && reaches_out(object),
        "VolumeAttributesClass" => {
            kind.plural == "persistentvolumeclaims"
                && [
                    &["spec", "volumeAttributesClassName"][..],
                    &["status", "currentVolumeAttributesClassName"],
                    &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
                ]
                .iter()
                .any(|path| chosen(text(object, path), operator, values))
        }
        _ => false,
    }
}

/// Returns true if a selector matches a name, which may be empty.
fn chosen(name: &str, operator: &str, values: &[Value]) -> bool {
    let listed = values.iter().any(|value| value == name);
    match operator {
        "In" => !name.is_empty() && listed,
        "NotIn" => name.is_empty() || !listed,
        "DoesNotExist" => name.is_empty(),
        _ => !name.is_empty(),
    }
}

/// Returns true if a pod's affinity refers to pods of other namespaces.
fn reaches_out(pod: &Value) -> bool {
    let of = |term: &Value| !list(term, &["namespaces"]).is_empty() || has(term, &["namespaceSelector"]);
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let terms = &pod["spec"]["affinity"][*affinity];
        list(terms, &["requiredDuringSchedulingIgnoredDuringExecution"]).iter().any(of)
            || list(terms, &["preferredDuringSchedulingIgnoredDuringExecution"])
                .iter()
                .any(|weighted| of(&weighted["podAffinityTerm"]))
    })
}
