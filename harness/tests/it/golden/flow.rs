//! Reads the files of `scenarios/golden` as their authors wrote them.

use serde::Deserialize;

/// Repositories that lines may cite.
pub const SOURCES: &[&str] = &[
    "kubernetes",
    "external-attacher",
    "external-provisioner",
    "external-resizer",
    "external-snapshotter",
    "sig-storage-lib-external-provisioner",
];

/// A file.
pub struct Flow {
    /// Name of the scenario.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// The expectation.
    pub writes: Writes,
}

#[derive(Deserialize)]
struct Document {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    expect: Option<Expect>,
}

#[derive(Deserialize)]
struct Expect {
    writes: Option<Writes>,
}

/// The expected writes.
#[derive(Deserialize)]
pub struct Writes {
    /// Writes that another file expects.
    #[serde(default)]
    pub elsewhere: Vec<Elsewhere>,
    lines: Vec<Line>,
}

/// Writes that another file expects.
#[derive(Deserialize)]
pub struct Elsewhere {
    /// The client.
    pub by: String,
    /// Prefix of `does`.
    #[serde(default)]
    pub does: String,
    /// Name of the other scenario.
    #[serde(rename = "in")]
    pub scenario: String,
}

/// A line.
#[derive(Clone, Deserialize)]
pub struct Line {
    #[serde(default)]
    together: Vec<Vec<Line>>,
    /// The client.
    #[serde(default)]
    pub by: String,
    /// Verb, kind of patch, resource, object.
    #[serde(default)]
    pub does: String,
    /// Source: repository, file, function.
    #[serde(default)]
    pub from: String,
    event: Option<String>,
    action: Option<String>,
}

/// Returns all files by name.
pub fn flows() -> Vec<Flow> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/golden");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let flow = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let document: Document = substrate::yaml::from_str(&text).unwrap();
        let writes = document.steps.into_iter().find_map(|step| step.expect?.writes).unwrap();
        Flow { name: document.name, text, writes }
    };
    files.into_iter().map(flow).collect()
}

/// Returns the lines of a file, without the lists. An Event has its request in `does`.
pub fn lines(flow: &Flow) -> Vec<Line> {
    fn gather(lines: &[Line], found: &mut Vec<Line>) {
        for line in lines {
            line.together.iter().for_each(|lines| gather(lines, found));
            if line.together.is_empty() {
                let mut line = line.clone();
                if line.event.is_some() {
                    let resource = if line.action.is_some() { "events.events.k8s.io" } else { "events" };
                    line.does = format!("POST {resource} ");
                }
                found.push(line);
            }
        }
    }
    let mut found = Vec::new();
    gather(&flow.writes.lines, &mut found);
    found
}
