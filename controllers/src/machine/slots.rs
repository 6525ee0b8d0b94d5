//! How the records of a modelled workload lie on a raw device: one in each sector from the first on, filled up with
//! zeros. The number of a record is that of its slot, so a write that was cut short is written over by the next one.

use super::records::{Chain, Corruption};

/// Bytes of a slot: what a disk writes as a whole.
pub const SLOT: usize = 512;

/// Where the record after `chain` goes, in bytes from the device's beginning.
pub fn next_offset(chain: &Chain) -> u64 {
    chain.last * SLOT as u64
}

/// Puts the line of a record into a slot; nothing when the slot is too small for it.
pub fn slot(line: &[u8]) -> Option<Vec<u8>> {
    let mut slot = line.to_vec();
    slot.resize(SLOT, 0);
    (line.len() <= SLOT).then_some(slot)
}

/// Reads the records off a device, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    chain: Chain,
    slots: u64,
    ended: bool,
}

impl Reader {
    /// Takes the next piece, of whole slots; true when more may follow.
    ///
    /// # Errors
    /// The first record that does not follow from those before, or one beyond the end.
    pub fn feed(&mut self, piece: &[u8]) -> Result<bool, Corruption> {
        for slot in piece.chunks(SLOT) {
            self.slots += 1;
            let written = slot.iter().any(|byte| *byte != 0);
            match slot.iter().position(|byte| *byte == b'\n') {
                _ if !written => self.ended = true,
                // What comes after an empty or torn slot was written by nobody who followed the rules.
                _ if self.ended => return Err(Corruption::NotARecord(self.slots)),
                None => self.ended = true,
                Some(_) if slot.len() < SLOT => return Err(Corruption::NotARecord(self.slots)),
                Some(end) => self.chain.take(&slot[..end], self.slots)?,
            }
        }
        Ok(!self.ended)
    }

    /// The records that were found.
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
    fn what_was_written_is_read_back() {
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
        // The hole ends the piece that it lies in, and what follows it in that piece is found.
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
