//! `mooring import`: builds the initial state of a scenario from the output of `kubectl get -o yaml` and `aws ec2
//! describe-*`.
//!
//! [`read`] splits files into documents, [`objects`] and [`cloud`] import their content, [`join`] makes both
//! consistent, [`anonymise`] replaces names, and [`write`] prints the scenario. All of it is pure.

mod anonymise;
mod cloud;
mod join;
mod objects;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use serde_json::Value;

/// Maximum size of an input file in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// A file of a cluster, or of its cloud.
#[derive(Clone, Debug)]
pub struct Input {
    /// Name in messages.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The scenario, as YAML.
    pub scenario: String,
    /// Omissions and changes, one for each object.
    pub notes: Vec<Note>,
    /// Number of imported nodes, objects and volumes.
    pub counts: Counts,
}

/// Numbers of imported things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Nodes.
    pub nodes: usize,
    /// Objects, nodes included.
    pub objects: usize,
    /// Volumes of the cloud.
    pub volumes: usize,
}

/// An omission or a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Note {
    /// The object, as in `Secret default/tls`, or the volume or instance.
    pub object: String,
    /// Description and reason of the omission or change.
    #[serde(rename = "said")]
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.message)
    }
}

/// A file that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {object}{why}")]
pub struct ImportError {
    /// The file.
    pub file: String,
    /// The object in it with a colon and a space; empty for the whole file.
    pub object: String,
    /// The error.
    pub why: String,
}

impl ImportError {
    fn of_file(file: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: String::new(), why: why.into() }
    }

    fn of(file: &str, object: &str, why: impl Into<String>) -> Self {
        Self { file: file.to_owned(), object: format!("{object}: "), why: why.into() }
    }
}

/// A document of a file.
#[derive(Clone, Debug)]
struct Document {
    file: String,
    value: Value,
}

/// Builds a scenario called `name` from the files.
///
/// # Errors
/// The first file or object that cannot be read.
pub fn import(name: &str, inputs: &[Input], anonymised: bool) -> Result<Imported, ImportError> {
    let mut notes = Vec::new();
    let (mut objects, mut cloud) = (objects::Objects::default(), cloud::Cloud::default());
    for input in inputs {
        for document in read::documents(input)? {
            if cloud::is_of_cloud(&document.value) {
                cloud.take(&document, &mut notes)?;
            } else {
                objects.take(document, &mut notes)?;
            }
        }
    }
    let files: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
    let mut state =
        join::join(objects, cloud, &mut notes).map_err(|why| ImportError::of_file(&files.join(", "), why))?;
    if anonymised {
        anonymise::anonymise(&mut state, &mut notes);
    }
    notes.sort();
    notes.dedup();
    let counts = Counts { nodes: state.nodes.len(), objects: state.objects.len(), volumes: state.volumes.len() };
    Ok(Imported { scenario: write::scenario(name, &state), notes, counts })
}

/// The imported state.
#[derive(Clone, Debug, Default)]
struct State {
    nodes: Vec<Value>,
    zones: Vec<String>,
    volumes: Vec<Value>,
    objects: Vec<Value>,
}
