//! File to which the program of a container can write its termination message (`terminationMessagePath`). It is a file of
//! the machine, so that its content outlives the container.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use controllers::machine::programs::LONGEST_MESSAGE;

/// Mode of the file: each user can write to it.
const MODE: u32 = 0o666;

/// Makes the file of a program that starts, empty. Returns its whole path.
pub(super) fn create(path: &Path) -> std::io::Result<PathBuf> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, "")?;
    std::fs::set_permissions(path, Permissions::from_mode(MODE))?;
    std::fs::canonicalize(path)
}

/// Returns the end of a message, or the reason why it cannot be read.
pub(super) fn read(path: &Path) -> String {
    match read_end(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => format!("Error on reading termination log {}: {error}", path.display()),
    }
}

fn read_end(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_MESSAGE)))?;
    let mut end = Vec::new();
    file.take(LONGEST_MESSAGE).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_message_is_read_and_each_start_begins_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("messages/app");
        assert_eq!(read(&path), "");
        let file = create(&path).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, MODE);
        std::fs::write(&file, format!("begin{}end", "x".repeat(4093))).unwrap();
        let message = read(&path);
        assert!(message.len() == 4096 && message.starts_with('x') && message.ends_with("end"), "{message}");
        create(&path).unwrap();
        assert_eq!(read(&path), "");
        assert!(read(directory.path()).starts_with("Error on reading termination log "));
    }
}
