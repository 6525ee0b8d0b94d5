//! The modelled workload of a pod: one writer per volume. It verifies the existing records and then writes new ones, to
//! a file or to the raw device.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use csi_disk::{DiskError, FileLock, Mapping, RawDevice};
use substrate::latest;

use super::Machine;
use super::api::{Pace, Trouble, VolumeLocation};
use super::events::{WorkloadCorrupt, WorkloadFailed, WorkloadStarted, WorkloadStopped, WorkloadSynced};
use super::log_file::LogFile;
use super::records::{Chain, Corruption};
use super::slots;

/// File in the root of each filesystem.
pub const FILE: &str = "mooring-records";

/// Bytes of a raw device per read.
const PIECE: usize = 128 * slots::SLOT;

/// End of a volume's history; None while unknown.
type End = Arc<tokio::sync::Mutex<Option<Chain>>>;
type WeakEnd = Weak<tokio::sync::Mutex<Option<Chain>>>;

/// End of each written volume's history on this machine. Pods that share a volume write one history.
#[derive(Debug, Default)]
pub(super) struct Chains(Mutex<BTreeMap<Arc<str>, WeakEnd>>);

impl Chains {
    fn of(&self, volume: &Arc<str>) -> End {
        let mut chains = self.0.lock();
        if let Some(end) = chains.get(volume).and_then(Weak::upgrade) {
            return end;
        }
        // The first writer of a volume verifies all of it.
        chains.retain(|_, end| end.strong_count() > 0);
        let end = End::default();
        chains.insert(volume.clone(), Arc::downgrade(&end));
        end
    }
}

/// Place of a writer's records.
pub(super) enum Records {
    /// In a file of a filesystem.
    File(PathBuf),
    /// On a raw device, which the container opens and holds open.
    Device { mapping: Mapping, open: Mutex<Option<Arc<dyn RawDevice>>> },
}

impl Records {
    pub fn at(volume: &str, place: &VolumeLocation) -> Self {
        match place {
            VolumeLocation::Filesystem { path } => Self::File(path.join(FILE)),
            VolumeLocation::Device { published, global, link } => {
                let (device, global, link) = (published.clone(), global.clone(), link.clone());
                let mapping = Mapping { volume: volume.to_owned(), device, global, link };
                Self::Device { mapping, open: Mutex::default() }
            }
        }
    }
}

/// One writer.
pub(super) struct Writer {
    pub machine: Arc<Machine>,
    pub uid: String,
    /// Name of the volume in the pod.
    pub name: String,
    /// Log of the container.
    pub log: Arc<LogFile>,
    /// `<namespace>/<name>`.
    pub pod: Arc<str>,
    /// The volume handle.
    pub volume: Arc<str>,
    pub records: Records,
    pub readonly: bool,
    pub pace: Pace,
}

/// End of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was asked to stop.
    Stopped,
    /// It could not read or write.
    Failed,
}

/// Reason why a writer cannot continue.
enum Failure {
    Corrupt(Corruption),
    Disk(DiskError),
}

