//! Faults of the disk plane, for any disk: operations fail, wait, hang, report false success, or are done in part.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use substrate::fault::{Effect, Failure, FaultOutcome, Moment, Plane, Point};
use substrate::{Ctx, mutant};

use super::errnos::errno;
use super::lossy::{self, is_lossy};
use super::{
    Backend, Device, Disk, DiskError, DiskFuture, FileLock, GroupChange, Mapping, Mount, Plug, Publish, Published,
    RawDevice, Share, Stage, Staged, Usage,
};

/// Disk whose operations meet the faults of the plane `disk`, before and after. Faults use the trait's names of
/// operations (`append`, `sync`, `stage`), and for an open raw device those of its trait (`write_at`, `sync`). They can
/// match `volume`, `node` and `path`.
#[derive(Clone, Debug)]
struct FaultyDisk {
    ctx: Ctx,
    disk: Arc<dyn Disk>,
}

/// Wraps `disk` for the process `ctx`: its operations meet the faults of the plane `disk` in that process.
pub fn faulty(ctx: &Ctx, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    ctx.faults().declare(crate::faults::DISK);
    Arc::new(FaultyDisk { ctx: ctx.clone(), disk })
}

/// Part of an operation that is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of it.
    Whole,
    /// Half of it; then it fails.
    Half,
    /// None of it, and it reports success.
    None,
    /// All of it, but it finds the device of another volume.
    WrongDevice,
}

impl FaultyDisk {
    /// Lets a fault act before operation `op` on `volume` or `path`.
    async fn before(&self, op: &'static str, volume: &str, path: &Path) -> Result<Part, DiskError> {
        self.meet(op, volume, path, Moment::Before).await
    }

    /// Lets a fault act after the operation's effect and before its answer.
    async fn after(&self, op: &'static str, volume: &str, path: &Path) -> Result<(), DiskError> {
        self.meet(op, volume, path, Moment::AfterEffect).await.map(drop)
    }

    async fn meet(&self, op: &'static str, volume: &str, path: &Path, moment: Moment) -> Result<Part, DiskError> {
        if self.ctx.faults().is_empty() {
            return Ok(Part::Whole);
        }
        let text = path.display().to_string();
        let mounted;
        let volume = if volume.is_empty() {
            // A file belongs to the volume mounted above it. A disk that does not answer fails by itself.
            let mounts = self.disk.mounts().await.unwrap_or_default();
            let above = mounts.into_iter().filter(|m| path.starts_with(&m.path));
            mounted = above.max_by_key(|m| m.path.as_os_str().len()).map(|m| m.volume).unwrap_or_default();
            &*mounted
        } else {
            volume
        };
        let attributes = [("volume", volume), ("node", self.disk.node()), ("path", &*text)];
        let point = Point { plane: Plane::Disk, op, attributes: &attributes, moment };
        match self.ctx.meet(&point).await {
            FaultOutcome::Proceed => Ok(Part::Whole),
            FaultOutcome::Fail { failure: Failure::Named(name), .. } => {
                Err(DiskError::errno(op, text, errno(&name).expect("the catalogue allows the names in `ERRNOS`")))
            }
            FaultOutcome::Alter { effect: Effect::PauseIo(span), .. } => {
                self.ctx.sleep(span.0).await;
                Ok(Part::Whole)
            }
            FaultOutcome::Alter { effect: Effect::LoseUnsynced(_), .. } => Ok(Part::None),
            FaultOutcome::Alter { effect: Effect::TornWrite(_), .. } => Ok(Part::Half),
            FaultOutcome::Alter { effect: Effect::WrongDevice(_), .. } => Ok(Part::WrongDevice),
            outcome => point.unlisted(&outcome),
        }
    }

    /// Returns the error for another volume's device: every backend compares the device it found with the one it looked
    /// for.
    fn not_ours(&self, volume: &str) -> DiskError {
        DiskError::NotOurs {
            volume: volume.to_owned(),
            device: "the device found".to_owned(),
            reason: "it holds another volume".to_owned(),
        }
    }
}

/// Operations that a fault can only delay or fail. Those in [`EMITTING`](super::EMITTING) meet later faults in
/// [`Disk::done`].
macro_rules! plain {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty, $volume:expr, $path:expr;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> DiskFuture<'a, $out> {
            Box::pin(async move {
                if self.before(stringify!($name), $volume, $path).await? == Part::WrongDevice {
                    return Err(self.not_ours($volume));
                }
                let done = self.disk.$name($($arg),*).await?;
                self.after(stringify!($name), $volume, $path).await?;
                Ok(done)
            })
        })*
    };
}

macro_rules! emitting {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty, $volume:expr, $path:expr;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> DiskFuture<'a, $out> {
            Box::pin(async move {
                if self.before(stringify!($name), $volume, $path).await? == Part::WrongDevice {
                    return Err(self.not_ours($volume));
                }
                self.disk.$name($($arg),*).await
            })
        })*
    };
}

impl Disk for FaultyDisk {
    fn backend(&self) -> Backend {
        self.disk.backend()
    }

    fn node(&self) -> &str {
        self.disk.node()
    }

