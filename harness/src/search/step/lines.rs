//! Reads exactly one line: the following bytes belong to the copy or parent that continues the session.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

/// Maximum length of a line; the rest is dropped.
const LONGEST: usize = 64 << 10;

/// Reads the next line of standard input; none at its end.
pub(super) fn next() -> Option<String> {
    // One byte per call, because a buffer in this process would be missing in its copies.
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) if line.is_empty() => return None,
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() < LONGEST => line.push(byte[0]),
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}
