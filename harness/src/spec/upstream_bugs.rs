//! Known deviations of upstream. A faithful loop has the same bugs as its original.
//!
//! `scenarios/upstream-bugs.yaml` lists each deviation once.

use std::sync::OnceLock;

use serde::Deserialize;

/// Content of the file at build time.
const FILE: &str = include_str!("../../../scenarios/upstream-bugs.yaml");

/// A known deviation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Its name.
    pub id: String,
    /// A description in a few sentences.
    pub about: String,
    /// Evidence in upstream's issues or code.
    pub citation: String,
    /// The invariant that it breaks.
    pub invariant: String,
    /// The process in which it occurs; `*/NAME` matches that process on any node.
    pub process: String,
    /// The operation that breaks the invariant.
    pub operation: String,
    /// A CEL condition on the typed facts of `violation`: `volume`, `node`, `symptom` and `details`; never its message.
    pub that: String,
    /// If set, the volume may stay where it is permanently, so that waits of pods elsewhere time out.
    #[serde(default)]
    pub holds_up: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    deviations: Vec<Deviation>,
}

/// Returns all known deviations.
///
/// # Errors
/// If the file is not valid; a test excludes this.
pub fn all() -> Result<&'static [Deviation], String> {
    static ALL: OnceLock<Result<Vec<Deviation>, String>> = OnceLock::new();
    let read = || {
        let file = substrate::yaml::from_str::<File>(FILE);
        file.map(|file| file.deviations).map_err(|e| format!("upstream-bugs.yaml: {e}"))
    };
    ALL.get_or_init(read).as_deref().map_err(Clone::clone)
}
