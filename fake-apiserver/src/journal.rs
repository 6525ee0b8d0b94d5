//! Text format in which an API server stores its commits, so that the next process continues from there.
//!
//! A line per commit: its revision, the resource, the key, and the object as JSON, or `-` for a deletion. The resource
//! `*` drops all objects before it. The etcd stand-in stores the text in its data directory.

use std::collections::BTreeMap;
use std::io::Write;

use crate::state::{Event, SavedObject, Store, qualified};

/// First line.
pub const HEAD: &str = "mooring journal 1\n";
/// Resource and key of a line without an object.
const NOTHING: &str = "*";

/// A line that is not part of a journal.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum JournalError {
    /// line {line}: {why}
    Damaged {
        /// Number of the line.
        line: usize,
        /// The reason.
        why: &'static str,
    },
    /// {resource} {key}: {why}
    Object {
        /// The resource.
        resource: String,
        /// The key.
        key: String,
        /// The reason.
        why: String,
    },
}

/// Resource and key of an object.
type ObjectKey<'a> = (&'a [u8], &'a [u8]);

/// The last line about an object.
#[derive(Debug)]
struct Last<'a> {
    revision: u64,
    object: &'a [u8],
    line: &'a [u8],
}

/// A journal without outdated lines: for each object its last line.
#[derive(Debug, Default)]
pub struct Folded<'a> {
    revision: u64,
    lines: BTreeMap<ObjectKey<'a>, Last<'a>>,
    /// Size in bytes of the complete lines.
    pub bytes: usize,
}

impl<'a> Folded<'a> {
    /// Parses a journal. An incomplete last line was never answered, and is dropped.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn read(text: &'a [u8]) -> Result<Self, JournalError> {
        let mut folded = Self::default();
        for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Some(body) = line.strip_suffix(b"\n") else { break };
            let damaged = |why| JournalError::Damaged { line: number + 1, why };
            folded.bytes += line.len();
            if number == 0 {
                if line != HEAD.as_bytes() {
                    return Err(damaged("is not the beginning of a journal of this version"));
                }
                continue;
            }
            let mut parts = body.splitn(4, |byte| *byte == b' ');
            let mut word = || parts.next().ok_or_else(|| damaged("is not a commit"));
            let (revision, resource, key, object) = (word()?, word()?, word()?, word()?);
            let revision = std::str::from_utf8(revision).ok().and_then(|text| text.parse().ok());
            let revision: u64 = revision.ok_or_else(|| damaged("has no revision"))?;
            folded.revision = folded.revision.max(revision);
            if resource == NOTHING.as_bytes() {
                folded.lines.clear();
            } else if object == b"-" {
                folded.lines.remove(&(resource, key));
            } else {
                folded.lines.insert((resource, key), Last { revision, object, line });
            }
        }
        Ok(folded)
    }

    /// Returns the journal without outdated lines.
    pub fn text(&self) -> Vec<u8> {
        let mut text = HEAD.as_bytes().to_vec();
        // The newest revision may be that of a deletion.
        line(&mut text, self.revision, NOTHING, NOTHING, None);
        for last in self.lines.values() {
            text.extend_from_slice(last.line);
        }
        text
    }

    /// Returns the newest revision; 0 for an empty journal.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the present objects.
    ///
    /// # Errors
    /// The first object that is not JSON.
    pub fn objects(&self) -> Result<Vec<SavedObject>, JournalError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let object = |(place, last): (&ObjectKey<'_>, &Last<'_>)| {
            let (resource, key) = (text(place.0), text(place.1));
            match serde_json::from_slice(last.object) {
                Ok(value) => Ok(SavedObject { resource, key, revision: last.revision, value }),
                Err(error) => Err(JournalError::Object { resource, key, why: error.to_string() }),
            }
        };
        self.lines.iter().map(object).collect()
    }
}

/// Appends the line of a commit; a deletion has no object.
fn line(text: &mut Vec<u8>, revision: u64, resource: &str, key: &str, object: Option<&[u8]>) {
    // Writing to memory cannot fail.
    let _ = write!(text, "{revision} {resource} {key} ");
    text.extend_from_slice(object.unwrap_or(b"-").trim_ascii_end());
    text.push(b'\n');
}

/// Appends the lines of commits.
pub fn commits<'a>(text: &mut Vec<u8>, events: impl IntoIterator<Item = &'a Event>) {
    for event in events {
        let object = event.new.as_ref().map(|object| object.json());
        line(text, event.revision, &qualified(&event.kind), &event.key, object.as_deref());
    }
}

/// Appends the lines of all objects of a store, which replace all lines before them.
pub fn whole(text: &mut Vec<u8>, store: &Store) {
    line(text, store.revision(), NOTHING, NOTHING, None);
    for kind in store.stored_kinds() {
        let resource = qualified(&kind);
        for (key, object) in store.all_with_keys(&kind) {
            line(text, object.revision, &resource, key, Some(&object.json()));
        }
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn the_last_word_on_an_object_counts_and_a_torn_line_does_not() {
        let mut text = HEAD.as_bytes().to_vec();
        line(&mut text, 1, "pods", "d/a", Some(br#"{"n":1}"#));
        line(&mut text, 2, "pods", "d/b", Some(br#"{"n":2}"#));
        line(&mut text, 3, "pods", "d/a", Some(br#"{"n":3}"#));
        line(&mut text, 4, "pods", "d/b", None);
        let whole = text.len();
        text.extend_from_slice(br#"5 pods d/a {"n":"#);
        let folded = Folded::read(&text).unwrap();
        let a = SavedObject { resource: "pods".into(), key: "d/a".into(), revision: 3, value: json!({"n": 3}) };
        assert_eq!((folded.revision(), folded.bytes, folded.objects().unwrap()), (4, whole, vec![a.clone()]));
        let again = folded.text();
        assert!(again.len() < whole);
        let again = Folded::read(&again).unwrap();
        assert_eq!((again.revision(), again.objects().unwrap()), (4, vec![a]));
    }

    #[test]
    fn a_bad_journal_names_the_line() {
        let error = |text: &str| Folded::read(text.as_bytes()).map(|folded| folded.revision()).unwrap_err();
        assert_eq!(error("x\n").to_string(), "line 1: is not the beginning of a journal of this version");
        assert_eq!(error(&format!("{HEAD}1 pods a -\n2 pods\n")).to_string(), "line 3: is not a commit");
        assert_eq!(error(&format!("{HEAD}one pods a -\n")).to_string(), "line 2: has no revision");
        let text = format!("{HEAD}1 pods d/a {{\n");
        let wrong = Folded::read(text.as_bytes()).unwrap().objects().unwrap_err().to_string();
        assert!(wrong.starts_with("pods d/a: EOF"), "{wrong}");
        assert_eq!(Folded::read(b"").unwrap().revision(), 0);
    }
}
