//! Input of the first process of a container, in its environment.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Environment variable with a [`Setup`], or with an [`Entry`](super::enter::Entry), in JSON. A program does not get it.
pub(super) const VARIABLE: &str = "MOORING_CONTAINER";

/// Setup of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Directory in which its root is made.
    pub scratch: PathBuf,
    pub mounts: Vec<Mount>,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Its host name. Empty: that of the machine.
    pub host_name: String,
    /// Lines that its `/etc/hosts` has after those of the machine.
    pub hosts: Vec<String>,
    /// Working directory.
    pub directory: String,
    pub identity: Identity,
    /// True if the standard input is a terminal.
    pub tty: bool,
    /// True if its root cannot be written to.
    pub readonly_root: bool,
}

/// User and groups of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
}

/// Mount in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mount {
    pub source: PathBuf,
    /// Path in the container.
    pub at: String,
    pub sub_path: Option<String>,
    pub readonly: bool,
    /// True for a raw device.
    pub device: bool,
    /// True for a path of the machine, whose own mounts come with it.
    pub host: bool,
    /// Group that gets the volume (`fsGroup`).
    pub owner: Option<u32>,
}

/// Returns a path without its root and without `..`, which would lead out.
///
/// # Errors
/// If it contains `..`.
pub(super) fn inside(path: &str) -> std::io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(std::io::Error::other(format!("{path}: must not contain `..`")));
            }
        }
    }
    Ok(plain)
}

/// Makes the directory of an emptyDir, which all users can write to (`setupDir`). One that exists stays as it is.
pub(super) fn make_empty(directory: &Path) -> std::io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o777))
}

/// Writes the files of a ConfigMap, a Secret or the downward API, readable by all as with `defaultMode: 0644`.
pub(super) fn write_files(directory: &Path, files: &BTreeMap<String, String>) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (path, content) in files {
        let file = directory.join(inside(path)?);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_dir_is_open_to_all_until_its_containers_change_it() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("empty-dir/cache");
        let mode = || std::fs::metadata(&directory).unwrap().permissions().mode() & 0o7777;
        make_empty(&directory).unwrap();
        assert_eq!(mode(), 0o777);
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o700)).unwrap();
        make_empty(&directory).unwrap();
        assert_eq!(mode(), 0o700);
    }

    #[test]
    fn a_path_stays_inside() {
        assert_eq!(inside("/etc/app/./x").unwrap(), Path::new("etc/app/x"));
        assert!(inside("a/../../b").is_err());
    }
}
