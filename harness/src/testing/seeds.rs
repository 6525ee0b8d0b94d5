//! Seeds of tests, and the environment variables that choose them.

use std::env::{VarError, var};

use crate::seeds::Seeds;

/// Variable with the seed of every cluster without its own seed.
const SEED: &str = "MOORING_SEED";
/// Variable with the seeds of [`seeds`].
const SEEDS: &str = "MOORING_SEEDS";

/// Returns the seeds of a test: `usual` (`7`, `1..20` including its end, `1,5,9`), unless an environment variable sets
/// others.
///
/// `MOORING_SEED=7` selects one seed, and `MOORING_SEEDS=1..1000` several; the first takes precedence.
///
/// ```
/// use harness::prelude::*;
///
/// for seed in seeds("1..3") {
///     let cluster = Cluster::simulated().seed(seed).start()?;
///     cluster.advance(Duration::from_secs(1))?;
/// }
/// # Ok::<(), Error>(())
/// ```
///
/// # Panics
/// If `usual`, or a variable, does not contain seeds.
pub fn seeds(usual: &str) -> Vec<u64> {
    let (from, text) = match (named(SEED), named(SEEDS)) {
        (Some(text), _) => (SEED, text),
        (None, Some(text)) => (SEEDS, text),
        (None, None) => ("seeds()", usual.to_owned()),
    };
    match read(from, &text) {
        Ok(seeds) => seeds,
        Err(why) => panic!("{why}"),
    }
}

/// Returns the seed of a cluster without its own seed.
///
/// # Errors
/// If the variable is not a number.
pub(super) fn seed() -> Result<u64, String> {
    let Some(text) = named(SEED) else { return Ok(1) };
    text.trim().parse().map_err(|_| {
        format!(
            "{SEED}={text}: a cluster has one seed, a whole number; {SEEDS} takes several, for tests with `seeds()`"
        )
    })
}

fn named(name: &str) -> Option<String> {
    match var(name) {
        Ok(text) if text.is_empty() => None,
        Ok(text) => Some(text),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(text)) => Some(text.to_string_lossy().into_owned()),
    }
}

fn read(from: &str, text: &str) -> Result<Vec<u64>, String> {
    let seeds: Seeds = text.parse().map_err(|why| format!("{from}: {why}"))?;
    match seeds.all() {
        [_, _, ..] if from == SEED => Err(format!("{from}={text}: this is one seed; {SEEDS} takes several")),
        all => Ok(all.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_seeds_in_the_variable_of_one_are_refused() {
        assert_eq!(read(SEEDS, "1..3"), Ok(vec![1, 2, 3]));
        assert_eq!(read(SEED, "9"), Ok(vec![9]));
        assert_eq!(
            read(SEED, "1..3"),
            Err("MOORING_SEED=1..3: this is one seed; MOORING_SEEDS takes several".to_owned())
        );
        assert!(read(SEEDS, "many").unwrap_err().starts_with("MOORING_SEEDS: `many` is not a seed"));
    }
}
