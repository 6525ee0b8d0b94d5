//! Owners and workloads in a scenario. A simulation without them needs no garbage collector, no loop that creates
//! claims for pods, and no loop that creates pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::model::{Action, Expectation, Scenario, Step};
use crate::spec::{Manifest, Requests};

impl Scenario {
    /// True if a manifest, a patch or a deletion refers to owners or dependents, a pod has generic ephemeral volumes, whose
    /// claims it owns, or a workload owns its pods.
    pub fn has_owners(&self) -> bool {
        if self.has_workloads() {
            return true;
        }
        let in_step = |action: &Action| match action {
            Action::Apply(manifests) => manifests.iter().any(|manifest| speaks_of_owners(&manifest.value)),
            Action::Patch(patch) => speaks_of_owners(&patch.with),
            Action::Delete(delete) => delete.cascade.is_some(),
            _ => false,
        };
        self.objects.iter().any(|manifest| speaks_of_owners(&manifest.value))
            || self.steps.iter().any(|step| in_step(&step.action))
    }

    /// True if a step compares the writes to the API server.
    pub fn compares_writes(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Expect(Expectation::Writes(_))))
    }

    /// Returns the requests to the API server that steps send as they are.
    pub fn requests(&self) -> Requests {
        let of = |step: &Step| match &step.action {
            Action::Request(request) if request.user.is_some() || request.given.token.is_some() => Requests::OfUsers,
            Action::Request(_) => Requests::OfAdmin,
            _ => Requests::None,
        };
        self.steps.iter().map(of).max().unwrap_or_default()
    }

    /// True if an object is of a kind whose control loop makes pods, counts them, or lists their addresses.
    pub fn has_workloads(&self) -> bool {
        !self.rare_workloads().is_empty() || self.kinds().any(|kind| WORKLOADS.contains(&kind))
    }

    /// Returns the kinds of its objects whose loops few clusters need.
    pub fn rare_workloads(&self) -> BTreeSet<&'static str> {
        let kinds: BTreeSet<&str> = self.kinds().collect();
        controllers::RARE_WORKLOADS.iter().map(|(kind, _)| *kind).filter(|kind| kinds.contains(kind)).collect()
    }

    /// Kinds of the objects that it applies.
    fn kinds(&self) -> impl Iterator<Item = &str> {
        let applied = self.steps.iter().flat_map(|step| match &step.action {
            Action::Apply(manifests) => manifests.as_slice(),
            _ => &[] as &[Manifest],
        });
        let all = self.objects.iter().chain(applied);
        all.filter_map(|manifest| manifest.value.get("kind").and_then(Value::as_str))
    }
}

/// Kinds of the workload loops.
const WORKLOADS: [&str; 7] =
    ["StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job", "PodDisruptionBudget", "Service"];

fn speaks_of_owners(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            let names = |key: &str| matches!(key, "ownerReferences" | "volumeClaimTemplate");
            map.iter().any(|(key, value)| names(key) || speaks_of_owners(value))
        }
        Value::Array(list) => list.iter().any(speaks_of_owners),
        // Path of a JSON patch, or a finalizer of the garbage collector.
        Value::String(text) => text.contains("ownerReferences") || matches!(&**text, "foregroundDeletion" | "orphan"),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
