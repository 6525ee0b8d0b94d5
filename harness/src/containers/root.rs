//! `mooring container-root`: makes the root of a container and becomes its program. Runs behind the guard, as a process
//! with one thread.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use controllers::machine::programs::NOT_STARTED;
use rustix::fs::{Gid, Uid};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, ioctl_tiocsctty, pivot_root, setsid};
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, set_thread_gid, set_thread_groups, set_thread_uid};

use super::accounts;
use super::setup::{Identity, Mount, Setup, VARIABLE, inside};

/// The hidden subcommand of `mooring`.
pub(crate) const COMMAND: &str = "container-root";

/// Mode bits of a group on files and on directories of its volume.
const FILE: u32 = 0o660;
const DIRECTORY: u32 = 0o2770;

/// Becomes the program.
pub(crate) fn main() -> ExitCode {
    let error = match read() {
        Ok(setup) => match take_terminal(&setup).and_then(|()| make(&setup)) {
            Ok(()) => become_program(&setup.command, &setup.env, &setup.directory, &setup.identity),
            Err(error) => error,
        },
        Err(error) => error,
    };
    eprintln!("(mooring: cannot start: {error})");
    ExitCode::from(NOT_STARTED)
}

fn read() -> std::io::Result<Setup> {
    let text = std::env::var(VARIABLE).map_err(std::io::Error::other)?;
    serde_json::from_str(&text).map_err(std::io::Error::other)
}

/// Makes the terminal on the standard input, if there is one, the controlling terminal.
fn take_terminal(setup: &Setup) -> std::io::Result<()> {
    if setup.tty {
        setsid()?;
        ioctl_tiocsctty(std::io::stdin().as_fd())?;
    }
    Ok(())
}

/// Name of the machine's root in that of a container, until the container is complete.
const OLD: &str = ".mooring-old-root";
/// Devices of each container, as the OCI runtime specification lists them.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links of each container, with their targets.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Makes the root of the container and enters it.
fn make(setup: &Setup) -> std::io::Result<()> {
    new_namespaces()?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let scratch = &setup.scratch;
    // Gone with the namespace.
    mount("tmpfs", scratch, "tmpfs", MountFlags::empty(), None)?;
    let [upper, work, root] = ["upper", "work", "root"].map(|name| scratch.join(name));
    for directory in [&upper, &work, &root] {
        std::fs::create_dir(directory)?;
    }
    let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    let options = std::ffi::CString::new(options)?;
    let overlay = mount("overlay", &root, "overlay", MountFlags::empty(), Some(options.as_c_str()));
    overlay.map_err(|error| std::io::Error::other(format!("no overlay of / is possible here: {error}")))?;
    // All further paths are resolved in the container, so no link leads out of it.
    std::fs::create_dir(root.join(OLD))?;
    chdir(&root)?;
    pivot_root(".", OLD)?;
    chdir("/")?;
    let old = Path::new("/").join(OLD);
    for directory in ["proc", "sys"] {
        mount_bind_recursive(old.join(directory), Path::new("/").join(directory))?;
    }
    make_devices(&old)?;
    hide_people()?;
    give_name(setup)?;
    for place in ["/tmp", "/var/tmp"] {
        open_to_all(Path::new(place))?;
    }
    let mut mounts: Vec<&Mount> = setup.mounts.iter().collect();
    // A mount in another one comes after it.
    mounts.sort_by_key(|one| Path::new(&one.at).components().count());
    for one in mounts {
        add(&old, one).map_err(|error| std::io::Error::other(format!("mount {}: {error}", one.at)))?;
    }
    unmount(&old, UnmountFlags::DETACH)?;
    std::fs::remove_dir(&old)?;
    if setup.readonly_root {
        std::fs::create_dir_all(&setup.directory)?;
        mount_remount("/", MountFlags::BIND | MountFlags::RDONLY, c"")?;
    }
    Ok(())
}

/// Makes `/dev`: only the usual devices, so that nothing changes in the directory of the machine.
fn make_devices(old: &Path) -> std::io::Result<()> {
    let (own, dev) = (old.join("dev"), Path::new("/dev"));
    mount("tmpfs", dev, "tmpfs", MountFlags::NOSUID, Some(c"mode=755"))?;
    for name in DEVICES {
        std::fs::File::create(dev.join(name))?;
        mount_bind(own.join(name), dev.join(name))?;
    }
    std::fs::create_dir(dev.join("pts"))?;
    mount_bind(own.join("pts"), dev.join("pts"))?;
    std::fs::create_dir(dev.join("shm"))?;
    mount("tmpfs", dev.join("shm"), "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=1777"))?;
    LINKS.into_iter().try_for_each(|(name, target)| std::os::unix::fs::symlink(target, dev.join(name)))
}

