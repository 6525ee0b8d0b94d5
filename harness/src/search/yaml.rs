//! Writes a scenario as people do: block style outside, `{flow: maps}` inside.

use std::cmp::Reverse;

use serde_json::{Map, Value};

/// Maximum width of a flow line.
const WIDTH: usize = 110;
/// Keys in the order in which people write them; other keys follow alphabetically.
const ORDER: &[&str] = &[
    "name",
    "description",
    "apiVersion",
    "kind",
    "metadata",
    "namespace",
    "nodes",
    "zones",
    "latency",
    "link",
    "time-scale",
    "deadline",
    "replicas",
    "leader-elect",
    "flags",
    "driver",
    "efs",
    "without",
    "worlds",
    "violations",
    "teardown",
    "begin",
    "objects",
    "faults",
    "steps",
    "object",
    "list",
    "claim",
    "is",
    "on",
    "match",
    "when",
    "plane",
    "op",
    "where",
    "effect",
    "at",
];

/// Formats the document `value` as YAML.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    if let Value::Object(map) = value {
        for (key, value) in ordered(map) {
            entry(&mut out, key, value, 0);
        }
    }
    out
}

fn ordered(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    let rank = |key: &str| ORDER.iter().position(|known| *known == key).map(|at| ORDER.len() - at);
    entries.sort_by_key(|(key, _)| Reverse(rank(key)));
    entries
}

/// Writes `key: value`, at the beginning of a line or after a dash.
fn entry(out: &mut String, key: &str, value: &Value, indent: usize) {
    out.push_str(&name(key));
    out.push(':');
    under(out, value, indent, key.len() + 2);
}

/// Writes the value after a colon.
fn under(out: &mut String, value: &Value, indent: usize, used: usize) {
    let flat = flow(value);
    let pad = " ".repeat(indent + 2);
    match value {
        Value::Array(items) if indent == 0 && !items.is_empty() => list(out, items, &pad, indent),
        _ if indent + used + flat.chars().count() <= WIDTH => {
            out.push(' ');
            out.push_str(&flat);
            out.push('\n');
        }
        Value::Array(items) if !items.is_empty() => list(out, items, &pad, indent),
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            for (key, value) in ordered(map) {
                out.push_str(&pad);
                entry(out, key, value, indent + 2);
            }
        }
        _ => {
            out.push(' ');
            out.push_str(&flat);
            out.push('\n');
        }
    }
}

fn list(out: &mut String, items: &[Value], pad: &str, indent: usize) {
    out.push('\n');
    for item in items {
        out.push_str(pad);
        out.push_str("- ");
        let flat = flow(item);
        match item {
            // A step: its single key stays in block style.
            Value::Object(map) if map.len() == 1 => {
                for (key, value) in map {
                    entry(out, key, value, indent + 4);
                }
            }
            Value::Object(map) if indent + 4 + flat.chars().count() > WIDTH => {
                for (at, (key, value)) in ordered(map).into_iter().enumerate() {
                    if at > 0 {
                        out.push_str(pad);
                        out.push_str("  ");
                    }
                    entry(out, key, value, indent + 4);
                }
            }
            _ => {
                out.push_str(&flat);
                out.push('\n');
            }
        }
    }
}

/// Formats a value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entries: Vec<String> =
                ordered(map).into_iter().map(|(key, value)| format!("{}: {}", name(key), flow(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// Formats a key. The key `on` of a wait stays plain, although `on` is quoted as a value.
fn name(key: &str) -> String {
    if key == "on" { key.to_owned() } else { scalar(key) }
}

/// Formats a text, in quotes if YAML would read it as another type.
fn scalar(text: &str) -> String {
    if is_plain(text) || is_span(text) { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_plain(text: &str) -> bool {
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !word.contains(&text.to_ascii_lowercase().as_str())
}

/// Returns true for texts such as `6m30s` and `1Gi`.
fn is_span(text: &str) -> bool {
    let bytes = text.as_bytes();
    let unit = ["ms", "s", "m", "h", "Gi", "Mi", "Ti"].iter().any(|unit| text.ends_with(unit));
    unit && bytes[0].is_ascii_digit()
        && bytes[0] != b'0'
        && text.chars().all(|c| c.is_ascii_digit() || "mshGMTi".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_written_in_plain_style() {
        let document = json!({
            "steps": [
                { "claim": { "name": "data", "size": "1Gi" } },
                { "name": "go", "wait": { "is": "Running", "object": "pod/web", "within": "6m30s" } },
                { "expect": { "object": "pod/web", "that": "self.status.phase == 'Running'" } },
            ],
            "faults": [{ "name": "lost", "effect": { "drop_reply": true }, "when": { "nth": 3 }, "match": { "plane": "link" } }],
            "name": "found",
            "nodes": { "count": 2 },
        });
        let text = "\
name: found
nodes: {count: 2}
faults:
  - {name: lost, match: {plane: link}, when: {nth: 3}, effect: {drop_reply: true}}
steps:
  - claim: {name: data, size: 1Gi}
  - {name: go, wait: {object: pod/web, is: Running, within: 6m30s}}
  - expect: {object: pod/web, that: \"self.status.phase == 'Running'\"}
";
        assert_eq!(write(&document), text);
        assert_eq!(substrate::yaml::from_str::<Value>(text).unwrap(), document);
    }

    #[test]
    fn texts_stay_texts() {
        for text in [
            "", "on", "yes", "12", "1e3", "0x1f", "1Gi", "a: b", "- x", "#", "'", "\"", "\u{1f}", "é", "5m", "~", "*",
            "01s",
        ] {
            let document = json!({ "name": text, "list": [text], "map": { "x": { text: text } } });
            let written = write(&document);
            let read = crate::scenario::parse_tree("t", &written).unwrap_or_else(|e| panic!("{written}: {e}"));
            assert_eq!(read, document, "{written}");
        }
    }
}
