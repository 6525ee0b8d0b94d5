//! System programs that create, probe and check filesystems.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::DiskError;

/// Directories of root's tools that PATH may lack.
const MORE: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Finds a program.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE.iter().map(PathBuf::from))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn run(name: &str, arguments: &[&str], device: &Path) -> Result<Output, DiskError> {
    let program = find(name).ok_or_else(|| {
        DiskError::Environment(format!(
            "`{name}` is not installed (Debian: e2fsprogs, xfsprogs, btrfs-progs, util-linux)"
        ))
    })?;
    Command::new(program)
        .args(arguments)
        .arg(device)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| DiskError::io("run", name, e))
}

/// Returns the output of a program in one line.
fn stderr_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ").chars().take(500).collect()
}

/// Content of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No signature (blkid exits with 2).
    Nothing,
    /// A filesystem.
    Filesystem(String),
    /// Something else, such as a partition table.
    Other(String),
}

/// Probes a device for signatures, without a cache (mount-utils: `blkid -p -s TYPE -s PTTYPE -o export`).
pub(super) fn probe(device: &Path) -> Result<Found, DiskError> {
    let output = run("blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"], device)?;
    match output.status.code() {
        Some(2) => Ok(Found::Nothing),
        Some(0) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let value = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).filter(|v| !v.is_empty());
            Ok(match (value("TYPE="), value("PTTYPE=")) {
                (Some(fs), _) => Found::Filesystem(fs.to_owned()),
                (None, Some(table)) => Found::Other(format!("a {table} partition table")),
                (None, None) => Found::Other("something that blkid does not name".to_owned()),
            })
        }
        // 8: several contradictory signatures.
        Some(8) => Ok(Found::Other("signatures that contradict one another".to_owned())),
        code => Err(DiskError::Environment(format!("blkid ended with {code:?}: {}", stderr_of(&output)))),
    }
}

/// Creates a filesystem, with further options of mkfs.
pub(super) fn make(device: &Path, fs_type: &str, options: &[String]) -> Result<(), DiskError> {
    let (program, arguments): (&str, &[&str]) = match fs_type {
        // The device is all zeros, so the journal and the inode tables need no write; the backing file stays sparse.
        "ext4" => ("mkfs.ext4", &["-q", "-F", "-m0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]),
        "xfs" => ("mkfs.xfs", &["-q", "-f", "-K"]),
        "btrfs" => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        other => return Err(DiskError::Environment(format!("no mkfs for `{other}`"))),
    };
    let arguments: Vec<&str> = arguments.iter().copied().chain(options.iter().map(String::as_str)).collect();
    let output = run(program, &arguments, device)?;
    if output.status.success() {
        return Ok(());
    }
    let failure = format!("{program} ended with {:?}: {}", output.status.code(), stderr_of(&output));
    Err(DiskError::io("mkfs", device.display().to_string(), std::io::Error::other(failure)))
}

/// Grows a mounted filesystem to its device.
pub(super) fn grow(device: &Path, mounted: &Path, fs_type: &str) -> Result<(), DiskError> {
    let (program, arguments, on): (&str, &[&str], &Path) = match fs_type {
        "ext4" => ("resize2fs", &[], device),
        "xfs" => ("xfs_growfs", &["-d"], mounted),
        "btrfs" => ("btrfs", &["filesystem", "resize", "max"], mounted),
        other => return Err(DiskError::Environment(format!("no program grows `{other}`"))),
    };
    let output = run(program, arguments, on)?;
    if output.status.success() {
        return Ok(());
    }
    if fs_type == "ext4" && stderr_of(&output).contains("Permission denied") {
        return Err(DiskError::Environment(format!(
            "an ext4 that is mounted grows only with CAP_SYS_RESOURCE (docker: --cap-add SYS_RESOURCE), which this \
             process lacks; the one at {} grows when it is staged again",
            mounted.display()
        )));
    }
    let failure = format!("{program} ended with {:?}: {}", output.status.code(), stderr_of(&output));
    Err(DiskError::io("resize", mounted.display().to_string(), std::io::Error::other(failure)))
}

/// Grows an unmounted ext4 to its device; resize2fs requires a full check first.
pub(super) fn grow_ext4_unmounted(device: &Path) -> Result<(), DiskError> {
    let fail = |program: &str, output: &Output| {
        let failure = format!("{program} ended with {:?}: {}", output.status.code(), stderr_of(output));
        Err(DiskError::io("resize", device.display().to_string(), std::io::Error::other(failure)))
    };
    let checked = run("e2fsck", &["-f", "-p"], device)?;
    // 1: errors were repaired.
    if !matches!(checked.status.code(), Some(0 | 1)) {
        return fail("e2fsck", &checked);
    }
    let output = run("resize2fs", &[], device)?;
    if output.status.success() { Ok(()) } else { fail("resize2fs", &output) }
}

/// Checks a filesystem and makes safe repairs (mount-utils: `fsck -a`). Exit code 1 means repaired. 4 means that errors
/// are left and the filesystem must not be mounted. Higher codes are ignored.
pub(super) fn check(device: &Path, fs_type: &str) -> Result<(), String> {
    let program = format!("fsck.{fs_type}");
    if fs_type != "ext4" {
        // fsck.xfs and fsck.btrfs do nothing by design: these filesystems repair themselves at mount.
        return Ok(());
    }
    match run(&program, &["-a"], device) {
        Err(error) => Err(error.to_string()),
        Ok(output) if output.status.code() == Some(4) => {
            Err(format!("{program} found errors that it cannot repair: {}", stderr_of(&output)))
        }
        Ok(_) => Ok(()),
    }
}
