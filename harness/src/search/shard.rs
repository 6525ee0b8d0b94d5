//! A part of a search: the `k`th of `n`, which run on different machines.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// For example `2/8`: the second of eight parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: usize,
    of: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { part: 1, of: 1 }
    }
}

impl Shard {
    /// Converts the number of a run in this part to its number in the whole.
    pub fn whole(self, run: usize) -> usize {
        run * self.of + self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a part: write k/n, as in 1/4, from 1/4 to 4/4");
        let (part, of) = text.split_once('/').ok_or_else(bad)?;
        let (part, of) = (part.parse().map_err(|_| bad())?, of.parse().map_err(|_| bad())?);
        if part == 0 || part > of || of > 100_000 { Err(bad()) } else { Ok(Self { part, of }) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_together_are_the_whole() {
        let mut all: Vec<usize> = Vec::new();
        for part in ["1/3", "2/3", "3/3"] {
            let shard: Shard = part.parse().unwrap();
            all.extend((0..4).map(|run| shard.whole(run)));
        }
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
        for text in ["", "1", "0/3", "4/3", "a/b", "1/0"] {
            assert!(text.parse::<Shard>().unwrap_err().contains("write k/n"), "{text}");
        }
    }
}
