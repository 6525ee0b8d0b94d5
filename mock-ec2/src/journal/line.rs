//! Lines of a state file: the whole state, then records, each with a checksum.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use crate::state::patch::Patch;
use crate::state::saved::Saved;

/// Hex digits of a record's checksum.
const SUM: usize = 8;

/// Error in a state file.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub(crate) enum Broken {
    /// {0}
    Unreadable(io::Error),
    /// {0}
    State(serde_json::Error),
    /// the record at byte {at} of {length} is broken and whole ones follow it, as when power fails without --state-sync power; what comes before it can be used alone: head -c {at} FILE
    Middle {
        /// Start of the record.
        at: usize,
        /// Length of the file in bytes.
        length: usize,
    },
    /// the record at byte {at}: {reason}
    Record {
        /// Start of the record.
        at: usize,
        /// The reason.
        reason: serde_json::Error,
    },
}

/// Writes the line of the whole state.
pub(super) fn whole(to: &mut dyn Write, saved: &Saved) -> io::Result<()> {
    serde_json::to_writer(&mut *to, saved)?;
    to.write_all(b"\n")
}

/// Writes the line of a change.
pub(super) fn record(to: &mut Vec<u8>, patch: &Patch) -> io::Result<()> {
    let begin = to.len();
    to.resize(begin + SUM + 1, b' ');
    serde_json::to_writer(&mut *to, patch)?;
    let sum = sum(&to[begin + SUM + 1..]);
    to[begin..begin + SUM].copy_from_slice(sum.as_bytes());
    to.push(b'\n');
    Ok(())
}

fn sum(text: &[u8]) -> String {
    hex::encode(&Sha256::digest(text)[..SUM / 2])
}

/// Parses the lines of a file. The last record may be torn: it was never acknowledged.
pub(super) fn parse(bytes: &[u8]) -> Result<Saved, Broken> {
    let (first, mut rest) = split(bytes);
    let saved: Saved = serde_json::from_slice(first).map_err(Broken::State)?;
    let mut patches = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let (line, more) = split(rest);
        // A line without its end may be whole by chance; it was never acknowledged.
        let ended = line.len() < rest.len();
        match text(line).filter(|_| ended) {
            Some(text) => patches.push(serde_json::from_slice(text).map_err(|reason| Broken::Record { at, reason })?),
            None if lines(more).any(|line| text(line).is_some()) => {
                return Err(Broken::Middle { at, length: bytes.len() });
            }
            None => break,
        }
        rest = more;
    }
    Ok(saved.patched(patches))
}

/// Splits off the first line.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == b'\n')
}

/// Returns the text of an intact record.
fn text(line: &[u8]) -> Option<&[u8]> {
    let (given, rest) = line.split_at_checked(SUM)?;
    let text = rest.strip_prefix(b" ")?;
    (sum(text).as_bytes() == given).then_some(text)
}
