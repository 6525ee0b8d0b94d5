//! The disk of a real node: loop devices, filesystems and bind mounts of the Linux kernel. Needs root.
//!
//! A plugged volume is a loop device with autoclear, held open as long as it is plugged, so that `kill -9` leaves no
//! device behind. Its tag is `<run>/<volume id>`; tag, inode and device of the backing file are compared with the
//! kernel before every mkfs and every detach, and only devices that pass are touched. What is mounted is read from
//! mountinfo by device number.
//!
//! Several processes may have a value for one node (the driver, the node agent, whoever checks for leaks): the one
//! that plugs holds the devices, the others find them by the records below the root, prove them, and let go again.

mod device;
mod ioctl;
mod mount;
mod mountinfo;
mod namespace;
#[cfg(test)]
mod tests;
pub(super) mod tools;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use self::device::{LoopDevice, all_zero, proof_of};
use self::mount::Options;
pub use self::namespace::private_mounts;
use self::tools::Found;
use super::blocking::Gate;
use super::directory::plain_name;
use super::root::Root;
use super::{
    Backend, Device, Disk, DiskError, DiskFuture, Mount, MountKind, Plug, Publish, Published, Stage, Staged, Usage,
};

/// The major number of loop devices.
const LOOP_MAJOR: u32 = 7;
/// Longest name of a run: `<run>/vol-` and 17 digits must fit in a loop device's tag.
const MAX_RUN: usize = 40;
/// The node's own records, below its root.
const RECORDS: &str = ".mooring";
/// The node's own device directory, below its root.
const DEV: &str = "dev";

/// The disk of one node, with real block devices.
#[derive(Clone, Debug)]
pub struct LoopDisk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    node: String,
    run: String,
    root: Root,
    volumes: Root,
    gate: Gate,
    ledger: Mutex<BTreeMap<String, Arc<Plugged>>>,
    /// One lock for each volume that was ever touched: plug, stage and their opposites exclude one another.
    serial: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

/// A plugged volume.
#[derive(Debug)]
struct Plugged {
    device: LoopDevice,
    /// The backing file, open for reading.
    file: File,
    record: Record,
}

/// What is written down of a plugged volume, to find its device again after a restart of the driver. It is a hint:
/// the kernel has the proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    volume: String,
    name: String,
    file: String,
    tag: String,
}

impl LoopDisk {
    /// The disk of `node`, with the node's root directory, the directory of all volumes, and the name of the run that
    /// new devices are tagged with. Devices that another process plugged on this node are found.
    ///
    /// # Errors
    /// [`DiskError::BadPath`] for a run's name that is no plain name of at most 40 bytes; what the system says.
    pub fn new(node: &str, root: &Path, volumes: &Path, run: &str) -> Result<Self, DiskError> {
        plain_name("a run's name", run)?;
        if run.len() > MAX_RUN {
            let reason = format!("a run's name is at most {MAX_RUN} bytes long");
            return Err(DiskError::BadPath { path: run.to_owned(), reason });
        }
        let (root, volumes) = (Root::open(root)?, Root::open(volumes)?);
        let inner = Inner {
            node: node.to_owned(),
            run: run.to_owned(),
            root,
            volumes,
            gate: Gate::default(),
            ledger: Mutex::default(),
            serial: Mutex::default(),
        };
        for dir in [format!("{RECORDS}/devices"), format!("{RECORDS}/staged"), format!("{DEV}/disk/by-id")] {
            inner.root.make_dirs(&inner.at(&dir))?;
        }
        Ok(Self(Arc::new(inner)))
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        Gate::run(&self.0, |disk| &disk.gate, act)
    }

