//! What happens to the bytes of volumes: files and copies follow what the machine decides.

use std::io;

use substrate::{Ctx, Now, WorldKind};

use super::{Ec2, Inner};
use crate::copy::Copy;
use crate::events::{
    CopyImperfect, FileShort, ModificationChanged, ModificationState, SnapshotChanged, SnapshotPhase, VolumeChanged,
    VolumePhase,
};
use crate::state::NewVolume;
use crate::state::command::{Action, Reply};
use crate::state::error::Ec2Error;
use crate::state::event::Event;
use crate::state::ids::{SnapshotId, VolumeId};

/// Whose bytes a copy brings.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Volume(VolumeId),
    Snapshot(SnapshotId),
}

/// The snapshots that `action` made, and whose bytes each is of.
pub(super) fn kept(action: &Action, reply: &Reply) -> Vec<(String, SnapshotId)> {
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

impl Ec2 {
    /// Keeps the bytes of `source` as `snapshot`, which exists already.
    pub(super) fn keep(&self, ctx: &Ctx, inner: &mut Inner, now: Now, source: &str, snapshot: SnapshotId) {
        if let Some(bytes) = &self.0.config.bytes {
            bytes.snapshot(source, snapshot.as_str());
        }
        let Some(files) = &mut inner.files else { return };
        match files.snapshot(now.mono, source, &snapshot) {
            Ok(None) => {}
            Ok(Some(copy)) => {
                inner.state.snapshot_copying(&snapshot);
                self.copy(ctx, inner, now, copy, Target::Snapshot(snapshot));
            }
            Err(error) => inner.state.snapshot_copied(now, &snapshot, Some(error.to_string())),
        }
    }

    /// Makes `copy` off the request path: on a thread of its own in the live world, at once in simulation, where
    /// nothing may happen at a time that the seed does not decide.
    pub(super) fn copy(&self, ctx: &Ctx, inner: &mut Inner, now: Now, copy: Copy, target: Target) {
        if ctx.world().kind() == WorldKind::Simulated {
            let outcome = copy.by_extents();
            inner.copied(ctx, now, &target, outcome);
            return;
        }
        let (ec2, own) = (self.clone(), ctx.clone());
        let to = target.clone();
        let thread = std::thread::Builder::new().name("mock-ec2 copy".to_owned()).spawn(move || {
            let outcome = copy.by_extents();
            ec2.change(&own, |inner, now| inner.copied(&own, now, &to, outcome));
        });
        if let Err(error) = thread {
            inner.copied(ctx, now, &target, Err(error));
        }
    }
}

impl Inner {
    /// Makes the files of all of `new`, and gives the copies that bring bytes which are not there yet; none of the files
    /// stays when one of them cannot be made.
    pub(super) fn make_all_bytes(
        &mut self,
        ctx: &Ctx,
        now: Now,
        new: &[NewVolume],
    ) -> Result<Vec<(Copy, NewVolume)>, Ec2Error> {
        let mut copies = Vec::new();
        for (made, one) in new.iter().enumerate() {
            match self.make_bytes(ctx, now, one) {
                Ok(copy) => copies.extend(copy.map(|copy| (copy, one.clone()))),
                Err(error) => {
                    for earlier in &new[..made] {
                        self.bytes.iter().for_each(|bytes| bytes.remove(earlier.id.as_str()));
                        if let Some(files) = &mut self.files {
                            // What cannot be removed now is found again at the next start.
                            let _ = files.remove(&earlier.id);
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }

    /// Makes the file of `new`, and gives the copy that brings its bytes unless they are there already.
    pub(super) fn make_bytes(&mut self, ctx: &Ctx, now: Now, new: &NewVolume) -> Result<Option<Copy>, Ec2Error> {
        if let (Some(bytes), Some(source)) = (&self.bytes, &new.source) {
            bytes.restore(source.as_str(), new.id.as_str(), new.size_gib << 30);
        }
        let Some(files) = &mut self.files else { return Ok(None) };
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

    /// Takes note of how the copy of `target` ended.
    fn copied(&mut self, ctx: &Ctx, now: Now, target: &Target, outcome: io::Result<bool>) {
        let failure = outcome.as_ref().err().map(ToString::to_string);
        let id = match target {
            Target::Volume(volume) => {
                self.state.volume_copied(now, volume, failure.is_none());
                volume.as_str()
            }
            Target::Snapshot(snapshot) => {
                self.state.snapshot_copied(now, snapshot, failure.clone());
                snapshot.as_str()
            }
        };
        if !matches!(outcome, Ok(true)) {
            let reason = failure.unwrap_or_else(|| "the source was written while it was copied".to_owned());
            ctx.emit(CopyImperfect { id: id.into(), reason });
        }
    }

    /// Does to the bytes what `event` says.
    pub(super) fn follow_bytes(&mut self, event: &Event) -> Result<(), (String, io::Error)> {
        let (id, done) = match event {
            Event::Volume(VolumeChanged { volume, state: VolumePhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(volume.as_str()));
                (volume.as_str(), self.files.as_mut().map(|f| f.remove(volume)))
            }
            Event::Snapshot(SnapshotChanged { snapshot, state: SnapshotPhase::Deleted, .. }) => {
                self.bytes.iter().for_each(|b| b.remove(snapshot.as_str()));
                (snapshot.as_str(), self.files.as_mut().map(|f| f.remove_snapshot(snapshot)))
            }
            Event::Modification(ModificationChanged { volume, state: ModificationState::Optimizing, size_gib }) => {
                self.bytes.iter().for_each(|b| b.grow(volume.as_str(), size_gib << 30));
                (volume.as_str(), self.files.as_mut().map(|f| f.grow(volume, *size_gib)))
            }
            Event::Snapshot(SnapshotChanged { snapshot, volume, state: SnapshotPhase::Completed, .. })
                if self.state.planted().snapshot_late =>
            {
                let of_volume = self.state.snapshot(snapshot).is_ok_and(|s| !s.copied);
                if !of_volume || self.state.volume(volume).is_err() {
                    return Ok(());
                }
                self.bytes.iter().for_each(|b| b.snapshot(volume.as_str(), snapshot.as_str()));
                (snapshot.as_str(), self.files.as_mut().map(|f| f.take_again(volume, snapshot)))
            }
            _ => return Ok(()),
        };
        done.unwrap_or(Ok(())).map_err(|error| (id.to_owned(), error))
    }
}
