//! Suggestions for unknown words in messages.

/// Returns the member of `all` that is nearest to `word`, if one is near enough. A member with the same letters in
/// another order is the nearest.
pub(crate) fn nearest<'a>(word: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let score = |candidate: &str| match candidate.to_lowercase() {
        candidate if letters(&candidate) == letters(&word) => 1.0,
        candidate => strsim::jaro_winkler(&word, &candidate),
    };
    all.map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_letters_are_nearer_than_a_shorter_word() {
        assert_eq!(nearest("pcv", ["pc", "pv", "pvc"].into_iter()), Some("pvc"));
        assert_eq!(nearest("pvcc", ["pc", "pv", "pvc"].into_iter()), Some("pvc"));
        assert_eq!(nearest("xyz", ["pc", "pv", "pvc"].into_iter()), None);
    }
}
