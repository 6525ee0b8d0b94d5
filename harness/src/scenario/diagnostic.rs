//! What is wrong with a scenario file, where, and what to write instead.

use std::fmt;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde_json::{Value, json};

use super::place::Place;

/// A mistake in a scenario file. Exit code 2.
#[derive(Debug)]
pub struct ScenarioError {
    message: String,
    label: String,
    help: Option<String>,
    source: String,
    text: Option<NamedSource<String>>,
    place: Place,
}

/// A mistake found after the file was read: where, what, and what to do.
#[derive(Debug)]
pub(super) struct Mistake {
    pub place: Place,
    pub message: String,
    pub label: String,
    pub help: Option<String>,
}

impl Mistake {
    pub fn new(place: Place, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { place, message: message.into(), label: label.into(), help: None }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn into_error(self, source: &str, text: &str) -> ScenarioError {
        ScenarioError {
            message: self.message,
            label: self.label,
            help: self.help,
            source: source.to_owned(),
            place: widen(text, self.place),
            text: Some(NamedSource::new(source, text.to_owned()).with_language("yaml")),
        }
    }
}

impl ScenarioError {
    /// The file could not be read at all.
    pub(super) fn unreadable(source: &str, why: &str) -> Self {
        Self {
            message: format!("cannot read the scenario {source}: {why}"),
            label: String::new(),
            help: Some("give the path of a scenario file, such as scenarios/first-volume.yaml".to_owned()),
            source: source.to_owned(),
            text: None,
            place: Place::default(),
        }
    }

    /// What the YAML reader found.
    pub(super) fn from_yaml(source: &str, text: &str, error: &serde_saphyr::Error) -> Self {
        use serde_saphyr::Error as E;
        let error = error.without_snippet();
        let place: Place = error.location().map(Into::into).unwrap_or_default();
        let place = if matches!(error, E::SerdeMissingField { .. }) { place } else { widen(text, place) };
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
                (format!("expected {expected}, found {unexpected}"), format!("not {expected}"), None)
            }
            E::InvalidScalar { ty, .. } => {
                (format!("`{written}` is not a value of type {ty}"), format!("expected {ty}"), None)
            }
            E::Unexpected { expected, .. } => {
                (format!("expected {expected}, found `{written}`"), format!("expected {expected}"), None)
            }
            E::Message { msg, .. } => (msg.clone(), "here".to_owned(), None),
            other => (plain(&other.to_string()), "here".to_owned(), None),
        };
        Mistake { place, message, label, help }.into_error(source, text)
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

    /// The offending text.
    pub fn text(&self) -> &str {
        let all = self.text.as_ref().map_or("", |t| t.inner().as_str());
        all.get(self.place.offset..self.place.offset + self.place.length).unwrap_or_default()
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
    match nearest(word, all) {
        Some(near) => format!("did you mean `{near}`? {title}: {list}"),
        None => format!("{title}: {list}"),
    }
}

/// Stretches a position of unknown length over the word or line that begins there.
fn widen(text: &str, mut place: Place) -> Place {
    place.offset = place.offset.min(text.len());
    if place.length <= 1 {
        let line = text.get(place.offset..).unwrap_or_default().lines().next().unwrap_or_default();
        place.length = line.trim_end().len().max(place.length);
    } else {
        // Keep labels on one line: the beginning of a block is enough to find it.
        let all = text.get(place.offset..place.offset + place.length).unwrap_or_default();
        place.length = all.lines().next().unwrap_or_default().trim_end().len();
    }
    place
}

/// The first line of a message of the YAML reader, without its own position.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or(line);
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
