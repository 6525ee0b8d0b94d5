//! Seeded bugs: wrong code that a whole run can switch on, to prove that a checker sees it.
//!
//! A component asks [`mutant!`](crate::mutant) at the place of the bug. Without the cargo feature `mutants` of the
//! component's crate, the answer is the constant `false`, and no release has the feature.

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Name by which it is switched on.
    pub name: &'static str,
    /// The bug, in one sentence.
    pub about: &'static str,
    /// Public issue that it reproduces.
    pub recreates: &'static str,
}

/// Returns true if the seeded bug `$name` is switched on in the world of `$ctx`; always false without the feature
/// `mutants` of the calling crate.
#[macro_export]
macro_rules! mutant {
    ($ctx:expr, $name:literal) => {
        cfg!(feature = "mutants") && $ctx.world().has_mutant($name)
    };
}
