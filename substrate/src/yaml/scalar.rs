//! Numbers and booleans in text, by the parser's rules.

/// Parses an integer: decimal without leading zeros, or after `0x`, `0o` or `0b`; `_` is allowed between digits.
pub(super) fn integer(text: &str) -> Option<i128> {
    let text = trim(text);
    let (is_negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match text.get(..2) {
        Some("0x" | "0X") => (16, &text[2..]),
        Some("0o" | "0O") => (8, &text[2..]),
        Some("0b" | "0B") => (2, &text[2..]),
        _ => (10, text),
    };
    let starts_wrong =
        digits.starts_with(['_', '+', '-']) || (radix == 10 && digits.len() > 1 && digits.starts_with('0'));
    if starts_wrong || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    let size = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if is_negative { -size } else { size })
}

/// Parses a number.
pub(super) fn float(text: &str) -> Option<f64> {
    let text = trim(text);
    match text.to_ascii_lowercase().as_str() {
        ".nan" | "+.nan" | "-.nan" => Some(f64::NAN),
        ".inf" | "+.inf" => Some(f64::INFINITY),
        "-.inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// Parses a boolean; `yes`, `on` and similar words count unless `is_strict`.
pub(super) fn truth(text: &str, is_strict: bool) -> Option<bool> {
    match trim(text).to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "yes" | "y" | "on" if !is_strict => Some(true),
        "no" | "n" | "off" if !is_strict => Some(false),
        _ => None,
    }
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}
