//! Things that a run may leave on the machine: listening sockets, mounts, loop devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::perturb::tools::Folder;

/// Returns the backend of the disks: loop devices if this machine has them.
pub fn backend() -> &'static str {
    let loops = csi_disk::capability().loop_backend;
    let required = std::env::var("MOORING_REQUIRE").unwrap_or_default();
    assert!(loops.is_ok() || !required.split(',').any(|r| r == "root"), "MOORING_REQUIRE names root: {loops:?}");
    if loops.is_ok() { "loop" } else { "directory" }
}

/// Returns the addresses of all listening sockets of this machine, by inode.
pub fn all_listeners() -> BTreeMap<String, String> {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let row = |line: &str, address: usize, state: (usize, &str), inode: usize| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(state.0) == Some(&state.1);
        listens.then(|| Some((fields.get(inode)?.to_string(), fields.get(address)?.to_string()))).flatten()
    };
    let tcp = [table("tcp"), table("tcp6")].concat();
    // The flags of a unix socket have __SO_ACCEPTCON.
    let unix = table("unix");
    let tcp = tcp.lines().filter_map(|line| row(line, 1, (3, "0A"), 9));
    let unix = unix.lines().filter_map(|line| row(line, 7, (3, "00010000"), 6));
    tcp.chain(unix).collect()
}

/// Returns the inodes of the sockets on which the process `pid` listens.
pub fn listeners(pid: u32) -> BTreeSet<String> {
    let all = all_listeners();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode =
        |target: std::path::PathBuf| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(inode).filter(|inode| all.contains_key(inode)).collect()
}

impl Folder {
    /// Returns the loop devices with a file in this folder.
    pub fn loop_devices(&self) -> Vec<String> {
        let path = self.path().display().to_string();
        let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let file = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok();
        devices.filter_map(file).filter(|file| file.contains(&path)).collect()
    }

    /// Returns the mounts in this folder, in the mount namespace of any process.
    pub fn mounts(&self) -> Vec<String> {
        let path = self.path().display().to_string();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let table = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("mountinfo")).ok();
        let lines = processes.filter_map(table).flat_map(|table| table.lines().map(str::to_owned).collect::<Vec<_>>());
        let all: BTreeSet<String> = lines.filter(|line| line.contains(&path)).collect();
        all.into_iter().collect()
    }
}
