//! `mooring import`: builds the initial state of a scenario from the output of `kubectl get -o yaml` and `aws ec2
//! describe-*`.
//!
//! [`read`] splits files into documents, [`objects`] and [`cloud`] import their content, [`join`] makes both
//! consistent, [`anonymise`] replaces names, and [`write`] prints the scenario. All of it is pure.

mod anonymise;
mod cloud;
mod input;
mod join;
mod note;
mod objects;
mod read;
mod state;
#[cfg(test)]
mod tests;
mod write;

pub use input::{ImportError, Input, MAX_BYTES};
pub use note::Note;

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
