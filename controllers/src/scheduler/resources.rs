//! Resource requests of pods and capacities of nodes (`component-helpers/resource`, `noderesources/fit.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::binder::quantity;

/// Amounts by resource: thousandths for `cpu`, whole units for all others. An absent resource is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, i64>);

type List = BTreeMap<String, Quantity>;

/// Resources in upstream's order of checks; all others follow by name.
const FIRST: [&str; 4] = [PODS, "cpu", "memory", "ephemeral-storage"];
const PODS: &str = "pods";
/// Request of a container without one, for scores (`DefaultMilliCPURequest`, `DefaultMemoryRequest`).
const DEFAULT_MILLI_CPU: i64 = 100;
const DEFAULT_MEMORY: i64 = 200 << 20;

impl Resources {
    fn of(list: Option<&List>) -> Self {
        let amount = |(name, quantity): (&String, &Quantity)| {
            let amount = match name.as_str() {
                "cpu" => quantity::milli(quantity).and_then(|m| i64::try_from(m).ok()).unwrap_or(0),
                _ => quantity::value(quantity),
            };
            (name.clone(), amount)
        };
        Self(list.into_iter().flatten().map(amount).filter(|(_, amount)| *amount != 0).collect())
    }

    /// Returns a node's allocatable resources (status.allocatable).
    pub fn allocatable(node: &Node) -> Self {
        Self::of(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))
    }

    /// Returns a pod's requests. For each resource it is the request of the pod as a whole, if there is one. Otherwise
    /// it is the sum of the containers, or the need of the largest init container if that is more. Restartable init
    /// containers count as containers. The overhead of the runtime and 1 for `pods` are added.
    pub fn requested(pod: &Pod) -> Self {
        Self::total(pod, &[])
    }

    /// Returns a pod's requests as scores weigh them: a container without a request for cpu or memory counts as one that
    /// requests a little (`NonMissingContainerRequests`).
    pub fn weighed(pod: &Pod) -> Self {
        Self::total(pod, &[("cpu", DEFAULT_MILLI_CPU), ("memory", DEFAULT_MEMORY)])
    }

    /// Returns the total of a pod's requests; `defaults` are the requests of containers that lack them.
    fn total(pod: &Pod, defaults: &[(&str, i64)]) -> Self {
        let one = Self(BTreeMap::from([(PODS.to_owned(), 1)]));
        let Some(spec) = &pod.spec else { return one };
        let asks = |c: &Container| {
            let requests = c.resources.as_ref().and_then(|r| r.requests.as_ref());
            let mut asked = Self::of(requests);
            for (name, amount) in defaults.iter().filter(|(name, _)| !requests.is_some_and(|r| r.contains_key(*name))) {
                asked.0.insert((*name).to_owned(), *amount);
            }
            asked
        };
        let mut sidecars = Self::default();
        let mut largest_init = Self::default();
        for init in spec.init_containers.iter().flatten() {
            if init.restart_policy.as_deref() == Some("Always") {
                sidecars.add(&asks(init));
                largest_init.raise(&sidecars);
            } else {
                let mut with = sidecars.clone();
                with.add(&asks(init));
                largest_init.raise(&with);
            }
        }
        let mut total = sidecars;
        spec.containers.iter().for_each(|container| total.add(&asks(container)));
        total.raise(&largest_init);
        let whole = Self::of(spec.resources.as_ref().and_then(|r| r.requests.as_ref()));
        total.0.extend(whole.0.into_iter().filter(|(name, _)| of_whole_pods(name)));
        total.add(&Self::of(spec.overhead.as_ref()));
        total.add(&one);
        total
    }

    /// Returns the amount of one resource.
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the names of the resources.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Subtracts `other`.
    pub fn remove(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let left = self.0.entry(name.clone()).or_default();
            *left = left.saturating_sub(*amount);
            if *left == 0 {
                self.0.remove(name);
            }
        }
    }

    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    /// Drops extended resources that the node does not have (`removeMissingExtendedResources`).
    pub fn without_missing(mut self, allocatable: &Self) -> Self {
        self.0.retain(|name, _| !is_extended(name) || allocatable.0.contains_key(name));
        self
    }
}

