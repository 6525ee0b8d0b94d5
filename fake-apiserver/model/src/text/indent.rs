//! Indented JSON.

/// Indents JSON: one member or item per line, two spaces per level, like Go's `json.MarshalIndent`. Indented JSON stays
/// as it is.
pub fn indent(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() + compact.len() / 2);
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(byte) = compact.get(at).copied() {
        at += 1;
        match byte {
            b'"' => {
                let length = string(&compact[at..]);
                out.push(byte);
                out.extend_from_slice(&compact[at..at + length]);
                at += length;
            }
            b'{' | b'[' => {
                out.push(byte);
                // An empty object or list stays on its line.
                if let Some(end @ (b'}' | b']')) = compact.get(at) {
                    out.push(*end);
                    at += 1;
                } else {
                    depth += 1;
                    line(depth, &mut out);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(depth, &mut out);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(depth, &mut out);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' => {}
            other => out.push(other),
        }
    }
    out
}

fn line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(b"  ");
    }
}

/// Returns the length of the rest of a string, including its closing quote.
fn string(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = rest.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use substrate::json::json;

    use super::*;

    #[test]
    fn empty_values_stay_on_one_line() {
        let value = json!({"a": [], "b": {}, "c": [1, {"d": "x:{\\\"[,\\\\"}], "e": "", "f": [[]]});
        let text = String::from_utf8(indent(value.to_string().as_bytes())).unwrap();
        assert_eq!(text, format!("{value:#}"));
        assert_eq!(indent(text.as_bytes()), text.as_bytes(), "once more");
        assert_eq!(indent(b"\"open\\"), b"\"open\\");
    }
}
