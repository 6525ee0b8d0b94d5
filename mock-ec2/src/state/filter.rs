//! Filters: values are OR, filters are AND. `*` and `?` are wildcards, a backslash escapes them.

use std::collections::BTreeMap;

use super::error::Ec2Error;

/// One `Filter.n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its name, such as `status` or `tag:Name`.
    pub name: String,
    /// The values, any of which may match.
    pub values: Vec<String>,
}

/// Resource that can be filtered.
pub trait Filterable {
    /// Filter names besides `tag:<key>`, `tag-key` and `tag-value`.
    const NAMES: &'static [&'static str];

    /// Calls `found` with each value that the filter `name` compares.
    fn values(&self, name: &str, found: &mut dyn FnMut(&str));

    /// Returns the tags, if the kind has tags.
    fn tags(&self) -> Option<&BTreeMap<String, String>>;
}

/// Checks the filters' names.
///
/// # Errors
/// `InvalidParameterValue` for a filter that the kind does not have.
pub fn check<T: Filterable>(filters: &[Filter], tagged: bool) -> Result<(), Ec2Error> {
    check_names(filters, T::NAMES, tagged)
}

/// Checks the filters' names against `known`.
///
/// # Errors
/// As [`check`].
pub fn check_names(filters: &[Filter], known: &[&str], tagged: bool) -> Result<(), Ec2Error> {
    for filter in filters {
        let name = filter.name.as_str();
        let tag = tagged && (matches!(name, "tag-key" | "tag-value") || name.starts_with("tag:"));
        if !tag && !known.contains(&name) {
            return Err(Ec2Error::InvalidParameterValue(format!("The filter '{name}' is invalid")));
        }
    }
    Ok(())
}

/// Returns true if `item` passes all filters.
pub fn matches<T: Filterable>(item: &T, filters: &[Filter]) -> bool {
    filters.iter().all(|filter| {
        let mut hit = false;
        let mut found = |value: &str| hit = hit || filter.values.iter().any(|pattern| wildcard(pattern, value));
        match (filter.name.as_str(), item.tags()) {
            ("tag-key", Some(tags)) => tags.keys().for_each(|key| found(key)),
            ("tag-value", Some(tags)) => tags.values().for_each(|value| found(value)),
            (name, tags) => match (name.strip_prefix("tag:"), tags) {
                (Some(key), Some(tags)) => tags.get(key).into_iter().for_each(|value| found(value)),
                _ => item.values(name, &mut found),
            },
        }
        hit
    })
}

/// Returns true if `pattern` has no wildcard or escape.
pub fn literal(pattern: &str) -> bool {
    !pattern.bytes().any(|b| matches!(b, b'*' | b'?' | b'\\'))
}

/// Returns true if `value` matches `pattern`.
pub fn wildcard(pattern: &str, value: &str) -> bool {
    if literal(pattern) {
        return pattern == value;
    }
    let pattern = tokens(pattern);
    let value: Vec<char> = value.chars().collect();
    // Greedy, with one point to backtrack to: linear except for the last star.
    let (mut p, mut v) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while v < value.len() {
        match pattern.get(p) {
            Some(Token::Star) => {
                star = Some((p, v));
                p += 1;
            }
            Some(token) if token.is(value[v]) => {
                p += 1;
                v += 1;
            }
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    p = *at + 1;
                    v = *from;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|token| matches!(token, Token::Star))
}

enum Token {
    Star,
    Any,
    Char(char),
}

impl Token {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Char(own) => *own == c,
        }
    }
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut out = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::Char(chars.next().unwrap_or('\\')),
            c => Token::Char(c),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_in_the_console() {
        for (pattern, value, expected) in [
            ("b*", "banana", true),
            ("b*", "abc", false),
            ("*", "", true),
            ("b?g", "bag", true),
            ("b?g", "bg", false),
            ("*na", "banana", true),
            ("*an*n*", "banana", true),
            ("*x*", "banana", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(wildcard(pattern, value), expected, "{pattern} ~ {value}");
        }
    }
}
