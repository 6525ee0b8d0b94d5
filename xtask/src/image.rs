//! Builds the container image: `mooring`, and the system programs that make, probe, check and grow filesystems, with
//! the shared libraries of both, from this machine's Debian packages. No base image, registry or compiler is needed.
//!
//! The module depends on `std` and `anyhow` only, so that the end-to-end test can include it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The programs that a node runs: the name in the image, and the Debian package that contains it.
const TOOLS: [(&str, &str); 9] = [
    ("blkid", "util-linux"),
    ("mkfs.ext4", "e2fsprogs"),
    ("fsck.ext4", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("resize2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_growfs", "xfsprogs"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("btrfs", "btrfs-progs"),
];
/// The directories that are searched for them, and the directory of the image that they go to.
const PLACES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
const TOOLS_DIR: &str = "usr/sbin";
/// The configuration of mkfs.ext4.
const SETTINGS: &str = "/etc/mke2fs.conf";
/// Directories that the servers' volumes are mounted on, and `tmp`. An empty volume takes over the mode of its mount
/// point, and the servers do not run as root.
const WRITABLE: [&str; 5] = ["run/csi", "run/kubernetes", "run/mooring", "tmp", "var/lib/mooring"];
/// Files that programs expect in any container.
const FIXED: [(&str, &str); 4] = [
    ("etc/passwd", "root:x:0:0:root:/:/nologin\nmooring:x:65532:65532:mooring:/:/nologin\n"),
    ("etc/group", "root:x:0:\nmooring:x:65532:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
    ("etc/mooring/instances.yaml", INSTANCES),
];
/// The machines of compose.yaml.
const INSTANCES: &str = "\
- {name: node-a, zone: us-east-1a, id: i-0000000000000000a}
- {name: node-b, zone: us-east-1a, id: i-0000000000000000b}
- {name: node-c, zone: us-east-1a, id: i-0000000000000000c}
";

/// The size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the program.
    pub mooring: u64,
    /// Bytes of everything else.
    pub tools: u64,
}

impl Size {
    /// Bytes in total.
    pub fn total(self) -> u64 {
        self.mooring + self.tools
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [total, mooring, tools] = [self.total(), self.mooring, self.tools].map(megabytes);
        write!(f, "{total} uncompressed: mooring {mooring}, filesystem tools and libraries {tools}")
    }
}

/// Bytes as megabytes with one decimal.
fn megabytes(bytes: u64) -> String {
    let tenths = (bytes + 50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

/// Recreates `context` as the build context of `Dockerfile`; the image's root filesystem is below `root`.
///
/// # Errors
/// If a program is missing (the error names its package), or the system fails.
pub fn gather(dockerfile: &Path, mooring: &Path, context: &Path) -> Result<Size, anyhow::Error> {
    if context.exists() {
        // Remove only directories that this function created: a wrong --context must not delete the user's files.
        if !context.join(MARK).exists() {
            bail!("{}: is there and no image context; name another directory", context.display());
        }
        fs::remove_dir_all(context).with_context(|| context.display().to_string())?;
    }
    let root = context.join("root");
    fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
    fs::write(context.join(MARK), "")?;
    copy(dockerfile, &context.join("Dockerfile"))?;
    let program = root.join("usr/bin/mooring");
    strip(mooring, &program)?;
    let mut sources = BTreeMap::from([(program.clone(), mooring.to_owned())]);
    let mut programs = BTreeMap::new();
    for (tool, package) in TOOLS {
        let source = PLACES.iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.is_file());
        let source = source.with_context(|| format!("no {tool} on this machine (Debian package {package})"))?;
        let target = root.join(TOOLS_DIR).join(tool);
        put(&source, &target, &mut programs)?;
        sources.insert(target, source);
    }
    let mut libraries = BTreeSet::new();
    for source in sources.values() {
        libraries.extend(libraries_of(source)?);
    }
    for library in &libraries {
        copy(library, &root.join(library.strip_prefix("/")?))?;
    }
    if Path::new(SETTINGS).is_file() {
        copy(Path::new(SETTINGS), &root.join(SETTINGS.trim_start_matches('/')))?;
    }
    for (path, text) in FIXED {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&root))?;
        fs::write(path, text)?;
    }
    for dir in WRITABLE {
        let dir = root.join(dir);
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777))?;
    }
    licences(&root, sources.values().skip(1).chain(&libraries))?;
    let mooring = fs::metadata(&program)?.len();
    Ok(Size { mooring, tools: bytes(&root)? - mooring })
}

/// Marks a directory as a context that [`gather`] created.
const MARK: &str = ".mooring-image";

/// Builds the image of a context with `docker`.
///
/// # Errors
/// If docker is missing or fails.
pub fn build(docker: &mut Command, context: &Path, tag: &str) -> Result<(), anyhow::Error> {
    let status = docker.args(["build", "--quiet", "--tag", tag]).arg(context).status();
    let status =
        status.context("docker is not installed here (Debian package docker.io); --context-only needs none")?;
    if !status.success() {
        bail!("docker build: {status}");
    }
    Ok(())
}

