//! Named formats of strings.

use std::borrow::Cow;
use std::sync::LazyLock;

use ::regex::Regex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cel::common::types::{CelOptional, CelString};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};

use super::url;
use super::values::{opaque, texts};

/// A format.
#[derive(Clone, Copy, Debug)]
struct Format {
    name: &'static str,
    /// Returns the errors in a string.
    check: fn(&str) -> Vec<String>,
}
opaque!(Format, "kubernetes.NamedFormat");

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Defines all formats, and the function that returns each.
macro_rules! formats {
    ($($function:ident $name:literal $check:expr;)*) => {
        const FORMATS: &[Format] = &[$(Format { name: $name, check: $check }),*];

        $(fn $function<'b, 'v>(_: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
            Ok(CowVal::owned(Format { name: $name, check: $check }))
        })*

        fn constants(env: &mut Env) -> Result<(), DeclarationError> {
            $(env.add_overload(concat!("format.", $name), concat!("format_", $name), vec![], $function)?;)*
            Ok(())
        }
    };
}

formats! {
    dns1123_label "dns1123Label" |text| LABEL.check(text);
    dns1123_subdomain "dns1123Subdomain" |text| SUBDOMAIN.check(text);
    dns1035_label "dns1035Label" |text| LABEL_1035.check(text);
    qualified_name "qualifiedName" |text| qualified(text);
    dns1123_label_prefix "dns1123LabelPrefix" |text| LABEL.check(&masked(text));
    dns1123_subdomain_prefix "dns1123SubdomainPrefix" |text| SUBDOMAIN.check(&masked(text));
    dns1035_label_prefix "dns1035LabelPrefix" |text| LABEL_1035.check(&masked(text));
    label_value "labelValue" |text| VALUE.check(text);
    uri "uri" |text| url::request_uri(text).err().into_iter().collect();
    uuid "uuid" |text| unless(uuid::Uuid::parse_str(text).is_ok(), "does not match the UUID format");
    byte "byte" |text| unless(STANDARD.decode(text).is_ok(), "invalid base64");
    date "date" |text| unless(text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(), "invalid date");
    datetime "datetime" |text| unless(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime");
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    constants(env)?;
    cel::add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    cel::add_member_overload!(env, fn validate: (Format, CelString) -> CelOptional)
}

/// Returns true if a string has the format of that name.
pub(super) fn is(name: &str, text: &str) -> bool {
    FORMATS.iter().any(|format| format.name == name && (format.check)(text).is_empty())
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    let found = FORMATS.iter().find(|format| format.name == name.inner());
    found.map_or_else(CelOptional::none, |format| CelOptional::of(Box::new(*format)))
}

fn validate(format: &Format, text: &CelString<'_>) -> CelOptional<'static> {
    let wrong = (format.check)(text.inner());
    if wrong.is_empty() { CelOptional::none() } else { CelOptional::of(Box::new(texts(wrong))) }
}

fn unless(fits: bool, why: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![why.to_owned()] }
}

/// A pattern, upstream's message about a mismatch, and the maximum length (apimachinery `util/validation`).
struct Grammar {
    pattern: &'static str,
    why: &'static str,
    examples: &'static [&'static str],
    most: usize,
    unit: &'static str,
}

const LABEL: Grammar = Grammar {
    pattern: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    why: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
          with an alphanumeric character",
    examples: &["my-name", "123-abc"],
    most: 63,
    unit: "characters",
};
const SUBDOMAIN: Grammar = Grammar {
    pattern: "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    why: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
          and end with an alphanumeric character",
    examples: &["example.com"],
    most: 253,
    unit: "characters",
};
const LABEL_1035: Grammar = Grammar {
    pattern: "[a-z]([-a-z0-9]*[a-z0-9])?",
    why: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
          character, and end with an alphanumeric character",
    examples: &["my-name", "abc-123"],
    most: 63,
    unit: "characters",
};
const VALUE: Grammar = Grammar {
    pattern: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    why: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
          and end with an alphanumeric character",
    examples: &["MyValue", "my_value", "12345"],
    most: 63,
    unit: "bytes",
};
const NAME: Grammar = Grammar {
    pattern: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    why: "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
          alphanumeric character",
    examples: &["MyName", "my.name", "123-abc"],
    most: 63,
    unit: "bytes",
};

/// Patterns of all grammars, compiled.
static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let all = [LABEL, SUBDOMAIN, LABEL_1035, VALUE, NAME].map(|grammar| grammar.pattern);
    all.into_iter().filter_map(|pattern| Some((pattern, Regex::new(&format!("^(?:{pattern})$")).ok()?))).collect()
});

impl Grammar {
    fn check(&self, text: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if text.len() > self.most {
            wrong.push(format!("must be no more than {} {}", self.most, self.unit));
        }
        if !PATTERNS.iter().any(|(pattern, regex)| *pattern == self.pattern && regex.is_match(text)) {
            let examples: Vec<String> = self.examples.iter().map(|example| format!("'{example}'")).collect();
            let (why, pattern) = (self.why, self.pattern);
            wrong.push(format!("{why} (e.g. {}, regex used for validation is '{pattern}')", examples.join(",  or ")));
        }
        wrong
    }
}

/// Replaces the last dash of a generateName, so that it can be checked like a name.
fn masked(text: &str) -> Cow<'_, str> {
    match text.strip_suffix('-') {
        Some(before) if !before.is_empty() => format!("{before}a").into(),
        _ => text.into(),
    }
}

fn qualified(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(SUBDOMAIN.check(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        _ => {
            let why = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                       end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                       validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix \
                       and '/' (e.g. 'example.com/MyName')";
            return vec![why.to_owned()];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME.most {
        wrong.push(format!("name part must be no more than {} {}", NAME.most, NAME.unit));
    }
    let grammar = NAME.check(name).into_iter().filter(|why| !why.starts_with("must be"));
    wrong.extend(grammar);
    wrong
}
