//! Resource requests of pods and capacities of nodes (`component-helpers/resource`, `noderesources/fit.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::binder::quantity;

/// Milli-CPU, bytes of memory, and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Number of pods.
    pub pods: i64,
}

type List = BTreeMap<String, Quantity>;

impl Resources {
    fn of(list: Option<&List>) -> Self {
        let get = |name: &str| list.and_then(|l| l.get(name));
        Self {
            milli_cpu: get("cpu").and_then(quantity::milli).and_then(|m| i64::try_from(m).ok()).unwrap_or(0),
            memory: get("memory").map_or(0, quantity::value),
            pods: get("pods").map_or(0, quantity::value),
        }
    }

    /// Returns a node's allocatable resources (status.allocatable).
    pub fn allocatable(node: &Node) -> Self {
        Self::of(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))
    }

    /// Returns a pod's requests: the sum of its containers, or its largest init container if that is more, plus the
    /// overhead of its runtime. Restartable init containers count as containers.
    pub fn requested(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self { pods: 1, ..Self::default() } };
        let asks = |c: &Container| Self::of(c.resources.as_ref().and_then(|r| r.requests.as_ref()));
        let mut sidecars = Self::default();
        let mut largest_init = Self::default();
        for init in spec.init_containers.iter().flatten() {
            if init.restart_policy.as_deref() == Some("Always") {
                sidecars = sidecars.plus(asks(init));
                largest_init = largest_init.max(sidecars);
            } else {
                largest_init = largest_init.max(sidecars.plus(asks(init)));
            }
        }
        let together = spec.containers.iter().map(asks).fold(sidecars, Self::plus);
        let total = together.max(largest_init).plus(Self::of(spec.overhead.as_ref()));
        Self { pods: 1, ..total }
    }

    /// Returns the sum.
    pub fn plus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu + other.milli_cpu,
            memory: self.memory + other.memory,
            pods: self.pods + other.pods,
        }
    }

    /// Returns the difference.
    pub fn minus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu - other.milli_cpu,
            memory: self.memory - other.memory,
            pods: self.pods - other.pods,
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu.max(other.milli_cpu),
            memory: self.memory.max(other.memory),
            pods: self.pods.max(other.pods),
        }
    }
}

/// Returns the resources that a node lacks for a pod, and true if no eviction could help because the node is too small.
pub fn lacks(request: Resources, used: Resources, allocatable: Resources) -> (Vec<&'static str>, bool) {
    let mut reasons = Vec::new();
    let mut hopeless = false;
    if used.pods + request.pods > allocatable.pods {
        reasons.push("Too many pods");
        hopeless |= request.pods > allocatable.pods;
    }
    if request.milli_cpu > 0 && used.milli_cpu + request.milli_cpu > allocatable.milli_cpu {
        reasons.push("Insufficient cpu");
        hopeless |= request.milli_cpu > allocatable.milli_cpu;
    }
    if request.memory > 0 && used.memory + request.memory > allocatable.memory {
        reasons.push("Insufficient memory");
        hopeless |= request.memory > allocatable.memory;
    }
    (reasons, hopeless)
}