#[expect(unsafe_code, reason = "unshare is unsafe when it parts descriptor tables between threads")]
fn new_namespaces() -> std::io::Result<()> {
    // SAFETY: only the namespaces of mounts and of the host name are unshared, no descriptor table.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWUTS) }?)
}

/// Leaves the people of the machine out of the accounts. A file that does not exist stays so.
fn hide_people() -> std::io::Result<()> {
    for file in ["/etc/passwd", "/etc/group"] {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        std::fs::write(file, accounts::of_system(&text))?;
    }
    Ok(())
}

/// Gives the container the host name of its pod.
fn give_name(setup: &Setup) -> std::io::Result<()> {
    if !setup.host_name.is_empty() {
        sethostname(setup.host_name.as_bytes())?;
        std::fs::write("/etc/hostname", format!("{}\n", setup.host_name))?;
    }
    if setup.hosts.is_empty() {
        return Ok(());
    }
    let of_machine = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    std::fs::write("/etc/hosts", format!("{of_machine}\n{}\n", setup.hosts.join("\n")))
}

fn open_to_all(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o1777))
}

/// Mounts a volume. `old` is the machine's root.
fn add(old: &Path, one: &Mount) -> std::io::Result<()> {
    let target = Path::new("/").join(inside(&one.at)?);
    let mut source = old.join(one.source.strip_prefix("/").unwrap_or(&one.source));
    if let Some(group) = one.owner {
        give(&source, group)?;
    }
    if let Some(path) = &one.sub_path {
        let below = source.join(inside(path)?);
        if !below.exists() {
            std::fs::create_dir_all(&below)?;
            if let Some(group) = one.owner {
                give(&below, group)?;
            }
        }
        // A link in the volume must not lead out of it.
        let below = std::fs::canonicalize(below)?;
        if !below.starts_with(&source) {
            return Err(std::io::Error::other(format!("subPath {path} leads out of the volume")));
        }
        source = below;
    }
    if one.device {
        make_parent(&target)?;
        return make_node(&source, &target);
    }
    if source.is_dir() {
        std::fs::create_dir_all(&target)?;
    } else if !target.exists() {
        // A file, or the socket or the device of a hostPath.
        make_parent(&target)?;
        std::fs::OpenOptions::new().create(true).append(true).open(&target)?;
    }
    if one.host {
        mount_bind_recursive(&source, &target)?;
    } else {
        mount_bind(&source, &target)?;
    }
    if one.readonly {
        mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, c"")?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Makes a node of the device that is published at `source`. The mode of the device's own node stays.
fn make_node(source: &Path, target: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    let about = std::fs::metadata(source)?;
    if !about.file_type().is_block_device() {
        return Err(std::io::Error::other(format!("{}: no block device", source.display())));
    }
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, target, rustix::fs::FileType::BlockDevice, mode, about.rdev())?;
    std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o666))
}

/// Gives a volume to a group, as kubelet does for fsGroup with the policy OnRootMismatch.
fn give(path: &Path, group: u32) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
    let about = std::fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return lchown(path, None, Some(group));
    }
    let wanted = if about.is_dir() { DIRECTORY } else { FILE };
    if about.gid() == group && about.mode() & wanted == wanted {
        return Ok(());
    }
    if about.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), group)?;
        }
    }
    // The directory comes last, so that an interrupted walk is repeated.
    lchown(path, None, Some(group))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(about.mode() & 0o7777 | wanted))
}

/// Becomes a program. Returns the reason if that is not possible.
pub(super) fn become_program(
    command: &[String],
    env: &std::collections::BTreeMap<String, String>,
    directory: &str,
    identity: &Identity,
) -> std::io::Error {
    if let Err(error) = std::fs::create_dir_all(directory).and_then(|()| become_user(identity)) {
        return error;
    }
    let [program, arguments @ ..] = command else { return std::io::ErrorKind::InvalidInput.into() };
    let error = Command::new(program).args(arguments).env_clear().envs(env).current_dir(directory).exec();
    std::io::Error::new(error.kind(), format!("exec: {program:?}: {error}"))
}

fn become_user(identity: &Identity) -> std::io::Result<()> {
    let groups: Vec<Gid> = identity.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_gid(Gid::from_raw(identity.group))?;
    Ok(set_thread_uid(Uid::from_raw(identity.user))?)
}
