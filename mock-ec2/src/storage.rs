//! The bytes of volumes and snapshots: files here, or who keeps them elsewhere, and the copies that are under way.
//! They follow what the machine decides.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use substrate::{Ctx, Now};

use crate::cloud::Heard;
use crate::config::{Config, Error, VolumeBytes};
use crate::copy::Copy;
use crate::events::{
    FileShort, ModificationChanged, ModificationState, SnapshotChanged, SnapshotPhase, VolumeChanged, VolumePhase,
};
use crate::files::VolumeFiles;
use crate::state::NewVolume;
use crate::state::command::{Action, Reply};
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{SnapshotId, VolumeId};

/// Whose bytes a copy brings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

/// The snapshots that `action` made, and whose bytes each is of.
pub(crate) fn kept(action: &Action, reply: &Reply) -> Vec<(String, SnapshotId)> {
    match (action, reply) {
        (Action::CopySnapshot(request), Reply::SnapshotCopied(made)) => {
            vec![(request.source.to_string(), made.id.clone())]
        }
        (_, Reply::Snapshot(made)) => vec![(made.snapshot.volume.to_string(), made.snapshot.id.clone())],
        (_, Reply::SnapshotsMade(all)) => {
            all.iter().map(|made| (made.snapshot.volume.to_string(), made.snapshot.id.clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// All bytes of one cloud. It is used while the cloud is locked.
#[derive(Debug)]
pub(crate) struct Storage {
    inner: Mutex<Inner>,
    bytes: Option<Arc<dyn VolumeBytes>>,
    /// Where the kernel of this machine is asked what is mounted.
    watched: Option<PathBuf>,
}

#[derive(Debug)]
struct Inner {
    files: Option<VolumeFiles>,
    copies: BTreeMap<Target, Arc<Copy>>,
}

impl Storage {
    /// The storage that `config` asks for.
    ///
    /// # Errors
    /// When the volume directory cannot be used.
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let open = |dir| VolumeFiles::open(dir, config.disk_limit, config.keep_files);
        let files = config.volume_dir.as_deref().map(open).transpose()?;
        Ok(Self {
            inner: Mutex::new(Inner { files, copies: BTreeMap::new() }),
            bytes: config.bytes.clone(),
            watched: config.volume_dir.clone().filter(|_| config.watch_mounts),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the files of all volumes and snapshots but those called `known`.
    pub(crate) fn keep_only(&self, known: &BTreeSet<String>) {
        if let Some(files) = &mut self.lock().files {
            files.keep_only(known);
        }
    }

    /// Removes all files.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        inner.copies.clear();
        if let Some(files) = &mut inner.files {
            files.clear();
        }
    }

    /// Whether anybody can be asked what is mounted.
    pub(crate) fn knows_mounts(&self) -> bool {
        self.bytes.is_some() || self.watched.is_some()
    }

    /// Those of `volumes` that are mounted: the keeper of the bytes says it, or the kernel of this machine.
    pub(crate) fn mounted(&self, volumes: &BTreeSet<VolumeId>) -> BTreeSet<VolumeId> {
        match (&self.bytes, &self.watched) {
            (Some(bytes), _) => volumes.iter().filter(|volume| bytes.is_held(volume.as_str())).cloned().collect(),
            (None, Some(dir)) => crate::mounts::mounted(dir, volumes),
            (None, None) => BTreeSet::new(),
        }
    }

    /// Makes the file of `new`, and gives the copy that brings its bytes unless they are there already.
    pub(crate) fn make(&self, ctx: &Ctx, now: Now, new: &NewVolume) -> Result<Option<Copy>, Ec2Error> {
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
            // The request fails, so nothing of it may stay.
            let _ = files.remove(&new.id);
            Ec2Error::InsufficientVolumeCapacity(format!("The bytes of {} cannot be copied: {error}", new.id))
        })
    }

    /// Keeps what `source` (a volume or a snapshot) holds now as `snapshot`, or gives the copy that does.
    pub(crate) fn keep(&self, now: Now, source: &str, snapshot: &SnapshotId) -> io::Result<Option<Copy>> {
        if let Some(bytes) = &self.bytes {
            bytes.snapshot(source, snapshot.as_str());
        }
        match &mut self.lock().files {
            Some(files) => files.snapshot(now.mono, source, snapshot),
            None => Ok(None),
        }
    }

    /// Takes note of a copy that is to be made.
    pub(crate) fn note_copy(&self, target: Target, copy: Arc<Copy>) {
        self.lock().copies.insert(target, copy);
    }

    /// Forgets `copy`; says whether it was still to be made.
    pub(crate) fn forget_copy(&self, target: &Target, copy: &Arc<Copy>) -> bool {
        let mut inner = self.lock();
        let known = inner.copies.get(target).is_some_and(|known| Arc::ptr_eq(known, copy));
        if known {
            inner.copies.remove(target);
        }
        known
    }

    /// The copies that are to be made.
    pub(crate) fn copies(&self) -> Vec<(Target, Arc<Copy>)> {
        self.lock().copies.iter().map(|(target, copy)| (target.clone(), copy.clone())).collect()
    }

    /// Does to the bytes what an event says.
    pub(crate) fn follow(&self, heard: &Heard<'_>) -> Result<(), (String, io::Error)> {
        let mut inner = self.lock();
        let (id, done) = match heard.event {
            Event::Volume(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(volume.as_str()));
                (volume.as_str(), inner.files.as_mut().map(|f| f.remove(volume)))
            }
            Event::Snapshot(SnapshotChanged { snapshot, state: SnapshotPhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(snapshot.as_str()));
                (snapshot.as_str(), inner.files.as_mut().map(|f| f.remove_snapshot(snapshot)))
            }
            Event::Modification(ModificationChanged { volume, state: ModificationState::Optimizing, size_gib }) => {
                self.bytes.iter().for_each(|b| b.grow(volume.as_str(), size_gib << 30));
                (volume.as_str(), inner.files.as_mut().map(|f| f.grow(volume, *size_gib)))
            }
            Event::Snapshot(SnapshotChanged { snapshot, volume, state: SnapshotPhase::Completed, .. })
                if heard.state.planted().snapshot_late =>
            {
                let of_volume = heard.state.snapshot(snapshot).is_ok_and(|s| !s.copied);
                if !of_volume || heard.state.volume(volume).is_err() {
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
