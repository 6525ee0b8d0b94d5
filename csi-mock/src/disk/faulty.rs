//! Faults of the disk plane, before any disk: operations fail, wait, never end, lie, or are done in part.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use substrate::Ctx;
use substrate::fault::{Effect, Moment, Plane, Point};

use super::{
    Backend, Device, Disk, DiskError, DiskFuture, Mapping, Mount, Plug, Publish, Published, RawDevice, Stage, Staged,
    Usage,
};

/// A disk whose operations meet the faults of the plane `disk` first. Operations are named as the trait names them
/// (`append`, `sync`, `stage`), those of an open raw device as its trait names them (`write_at`, `sync`); faults can match
/// `volume`, `node` and `path`.
#[derive(Clone, Debug)]
struct FaultyDisk {
    ctx: Ctx,
    disk: Arc<dyn Disk>,
}

/// `disk`, with the faults of the plane `disk` in force in `ctx`'s world.
pub fn faulty(ctx: &Ctx, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk { ctx: ctx.clone(), disk })
}

/// The errno of that name; EIO for one that is not known here.
fn errno(name: &str) -> Errno {
    match name {
        "EACCES" => Errno::ACCESS,
        "EBUSY" => Errno::BUSY,
        "EDQUOT" => Errno::DQUOT,
        "EINTR" => Errno::INTR,
        "EINVAL" => Errno::INVAL,
        "EMFILE" => Errno::MFILE,
        "ENODEV" => Errno::NODEV,
        "ENOENT" => Errno::NOENT,
        "ENOMEM" => Errno::NOMEM,
        "ENOSPC" => Errno::NOSPC,
        "ENXIO" => Errno::NXIO,
        "EPERM" => Errno::PERM,
        "EROFS" => Errno::ROFS,
        "ETIMEDOUT" => Errno::TIMEDOUT,
        _ => Errno::IO,
    }
}

/// What is left for the operation to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All of it.
    Free,
    /// Half of it, and then it fails.
    Torn,
    /// Nothing, and it says that all is done.
    Lost,
    /// It finds the device of another volume.
    Wrong,
}

impl FaultyDisk {
    /// Lets a fault act before operation `op` on `volume` or `path`.
    async fn before(&self, op: &'static str, volume: &str, path: &Path) -> Result<Way, DiskError> {
        if self.ctx.faults().is_empty() {
            return Ok(Way::Free);
        }
        let text = path.display().to_string();
        let mounted;
        let volume = if volume.is_empty() {
            // A file lies on the volume that is mounted above it.
            let mounts = self.disk.mounts().await?;
            let above = mounts.into_iter().filter(|m| path.starts_with(&m.path));
            mounted = above.max_by_key(|m| m.path.as_os_str().len()).map(|m| m.volume).unwrap_or_default();
            &*mounted
        } else {
            volume
        };
        let attributes = [("volume", volume), ("node", self.disk.node()), ("path", &*text)];
        let point = Point { plane: Plane::Disk, op, attributes: &attributes, moment: Moment::Before };
        let Some(firing) = self.ctx.fault(&point) else { return Ok(Way::Free) };
        match firing.effect {
            effect if effect.never_answers() => std::future::pending().await,
            Effect::IoError(name) | Effect::Error(name) => Err(DiskError::errno(op, text, errno(&name))),
            Effect::PauseIo(span) | Effect::Delay(span) => {
                self.ctx.sleep(span.0).await;
                Ok(Way::Free)
            }
            Effect::LoseUnsynced(true) => Ok(Way::Lost),
            Effect::TornWrite(true) => Ok(Way::Torn),
            Effect::WrongDevice(true) => Ok(Way::Wrong),
            // The rest cannot happen here, and is refused where faults are added, or happens to another process.
            _ => Ok(Way::Free),
        }
    }

    /// What finding another's device ends with: every backend compares what it found with what it looked for.
    fn not_ours(&self, volume: &str) -> DiskError {
        DiskError::NotOurs {
            volume: volume.to_owned(),
            device: "the device found".to_owned(),
            reason: "it holds another volume".to_owned(),
        }
    }
}

