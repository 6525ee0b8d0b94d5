//! Values of tags in parameters: Go's templates over the names of claim and volume, or of snapshot and content, as far
//! as the EBS driver's users write them (aws-ebs-csi-driver, docs/tagging.md). Pure.
//!
//! `{{ .PVCNamespace | field "-" 2 | toUpper }}`: an operand, and functions that get the value before them as their
//! last argument. Other constructs of Go's text/template, such as `if` and variables, are refused.

/// Names that a template can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Their type in the driver, for its messages.
    of: &'static str,
    /// Field of the template, parameter of the sidecar, and value; empty if the sidecar passes none.
    fields: [(&'static str, &'static str, String); 3],
}

impl Names {
    /// Returns the names of a volume.
    pub fn of_volume() -> Self {
        Self {
            of: "PVProps",
            fields: [
                ("PVCName", "csi.storage.k8s.io/pvc/name", String::new()),
                ("PVCNamespace", "csi.storage.k8s.io/pvc/namespace", String::new()),
                ("PVName", "csi.storage.k8s.io/pv/name", String::new()),
            ],
        }
    }

    /// Returns the names of a snapshot.
    pub fn of_snapshot() -> Self {
        Self {
            of: "VolumeSnapshotProps",
            fields: [
                ("VolumeSnapshotName", "csi.storage.k8s.io/volumesnapshot/name", String::new()),
                ("VolumeSnapshotNamespace", "csi.storage.k8s.io/volumesnapshot/namespace", String::new()),
                ("VolumeSnapshotContentName", "csi.storage.k8s.io/volumesnapshotcontent/name", String::new()),
            ],
        }
    }

    /// Takes the sidecar's parameter `key`. Returns false if it is another one.
    pub fn take(&mut self, key: &str, value: &str) -> bool {
        let field = self.fields.iter_mut().find(|(_, parameter, _)| *parameter == key);
        field.map(|(_, _, text)| value.clone_into(text)).is_some()
    }
}

/// A value in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(String),
    Number(i64),
    Truth(bool),
}

impl Value {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

/// Evaluates a value.
///
/// # Errors
/// Names the part that is wrong.
pub(crate) fn evaluate(value: &str, names: &Names) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("{{") {
        let (action, after) = after.split_once("}}").ok_or("unclosed action")?;
        // A hyphen at an end trims the spaces there.
        let trims = |text: &str| text.starts_with('-') && text[1..].starts_with(char::is_whitespace);
        let ends = |text: &str| text.ends_with('-') && text[..text.len() - 1].ends_with(char::is_whitespace);
        let (left, right) = (trims(action), ends(action));
        out += if left { before.trim_end() } else { before };
        let action = if left { &action[1..] } else { action };
        let action = if right { &action[..action.len() - 1] } else { action };
        out += &pipeline(action, names)?.shown();
        rest = if right { after.trim_start() } else { after };
    }
    Ok(out + rest)
}

fn pipeline(action: &str, names: &Names) -> Result<Value, String> {
    let mut last = None;
    for command in commands(&words(action)?) {
        last = Some(run(command, last, names)?);
    }
    last.ok_or_else(|| "missing value for command".to_owned())
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Name(String),
    Value(Value),
    Pipe,
}

fn words(action: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = action.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '|' {
            words.push(Word::Pipe);
            rest = &rest[1..];
        } else if first == '"' || first == '`' {
            let (text, after) = quoted(&rest[1..], first)?;
            words.push(Word::Value(Value::Text(text)));
            rest = after;
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == '|').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.push(match word.parse::<i64>() {
                Ok(number) => Word::Value(Value::Number(number)),
                Err(_) if matches!(word, "true" | "false") => Word::Value(Value::Truth(word == "true")),
                Err(_) => Word::Name(word.to_owned()),
            });
            rest = after;
        }
        rest = rest.trim_start();
    }
    Ok(words)
}

/// Reads a text up to its closing quote; returns it and the rest.
fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            _ if char == quote => return Ok((out, &text[at + 1..])),
            '\\' if quote == '"' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, other)) => out.push(other),
                None => break,
            },
            _ => out.push(char),
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn commands(words: &[Word]) -> impl Iterator<Item = &[Word]> {
    words.split(|word| *word == Word::Pipe)
}

fn run(command: &[Word], last: Option<Value>, names: &Names) -> Result<Value, String> {
    let (head, rest) = command.split_first().ok_or("missing value for command")?;
    let mut arguments = rest.iter().map(|word| operand(word, names)).collect::<Result<Vec<_>, _>>()?;
    let function = match head {
        Word::Name(name) if !name.starts_with('.') => name,
        _ if arguments.is_empty() && last.is_none() => return operand(head, names),
        _ => return Err(format!("can't give argument to non-function {}", shown(head))),
    };
    arguments.extend(last);
    call(function, &arguments)
}

fn shown(word: &Word) -> String {
    match word {
        Word::Name(name) => name.clone(),
        Word::Value(value) => value.shown(),
        Word::Pipe => "|".to_owned(),
    }
}

