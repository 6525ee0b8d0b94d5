//! Finds words, keys and fields in the text of a file, for errors that are known only by their words.

use crate::scenario::source_span::SourceSpan;

/// Place of the last key `word` before `place`.
pub(super) fn key_before(text: &str, place: SourceSpan, word: &str) -> SourceSpan {
    let before = text.get(..place.offset).unwrap_or_default();
    before.rfind(&format!("{word}:")).map_or(place, |at| SourceSpan::of(text, at, word.len()))
}

/// Place of the field `path` of the manifest at `place`, or of its longest part that is present.
pub(super) fn field(text: &str, place: SourceSpan, path: &str) -> Option<SourceSpan> {
    let mut found = None;
    let mut from = place.offset;
    let end = place.offset + block_length(text, place);
    for part in path.split('.') {
        let name = part.split('[').next().unwrap_or(part);
        let key = |at: &usize| {
            let before = text[..*at].chars().next_back().is_none_or(|c| c.is_whitespace() || "{,\"'".contains(c));
            let rest = text[at + name.len()..].trim_start_matches(['"', '\'']);
            before && rest.starts_with(':')
        };
        let Some(at) = text.get(from..end)?.match_indices(name).map(|(at, _)| from + at).find(key) else { break };
        found = Some(SourceSpan::of(text, at, name.len()));
        from = at + name.len();
    }
    found
}

/// Place of `word` in the block that begins at `place`.
pub(in crate::scenario) fn word(text: &str, place: SourceSpan, word: &str) -> Option<SourceSpan> {
    let rest = text.get(place.offset..)?;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let (at, _) = rest[..block_length(text, place)].match_indices(word).find(|(at, _)| {
        let before = rest[..*at].chars().next_back().is_some_and(is_part);
        let after = rest[*at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })?;
    Some(SourceSpan::of(text, place.offset + at, word.len()))
}

/// Length of the block that begins at `place`: it continues on the same line and on deeper lines.
fn block_length(text: &str, place: SourceSpan) -> usize {
    let rest = text.get(place.offset..).unwrap_or_default();
    let indent = place.column.saturating_sub(1) as usize;
    rest.match_indices('\n')
        .map(|(at, _)| at + 1)
        .find(|at| {
            let line = rest[*at..].lines().next().unwrap_or_default();
            let depth = line.len() - line.trim_start().len();
            !line.trim().is_empty() && depth < indent
        })
        .unwrap_or(rest.len())
}
