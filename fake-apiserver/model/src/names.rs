//! Grammars of names, with upstream's messages (apimachinery `util/validation`).

use crate::fields::FieldError;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const UNDERSCORED: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL_OF_LETTER: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WORD: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the reasons why `name` is not a DNS subdomain; none if it is.
pub fn subdomain(name: &str) -> Vec<String> {
    reasons(name, 253, "characters", is_subdomain(name), SUBDOMAIN)
}

/// Returns the reasons why `name` is not a DNS label; none if it is.
pub fn label(name: &str) -> Vec<String> {
    let why = if is_subdomain(name) { "must not contain dots" } else { LABEL };
    reasons(name, 63, "characters", is_label(name), why)
}

/// Returns the reasons why `name` is not a DNS subdomain with underscores; none if it is.
pub fn underscored(name: &str) -> Vec<String> {
    let fits = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        rest.bytes().all(inner) && edge(rest.bytes().next()) && edge(rest.bytes().last())
    };
    reasons(name, 253, "characters", name.split('.').all(fits), UNDERSCORED)
}

/// Returns the reasons why `name` is not a DNS label that begins with a letter (RFC 1035); none if it is.
pub fn label_of_letter(name: &str) -> Vec<String> {
    let fits = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    reasons(name, 63, "characters", fits, LABEL_OF_LETTER)
}

/// Returns the base of a generated name as upstream validates it: a dash at its end and the character before it become
/// a letter (`maskTrailingDash`).
pub fn masked(base: &str) -> String {
    let mut rest = base.strip_suffix('-').unwrap_or_default().to_owned();
    match rest.pop() {
        Some(_) => rest + "a",
        None => base.to_owned(),
    }
}

/// Joins reasons to one text; `None` if there are none.
pub fn joined(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| reasons.join(","))
}

/// Returns the reasons why `name` cannot be a segment of a path; none if it can.
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%'].into_iter().filter(|bad| name.contains(*bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// Returns the reasons why `key` is not a qualified name (`prefix/name` or `name`); none if it is.
pub fn qualified(key: &str) -> Vec<String> {
    let parts: Vec<&str> = key.split('/').collect();
    let (prefix, name) = match parts[..] {
        [name] => (None, name),
        [prefix, name] => (Some(prefix), name),
        _ => {
            let domain = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {WORD} {domain}")];
        }
    };
    let of_prefix = match prefix {
        None => Vec::new(),
        Some("") => vec!["must be non-empty".to_owned()],
        Some(prefix) => reasons(prefix, 253, "bytes", is_subdomain(prefix), SUBDOMAIN),
    };
    let mut of_name = reasons(name, 63, "bytes", is_word(name), WORD);
    if name.is_empty() {
        of_name.insert(0, "must be non-empty".to_owned());
    }
    let named = |part: &'static str| move |why: String| format!("{part} part {why}");
    of_prefix.into_iter().map(named("prefix")).chain(of_name.into_iter().map(named("name"))).collect()
}

/// Returns the reasons why `value` is not a label value; none if it is.
pub fn label_value(value: &str) -> Vec<String> {
    reasons(value, 63, "bytes", value.is_empty() || is_word(value), LABEL_VALUE)
}

/// Returns the reasons why a text is too long or does not have its form.
fn reasons(text: &str, limit: usize, unit: &str, fits: bool, form: &str) -> Vec<String> {
    let long = (text.len() > limit).then(|| format!("must be no more than {limit} {unit}"));
    long.into_iter().chain((!fits).then(|| form.to_owned())).collect()
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_word(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// Adds an error for each reason why a value is invalid.
pub fn refuse(value: &str, field: &str, reasons: Vec<String>, errors: &mut Vec<FieldError>) {
    errors.extend(reasons.into_iter().map(|why| FieldError::invalid(field, &value.into(), why)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_grammars() {
        for good in ["a", "a.b", "0-1", "ebs.csi.aws.com"] {
            assert!(subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a..b", "-a", "a-", "a_b", "#%123-invalid-name", &"a".repeat(254)] {
            assert!(!subdomain(bad).is_empty(), "{bad}");
        }
        assert!(label("a-b").is_empty() && qualified("kubernetes.io/pvc-protection").is_empty());
        assert!(qualified("A_b.c").is_empty() && label_value("").is_empty() && path_segment("p.17").is_empty());
    }

    /// Cases of upstream's `TestIsDNS1123Label`, `TestIsQualifiedName` and `TestIsValidLabelValue`.
    #[test]
    fn a_wrong_name_has_all_of_its_reasons() {
        let word = |part: &str| format!("{part} part {WORD}");
        let long = "x".repeat(64);
        assert_eq!(label("a.b"), ["must not contain dots"]);
        assert_eq!(label(&"A".repeat(64)), ["must be no more than 63 characters", LABEL]);
        assert_eq!(subdomain(&"A".repeat(254)), ["must be no more than 253 characters", SUBDOMAIN]);
        assert_eq!(path_segment("/%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(underscored("-a"), [UNDERSCORED]);
        assert!(underscored("_tcp.a_b.c").is_empty());
        assert_eq!(label_of_letter("1a"), [LABEL_OF_LETTER]);
        assert!(label_of_letter("a-1").is_empty() && !label_of_letter("a.b").is_empty());
        assert_eq!(joined(&label(&"A".repeat(64))), Some(format!("must be no more than 63 characters,{LABEL}")));
        assert_eq!(qualified(""), ["name part must be non-empty".to_owned(), word("name")]);
        assert_eq!(qualified("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified("A/-"), [format!("prefix part {SUBDOMAIN}"), word("name")]);
        assert_eq!(qualified(&long), ["name part must be no more than 63 bytes"]);
        assert!(qualified("a/b/c")[0].starts_with("a valid label key must consist of alphanumeric characters"));
        assert_eq!(label_value(&long), ["must be no more than 63 bytes"]);
        assert_eq!(label_value("a b"), [LABEL_VALUE]);
    }
}
