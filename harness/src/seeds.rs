//! Seeds of many runs, as written on a command line: `7`, `1..100` with its end, `1,5,9`, or several of these.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Maximum number of seeds of one command.
const MOST: u64 = 1_000_000;

/// Seeds, each once, in ascending order; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(Vec<u64>);

/// Error in the text of seeds.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum SeedsError {
    /// `{0}` is not a seed: write a whole number, a range with its end such as 1..100, or several with commas
    NoNumber(String),
    /// `{0}` has no seeds: write the smaller number first, as in {1}
    Backwards(String, String),
    /// the end of a range is part of it: write `{0}`
    RustRange(String),
    /// these are more than a million seeds: write fewer
    TooMany,
}

impl Seeds {
    /// One seed.
    pub fn one(seed: u64) -> Self {
        Self(vec![seed])
    }

    /// All of them.
    pub fn all(&self) -> &[u64] {
        &self.0
    }
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Self, SeedsError> {
        let mut all = BTreeSet::new();
        for part in text.split(',').map(str::trim) {
            let number = |n: &str| n.trim().parse::<u64>().map_err(|_| SeedsError::NoNumber(part.to_owned()));
            let (first, last) = match part.split_once("..") {
                None => (number(part)?, number(part)?),
                Some((first, last)) => {
                    if let Some(last) = last.strip_prefix('=') {
                        return Err(SeedsError::RustRange(format!("{}..{}", number(first)?, number(last)?)));
                    }
                    (number(first)?, number(last)?)
                }
            };
            if last < first {
                return Err(SeedsError::Backwards(part.to_owned(), format!("{last}..{first}")));
            }
            if last - first >= MOST {
                return Err(SeedsError::TooMany);
            }
            all.extend(first..=last);
            if all.len() as u64 > MOST {
                return Err(SeedsError::TooMany);
            }
        }
        Ok(Self(all.into_iter().collect()))
    }
}

/// Formats the seeds in the shortest form that [`Seeds`] parses: `1,5..9`.
impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(&self.0))
    }
}

/// Formats ascending seeds in the form that [`Seeds`] parses, with neighbours as ranges.
pub fn short(seeds: &[u64]) -> String {
    let mut parts = Vec::new();
    for run in seeds.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        match run {
            [one] => parts.push(one.to_string()),
            [one, two] => parts.push(format!("{one},{two}")),
            [first, .., last] => parts.push(format!("{first}..{last}")),
            [] => {}
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u64>, String> {
        text.parse::<Seeds>().map(|seeds| seeds.all().to_vec()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_range_has_its_end_and_each_seed_comes_once() {
        assert_eq!(read("7"), Ok(vec![7]));
        assert_eq!(read("1..4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(read("9, 1,5,1"), Ok(vec![1, 5, 9]));
        assert_eq!(read("2..3,10"), Ok(vec![2, 3, 10]));
        assert_eq!(read("18446744073709551615"), Ok(vec![u64::MAX]));
        assert_eq!(read("5..5"), Ok(vec![5]));
    }

    #[test]
    fn an_invalid_seed_is_refused_with_advice() {
        for (text, expected) in [
            ("", "`` is not a seed"),
            ("a", "`a` is not a seed: write a whole number"),
            ("1,,2", "`` is not a seed"),
            ("1..", "`1..` is not a seed"),
            ("-1", "`-1` is not a seed"),
            ("5..2", "`5..2` has no seeds: write the smaller number first, as in 2..5"),
            ("1..=9", "write `1..9`"),
            ("0..18446744073709551615", "more than a million seeds"),
            ("1..1000000,2000000", "more than a million seeds"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn seeds_are_written_as_they_are_read() {
        assert_eq!(short(&[1, 2, 3, 5, 7, 8, u64::MAX]), format!("1..3,5,7,8,{}", u64::MAX));
        assert_eq!(read(&short(&[1, 2, 3, 5, 7, 8])), Ok(vec![1, 2, 3, 5, 7, 8]));
    }
}
