//! Known findings, which are reported but do not fail a run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Version of the file.
const VERSION: u32 = 1;
/// Maximum size of the file in bytes.
pub const LONGEST: u64 = 1 << 20;

/// The known findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Version of the format: [`VERSION`].
    version: u32,
    /// Each finding.
    known: Vec<Known>,
}

/// A known finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Its signature.
    pub signature: String,
    /// Reason why it is accepted; for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Baseline {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is malformed, or of another version.
    pub fn read(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if read.version != VERSION {
            return Err(format!("version: it is {}, and {VERSION} is known here", read.version));
        }
        match read.known.iter().find(|known| known.signature.trim().is_empty()) {
            Some(_) => Err("known: a signature is empty, which no finding has".to_owned()),
            None => Ok(read),
        }
    }

    /// Returns the text of a baseline with these signatures. Keeps the reasons that `self` has for them.
    pub fn write(&self, signatures: &BTreeSet<String>) -> String {
        let why = |signature: &String| self.known.iter().find(|known| known.signature == *signature);
        let known = |signature: &String| {
            why(signature).cloned().unwrap_or_else(|| Known { signature: signature.clone(), why: String::new() })
        };
        let all = Self { version: VERSION, known: signatures.iter().map(known).collect() };
        substrate::encode::pretty(&all)
    }

    /// Returns true if the finding with this signature is known.
    pub fn has(&self, signature: &str) -> bool {
        self.known.iter().any(|known| known.signature == signature)
    }

    /// Known findings that are not among `signatures`.
    pub fn missing(&self, signatures: &BTreeSet<String>) -> Vec<String> {
        let all = self.known.iter().map(|known| known.signature.clone());
        all.filter(|signature| !signatures.contains(signature)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_written_and_keeps_its_reasons() {
        let signatures = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let message = r#"{"version":1,"known":[{"signature":"b","why":"issue 7"},{"signature":"c"}]}"#;
        let before = Baseline::read(message).unwrap();
        assert_eq!(before.missing(&signatures), ["c"]);
        let after = Baseline::read(&before.write(&signatures)).unwrap();
        assert!(after.has("a") && after.has("b") && !after.has("c"));
        assert!(before.write(&signatures).contains("issue 7"));
    }

    #[test]
    fn a_file_that_is_none_is_refused() {
        for (text, why) in [
            ("", "EOF"),
            ("[]", "invalid"),
            (r#"{"version":2,"known":[]}"#, "version: it is 2"),
            (r#"{"version":1,"known":[{"signature":" "}]}"#, "a signature is empty"),
            (r#"{"version":1,"known":[],"more":1}"#, "unknown field"),
        ] {
            let error = Baseline::read(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
