//! Limits on the size of scenario files.

use substrate::yaml::Budget;

/// Maximum size of a scenario file in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum size of all expanded text in bytes.
pub(super) const MAX_TEXT: usize = 8 << 20;

/// Limits that protect time and memory from a hostile file; a scenario of a thousand objects stays far below.
pub(super) fn options() -> substrate::yaml::Options {
    let mut budget = Budget::default();
    budget.max_events = 200_000;
    budget.max_nodes = 100_000;
    budget.max_depth = 32;
    budget.max_aliases = 1_000;
    budget.max_anchors = 1_000;
    budget.max_documents = 1;
    substrate::yaml::options! { budget: Some(budget), strict_booleans: true }
}
