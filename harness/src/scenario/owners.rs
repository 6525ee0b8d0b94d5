//! Owners in a scenario: a simulation without any needs no garbage collector, and no loop that makes claims for pods.

use serde_json::Value;

use super::model::{Action, Expectation, Scenario};

impl Scenario {
    /// True if a manifest, a patch or a deletion refers to owners or dependents, or a pod has generic ephemeral volumes, whose
    /// claims it owns.
    pub fn has_owners(&self) -> bool {
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
}

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
