//! Plants seeded bugs in the machine.

use std::sync::Arc;

use substrate::Now;

use super::State;
use super::ids::VolumeId;
use super::seeded_bugs::SeededBugs;
use super::snapshot::SnapshotState;
use super::volume::Volume;

impl State {
    /// Sets the active seeded bugs.
    pub fn plant(&mut self, seeded_bugs: SeededBugs) {
        self.seeded_bugs = seeded_bugs;
    }

    /// Returns the active seeded bugs.
    pub fn seeded_bugs(&self) -> SeededBugs {
        self.seeded_bugs
    }

    /// Fails the snapshots of a volume that are not completed yet, as a seeded bug does.
    pub(super) fn fail_snapshots_of(&mut self, now: Now, volume: &VolumeId) {
        let pending = self.snapshots.values().filter(|s| s.volume == *volume && s.state == SnapshotState::Pending);
        for id in pending.map(|snapshot| snapshot.id.clone()).collect::<Vec<_>>() {
            self.snapshot_copied(now, &id, Some("The source volume was deleted.".to_owned()));
        }
    }

    /// Returns a volume with all its attachments, including hidden ones.
    pub fn with_lingering(&self, volume: &Arc<Volume>) -> Arc<Volume> {
        if self.lingering.is_empty() {
            return volume.clone();
        }
        let mut whole = Volume::clone(volume);
        let hidden = self.lingering.iter().filter(|((id, _), _)| *id == volume.id);
        whole.attachments.extend(hidden.map(|((_, instance), attachment)| (instance.clone(), attachment.clone())));
        Arc::new(whole)
    }
}
