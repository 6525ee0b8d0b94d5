//! Disk whose mkfs and mounts take as long as on real machines, for backends without delays.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand_core::Rng;
use substrate::Ctx;
use substrate::seed::unit;

use super::{
    Backend, Device, Disk, DiskFuture, FileLock, GroupChange, Mapping, Mount, Plug, Publish, Published, RawDevice,
    Share, Stage, Staged, Usage,
};

/// Durations of slow disk operations: each drawn uniformly from its pair.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// mkfs on an empty device.
    pub mkfs: (Duration, Duration),
    /// Finding, checking and mounting a filesystem.
    pub mount: (Duration, Duration),
    /// A bind mount.
    pub bind: (Duration, Duration),
    /// A mount of a shared file system over the network.
    pub share: (Duration, Duration),
}

impl Pace {
    /// Figures that operators of EBS quote: NodeStage 2–10 s on a new volume and half a second with an existing
    /// filesystem, NodePublish 100 ms; for EFS, NodePublish 1–2 s.
    pub fn aws() -> Self {
        let ms = Duration::from_millis;
        Self {
            mkfs: (ms(1_500), ms(9_400)),
            mount: (ms(400), ms(600)),
            bind: (ms(80), ms(120)),
            share: (ms(1_000), ms(2_000)),
        }
    }

    /// Figures of the driver's authors: mkfs in about 2 s.
    pub fn aws_recent() -> Self {
        let ms = Duration::from_millis;
        Self { mkfs: (ms(1_600), ms(2_400)), ..Self::aws() }
    }
}

struct PacedDisk {
    ctx: Ctx,
    disk: Arc<dyn Disk>,
    pace: Pace,
    rng: Mutex<Box<dyn Rng + Send>>,
}

impl std::fmt::Debug for PacedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacedDisk").field("disk", &self.disk).field("pace", &self.pace).finish_non_exhaustive()
    }
}

/// Wraps `disk` with delays in `ctx`'s process.
pub fn paced(ctx: &Ctx, disk: Arc<dyn Disk>, pace: Pace) -> Arc<dyn Disk> {
    Arc::new(PacedDisk { ctx: ctx.clone(), disk, pace, rng: Mutex::new(Box::new(ctx.rng("disk pace"))) })
}

impl PacedDisk {
    async fn take(&self, (least, most): (Duration, Duration)) {
        let part = unit(&mut *self.rng.lock());
        self.ctx.sleep(least + (most - least).mul_f64(part)).await;
    }
}

/// Operations without a delay.
macro_rules! at_once {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> DiskFuture<'a, $out> {
            self.disk.$name($($arg),*)
        })*
    };
}

impl Disk for PacedDisk {
    fn backend(&self) -> Backend {
        self.disk.backend()
    }

    fn node(&self) -> &str {
        self.disk.node()
    }

    /// The effect happens before the delay, and the answer comes after it. So a crash in between finds the operation
    /// done, as with a kernel.
    fn stage<'a>(&'a self, stage: &'a Stage) -> DiskFuture<'a, Staged> {
        Box::pin(async move {
            let staged = self.disk.stage(stage).await?;
            if staged.formatted {
                self.take(self.pace.mkfs).await;
            }
            if !staged.already {
                self.take(self.pace.mount).await;
            }
            Ok(staged)
        })
    }

    fn publish<'a>(&'a self, publish: &'a Publish) -> DiskFuture<'a, Published> {
        Box::pin(async move {
            let published = self.disk.publish(publish).await?;
            if !published.already {
                self.take(self.pace.bind).await;
            }
            Ok(published)
        })
    }

    fn mount_share<'a>(&'a self, share: &'a Share) -> DiskFuture<'a, Published> {
        Box::pin(async move {
            let published = self.disk.mount_share(share).await?;
            if !published.already {
                self.take(self.pace.share).await;
            }
            Ok(published)
        })
    }

    at_once! {
        lock(path: &'a Path) -> Option<FileLock>;
        devices() -> Vec<Device>;
        mounts() -> Vec<Mount>;
        crash() -> ();
        plug(plug: &'a Plug) -> Device;
        unplug(volume: &'a str, force: bool) -> bool;
        resize(volume: &'a str, size_bytes: u64) -> bool;
        find(volume: &'a str) -> Option<Device>;
        unstage(volume: &'a str, path: &'a Path) -> bool;
        unpublish(volume: &'a str, path: &'a Path) -> bool;
        map(mapping: &'a Mapping) -> Arc<dyn RawDevice>;
        unmap(mapping: &'a Mapping) -> ();
        expand(volume: &'a str, path: &'a Path) -> u64;
        give(path: &'a Path, change: GroupChange) -> ();
        usage(path: &'a Path) -> Usage;
        make_dir(path: &'a Path) -> ();
        remove_dir(path: &'a Path) -> ();
        list_dir(path: &'a Path) -> Option<Vec<String>>;
        write(path: &'a Path, data: &'a [u8]) -> ();
        append(path: &'a Path, data: &'a [u8]) -> ();
        sync(path: &'a Path) -> ();
        read(path: &'a Path) -> Option<Vec<u8>>;
        remove_file(path: &'a Path) -> ();
    }
}
