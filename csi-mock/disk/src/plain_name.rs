//! Plain names of files.

use std::path::{Component, Path};

use super::DiskError;

/// Checks that a name is one ordinary path component.
pub(super) fn plain_name(what: &str, name: &str) -> Result<(), DiskError> {
    let mut parts = Path::new(name).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name);
    if plain && name.len() <= 128 && !name.starts_with('.') {
        return Ok(());
    }
    Err(DiskError::BadPath { path: name.to_owned(), reason: format!("{what} must be one plain name") })
}
