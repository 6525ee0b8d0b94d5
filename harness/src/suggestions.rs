//! Suggestions for unknown words in messages.

/// Returns the member of `all` that is nearest to `word`, if one is near enough.
pub(crate) fn nearest<'a>(word: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    all.map(|candidate| (strsim::jaro_winkler(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Formats "did you mean …", and the list of valid words.
pub(crate) fn suggest<'a>(word: &str, all: impl Iterator<Item = &'a str> + Clone, title: &str) -> String {
    let list = all.clone().collect::<Vec<_>>().join(", ");
    if list.is_empty() {
        return format!("there are no {title}");
    }
    match nearest(word, all) {
        Some(near) => format!("did you mean `{near}`? {title}: {list}"),
        None => format!("{title}: {list}"),
    }
}
