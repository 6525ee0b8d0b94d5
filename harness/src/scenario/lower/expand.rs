//! Expands `repeat` and `include`, which stand for several items of a list.
//!
//! Their text is taken unchanged from the file. Variables are replaced, and the result is parsed as if it were at the
//! same line and column. So an error is shown at its place in the file, with the values of the variables.

use std::path::{Component, Path};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::diagnostic::Mistake;
use crate::scenario::limits::{MAX_BYTES, MAX_TEXT, options};
use crate::scenario::source_span::{Origin, SourceSpan, Spanned};
use crate::scenario::steps::{include, repeat};
use crate::suggestions::suggest;

/// Maximum number of repetitions.
const MAX_COUNT: usize = 10_000;
/// Maximum nesting of repetitions and fragments.
const MAX_DEPTH: usize = 8;
/// Minimum cost of an expansion in bytes, however short its text is.
const LEAST: usize = 256;

/// Parsed items of a repetition or fragment, with their text.
pub(in crate::scenario) struct Body<T> {
    items: Vec<Spanned<T>>,
    origin: Origin,
    variables: Vec<(String, String)>,
}

impl Steps<'_> {
    /// Expands a repetition: its items once for each value.
    pub fn repeated<T: DeserializeOwned>(&mut self, repeat: Spanned<repeat::Written>) -> Checked<Vec<Body<T>>> {
        let Spanned { place, value: repeat } = repeat;
        check_variable(&repeat.variable)?;
        let values: Vec<String> = match (repeat.count, repeat.each) {
            (Some(count), None) => {
                if count.value == 0 || count.value as usize > MAX_COUNT {
                    let message = format!("a list is repeated 1 to {MAX_COUNT} times, not {}", count.value);
                    return Err(Mistake::new(count.place, message, "here"));
                }
                (0..count.value).map(|i| i.to_string()).collect()
            }
            (None, Some(each)) => {
                if each.is_empty() || each.len() > MAX_COUNT {
                    return Err(Mistake::new(each.place, "there is nothing to repeat the list for", "here"));
                }
                each.value.into_iter().map(|word| word.0).collect()
            }
            _ => {
                let help = "`count: 3` gives 0, 1 and 2; `each: [node-a, node-b]` gives these";
                return Err(Mistake::new(place, "say either `count` or `each`", "here").help(help));
            }
        };
        let origin = self.origin.clone();
        let (line, column, slice) = list_at(&origin.text, repeat.body.place)
            .ok_or_else(|| Mistake::new(repeat.body.place, "`do` is a list of items, written here", "no list"))?;
        let variable = repeat.variable.value;
        let padding = "\n".repeat(line.saturating_sub(1)) + &" ".repeat(column.saturating_sub(1));
        let one = |value: String| {
            let mut variables = self.variables.clone();
            variables.retain(|(name, _)| *name != variable);
            variables.push((variable.clone(), value));
            let body = replaced(slice, &variables)
                .map_err(|unknown| unknown_variable(&origin, repeat.body.place, &unknown, &variables))?;
            self.read(origin.source.clone(), format!("{padding}{body}"), variables)
        };
        values.into_iter().map(one).collect()
    }

    /// Reads the items of another file.
    pub fn included<T: DeserializeOwned>(&mut self, include: Spanned<include::Written>) -> Checked<Body<T>> {
        let Spanned { place, value: include } = include;
        let wrong = |message: String| Mistake::new(place, message, "this file");
        let path = Path::new(&include.file);
        if path.components().any(|part| matches!(part, Component::RootDir | Component::Prefix(_))) {
            return Err(wrong("the path of a fragment is relative to the file that includes it".to_owned()));
        }
        let Some(folder) = Path::new(&*self.origin.source).parent().filter(|_| self.has_files) else {
            return Err(wrong("this scenario is not a file, so there is nothing beside it to include".to_owned()));
        };
        let path = folder.join(path);
        let name = path.display().to_string();
        let length = std::fs::metadata(&path).map_err(|e| wrong(format!("cannot read {name}: {e}")))?.len();
        if length > MAX_BYTES as u64 {
            return Err(wrong(format!("{name} has {length} bytes, and at most {MAX_BYTES} are read")));
        }
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(format!("cannot read {name}: {e}")))?;
        let variables: Vec<(String, String)> = include.with.into_iter().map(|(key, word)| (key, word.0)).collect();
        let source: Arc<str> = name.into();
        let origin = Origin { source: source.clone(), text: text.as_str().into() };
        let text = replaced(&text, &variables)
            .map_err(|unknown| unknown_variable(&origin, SourceSpan::default(), &unknown, &variables))?;
        self.read(source, text, variables)
    }

    /// Parses a list of items, if it fits into the remaining size.
    fn read<T: DeserializeOwned>(
        &self,
        source: Arc<str>,
        text: String,
        variables: Vec<(String, String)>,
    ) -> Checked<Body<T>> {
        let origin = Origin { source, text: text.into() };
        let left = self.room.get().checked_sub(origin.text.len().max(LEAST)).filter(|_| self.depth < MAX_DEPTH);
        let Some(left) = left else {
            self.is_over.set(true);
            let message = format!(
                "repetitions and fragments come to more than {} MiB of text, or stand in each other more than \
                 {MAX_DEPTH} times",
                MAX_TEXT >> 20
            );
            return Err(Mistake::new(SourceSpan::default(), message, "here").of(&origin));
        };
        self.room.set(left);
        let substrate::yaml::Tolerant { value, errors } = substrate::yaml::from_str_tolerant(&origin.text, options());
        for error in &errors {
            self.heed(Err(Mistake::of_yaml(&origin.text, error).of(&origin)));
        }
        match value {
            Some(items) => Ok(Body { items, origin, variables }),
            None if errors.is_empty() => {
                Err(Mistake::new(SourceSpan::default(), "there are no items here", "here").of(&origin))
            }
            // Its errors were already recorded.
            None => Ok(Body { items: Vec::new(), origin, variables }),
        }
    }

    /// Calls `work` with the items of a repetition or fragment, in its text and with its variables.
    pub fn inside<T, R>(&mut self, body: Body<T>, work: impl FnOnce(&mut Self, Vec<Spanned<T>>) -> R) -> R {
        let outer = std::mem::replace(&mut self.origin, body.origin);
        let variables = std::mem::replace(&mut self.variables, body.variables);
        self.depth += 1;
        let done = work(self, body.items);
        self.depth -= 1;
        self.origin = outer;
        self.variables = variables;
        done
    }
}

