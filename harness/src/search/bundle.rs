//! A finding as a file: the scenario that shows it, preceded by comments on how to run it and by the record.
//!
//! The trace of the run can be beside `NAME.yaml`, as `NAME.trace.jsonl`. Neither file can contain a path or a command
//! that Mooring would use, because a bundle may come from an untrusted source.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document::{Document, DocumentError};
use super::judge::{Class, Verdict};
use crate::output::cut;
use crate::scenario;

/// Prefix of the line with the record.
const MARK: &str = "# mooring-record: ";
/// Maximum length of a record in bytes.
const LONGEST: usize = 16 << 10;
/// Maximum width of a comment line.
const WIDTH: usize = 150;

/// Recorded facts about a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Seed of the run.
    pub seed: u64,
    /// Seeded bugs that were enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutants: Vec<String>,
    /// Class of the verdict.
    pub class: Class,
    /// Signature, equal for equal bugs.
    pub signature: String,
    /// Number of events of the trace.
    pub events: u64,
    /// SHA-256 of the lines of the trace.
    pub digest: String,
    /// Faults whose removal gives the unbroken run, if the finding is a different end state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<String>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Recorded facts.
    pub record: Record,
    /// Scenario that shows it.
    pub document: Document,
    /// Comments: the fault, the failure, and the search that found it.
    pub notes: Vec<String>,
}

impl Bundle {
    /// Creates a bundle for the finding `verdict` of `document`.
    pub fn new(document: Document, seed: u64, mutants: &[String], verdict: &Verdict, notes: Vec<String>) -> Self {
        let record = Record {
            seed,
            mutants: mutants.to_vec(),
            class: verdict.class,
            signature: verdict.signature.clone(),
            events: verdict.events,
            digest: verdict.digest.clone(),
            breaks: Vec::new(),
        };
        Self { record, document, notes }
    }

    /// Text of the file.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for note in &self.notes {
            for line in note.lines() {
                out += &format!("# {}\n", cut(line, WIDTH));
            }
        }
        let record = substrate::encode::text(&self.record);
        out + MARK + &record + "\n" + &self.document.text()
    }

    /// Writes the file and, beside it, the trace into `folder`, and returns the path of the file.
    ///
    /// # Errors
    /// Returns the error of the filesystem, with the path.
    pub fn write(&self, folder: &Path, name: &str, trace: &[String]) -> Result<PathBuf, String> {
        let at = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(folder).map_err(|e| at(folder, e))?;
        let path = folder.join(format!("{name}.yaml"));
        std::fs::write(&path, self.text()).map_err(|e| at(&path, e))?;
        if !trace.is_empty() {
            let beside = trace_beside(&path);
            std::fs::write(&beside, trace.join("\n") + "\n").map_err(|e| at(&beside, e))?;
        }
        Ok(path)
    }
}

/// Path of the trace that belongs to the bundle `path`.
pub fn trace_beside(path: &Path) -> PathBuf {
    path.with_extension("trace.jsonl")
}

/// Reads a scenario, and its record if the file is a bundle.
///
/// # Errors
/// If the scenario or its record is invalid.
pub fn read(path: &Path) -> Result<(Document, Option<Record>), DocumentError> {
    let text = scenario::text_of(path).map_err(|error| DocumentError::Scenario(error.into()))?;
    of_text(&path.display().to_string(), &text)
}

/// Reads a scenario from `text`; messages name it `source`.
///
/// # Errors
/// As [`read`].
pub fn of_text(source: &str, text: &str) -> Result<(Document, Option<Record>), DocumentError> {
    let document = Document::checked(source, text)?;
    let bad = |why: String| DocumentError::Record(source.to_owned(), why);
    let line = text.lines().take_while(|line| line.starts_with('#')).find_map(|line| line.strip_prefix(MARK));
    let Some(line) = line else { return Ok((document, None)) };
    if line.len() > LONGEST {
        return Err(bad(format!("it has {} bytes, and at most {LONGEST} are read", line.len())));
    }
    let record: Record = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
    // These texts are printed.
    let texts = record.mutants.iter().chain(&record.breaks).chain([&record.signature, &record.digest]);
    if texts.flat_map(|text| text.chars()).any(char::is_control) {
        return Err(bad("a text in it has control characters".to_owned()));
    }
    Ok((document, Some(record)))
}

/// Reads any bytes as a bundle, for the fuzzer. If they parse, a written and reread bundle must be equal.
///
/// # Panics
/// If it does not.
pub fn fuzz(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok((document, record)) = of_text("fuzz.yaml", text) else { return };
    let written = match &record {
        Some(record) => {
            let (record, document) = (record.clone(), document.clone());
            Bundle { record, document, notes: vec!["found".to_owned()] }.text()
        }
        None => document.text(),
    };
    match of_text("again.yaml", &written) {
        Ok(again) => assert!(again == (document, record), "it is read otherwise: {written}"),
        Err(why) => panic!("it cannot be read again: {why}\n{written}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        let document = Document::of_text("t", "name: t\nnodes: {count: 1}\nsteps: [{sleep: 1s}]\n").unwrap();
        let verdict = Verdict::without_outcome(Class::Hung, "it hung");
        Bundle::new(document, 7, &["a".to_owned()], &verdict, vec!["first\nsecond".to_owned()])
    }

    #[test]
    fn a_bundle_is_a_scenario_and_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = bundle().write(folder.path(), "hang", &["{}".to_owned()]).unwrap();
        assert!(crate::scenario::load(&path).is_ok());
        assert_eq!(read(&path).unwrap(), (bundle().document, Some(bundle().record)));
        assert_eq!(std::fs::read_to_string(trace_beside(&path)).unwrap(), "{}\n");
        assert!(bundle().text().starts_with("# first\n# second\n# mooring-record: {\"seed\":7,\"mutants\":[\"a\"]"));
    }

    #[test]
    fn a_record_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.yaml");
        let long = "x".repeat(LONGEST);
        let escape = r#"{"seed":1,"class":"hung","signature":"\u001b[2J","events":0,"digest":""}"#;
        for record in ["{}", "[]", "{\"seed\": -1}", r#"{"seed":1,"run":"rm"}"#, escape, long.as_str()] {
            std::fs::write(&path, format!("{MARK}{record}\n{}", bundle().document.text())).unwrap();
            assert!(matches!(read(&path), Err(DocumentError::Record(..))), "{record}");
        }
    }
}
