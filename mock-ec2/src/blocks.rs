//! Allocated blocks of a backing file, and the difference between two files, for the EBS direct API.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Size of a block of the EBS direct API in bytes.
pub(crate) const BLOCK: u64 = 512 << 10;

/// Returns the first `most` blocks of `file` from block `from` on that may hold data.
pub(crate) fn present(file: &File, from: u64, most: usize) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut block = from;
    while found.len() < most {
        match next(file, block)? {
            None => break,
            Some(at) => {
                found.push(at);
                block = at + 1;
            }
        }
    }
    Ok(found)
}

/// Changed block, with true for each file that holds it.
pub(crate) type Changed = (u64, bool, bool);

/// Returns the first `most` blocks from block `from` on in which `first` and `second` differ.
pub(crate) fn changed(first: &File, second: &File, from: u64, most: usize) -> io::Result<Vec<Changed>> {
    let mut found = Vec::new();
    let mut block = from;
    while found.len() < most {
        let (a, b) = (next(first, block)?, next(second, block)?);
        let Some(at) = a.into_iter().chain(b).min() else { break };
        let (old, new) = (read(first, at)?, read(second, at)?);
        if old != new {
            found.push((at, a == Some(at), b == Some(at)));
        }
        block = at + 1;
    }
    Ok(found)
}

/// Returns the first allocated block from `block` on.
fn next(file: &File, block: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(block.saturating_mul(BLOCK))) {
        Ok(at) => Ok(Some(at / BLOCK)),
        // Only a hole, or the end of the file, is left.
        Err(Errno::NXIO | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a block; bytes beyond the end are zero.
pub(crate) fn read(file: &File, block: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], block * BLOCK + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_blocks_are_listed() {
        let (a, b) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        for file in [&a, &b] {
            file.set_len(1 << 30).unwrap();
            file.write_all_at(b"same", 0).unwrap();
        }
        a.write_all_at(b"old", 5 * BLOCK).unwrap();
        b.write_all_at(b"new", 5 * BLOCK + 7).unwrap();
        b.write_all_at(b"more", 2000 * BLOCK).unwrap();
        a.write_all_at(&[0; 10], 9 * BLOCK).unwrap();
        assert_eq!(present(&a, 0, 10).unwrap(), [0, 5, 9]);
        assert_eq!(present(&b, 1, 1).unwrap(), [5]);
        assert_eq!(changed(&a, &b, 0, 10).unwrap(), [(5, true, true), (2000, false, true)]);
        assert_eq!(changed(&a, &b, 6, 10).unwrap(), [(2000, false, true)]);
        assert!(present(&a, u64::MAX / BLOCK, 10).unwrap().is_empty());
    }
}
