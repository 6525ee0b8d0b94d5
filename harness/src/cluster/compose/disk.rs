//! The disk of a machine in a container, read from outside. Only the machine itself changes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_disk::{
    Backend, Device, Disk, DiskError, DiskFuture, GroupChange, Mapping, Mount, MountKind, Plug, Publish, Published,
    RawDevice, Stage, Staged, Usage,
};
use serde_json::Value;

use super::container::docker;

/// Read-only view of the disk of the machine in a container.
#[derive(Debug)]
pub(super) struct ContainerDisk {
    /// The node's name.
    pub node: String,
    /// The container.
    pub container: String,
}

impl ContainerDisk {
    async fn look(&self, at: &[&str]) -> Result<Value, DiskError> {
        let args = [&["exec", &self.container, "mooring", "component", "look"][..], at].concat();
        let message = docker(&args).await.map_err(DiskError::Environment)?;
        serde_json::from_str(&message).map_err(|e| DiskError::Environment(format!("what {} shows: {e}", self.node)))
    }
}

/// Error of every call that would change the disk from outside.
fn untouched<'a, T: Send + 'a>() -> DiskFuture<'a, T> {
    let why = "the disk of a container is only looked at from outside".to_owned();
    Box::pin(std::future::ready(Err(DiskError::Unsupported { backend: Backend::Loop, reason: why })))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn device(seen: &Value) -> Device {
    Device {
        volume: text(&seen["volume"]),
        name: text(&seen["name"]),
        path: PathBuf::from(text(&seen["path"])),
        size_bytes: seen["size_bytes"].as_u64().unwrap_or_default(),
    }
}

fn mount(seen: &Value) -> Mount {
    let kind = match seen["kind"].as_str() {
        Some("staging") => MountKind::Staging,
        Some("block") => MountKind::Block,
        Some("map") => MountKind::Map,
        _ => MountKind::Target,
    };
    let readonly = seen["readonly"] == true;
    Mount { volume: text(&seen["volume"]), path: PathBuf::from(text(&seen["path"])), kind, readonly, group: None }
}

impl Disk for ContainerDisk {
    fn backend(&self) -> Backend {
        Backend::Loop
    }

    fn node(&self) -> &str {
        &self.node
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        Box::pin(async {
            let seen = self.look(&["devices"]).await?;
            Ok(seen.as_array().into_iter().flatten().map(device).collect())
        })
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        Box::pin(async {
            let seen = self.look(&["mounts"]).await?;
            Ok(seen.as_array().into_iter().flatten().map(mount).collect())
        })
    }

    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let seen = self.look(&["directory", &path.display().to_string()]).await?;
            Ok(seen.as_array().map(|names| names.iter().map(text).collect()))
        })
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        Box::pin(async move { Ok(self.devices().await?.into_iter().find(|device| device.volume == volume)) })
    }

    /// The kernel removed all mounts with the last process of the container.
    fn crash(&self) -> DiskFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn plug<'a>(&'a self, _: &'a Plug) -> DiskFuture<'a, Device> {
        untouched()
    }

    fn unplug<'a>(&'a self, _: &'a str, _: bool) -> DiskFuture<'a, bool> {
        untouched()
    }

    fn resize<'a>(&'a self, _: &'a str, _: u64) -> DiskFuture<'a, bool> {
        untouched()
    }

    fn stage<'a>(&'a self, _: &'a Stage) -> DiskFuture<'a, Staged> {
        untouched()
    }

    fn unstage<'a>(&'a self, _: &'a str, _: &'a Path) -> DiskFuture<'a, bool> {
        untouched()
    }

    fn publish<'a>(&'a self, _: &'a Publish) -> DiskFuture<'a, Published> {
        untouched()
    }

    fn unpublish<'a>(&'a self, _: &'a str, _: &'a Path) -> DiskFuture<'a, bool> {
        untouched()
    }

    fn map<'a>(&'a self, _: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        untouched()
    }

    fn unmap<'a>(&'a self, _: &'a Mapping) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn expand<'a>(&'a self, _: &'a str, _: &'a Path) -> DiskFuture<'a, u64> {
        untouched()
    }

    fn give<'a>(&'a self, _: &'a Path, _: GroupChange) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn usage<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, Usage> {
        untouched()
    }

    fn make_dir<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn remove_dir<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn append<'a>(&'a self, _: &'a Path, _: &'a [u8]) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn write<'a>(&'a self, _: &'a Path, _: &'a [u8]) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn sync<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, ()> {
        untouched()
    }

    fn read<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>> {
        untouched()
    }

    fn remove_file<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, ()> {
        untouched()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_and_mounts_are_read_back() {
        let shown =
            Device { volume: "vol-1".into(), name: "/dev/xvdaa".into(), path: "/dev/loop3".into(), size_bytes: 7 };
        assert_eq!(device(&json!(shown)), shown);
        for kind in [MountKind::Staging, MountKind::Target, MountKind::Block, MountKind::Map] {
            let shown =
                Mount { volume: "vol-1".into(), path: "/var/lib/kubelet/x".into(), kind, readonly: true, group: None };
            assert_eq!(mount(&json!(shown)), shown);
        }
    }
}
