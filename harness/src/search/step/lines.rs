//! Reading a line and no byte more: what is left belongs to whoever goes on in place of this process.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

/// Longest line that is read.
const LONGEST: usize = 64 << 10;

/// The next line of standard input; nothing at its end.
pub(super) fn next() -> Option<String> {
    // One byte a call: nothing is kept that a copy of this process would lack.
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
