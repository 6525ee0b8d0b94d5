//! Signature of a bug: its message without the parts that differ from run to run.

/// Replaces drawn names and numbers in `message` by their kinds.
pub(super) fn of(message: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in message.chars() {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            word.push(c);
        } else {
            out.push_str(&kind_of(&word));
            word.clear();
            out.push(c);
        }
    }
    out + &kind_of(&word)
}

fn kind_of(word: &str) -> String {
    let hex = |text: &str| text.len() >= 8 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    for kind in ["vol", "i", "snap", "pvc", "csi", "vai", "eni"] {
        if word.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')).is_some_and(hex) {
            return format!("{kind}-*");
        }
    }
    if hex(word) && word.bytes().any(|b| b.is_ascii_digit()) {
        return "*".to_owned();
    }
    if word.strip_prefix("node-").is_some_and(|rest| rest.len() <= 2 && !rest.is_empty()) {
        return "node-*".to_owned();
    }
    if word.bytes().next().is_some_and(|b| b.is_ascii_digit()) {
        return "N".to_owned();
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_draws_is_not_in_a_signature() {
        let one = "vol-0a1b2c3d4e5f6a7b8 is attached to i-0a1b2c3d4e5f on node-b, revision 17";
        let two = "vol-0f1b2c3d4e5f6a7b8 is attached to i-0a1b2c3d4e00 on node-a, revision 9";
        assert_eq!(of(one), "vol-* is attached to i-* on node-*, revision N");
        assert_eq!(of(one), of(two));
        assert_eq!(of("deadbeef-0000-4000-8000-000000000001: NodeUnstageVolume"), "*: NodeUnstageVolume");
    }
}
