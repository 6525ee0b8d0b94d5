//! The file that repeats a finding: the workload, the program, and one perturbation.

use serde_json::{Value, json};

use super::faults;
use super::plan::Trial;
use crate::output::cut;
use crate::search::document::Document;
use crate::spec::ProgramSpec;

/// Longest line of a comment.
const WIDTH: usize = 150;

/// A script that changes to the directory in its first argument and starts the command in the others.
const THERE: &str = "cd \"$0\" && exec \"$@\"";

/// Returns `document` with `programs` in its header, which start in their original directories.
pub fn with_programs(document: &Document, programs: &[ProgramSpec]) -> Document {
    let program = |spec: &ProgramSpec| {
        let directory = spec.directory.display().to_string();
        let mut command = vec!["sh".to_owned(), "-c".to_owned(), THERE.to_owned(), directory];
        command.extend(spec.command.iter().cloned());
        let mut value = json!({ "name": spec.name, "command": command });
        if !spec.replaces.is_empty() {
            value["replaces"] = json!(spec.replaces);
        }
        // Secrets stay out of the file.
        let env: serde_json::Map<String, Value> = spec
            .env
            .iter()
            .filter(|(name, _)| !crate::secrets::sounds_secret(name))
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        if !env.is_empty() {
            value["env"] = Value::Object(env);
        }
        value
    };
    let mut document = document.clone();
    document.tree_mut()["run"] = programs.iter().map(program).collect();
    document
}

/// Returns `document` with the faults of `trial`.
pub fn broken(document: &Document, trial: &Trial, scale: f64) -> Document {
    document.clone().with_faults(faults::of(trial.kind, &trial.call, scale))
}

/// Returns the text of a file: comments, then the scenario.
pub fn text(document: &Document, notes: &[String]) -> String {
    let mut out = String::new();
    for line in notes.iter().flat_map(|note| note.lines()) {
        out += &format!("# {}\n", cut(line, WIDTH));
    }
    out + &document.text()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    use super::*;
    use crate::perturb::call::{Call, Key, What};
    use crate::perturb::kind::Kind;
    use crate::scenario;

    #[test]
    fn a_finding_is_a_scenario_with_the_program_and_one_perturbation() {
        let workload = "name: t\nnodes: {count: 1}\ntime-scale: {live: 30}\nsteps: [{sleep: 1s}]\n";
        let document = Document::of_text("t", workload).unwrap();
        let program = ProgramSpec {
            name: "mine".to_owned(),
            command: vec!["./mine.sh".to_owned(), "--csi=$(CSI_ADDRESS)".to_owned()],
            env: BTreeMap::from([("LEVEL".to_owned(), "5".to_owned()), ("TOKEN".to_owned(), "hunter2".to_owned())]),
            replaces: BTreeSet::from(["csi-attacher".to_owned()]),
            directory: PathBuf::from("/somewhere"),
            line: 0,
            column: 0,
        };
        let attributes = [("caller", "mine"), ("resource", "volumeattachments"), ("object", "csi-*")];
        let attributes = attributes.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let key = Key { what: What::Write, program: "mine".to_owned(), op: "patch".to_owned(), attributes };
        let trial = Trial { kind: Kind::StaleList, call: Call { key, nth: 2, ms: 0, step: None } };
        let file = text(&broken(&with_programs(&document, &[program]), &trial, 30.0), &["found\nso".to_owned()]);
        assert!(file.starts_with("# found\n# so\nname: t\n"), "{file}");
        assert!(!file.contains("hunter2") && file.contains("LEVEL"), "{file}");
        let read = scenario::parse("t.yaml", &file).unwrap_or_else(|e| panic!("{e}\n{file}"));
        assert_eq!(read.programs[0].command[2..5], [THERE, "/somewhere", "./mine.sh"]);
        assert_eq!(read.faults.len(), 2);
        assert_eq!(read.faults[1].when.following.as_deref(), Some("perturb"));
    }
}
