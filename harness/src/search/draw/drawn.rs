//! Drawn scenarios.

use crate::search::document::Document;

/// A drawn scenario, and the kinds of additions in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The scenario.
    pub document: Document,
    /// Names of the additions.
    pub kinds: Vec<&'static str>,
}
