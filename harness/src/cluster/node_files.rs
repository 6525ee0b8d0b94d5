//! Registration sockets of drivers. In some worlds they are not on the node's disk.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use controllers::node_agent::RegistrationSocket;

use super::Cluster;

/// Place in which a node's kubelet looks for registration sockets.
#[derive(Clone, Debug)]
pub(super) enum Registry {
    /// The sockets of the drivers in this process.
    Known(Vec<RegistrationSocket>),
    /// A directory on this machine.
    Directory(PathBuf),
}

impl Cluster {
    /// Id of a node's instance.
    pub fn instance(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(|node| node.instance.as_str())
    }

    /// Removes the registration sockets of drivers on a node. Kubelet then unregisters the drivers.
    ///
    /// # Errors
    /// If there is none, or it cannot be removed.
    pub fn remove_registration_socket(&self, node: &str) -> Result<(), String> {
        match self.nodes.get(node).map(|node| &node.registry) {
            None => Err(format!("there is no node {node}")),
            Some(Registry::Known(sockets)) => match sockets.iter().filter(|socket| socket.remove()).count() {
                0 => Err("there is no registration socket".to_owned()),
                _ => Ok(()),
            },
            Some(Registry::Directory(directory)) => {
                let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
                let mut found = false;
                for entry in std::fs::read_dir(directory).map_err(|e| failed(directory, e))?.flatten() {
                    if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                        std::fs::remove_file(entry.path()).map_err(|e| failed(&entry.path(), e))?;
                        found = true;
                    }
                }
                if found { Ok(()) } else { Err(format!("there is no socket in {}", directory.display())) }
            }
        }
    }
}
