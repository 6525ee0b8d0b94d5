//! A cluster in the live world: sockets, and the best disk backend of this machine.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use controllers::node_agent::PLUGINS_REGISTRY;
use csi_disk::Disk;
use fake_apiserver::tls::{Authority, TlsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use substrate::World;

use super::assemble::{ClusterError, Parts};
use super::namespace::{self, NamespaceError, Shared};
pub use super::sockets::{Addresses, SocketError, Sockets};
use super::{Cluster, ClusterSpec, Machine, Metadata, Node, programs};

/// Kind of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendChoice {
    /// Loop devices with real filesystems; needs root on Linux.
    Loop,
    /// Directories; works anywhere.
    Directory,
}

/// Directory and mounts of a live cluster on this machine.
#[derive(Debug)]
pub struct Site {
    /// Unmounted before the directory is removed.
    shared: OnceLock<Shared>,
    directory: RunDirectory,
    /// Held until the run ends. The kernel releases it even after `kill -9`.
    _lock: std::fs::File,
    backend: BackendChoice,
    why_not_loop: Option<String>,
}

/// Directory of a run, removed when dropped.
#[derive(Debug)]
struct RunDirectory(tempfile::TempDir);

impl RunDirectory {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // A thread that still works for a disk may create a file between two steps of the removal.
        for _ in 0..TRIES {
            match std::fs::remove_dir_all(self.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => std::thread::sleep(AGAIN),
                _ => return,
            }
        }
    }
}

/// Why this machine cannot have a live cluster.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum SiteError {
    /// loop devices do not work here: {0}
    NoLoop(String),
    /// {0}
    Namespace(#[from] NamespaceError),
    /// no directory can be made for the run: {0}
    Directory(std::io::Error),
}

impl Site {
    /// Chooses the backend, enters a private mount namespace if the backend mounts, and creates the run's directory (in
    /// `parent` if given). Call it before any thread starts.
    ///
    /// # Errors
    /// If `choice` does not work here.
    pub fn prepare(choice: Option<BackendChoice>, parent: Option<&Path>) -> Result<Self, SiteError> {
        let (backend, why_not_loop) = match (choice, csi_disk::capability().loop_backend.err()) {
            (Some(BackendChoice::Directory), _) => (BackendChoice::Directory, None),
            (_, None) => (BackendChoice::Loop, None),
            (Some(BackendChoice::Loop), Some(why)) => return Err(SiteError::NoLoop(why)),
            (None, Some(why)) => (BackendChoice::Directory, Some(why)),
        };
        allow_many_files();
        if backend == BackendChoice::Loop {
            namespace::enter_private()?;
        }
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        sweep(&parent);
        let (directory, lock) = own_directory(&parent).map_err(SiteError::Directory)?;
        Ok(Self { shared: OnceLock::new(), directory, _lock: lock, backend, why_not_loop })
    }

    /// Returns the place of one more cluster, below this one and with the same backend. Drop it before this one.
    ///
    /// # Errors
    /// If its directory cannot be created.
    pub fn within(&self) -> Result<Self, SiteError> {
        let (directory, lock) = own_directory(self.path()).map_err(SiteError::Directory)?;
        Ok(Self { shared: OnceLock::new(), directory, _lock: lock, backend: self.backend, why_not_loop: None })
    }

    /// Returns one line that describes the disks.
    pub fn describe(&self) -> String {
        match (self.backend, &self.why_not_loop) {
            (BackendChoice::Loop, _) => {
                "disks: loop devices with real filesystems, in a private mount namespace".to_owned()
            }
            (BackendChoice::Directory, None) => "disks: directories (no block devices, no mkfs, no mounts)".to_owned(),
            (BackendChoice::Directory, Some(why)) => {
                format!(
                    "disks: directories (no block devices, no mkfs, no mounts), because loop devices do not work here: {why}"
                )
            }
        }
    }

    /// Directory of the run.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Backend in use.
    pub fn backend(&self) -> BackendChoice {
        self.backend
    }

