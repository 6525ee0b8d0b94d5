//! A cluster in the live world: sockets, and the best disks that this machine has.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use controllers::node_agent::PLUGINS_REGISTRY;
use csi_mock::disk::{self, Disk};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use substrate::World;

use super::assemble::{ClusterError, Parts};
use super::namespace::{self, NamespaceError, Shared};
pub use super::sockets::{Addresses, SocketError, Sockets};
use super::{Cluster, ClusterSpec, Machine, Metadata, Node};

/// Which disks to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendChoice {
    /// Loop devices with real filesystems; needs root on Linux.
    Loop,
    /// Directories; works anywhere.
    Directory,
}

/// Where a live cluster lives on this machine.
#[derive(Debug)]
pub struct Site {
    /// Undone before the directory goes.
    shared: OnceLock<Shared>,
    directory: tempfile::TempDir,
    /// Held for as long as the run lives; the kernel lets go of it even after `kill -9`.
    _lock: std::fs::File,
    backend: BackendChoice,
    why_not_loop: Option<String>,
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
    /// Chooses the backend, enters a private mount namespace when it mounts, and makes the run's directory (in
    /// `parent` when given). Call it before any thread starts.
    ///
    /// # Errors
    /// When `choice` does not work here.
    pub fn prepare(choice: Option<BackendChoice>, parent: Option<&Path>) -> Result<Self, SiteError> {
        let (backend, why_not_loop) = match (choice, disk::capability().loop_backend.err()) {
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
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent).map_err(SiteError::Directory)?;
        let lock = std::fs::File::create(directory.path().join(LOCK)).map_err(SiteError::Directory)?;
        lock.lock().map_err(SiteError::Directory)?;
        Ok(Self { shared: OnceLock::new(), directory, _lock: lock, backend, why_not_loop })
    }

    /// One line that says what the disks are.
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

    /// The run's directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The backend in use.
    pub fn backend(&self) -> BackendChoice {
        self.backend
    }

    /// The name of the run: what tags its loop devices.
    pub fn run_name(&self) -> String {
        self.path().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Where the cloud keeps the volumes' bytes.
    pub fn volume_dir(&self) -> PathBuf {
        self.path().join("volumes")
    }

    /// Where the kubelet root and the devices of a node are.
    pub fn node_root(&self, node: &str) -> PathBuf {
        self.nodes_dir().join(node)
    }

    fn nodes_dir(&self) -> PathBuf {
        self.path().join("nodes")
    }

    /// Makes the nodes' places such that a driver which is somebody else's may have a mount namespace below ours, in
    /// which `/dev` is its node's: what either mounts there, both see. Call it before anything opens a directory there,
    /// which would stay outside.
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

    /// Where unix sockets are.
    pub fn socket_dir(&self) -> PathBuf {
        self.path().join("s")
    }

    /// The disk of a node.
    ///
    /// # Errors
    /// When its directories cannot be made.
    pub fn disk(&self, node: &str) -> Result<Arc<dyn Disk>, ClusterError> {
        let (root, volumes) = (self.node_root(node), self.volume_dir());
        let failed = |e: String| ClusterError::Disk(node.to_owned(), e);
        for dir in [&root, &volumes] {
            std::fs::create_dir_all(dir).map_err(|e| failed(format!("{}: {e}", dir.display())))?;
        }
        let disk: Result<Arc<dyn Disk>, disk::DiskError> = match self.backend {
            BackendChoice::Loop => {
                disk::LoopDisk::new(node, &root, &volumes, &self.run_name()).map(|d| -> Arc<dyn Disk> { Arc::new(d) })
            }
            BackendChoice::Directory => {
                disk::DirectoryDisk::new(node, &root, &volumes).map(|d| -> Arc<dyn Disk> { Arc::new(d) })
            }
        };
        disk.map_err(|e| failed(e.to_string()))
    }
}

/// Lets this process open as many files as the system allows it: a node takes some thirty, listeners and both ends of
/// its connections, and the usual soft limit of 1,024 is that of programs that call select.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, what does not open says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// What the directories of runs begin with.
const PREFIX: &str = "mooring-";
/// The file in them that tells a living run from a dead one.
const LOCK: &str = "mooring.lock";

/// Removes the directories of runs that were killed: those with our lock file that nobody holds.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A run that has just begun may have made the file and not locked it yet.
        let settled = |lock: &std::fs::File| {
            lock.metadata().and_then(|m| m.modified()).is_ok_and(|t| t.elapsed().is_ok_and(|age| age.as_secs() > 60))
        };
        let dead =
            std::fs::File::open(entry.path().join(LOCK)).is_ok_and(|lock| settled(&lock) && lock.try_lock().is_ok());
        if dead {
            // Somebody else's directory stays; it is theirs to remove.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the directory of a run that is known to be over, and says whether it did. What is no such directory stays.
pub fn remove_run(directory: &Path) -> bool {
    let named = directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let over = || std::fs::File::open(directory.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
    named && over() && std::fs::remove_dir_all(directory).is_ok()
}

/// The runtime of the live world.
///
/// # Errors
/// When the system has no resources for it.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

impl Cluster {
    /// Starts a cluster of one OS process in the live world.
    ///
    /// # Errors
    /// When an address is taken or a directory cannot be made.
    pub fn live(world: &World, spec: ClusterSpec, site: &Site, addresses: &Addresses) -> Result<Self, ClusterError> {
        for dir in [site.volume_dir(), site.socket_dir()] {
            std::fs::create_dir_all(&dir).map_err(|e| ClusterError::Wiring(format!("{}: {e}", dir.display())))?;
        }
        let spec = ClusterSpec { metadata: addresses.imds.is_some(), ..spec };
        let mut names = addresses.allowed_hosts.clone();
        names.extend(addresses.kubernetes.map(|a| a.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()));
        let tls = fake_apiserver::tls::generate(&names).map_err(|e| ClusterError::Wiring(e.to_string()))?;
        let nodes: Vec<&str> = spec.nodes.iter().map(|node| node.name.as_str()).collect();
        let sockets = Sockets::open(addresses, &nodes, &site.socket_dir(), tls.server)
            .map_err(|e| ClusterError::Wiring(e.to_string()))?;
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
        let parts = Parts {
            wiring: sockets.clone(),
            disks,
            volume_dir: Some(site.volume_dir()),
            bytes: None,
            roots,
            ca_pem: Some(tls.ca_pem.clone()),
        };
        let mut cluster = Self::start(world, spec, parts)?;
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
        cluster.sockets = Some(sockets);
        Ok(cluster)
    }

    /// Where the parts of each node are that a driver has to know.
    fn machines(&self, site: &Site) -> Vec<Machine> {
        let place = |(name, node): (&String, &Node)| {
            let root = site.node_root(name);
            let plugins_registry = root.join(PLUGINS_REGISTRY);
            Machine { node: name.clone(), instance: node.instance.clone(), root, plugins_registry }
        };
        self.nodes.iter().map(place).collect()
    }

    /// Where the metadata services of the instances are.
    fn metadata(&self, sockets: &Sockets) -> Vec<Metadata> {
        let place = |(name, node): (&String, &Node)| Metadata {
            node: name.clone(),
            instance: node.instance.clone(),
            endpoint: sockets.endpoint(&format!("imds-{name}")).to_owned(),
        };
        if self.spec.metadata { self.nodes.iter().map(place).collect() } else { Vec::new() }
    }
}