fn check_variable(name: &Spanned<String>) -> Checked<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(good) && name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok(());
    }
    let message = format!("`{}` is not a variable name: letters, digits, `_` and `-`, a letter first", **name);
    Err(Mistake::new(name.place, message, "this name"))
}

fn unknown_variable(origin: &Origin, place: SourceSpan, unknown: &str, known: &[(String, String)]) -> Mistake {
    let found = origin.text.get(place.offset..).and_then(|rest| rest.find(&format!("${{{unknown}}}")));
    let place = found.map_or(place, |at| SourceSpan::of(&origin.text, place.offset + at, unknown.len() + 3));
    let help = suggest(unknown, known.iter().map(|(name, _)| name.as_str()), "variables here");
    let help = format!("{help}; write `$${{{unknown}}}` for the text itself");
    Mistake::new(place, format!("there is no variable `{unknown}` here"), "this variable").help(help).of(origin)
}

/// Replaces `${NAME}` in `text`. Leaves the variables of inner repetitions (`as: NAME`) to them, and also `$${`, which
/// manifests read as `${`.
///
/// # Errors
/// Returns the name of an unknown variable.
fn replaced(text: &str, variables: &[(String, String)]) -> Result<String, String> {
    let inner = |name: &str| {
        text.match_indices("as:").any(|(at, _)| {
            let word = text[at + 3..].trim_start().trim_start_matches(['"', '\'']);
            word.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        })
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find('}').map(|length| at + length + 1) else { break };
        let name = &rest[at + 2..end - 1];
        let known = variables.iter().find(|(known, _)| known == name);
        match known {
            _ if rest[..at].ends_with('$') => out += &rest[..end],
            Some((_, value)) => out = out + &rest[..at] + value,
            None if inner(name) => out += &rest[..end],
            None => return Err(name.to_owned()),
        }
        rest = &rest[end..];
    }
    Ok(out + rest)
}

/// Replaces `$${` by `${` in all texts of a manifest.
pub(super) fn plain(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("$${") => *text = text.replace("$${", "${"),
        Value::Array(list) => list.iter_mut().for_each(plain),
        Value::Object(map) => map.values_mut().for_each(plain),
        _ => {}
    }
}

/// Line, column and text of the list that begins at `place`.
fn list_at(text: &str, place: SourceSpan) -> Option<(usize, usize, &str)> {
    let rest = text.get(place.offset..)?;
    let (line, column) = (usize::try_from(place.line).ok()?, usize::try_from(place.column).ok()?);
    if rest.starts_with('[') {
        return Some((line, column, &rest[..flow_end(rest)?]));
    }
    if !rest.starts_with('-') {
        return None;
    }
    // The list continues with deeper lines and with items in the same column.
    let indent = column.saturating_sub(1);
    let mut end = 0;
    for (at, piece) in rest.split_inclusive('\n').scan(0, |at, piece| {
        let here = *at;
        *at += piece.len();
        Some((here, piece))
    }) {
        let trimmed = piece.trim_start();
        let depth = piece.len() - trimmed.len();
        let is_empty = trimmed.trim_end().is_empty() || trimmed.starts_with('#');
        let is_item = trimmed.starts_with("- ") || trimmed.trim_end() == "-";
        if at > 0 && !is_empty && (depth < indent || (depth == indent && !is_item)) {
            break;
        }
        end = at + piece.len();
    }
    Some((line, column, &rest[..end]))
}

/// End of a bracketed list.
fn flow_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some('"'), '"') if before != '\\' => quote = None,
            (Some('\''), '\'') => quote = None,
            (Some(_), _) => {}
            // A quote opens a string only at the start of a value.
            (None, '"' | '\'') if matches!(before, ' ' | '[' | '{' | ',' | ':' | '\n') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    None
}
