//! Plain words for the errors of parsers: YAML, CEL, and quantities.

/// An error in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Description of the error.
    pub message: String,
    /// Suggestion.
    pub help: Option<String>,
}

impl Plain {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()) }
    }
}

/// Rephrases an error of the YAML parser; `rest` is the text from its position on.
pub(super) fn yaml(message: &str, rest: &str) -> Plain {
    let contains = |part: &str| message.contains(part);
    let first = rest.trim_start().chars().next();
    if contains("tabs disallowed") || contains("start with a tab") {
        return Plain::new("a tab stands where this line is indented", "indent with spaces: YAML takes no tabs there");
    }
    if contains("flow mapping") || contains("bracket '{'") {
        return Plain::new(
            "a `{` before this is not closed, or a comma is missing",
            "write `{key: value, other: value}`",
        );
    }
    if contains("illegal placement of ':'") {
        return Plain::new("a `[` before this is not closed, or a key stands in a list", "write `[one, other]`");
    }
    if contains("flow sequence") || contains("bracket '['") || contains("mismatched bracket") {
        return Plain::new("a `[` before this is not closed, or a comma is missing", "write `[one, other]`");
    }
    if contains("quoted scalar") && (contains("stream") || contains("indentation")) || contains("unclosed quote") {
        return Plain::new("a quote before this is not closed", "write the same quote at the end of the text");
    }
    if contains("mapping values are not allowed") {
        return Plain::new(
            "a second `: ` stands in one line, or this line is indented further than the ones around it",
            "put a text that has `: ` in it into quotes; write the keys of one map in one column",
        );
    }
    if contains("block mapping") || contains("block collection") || contains("mapping keys are not allowed") {
        return Plain::new(
            "this line is not in the column of those before it",
            "write the keys of one map, and the `-` of one list, in one column",
        );
    }
    if contains("block sequence entries are not allowed") {
        return Plain::new("a list item cannot stand here", "begin a list on a line of its own, below its key");
    }
    if contains("unexpected character") || contains("cannot start any token") {
        let first = first.unwrap_or(' ');
        return Plain::new(format!("a plain text cannot begin with `{first}`"), "put it into quotes");
    }
    if contains("unknown anchor") {
        return Plain::new(
            "`*` refers to an anchor that is not there",
            "define it before with `&NAME`, or quote the text",
        );
    }
    if contains("simple key") || contains("expected ':'") {
        return Plain::new("this line is not `key: value`", "write `: ` between a key and its value");
    }
    Plain { message: message.to_owned(), help: None }
}

/// Rephrases an error of the CEL parser; `rest` is the condition from its position on, `before` the text before it.
pub(super) fn cel(message: &str, before: &str, rest: &str) -> Plain {
    let no = |what: &str| format!("this is not a condition in CEL: {what}");
    let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let operator = |word: &str| match word.to_ascii_lowercase().as_str() {
        "and" => Some("&&"),
        "or" => Some("||"),
        "not" => Some("!"),
        "is" | "equals" | "eq" => Some("=="),
        _ => None,
    };
    for word in [word.as_str(), last] {
        if let Some(sign) = operator(word) {
            return Plain::new(no(&format!("`{word}` is not an operator of CEL")), format!("write `{sign}`"));
        }
    }
    let sign = |from: char, right: &str, long: &str| {
        rest.starts_with(from)
            .then(|| Plain::new(no(&format!("`{long}` is not an operator of CEL")), format!("write `{right}`")))
    };
    let found = match before.trim_end().chars().next_back() {
        Some('=') => sign('=', "==", "==="),
        Some('<') => sign('>', "!=", "<>"),
        _ => sign('=', "==", "=").or_else(|| sign('&', "&&", "&")).or_else(|| sign('|', "||", "|")),
    };
    if let Some(found) = found {
        return found;
    }
    if rest.starts_with(['\'', '"']) && message.contains("token recognition") {
        return Plain::new(no("a quote is not closed"), "write the same quote at the end of the text");
    }
    if message.contains("missing ')'") || message.contains("missing ']'") || message.contains("missing '}'") {
        let sign = message.split('\'').nth(1).unwrap_or(")");
        return Plain::new(no(&format!("a `{sign}` is missing")), format!("close it with `{sign}`"));
    }
    if message.contains("Syntax error") {
        let rest = rest.trim();
        let what = match rest.chars().next() {
            None => "it ends too early".to_owned(),
            Some(first) => format!("`{}` cannot stand here", if word.is_empty() { first.to_string() } else { word }),
        };
        return Plain::new(
            no(&what),
            "a condition is such as `self.status.phase == 'Bound' && has(self.spec.volumeName)`",
        );
    }
    Plain { message: no(message), help: None }
}