    /// Runs `act` alone among the operations on `volume`.
    fn alone<'a, T: Send + 'static>(
        &'a self,
        volume: &str,
        act: impl FnOnce(&Inner) -> Result<T, DiskError> + Send + 'static,
    ) -> DiskFuture<'a, T> {
        let volume = volume.to_owned();
        self.run(move |disk| {
            volume_id(&volume)?;
            let lock = lock(&disk.serial).entry(volume).or_default().clone();
            let _alone = lock_of(&lock);
            act(disk)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_of(mutex: &Arc<Mutex<()>>) -> MutexGuard<'_, ()> {
    lock(mutex)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Volume ids become names of records and tags: `vol-` and hex digits only.
fn volume_id(volume: &str) -> Result<(), DiskError> {
    let digits = volume.strip_prefix("vol-").unwrap_or_default();
    if (1..=17).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(DiskError::BadPath { path: volume.to_owned(), reason: "is not a volume id".to_owned() })
}

/// The volume in a tag `<run>/<volume id>`.
fn tagged_volume(tag: &str) -> Option<&str> {
    tag.rsplit_once('/').map(|(_, volume)| volume).filter(|volume| volume_id(volume).is_ok())
}

/// The name of the by-id link that the EBS driver looks for (ec2-api.md §13.3).
fn by_id(volume: &str) -> String {
    format!("nvme-Amazon_Elastic_Block_Store_{}", volume.replace('-', ""))
}

/// The loop device with this device number, by the kernel's own name for it.
fn loop_number(major: u32, minor: u32) -> Option<u32> {
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    link.file_name()?.to_str()?.strip_prefix("loop")?.parse().ok()
}

fn occupied(path: &Path, by: impl Into<String>) -> DiskError {
    DiskError::Occupied { path: text(path), by: by.into() }
}

impl Plugged {
    fn device(&self) -> Device {
        Device {
            volume: self.record.volume.clone(),
            name: self.record.name.clone(),
            path: self.device.path(),
            size_bytes: self.device.size_bytes,
        }
    }
}

impl Inner {
    fn at(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    fn tag(&self, volume: &str) -> String {
        format!("{}/{volume}", self.run)
    }

    fn record_path(&self, kind: &str, volume: &str) -> PathBuf {
        self.at(&format!("{RECORDS}/{kind}/{volume}"))
    }

    fn device_link(&self, name: &str) -> Result<PathBuf, DiskError> {
        let plain = name.strip_prefix("/dev/").unwrap_or(name);
        plain_name("a device name", plain)?;
        Ok(self.at(&format!("{DEV}/{plain}")))
    }

    fn backing(&self, file: &str) -> Result<File, DiskError> {
        plain_name("a volume's file", file)?;
        let place = self.volumes.place(&self.volumes.path().join(file))?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&place.parent, &place.name, flags, Mode::empty())
            .map_err(|e| DiskError::errno("open", file, e))?;
        Ok(File::from(fd))
    }

    /// The plugged volume: from the ledger, or found by its record and proved, and then held only as long as the
    /// value lives.
    fn get(&self, volume: &str) -> Option<Arc<Plugged>> {
        let held = lock(&self.ledger).get(volume).cloned();
        held.or_else(|| self.adopt(&self.record(volume)?).map(Arc::new))
    }

    fn record(&self, volume: &str) -> Option<Record> {
        let data = self.root.read(&self.record_path("devices", volume)).ok()??;
        serde_json::from_slice::<Record>(&data).ok().filter(|r| r.volume == volume)
    }

    fn adopt(&self, record: &Record) -> Option<Plugged> {
        if tagged_volume(&record.tag) != Some(&*record.volume) {
            return None;
        }
        let file = self.backing(&record.file).ok()?;
        let link = self.root.read_link(&self.device_link(&record.name).ok()?).ok()??;
        let number = link.to_str()?.strip_prefix("/dev/loop")?.parse().ok()?;
        let device = LoopDevice::adopt(number, &file, &record.tag)?;
        Some(Plugged { device, file, record: record.clone() })
    }

    /// The volumes that have a record, whether or not their device is still there.
    fn recorded(&self) -> Result<Vec<String>, DiskError> {
        let names = self.root.list(&self.at(&format!("{RECORDS}/devices")))?.unwrap_or_default();
        Ok(names.into_iter().filter(|name| volume_id(name).is_ok()).collect())
    }

    /// Removes the traces of devices that are gone, such as after `kill -9`. Only who plugs does it.
    fn sweep(&self) -> Result<(), DiskError> {
        for volume in self.recorded()? {
            if self.get(&volume).is_none() {
                match self.record(&volume) {
                    Some(record) => self.unlink(&record)?,
                    None => drop(self.root.remove_file(&self.record_path("devices", &volume))?),
                }
            }
        }
        Ok(())
    }

    fn devices(&self) -> Result<Vec<Device>, DiskError> {
        Ok(self.recorded()?.iter().filter_map(|v| self.get(v)).map(|p| p.device()).collect())
    }

    fn unlink(&self, record: &Record) -> Result<(), DiskError> {
        self.root.remove_file(&self.at(&format!("{DEV}/disk/by-id/{}", by_id(&record.volume))))?;
        self.root.remove_file(&self.device_link(&record.name)?)?;
        self.root.remove_file(&self.record_path("devices", &record.volume))?;
        Ok(())
    }

    /// The volume behind a mount of a loop device, if the device is one that Mooring made.
    fn volume_of(&self, major: u32, minor: u32) -> Option<String> {
        let number = (major == LOOP_MAJOR).then(|| loop_number(major, minor))??;
        let held = lock(&self.ledger).values().find(|p| p.device.number == number).map(|p| p.record.volume.clone());
        held.or_else(|| tagged_volume(&proof_of(number)?.tag).map(str::to_owned))
    }

    fn mounts(&self) -> Result<Vec<Mount>, DiskError> {
        let mut mounts = Vec::new();
        for entry in mountinfo::read()? {
            if entry.major != LOOP_MAJOR || !entry.path.starts_with(self.root.path()) {
                continue;
            }
            let Some(volume) = self.volume_of(entry.major, entry.minor) else { continue };
            let staged = self.root.read(&self.record_path("staged", &volume)).ok().flatten();
            let staging = staged.is_some_and(|path| path == entry.path.as_os_str().as_encoded_bytes());
            let kind = if staging { MountKind::Staging } else { MountKind::Target };
            mounts.push(Mount { volume, path: entry.path, kind, readonly: entry.readonly });
        }
        mounts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(mounts)
    }

    fn plug(&self, plug: &Plug) -> Result<Device, DiskError> {
        if let Some(there) = self.get(&plug.volume) {
            there.device.verify()?;
            let device = there.device();
            // From now on this process holds it.
            lock(&self.ledger).insert(plug.volume.clone(), there);
            return Ok(device);
        }
        self.sweep()?;
        let link = self.device_link(&plug.device)?;
        let file = self.backing(&plug.file)?;
        let device = LoopDevice::attach(&file, &self.tag(&plug.volume))?;
        let Plug { volume, device: name, file: file_name, .. } = plug.clone();
        let record = Record { volume, name, file: file_name, tag: self.tag(&plug.volume) };
        let data = serde_json::to_vec(&record)
            .map_err(|e| DiskError::io("write", plug.volume.clone(), std::io::Error::other(e)))?;
        self.root.write(&self.record_path("devices", &plug.volume), &data)?;
        self.root.link(&device.path(), &link)?;
        let id_link = self.at(&format!("{DEV}/disk/by-id/{}", by_id(&plug.volume)));
        let plain = plug.device.strip_prefix("/dev/").unwrap_or(&plug.device);
        self.root.link(Path::new(&format!("../../{plain}")), &id_link)?;
        let plugged = Arc::new(Plugged { device, file, record });
        let device = plugged.device();
        lock(&self.ledger).insert(plug.volume.clone(), plugged);
        Ok(device)
    }

    fn unplug(&self, volume: &str, force: bool) -> Result<bool, DiskError> {
        let Some(plugged) = self.get(volume) else { return Ok(false) };
        let mounts: Vec<_> = self.mounts()?.into_iter().filter(|m| m.volume == volume).collect();
        if !force && !mounts.is_empty() {
            let at = mounts.iter().map(|m| text(&m.path)).collect::<Vec<_>>().join(", ");
            return Err(DiskError::Busy { volume: volume.to_owned(), by: format!("mounted at {at}") });
        }
        plugged.device.verify()?;
        self.unlink(&plugged.record)?;
        if let Some(mount) = mounts.first() {
            // The disk is pulled: what was not synced is lost, and the device goes with its last mount.
            mount::shutdown(&mount.path)?;
        }
        self.forget(volume, plugged, !mounts.is_empty())?;
        Ok(true)
    }

    /// Takes a volume out of the ledger and gives its device back.
    fn forget(&self, volume: &str, plugged: Arc<Plugged>, mounted: bool) -> Result<(), DiskError> {
        lock(&self.ledger).remove(volume);
        let Some(plugged) = Arc::into_inner(plugged) else {
            return Err(DiskError::Busy { volume: volume.to_owned(), by: "another operation uses it".to_owned() });
        };
        if mounted { plugged.device.release() } else { plugged.device.detach() }
    }

    /// Makes a filesystem if there is truly none; true when it did.
    fn format(&self, plugged: &Plugged, stage: &Stage) -> Result<bool, DiskError> {
        let corrupt = |reason: String| DiskError::Corrupt { volume: stage.volume.clone(), reason };
        let marker = self.volumes.path().join(format!("{}.mkfs", plugged.record.file));
        match tools::probe(&plugged.device.path())? {
            Found::Filesystem(found) if found == stage.fs_type => return Ok(false),
            Found::Filesystem(found) => {
                return Err(corrupt(format!("it has a {found} filesystem, {} was asked for", stage.fs_type)));
            }
            Found::Other(found) => return Err(corrupt(format!("it holds {found}"))),
            Found::Nothing if stage.readonly => {
                return Err(corrupt("it is empty and cannot be formatted read-only".to_owned()));
            }
            // blkid knows nothing of a filesystem whose superblock is broken. So the bytes are looked at too; only a
            // mkfs of ours that was cut off may have left some.
            Found::Nothing => {
                let path = self.volumes.path().join(&plugged.record.file);
                if self.volumes.read(&marker)?.is_none() && !all_zero(&plugged.file, &path)? {
                    return Err(corrupt("it has data but no filesystem that blkid knows".to_owned()));
                }
            }
        }
        self.volumes.write(&marker, b"mkfs was begun\n")?;
        plugged.device.unused()?;
        plugged.device.verify()?;
        tools::make(&plugged.device.path(), &stage.fs_type)?;
        self.volumes.remove_file(&marker)?;
        Ok(true)
    }

    fn stage(&self, stage: &Stage) -> Result<Staged, DiskError> {
        let path = self.root.absolute(&stage.path)?;
        let mounts = self.mounts()?;
        if let Some(there) = mounts.iter().rfind(|m| m.path == path) {
            if there.volume != stage.volume {
                return Err(occupied(&path, format!("volume {} is mounted", there.volume)));
            }
            let readonly = there.readonly;
            return Ok(Staged { formatted: false, readonly, already: true, other_writers: Vec::new() });
        }
        if let Some(m) = mounts.iter().find(|m| m.volume == stage.volume) {
            return Err(occupied(&path, format!("volume {} is mounted at {}", stage.volume, m.path.display())));
        }
        let plugged = self.get(&stage.volume).ok_or_else(|| DiskError::NotPlugged(stage.volume.clone()))?;
        plugged.device.verify()?;
        let options = Options::new(&stage.mount_flags, stage.readonly)?;
        let formatted = self.format(&plugged, stage)?;
        if !formatted && !stage.readonly {
            tools::check(&plugged.device.path(), &stage.fs_type)
                .map_err(|reason| DiskError::Corrupt { volume: stage.volume.clone(), reason })?;
        }
        self.root.make_dirs(&path)?;
        let target = self.root.dir(&path)?;
        let mount = mount::filesystem(&plugged.device.path(), &stage.fs_type, &options)?;
        self.root.write(&self.record_path("staged", &stage.volume), path.as_os_str().as_encoded_bytes())?;
        mount.attach(&target, &path)?;
        let readonly = self.seen(&stage.volume, &path)?.readonly;
        if readonly != stage.readonly {
            // A read-only device mounts without an error and refuses writes (csi-driver.md §5).
            mount::unmount(&self.root.place(&path)?, &path, false)?;
            let reason = format!("asked for readonly={}, the kernel mounted it readonly={readonly}", stage.readonly);
            return Err(DiskError::Corrupt { volume: stage.volume.clone(), reason });
        }
        Ok(Staged { formatted, readonly, already: false, other_writers: Vec::new() })
    }

    /// The mount of `volume` at `path`, as the kernel has it.
    fn seen(&self, volume: &str, path: &Path) -> Result<Mount, DiskError> {
        let found = self.mounts()?.into_iter().rfind(|m| m.path == path && m.volume == volume);
        found.ok_or_else(|| DiskError::NotStaged { volume: volume.to_owned(), path: text(path) })
    }

    fn unstage(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        let mounts = self.mounts()?;
        match mounts.iter().rfind(|m| m.path == path) {
            None => return Ok(false),
            Some(m) if m.volume != volume => {
                return Err(occupied(&path, format!("volume {} is mounted", m.volume)));
            }
            Some(_) => {}
        }
        // umount would succeed while a bind mount keeps the filesystem alive (csi-driver.md §5).
        let others: Vec<_> =
            mounts.iter().filter(|m| m.volume == volume && m.path != path).map(|m| text(&m.path)).collect();
        if !others.is_empty() {
            let by = format!("also mounted at {}", others.join(", "));
            return Err(DiskError::Busy { volume: volume.to_owned(), by });
        }
        mount::unmount(&self.root.place(&path)?, &path, false)?;
        self.root.remove_file(&self.record_path("staged", volume))?;
        Ok(true)
    }

    fn publish(&self, publish: &Publish) -> Result<Published, DiskError> {
        let (staging, path) = (self.root.absolute(&publish.staging_path)?, self.root.absolute(&publish.path)?);
        let mounts = self.mounts()?;
        let Some(staged) = mounts.iter().rfind(|m| m.path == staging && m.volume == publish.volume) else {
            return Err(DiskError::NotStaged { volume: publish.volume.clone(), path: text(&staging) });
        };
        let readonly = publish.readonly || staged.readonly;
        match mounts.iter().rfind(|m| m.path == path) {
            Some(m) if m.volume == publish.volume => return Ok(Published { readonly: m.readonly, already: true }),
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        let options = Options::new(&publish.mount_flags, readonly)?;
        let place = self.root.place(&path)?;
        match rustix::fs::mkdirat(&place.parent, &place.name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(DiskError::errno("mkdir", text(&path), error)),
        }
        let target = self.root.dir(&path)?;
        let bind = mount::copy(&self.root.dir(&staging)?, &staging)?;
        bind.attach(&target, &path)?;
        let done = bind.restrict(&options, &path).and_then(|()| self.seen(&publish.volume, &path));
        match done {
            Ok(mount) if mount.readonly == readonly => Ok(Published { readonly, already: false }),
            wrong => {
                mount::unmount(&place, &path, false)?;
                self.root.remove_dir(&path)?;
                wrong?;
                let reason = format!("the kernel did not make the mount readonly={readonly}");
                Err(DiskError::Unsupported { backend: Backend::Loop, reason })
            }
        }
    }

    fn unpublish(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        let mounted = match self.mounts()?.into_iter().rfind(|m| m.path == path) {
            Some(m) if m.volume != volume => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            Some(m) if m.kind == MountKind::Staging => return Err(occupied(&path, "the volume is staged here")),
            Some(_) => {
                mount::unmount(&self.root.place(&path)?, &path, false)?;
                true
            }
            None => false,
        };
        self.root.remove_dir(&path)?;
        Ok(mounted)
    }

    fn crash(&self) -> Result<(), DiskError> {
        let mut first = Ok(());
        let mut keep = |done: Result<(), DiskError>| {
            if first.is_ok() {
                first = done;
            }
        };
        let mounts = self.mounts()?;
        for mount in &mounts {
            keep(mount::shutdown(&mount.path));
        }
        // Later mounts may lie on earlier ones.
        for mount in mounts.iter().rev() {
            keep(self.root.place(&mount.path).and_then(|place| mount::unmount(&place, &mount.path, true)));
            keep(self.root.remove_file(&self.record_path("staged", &mount.volume)).map(drop));
        }
        for volume in self.recorded()? {
            let Some(plugged) = self.get(&volume) else { continue };
            keep(self.unlink(&plugged.record));
            keep(self.forget(&volume, plugged, false));
        }
        first
    }
}

impl Disk for LoopDisk {
    fn backend(&self) -> Backend {
        Backend::Loop
    }

    fn node(&self) -> &str {
        &self.0.node
    }

    fn plug<'a>(&'a self, plug: &'a Plug) -> DiskFuture<'a, Device> {
        let own = plug.clone();
        self.alone(&plug.volume, move |disk| disk.plug(&own))
    }

    fn unplug<'a>(&'a self, volume: &'a str, force: bool) -> DiskFuture<'a, bool> {
        let own = volume.to_owned();
        self.alone(volume, move |disk| disk.unplug(&own, force))
    }

    fn find<'a>(&'a self, volume: &'a str) -> DiskFuture<'a, Option<Device>> {
        let own = volume.to_owned();
        self.alone(volume, move |disk| match disk.get(&own) {
            Some(plugged) => plugged.device.verify().map(|()| Some(plugged.device())),
            None => Ok(None),
        })
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.run(Inner::devices)
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        self.run(Inner::mounts)
    }

    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        let own = stage.clone();
        self.alone(&stage.volume, move |disk| disk.stage(&own))
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (own, path) = (volume.to_owned(), path.to_owned());
        self.alone(volume, move |disk| disk.unstage(&own, &path))
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        let own = publish.clone();
        self.alone(&publish.volume, move |disk| disk.publish(&own))
    }

    fn unpublish<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        let (own, path) = (volume.to_owned(), path.to_owned());
        self.alone(volume, move |disk| disk.unpublish(&own, &path))
    }

    fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage> {
        let path = path.to_owned();
        self.run(move |disk| {
            let dir = disk.root.dir(&path)?;
            super::stat::usage(&dir).map_err(|e| DiskError::errno("statfs", text(&path), e))
        })
    }

    fn crash(&self) -> DiskFuture<'_, ()> {
        Gate::shut(&self.0, |disk| &disk.gate, Inner::crash)
    }

    fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        let path = path.to_owned();
        self.run(move |disk| disk.root.make_dirs(&path))
    }

    fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        let path = path.to_owned();
        self.run(move |disk| {
            let absolute = disk.root.absolute(&path)?;
            if disk.mounts()?.iter().any(|m| m.path == absolute) {
                let by = "something is mounted there".to_owned();
                return Err(DiskError::Busy { volume: text(&path), by });
            }
            disk.root.remove_dir(&path).map(drop)
        })
    }

    fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>> {
        let path = path.to_owned();
        self.run(move |disk| disk.root.list(&path))
    }

    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        let (path, data) = (path.to_owned(), data.to_owned());
        self.run(move |disk| disk.root.append(&path, &data))
    }

    fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        let (path, data) = (path.to_owned(), data.to_owned());
        self.run(move |disk| disk.root.write(&path, &data))
    }

    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        let path = path.to_owned();
        self.run(move |disk| disk.root.sync(&path))
    }

    fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>> {
        let path = path.to_owned();
        self.run(move |disk| disk.root.read(&path))
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        let path = path.to_owned();
        self.run(move |disk| disk.root.remove_file(&path).map(drop))
    }
}