/// Returns true if a pod can request this resource for all of its containers (`IsSupportedPodLevelResource`).
fn of_whole_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns true for a name with a domain other than `kubernetes.io` (`IsExtendedResourceName`).
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// Resource of which a node has too little for a pod (`InsufficientResource`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Name of the resource.
    pub resource: String,
    /// Request of the pod.
    pub requested: i64,
    /// Requests of the node's pods.
    pub used: i64,
    /// Allocatable amount of the node.
    pub capacity: i64,
}

impl Lack {
    /// Returns upstream's reason.
    pub fn reason(&self) -> Cow<'static, str> {
        match self.resource.as_str() {
            PODS => "Too many pods".into(),
            "cpu" => "Insufficient cpu".into(),
            "memory" => "Insufficient memory".into(),
            other => format!("Insufficient {other}").into(),
        }
    }

    /// Returns true if no eviction could help, because the node is too small. For the number of pods, upstream always
    /// assumes that an eviction could help.
    pub fn is_hopeless(&self) -> bool {
        self.resource != PODS && self.requested > self.capacity
    }
}

/// Returns the resources that a node lacks for a pod.
pub fn lacks(request: &Resources, used: &Resources, allocatable: &Resources) -> Vec<Lack> {
    let others = request.0.keys().map(String::as_str).filter(|name| !FIRST.contains(name));
    let lack = |name: &str| {
        let (requested, used, capacity) = (request.get(name), used.get(name), allocatable.get(name));
        let lacks = requested > 0 && requested > capacity.saturating_sub(used);
        lacks.then(|| Lack { resource: name.to_owned(), requested, used, capacity })
    };
    FIRST.into_iter().chain(others).filter_map(lack).collect()
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        from_value(json!({ "metadata": { "name": "p" }, "spec": spec })).expect("a pod")
    }

    fn container(name: &str, requests: Value) -> Value {
        json!({ "name": name, "resources": { "requests": requests } })
    }

    #[test]
    fn a_pod_asks_for_the_sum_of_its_containers_or_for_its_largest_init_container() {
        let asked = Resources::requested(&pod(json!({
            "containers": [container("a", json!({ "cpu": "100m" })), container("b", json!({ "cpu": "1", "memory": "1Ki" }))],
            "initContainers": [container("i", json!({ "cpu": "200m", "memory": "1Mi", "example.com/chip": "2" }))],
            "overhead": { "cpu": "10m" },
        })));
        assert_eq!((asked.get("cpu"), asked.get("memory"), asked.get("example.com/chip")), (1110, 1 << 20, 2));
        assert_eq!((asked.get("pods"), asked.get("ephemeral-storage")), (1, 0));
    }

    #[test]
    fn requests_of_the_whole_pod_replace_those_of_its_containers() {
        let asked = Resources::requested(&pod(json!({
            "containers": [container("a", json!({ "cpu": "100m", "ephemeral-storage": "5" }))],
            "resources": { "requests": { "cpu": "2", "ephemeral-storage": "9" } },
        })));
        assert_eq!((asked.get("cpu"), asked.get("ephemeral-storage")), (2000, 5));
    }

    #[test]
    fn short_resources_are_reported_in_order() {
        let node = |list: Value| Resources::of(Some(&from_value(list).expect("quantities")));
        let has = node(json!({ "cpu": "1", "memory": "1Ki", "pods": "1", "ephemeral-storage": "10", "a.b/c": "1" }));
        let asks = node(
            json!({ "cpu": "2", "memory": "1Ki", "pods": "1", "ephemeral-storage": "11", "a.b/c": "1", "d.e/f": "1" }),
        );
        let used = node(json!({ "memory": "1", "pods": "1", "a.b/c": "1" }));
        let lacks: Vec<_> = lacks(&asks, &used, &has).into_iter().map(|l| (l.reason(), l.is_hopeless())).collect();
        let expected = [
            ("Too many pods", false),
            ("Insufficient cpu", true),
            ("Insufficient memory", false),
            ("Insufficient ephemeral-storage", true),
            ("Insufficient a.b/c", false),
            ("Insufficient d.e/f", true),
        ];
        assert_eq!(lacks, expected.map(|(reason, hopeless)| (reason.into(), hopeless)));
        assert_eq!(asks.without_missing(&has).get("d.e/f"), 0);
    }
}
