//! Planted defects: wrong code that a whole run can switch on, to prove that a checker sees it.
//!
//! A component asks [`mutant!`](crate::mutant) at the place where it would go wrong. Without the cargo feature
//! `mutants` of the component's crate the question is the constant `false`, and no release has the feature.

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// What switches it on.
    pub name: &'static str,
    /// What is wrong, in one sentence.
    pub about: &'static str,
    /// The public issue that it is made after.
    pub recreates: &'static str,
}

/// Whether the defect `$name` is switched on in the world of `$ctx`; never without the feature `mutants` of the crate
/// that asks.
#[macro_export]
macro_rules! mutant {
    ($ctx:expr, $name:literal) => {
        cfg!(feature = "mutants") && $ctx.world().has_mutant($name)
    };
}
