//! Layout of a modelled workload's records on a raw device: one per sector from the first on, padded with zeros. A
//! record's number is its slot's, so the next write overwrites one that was cut short.

use super::records::{Chain, Corruption};

/// Bytes of a slot: a disk writes them atomically.
pub const SLOT: usize = 512;

/// Returns the offset of the record after `chain`, in bytes.
pub fn next_offset(chain: &Chain) -> u64 {
    chain.last * SLOT as u64
}

/// Pads the line of a record to a slot; None if it is too long.
pub fn slot(line: &[u8]) -> Option<Vec<u8>> {
    let mut slot = line.to_vec();
    slot.resize(SLOT, 0);
    (line.len() <= SLOT).then_some(slot)
}

/// Verifier of the records of a device, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    chain: Chain,
    slots: u64,
    ended: bool,
}

impl Reader {
    /// Takes the next piece, of whole slots. Returns true if more may follow.
    ///
    /// # Errors
    /// The first record that does not follow from those before, or one beyond the end.
    pub fn feed(&mut self, piece: &[u8]) -> Result<bool, Corruption> {
        for slot in piece.chunks(SLOT) {
            self.slots += 1;
            let written = slot.iter().any(|byte| *byte != 0);
            match slot.iter().position(|byte| *byte == b'\n') {
                _ if !written => self.ended = true,
                // A valid writer leaves all slots after an empty or torn one unwritten.
                _ if self.ended => return Err(Corruption::NotARecord(self.slots)),
                None => self.ended = true,
                Some(_) if slot.len() < SLOT => return Err(Corruption::NotARecord(self.slots)),
                Some(end) => self.chain.take(&slot[..end], self.slots)?,
            }
        }
        Ok(!self.ended)
    }

    /// Returns the verified records.
    pub fn chain(self) -> Chain {
        self.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(records: u64) -> (Vec<u8>, Chain) {
        let (mut chain, mut bytes) = (Chain::default(), vec![0; 4 * SLOT]);
        for _ in 0..records {
            let (line, next) = chain.next("default/p");
            let at = usize::try_from(next_offset(&chain)).expect("small");
            bytes[at..at + SLOT].copy_from_slice(&slot(&line).expect("it fits"));
            chain = next;
        }
        (bytes, chain)
    }

    fn read(bytes: &[u8]) -> Result<u64, Corruption> {
        let mut reader = Reader::default();
        for piece in bytes.chunks(2 * SLOT) {
            if !reader.feed(piece)? {
                break;
            }
        }
        Ok(reader.chain().last)
    }

    #[test]
    fn written_records_are_read_back() {
        for records in 0..=4 {
            assert_eq!(read(&device(records).0), Ok(records));
        }
    }

    #[test]
    fn a_torn_slot_is_passed_over_and_written_over() {
        let (mut bytes, chain) = device(2);
        let (line, _) = chain.next("default/p");
        bytes[2 * SLOT..2 * SLOT + line.len() / 2].copy_from_slice(&line[..line.len() / 2]);
        assert_eq!(read(&bytes), Ok(2));
        assert_eq!(next_offset(&chain), 2 * SLOT as u64);
    }

    #[test]
    fn changed_missing_and_foreign_bytes_are_found() {
        let (bytes, _) = device(3);
        let mut changed = bytes.clone();
        changed[SLOT + 20] ^= 1;
        assert!(read(&changed).is_err());
        let mut missing = bytes.clone();
        missing[SLOT..2 * SLOT].fill(0);
        missing[2 * SLOT..3 * SLOT].copy_from_slice(&bytes[2 * SLOT..3 * SLOT]);
        // The hole ends its piece, and the record after it in that piece is detected.
        let mut reader = Reader::default();
        assert_eq!(reader.feed(&missing), Err(Corruption::NotARecord(3)));
        let mut swapped = bytes.clone();
        swapped[..SLOT].copy_from_slice(&bytes[SLOT..2 * SLOT]);
        assert_eq!(read(&swapped), Err(Corruption::Gap { last: 0, found: 2 }));
        assert_eq!(read(b"something else\n"), Err(Corruption::NotARecord(1)));
    }

    #[test]
    fn a_line_that_is_longer_than_a_slot_has_none() {
        assert_eq!(slot(&[b'x'; SLOT + 1]), None);
    }
}
