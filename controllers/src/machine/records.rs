//! File format of a modelled workload: numbered records, each bound to all earlier ones by a checksum.
//!
//! A record is one line: number, writer, and the checksum of the previous checksum, the number and the writer. So a
//! record that changed, is missing, or comes from another history is detected at its place. A line that is cut short is
//! a torn write of a crash, was never acknowledged, and is skipped.

use sha2::{Digest, Sha256};

/// Hex digits of a checksum.
const CHECKSUM: usize = 32;

/// End of a history of records, from which the next one continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Number of the last record; 0 before the first.
    pub last: u64,
    checksum: String,
    /// True if the file ends in a torn line, which must be closed before the next record.
    torn: bool,
}

/// Error in a file.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum Corruption {
    /// record {found} follows record {last}: records are missing or repeated
    Gap {
        /// The last good record.
        last: u64,
        /// The record that follows it.
        found: u64,
    },
    /// record {0} does not have the checksum that it and the records before it must have
    Checksum(u64),
    /// line {0} is not a record
    NotARecord(u64),
    /// the last record is {found}, and record {known} was there before
    Lost {
        /// The last record of an earlier reading.
        known: u64,
        /// The last record now.
        found: u64,
    },
}

fn checksum(previous: &str, number: u64, writer: &str) -> String {
    let hash = Sha256::new().chain_update(previous).chain_update(number.to_le_bytes()).chain_update(writer).finalize();
    hex::encode(&hash[..CHECKSUM / 2])
}

impl Chain {
    /// Verifies a whole file: every record must follow from the one before.
    ///
    /// # Errors
    /// The first record that does not.
    pub fn verify(file: &[u8]) -> Result<Self, Corruption> {
        let mut chain = Self::default();
        let mut rest = file;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                chain.torn = true;
                break;
            };
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            chain.take(line, number)?;
            rest = after;
        }
        Ok(chain)
    }

    /// Verifies the record in `line` at `position`, counted from 1.
    pub(super) fn take(&mut self, line: &[u8], position: u64) -> Result<(), Corruption> {
        // A filesystem may show the unwritten part of a torn tail as zeros.
        let torn = line.contains(&0) || line.last() == Some(&b'~');
        if torn {
            return Ok(());
        }
        let text = std::str::from_utf8(line).map_err(|_| Corruption::NotARecord(position))?;
        let mut parts = text.split(' ');
        let (Some(found), Some(writer), Some(sum), None) =
            (parts.next().and_then(|n| n.parse::<u64>().ok()), parts.next(), parts.next(), parts.next())
        else {
            return Err(Corruption::NotARecord(position));
        };
        if found != self.last + 1 {
            return Err(Corruption::Gap { last: self.last, found });
        }
        if sum != checksum(&self.checksum, found, writer) {
            return Err(Corruption::Checksum(found));
        }
        self.last = found;
        sum.clone_into(&mut self.checksum);
        Ok(())
    }

    /// Returns the bytes of the next record by `writer` (no blanks in it), and the chain that ends with it.
    pub fn next(&self, writer: &str) -> (Vec<u8>, Self) {
        let number = self.last + 1;
        let sum = checksum(&self.checksum, number, writer);
        // The mark closes a torn line so that later readers skip it, too.
        let close = if self.torn { "~\n" } else { "" };
        let bytes = format!("{close}{number} {writer} {sum}\n").into_bytes();
        (bytes, Self { last: number, checksum: sum, torn: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: u64) -> Vec<u8> {
        let (mut chain, mut file) = (Chain::default(), Vec::new());
        for _ in 0..records {
            let (bytes, next) = chain.next("default/p");
            file.extend(bytes);
            chain = next;
        }
        file
    }

    #[test]
    fn a_written_chain_verifies_and_grows() {
        let mut bytes = file(3);
        let chain = Chain::verify(&bytes).expect("intact");
        assert_eq!(chain.last, 3);
        bytes.extend(chain.next("default/q").0);
        assert_eq!(Chain::verify(&bytes).map(|c| c.last), Ok(4));
        assert_eq!(Chain::verify(b"").map(|c| c.last), Ok(0));
    }

    #[test]
    fn a_changed_byte_is_found_at_its_record() {
        let bytes = file(3);
        let second = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1;
        let mut changed = bytes.clone();
        // A digit of the second record's checksum.
        changed[second + 20] = if changed[second + 20] == b'0' { b'1' } else { b'0' };
        assert_eq!(Chain::verify(&changed), Err(Corruption::Checksum(2)));
    }

    #[test]
    fn a_missing_record_is_a_gap() {
        let bytes = file(3);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
        assert_eq!(Chain::verify(&[lines[0], lines[2]].concat()), Err(Corruption::Gap { last: 1, found: 3 }));
    }

    #[test]
    fn another_history_with_the_same_numbers_is_found() {
        let mut other = Chain::default().next("default/other").0;
        let bytes = file(2);
        other.extend(bytes.split_inclusive(|b| *b == b'\n').nth(1).expect("two lines"));
        assert_eq!(Chain::verify(&other), Err(Corruption::Checksum(2)));
    }

    #[test]
    fn a_torn_tail_is_passed_over_and_closed_by_the_next_record() {
        let mut bytes = file(2);
        bytes.extend(b"3 default/p 12ab");
        let chain = Chain::verify(&bytes).expect("a torn tail is not corruption");
        assert_eq!(chain.last, 2);
        bytes.extend(chain.next("default/p").0);
        assert_eq!(Chain::verify(&bytes).map(|c| c.last), Ok(3));
    }
}
