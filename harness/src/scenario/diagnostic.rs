//! Errors in scenario files: message, position and suggestion.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use super::source_span::{Origin, SourceSpan};
use super::words;
use crate::suggestions::suggest;

/// Suggestion for a file without the required keys.
const FIRST_KEYS: &str = "begin with `name: …`, `nodes: {count: 1}` and `steps: […]`";

/// Message for a file without any key.
const EMPTY: &str = "the scenario is empty";

/// Maximum length of a line that is shown.
const MAX_LINE: usize = 1_000;
/// Maximum length of the offending text, in characters.
const MAX_WRITTEN: usize = 200;

/// An error in a scenario file. Exit code 2.
#[derive(Debug)]
pub struct ScenarioError {
    message: String,
    label: String,
    help: Option<String>,
    source: String,
    /// Offending text, shortened.
    written: String,
    /// Text of the file, for the lines around the error; none if it has lines that are too long to show.
    text: Option<NamedSource<String>>,
    place: SourceSpan,
}

/// An error found after the file was parsed: place, message and help.
#[derive(Debug)]
pub(super) struct Mistake {
    pub place: SourceSpan,
    pub message: String,
    pub label: String,
    pub help: Option<Box<str>>,
    /// Text of the place, if that is not the scenario's own text.
    pub origin: Option<Box<Origin>>,
    /// Unknown name, if the error is a reference to something that is not introduced before.
    pub refers: Option<Box<str>>,
}

impl Mistake {
    pub fn new(place: SourceSpan, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { place, message: message.into(), label: label.into(), help: None, origin: None, refers: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into().into());
        self
    }

    /// Marks the error as a consequence of a missing `name`. It is dropped if an unreadable part of the file may
    /// introduce `name`.
    pub fn refers(mut self, name: &str) -> Self {
        self.refers = Some(name.into());
        self
    }

    /// Sets the origin of an error inside a repetition or fragment, unless an inner one is already set.
    pub fn of(mut self, origin: &Origin) -> Self {
        self.origin.get_or_insert_with(|| Box::new(origin.clone()));
        self
    }

    pub fn into_error(self, source: &str, text: &str) -> Box<ScenarioError> {
        let (source, text) = self.origin.as_ref().map_or((source, text), |origin| (&*origin.source, &*origin.text));
        let place = widen(text, self.place);
        let written = text.get(place.offset..place.offset + place.length).unwrap_or_default();
        // The renderer cannot count columns beyond 16 bits, and such a line is unreadable anyway.
        let shown = text.lines().all(|line| line.len() <= MAX_LINE);
        Box::new(ScenarioError {
            message: self.message,
            label: self.label,
            help: self.help.map(Into::into),
            source: source.to_owned(),
            written: written.chars().take(MAX_WRITTEN).collect(),
            text: shown.then(|| NamedSource::new(source, text.to_owned()).with_language("yaml")),
            place,
        })
    }

    /// Converts an error of the YAML parser.
    pub fn of_yaml(text: &str, error: &substrate::yaml::Error) -> Self {
        use substrate::yaml::Error as E;
        let error = error.without_snippet();
        let place = error.location().map(|at| SourceSpan::within(text, at)).unwrap_or_default();
        let place = widen(text, place);
        let written = text.get(place.offset..place.offset + place.length).unwrap_or_default();
        let (message, label, help) = match error {
            E::SerdeUnknownField { field, expected, .. } => (
                format!("unknown key `{field}`"),
                "this key".to_owned(),
                Some(suggest(field, expected.iter().copied(), "valid keys here")),
            ),
            E::SerdeUnknownVariant { variant, expected, .. } => (
                format!("`{variant}` is not one of the values that may stand here"),
                "this value".to_owned(),
                Some(suggest(variant, expected.iter().copied(), "valid values here")),
            ),
            E::SerdeMissingField { field, .. } => {
                (format!("the key `{field}` is missing"), "in this map".to_owned(), Some(format!("add `{field}: …`")))
            }
            E::SerdeInvalidType { unexpected, expected, .. } | E::SerdeInvalidValue { unexpected, expected, .. } => {
                let (wanted, found) = (words::kind_of_value(expected), words::kind_of_value(unexpected));
                (format!("expected {wanted}, found {found}"), format!("not {wanted}"), None)
            }
            E::InvalidScalar { ty, .. } => {
                let wanted = type_name(ty);
                (format!("expected {wanted}, found `{written}`"), format!("not {wanted}"), None)
            }
            E::InvalidBooleanStrict { .. } => {
                (format!("expected true or false, found `{written}`"), "not true or false".to_owned(), None)
            }
            E::Unexpected { expected, .. } => {
                let wanted = words::kind_of_value(expected);
                let help = words::how_to_write(expected).map(str::to_owned);
                (format!("expected {wanted}, found {}", words::kind_of_text(written)), format!("not {wanted}"), help)
            }
            E::DuplicateMappingKey { key, .. } => {
                let key = key.as_deref().unwrap_or(written);
                let help = Some("a key may stand only once in a map".to_owned());
                (format!("the key `{key}` is there twice"), "the second one".to_owned(), help)
            }
            E::Eof { .. } if text.trim().is_empty() => {
                (EMPTY.to_owned(), "nothing here".to_owned(), Some(FIRST_KEYS.to_owned()))
            }
            E::Message { msg, .. } => (msg.clone(), "here".to_owned(), None),
            other => {
                let rest = text.get(place.offset..).unwrap_or_default();
                let words::Plain { message, help } = words::yaml(&plain(&other.to_string()), rest);
                (message, "here".to_owned(), help)
            }
        };
        Self { place, message, label, help: help.map(String::into), origin: None, refers: None }
    }
}