    /// Name of the run, which tags its loop devices.
    pub fn run_name(&self) -> String {
        self.path().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Directory of the volumes' files.
    pub fn volume_dir(&self) -> PathBuf {
        self.path().join("volumes")
    }

    /// Directory of a user's program: its kubeconfig and the file with all addresses.
    pub(super) fn program_dir(&self, number: usize) -> PathBuf {
        self.path().join("programs").join(number.to_string())
    }

    /// Kubelet root of a node, which also holds its devices.
    pub fn node_root(&self, node: &str) -> PathBuf {
        self.nodes_dir().join(node)
    }

    fn nodes_dir(&self) -> PathBuf {
        self.path().join("nodes")
    }

    /// Shares the mounts of the nodes' directories with other mount namespaces. A driver of the user may then run in a
    /// child namespace in which `/dev` is that of its node, and both sides see each other's mounts there. Call it
    /// before anything opens a directory there: an open directory would stay outside of the share.
    fn share_mounts(&self) -> Result<(), ClusterError> {
        let nodes = self.nodes_dir();
        let failed = |e: String| ClusterError::Wiring(format!("{}: {e}", nodes.display()));
        if self.backend == BackendChoice::Loop && self.shared.get().is_none() {
            std::fs::create_dir_all(&nodes).map_err(|e| failed(e.to_string()))?;
            let shared = Shared::new(&nodes).map_err(|e| failed(e.to_string()))?;
            self.shared.get_or_init(|| shared);
        }
        Ok(())
    }

    /// Directory of the unix sockets.
    pub fn socket_dir(&self) -> PathBuf {
        self.path().join("s")
    }

    /// Creates the disk of a node.
    ///
    /// # Errors
    /// If its directories cannot be created.
    pub fn disk(&self, node: &str) -> Result<Arc<dyn Disk>, ClusterError> {
        let (root, volumes) = (self.node_root(node), self.volume_dir());
        let failed = |e: String| ClusterError::Disk(node.to_owned(), e);
        for dir in [&root, &volumes] {
            std::fs::create_dir_all(dir).map_err(|e| failed(format!("{}: {e}", dir.display())))?;
        }
        let disk: Result<Arc<dyn Disk>, csi_disk::DiskError> = match self.backend {
            BackendChoice::Loop => csi_disk::LoopDisk::new(node, &root, &volumes, &self.run_name())
                .map(|d| -> Arc<dyn Disk> { Arc::new(d) }),
            BackendChoice::Directory => {
                csi_disk::DirectoryDisk::new(node, &root, &volumes).map(|d| -> Arc<dyn Disk> { Arc::new(d) })
            }
        };
        disk.map_err(|e| failed(e.to_string()))
    }
}

/// Raises the soft limit of open files to the hard limit. A node takes about thirty, listeners and both ends of its
/// connections. The usual soft limit of 1,024 exists for programs that call select.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, the open that fails reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Prefix of the directories of runs.
const PREFIX: &str = "mooring-";
/// Lock file in them, which distinguishes a live run from a dead one.
const LOCK: &str = "mooring.lock";

/// Pause between two attempts to remove the directory of a run.
const AGAIN: Duration = Duration::from_millis(20);

/// Maximum number of attempts at the directory of a run. Another run may remove a new one as dead before it is locked.
const TRIES: u32 = 10;

/// Creates the directory of a run below `parent` and locks it.
fn own_directory(parent: &Path) -> std::io::Result<(RunDirectory, std::fs::File)> {
    let mut last = std::io::Error::other("each new directory was removed at once by another run");
    for _ in 0..TRIES {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        match locked(directory.path()) {
            Ok(Some(lock)) => return Ok((RunDirectory(directory), lock)),
            Ok(None) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Locks the directory of a run. None if another run has removed it in between.
fn locked(directory: &Path) -> std::io::Result<Option<std::fs::File>> {
    let path = directory.join(LOCK);
    let lock = std::fs::File::create(&path)?;
    lock.lock()?;
    let own = lock.metadata()?.ino();
    Ok(std::fs::metadata(&path).is_ok_and(|there| there.ino() == own).then_some(lock))
}

/// Minimum age at which an empty directory counts as dead: a new run may not have created its lock file yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Removes the directories of killed runs below `parent`, and returns the removed ones. Such a directory has Mooring's
/// lock file, which no process holds, or is empty. Directories of other users are kept.
pub fn sweep(parent: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let age = || entry.metadata().and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
        // An empty directory is removed without a lock; remove_dir fails on any other.
        let is_empty = || is_run(&path) && age().is_some_and(|age| age > YOUNG) && std::fs::remove_dir(&path).is_ok();
        if remove_run(&path) || is_empty() {
            removed.push(path);
        }
    }
    removed.sort();
    removed
}

/// Returns true if `directory` is named like the directory of a run.
fn is_run(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Removes the directory of a run that is known to be over, and returns whether it did. Any other directory stays.
fn remove_run(directory: &Path) -> bool {
    remove_once(directory, |lock| lock.try_lock().is_ok())
}

/// Removes the directory of a run whose process has ended, and returns whether it did. Waits for another Mooring that
/// removes it at this moment, as each does at its start.
pub fn remove_ended_run(directory: &Path) -> bool {
    remove_once(directory, |lock| lock.lock().is_ok())
}

/// Removes the directory of a run once its lock file is locked, and returns whether it did.
fn remove_once(directory: &Path, locks: impl Fn(&std::fs::File) -> bool) -> bool {
    // The lock is held until the directory is removed, so that a run that starts there notices this.
    let over = || std::fs::File::open(directory.join(LOCK)).ok().filter(locks);
    is_run(directory) && over().is_some_and(|_lock| std::fs::remove_dir_all(directory).is_ok())
}

/// Runtime of the live world.
///
/// # Errors
/// If the system lacks the resources for it.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    runtime_that(|| {})
}

/// Returns a runtime whose threads each first call `begin`.
///
/// # Errors
/// As [`runtime`].
pub(crate) fn runtime_that(begin: impl Fn() + Send + Sync + 'static) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).on_thread_start(begin).enable_all().build()
}

impl Cluster {
    /// Starts a live cluster in this OS process.
    ///
    /// # Errors
    /// If an address is taken (then `world` is as before) or a directory cannot be created.
    pub fn live(world: &World, spec: ClusterSpec, site: &Site, addresses: &Addresses) -> Result<Self, ClusterError> {
        for dir in [site.volume_dir(), site.socket_dir()] {
            std::fs::create_dir_all(&dir).map_err(|e| ClusterError::Wiring(format!("{}: {e}", dir.display())))?;
        }
        let spec = ClusterSpec { metadata: addresses.imds.is_some(), ..spec };
        let mut names = addresses.allowed_hosts.clone();
        names.extend(addresses.kubernetes.map(|a| a.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()));
        let wiring = |error: TlsError| ClusterError::Wiring(error.to_string());
        let authority = Arc::new(Authority::new().map_err(wiring)?);
        let tls = fake_apiserver::tls::serving(&authority, &names, &[]).map_err(wiring)?;
        let nodes: Vec<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
        let sockets = Sockets::open(addresses, (&nodes, &spec.programs), &site.socket_dir(), tls.server)?;
        let sockets = Arc::new(sockets);
        if spec.without.contains("csi-mock") {
            site.share_mounts()?;
        }
        let mut disks = std::collections::BTreeMap::new();
        let mut roots = std::collections::BTreeMap::new();
        for node in &spec.nodes {
            if spec.without.contains("csi-mock") {
                let registry = site.node_root(&node.name).join(PLUGINS_REGISTRY);
                std::fs::create_dir_all(&registry)
                    .map_err(|e| ClusterError::Wiring(format!("{}: {e}", registry.display())))?;
            }
            disks.insert(node.name.clone(), site.disk(&node.name)?);
            roots.insert(node.name.clone(), site.node_root(&node.name));
        }
        let programs = programs::prepare(&spec, site, &sockets, &tls.ca_pem)?;
        let parts = Parts {
            front: addresses.front.clone(),
            wiring: sockets.clone(),
            disks,
            volume_dir: Some(site.volume_dir()),
            bytes: None,
            roots,
            ca_pem: match &addresses.front {
                Some(front) => front.client_ca.clone(),
                None => Some(tls.ca_pem.clone()),
            },
            authority: addresses.front.is_none().then_some(authority),
            // None if users know it by a name.
            advertised: sockets.endpoint("apiserver-tls").strip_prefix("https://").and_then(|host| host.parse().ok()),
        };
        let mut cluster = Self::start_with(world, spec, parts, &programs)?;
        cluster.endpoints = Some(super::Endpoints {
            ec2: sockets.endpoint("ec2").to_owned(),
            kubernetes: sockets.endpoint("apiserver-tls").to_owned(),
            kubernetes_http: sockets.endpoint("apiserver").to_owned(),
            ca_pem: tls.ca_pem,
            csi: sockets.csi_endpoint(),
            volume_dir: site.volume_dir(),
            machines: cluster.machines(site),
            imds: cluster.metadata(&sockets),
            token: addresses.kubernetes_token.clone(),
            admin: sockets.admin().map(str::to_owned),
        });
        cluster.sockets = Some(sockets.clone());
        cluster.equip(&programs, site, &sockets)?;
        Ok(cluster)
    }

    /// Paths of each node that a driver needs to know.
    fn machines(&self, site: &Site) -> Vec<Machine> {
        let place = |(name, node): (&String, &Node)| {
            let root = site.node_root(name);
            let plugins_registry = root.join(PLUGINS_REGISTRY);
            Machine { node: name.clone(), instance: node.instance.clone(), root, plugins_registry }
        };
        self.nodes.iter().map(place).collect()
    }

    /// Metadata services of the instances.
    fn metadata(&self, sockets: &Sockets) -> Vec<Metadata> {
        let place = |(name, node): (&String, &Node)| Metadata {
            node: name.clone(),
            instance: node.instance.clone(),
            endpoint: sockets.endpoint(&format!("imds-{name}")).to_owned(),
        };
        if self.spec.metadata { self.nodes.iter().map(place).collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_killed_run_goes_and_that_of_a_living_one_and_of_others_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (living, _lock) = own_directory(parent.path()).unwrap();
        let (killed, lock) = own_directory(parent.path()).unwrap();
        std::fs::create_dir(killed.path().join("volumes")).unwrap();
        std::fs::write(killed.path().join("volumes/vol-1"), "bytes").unwrap();
        let foreign = parent.path().join("mooring-notes");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("note"), "").unwrap();
        assert_eq!(sweep(parent.path()), Vec::<PathBuf>::new(), "it lives");
        // As after `kill -9`: the lock is released, the files stay.
        drop(lock);
        // A child that a parallel test has forked just now has the lock until it executes its program.
        let mut swept = (0..9_000).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            sweep(parent.path())
        });
        assert_eq!(swept.find(|swept| !swept.is_empty()), Some(vec![killed.path().to_owned()]));
        assert!(living.path().exists() && foreign.exists() && !killed.path().exists());
    }

    #[test]
    fn a_directory_that_was_taken_for_a_dead_one_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent.path()).unwrap();
        let path = directory.path().join(LOCK);
        // Another run holds its lock while it removes the directory.
        let other = std::fs::File::create(&path).unwrap();
        other.lock().unwrap();
        let begins = std::thread::spawn({
            let directory = directory.path().to_owned();
            move || locked(&directory).map(|lock| lock.is_some())
        });
        let file = format!(":{} ", other.metadata().unwrap().ino());
        let waits = |line: &str| line.contains("-> FLOCK") && line.contains(&file);
        while !std::fs::read_to_string("/proc/locks").unwrap().lines().any(waits) {
            std::thread::yield_now();
        }
        std::fs::remove_dir_all(directory.path()).unwrap();
        drop(other);
        assert!(!begins.join().unwrap().unwrap());
    }
}