    fn devices(&self) -> DiskFuture<'_, Vec<Device>> {
        self.disk.devices()
    }

    fn mounts(&self) -> DiskFuture<'_, Vec<Mount>> {
        self.disk.mounts()
    }

    fn crash(&self) -> DiskFuture<'_, ()> {
        self.disk.crash()
    }

    emitting! {
        plug(plug: &'a Plug) -> Device, &plug.volume, Path::new(&plug.device);
        unplug(volume: &'a str, force: bool) -> bool, volume, Path::new("");
        resize(volume: &'a str, size_bytes: u64) -> bool, volume, Path::new("");
        stage(stage: &'a Stage) -> Staged, &stage.volume, &stage.path;
        publish(publish: &'a Publish) -> Published, &publish.volume, &publish.path;
        unpublish(volume: &'a str, path: &'a Path) -> bool, volume, path;
        expand(volume: &'a str, path: &'a Path) -> u64, volume, path;
    }

    plain! {
        find(volume: &'a str) -> Option<Device>, volume, Path::new("");
        unmap(mapping: &'a Mapping) -> (), &mapping.volume, &mapping.device;
        give(path: &'a Path, change: GroupChange) -> (), "", path;
        usage(path: &'a Path) -> Usage, "", path;
        make_dir(path: &'a Path) -> (), "", path;
        remove_dir(path: &'a Path) -> (), "", path;
        list_dir(path: &'a Path) -> Option<Vec<String>>, "", path;
        write(path: &'a Path, data: &'a [u8]) -> (), "", path;
        read(path: &'a Path) -> Option<Vec<u8>>, "", path;
        remove_file(path: &'a Path) -> (), "", path;
    }

    /// Meets the faults of `publish`, which also ends at a pod's path.
    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        Box::pin(async move {
            if self.before("publish", &share.volume, &share.path).await? == Part::WrongDevice {
                return Err(self.not_ours(&share.volume));
            }
            self.disk.mount_share(share).await
        })
    }

    fn lock<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<FileLock>> {
        self.disk.lock(path)
    }

    fn unstage<'a>(&'a self, volume: &'a str, path: &'a Path) -> DiskFuture<'a, bool> {
        Box::pin(async move {
            self.before("unstage", volume, path).await?;
            if is_lossy(&self.ctx, &*self.disk) {
                lossy::unstage(&*self.disk, volume, path).await
            } else {
                self.disk.unstage(volume, path).await
            }
        })
    }

    fn done<'a>(&'a self, op: &'static str, volume: &'a str, path: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(self.after(op, volume, path))
    }

    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        Box::pin(async move {
            if self.before("map", &mapping.volume, &mapping.device).await? == Part::WrongDevice {
                return Err(self.not_ours(&mapping.volume));
            }
            let device = self.disk.map(mapping).await?;
            self.after("map", &mapping.volume, &mapping.device).await?;
            let faulty = FaultyDevice { disk: self.clone(), mapping: mapping.clone(), device };
            Ok(Arc::new(faulty) as Arc<dyn RawDevice>)
        })
    }

    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            match self.before("append", "", path).await? {
                Part::None => {}
                Part::Half => {
                    self.disk.append(path, &data[..data.len() / 2]).await?;
                    return Err(DiskError::errno("write", path.display().to_string(), Errno::IO));
                }
                Part::Whole | Part::WrongDevice => self.disk.append(path, data).await?,
            }
            self.after("append", "", path).await
        })
    }

    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            // Reports success without a sync; a power loss reveals it.
            let lost = self.before("sync", "", path).await? == Part::None || is_lossy(&self.ctx, &*self.disk);
            if !lost {
                self.disk.sync(path).await?;
            }
            self.after("sync", "", path).await
        })
    }
}

/// Open raw device of a [`FaultyDisk`].
#[derive(Debug)]
struct FaultyDevice {
    disk: FaultyDisk,
    mapping: Mapping,
    device: Arc<dyn RawDevice>,
}

impl FaultyDevice {
    async fn before(&self, op: &'static str) -> Result<Part, DiskError> {
        self.disk.before(op, &self.mapping.volume, &self.mapping.device).await
    }

    async fn after(&self, op: &'static str) -> Result<(), DiskError> {
        self.disk.after(op, &self.mapping.volume, &self.mapping.device).await
    }
}

impl RawDevice for FaultyDevice {
    fn size(&self) -> DiskFuture<'_, u64> {
        self.device.size()
    }

    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>> {
        Box::pin(async move {
            self.before("read_at").await?;
            let bytes = self.device.read_at(offset, length).await?;
            self.after("read_at").await?;
            Ok(bytes)
        })
    }

    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            match self.before("write_at").await? {
                Part::None => {}
                Part::Half => {
                    self.device.write_at(offset, &data[..data.len() / 2]).await?;
                    let path = self.mapping.device.display().to_string();
                    return Err(DiskError::errno("write", path, Errno::IO));
                }
                Part::Whole | Part::WrongDevice => self.device.write_at(offset, data).await?,
            }
            self.after("write_at").await
        })
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let lost = self.before("sync").await? == Part::None
                || is_lossy(&self.disk.ctx, &*self.disk.disk)
                || mutant!(self.disk.ctx, "raw-sync-does-nothing");
            if !lost {
                self.device.sync().await?;
            }
            self.after("sync").await
        })
    }
}
