//! Grammars of keys, variables and ports, with upstream's messages (apimachinery `util/validation`).

/// Maximum length of a key, in bytes.
const MAX_KEY: usize = 253;
/// Maximum length of the name of a port, in bytes.
const MAX_PORT: usize = 15;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const VARIABLE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
    used for validation is '[-A-Za-z0-9]+')";
/// Range of port numbers.
const PORTS: std::ops::RangeInclusive<i64> = 1..=65_535;

/// Returns the reasons why a text is not a key of a ConfigMap or a Secret; none if it is (`IsConfigMapKey`).
pub(in crate::state) fn key(key: &str) -> Vec<String> {
    let mut why = Vec::new();
    if key.len() > MAX_KEY {
        why.push(format!("must be no more than {MAX_KEY} characters"));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        why.push(KEY.to_owned());
    }
    match key {
        "." | ".." => why.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => why.push("must not start with '..'".to_owned()),
        _ => {}
    }
    why
}

/// Returns the reasons why a text is not the name of a variable; none if it is (`IsRelaxedEnvVarName`).
pub(super) fn variable(name: &str) -> Vec<String> {
    let empty = name.is_empty().then(|| "environment variable name must be non-empty".to_owned());
    let fits = name.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    empty.into_iter().chain((!fits).then(|| VARIABLE.to_owned())).collect()
}

/// Returns the reasons why a text is not the name of a port; none if it is (`IsValidPortName`).
pub(in crate::state) fn port_name(name: &str) -> Vec<String> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let long = format!("must be no more than {MAX_PORT} characters");
    let reasons = [
        (name.len() > MAX_PORT, long.as_str()),
        (
            name.is_empty() || !name.bytes().all(fits),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    reasons.into_iter().filter(|(wrong, _)| *wrong).map(|(_, why)| why.to_owned()).collect()
}

/// Returns the reason why a number is not a port (`IsValidPortNum`).
pub(in crate::state) fn port_number(number: i64) -> Option<&'static str> {
    (!PORTS.contains(&number)).then_some("must be between 1 and 65535, inclusive")
}

/// Returns the reason why a text is not the name of an HTTP header (`IsHTTPHeaderName`).
pub(super) fn header(name: &str) -> Option<&'static str> {
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (!fits).then_some(HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_key_has_all_of_its_reasons() {
        assert!(key("a.b_C-1").is_empty() && key(".a").is_empty());
        assert_eq!(key(".."), ["must not be '..'"]);
        assert_eq!(key("..a b"), [KEY, "must not start with '..'"]);
        assert_eq!(key(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }

    #[test]
    fn a_wrong_port_has_all_of_its_reasons() {
        assert!(port_name("http").is_empty() && port_name("a-1").is_empty());
        assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
        assert_eq!(
            port_name("-A--very-long-name"),
            [
                "must be no more than 15 characters",
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen"
            ]
        );
        assert_eq!((port_number(65_535), port_number(0).is_some()), (None, true));
    }
}
