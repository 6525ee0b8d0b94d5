//! Violations of invariants, as reports show them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Missing, Symptom};

/// The detail that names several volumes of one violation.
pub(super) const VOLUMES: &str = "volumes";
/// The detail that names the object whose wait timed out.
pub(super) const OBJECT: &str = "object";

/// A violation of an invariant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Violation {
    /// Name of the invariant, such as `I1`, or a description of the rule.
    pub id: &'static str,
    /// The observation, in one sentence.
    pub message: String,
    /// Its time, in milliseconds since the start of the world.
    pub ms: u64,
    /// The ordinal of the event that showed it.
    pub n: u64,
    /// The process in which it showed.
    pub process: String,
    /// The operation that broke it: an RPC, or the event's description.
    pub operation: String,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Further details that distinguish causes.
    pub details: BTreeMap<&'static str, serde_json::Value>,
    /// The observation, as a type, if the violation showed at the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symptom: Option<Symptom>,
    /// The missing call or write that causes a violation at the end of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Its volumes that have been on no node since they were last on one: the ordinal of the event that showed it. Only
    /// for a violation at the end of the run.
    #[serde(skip)]
    pub left: BTreeMap<String, u64>,
    /// The declared deviation of upstream that explains it, from `scenarios/upstream-bugs.yaml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

impl Violation {
    /// Returns the volumes of the violation; several only if the volume of each leftover is known.
    pub fn volumes(&self) -> Vec<&str> {
        let several = self.details.get(VOLUMES).and_then(serde_json::Value::as_array);
        let several = several.into_iter().flatten().filter_map(serde_json::Value::as_str);
        self.volume.as_deref().into_iter().chain(several).collect()
    }

    /// Returns the object whose wait timed out, as a step names it.
    pub fn object(&self) -> Option<&str> {
        self.details.get(OBJECT).and_then(serde_json::Value::as_str)
    }
}
