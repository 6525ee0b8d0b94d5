//! The output of a program as lines: bounded, without secrets, safe for a terminal. A pure state machine.

/// Maximum length of a line in bytes; a longer line is split.
const LONGEST: usize = 8 << 10;
/// The text that replaces a secret.
pub(crate) const MASK: &str = "(masked)";

/// Splits a stream of bytes into lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// Values that no line may contain, longest first.
    secrets: Vec<String>,
    /// Bytes at the end of a long line that may be the beginning of a secret.
    held: usize,
    rest: Vec<u8>,
}

impl Lines {
    /// Creates a splitter that masks these values.
    pub fn new(secrets: &[String]) -> Self {
        let held = secrets.iter().map(String::len).max().unwrap_or(0);
        Self { secrets: secrets.to_vec(), held, rest: Vec::new() }
    }

    /// Takes bytes, and calls `line` with each complete line.
    pub fn take(&mut self, mut bytes: &[u8], mut line: impl FnMut(String)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.gather(&bytes[..end], &mut line);
            let whole = std::mem::take(&mut self.rest);
            line(self.shown(&String::from_utf8_lossy(&whole)));
            bytes = &bytes[end + 1..];
        }
        self.gather(bytes, &mut line);
    }

    /// Returns the rest at the end of the stream, if any.
    pub fn end(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| self.shown(&String::from_utf8_lossy(&rest)))
    }

    /// Adds bytes without a line end, and cuts off lines that are too long.
    fn gather(&mut self, bytes: &[u8], line: &mut impl FnMut(String)) {
        for piece in bytes.chunks(LONGEST) {
            self.rest.extend_from_slice(piece);
            while self.rest.len() > LONGEST + self.held {
                // A secret that begins before the cut also ends before it, or begins in the part that is kept.
                let open = unfinished(&self.rest);
                let masked = self.masked(&String::from_utf8_lossy(&self.rest[..self.rest.len() - open]));
                let mut cut = masked.len().saturating_sub(self.held).min(LONGEST);
                while !masked.is_char_boundary(cut) {
                    cut -= 1;
                }
                let (first, kept) = masked.split_at(cut);
                if !first.is_empty() {
                    line(safe(first));
                }
                let end = self.rest.split_off(self.rest.len() - open);
                self.rest = [kept.as_bytes(), &end].concat();
            }
        }
    }

    fn shown(&self, text: &str) -> String {
        safe(&self.masked(text))
    }

    fn masked(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| text.contains(secret.as_str())) {
            masked = masked.replace(secret.as_str(), MASK);
        }
        masked
    }
}

/// Length of an incomplete character at the end of `bytes`.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_begun = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if is_begun { last.len() } else { 0 }
}

/// Returns a line without its carriage return, and with a sign instead of each control character that a terminal could
/// execute.
fn safe(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    line.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(secrets: &[&str], pieces: &[&[u8]]) -> Vec<String> {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let mut lines = Lines::new(&secrets);
        let mut out = Vec::new();
        for piece in pieces {
            lines.take(piece, |line| out.push(line));
        }
        out.extend(lines.end());
        out
    }

    #[test]
    fn pieces_become_lines_and_a_terminal_obeys_none() {
        assert_eq!(lines(&[], &[b"a", b"b\nc\r\n\n", b"\x1b[2Jd\te"]), ["ab", "c", "", "\u{fffd}[2Jd\te"]);
        assert_eq!(lines(&[], &[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}"]);
        assert_eq!(lines(&[], &[]), Vec::<String>::new());
    }

    #[test]
    fn a_secret_is_masked_wherever_the_pieces_are_cut() {
        let text = b"token=swordfish; again swordfish\n";
        for at in 0..text.len() {
            let message = lines(&["swordfish"], &[&text[..at], &text[at..]]);
            assert_eq!(message, ["token=(masked); again (masked)"], "cut at {at}");
        }
    }

    #[test]
    fn a_character_at_a_cut_stays_whole() {
        let text = "ä".repeat(2 * LONGEST);
        for at in LONGEST..LONGEST + 4 {
            let message = lines(&["swordfish"], &[&text.as_bytes()[..at], &text.as_bytes()[at..]]);
            assert!(message.len() > 1 && message.concat() == text, "cut at {at}");
        }
    }

    #[test]
    fn a_line_without_end_becomes_several_and_shows_no_secret_at_a_cut() {
        for before in LONGEST - 20..LONGEST + 20 {
            let text = format!("{}swordfish{}", "x".repeat(before), "y".repeat(3 * LONGEST));
            let message = lines(&["swordfish"], &[text.as_bytes()]);
            assert!(message.iter().all(|line| line.len() <= LONGEST + 20), "{before}");
            let whole = message.concat();
            assert!(!whole.contains("sword") && !whole.contains("fish") && whole.contains(MASK), "{before}");
            assert_eq!(whole.len(), text.len() - "swordfish".len() + MASK.len(), "{before}");
        }
    }
}
