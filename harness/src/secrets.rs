//! Names of variables and fields whose values are secrets.

/// Parts of such names.
const SECRETS: [&str; 8] =
    ["password", "passwd", "secret", "token", "credential", "private-key", "privatekey", "apikey"];
/// Names with such a part whose values are not secrets.
const NAMES: [&str; 9] = [
    "secretname",
    "secretref",
    "secretkeyref",
    "secretnamespace",
    "imagepullsecrets",
    "automountserviceaccounttoken",
    "clienttoken",
    "tokenexpirationseconds",
    "audiences",
];

/// Minimum length of a value that counts as a secret: shorter ones occur in any log.
const SHORTEST: usize = 6;

/// Returns true if a variable or field of this name holds a secret.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let plain = name.to_ascii_lowercase().replace('_', "-");
    let joined = plain.replace('-', "");
    let names =
        NAMES.contains(&joined.as_str()) || joined.ends_with("secretname") || joined.ends_with("secretnamespace");
    !names && SECRETS.iter().any(|part| plain.contains(part) || joined.contains(&part.replace('-', "")))
}

/// Returns true if a value is long enough to count as a secret and to be found in a text.
pub(crate) fn is_long(value: &str) -> bool {
    value.len() >= SHORTEST
}
