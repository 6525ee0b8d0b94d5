//! Builds snapshots block by block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use substrate::Now;

use super::assembly::{Assembly, StartSnapshot};
use super::error::Ec2Error;
use super::ids::SnapshotId;
use super::latency::Operation;
use super::modify::span;
use super::snapshot::{Snapshot, SnapshotState};
use super::snapshots::{check_completed, check_description, of_copies};
use super::tags::check_tags;
use super::timers::{Progress, Subject};
use super::{Call, State};

/// Number of blocks in a GiB.
const BLOCKS_PER_GIB: u64 = (1 << 30) / crate::blocks::BLOCK;

impl State {
    /// Starts a snapshot that is written block by block. Returns true with it if it is new; a repeated request gets the
    /// snapshot of the first.
    ///
    /// # Errors
    /// The error of EC2.
    pub fn start_snapshot(&mut self, now: Now, request: &StartSnapshot) -> Result<(Arc<Snapshot>, bool), Ec2Error> {
        let call = Call { now, dry_run: false, stick: None };
        if let Some(token) = &request.client_token {
            let same = |s: &&Arc<Snapshot>| s.assembly.as_ref().and_then(|a| a.client_token.as_ref()) == Some(token);
            if let Some(there) = self.snapshots.values().find(same) {
                let differs = there.size_gib != request.size_gib
                    || there.description != request.description
                    || there.assembly.as_ref().is_some_and(|a| a.parent != request.parent);
                return if differs { Err(Ec2Error::TokenMismatch) } else { Ok((there.clone(), false)) };
            }
        }
        let parent = request.parent.as_ref().map(|id| self.snapshot(id)).transpose()?.cloned();
        if let Some(parent) = &parent {
            check_completed(parent, now)?;
            if request.size_gib < parent.size_gib {
                let text = format!(
                    "VolumeSize: {} is less than the {} GiB of {}",
                    request.size_gib, parent.size_gib, parent.id
                );
                return Err(Ec2Error::InvalidParameterValue(text));
            }
            if request.encrypted || request.kms_key.is_some() {
                let text = "Encrypted and KmsKeyArn cannot be used with ParentSnapshotId, whose encryption counts";
                return Err(Ec2Error::InvalidParameterCombination(text.to_owned()));
            }
        }
        if request.kms_key.is_some() && !request.encrypted {
            return Err(Ec2Error::InvalidParameterDependency("KmsKeyArn needs Encrypted".to_owned()));
        }
        super::volume::VolumeType::Gp3.check_size(request.size_gib)?;
        check_description(&request.description)?;
        check_tags(&BTreeMap::new(), &request.tags)?;
        self.check_snapshot_quota(1)?;
        let volume = of_copies(&self.next_volume_id());
        let inherited = parent.as_ref().is_some_and(|parent| parent.encrypted);
        let encrypted = request.encrypted || inherited || self.account.encrypts;
        let key = request.kms_key.as_deref().map(|key| self.key_arn(key));
        let key = key.or_else(|| parent.as_ref().and_then(|parent| parent.kms_key_id.clone()));
        let made = self.new_snapshot(call, &volume, request.size_gib, &request.description, request.tags.clone());
        self.timers.cancel(&made.progress);
        let snapshot = Snapshot {
            encrypted,
            kms_key_id: encrypted.then(|| key.unwrap_or_else(|| self.default_key())),
            progress: Progress::Settled,
            copying: true,
            assembly: Some(Assembly {
                written: BTreeMap::new(),
                parent: request.parent.clone(),
                timeout_minutes: request.timeout_minutes,
                client_token: request.client_token.clone(),
                last: now.mono,
            }),
            ..made
        };
        self.watch_assembly(now.mono, &snapshot.id, request.timeout_minutes);
        Ok((self.add_snapshot(snapshot), true))
    }

    fn watch_assembly(&mut self, from: Duration, id: &SnapshotId, minutes: u64) {
        let due = from + self.scale.apply(Duration::from_secs(minutes * 60));
        self.memories.set(due, Subject::Snapshot(id.clone()));
    }

