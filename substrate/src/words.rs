//! The nearest valid word to a wrong one, for error messages.

/// Returns the word of `known` that `word` most likely means, if one is near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_ascii_lowercase();
    let score = |candidate: &str| strsim::jaro_winkler(&plain, &candidate.to_ascii_lowercase());
    let best = known.into_iter().map(|candidate| (score(candidate), candidate));
    // Among equally near words, the first one wins.
    let best = best.fold(None, |best: Option<(f64, &str)>, next| match best {
        Some(best) if best.0 >= next.0 => Some(best),
        _ => Some(next),
    });
    best.filter(|(score, candidate)| *score > 0.7 && is_like(&plain, candidate)).map(|(_, candidate)| candidate)
}

/// Returns true if a third of the letters of the longer word are right. Two long words can share a beginning only.
fn is_like(plain: &str, candidate: &str) -> bool {
    let wrong = strsim::osa_distance(plain, &candidate.to_ascii_lowercase());
    wrong * 3 <= plain.len().max(candidate.len()) * 2
}

/// Returns the word of `known` of which `word` is a typo: one or two letters too many, missing, swapped or replaced,
/// and only one in a short word. Letter case does not matter.
pub fn slip<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = word.to_ascii_lowercase();
    let most = if plain.len() < 8 { 1 } else { 2 };
    let slips = |candidate: &&str| strsim::osa_distance(&plain, &candidate.to_ascii_lowercase());
    // Among equally near words, the first one wins.
    known.into_iter().min_by_key(slips).filter(|nearest| slips(nearest) <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        assert_eq!(nearest("controler", ["csi-controller", "controllers", "node-a"]), Some("controllers"));
        assert_eq!(nearest("ABORTD", ["ABORTED", "ABANDONED"]), Some("ABORTED"));
        assert_eq!(nearest("xyz", ["ABORTED"]), None);
        assert_eq!(nearest("kubelet", ["kube-controller-manager", "csi-attacher"]), None);
    }

    #[test]
    fn a_slip_is_two_letters_at_most_and_one_in_a_short_word() {
        let known = ["IncorrectState", "SlowDown", "VolumeInUse", "Gone"];
        for (word, meant) in
            [("IncorectState", 0), ("incorrectstat", 0), ("SlowDwon", 1), ("VolumeInUsee", 2), ("Gon", 3)]
        {
            assert_eq!(slip(word, known), Some(known[meant]), "{word}");
        }
        for word in ["IncorrectInstanceState", "VolumeLimit", "Go", "SlowThem", ""] {
            assert_eq!(slip(word, known), None, "{word}");
        }
    }
}
