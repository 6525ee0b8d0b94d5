//! A disk whose mkfs and mounts take the time that they take on real machines, for backends that take none.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand_core::Rng;
use substrate::Ctx;
use substrate::seed::unit;

use super::{
    Backend, Device, Disk, DiskFuture, Mapping, Mount, Plug, Publish, Published, RawDevice, Stage, Staged, Usage,
};

/// How long the slow operations of a disk take: each from the first of the pair to the second, drawn evenly.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// mkfs on an empty device.
    pub mkfs: (Duration, Duration),
    /// Finding, checking and mounting a filesystem.
    pub mount: (Duration, Duration),
    /// A bind mount.
    pub bind: (Duration, Duration),
}

impl Pace {
    /// What operators of EBS quote: NodeStage 2–10 s on a new volume and half a second on one that has a filesystem,
    /// NodePublish 100 ms (ec2-api.md §11).
    pub fn aws() -> Self {
        let ms = Duration::from_millis;
        Self { mkfs: (ms(1_500), ms(9_400)), mount: (ms(400), ms(600)), bind: (ms(80), ms(120)) }
    }

    /// What the driver's authors see: mkfs in about 2 s.
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

/// `disk`, which takes its time in `ctx`'s process.
pub fn paced(ctx: &Ctx, disk: Arc<dyn Disk>, pace: Pace) -> Arc<dyn Disk> {
    Arc::new(PacedDisk { ctx: ctx.clone(), disk, pace, rng: Mutex::new(Box::new(ctx.rng("disk pace"))) })
}

impl PacedDisk {
    async fn take(&self, (least, most): (Duration, Duration)) {
        let part = unit(&mut *self.rng.lock().unwrap_or_else(PoisonError::into_inner));
        self.ctx.sleep(least + (most - least).mul_f64(part)).await;
    }
}

/// Operations that take no time.
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

    /// What was done takes its time before it is told; a crash meanwhile finds it done, as a kernel would have it.
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

    at_once! {
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
        give(path: &'a Path, group: u32) -> ();
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
