//! Bytes of volumes and snapshots: files here, or another storage, and the copies under way. They follow the machine's
//! events.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use substrate::{Ctx, Now};

use crate::cloud::PublishedEvent;
use crate::config::{Config, Error, VolumeBytes};
use crate::copy::Copy;
use crate::events::{
    FileShort, ModificationChanged, ModificationState, SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase,
};
use crate::files::VolumeFiles;
use crate::journal::Doomed;
use crate::state::command::{Action, Reply};
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{SnapshotId, VolumeId};
use crate::state::saved::PendingCopy;
use crate::state::{NewVolume, State};

/// Target of a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

impl Target {
    fn as_str(&self) -> &str {
        match self {
            Self::Volume(volume) => volume.as_str(),
            Self::Snapshot(snapshot) => snapshot.as_str(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let volume = text.parse().ok().map(Self::Volume);
        volume.or_else(|| text.parse().ok().map(Self::Snapshot))
    }
}

/// Returns the snapshots that `action` created, each with its source.
pub(crate) fn kept(action: &Action, reply: &Reply) -> Vec<(String, SnapshotId)> {
    match (action, reply) {
        (Action::CopySnapshot(request), Reply::SnapshotCopied(made)) => {
            vec![(request.source.to_string(), made.id.clone())]
        }
        (_, Reply::Snapshot(made)) => vec![(made.snapshot.volume.to_string(), made.snapshot.id.clone())],
        (_, Reply::ImageMade { snapshots, .. }) => {
            snapshots.iter().map(|made| (made.volume.to_string(), made.id.clone())).collect()
        }
        (_, Reply::SnapshotsMade(all)) => {
            all.iter().map(|made| (made.snapshot.volume.to_string(), made.snapshot.id.clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// All bytes of one cloud. Used while the cloud is locked.
#[derive(Debug)]
pub(crate) struct Storage {
    inner: Mutex<Inner>,
    bytes: Option<Arc<dyn VolumeBytes>>,
    /// Directory for which the kernel of this machine is asked for mounts.
    watched: Option<PathBuf>,
}

#[derive(Debug)]
struct Inner {
    files: Option<VolumeFiles>,
    /// Copies under way, with their sources.
    copies: BTreeMap<Target, (String, Arc<Copy>)>,
    /// True if the copies changed since they were last recorded.
    others: bool,
    /// Files to remove once that is recorded.
    doomed: Option<Doomed>,
}

impl Inner {
    /// Removes the file `name`, or schedules its removal.
    fn remove(&mut self, name: &str) -> io::Result<()> {
        match (&mut self.files, &mut self.doomed) {
            (Some(_), Some(doomed)) => {
                doomed.names.push(name.to_owned());
                Ok(())
            }
            (Some(files), None) => files.remove(name),
            (None, _) => Ok(()),
        }
    }
}

impl Storage {
    /// Opens the storage of `config`.
    ///
    /// # Errors
    /// If the volume directory cannot be used.
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let open = |dir| VolumeFiles::open(dir, config.disk_limit, config.keep_files);
        let files = config.volume_dir.as_deref().map(open).transpose()?;
        let doomed = config.state_file.as_ref().map(|_| Doomed::default());
        Ok(Self {
            inner: Mutex::new(Inner { files, copies: BTreeMap::new(), others: false, doomed }),
            bytes: config.bytes.clone(),
            watched: config.volume_dir.clone().filter(|_| config.watch_mounts),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Removes the files of all volumes and snapshots except those in `known`.
    pub(crate) fn keep_only(&self, known: &BTreeSet<String>) {
        if let Some(files) = &mut self.lock().files {
            files.keep_only(known);
        }
    }

    /// Removes all files.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        inner.copies.clear();
        if let Some(doomed) = &mut inner.doomed {
            doomed.clears += 1;
            doomed.names.clear();
        }
        if let Some(files) = &mut inner.files {
            files.clear();
        }
    }

    /// Returns true if mounts can be queried.
    pub(crate) fn knows_mounts(&self) -> bool {
        self.bytes.is_some() || self.watched.is_some()
    }

    /// Returns those of `volumes` that are mounted, according to the storage or the kernel of this machine.
    pub(crate) fn mounted(&self, volumes: &BTreeSet<VolumeId>) -> BTreeSet<VolumeId> {
        match (&self.bytes, &self.watched) {
            (Some(bytes), _) => volumes.iter().filter(|volume| bytes.is_held(volume.as_str())).cloned().collect(),
            (None, Some(dir)) => crate::mounts::mounted(dir, volumes),
            (None, None) => BTreeSet::new(),
        }
    }

    /// Creates the files of all of `new`, and returns the copies that bring missing bytes. If one file cannot be
    /// created, removes all of them.
    pub(crate) fn make_all(&self, ctx: &Ctx, now: Now, new: &[NewVolume]) -> Result<Vec<(Copy, NewVolume)>, Ec2Error> {
        let mut copies = Vec::new();
        for (made, one) in new.iter().enumerate() {
            match self.make(ctx, now, one) {
                Ok(copy) => copies.extend(copy.map(|copy| (copy, one.clone()))),
                Err(error) => {
                    for earlier in &new[..made] {
                        self.bytes.iter().for_each(|bytes| bytes.remove(earlier.id.as_str()));
                        if let Some(files) = &mut self.lock().files {
                            // A remaining file is found at the next start.
                            let _ = files.remove(earlier.id.as_str());
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }

    /// Creates the file of `new`, and returns the copy that brings its bytes, if one is needed.
    fn make(&self, ctx: &Ctx, now: Now, new: &NewVolume) -> Result<Option<Copy>, Ec2Error> {
        if let (Some(bytes), Some(source)) = (&self.bytes, &new.source) {
            bytes.restore(source.as_str(), new.id.as_str(), new.size_gib << 30);
        }
        let mut inner = self.lock();
        let Some(files) = &mut inner.files else { return Ok(None) };
        let length = files.create(now.mono, new)?;
        if length != new.size_gib << 30 {
            ctx.emit(FileShort { volume: new.id.clone(), bytes: length });
        }
        files.restore(new).map_err(|error| {
            // The request fails, so the file must not stay.
            let _ = files.remove(new.id.as_str());
            Ec2Error::InsufficientVolumeCapacity(format!("The bytes of {} cannot be copied: {error}", new.id))
        })
    }

    /// Keeps the current bytes of `source` (a volume or a snapshot; of `away` if given) as `snapshot`, or returns the
    /// copy that does.
    pub(crate) fn keep(
        &self,
        now: Now,
        source: &str,
        away: Option<&Self>,
        snapshot: &SnapshotId,
    ) -> io::Result<Option<Copy>> {
        if let Some(bytes) = &self.bytes {
            bytes.snapshot(source, snapshot.as_str());
        }
        // Before this one is locked: two copies may go in opposite directions.
        let path = away.and_then(|away| away.lock().files.as_ref().map(|files| files.path_of(source)));
        match &mut self.lock().files {
            Some(files) => {
                let own = files.path_of(source);
                files.snapshot(now.mono, path.as_ref().unwrap_or(&own), snapshot)
            }
            None => Ok(None),
        }
    }

    /// Creates the bytes of a snapshot that is written block by block, or returns the copy of its parent's bytes.
    pub(crate) fn begin(
        &self,
        now: Now,
        snapshot: &SnapshotId,
        size_gib: u64,
        parent: Option<&SnapshotId>,
    ) -> io::Result<Option<Copy>> {
        match &mut self.lock().files {
            Some(files) => files.begin(now.mono, snapshot, size_gib, parent),
            None => Ok(None),
        }
    }

    /// Opens the bytes of `snapshot` for writing a block; None if no bytes are kept.
    pub(crate) fn open_to_write(&self, now: Now, snapshot: &SnapshotId) -> io::Result<Option<std::fs::File>> {
        self.lock().files.as_mut().map(|files| files.open_to_write(now.mono, snapshot)).transpose()
    }

    /// Records a copy to run.
    pub(crate) fn note_copy(&self, target: Target, source: &str, copy: Arc<Copy>) {
        let mut inner = self.lock();
        inner.copies.insert(target, (source.to_owned(), copy));
        inner.others = true;
    }

    /// Drops `copy`. Returns true if it was still recorded.
    pub(crate) fn forget_copy(&self, target: &Target, copy: &Arc<Copy>) -> bool {
        let mut inner = self.lock();
        let known = inner.copies.get(target).is_some_and(|(_, known)| Arc::ptr_eq(known, copy));
        if known {
            inner.copies.remove(target);
            inner.others = true;
        }
        known
    }

    /// Returns the recorded copies.
    pub(crate) fn copies(&self) -> Vec<(Target, Arc<Copy>)> {
        self.lock().copies.iter().map(|(target, (_, copy))| (target.clone(), copy.clone())).collect()
    }

    /// Returns the recorded copies in their saved form.
    pub(crate) fn pending(&self) -> Vec<PendingCopy> {
        let inner = self.lock();
        let copies = inner.copies.iter();
        copies.map(|(target, (from, _))| PendingCopy { into: target.as_str().to_owned(), from: from.clone() }).collect()
    }

    /// Returns the saved form, if the copies changed since the last call.
    pub(crate) fn take_pending(&self) -> Option<Vec<PendingCopy>> {
        let others = std::mem::take(&mut self.lock().others);
        others.then(|| self.pending())
    }

    /// Resumes the copies of an earlier run. Returns those that cannot be made, with the error.
    pub(crate) fn resume(&self, copies: &[PendingCopy], state: &mut State) -> Vec<(Target, io::Error)> {
        let mut lost = Vec::new();
        for PendingCopy { into, from } in copies {
            let Some(target) = Target::parse(into) else { continue };
            match &target {
                Target::Volume(volume) => state.volume_copying(volume),
                Target::Snapshot(snapshot) => state.snapshot_copying(snapshot),
            }
            let missing = || Err(io::Error::new(io::ErrorKind::NotFound, "the volume directory is gone"));
            let opened = self.lock().files.as_mut().map_or_else(missing, |files| files.copy(from, into));
            match opened {
                Ok(copy) => self.note_copy(target, from, Arc::new(copy)),
                Err(error) => lost.push((target, error)),
            }
        }
        lost
    }

    /// Creates missing files of `volumes`, given with their sizes in GiB: a loss of power may have lost them.
    pub(crate) fn complete(&self, volumes: &[(VolumeId, u64)]) {
        if let Some(files) = &self.lock().files {
            for (volume, size_gib) in volumes {
                // A missing file causes an error when it is opened.
                let _ = files.complete(volume, *size_gib);
            }
        }
    }

    /// Takes the files to remove once that is recorded.
    pub(crate) fn take_doomed(&self) -> Doomed {
        let mut inner = self.lock();
        let Some(doomed) = &mut inner.doomed else { return Doomed::default() };
        Doomed { clears: doomed.clears, names: std::mem::take(&mut doomed.names) }
    }

    /// Removes files. Returns those that cannot be removed, with the error.
    pub(crate) fn remove(&self, Doomed { clears, names }: Doomed) -> Vec<(String, io::Error)> {
        let mut inner = self.lock();
        let Inner { files: Some(files), doomed: Some(doomed), .. } = &mut *inner else { return Vec::new() };
        if doomed.clears != clears {
            return Vec::new();
        }
        names.into_iter().filter_map(|name| files.remove(&name).err().map(|error| (name, error))).collect()
    }

    /// Applies an event to the bytes.
    pub(crate) fn follow(&self, published: &PublishedEvent<'_>) -> Result<(), (String, io::Error)> {
        let mut inner = self.lock();
        let (id, done) = match published.event {
            Event::Volume(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(volume.as_str()));
                (volume.as_str(), Some(inner.remove(volume.as_str())))
            }
            Event::Snapshot(SnapshotChanged { snapshot, state: SnapshotPhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(snapshot.as_str()));
                (snapshot.as_str(), Some(inner.remove(snapshot.as_str())))
            }
            Event::Modification(ModificationChanged { volume, state: ModificationState::Optimizing, .. })
                if published.state.seeded_bugs().keeps_device_size
                    && published.state.volume(volume).is_ok_and(|v| !v.attachments.is_empty()) =>
            {
                return Ok(());
            }
            Event::Modification(ModificationChanged {
                volume, state: ModificationState::Optimizing, size_gib, ..
            }) => {
                self.bytes.iter().for_each(|b| b.grow(volume.as_str(), size_gib << 30));
                (volume.as_str(), inner.files.as_mut().map(|f| f.grow(volume, *size_gib)))
            }
            Event::Snapshot(SnapshotChanged { snapshot, volume, state: SnapshotPhase::Completed, .. })
                if published.state.seeded_bugs().snapshot_late =>
            {
                let of_volume = published.state.snapshot(snapshot).is_ok_and(|s| !s.copied);
                if !of_volume || published.state.volume(volume).is_err() {
                    return Ok(());
                }
                self.bytes.iter().for_each(|b| b.snapshot(volume.as_str(), snapshot.as_str()));
                (snapshot.as_str(), inner.files.as_mut().map(|f| f.take_again(volume, snapshot)))
            }
            _ => return Ok(()),
        };
        done.unwrap_or(Ok(())).map_err(|error| (id.to_owned(), error))
    }
}
