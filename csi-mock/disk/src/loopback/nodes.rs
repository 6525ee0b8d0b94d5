//! Device nodes of loop devices missing from /dev: a container's /dev does not show the kernel's new devices. Existing
//! nodes are not changed.

use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::LOOP_MAJOR;
use crate::DiskError;

/// Major and minor number of /dev/loop-control (MISC_MAJOR and LOOP_CTRL_MINOR of the kernel).
const CONTROL: (u32, u32) = (10, 237);
/// Only root opens them.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Creates /dev/loop-control if it is missing.
///
/// # Errors
/// [`DiskError::Environment`] if the system refuses it.
pub fn make_control() -> Result<(), DiskError> {
    let path = Path::new("/dev/loop-control");
    if path.exists() { Ok(()) } else { make(path, FileType::CharacterDevice, CONTROL) }
}

/// Creates the node of loop device `number`, which the kernel has assigned to this process.
///
/// # Errors
/// [`DiskError::Environment`] if the system refuses it.
pub(super) fn make_loop(number: u32) -> Result<(), DiskError> {
    make(Path::new(&format!("/dev/loop{number}")), FileType::BlockDevice, (LOOP_MAJOR, number))
}

fn make(path: &Path, kind: FileType, (major, minor): (u32, u32)) -> Result<(), DiskError> {
    match mknodat(CWD, path, kind, MODE, makedev(major, minor)) {
        // Another process of this node was faster.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(DiskError::Environment(format!(
            "{} is missing and cannot be made: {error}; in a container that takes MKNOD and the rules \
             `b 7:* rmw` and `c 10:237 rmw` (docker: --cap-add MKNOD --device-cgroup-rule)",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    use super::*;

    #[test]
    fn a_node_is_made_once_with_the_numbers_of_its_device() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: this needs root");
            return;
        }
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("loop7");
        for _ in 0..2 {
            make(&path, FileType::BlockDevice, (LOOP_MAJOR, 7)).expect("made");
        }
        let made = std::fs::metadata(&path).expect("it is there");
        assert!(made.file_type().is_block_device());
        assert_eq!(made.rdev(), makedev(LOOP_MAJOR, 7));
    }

    #[test]
    fn a_mknod_error_names_the_device_rule() {
        let error = make(Path::new("/nowhere/loop7"), FileType::BlockDevice, (LOOP_MAJOR, 7)).unwrap_err().to_string();
        assert!(error.contains("/nowhere/loop7") && error.contains("b 7:* rmw"), "{error}");
    }
}
