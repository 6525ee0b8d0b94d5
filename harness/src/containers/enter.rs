//! `mooring container-enter`: enters a container and becomes a user's program there. A process with one thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{chdir, ioctl_tiocsctty, setsid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::root::become_program;
use super::setup::{Identity, VARIABLE};

/// The hidden subcommand of `mooring`.
pub(crate) const COMMAND: &str = "container-enter";

/// Number of looks at a container that has just started.
const LOOKS: u32 = 200;
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Entry into a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The container's program.
    pub pid: u32,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub directory: String,
    pub identity: Identity,
    /// True if the standard input is a terminal.
    pub tty: bool,
}

/// Becomes the program.
pub(crate) fn main() -> ExitCode {
    let error = match enter() {
        Ok(entry) => become_program(&entry.command, &entry.env, &entry.directory, &entry.identity),
        Err(error) => error,
    };
    eprintln!("{error}");
    // As a shell reports it.
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

fn enter() -> std::io::Result<Entry> {
    let text = std::env::var(VARIABLE).map_err(std::io::Error::other)?;
    let entry: Entry = serde_json::from_str(&text).map_err(std::io::Error::other)?;
    // A group of its own, so that all its children can be ended.
    setsid()?;
    if entry.tty {
        ioctl_tiocsctty(std::io::stdin().as_fd())?;
    }
    let [mounts, names] = namespaces(entry.pid)?;
    move_into_link_name_space(names.as_fd(), Some(LinkNameSpaceType::HostNameAndNISDomainName))?;
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
    chdir("/")?;
    Ok(entry)
}

/// Opens the namespaces of a container, of mounts and of the host name, once its program runs.
fn namespaces(pid: u32) -> std::io::Result<[File; 2]> {
    let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}"));
    for _ in 0..LOOKS {
        let files = [open("mnt")?, open("uts")?];
        // A process that still makes the root has the variable. Its program, which may be another Mooring, has not.
        let environment = std::fs::read(format!("/proc/{pid}/environ"))?;
        let mut variables = environment.split(|byte| *byte == 0);
        if !variables.any(|one| one.starts_with(VARIABLE.as_bytes())) {
            return Ok(files);
        }
        std::thread::sleep(LOOK);
    }
    Err(std::io::Error::other("the program of the container does not run yet"))
}