/// Operations that a fault can only let through, delay or fail.
macro_rules! plain {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty, $volume:expr, $path:expr;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> DiskFuture<'a, $out> {
            Box::pin(async move {
                match self.before(stringify!($name), $volume, $path).await? {
                    Way::Wrong => Err(self.not_ours($volume)),
                    _ => self.disk.$name($($arg),*).await,
                }
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

    plain! {
        plug(plug: &'a Plug) -> Device, &plug.volume, Path::new(&plug.device);
        unplug(volume: &'a str, force: bool) -> bool, volume, Path::new("");
        resize(volume: &'a str, size_bytes: u64) -> bool, volume, Path::new("");
        find(volume: &'a str) -> Option<Device>, volume, Path::new("");
        stage(stage: &'a Stage) -> Staged, &stage.volume, &stage.path;
        unstage(volume: &'a str, path: &'a Path) -> bool, volume, path;
        publish(publish: &'a Publish) -> Published, &publish.volume, &publish.path;
        unpublish(volume: &'a str, path: &'a Path) -> bool, volume, path;
        unmap(mapping: &'a Mapping) -> (), &mapping.volume, &mapping.device;
        expand(volume: &'a str, path: &'a Path) -> u64, volume, path;
        give(path: &'a Path, group: u32) -> (), "", path;
        usage(path: &'a Path) -> Usage, "", path;
        make_dir(path: &'a Path) -> (), "", path;
        remove_dir(path: &'a Path) -> (), "", path;
        list_dir(path: &'a Path) -> Option<Vec<String>>, "", path;
        write(path: &'a Path, data: &'a [u8]) -> (), "", path;
        read(path: &'a Path) -> Option<Vec<u8>>, "", path;
        remove_file(path: &'a Path) -> (), "", path;
    }

    fn map<'a>(&'a self, mapping: &'a Mapping) -> DiskFuture<'a, Arc<dyn RawDevice>> {
        Box::pin(async move {
            if self.before("map", &mapping.volume, &mapping.device).await? == Way::Wrong {
                return Err(self.not_ours(&mapping.volume));
            }
            let device = self.disk.map(mapping).await?;
            let faulty = FaultyDevice { disk: self.clone(), mapping: mapping.clone(), device };
            Ok(Arc::new(faulty) as Arc<dyn RawDevice>)
        })
    }

    fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            match self.before("append", "", path).await? {
                Way::Lost => Ok(()),
                Way::Torn => {
                    self.disk.append(path, &data[..data.len() / 2]).await?;
                    Err(DiskError::errno("write", path.display().to_string(), Errno::IO))
                }
                Way::Free | Way::Wrong => self.disk.append(path, data).await,
            }
        })
    }

    fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            match self.before("sync", "", path).await? {
                // The lie that power loss brings to light.
                Way::Lost => Ok(()),
                Way::Torn => Err(DiskError::errno("fsync", path.display().to_string(), Errno::IO)),
                Way::Free | Way::Wrong => self.disk.sync(path).await,
            }
        })
    }
}

/// An open raw device of a [`FaultyDisk`].
#[derive(Debug)]
struct FaultyDevice {
    disk: FaultyDisk,
    mapping: Mapping,
    device: Arc<dyn RawDevice>,
}

impl FaultyDevice {
    async fn before(&self, op: &'static str) -> Result<Way, DiskError> {
        match self.disk.before(op, &self.mapping.volume, &self.mapping.device).await? {
            Way::Wrong => Err(self.disk.not_ours(&self.mapping.volume)),
            way => Ok(way),
        }
    }

    fn failed(&self, op: &'static str) -> DiskError {
        DiskError::errno(op, self.mapping.device.display().to_string(), Errno::IO)
    }
}

impl RawDevice for FaultyDevice {
    fn size(&self) -> DiskFuture<'_, u64> {
        self.device.size()
    }

    fn read_at(&self, offset: u64, length: usize) -> DiskFuture<'_, Vec<u8>> {
        Box::pin(async move {
            self.before("read_at").await?;
            self.device.read_at(offset, length).await
        })
    }

    fn write_at<'a>(&'a self, offset: u64, data: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            match self.before("write_at").await? {
                Way::Lost => Ok(()),
                Way::Torn => {
                    self.device.write_at(offset, &data[..data.len() / 2]).await?;
                    Err(self.failed("write"))
                }
                Way::Free | Way::Wrong => self.device.write_at(offset, data).await,
            }
        })
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            match self.before("sync").await? {
                Way::Lost => Ok(()),
                Way::Torn => Err(self.failed("fsync")),
                Way::Free | Way::Wrong => self.device.sync().await,
            }
        })
    }
}
