//! Paths of the machine as volumes (upstream `pkg/volume/hostpath/host_path.go`).

use std::fs::{DirBuilder, FileType, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use crate::node_agent::system_text::system_text;

/// Checks the type of a path, or makes a path that is missing (`SetUp`). Without a type it becomes a directory, as with
/// containerd.
///
/// # Errors
/// Upstream's text.
pub(crate) fn set_up(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = source.path.as_str();
    if path.split('/').any(|part| part == "..") {
        return Err(format!("invalid HostPath `{path}`: must not contain '..'"));
    }
    let found = std::fs::metadata(path).ok().map(|about| about.file_type());
    let is = |test: fn(&FileType) -> bool| found.as_ref().is_some_and(test);
    let (fits, kind) = match (source.type_.as_deref().unwrap_or_default(), &found) {
        ("", Some(_)) => return Ok(()),
        ("" | "DirectoryOrCreate", None) => return make_directory(path),
        ("FileOrCreate", None) => return make_file(path),
        ("Directory" | "DirectoryOrCreate", _) => (is(FileType::is_dir), "directory"),
        ("File" | "FileOrCreate", _) => (is(FileType::is_file), "file"),
        ("Socket", _) => (is(FileTypeExt::is_socket), "socket file"),
        ("CharDevice", _) => (is(FileTypeExt::is_char_device), "character device"),
        ("BlockDevice", _) => (is(FileTypeExt::is_block_device), "block device"),
        (other, _) => return Err(format!("{other} is an invalid volume type")),
    };
    if fits { Ok(()) } else { Err(format!("hostPath type check failed: {path} is not a {kind}")) }
}

fn make_directory(path: &str) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(|error| format!("mkdir {path}: {}", system_text(&error)))
}

fn make_file(path: &str) -> Result<(), String> {
    let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path);
    made.map(drop).map_err(|error| format!("open {path}: {}", system_text(&error)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(path: &Path, kind: Option<&str>) -> Result<(), String> {
        set_up(&HostPathVolumeSource { path: path.display().to_string(), type_: kind.map(str::to_owned) })
    }

    #[test]
    fn a_path_has_the_type_of_its_volume() {
        let root = tempfile::tempdir().unwrap();
        let (file, socket) = (root.path().join("file"), root.path().join("socket"));
        let (directory, file, socket) = (root.path(), file.as_path(), socket.as_path());
        std::fs::write(file, "").unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
        for (path, kind) in [
            (directory, "Directory"),
            (directory, "DirectoryOrCreate"),
            (file, "File"),
            (file, "FileOrCreate"),
            (socket, "Socket"),
            (Path::new("/dev/null"), "CharDevice"),
        ] {
            assert_eq!((check(path, Some(kind)), check(path, Some(""))), (Ok(()), Ok(())), "{kind}");
        }
        for (path, kind, what) in [
            (file, "Directory", "directory"),
            (file, "DirectoryOrCreate", "directory"),
            (directory, "File", "file"),
            (directory, "FileOrCreate", "file"),
            (file, "Socket", "socket file"),
            (file, "CharDevice", "character device"),
            (Path::new("/dev/null"), "BlockDevice", "block device"),
        ] {
            let why = format!("hostPath type check failed: {} is not a {what}", path.display());
            assert_eq!(check(path, Some(kind)), Err(why));
        }
        let absent = root.path().join("absent");
        let why = format!("hostPath type check failed: {} is not a directory", absent.display());
        assert_eq!(check(&absent, Some("Directory")), Err(why));
        assert_eq!(check(directory, Some("Disk")), Err("Disk is an invalid volume type".to_owned()));
        assert_eq!(
            check("/a/../b".as_ref(), None),
            Err("invalid HostPath `/a/../b`: must not contain '..'".to_owned())
        );
    }

    #[test]
    fn a_missing_path_is_made() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        assert_eq!(check(&at("a/b"), Some("DirectoryOrCreate")), Ok(()));
        assert_eq!(check(&at("a/c"), None), Ok(()));
        assert_eq!(check(&at("a/file"), Some("FileOrCreate")), Ok(()));
        assert!(at("a/b").is_dir() && at("a/c").is_dir() && at("a/file").is_file());
        let below_file = at("a/file/x");
        let why = format!("mkdir {}: not a directory", below_file.display());
        assert_eq!(check(&below_file, None), Err(why));
    }
}
