//! YAML in the form that `sigs.k8s.io/yaml` writes: block style, lists at the indentation of their key, strings without
//! quotes if they stay strings.

use substrate::json::Value;

/// Indentation of a map within a map or a list.
const STEP: usize = 2;

/// Returns a whole document.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    node(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Appends a value after a key or a dash, or at the beginning; the cursor is at `column`.
fn node(value: &Value, column: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (i, (key, value)) in map.iter().enumerate() {
                begin(i, column, out);
                scalar(key, column, true, out);
                out.push(':');
                match value {
                    Value::Object(map) if !map.is_empty() => {
                        out.push('\n');
                        indent(column + STEP, out);
                        node(value, column + STEP, out);
                    }
                    Value::Array(list) if !list.is_empty() => {
                        out.push('\n');
                        indent(column, out);
                        node(value, column, out);
                    }
                    plain => {
                        out.push(' ');
                        node(plain, column, out);
                    }
                }
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (i, value) in list.iter().enumerate() {
                begin(i, column, out);
                out.push_str("- ");
                node(value, column + STEP, out);
            }
        }
        Value::String(text) => scalar(text, column, false, out),
        plain => out.push_str(&plain.to_string()),
    }
}

/// Ends the previous line, except before the first member.
fn begin(position: usize, column: usize, out: &mut String) {
    if position > 0 {
        if !out.ends_with('\n') {
            out.push('\n');
        }
        indent(column, out);
    }
}

fn indent(column: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', column));
}

fn scalar(text: &str, column: usize, is_key: bool, out: &mut String) {
    if text.contains('\n') && !is_key && is_block(text) {
        block(text, column, out);
    } else if text.is_empty() || !text.chars().all(is_printable) || is_other(text) {
        quoted(text, out);
    } else if is_plain(text) {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

/// Returns true if a string can be written as a block, line by line.
fn is_block(text: &str) -> bool {
    let is_whole = text.chars().all(|c| c == '\n' || is_printable(c));
    is_whole && !text.starts_with([' ', '\n']) && !text.ends_with(' ') && !text.contains(" \n")
}

fn block(text: &str, column: usize, out: &mut String) {
    let body = text.trim_end_matches('\n');
    out.push('|');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(column + STEP, out);
            out.push_str(line);
        }
    }
    out.push('\n');
    out.extend(text[body.len()..].chars().skip(1));
}

/// Appends a string in double quotes.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) > 0xffff => out.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    out.push('"');
}

/// Returns true if a character needs no escape; line breaks need one.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// Returns true if a string can be written without quotes.
fn is_plain(text: &str) -> bool {
    let is_marked = text.starts_with(['#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`'])
        || ["-", "?", ":"].iter().any(|mark| text == *mark || text.starts_with(&format!("{mark} ")))
        || ["---", "..."].iter().any(|mark| text.starts_with(mark));
    !is_marked
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains('\n')
}

/// Returns true if a string without quotes would be read as another type: YAML 1.1 has many words and numbers.
fn is_other(text: &str) -> bool {
    const WORDS: [&str; 14] =
        ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", ".nan", ".inf", "+.inf", "-.inf"];
    text == "<<" || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) || is_number(text) || is_time(text)
}

fn is_number(text: &str) -> bool {
    let digits = text.replace('_', "");
    let digits = digits.strip_prefix(['-', '+']).unwrap_or(&digits);
    let based = |prefix: &str, radix: u32| {
        digits.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix)))
    };
    // Hours and minutes are a number to the base of sixty.
    let by_sixty = digits.contains(':') && digits.split(':').all(|part| part.parse::<f64>().is_ok());
    let is_float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.parse::<f64>().is_ok();
    is_float || by_sixty || based("0x", 16) || based("0b", 2) || based("0o", 8)
}

/// Returns true for a date, with or without a time.
fn is_time(text: &str) -> bool {
    let (date, rest) = text.split_at(text.find(['T', 't', ' ']).unwrap_or(text.len()));
    let parts: Vec<&str> = date.split('-').collect();
    let of = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let is_date = matches!(parts[..], [year, month, day] if of(year, 4..=4) && of(month, 1..=2) && of(day, 1..=2));
    is_date && (rest.is_empty() || rest.contains(':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use substrate::json::json;

    use super::*;

    #[test]
    fn a_document_has_the_form_that_kubectl_prints() {
        let value = json!({"apiVersion": "v1", "data": {"a": "x\ny\n", "b": "x\ny", "c": "1", "d": "1Gi", "e": "", "f": "yes",
            "g": "it's: so", "h": "a\tb", "i": "# no", "j": "x\n\n", "true": "k"}, "empty": {}, "list": [{"k": 1, "l": [true, null]}, "m", [1, [2]], []],
            "none": null, "time": "2026-01-02T03:04:05Z", "when": "12:30", "emoji": "😀"});
        let wanted = "apiVersion: v1\ndata:\n  a: |\n    x\n    y\n  b: |-\n    x\n    y\n  c: \"1\"\n  d: 1Gi\n  e: \"\"\n  f: \"yes\"\n  \
                      g: 'it''s: so'\n  h: \"a\\tb\"\n  i: '# no'\n  j: |+\n    x\n\n  \"true\": k\nemoji: \"\\U0001F600\"\nempty: {}\n\
                      list:\n- k: 1\n  l:\n  - true\n  - null\n- m\n- - 1\n  - - 2\n- []\nnone: null\n\
                      time: \"2026-01-02T03:04:05Z\"\nwhen: \"12:30\"\n";
        assert_eq!(yaml(&value), wanted);
        assert_eq!((yaml(&json!([])), yaml(&json!("a"))), ("[]\n".to_owned(), "a\n".to_owned()));
    }

    fn tree() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,12}",
            "[-?:,\\[\\]{}#&*!|>'\"%@` \n\t.~=<0-9a-fxTZ_+]{0,8}",
            "[0-9:._eE+-]{1,10}",
            Just("Null".to_owned())
        ];
        let leaf = prop_oneof![
            text.clone().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_survives_a_round_trip(value in tree()) {
            let text = yaml(&value);
            let read: Value = substrate::yaml::from_str(&text).map_err(|why| TestCaseError::fail(format!("{why}\n{text}")))?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