fn operand(word: &Word, names: &Names) -> Result<Value, String> {
    let name = match word {
        Word::Value(value) => return Ok(value.clone()),
        Word::Name(name) => name,
        Word::Pipe => return Err("missing value for command".to_owned()),
    };
    let Some(field) = name.strip_prefix('.') else { return Err(format!("function {name:?} not defined")) };
    match names.fields.iter().find(|(known, ..)| *known == field) {
        Some((_, _, text)) => Ok(Value::Text(text.clone())),
        None => Err(format!("can't evaluate field {field} in type *template.{}", names.of)),
    }
}

fn call(function: &str, arguments: &[Value]) -> Result<Value, String> {
    use Value::{Number, Text, Truth};
    let position = |found: Option<usize>| found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
    Ok(match (function, arguments) {
        ("html" | "js" | "call" | "urlquery", _) => return Err(format!("cannot call '{function}' function")),
        ("toUpper", [Text(text)]) => Text(text.to_uppercase()),
        ("toLower", [Text(text)]) => Text(text.to_lowercase()),
        ("contains", [Text(part), Text(text)]) => Truth(text.contains(part.as_str())),
        ("index", [Text(part), Text(text)]) => Number(position(text.find(part.as_str()))),
        ("lastIndex", [Text(part), Text(text)]) => Number(position(text.rfind(part.as_str()))),
        ("field", [Text(delimiter), Number(at), Text(text)]) => {
            let parts: Vec<&str> = text.split(delimiter.as_str()).collect();
            let part = usize::try_from(*at).ok().and_then(|at| parts.get(at));
            let count = parts.len();
            let missing = || format!("extractWord: cannot index into split string; index = {at}, length = {count}");
            Text((*part.ok_or_else(missing)?).to_owned())
        }
        ("substring", [Number(start), Number(end), Text(text)]) => {
            let end = usize::try_from(*end).ok().filter(|end| *start < 0 || *end <= text.len()).unwrap_or(text.len());
            let start = usize::try_from(*start).unwrap_or(0);
            let part = text.get(start..end).ok_or_else(|| {
                format!("error calling substring: slice bounds out of range [{start}:{end}] of {text:?}")
            })?;
            Text(part.to_owned())
        }
        ("toUpper" | "toLower" | "contains" | "index" | "lastIndex" | "field" | "substring", given) => {
            return Err(format!("wrong number or type of args for {function}: got {}", given.len()));
        }
        _ => return Err(format!("function {function:?} not defined")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Result<String, String> {
        let mut names = Names::of_volume();
        for (key, text) in [("pvc/name", "ebs-claim"), ("pvc/namespace", "ns-prod-abcdef"), ("pv/name", "pvc-1")] {
            assert!(names.take(&format!("csi.storage.k8s.io/{key}"), text));
        }
        evaluate(value, &names)
    }

    #[test]
    fn the_examples_of_the_driver_s_documentation_hold() {
        for (value, expected) in [
            ("hello world", "hello world"),
            ("", ""),
            ("{{ .PVCNamespace }}/{{.PVCName}} of {{ .PVName }}", "ns-prod-abcdef/ebs-claim of pvc-1"),
            (r#"{{ .PVCNamespace | contains "prod" }}"#, "true"),
            (r#"{{ .PVCNamespace | field "-" 2 | toUpper }}"#, "ABCDEF"),
            (r#"{{ field "-" 1 .PVCNamespace }}"#, "prod"),
            ("{{ .PVCNamespace | substring 0 4 }}", "ns-p"),
            ("{{ .PVCNamespace | substring -1 4 }}{{ .PVName | substring 4 99 }}", "ns-p1"),
            (r#"{{ .PVCName | index "claim" }} {{ .PVCName | lastIndex "zzz" }}"#, "4 -1"),
            ("a {{- .PVName -}} b", "apvc-1b"),
        ] {
            assert_eq!(of(value).as_deref(), Ok(expected), "{value}");
        }
    }

    #[test]
    fn template_errors_name_the_cause() {
        for (value, expected) in [
            ("{{ .PVCName", "unclosed action"),
            ("{{ }}", "missing value for command"),
            ("{{ .Owner }}", "can't evaluate field Owner in type *template.PVProps"),
            ("{{ shout .PVCName }}", "function \"shout\" not defined"),
            ("{{ .PVCName | html }}", "cannot call 'html' function"),
            (r#"{{ .PVCName | field "-" 7 }}"#, "extractWord: cannot index into split string; index = 7, length = 2"),
            ("{{ .PVCName | field 7 }}", "wrong number or type of args for field: got 2"),
            (r#"{{ "open }}"#, "unterminated quoted string"),
            ("{{ .PVCName .PVName }}", "can't give argument to non-function .PVCName"),
            ("{{ .PVName | substring 9 3 }}", "error calling substring: slice bounds out of range [9:3] of \"pvc-1\""),
        ] {
            assert_eq!(of(value), Err(expected.to_owned()), "{value}");
        }
    }
}
