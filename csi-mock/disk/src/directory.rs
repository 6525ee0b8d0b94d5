//! The disk for machines without root: a volume is a directory, a mount is a symlink to it.
//!
//! Limits: no block device, no own filesystem, no size limit, no read-only mount, and power loss loses no data. A stage
//! or publish creates a symlink as the last component of the path; every parent is resolved without symlinks. Mounts
//! are read back from the links, so a restarted driver needs no memory.

mod share;

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::ready;
use serde::{Deserialize, Serialize};

use super::blocking::Gate;
use super::files::file_operations;
use super::plain_name::plain_name;
use super::root::Root;
use super::{
    Backend, Device, Disk, DiskError, DiskFuture, FileLock, GroupChange, Mapping, Mount, MountKind, Plug, Publish,
    Published, RawDevice, Share, Stage, Staged, Usage,
};

/// Node's own directory below its root: one record per device and per mount.
const RECORDS: &str = ".mooring";

/// Disk of one node whose volumes are directories.
#[derive(Clone, Debug)]
pub struct DirectoryDisk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: String,
    root: Root,
    volumes: Root,
    gate: Gate,
    /// Serializes the operations of one node: each takes microseconds.
    serial: Mutex<()>,
}

/// Record of a plugged volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DeviceRecord {
    volume: String,
    name: String,
    file: String,
    size_bytes: u64,
}

/// Record of a mount; valid only while its link exists.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MountRecord {
    volume: String,
    path: PathBuf,
    staging: bool,
    /// True for a directory of a shared file system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    share: bool,
}

impl DirectoryDisk {
    /// Opens the disk of `node` with the node's root directory and the directory of all volumes. Creates both.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(node: &str, root: &Path, volumes: &Path) -> Result<Self, DiskError> {
        let (root, volumes) = (Root::open(root)?, Root::open(volumes)?);
        for kind in ["devices", "mounts"] {
            root.make_dirs(&root.path().join(RECORDS).join(kind))?;
        }
        Ok(Self(Arc::new(Inner {
            node: node.to_owned(),
            root,
            volumes,
            gate: Gate::default(),
            serial: Mutex::default(),
        })))
    }

    /// Runs `act` on a blocking thread, exclusively on this node.
    fn run<'a, T: Send + 'static>(
        &'a self,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        Gate::run(
            &self.0,
            |disk| &disk.gate,
            move |disk| {
                let _alone = disk.serial.lock();
                act(disk)
            },
        )
    }
}

fn occupied(path: &Path, by: impl Into<String>) -> DiskError {
    DiskError::Occupied { path: path.display().to_string(), by: by.into() }
}

impl Inner {
    fn record_path(&self, kind: &str, key: &str) -> PathBuf {
        self.root.path().join(RECORDS).join(kind).join(key)
    }