    /// Returns the snapshot `id` if its block `index` can be written.
    ///
    /// # Errors
    /// The error of EC2.
    pub fn writable(&self, id: &SnapshotId, index: u64) -> Result<&Arc<Snapshot>, Ec2Error> {
        let snapshot = self.snapshot(id)?;
        if snapshot.assembly.is_none() || snapshot.state != SnapshotState::Pending || !snapshot.copying {
            let text = format!(
                "The snapshot '{id}' is not one that blocks can be written to: it is {}.",
                snapshot.state.as_str()
            );
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        let blocks = snapshot.size_gib * BLOCKS_PER_GIB;
        if index >= blocks {
            let text = format!("BlockIndex: {index} is beyond the {blocks} blocks of {} GiB", snapshot.size_gib);
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        Ok(snapshot)
    }

    /// Records the write of block `index` of `id`.
    ///
    /// # Errors
    /// The error of EC2.
    pub fn block_written(&mut self, now: Now, id: &SnapshotId, index: u64, checksum: &str) -> Result<(), Ec2Error> {
        self.writable(id, index)?;
        let snapshot = self.snapshots.get_mut(id).map(Arc::make_mut);
        if let Some(assembly) = snapshot.and_then(|snapshot| snapshot.assembly.as_mut()) {
            assembly.last = now.mono;
            assembly.written.insert(index, checksum.to_owned());
        }
        Ok(())
    }

    /// Completes a snapshot of `blocks` written blocks. `check` verifies their checksums, by block.
    ///
    /// # Errors
    /// The error of EC2 or of `check`.
    pub fn complete_snapshot(
        &mut self,
        now: Now,
        id: &SnapshotId,
        blocks: u64,
        check: impl FnOnce(&BTreeMap<u64, String>) -> Result<(), Ec2Error>,
    ) -> Result<Arc<Snapshot>, Ec2Error> {
        let snapshot = self.snapshot(id)?;
        let Some(assembly) = &snapshot.assembly else {
            let text = format!("The snapshot '{id}' was not started with StartSnapshot.");
            return Err(Ec2Error::InvalidParameterValue(text));
        };
        if snapshot.state == SnapshotState::Error {
            return Err(Ec2Error::SnapshotInState { snapshot: id.clone(), state: snapshot.state.as_str() });
        }
        // A repeated request finds the snapshot completing.
        if !snapshot.copying {
            return Ok(snapshot.clone());
        }
        let written = assembly.written.len() as u64;
        if written != blocks {
            let text = format!("ChangedBlocksCount: {blocks} is not the number of blocks that were written, {written}");
            return Err(Ec2Error::InvalidParameterValue(text));
        }
        check(&assembly.written)?;
        let call = Call { now, dry_run: false, stick: None };
        let subject = Subject::Snapshot(id.clone());
        let progress = self.begin(call, Operation::CreateSnapshot, format_args!("complete {id}"), subject);
        let Some(snapshot) = self.snapshots.get_mut(id) else { return self.snapshot(id).cloned() };
        let inner = Arc::make_mut(snapshot);
        inner.copying = false;
        inner.span = span(now.mono, &progress);
        inner.progress = progress;
        Ok(snapshot.clone())
    }

    /// Fails a snapshot that received no write for its timeout.
    pub(super) fn end_assembly(&mut self, now: Now, id: &SnapshotId) {
        let Some(snapshot) = self.snapshots.get(id).filter(|snapshot| snapshot.copying) else { return };
        let Some(assembly) = &snapshot.assembly else { return };
        let (last, minutes) = (assembly.last, assembly.timeout_minutes);
        if last + self.scale.apply(Duration::from_secs(minutes * 60)) > now.mono {
            return self.watch_assembly(last, id, minutes);
        }
        let text = format!("No block was written for {minutes} minutes.");
        self.snapshot_copied(now, id, Some(text));
    }

    /// Resumes the snapshots that were under construction when the state was saved.
    pub(super) fn resume_assemblies(&mut self) {
        let open = self.snapshots.select_mut(|s| s.assembly.is_some() && s.state == SnapshotState::Pending);
        let open: Vec<(SnapshotId, u64)> = open
            .map(|snapshot| {
                let snapshot = Arc::make_mut(snapshot);
                snapshot.copying = true;
                (snapshot.id.clone(), snapshot.assembly.as_ref().map_or(0, |assembly| assembly.timeout_minutes))
            })
            .collect();
        for (id, minutes) in open {
            self.watch_assembly(Duration::ZERO, &id, minutes);
        }
    }
}
