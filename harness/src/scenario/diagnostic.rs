//! What is wrong with a scenario file, where, and what to write instead.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use super::lower::Origin;
use super::place::Place;
use super::words;

/// What a scenario begins with.
const FIRST_KEYS: &str = "begin with `name: …`, `nodes: {count: 1}` and `steps: […]`";

/// Said of a file without any key.
const EMPTY: &str = "the scenario is empty";

/// Longest line that is still shown.
const MAX_LINE: usize = 1_000;
/// Longest piece of offending text that is kept, in characters.
const MAX_WRITTEN: usize = 200;

/// A mistake in a scenario file. Exit code 2.
#[derive(Debug)]
pub struct ScenarioError {
    message: String,
    label: String,
    help: Option<String>,
    source: String,
    /// The offending text, cut short.
    written: String,
    /// The file, for the lines around the place; nothing when they are too long to show.
    text: Option<NamedSource<String>>,
    place: Place,
}

/// A mistake found after the file was read: where, what, and what to do.
#[derive(Debug)]
pub(super) struct Mistake {
    pub place: Place,
    pub message: String,
    pub label: String,
    pub help: Option<Box<str>>,
    /// The text that the place is in, where that is not the scenario's own.
    pub origin: Option<Box<Origin>>,
    /// The name of a thing that should have been introduced before, if that is the mistake.
    pub refers: Option<Box<str>>,
}

impl Mistake {
    pub fn new(place: Place, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { place, message: message.into(), label: label.into(), help: None, origin: None, refers: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into().into());
        self
    }

    /// The same as a mistake that only follows when `name` is introduced in a part of the file that could not be read.
    pub fn refers(mut self, name: &str) -> Self {
        self.refers = Some(name.into());
        self
    }

    /// A mistake in the text of a repetition or fragment, unless it is further in already.
    pub fn of(mut self, origin: &Origin) -> Self {
        self.origin.get_or_insert_with(|| Box::new(origin.clone()));
        self
    }

    pub fn into_error(self, source: &str, text: &str) -> Box<ScenarioError> {
        let (source, text) = self.origin.as_ref().map_or((source, text), |origin| (&*origin.source, &*origin.text));
        let place = widen(text, self.place);
        let written = text.get(place.offset..place.offset + place.length).unwrap_or_default();
        // The renderer cannot count columns beyond 16 bits, and nobody wants to read such a line.
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

    /// What the YAML reader found.
    pub fn of_yaml(text: &str, error: &substrate::yaml::Error) -> Self {
        use substrate::yaml::Error as E;
        let error = error.without_snippet();
        let place = error.location().map(|at| Place::within(text, at)).unwrap_or_default();
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
    /// The file could not be read at all.
    pub(super) fn unreadable(source: &str, why: &str) -> Box<Self> {
        Box::new(Self {
            message: format!("cannot read the scenario {source}: {why}"),
            label: String::new(),
            help: Some("give the path of a scenario file, such as scenarios/first-volume.yaml".to_owned()),
            source: source.to_owned(),
            written: String::new(),
            text: None,
            place: Place::default(),
        })
    }

    /// What the YAML reader found.
    pub(super) fn from_yaml(source: &str, text: &str, error: &substrate::yaml::Error) -> Box<Self> {
        Mistake::of_yaml(text, error).into_error(source, text)
    }

    /// There is nothing in the file.
    pub(super) fn empty(source: &str, text: &str) -> Box<Self> {
        let place = Place { line: 1, column: 1, ..Place::default() };
        Mistake::new(place, EMPTY, "nothing here").help(FIRST_KEYS).into_error(source, text)
    }

    /// The file, as the user named it.
    pub fn source_name(&self) -> &str {
        &self.source
    }

    /// The line, from 1; 0 when the file could not be read.
    pub fn line(&self) -> u64 {
        self.place.line
    }

    /// The column, from 1; 0 when the file could not be read.
    pub fn column(&self) -> u64 {
        self.place.column
    }

    /// The offending text, at most 200 characters of it.
    pub fn text(&self) -> &str {
        &self.written
    }

    /// What to do.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The error as people read it, with the lines of the file around it.
    pub fn render(&self, color: bool, width: usize) -> String {
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let mut out = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width).with_links(false);
        // Writing to a String cannot fail; a renderer that gives up still leaves the plain message.
        if handler.render_report(&mut out, self).is_err() || out.trim().is_empty() {
            out = format!("{self}\n");
        }
        out
    }

    /// Where it is, as data for the JSON envelope.
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

/// The member of `all` that is nearest to `word`, if one is near.
pub(super) fn nearest<'a>(word: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    all.map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// "did you mean …", and all that is valid.
pub(super) fn suggest<'a>(word: &str, all: impl Iterator<Item = &'a str> + Clone, title: &str) -> String {
    let list = all.clone().collect::<Vec<_>>().join(", ");
    if list.is_empty() {
        return format!("there are no {title}");
    }
    match nearest(word, all) {
        Some(near) => format!("did you mean `{near}`? {title}: {list}"),
        None => format!("{title}: {list}"),
    }
}

/// Stretches a position of unknown length over what begins there, and keeps a long one on its first line.
fn widen(text: &str, mut place: Place) -> Place {
    place.offset = place.offset.min(text.len());
    let rest = text.get(place.offset..).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default().trim_end();
    place.length = match place.length {
        0 | 1 => token(line),
        length => length.min(line.len()),
    };
    place
}

/// The length of what begins `line`: a bracketed group, a scalar of one character, or all of it.
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

/// A type of Rust in words.
fn type_name(ty: &str) -> &str {
    match ty {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other => other,
    }
}

/// The first line of a message of the YAML reader, without its own position.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