    fn mount_key(path: &Path) -> String {
        use sha2::{Digest, Sha256};
        hex::encode(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..16])
    }

    fn records<T: for<'de> Deserialize<'de>>(&self, kind: &str) -> Result<Vec<T>, DiskError> {
        let dir = self.root.path().join(RECORDS).join(kind);
        let mut records = Vec::new();
        for name in self.root.list(&dir)?.unwrap_or_default() {
            // An unreadable record was cut off during its write, so its operation never completed.
            if let Some(record) = self.root.read(&dir.join(name))?.and_then(|d| serde_json::from_slice(&d).ok()) {
                records.push(record);
            }
        }
        Ok(records)
    }

    fn write<T: Serialize>(&self, path: &Path, record: &T) -> Result<(), DiskError> {
        let data = serde_json::to_vec(record)
            .map_err(|e| DiskError::io("write", path.display().to_string(), std::io::Error::other(e)))?;
        self.root.write(path, &data)
    }

    fn bytes(&self, file: &str) -> PathBuf {
        self.volumes.path().join(format!("{file}.dir"))
    }

    fn device_record(&self, volume: &str) -> Result<Option<DeviceRecord>, DiskError> {
        plain_name("a volume id", volume)?;
        let data = self.root.read(&self.record_path("devices", volume))?;
        Ok(data.and_then(|d| serde_json::from_slice(&d).ok()))
    }

    fn device(&self, record: DeviceRecord) -> Device {
        let path = self.bytes(&record.file);
        Device { volume: record.volume, name: record.name, path, size_bytes: record.size_bytes }
    }

    /// Returns the mounts whose link still exists, ordered by path.
    fn mounts(&self) -> Result<Vec<Mount>, DiskError> {
        let mut mounts = Vec::new();
        for record in self.records::<MountRecord>("mounts")? {
            if self.root.read_link(&record.path)?.is_some_and(|to| to.starts_with(self.volumes.path())) {
                let kind = match (record.staging, record.share) {
                    (true, _) => MountKind::Staging,
                    (false, true) => MountKind::Share,
                    (false, false) => MountKind::Target,
                };
                mounts.push(Mount { volume: record.volume, path: record.path, kind, readonly: false, group: None });
            }
        }
        mounts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(mounts)
    }

    fn mount(&self, volume: &str, path: &Path, staging: bool) -> Result<(), DiskError> {
        let record = self.device_record(volume)?.ok_or_else(|| DiskError::NotPlugged(volume.to_owned()))?;
        let mount = MountRecord { volume: volume.to_owned(), path: path.to_owned(), staging, share: false };
        self.link(&mount, &self.bytes(&record.file))
    }

    /// Links the path of a mount to a directory of bytes.
    fn link(&self, mount: &MountRecord, bytes: &Path) -> Result<(), DiskError> {
        // The record is written first: a record without a link is ignored, a link without a record could not be found.
        self.write(&self.record_path("mounts", &Self::mount_key(&mount.path)), mount)?;
        self.root.link(bytes, &mount.path)
    }

    fn unmount(&self, path: &Path) -> Result<(), DiskError> {
        self.root.remove_file(path)?;
        self.root.remove_file(&self.record_path("mounts", &Self::mount_key(path)))?;
        Ok(())
    }

    /// Returns the target of file operations on `path`: the volume if it lies in a mount, else the node's root.
    fn place(&self, path: &Path) -> Result<(&Root, PathBuf), DiskError> {
        let path = self.root.absolute(path)?;
        for mount in self.mounts()? {
            if let Ok(rest) = path.strip_prefix(&mount.path) {
                let target = self.root.read_link(&mount.path)?.unwrap_or_default();
                return Ok((&self.volumes, target.join(rest)));
            }
        }
        Ok((&self.root, path))
    }

    fn stage(&self, stage: &Stage) -> Result<Staged, DiskError> {
        if stage.readonly {
            return Err(cannot("stage read-only", "a symlink cannot refuse writes"));
        }
        if stage.group.is_some() {
            return Err(cannot("volume_mount_group", "giving files to a group needs root"));
        }
        let path = self.root.absolute(&stage.path)?;
        let mounts = self.mounts()?;
        if let Some(there) = mounts.iter().find(|m| m.path == path) {
            if there.volume != stage.volume {
                return Err(occupied(&path, format!("volume {} is mounted", there.volume)));
            }
            return Ok(Staged { already: true, ..Staged::default() });
        }
        if let Some(m) = mounts.iter().find(|m| m.volume == stage.volume && m.kind == MountKind::Staging) {
            return Err(occupied(&path, format!("volume {} is staged at {}", stage.volume, m.path.display())));
        }
        let record = self.device_record(&stage.volume)?.ok_or_else(|| DiskError::NotPlugged(stage.volume.clone()))?;
        let bytes = self.bytes(&record.file);
        let formatted = self.volumes.list(&bytes)?.is_none();
        self.volumes.make_dirs(&bytes)?;
        if let Some(parent) = path.parent() {
            self.root.make_dirs(parent)?;
        }
        self.mount(&stage.volume, &path, true)?;
        Ok(Staged { formatted, ..Staged::default() })
    }

    fn unstage(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        let mounts = self.mounts()?;
        match mounts.iter().find(|m| m.path == path) {
            None => return Ok(false),
            Some(m) if m.volume != volume => {
                return Err(occupied(&path, format!("volume {} is mounted", m.volume)));
            }
            Some(_) => {}
        }
        let others: Vec<_> = mounts
            .iter()
            .filter(|m| m.volume == volume && m.path != path)
            .map(|m| m.path.display().to_string())
            .collect();
        if !others.is_empty() {
            let by = format!("also mounted at {}", others.join(", "));
            return Err(DiskError::Busy { volume: volume.to_owned(), by });
        }
        self.unmount(&path)?;
        self.root.make_dirs(&path)?;
        Ok(true)
    }

    fn usage(&self, path: &Path) -> Result<Usage, DiskError> {
        let (root, place) = self.place(path)?;
        let dir = root.dir(&place)?;
        super::stat::usage(&dir).map_err(|e| DiskError::errno("statfs", path.display().to_string(), e))
    }

    fn publish(&self, publish: &Publish) -> Result<Published, DiskError> {
        if publish.block {
            return Err(cannot("publish a raw device", "there is none"));
        }
        if publish.readonly {
            return Err(cannot("publish read-only", "a symlink cannot refuse writes"));
        }
        if publish.group.is_some() {
            return Err(cannot("volume_mount_group", "giving files to a group needs root"));
        }
        let (staging, path) = (self.root.absolute(&publish.staging_path)?, self.root.absolute(&publish.path)?);
        let mounts = self.mounts()?;
        if !mounts.iter().any(|m| m.path == staging && m.volume == publish.volume) {
            let path = staging.display().to_string();
            return Err(DiskError::NotStaged { volume: publish.volume.clone(), path });
        }
        match mounts.iter().find(|m| m.path == path) {
            Some(m) if m.volume == publish.volume => {
                return Ok(Published { readonly: false, already: true, options: None });
            }
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        self.mount(&publish.volume, &path, false)?;
        Ok(Published { readonly: false, already: false, options: None })
    }

    fn unpublish(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        match self.mounts()?.into_iter().find(|m| m.path == path) {
            Some(m) if m.volume != volume => Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            Some(m) if m.kind == MountKind::Staging => Err(occupied(&path, "the volume is staged here")),
            Some(_) => self.unmount(&path).map(|()| true),
            // Not mounted; the directory may remain.
            None => self.root.remove_dir(&path).map(|_| false),
        }
    }

    fn unplug(&self, volume: &str, force: bool) -> Result<bool, DiskError> {
        if self.device_record(volume)?.is_none() {
            return Ok(false);
        }
        let mounts: Vec<_> = self.mounts()?.into_iter().filter(|m| m.volume == volume).collect();
        if !force && !mounts.is_empty() {
            let at = mounts.iter().map(|m| m.path.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(DiskError::Busy { volume: volume.to_owned(), by: format!("mounted at {at}") });
        }
        // A pulled directory stays reachable through its links: no device can be removed.
        self.root.remove_file(&self.record_path("devices", volume))
    }

    fn crash(&self) -> Result<(), DiskError> {
        for mount in self.mounts()? {
            self.unmount(&mount.path)?;
            self.root.make_dirs(&mount.path)?;
        }
        for device in self.records::<DeviceRecord>("devices")? {
            self.root.remove_file(&self.record_path("devices", &device.volume))?;
        }
        Ok(())
    }
}

fn cannot(what: &str, why: &str) -> DiskError {
    DiskError::Unsupported {
        backend: Backend::Directory,
        reason: format!("{what}: {why}; run as root on Linux to get the loop backend"),
    }
}

impl Disk for DirectoryDisk {
    fn backend(&self) -> Backend {
        Backend::Directory
    }

    fn node(&self) -> &str {
        &self.0.node
    }

    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device> {
        let plug = plug.clone();
        self.run(move |disk| {
            plain_name("a volume's file", &plug.file)?;
            if let Some(record) = disk.device_record(&plug.volume)? {
                return Ok(disk.device(record));
            }
            let Plug { volume, device, file, size_bytes } = plug;
            let record = DeviceRecord { volume, name: device, file, size_bytes };
            disk.write(&disk.record_path("devices", &record.volume), &record)?;
            Ok(disk.device(record))
        })
    }

    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool> {
        let volume = volume.to_owned();
        self.run(move |disk| disk.unplug(&volume, force))
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        let volume = volume.to_owned();
        self.run(move |disk| Ok(disk.device_record(&volume)?.map(|r| disk.device(r))))
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.run(|disk| {
            let mut devices: Vec<_> = disk.records("devices")?.into_iter().map(|r| disk.device(r)).collect();
            devices.sort_by(|a, b| a.volume.cmp(&b.volume));
            Ok(devices)
        })
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        self.run(Inner::mounts)
    }

    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        let stage = stage.clone();
        self.run(move |disk| disk.stage(&stage))
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (volume, path) = (volume.to_owned(), path.to_owned());
        self.run(move |disk| disk.unstage(&volume, &path))
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        let publish = publish.clone();
        self.run(move |disk| disk.publish(&publish))
    }

    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        let share = share.clone();
        self.run(move |disk| disk.mount_share(&share))
    }

    fn lock<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<FileLock>> {
        let path = path.to_owned();
        let directory = self.run(move |disk| disk.shared_dir(&path));
        Box::pin(async move { FileLock::of_directory(directory.await?).await })
    }

    fn give<'a>(&'a self, _: &'a Path, _: GroupChange) -> DiskFuture<'a, ()> {
        Box::pin(ready(Err(cannot("give a volume to a group", "giving files to a group needs root"))))
    }

    fn map<'a>(&'a self, _: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        Box::pin(ready(Err(cannot("open a raw device", "there is none"))))
    }

    /// Does nothing: no device was ever published.
    fn unmap<'a>(&'a self, _: &'a Mapping) -> DiskFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (volume, path) = (volume.to_owned(), path.to_owned());
        self.run(move |disk| disk.unpublish(&volume, &path))
    }

    fn resize<'a>(&'a self, volume: &'a str, size_bytes: u64) -> DiskFuture<'a, bool> {
        let volume = volume.to_owned();
        self.run(move |disk| {
            let Some(mut record) = disk.device_record(&volume)? else { return Ok(false) };
            let grown = size_bytes > record.size_bytes;
            record.size_bytes = record.size_bytes.max(size_bytes);
            disk.write(&disk.record_path("devices", &record.volume), &record)?;
            Ok(grown)
        })
    }

    fn expand<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, u64> {
        let (volume, path) = (volume.to_owned(), path.to_owned());
        // A directory has no size of its own: the cloud's size applies.
        self.run(move |disk| {
            let absolute = disk.root.absolute(&path)?;
            if !disk.mounts()?.iter().any(|m| m.path == absolute && m.volume == volume) {
                return Err(DiskError::NotStaged { volume, path: path.display().to_string() });
            }
            Ok(disk.device_record(&volume)?.map_or(0, |r| r.size_bytes))
        })
    }

    file_operations!();

    fn crash(&self) -> DiskFuture<'_, ()> {
        Gate::shut(&self.0, |disk| &disk.gate, Inner::crash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        dir: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap() }
        }

        fn node(&self, name: &str) -> DirectoryDisk {
            DirectoryDisk::new(name, &self.dir.path().join(name), &self.dir.path().join("volumes")).unwrap()
        }
    }

    fn at(disk: &DirectoryDisk, path: &str) -> PathBuf {
        disk.0.root.path().join(path)
    }

    async fn staged(disk: &DirectoryDisk) -> Staged {
        let plug =
            Plug { volume: "vol-1".into(), device: "/dev/xvdaa".into(), file: "vol-1.img".into(), size_bytes: 1 };
        disk.plug(&plug).await.unwrap();
        let (path, fs_type) = (at(disk, "stage/globalmount"), "ext4".to_owned());
        disk.make_dir(&path).await.unwrap();
        let stage = Stage { volume: "vol-1".into(), path, fs_type, ..Stage::default() };
        disk.stage(&stage).await.unwrap()
    }

    async fn published(disk: &DirectoryDisk) -> Published {
        disk.make_dir(&at(disk, "pods/p")).await.unwrap();
        let publish = Publish {
            volume: "vol-1".into(),
            staging_path: at(disk, "stage/globalmount"),
            path: at(disk, "pods/p/mount"),
            ..Publish::default()
        };
        disk.publish(&publish).await.unwrap()
    }

    #[tokio::test]
    async fn bytes_written_on_one_node_are_there_on_the_next() {
        let world = World::new();
        let a = world.node("a");
        assert!(staged(&a).await.formatted);
        published(&a).await;
        let file = at(&a, "pods/p/mount/records");
        a.append(&file, b"hello").await.unwrap();
        a.sync(&file).await.unwrap();
        assert!(matches!(a.unstage("vol-1", &at(&a, "stage/globalmount")).await, Err(DiskError::Busy { .. })));
        assert!(matches!(a.unplug("vol-1", false).await, Err(DiskError::Busy { .. })));
        assert!(a.unpublish("vol-1", &at(&a, "pods/p/mount")).await.unwrap());
        assert!(a.unstage("vol-1", &at(&a, "stage/globalmount")).await.unwrap());
        assert!(a.unplug("vol-1", false).await.unwrap());
        assert!(a.mounts().await.unwrap().is_empty() && a.devices().await.unwrap().is_empty());
        assert_eq!(a.list_dir(&at(&a, "pods/p")).await.unwrap(), Some(vec![]));
        let b = world.node("b");
        assert!(!staged(&b).await.formatted);
        published(&b).await;
        assert_eq!(b.read(&at(&b, "pods/p/mount/records")).await.unwrap(), Some(b"hello".to_vec()));
    }

    #[tokio::test]
    async fn a_restarted_driver_reads_its_mounts_back_from_the_links() {
        let world = World::new();
        staged(&world.node("a")).await;
        let again = world.node("a");
        let mounts = again.mounts().await.unwrap();
        assert_eq!((mounts.len(), mounts[0].kind), (1, MountKind::Staging));
        assert!(staged(&again).await.already);
        std::fs::remove_file(at(&again, "stage/globalmount")).unwrap();
        assert!(again.mounts().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn read_only_is_refused_because_a_symlink_cannot_keep_it() {
        let world = World::new();
        let disk = world.node("a");
        staged(&disk).await;
        let publish = Publish {
            volume: "vol-1".into(),
            staging_path: at(&disk, "stage/globalmount"),
            path: at(&disk, "t"),
            readonly: true,
            ..Publish::default()
        };
        assert!(matches!(disk.publish(&publish).await, Err(DiskError::Unsupported { .. })));
    }

    #[tokio::test]
    async fn a_link_out_of_the_root_is_not_a_way_out() {
        let world = World::new();
        let disk = world.node("a");
        staged(&disk).await;
        std::os::unix::fs::symlink(world.dir.path(), at(&disk, "out")).unwrap();
        let publish = Publish {
            volume: "vol-1".into(),
            staging_path: at(&disk, "stage/globalmount"),
            path: at(&disk, "out/t"),
            ..Publish::default()
        };
        assert!(matches!(disk.publish(&publish).await, Err(DiskError::BadPath { .. })));
        assert!(!world.dir.path().join("t").exists());
        for file in ["../x", "a/b", ".x", "", ".."] {
            let plug = Plug { volume: "vol-2".into(), device: "d".into(), file: file.into(), size_bytes: 1 };
            assert!(disk.plug(&plug).await.is_err(), "{file}");
        }
    }

    #[tokio::test]
    async fn a_crash_takes_every_mount_and_device() {
        let world = World::new();
        let disk = world.node("a");
        staged(&disk).await;
        published(&disk).await;
        disk.crash().await.unwrap();
        assert!(disk.mounts().await.unwrap().is_empty() && disk.devices().await.unwrap().is_empty());
    }
}
