//! Mounts by descriptor: the checked directory is the mount point, even if a path is renamed or linked in between.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_remount, move_mount, open_tree,
    unmount as unmount_path,
};

use crate::root::PathAt;
use crate::{Backend, DiskError};

/// Mount options, split into those of the mount and those of the filesystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    attributes: MountAttrFlags,
    filesystem: Vec<String>,
}

/// Options of mounts, by name. Options that would undo nosuid or nodev are left out.
const ATTRIBUTES: [(&str, MountAttrFlags); 9] = [
    ("ro", MountAttrFlags::MOUNT_ATTR_RDONLY),
    ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
    ("strictatime", MountAttrFlags::MOUNT_ATTR_STRICTATIME),
    ("nodiratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ("nosymfollow", MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
    ("relatime", MountAttrFlags::MOUNT_ATTR_RELATIME),
];
/// Options without an effect.
const NEUTRAL: [&str; 4] = ["rw", "defaults", "async", "_netdev"];
/// Options that a volume must not have.
const REFUSED: [&str; 8] = ["suid", "dev", "bind", "rbind", "remount", "loop", "move", "user"];

impl Options {
    /// Parses mount flags; always adds nosuid and nodev.
    ///
    /// # Errors
    /// [`DiskError::Unsupported`] for an option that a volume must not have.
    pub fn new(flags: &[String], readonly: bool) -> Result<Self, DiskError> {
        let mut options = Self {
            attributes: MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
            filesystem: Vec::new(),
        };
        if readonly {
            options.attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        for flag in flags {
            if REFUSED.contains(&&**flag) {
                let reason = format!("mount option `{flag}`: volumes are mounted nosuid and nodev, and nothing else");
                return Err(DiskError::Unsupported { backend: Backend::Loop, reason });
            }
            match ATTRIBUTES.iter().find(|(name, _)| name == flag) {
                Some((_, attribute)) => options.attributes |= *attribute,
                None if NEUTRAL.contains(&&**flag) => {}
                None => options.filesystem.push(flag.clone()),
            }
        }
        Ok(options)
    }

    fn readonly(&self) -> bool {
        self.attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY)
    }

    /// Returns the same attributes as flags of a remount.
    fn remount(&self) -> MountFlags {
        let pairs = [
            (MountAttrFlags::MOUNT_ATTR_RDONLY, MountFlags::RDONLY),
            (MountAttrFlags::MOUNT_ATTR_NOSUID, MountFlags::NOSUID),
            (MountAttrFlags::MOUNT_ATTR_NODEV, MountFlags::NODEV),
            (MountAttrFlags::MOUNT_ATTR_NOEXEC, MountFlags::NOEXEC),
            (MountAttrFlags::MOUNT_ATTR_NOATIME, MountFlags::NOATIME),
            (MountAttrFlags::MOUNT_ATTR_STRICTATIME, MountFlags::STRICTATIME),
            (MountAttrFlags::MOUNT_ATTR_NODIRATIME, MountFlags::NODIRATIME),
        ];
        let set = pairs.into_iter().filter(|(attribute, _)| self.attributes.contains(*attribute));
        set.fold(MountFlags::BIND, |flags, (_, flag)| flags | flag)
    }
}

/// Detached mount of the filesystem on a block device.
#[derive(Debug)]
pub(super) struct Detached(OwnedFd);

fn fail(op: &'static str, what: &Path, error: Errno) -> DiskError {
    match error {
        Errno::NOSYS | Errno::PERM => DiskError::Environment(format!(
            "{op} {}: {error}; mounts need root with CAP_SYS_ADMIN and no seccomp profile that forbids them",
            what.display()
        )),
        error => DiskError::errno(op, what.display().to_string(), error),
    }
}

/// Returns the kernel's message about a failed mount, such as `e ext4: Unrecognized mount option`.
fn kernel_message(context: &OwnedFd) -> String {
    let mut messages = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(n) = rustix::io::read(context, &mut buffer) {
        if n == 0 || messages.len() >= 8 {
            break;
        }
        messages.push(String::from_utf8_lossy(&buffer[..n]).trim().to_owned());
    }
    messages.join("; ")
}

/// Mounts the filesystem on `device`, still detached.
pub(super) fn filesystem(device: &Path, fs_type: &str, options: &Options) -> Result<Detached, DiskError> {
    let context = fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|e| match e {
        Errno::NODEV => DiskError::Environment(format!("this kernel has no {fs_type}")),
        error => fail("fsopen", device, error),
    })?;
    let failed = |op: &'static str, error: Errno| {
        let text = kernel_message(&context);
        if text.is_empty() {
            return fail(op, device, error);
        }
        DiskError::io("mount", device.display().to_string(), std::io::Error::other(format!("{error}: {text}")))
    };
    fsconfig_set_string(&context, "source", device).map_err(|e| failed("fsconfig source", e))?;
    if options.readonly() {
        fsconfig_set_flag(&context, "ro").map_err(|e| failed("fsconfig ro", e))?;
    }
    let own: &[&str] = match fs_type {
        // The inode tables are holes of the backing file and read as zeros: they need no write.
        "ext4" => &["errors=remount-ro", "noinit_itable"],
        // A restored or cloned volume has the identity of its source, and both may be mounted on one machine.
        "xfs" => &["nouuid"],
        _ => &[],
    };
    for option in own.iter().copied().chain(options.filesystem.iter().map(String::as_str)) {
        match option.split_once('=') {
            // mount(8) removes the quotes of a label; the mount API does not.
            Some((key, value)) => fsconfig_set_string(&context, key, value.trim_matches('"')),
            None => fsconfig_set_flag(&context, option),
        }
        .map_err(|e| failed("mount option", e))?;
    }
    fsconfig_create(&context).map_err(|e| failed("fsconfig create", e))?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, options.attributes);
    Ok(Detached(mount.map_err(|e| failed("fsmount", e))?))
}

