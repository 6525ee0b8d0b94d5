//! Generated names. Each run generates other names; only the part before the generated suffix is the same.

/// Letters and digits of the names that an API server generates (`k8s.io/apimachinery/pkg/util/rand`).
const DRAWN: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Length of the generated suffix.
const SUFFIX: usize = 5;
/// Lengths of the parts of a uuid.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// Number of generated characters that are shown.
const SHOWN: usize = 6;
/// Minimum length of hexadecimal digits that count as generated.
const HEX: usize = 8;

/// Returns the fixed part of a generated name, with `*` for the generated part. `None` for a name that a user chose.
pub fn pattern(name: &str) -> Option<String> {
    let (before, last) = name.rsplit_once('/').map_or(("", name), |(space, last)| (&name[..=space.len()], last));
    let parts: Vec<&str> = last.split('-').collect();
    let drawn = |(at, part): (usize, &&str)| is_hex(part) || (at > 0 && at + 1 == parts.len() && is_suffix(part));
    let uuid = parts.windows(UUID.len()).position(is_uuid);
    let at = [uuid, parts.iter().enumerate().position(drawn)].into_iter().flatten().min()?;
    let kept: String = parts[..at].iter().map(|part| format!("{part}-")).collect();
    Some(format!("{before}{kept}*"))
}

/// Returns true if a name contains a uuid. The API server draws uuids in the order of its requests, which race, so the name
/// may differ in the next run although some runs agree on it.
pub fn has_uuid(name: &str) -> bool {
    let parts: Vec<&str> = name.split(['-', '/']).collect();
    parts.windows(UUID.len()).any(is_uuid)
}

/// Returns the fixed part of `name`, or `name` itself if it is not generated.
pub fn loose(name: &str) -> String {
    pattern(name).unwrap_or_else(|| name.to_owned())
}

/// Returns `name` for people: the first characters of a generated part are enough to distinguish names.
pub fn short(name: &str) -> String {
    let Some(pattern) = pattern(name) else { return name.to_owned() };
    let kept = pattern.len() - 1;
    let drawn: String = name[kept..].chars().take(SHOWN).collect();
    let rest = if name.len() - kept > SHOWN { "…" } else { "" };
    format!("{}{drawn}{rest}", &name[..kept])
}

/// Replaces each generated name in `text` by its fixed part.
pub fn loose_text(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        out += &loose(&rest[..end]);
        rest = &rest[end..];
        let end = rest.find(is_name).unwrap_or(rest.len());
        out += &rest[..end];
        rest = &rest[end..];
    }
    out
}

fn is_uuid(parts: &[&str]) -> bool {
    parts.iter().zip(UUID).all(|(part, length)| part.len() == length && part.bytes().all(is_hex_digit))
}

fn is_hex_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

fn is_hex(part: &str) -> bool {
    part.len() >= HEX && part.bytes().all(is_hex_digit) && part.bytes().any(|b| b.is_ascii_digit())
}

/// Returns true for the end of a generated name, also if the program drew a number itself.
fn is_suffix(part: &str) -> bool {
    let is_number = part.len() >= SUFFIX && part.bytes().all(|b| b.is_ascii_digit());
    is_number || (part.len() == SUFFIX && part.chars().all(|c| DRAWN.contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_names_become_stars_and_user_names_stay() {
        for (name, kept) in [
            ("pvc-eba50c61-fd7d-41f0-b198-ed549529db16", Some("pvc-*")),
            ("csi-0c1e9f3a77b2d4e5f60718293a4b5c6d7e8f90112233445566778899aabbccdd", Some("csi-*")),
            ("vol-08aa2aee8202a5805", Some("vol-*")),
            ("default/app-x7k2p", Some("default/app-*")),
            ("default/copy-51068", Some("default/copy-*")),
            ("default/copy-5106", None),
            ("default/data.17af3b2c1d0e9f88", None),
            ("deadbeef-0000-4000-8000-000000000001", Some("*")),
            ("pvc-deadbeef-0000-4000-8000-000000000001", Some("pvc-*")),
            ("default/data", None),
            ("node-a", None),
            ("web-2", None),
            ("my-nginx", None),
            ("defaced-cafe", None),
            ("", None),
        ] {
            assert_eq!(pattern(name).as_deref(), kept, "{name}");
        }
        assert_eq!(short("csi-0c1e9f3a77b2d4e5"), "csi-0c1e9f…");
        let uuid = "pvc-eba50c61-fd7d-41f0-b198-ed549529db16";
        assert!(has_uuid(uuid) && has_uuid(&format!("default/{uuid}")));
        assert!(!has_uuid("csi-0c1e9f3a77b2d4e5") && !has_uuid("default/app-x7k2p"));
        assert_eq!(
            (short("default/app-x7k2p"), short("node-a")),
            ("default/app-x7k2p".to_owned(), "node-a".to_owned())
        );
        assert_eq!(
            loose_text("patch volumeattachments/csi-0c1e9f3a77b2, vol-08aa2aee8202a5805: 200"),
            "patch volumeattachments/csi-*, vol-*: 200"
        );
    }
}
