//! Checked values and the errors of a file.

use crate::scenario::diagnostic::Mistake;

pub(in crate::scenario) type Checked<T> = Result<T, Mistake>;

/// Maximum number of reported errors of a file.
pub(super) const MOST_MISTAKES: usize = 50;

/// Errors found so far.
pub(super) struct Found(pub(super) Vec<Mistake>);

impl Found {
    /// Returns the value, or records its error.
    pub(super) fn of<T>(&mut self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|mistake| self.0.push(mistake)).ok()
    }
}
