//! Grammars of names, with upstream's messages (apimachinery `util/validation`).

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the reason why `name` is not a DNS subdomain; `None` if it is.
pub(in crate::state) fn subdomain(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let fits = !name.is_empty() && name.split('.').all(is_label);
    (!fits).then(|| SUBDOMAIN.to_owned())
}

/// Returns the reason why `name` is not a DNS label; `None` if it is.
pub(in crate::state) fn label(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    (!is_label(name)).then(|| LABEL.to_owned())
}

/// Returns the reason why `name` cannot be a segment of a path; `None` if it can.
pub(in crate::state) fn path_segment(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ if name.contains('/') => Some("may not contain '/'".to_owned()),
        _ if name.contains('%') => Some("may not contain '%'".to_owned()),
        _ => None,
    }
}

/// Returns the reason why `key` is not a qualified name (`prefix/name` or `name`); `None` if it is.
pub(in crate::state) fn qualified(key: &str) -> Option<String> {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if prefix.is_empty() {
                return Some("prefix part must be non-empty".to_owned());
            }
            if let Some(why) = subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
        None => key,
    };
    if name.contains('/') {
        return Some(
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS \
                     subdomain prefix and '/' (e.g. 'example.com/MyName')"
                .to_owned(),
        );
    }
    match name.len() {
        0 => Some("name part must be non-empty".to_owned()),
        n if n > 63 => Some("name part must be no more than 63 characters".to_owned()),
        _ => (!is_word(name)).then(|| QUALIFIED.to_owned()),
    }
}

/// Returns the reason why `value` is not a label value; `None` if it is.
pub(in crate::state) fn label_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_grammars() {
        for good in ["a", "a.b", "0-1", "ebs.csi.aws.com"] {
            assert_eq!(subdomain(good), None, "{good}");
        }
        for bad in ["", "A", "a..b", "-a", "a-", "a_b", "#%123-invalid-name", &"a".repeat(254)] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        assert!(label("a.b").is_some() && label("a-b").is_none());
        assert!(qualified("kubernetes.io/pvc-protection").is_none() && qualified("a/b/c").is_some());
        assert!(qualified("/a").is_some() && qualified("A_b.c").is_none());
        assert!(label_value("").is_none() && label_value("a b").is_some());
        assert!(path_segment("a%2f").is_some() && path_segment("p.17").is_none());
    }
}
