//! Seeded bugs: wrong code that a whole run can switch on, to prove that a checker sees it.
//!
//! A component asks [`mutant!`](crate::mutant) at the place of the bug. In a release
//! without the feature `mutants` the answer is the constant `false`.

/// True in a build that contains the seeded bugs: with debug assertions, or with the feature `mutants`.
pub const BUILT_IN: bool = cfg!(any(debug_assertions, feature = "mutants"));

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

/// Returns true if the seeded bug `$name` is switched on in the world of `$ctx`; always false unless they
/// are [`BUILT_IN`](crate::mutant::BUILT_IN).
#[macro_export]
macro_rules! mutant {
    ($ctx:expr, $name:literal) => {
        $crate::mutant::BUILT_IN && $ctx.world().has_mutant($name)
    };
}
