//! Writes a gzipped tar archive for `tar xzf`.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Block size of a tar archive.
const BLOCK: usize = 512;

/// An archive that is being written.
pub(super) struct Bundle<W: Write> {
    out: GzEncoder<W>,
    /// Modification time of all files, in seconds since 1970.
    time: i64,
}

impl<W: Write> Bundle<W> {
    /// Starts an archive in `out`, with `time` as the time of all files.
    pub(super) fn new(out: W, time: i64) -> Self {
        Self { out: GzEncoder::new(out, Compression::default()), time }
    }

    /// Adds a file; `name` must be shorter than 100 bytes.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(&header(name, bytes.len(), self.time)?)?;
        self.out.write_all(bytes)?;
        let rest = bytes.len() % BLOCK;
        self.out.write_all(&vec![0; if rest == 0 { 0 } else { BLOCK - rest }])
    }

    /// Writes the end of the archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.finish()
    }
}

/// Header of a file (POSIX ustar).
fn header(name: &str, length: usize, time: i64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    if name.len() >= 100 || length as u64 >= 1 << 33 {
        return Err(io::Error::other(format!("{name} does not fit into a tar archive")));
    }
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{length:011o}\0").as_bytes());
    put(136, format!("{:011o}\0", time.max(0)).as_bytes());
    // The checksum counts its own field as blanks.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}
