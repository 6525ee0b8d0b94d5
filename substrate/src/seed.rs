//! The root seed and its named child streams.
//!
//! A child depends only on its name, so one more draw in one place changes nothing elsewhere.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// A node in the tree of random streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Returns the root of a run, as of `--seed N`.
    pub fn root(n: u64) -> Self {
        Self(Sha256::digest(n.to_le_bytes()).into())
    }

    /// Returns the child called `name`.
    pub fn child(&self, name: &str) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(name.as_bytes()).finalize().into())
    }

    /// Returns a generator that starts this node's stream from its beginning.
    pub fn rng(&self) -> ChaCha8Rng {
        ChaCha8Rng::from_seed(self.0)
    }
}

/// Returns a number in `0.0..1.0`.
pub fn unit(rng: &mut impl Rng) -> f64 {
    // 53 random bits fill the mantissa exactly.
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns an integer in `low..=high`; `low` if the range is empty.
pub fn between(rng: &mut impl Rng, low: u64, high: u64) -> u64 {
    if high <= low { low } else { low + rng.next_u64() % (high - low + 1) }
}
