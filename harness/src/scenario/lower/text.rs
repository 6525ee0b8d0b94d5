//! Texts of scenarios.

/// Text of a scenario, and the way in which it is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::scenario) struct Text<'t> {
    /// Name of the file.
    pub source: &'t str,
    /// Content of the file.
    pub text: &'t str,
    /// True if it is a file that can include others.
    pub has_files: bool,
    /// True if unreadable parts of it were left out.
    pub is_partial: bool,
}
