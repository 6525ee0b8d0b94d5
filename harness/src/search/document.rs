//! A scenario as a data tree, which a search changes and writes.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value, json};
use substrate::fault::Fault;

use super::yaml;
use crate::scenario::{self, Scenario, ScenarioError};

/// A scenario file as a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Document(Value);

/// Errors in a scenario file.
#[derive(Debug)]
pub struct Mistakes(pub Vec<ScenarioError>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<Box<ScenarioError>> for Mistakes {
    fn from(error: Box<ScenarioError>) -> Self {
        Self(vec![*error])
    }
}

/// Reason why a file cannot be searched.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum DocumentError {
    /// {0}
    Scenario(Mistakes),
    /// {0}: `include` cannot be searched yet: write the included items into the file
    Includes(String),
    /// {0}: this file runs the program {1}, which is not possible in a simulation: run it with `mooring run FILE --live --allow-exec`
    Programs(String, String),
    /// {0}: {1}
    Shape(String, String),
    /// {0}: what was recorded cannot be read: {1}
    Record(String, String),
}

impl Document {
    /// Reads the scenario in the file at `path`.
    ///
    /// # Errors
    /// If the scenario is invalid, or includes other files, which a finding could not carry.
    pub fn load(path: &Path) -> Result<Self, DocumentError> {
        let text = scenario::text_of(path).map_err(|error| DocumentError::Scenario(error.into()))?;
        Self::checked(&path.display().to_string(), &text)
    }

    /// Reads the scenario from `text`; messages name it `source`. Does not open the files that it refers to, because
    /// the text may come from an untrusted source.
    ///
    /// # Errors
    /// As [`Document::load`].
    pub fn checked(source: &str, text: &str) -> Result<Self, DocumentError> {
        let document = Self::of_text(source, text)?;
        if document.includes() {
            return Err(DocumentError::Includes(source.to_owned()));
        }
        let scenario = scenario::parse_all(source, text).map_err(|all| DocumentError::Scenario(Mistakes(all)))?;
        if let Some(program) = scenario.programs.first() {
            let at = format!("{source}:{}:{}", program.line, program.column);
            return Err(DocumentError::Programs(at, program.name.clone()));
        }
        Ok(document)
    }

    /// Parses `text`, which messages name `source`, without checking the scenario.
    ///
    /// # Errors
    /// If it is not a YAML map within the limits of scenarios.
    pub fn of_text(source: &str, text: &str) -> Result<Self, DocumentError> {
        scenario::parse_tree(source, text).map(Self).map_err(|error| DocumentError::Scenario(error.into()))
    }

    /// Wraps a generated tree.
    pub fn of_tree(tree: Value) -> Self {
        Self(tree)
    }

    /// Parses the scenario.
    ///
    /// # Errors
    /// Returns its first error.
    pub fn scenario(&self, source: &str) -> Result<Scenario, Box<ScenarioError>> {
        scenario::parse(source, &self.text())
    }

    /// The scenario as YAML.
    pub fn text(&self) -> String {
        yaml::write(&self.0)
    }

    /// The tree.
    pub fn tree(&self) -> &Value {
        &self.0
    }

    /// The tree, mutable.
    pub fn tree_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or("scenario")
    }

    /// Adds faults that are in force from the first step on.
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        let more = faults.into_iter().map(|fault| lean(&fault));
        match &mut self.0["faults"] {
            Value::Array(list) => list.extend(more),
            none => *none = more.collect::<Vec<_>>().into(),
        }
        self
    }

    /// Removes the faults with these names.
    pub fn without_faults(mut self, names: &[String]) -> Self {
        let is = |fault: &Value| fault["name"].as_str().is_some_and(|name| names.iter().any(|n| n == name));
        if let Some(Value::Array(list)) = self.0.get_mut("faults") {
            list.retain(|fault| !is(fault));
        }
        self
    }

    /// Calls `each` with every list of items: objects, steps, and the steps inside a repetition.
    pub fn lists_mut(&mut self, each: &mut impl FnMut(&mut Vec<Value>)) {
        for key in ["objects", "steps"] {
            if let Some(Value::Array(list)) = self.0.get_mut(key) {
                lists(list, each);
            }
        }
    }

    fn includes(&self) -> bool {
        let mut found = false;
        let mut all = self.clone();
        all.lists_mut(&mut |list| found |= list.iter().any(|item| item.get("include").is_some()));
        found
    }
}

fn lists(list: &mut Vec<Value>, each: &mut impl FnMut(&mut Vec<Value>)) {
    for item in list.iter_mut() {
        if let Some(Value::Array(inner)) = item.pointer_mut("/repeat/do") {
            lists(inner, each);
        }
    }
    each(list);
}

/// Serializes a fault without empty and default fields.
fn lean(fault: &Fault) -> Value {
    let mut value = substrate::encode::tree(fault);
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| *value != Value::Object(Map::new()));
        if map.get("at") == Some(&json!("before")) {
            map.remove("at");
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::scenario::model::Step;

    fn files() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let mut files: Vec<PathBuf> = ["", "incidents", "found"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && !path.ends_with("upstream-bugs.yaml"))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn every_scenario_is_the_same_when_it_is_written_again() {
        let files = files();
        assert!(files.len() > 20);
        for path in files {
            let read = scenario::load(&path).unwrap();
            let document = Document::load(&path).unwrap();
            let again = document.scenario(&read.source).unwrap_or_else(|e| panic!("{}\n{e}", document.text()));
            let bare = |step: &Step| Step { line: 0, column: 0, ..step.clone() };
            let bare =
                |scenario: &Scenario| Scenario { steps: scenario.steps.iter().map(bare).collect(), ..scenario.clone() };
            assert_eq!(bare(&read), bare(&again), "{}", document.text());
        }
    }

    #[test]
    fn a_file_that_includes_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("part.yaml"), "- claim: {name: data}\n").unwrap();
        let file = folder.path().join("all.yaml");
        std::fs::write(&file, "name: all\nnodes: {count: 1}\nsteps:\n  - include: part.yaml\n").unwrap();
        let error = Document::load(&file).unwrap_err().to_string();
        assert!(error.contains("`include` cannot be searched yet"), "{error}");
    }
}
