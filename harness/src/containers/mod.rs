//! Programs of containers (`mooring up --containers process`): each container's command is a process of this machine
//! in a mount namespace of its own, with the host name of its pod and the volumes at their paths. Its root is an overlay
//! of the machine's root: the programs of the machine are there, and what it writes outside its volumes is gone when it
//! ends. Images are not used, and the network is that of the machine.
//!
//! | file | concept |
//! |---|---|
//! | `setup` | input of the first process of a container, in its environment |
//! | `root` | the hidden command that makes the root of a container and becomes its program |
//! | `life` | one program, from its start to its exit, behind the guard of user programs |
//! | `message` | the file to which such a program can write its termination message |
//! | `signal` | the signal that asks such a program to stop |
//! | `stdin` | the standard input of such a program |
//! | `attach` | clients that are attached to such a program (`kubectl attach`) |
//! | `session` | a user's program in a container (`kubectl exec`) |
//! | `enter` | the hidden command that enters a container and becomes such a program |
//! | `terminal` | the terminal of a program |
//! | `accounts` | accounts that a container knows |

mod accounts;
mod attach;
pub(crate) mod enter;
mod life;
mod message;
pub(crate) mod root;
mod session;
mod setup;
mod signal;
mod stdin;
mod terminal;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use controllers::machine::api::{MountSource, ProgramSpec};
use controllers::machine::programs::{Print, Programs, Started};

use self::setup::{Identity, Mount, Setup};
pub use crate::spec::Containers;

/// User and group of programs that must not be root (`nobody`).
const NOBODY: u32 = 65_534;

/// Returns the reason why commands of containers cannot run on this machine, if there is one.
pub(crate) fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("containers have mounts of their own; run as root");
    }
    // A file that cannot be read means a system other than Linux.
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_overlay = kinds.lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay");
    (!has_overlay).then_some("the kernel has no overlay filesystem; load its module with `modprobe overlay`")
}

impl Containers {
    /// Returns the programs of the containers of a machine whose root directory is `machine`, if there are any.
    pub(crate) fn programs(self, machine: &Path) -> Option<Arc<dyn Programs>> {
        match self {
            Self::Modelled => None,
            Self::Process { as_root } => {
                Some(Arc::new(HostPrograms { directory: machine.join("containers"), as_root }))
            }
        }
    }
}

/// Programs of the containers of one machine.
#[derive(Debug)]
struct HostPrograms {
    /// Directory of the containers.
    directory: PathBuf,
    /// True if programs may be root.
    as_root: bool,
}

impl HostPrograms {
    /// Returns who the program is.
    fn identity(&self, program: &ProgramSpec) -> Identity {
        let may = |id: Option<u32>| id.filter(|id| self.as_root || *id != 0);
        let other = if self.as_root { 0 } else { NOBODY };
        let others = program.groups.iter().copied().filter(|group| self.as_root || *group != 0);
        Identity {
            user: may(program.user).unwrap_or(other),
            group: may(program.group).unwrap_or(other),
            groups: self.owner(program).into_iter().chain(others).collect(),
        }
    }

    /// Returns the path of the file to which a program can write its termination message.
    fn message_file(&self, uid: &str, container: &str) -> PathBuf {
        self.directory.join(uid).join("messages").join(container)
    }

    /// Returns the group that gets the volumes.
    fn owner(&self, program: &ProgramSpec) -> Option<u32> {
        program.fs_group.or((!self.as_root).then_some(NOBODY))
    }

    /// Makes the directories of a container and returns what its first process needs.
    fn prepare(&self, uid: &str, container: &str, program: &ProgramSpec) -> std::io::Result<Setup> {
        let pod = self.directory.join(uid);
        let scratch = pod.join("roots").join(container);
        std::fs::create_dir_all(&scratch)?;
        let scratch = std::fs::canonicalize(scratch)?;
        let (identity, owner) = (self.identity(program), self.owner(program));
        let mut mounts = Vec::new();
        for mount in &program.mounts {
            let (source, volume) = match &mount.source {
                MountSource::Published(path) => (path.clone(), !mount.readonly),
                MountSource::Device(path) | MountSource::HostPath(path) => (path.clone(), false),
                MountSource::EmptyDir(name) => {
                    let directory = pod.join("empty-dir").join(name);
                    setup::make_empty(&directory)?;
                    (directory, true)
                }
                MountSource::Files { name, files } => {
                    let directory = pod.join("files").join(name);
                    setup::write_files(&directory, files)?;
                    (directory, false)
                }
            };
            mounts.push(Mount {
                source: std::fs::canonicalize(source)?,
                at: mount.at.clone(),
                sub_path: mount.sub_path.clone(),
                readonly: mount.readonly,
                device: matches!(mount.source, MountSource::Device(_)),
                host: matches!(mount.source, MountSource::HostPath(_)),
                owner: owner.filter(|_| volume),
            });
        }
        if !program.message_path.is_empty() {
            let source = message::create(&self.message_file(uid, container))?;
            let at = program.message_path.clone();
            mounts.push(Mount { source, at, sub_path: None, readonly: false, device: false, host: false, owner: None });
        }
        Ok(Setup {
            scratch,
            mounts,
            command: program.command.clone(),
            env: program.env.clone(),
            host_name: program.host_name.clone(),
            hosts: program.hosts.clone(),
            directory: program.directory.clone(),
            identity,
            tty: program.tty,
            readonly_root: program.readonly_root,
        })
    }
}

impl Programs for HostPrograms {
    fn start(&self, uid: &str, container: &str, program: &ProgramSpec, print: Print) -> Result<Started, String> {
        let setup = self.prepare(uid, container, program).map_err(|error| error.to_string())?;
        let (running, exit) = life::start(setup, program, print).map_err(|error| error.to_string())?;
        Ok(Started { program: Arc::new(running), exit })
    }

    fn message(&self, uid: &str, container: &str) -> String {
        message::read(&self.message_file(uid, container))
    }

    fn forget(&self, uid: &str) {
        // The directory of a pod without programs does not exist. What is left of another one goes with the cluster.
        let _ = std::fs::remove_dir_all(self.directory.join(uid));
    }
}