impl From<Corruption> for Failure {
    fn from(what: Corruption) -> Self {
        Self::Corrupt(what)
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl Writer {
    /// Verifies, then writes until `stop` is true or the disk fails.
    pub async fn run(self, mut stop: latest::Receiver<bool>) -> Outcome {
        let _history = self.machine.chains.of(&self.volume);
        let outcome = self.work(&mut stop).await;
        let (node, pod, volume) = self.whose();
        self.machine.ctx.emit(WorkloadStopped { node, pod, volume });
        outcome
    }

    async fn work(&self, stop: &mut latest::Receiver<bool>) -> Outcome {
        let found = match self.verify().await {
            Ok(found) => found,
            Err(failure) => {
                if matches!(failure, Failure::Corrupt(_)) {
                    self.started(0, false);
                }
                return self.fail(&failure, stop).await;
            }
        };
        self.started(found, true);
        match found {
            0 => self.print("found no records"),
            1 => self.print("found 1 record, verified"),
            found => self.print(format_args!("found {found} records, verified")),
        }
        if self.readonly || self.pace.records == 0 {
            self.print(if self.readonly { "read-only: nothing is written" } else { "no records are to be written" });
            return stopped(stop).await;
        }
        let mut written = 0;
        loop {
            match self.write().await {
                Ok(record) => {
                    written += 1;
                    let (node, pod, volume) = self.whose();
                    self.machine.ctx.emit(WorkloadSynced { node, pod, record, volume });
                    self.print(format_args!("wrote record {record}"));
                }
                Err(failure) => return self.fail(&failure, stop).await,
            }
            if !self.pause(self.pace.wait(written), stop).await {
                return Outcome::Stopped;
            }
        }
    }

    fn started(&self, records_found: u64, verified: bool) {
        let (node, pod, volume) = self.whose();
        self.machine.ctx.emit(WorkloadStarted { node, pod, records_found, verified, volume });
    }

    /// Waits for `wait`. Returns false if it must stop.
    async fn pause(&self, wait: Duration, stop: &mut latest::Receiver<bool>) -> bool {
        let ctx = &self.machine.ctx;
        let due = ctx.now().mono + ctx.scaled(wait);
        tokio::select! { biased;
            _ = stopped(stop) => false,
            () = ctx.sleep_until(due) => true,
        }
    }

    /// Reads and verifies all records.
    async fn verify(&self) -> Result<u64, Failure> {
        let chain = self.machine.chains.of(&self.volume);
        let mut chain = chain.lock().await;
        *chain = None;
        let _lock = self.lock().await?;
        let read = self.read().await?;
        let last = read.last;
        *chain = Some(read);
        Ok(last)
    }

    async fn read(&self) -> Result<Chain, Failure> {
        match &self.records {
            Records::File(path) => {
                let bytes = self.machine.config.disk.read(path).await?;
                Ok(Chain::verify(&bytes.unwrap_or_default())?)
            }
            Records::Device { mapping, open } => {
                let device = self.opened(mapping, open).await?;
                let (mut reader, mut at) = (slots::Reader::default(), 0);
                loop {
                    let piece = device.read_at(at, PIECE).await?;
                    at += piece.len() as u64;
                    if piece.is_empty() || !reader.feed(&piece)? {
                        return Ok(reader.chain());
                    }
                }
            }
        }
    }

    /// Returns the device, opened at the first use and then held.
    async fn opened(
        &self,
        mapping: &Mapping,
        open: &Mutex<Option<Arc<dyn RawDevice>>>,
    ) -> Result<Arc<dyn RawDevice>, DiskError> {
        let held = || open.lock();
        if let Some(device) = held().clone() {
            return Ok(device);
        }
        let device = self.machine.config.disk.map(mapping).await?;
        *held() = Some(device.clone());
        Ok(device)
    }

    /// Appends one record durably.
    async fn put(&self, last: &Chain, line: &[u8]) -> Result<(), DiskError> {
        match &self.records {
            Records::File(path) => {
                self.machine.config.disk.append(path, line).await?;
                self.machine.config.disk.sync(path).await
            }
            Records::Device { mapping, open } => {
                let device = self.opened(mapping, open).await?;
                let too_long = || std::io::Error::other("a record is longer than a sector");
                let slot = slots::slot(line).ok_or_else(|| DiskError::io("write", &*self.pod, too_long()))?;
                device.write_at(slots::next_offset(last), &slot).await?;
                device.sync().await
            }
        }
    }

    /// Locks the file if other nodes can write to it.
    async fn lock(&self) -> Result<Option<FileLock>, DiskError> {
        match &self.records {
            Records::File(path) => self.machine.config.disk.lock(path).await,
            Records::Device { .. } => Ok(None),
        }
    }

    /// Reads and verifies all records, which must contain those that were known before.
    async fn read_after(&self, known: Option<&Chain>) -> Result<Chain, Failure> {
        let read = self.read().await?;
        match known.map(|known| known.last).filter(|known| *known > read.last) {
            Some(known) => Err(Corruption::Lost { known, found: read.last }.into()),
            None => Ok(read),
        }
    }

    /// Writes one record and makes it durable.
    async fn write(&self) -> Result<u64, Failure> {
        let chain = self.machine.chains.of(&self.volume);
        let mut chain = chain.lock().await;
        let lock = self.lock().await?;
        // After a failed write the file's content is unknown. On a shared file system, others may have written.
        let last = match (chain.take(), &lock) {
            (Some(chain), None) => chain,
            (known, _) => self.read_after(known.as_ref()).await?,
        };
        let (bytes, next) = last.next(&self.pod);
        self.put(&last, &bytes).await?;
        let record = next.last;
        *chain = Some(next);
        Ok(record)
    }

    /// Reports a failure. A writer does not touch corrupt records again: it waits until it is stopped.
    async fn fail(&self, failure: &Failure, stop: &mut latest::Receiver<bool>) -> Outcome {
        let (node, pod, volume) = self.whose();
        match failure {
            Failure::Corrupt(what) => {
                let error = what.to_string();
                self.print(format_args!("corrupt, not touched again: {what}"));
                self.machine.ctx.emit(WorkloadCorrupt { error: error.clone(), node, pod, volume });
                self.trouble("VolumeCorrupt", &error);
                stopped(stop).await
            }
            Failure::Disk(error) => {
                let error = error.to_string();
                self.print(format_args!("error: {error}"));
                self.machine.ctx.emit(WorkloadFailed { error: error.clone(), node, pod, volume });
                self.trouble("WorkloadFailed", &error);
                Outcome::Failed
            }
        }
    }

    fn trouble(&self, reason: &str, what: &str) {
        let message = format!("volume {}: {what}", self.volume);
        self.machine.trouble(Trouble { uid: self.uid.clone(), reason: reason.to_owned(), message });
    }

    /// Prints a line to the container's log.
    fn print(&self, text: impl std::fmt::Display) {
        self.log.print(&self.machine.ctx, &format!("{}: {text}", self.name));
    }

    /// Returns node, pod and volume, for events.
    pub fn whose(&self) -> (Arc<str>, Arc<str>, Arc<str>) {
        (self.machine.node.clone(), self.pod.clone(), self.volume.clone())
    }
}

async fn stopped(stop: &mut latest::Receiver<bool>) -> Outcome {
    // An error means that the container's task is gone, which stops the workload too.
    let _ = stop.wait_for(|stop| *stop).await;
    Outcome::Stopped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_of_a_volume_without_writers_is_dropped() {
        let (chains, volume): (_, fn(u32) -> Arc<str>) = (Chains::default(), |n| format!("vol-{n}").into());
        let writes = chains.of(&volume(0));
        for n in 1..100 {
            chains.of(&volume(n));
        }
        assert!(Arc::ptr_eq(&writes, &chains.of(&volume(0))), "two writers have one history");
        assert_eq!(chains.0.lock().keys().map(|k| &**k).collect::<Vec<_>>(), ["vol-0", "vol-99"]);
    }
}