/// Clones the mount at `directory`, still detached.
pub(super) fn copy(directory: &OwnedFd, path: &Path) -> Result<Detached, DiskError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(Detached(open_tree(directory, "", flags).map_err(|e| fail("open_tree", path, e))?))
}

impl Detached {
    /// Attaches the mount to the open directory (for a bind of a file, the open file) `target`.
    pub fn attach(&self, target: &OwnedFd, path: &Path) -> Result<(), DiskError> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(self.0.as_fd(), "", target, "", flags).map_err(|e| fail("move_mount", path, e))
    }

    /// Sets the options of this mount, which must be attached. The filesystem and its other mounts keep theirs.
    pub fn restrict(&self, options: &Options, path: &Path) -> Result<(), DiskError> {
        let by_fd = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        mount_remount(by_fd, options.remount(), c"").map_err(|e| fail("remount", path, e))
    }
}

/// Unmounts `place`; `lazily` detaches the mount even while it is in use.
pub(super) fn unmount(place: &PathAt, path: &Path, lazily: bool) -> Result<(), DiskError> {
    let by_fd = format!("/proc/self/fd/{}/{}", place.parent.as_raw_fd(), place.name.display());
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match patiently(|| unmount_path(&by_fd, flags | UnmountFlags::NOFOLLOW)) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(DiskError::Busy {
            volume: path.display().to_string(),
            by: "a program has a file open or its working directory there".to_owned(),
        }),
        Err(error) => Err(fail("umount", path, error)),
    }
}

/// Retries while the mount is busy, at most [`TRIES`] times. A child process (blkid, mkfs of another volume) has all
/// descriptors of this process between fork and exec, and a descriptor holds a mount.
fn patiently(mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    for _ in 1..TRIES {
        match attempt() {
            Err(Errno::BUSY) => std::thread::sleep(STEP),
            done => return done,
        }
    }
    attempt()
}

/// Attempts to unmount a busy mount before it counts as in use.
const TRIES: u32 = 60;
/// Wait between two attempts.
const STEP: Duration = Duration::from_millis(5);

/// Simulates power loss of the filesystem mounted at the directory: no flush, and every later access fails with EIO.
pub(super) fn shutdown(path: &Path) -> Result<(), DiskError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        // Shut down before: even its root is unreadable.
        Err(Errno::IO) => return Ok(()),
        directory => directory.map_err(|e| fail("open", path, e))?,
    };
    match super::ioctl::shutdown(&directory) {
        Ok(()) | Err(Errno::IO) => Ok(()),
        Err(Errno::NOTTY | Errno::OPNOTSUPP) => Err(DiskError::Unsupported {
            backend: Backend::Loop,
            reason: format!("the filesystem at {} cannot be shut down; use ext4 or xfs", path.display()),
        }),
        Err(error) => Err(fail("shutdown", path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_is_busy_for_a_moment_is_tried_again() {
        let tried = |busy: u32| {
            let mut tries = 0;
            let done = patiently(|| {
                tries += 1;
                if tries <= busy { Err(Errno::BUSY) } else { Ok(()) }
            });
            (done, tries)
        };
        assert_eq!(tried(0), (Ok(()), 1));
        assert_eq!(tried(3), (Ok(()), 4));
        assert_eq!(tried(u32::MAX), (Err(Errno::BUSY), TRIES));
        let mut tries = 0;
        let refused = patiently(|| {
            tries += 1;
            Err(Errno::INVAL)
        });
        assert_eq!((refused, tries), (Err(Errno::INVAL), 1), "nothing else gets better by waiting");
    }

    #[test]
    fn nosuid_and_nodev_are_always_set_and_cannot_be_undone() {
        let options = Options::new(&["noatime".into(), "data=ordered".into(), "rw".into()], false).unwrap();
        assert!(options.attributes.contains(MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV));
        assert_eq!(options.filesystem, ["data=ordered"]);
        assert!(!options.readonly());
        assert!(Options::new(&["ro".into()], false).unwrap().readonly());
        for flag in REFUSED {
            assert!(matches!(Options::new(&[flag.into()], false), Err(DiskError::Unsupported { .. })), "{flag}");
        }
    }
}