/// Returns the libraries that a program loads and the loader itself, from `ldd`.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, anyhow::Error> {
    let output = Command::new("ldd").arg(program).output().context("ldd (Debian package libc-bin)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // ldd fails for a statically linked program, which loads nothing.
    if !output.status.success() && !text.contains("not a dynamic executable") {
        bail!("ldd {}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    read_ldd(&text)
        .map_err(|missing| anyhow::anyhow!("{} needs {missing}, which this machine lacks", program.display()))
}

/// Parses lines such as `libc.so.6 => /lib/…/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn read_ldd(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let place = line.split_once("=>").map_or(line, |(_, place)| place).trim();
        if place == "not found" {
            return Err(line.split_whitespace().next().unwrap_or_default().to_owned());
        }
        let path = place.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Copies a file with its mode, following symlinks.
fn copy(from: &Path, to: &Path) -> Result<(), anyhow::Error> {
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to).map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
}

/// Copies a program once: another name for the same file becomes a symlink to the first copy, which `programs` records.
fn put(from: &Path, to: &Path, programs: &mut BTreeMap<PathBuf, String>) -> Result<(), anyhow::Error> {
    let real = fs::canonicalize(from).with_context(|| from.display().to_string())?;
    if let Some(first) = programs.get(&real) {
        return std::os::unix::fs::symlink(first, to).with_context(|| to.display().to_string());
    }
    copy(from, to)?;
    let name = to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    programs.insert(real, name);
    Ok(())
}

/// Copies a program without its symbols.
fn strip(from: &Path, to: &Path) -> Result<(), anyhow::Error> {
    if !from.is_file() {
        bail!("{}: is not there; build it with `cargo build --release -p harness`", from.display());
    }
    fs::create_dir_all(to.parent().unwrap_or(Path::new(".")))?;
    let status = Command::new("strip").arg("--strip-all").arg("-o").arg(to).arg(from).status();
    let status = status.context("strip is not installed here (Debian package binutils)")?;
    if !status.success() {
        bail!("strip {}: {status}", from.display());
    }
    Ok(())
}

/// Copies the licences of the Debian packages that contain `files`; skips files that dpkg does not know.
fn licences<'a>(root: &Path, files: impl Iterator<Item = &'a PathBuf>) -> Result<(), anyhow::Error> {
    for file in files {
        let Some(package) = package_of(file) else { continue };
        let licence = Path::new("usr/share/doc").join(package).join("copyright");
        let source = Path::new("/").join(&licence);
        if source.is_file() {
            copy(&source, &root.join(licence))?;
        }
    }
    Ok(())
}

/// Returns the Debian package that contains a file. dpkg knows the path at packaging time, which may lack /usr
/// (usrmerge).
fn package_of(file: &Path) -> Option<String> {
    let real = fs::canonicalize(file).ok()?;
    let bare = real.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_else(|_| real.clone());
    [file, &real, &bare].into_iter().find_map(|path| {
        let output = Command::new("dpkg").arg("-S").arg(path).output().ok().filter(|o| o.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.split(':').next()?.to_owned())
    })
}

/// Returns the size of all files below a directory in bytes.
fn bytes(dir: &Path) -> Result<u64, anyhow::Error> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() { bytes(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_with_the_loader_and_a_missing_one_is_named() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(read_ldd(text).unwrap(), [PathBuf::from("/lib/x/libc.so.6"), "/lib64/ld.so.2".into()]);
        assert_eq!(read_ldd("\tlibinih.so.1 => not found\n").unwrap_err(), "libinih.so.1");
        assert!(read_ldd("\tstatically linked\n").unwrap().is_empty());
    }

    #[test]
    fn a_foreign_directory_stays() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("mine"), "").unwrap();
        let error = gather(Path::new("Dockerfile"), Path::new("mooring"), home.path()).unwrap_err().to_string();
        assert!(error.contains("no image context"), "{error}");
        assert!(home.path().join("mine").exists());
    }

    #[test]
    fn a_program_with_two_names_is_in_the_image_once() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("e2fsck"), "program").unwrap();
        std::os::unix::fs::symlink("e2fsck", at("fsck.ext4")).unwrap();
        fs::create_dir(at("image")).unwrap();
        let mut programs = BTreeMap::new();
        for name in ["fsck.ext4", "e2fsck"] {
            put(&at(name), &at("image").join(name), &mut programs).unwrap();
        }
        assert_eq!(fs::read_link(at("image/e2fsck")).unwrap(), Path::new("fsck.ext4"));
        assert_eq!(fs::read_to_string(at("image/e2fsck")).unwrap(), "program");
        assert!(fs::symlink_metadata(at("image/fsck.ext4")).unwrap().is_file());
    }

    #[test]
    fn a_size_is_printed_in_mb_with_its_parts() {
        let size = Size { mooring: 30_040_000, tools: 7_250_000 };
        let message = "37.3 MB uncompressed: mooring 30.0 MB, filesystem tools and libraries 7.3 MB";
        assert_eq!(size.to_string(), message);
    }
}
