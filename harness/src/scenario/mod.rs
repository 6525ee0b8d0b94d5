//! Scenario files: the cluster, the steps, and the expectations.
//!
//! [`load`] reads a file, [`parse`] a text. Both return a [`Scenario`] in which every name is checked, or a
//! [`ScenarioError`] with the position in the file and a suggestion.
//!
//! The modules: `document` is the file as written (serde), `lower` converts it to the checked `model`, `steps` and
//! `expects` have a module for each step and expectation, `predicate` has their conditions, `source_span` carries
//! positions, `diagnostic` renders errors.

mod cluster;
mod diagnostic;
mod document;
pub(crate) mod expects;
pub mod large;
mod limits;
mod lower;
pub(crate) mod manifests;
pub mod model;
pub mod needed;
mod owners;
pub(crate) mod predicate;
mod prelude;
pub(crate) mod reapplied;
pub(crate) mod saved;
pub mod shape;
mod snapshots;
mod source_span;
pub mod steps;
mod words;

pub use crate::spec::{Kind, ObjectRef, State};
pub use diagnostic::ScenarioError;
pub(crate) use expects::{
    attached::Attached, bytes_intact::BytesIntact, elapsed::Elapsed, fired::Fired, writes::Writes,
};
pub use limits::MAX_BYTES;
pub use model::{Action, Expectation, LatencyProfile, Manifest, NodeSpec, Scenario, Step, TimeScales};
pub(crate) use steps::{delete::Delete, evict::Evict, taint::Taint, untaint::Untaint, wait::Wait};

use std::path::Path;

use substrate::yaml::Tolerant;

use limits::options;

/// Reads and checks the scenario in the file at `path`.
///
/// # Errors
/// If the file cannot be read (exit code 2, as for every other error in it), or as [`parse`].
pub fn load(path: &Path) -> Result<Scenario, Box<ScenarioError>> {
    read(&path.display().to_string(), &text_of(path)?, true).map_err(first)
}

/// Reads and checks a scenario, and returns every error in the file, in the order of their places.
///
/// # Errors
/// As [`load`].
pub fn load_all(path: &Path) -> Result<Scenario, Vec<ScenarioError>> {
    let text = text_of(path).map_err(|error| vec![*error])?;
    let source = path.display().to_string();
    read(&source, &text, true).map_err(|all| in_order(&source, all))
}

/// Reads and checks a text, and returns every error in it. The text cannot include files, as in [`parse`].
///
/// # Errors
/// Returns all errors in it.
pub(crate) fn parse_all(source: &str, text: &str) -> Result<Scenario, Vec<ScenarioError>> {
    read(source, text, false).map_err(|all| in_order(source, all))
}

/// Sorts errors by place, those in `source` first.
fn in_order(source: &str, mut all: Vec<ScenarioError>) -> Vec<ScenarioError> {
    let place = |error: &ScenarioError| (error.source_name() != source, error.line(), error.column());
    all.sort_by_key(place);
    all
}

/// Returns the error that was found first.
fn first(mut all: Vec<ScenarioError>) -> Box<ScenarioError> {
    Box::new(all.swap_remove(0))
}

/// Reads the file at `path`, which must not exceed [`MAX_BYTES`].
pub(crate) fn text_of(path: &Path) -> Result<String, Box<ScenarioError>> {
    let name = path.display().to_string();
    let length = std::fs::metadata(path).map_err(|e| ScenarioError::unreadable(&name, &e.to_string()))?.len();
    if length > MAX_BYTES as u64 {
        let why = format!("it has {length} bytes, and at most {MAX_BYTES} are read");
        return Err(ScenarioError::unreadable(&name, &why));
    }
    std::fs::read_to_string(path).map_err(|e| ScenarioError::unreadable(&name, &e.to_string()))
}

/// Reads and checks the scenario in `text`; `source` is the file name in errors and reports. It cannot include
/// fragments.
///
/// # Errors
/// If the text is not YAML, a key is unknown, a value has the wrong type, a limit on size, depth or aliases is
/// exceeded, or a step names something that does not exist.
pub fn parse(source: &str, text: &str) -> Result<Scenario, Box<ScenarioError>> {
    read(source, text, false).map_err(first)
}

/// Reads a text. Returns its errors in the order of detection, at least one.
fn read(source: &str, text: &str, has_files: bool) -> Result<Scenario, Vec<ScenarioError>> {
    if text.len() > MAX_BYTES {
        let why = format!("it has {} bytes, and at most {MAX_BYTES} are read", text.len());
        return Err(vec![*ScenarioError::unreadable(source, &why)]);
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(vec![*ScenarioError::empty(source, text)]);
    }
    let Tolerant { value, errors } = substrate::yaml::from_str_tolerant::<document::Document>(text, options());
    let from = lower::Text { source, text, has_files, is_partial: !errors.is_empty() };
    let lowered = value.map(|document| lower::lower(from, document));
    let mut mistakes: Vec<_> = errors.iter().map(|error| *ScenarioError::from_yaml(source, text, error)).collect();
    match lowered {
        Some(Ok(scenario)) if mistakes.is_empty() => return Ok(scenario),
        None | Some(Ok(_)) => {}
        Some(Err(more)) => mistakes.extend(more.into_iter().map(|mistake| *mistake.into_error(source, text))),
    }
    if mistakes.is_empty() {
        mistakes.push(*ScenarioError::unreadable(source, "nothing in it can be read"));
    }
    Err(mistakes)
}

/// Parses the scenario in `text` to a tree, with the same limits but without other checks.
pub(crate) fn parse_tree(source: &str, text: &str) -> Result<serde_json::Value, Box<ScenarioError>> {
    if text.len() > MAX_BYTES {
        let why = format!("it has {} bytes, and at most {MAX_BYTES} are read", text.len());
        return Err(ScenarioError::unreadable(source, &why));
    }
    substrate::yaml::from_str_with_options(text, options()).map_err(|e| ScenarioError::from_yaml(source, text, &e))
}

#[cfg(test)]
mod tests;