/// Suggests the quantity that a text probably means.
pub(super) fn quantity(text: &str) -> Plain {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim().to_ascii_lowercase());
    let message = format!("`{text}` is not a quantity");
    let general = "write a number and a unit: 500Mi, 1Gi, 2Ti (powers of 1024), or 1G (powers of 1000)";
    let letter = unit.chars().next().filter(|c| "kmgtpe".contains(*c)).map(|c| c.to_ascii_uppercase());
    let (Some(letter), false) = (letter, number.is_empty()) else { return Plain::new(message, general) };
    // Only `k` is lower case in the decimal units.
    let ten = if letter == 'K' { 'k' } else { letter };
    match unit.get(1..) {
        Some("b") => {
            Plain::new(message, format!("did you mean `{number}{letter}i`? `{number}{ten}` counts in thousands"))
        }
        Some("" | "i" | "ib" | "ibi") => Plain::new(message, format!("did you mean `{number}{letter}i`?")),
        _ => Plain::new(message, general),
    }
}

/// Rephrases a kind of value of serde or the YAML parser.
pub(super) fn kind_of_value(words: &str) -> String {
    let words = words.trim();
    for (theirs, ours) in [
        ("mapping start", "a map of keys and values"),
        ("sequence start", "a list"),
        ("string scalar", "a text"),
        ("map", "a map"),
        ("sequence", "a list"),
        ("unit value", "nothing"),
        ("unit", "nothing"),
        ("boolean", "true or false"),
    ] {
        if words == theirs {
            return ours.to_owned();
        }
    }
    for (theirs, ours) in
        [("integer ", "the number "), ("floating point ", "the number "), ("string ", "the text "), ("boolean ", "")]
    {
        if let Some(value) = words.strip_prefix(theirs) {
            return format!(
                "{ours}{}",
                if value.starts_with('"') { value.replace('"', "`") } else { value.to_owned() }
            );
        }
    }
    words.to_owned()
}

/// Names the kind of the value that begins with `written`.
pub(super) fn kind_of_text(written: &str) -> String {
    let written = written.trim();
    let is_entry = || {
        let key = written.split_once(": ").map(|(key, _)| key).or(written.strip_suffix(':'));
        key.is_some_and(|key| !key.is_empty() && !key.contains([' ', '"', '\'']))
    };
    match written.chars().next() {
        None => "nothing".to_owned(),
        Some('[') => "a list".to_owned(),
        Some('{') => "a map".to_owned(),
        Some('-') if written.starts_with("- ") => "a list".to_owned(),
        Some(_) if is_entry() => "a map".to_owned(),
        Some(_) => format!("`{written}`"),
    }
}

/// Says how to write the expected kind of value.
pub(super) fn how_to_write(wanted: &str) -> Option<&'static str> {
    match wanted {
        "mapping start" => Some("write `{key: value}`, or each key in a line of its own below"),
        "sequence start" => Some("write `[one, other]`, or begin each item with `- `"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_that_is_none_gets_the_nearest_that_is_one() {
        for (text, help) in [
            ("1GB", "did you mean `1Gi`? `1G` counts in thousands"),
            ("500mb", "did you mean `500Mi`? `500M` counts in thousands"),
            ("4kb", "did you mean `4Ki`? `4k` counts in thousands"),
            ("1GiB", "did you mean `1Gi`?"),
            ("1.5 gi", "did you mean `1.5Gi`?"),
            ("10g", "did you mean `10Gi`?"),
            ("big", "write a number and a unit: 500Mi, 1Gi, 2Ti (powers of 1024), or 1G (powers of 1000)"),
            ("1 bushel", "write a number and a unit: 500Mi, 1Gi, 2Ti (powers of 1024), or 1G (powers of 1000)"),
            ("", "write a number and a unit: 500Mi, 1Gi, 2Ti (powers of 1024), or 1G (powers of 1000)"),
        ] {
            assert_eq!(quantity(text).help.as_deref(), Some(help), "{text}");
        }
    }

    #[test]
    fn values_have_names_that_people_use() {
        for (theirs, ours) in [
            ("mapping start", "a map of keys and values"),
            ("integer `3`", "the number `3`"),
            ("string \"data\"", "the text `data`"),
            ("sequence", "a list"),
            ("boolean `true`", "`true`"),
            ("{count: N} or a list of nodes", "{count: N} or a list of nodes"),
        ] {
            assert_eq!(kind_of_value(theirs), ours);
        }
        for (written, kind) in [
            ("[a]", "a list"),
            ("{a: b}", "a map"),
            ("a: b", "a map"),
            ("- a", "a list"),
            ("a b: c", "`a b: c`"),
            ("", "nothing"),
        ] {
            assert_eq!(kind_of_text(written), kind, "{written}");
        }
    }
}
