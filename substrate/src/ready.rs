//! The ready file, written atomically once requests are answered.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// Writes `content` as JSON to `path`, by a rename, so that a reader sees the whole file or none.
///
/// # Errors
/// The error of the filesystem, with the path.
pub fn write(path: &Path, content: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec(content).map_err(std::io::Error::other)?;
    let temporary = path.with_extension("ready-part");
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