impl ScenarioError {
    /// Error for a file that cannot be read.
    pub(super) fn unreadable(source: &str, why: &str) -> Box<Self> {
        Box::new(Self {
            message: format!("cannot read the scenario {source}: {why}"),
            label: String::new(),
            help: Some("give the path of a scenario file, such as scenarios/first-volume.yaml".to_owned()),
            source: source.to_owned(),
            written: String::new(),
            text: None,
            place: SourceSpan::default(),
        })
    }

    /// Error from the YAML parser.
    pub(super) fn from_yaml(source: &str, text: &str, error: &substrate::yaml::Error) -> Box<Self> {
        Mistake::of_yaml(text, error).into_error(source, text)
    }

    /// Error for an empty file.
    pub(super) fn empty(source: &str, text: &str) -> Box<Self> {
        let place = SourceSpan { line: 1, column: 1, ..SourceSpan::default() };
        Mistake::new(place, EMPTY, "nothing here").help(FIRST_KEYS).into_error(source, text)
    }

    /// Name of the file as the user gave it.
    pub fn source_name(&self) -> &str {
        &self.source
    }

    /// Line, from 1; 0 if the file could not be read.
    pub fn line(&self) -> u64 {
        self.place.line
    }

    /// Column, from 1; 0 if the file could not be read.
    pub fn column(&self) -> u64 {
        self.place.column
    }

    /// Offending text, at most 200 characters.
    pub fn text(&self) -> &str {
        &self.written
    }

    /// Suggestion.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Formats the error for people, with the lines around it.
    pub fn render(&self, color: bool, width: usize) -> String {
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let mut out = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width).with_links(false);
        // Writing to a String cannot fail. If the renderer gives up, the plain message remains.
        if handler.render_report(&mut out, self).is_err() || out.trim().is_empty() {
            out = format!("{self}\n");
        }
        out
    }

    /// Position for the JSON envelope.
    pub fn details(&self) -> Value {
        json!({ "file": self.source, "line": self.line(), "column": self.column(), "text": self.text() })
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line() {
            0 => f.write_str(&self.message),
            line => write!(f, "{}:{line}:{}: {}", self.source, self.column(), self.message),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl Diagnostic for ScenarioError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.text.as_ref().map(|t| t as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.text.as_ref()?;
        let span = LabeledSpan::new(Some(self.label.clone()), self.place.offset, self.place.length.max(1));
        Some(Box::new(std::iter::once(span)))
    }
}

/// Extends a position of unknown length over the token there, and cuts a long one to its first line.
fn widen(text: &str, mut place: SourceSpan) -> SourceSpan {
    place.offset = place.offset.min(text.len());
    let rest = text.get(place.offset..).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default().trim_end();
    place.length = match place.length {
        0 | 1 => token(line),
        length => length.min(line.len()),
    };
    place
}

/// Length of the token at the start of `line`: a bracketed group, a single character, or the whole line.
fn token(line: &str) -> usize {
    let mut depth = 0usize;
    match line.chars().next() {
        Some('{' | '[') => {
            for (at, c) in line.char_indices() {
                match c {
                    '{' | '[' => depth += 1,
                    '}' | ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth == 0 {
                    return at + c.len_utf8();
                }
            }
            line.len()
        }
        Some(first) if line.chars().nth(1).is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_') => {
            first.len_utf8()
        }
        _ => line.len(),
    }
}

/// Describes a Rust type in plain words.
fn type_name(ty: &str) -> &str {
    match ty {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other => other,
    }
}

/// First line of a YAML parser message, without its own position.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
